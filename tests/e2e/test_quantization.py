"""precreg quantization on stored arrays, without torch: tables, files, and mistakes."""

import json

import numpy as np
import pytest

from precreg.cli.quantization import _GRANULARITIES, _METHODS
from precreg.quantization.kind import GRANULARITIES, METHODS
from precreg.storage import write_safetensors
from tests.e2e.command import precreg


@pytest.fixture(name="folder")
def folder_of_arrays(tmp_path):
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((16, 100)).astype(np.float32)
    weights[3] *= 30
    bad = np.array([1.0, np.nan, np.inf])
    arrays = {"w": weights, "bias": weights[0], "steps": np.arange(4), "bad": bad, "none": np.zeros((0, 3))}
    np.savez(tmp_path / "w.npz", **arrays)
    np.save(tmp_path / "one.npy", weights)
    return tmp_path


def relative(values, quantized):
    return float(np.linalg.norm(values - quantized) / np.linalg.norm(values))


def test_figures_of_a_file_equal_a_direct_computation(folder):
    done = precreg(folder, "quantization", "--arrays", "w.npz", "--weights", "int4", "--json", "-")
    assert done.returncode == 0, done.stderr
    stored = json.loads(done.stdout)
    row = next(row for row in stored["rows"] if row["layer"] == "w")
    weights = np.load(folder / "w.npz")["w"].astype(np.float64)
    scale = np.float32(np.abs(weights).max(axis=1, keepdims=True) / 7).astype(np.float64)
    direct = np.clip(np.rint(weights / scale), -8, 7) * scale
    assert row["weight"]["figures"]["relative_error"] == pytest.approx(relative(weights, direct), rel=1e-12)
    assert [each["channel"] for each in row["weight"]["spread"]["outliers"]] == [3]
    # The text goes to stderr beside JSON on stdout.
    assert "the largest error has" in done.stderr


def test_what_is_left_out_is_named_and_counted(folder):
    done = precreg(folder, "quantization", "--arrays", "w.npz", "--group", 32)
    assert done.returncode == 0, done.stderr
    assert "bad has 2 NaN or infinities, and is left out" in done.stdout
    assert "steps has integers (int64), and is left out" in done.stdout
    assert "none has no elements" in done.stdout


@pytest.mark.parametrize("table", ["granularity", "calibration"])
def test_other_tables(folder, table):
    done = precreg(folder, "quantization", "--arrays", "one.npy", "--table", table, "--granularity", "tensor")
    heading = {"granularity": "group of 32", "calibration": "least squared error"}[table]
    assert heading in done.stdout


def test_files_are_written(folder):
    done = precreg(folder, "quantization", "--arrays", "one.npy", "--report", "page.html", "--json", "q.json")
    assert "written: q.json, page.html" in done.stdout
    assert "SQNR by array" in (folder / "page.html").read_text()
    assert json.loads((folder / "q.json").read_text())["source"] == "arrays"


def test_weights_of_safetensors(folder):
    with open(folder / "w.safetensors", "wb") as stream:
        write_safetensors(stream, {"layer.weight": np.ones((4, 8), np.float16)})
    done = precreg(folder, "quantization", "--arrays", "w.safetensors", "--weights", "float8_e4m3fn")
    assert done.returncode == 0, done.stderr
    assert "layer.weight" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected MODULE:MAKE or --arrays FILE but got neither"),
        (["net:make", "--arrays", "w.npz"], "but got both"),
        (["--arrays", "missing.npz"], "numpy.savez('missing.npz', x=array)"),
        (["--arrays", "w.npz", "--weights", "bf16"], " but got bf16, which needs no scale"),
        (["--arrays", "w.npz", "--weights", "int9"], 'did you mean "int8"'),
        (["--arrays", "w.npz", "--weights", "float"], "expected --weights FORMAT beside --arrays but got float"),
        (["--arrays", "w.npz", "--weights", "e4m3fn", "--zero-point"], "expected integers beside a zero point"),
        (
            ["--arrays", "w.npz", "--granularity", "tensor", "--group", "8"],
            "write --granularity group --group 8",
        ),
        (["--arrays", "w.npz", "--weight-calibration", "entropy"], "calibration entropy"),
    ],
)
def test_mistakes_are_errors_without_a_traceback(folder, arguments, words):
    done = precreg(folder, "quantization", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "what to do:" in done.stderr


def test_a_file_without_floating_arrays_is_an_error(tmp_path):
    np.savez(tmp_path / "i.npz", a=np.arange(3))
    done = precreg(tmp_path, "quantization", "--arrays", "i.npz")
    assert done.returncode == 2
    assert "expected finite floating-point arrays in i.npz but got not_floating" in done.stderr


def test_the_choices_are_those_of_the_room():
    assert (_GRANULARITIES, _METHODS) == (GRANULARITIES, METHODS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--calibration", "mse", "--layers", "w", "--max-bits", 3, "--sensitivity", "--batches", 2], "--batches"),
        (["--weights", "nvfp4", "--granularity", "tensor", "--weight-calibration", "mse"], "--granularity"),
    ],
)
def test_options_without_effect_are_named(folder, arguments, words):
    done = precreg(folder, "quantization", "--arrays", "one.npy", *arguments)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if "no effect" in line)
    given = {each for each in map(str, arguments) if each.startswith("--")} - {"--weights"}
    assert {each for each in given if each in line} == given
    assert words in line


def test_options_with_an_effect_and_defaults_are_not_named(folder):
    done = precreg(folder, "quantization", "--arrays", "one.npy", "--weights", "int4", "--granularity", "tensor")
    assert "no effect" not in done.stdout


def test_a_short_group_has_its_size_and_a_bias_has_one_scale(folder):
    done = precreg(folder, "quantization", "--arrays", "w.npz", "--group", 32)
    assert "w: the last group of each channel has 4 of 32 elements" in done.stdout
    assert "bias has one axis, and so one scale" in done.stdout
    done = precreg(folder, "quantization", "--arrays", "w.npz", "--granularity", "tensor")
    assert "one axis" not in done.stdout
