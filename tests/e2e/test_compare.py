"""`precreg compare` as a user meets it: real files of every format, one process a call."""

import json
import os
import signal
import subprocess
import sys
from math import floor, frexp, isfinite

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from precreg.types.comparison import COMPARISON_SCHEMA
from tests.e2e.command import PATIENCE_S, environ, precreg

R = np.random.default_rng(0).standard_normal((4, 64))
GOOD = R.astype(np.float32)
BAD = GOOD.copy()
BAD[1, 2] *= 1.01


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "reference.npy", R)
    np.save(tmp_path / "good.npy", GOOD)
    np.save(tmp_path / "bad.npy", BAD)
    return tmp_path


def saved(array, path):
    """Write an array in the format of a suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".bin":
        array.tofile(path)
    elif path.suffix == ".npz":
        np.savez(path, y=array)
    else:
        save_file({"y": array}, path)


def record(folder, *arguments):
    """Return the exit code and the record of a comparison."""
    done = precreg(folder, "compare", *arguments, "--json", "-")
    return done.returncode, json.loads(done.stdout)


def reasons(record):
    return {pair["name"]: pair["verdict"]["reason"] for pair in record["pairs"]}


def refused(folder, slug, *arguments):
    """Require that a command ends with that error, exit code 2 and no traceback; return what it said."""
    done = precreg(folder, "compare", *arguments)
    assert done.returncode == 2, done.stderr + done.stdout
    assert f"error[{slug}]" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


def test_one_array_within_tolerance(folder):
    done = precreg(folder, "compare", "good.npy", "reference.npy")
    assert done.returncode == 0
    assert "float32 against float64, shape 4×64" in done.stdout
    assert "passed   good   identical" in done.stdout
    assert done.stdout.splitlines()[-1] == "exit 0: the pair is within tolerance"


def test_one_array_out_of_tolerance_shows_where_and_by_how_much(folder):
    done = precreg(folder, "compare", "bad.npy", "reference.npy")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "FAILED   bad   out_of_tolerance" in lines
    worst = lines[next(index for index, line in enumerate(lines) if line.startswith("worst positions")) + 1]
    assert worst.startswith("[1, 2] ")
    assert "match_ratio is 0.9960938, and must be at least 1" in done.stdout
    assert lines[-1].startswith("exit 1: ")


def test_as_users_of_msprof_spell_it(folder):
    np.save(folder / "golden.npy", GOOD)
    command = ["compare", "--golden", "golden.npy", "--actual", "bad.npy", "--rtol", "2e-2", "--atol", "1e-5"]
    done = precreg(folder, *command, "--report", "out/report.html")
    assert done.returncode == 0, done.stdout
    assert "written   out/report.html" in done.stdout
    assert (folder / "out/report.html").read_text().startswith("<!doctype html>")
    assert precreg(folder, *command[:5], "--rtol", "1e-3").returncode == 1


def test_a_golden_has_the_dtype_of_the_actual_and_a_reference_need_not(folder):
    code, found = record(folder, "--actual", "good.npy", "--golden", "reference.npy")
    assert (code, reasons(found)) == (1, {"good": "dtype_mismatch"})
    assert found["settings"]["role"] == "golden"
    assert record(folder, "--actual", "good.npy", "--reference", "reference.npy")[0] == 0


def test_bounds_and_standards(folder):
    assert precreg(folder, "compare", "bad.npy", "reference.npy", "--standard", "double-thousandth-2").returncode == 1
    code, found = record(
        folder, "bad.npy", "reference.npy", "--rtol", "0.1", "--bound", "max_ulp=4", "--bound", "bias=1"
    )
    assert code == 1
    (pair,) = found["pairs"]
    assert [finding["metric"] for finding in pair["verdict"]["findings"]] == ["max_ulp"]
    assert found["settings"]["limits"] == {"rtol": 0.1, "max_ulp": 4.0, "bias": 1.0}


def test_the_tolerances_of_a_project_hold_where_it_is_named(folder):
    (folder / "suites").mkdir()
    (folder / "suites/tolerances.yaml").write_text("default:\n  float32: {rtol: 0.1}\n")
    assert precreg(folder, "compare", "bad.npy", "reference.npy").returncode == 1
    done = precreg(folder, "--project", ".", "compare", "bad.npy", "reference.npy")
    assert done.returncode == 0, done.stdout
    assert precreg(folder, "--project", ".", "compare", "bad.npy", "reference.npy", "--rtol", "1e-4").returncode == 1


@pytest.mark.parametrize("theirs", [".npy", ".npz", ".bin", ".safetensors"])
@pytest.mark.parametrize("ours", [".npy", ".npz", ".bin", ".safetensors"])
def test_every_format_against_every_other(folder, ours, theirs):
    saved(BAD, folder / f"a{ours}")
    saved(R, folder / f"r{theirs}")
    raw = ["--dtype", "float32", "--reference-dtype", "float64"]
    shape = ["--shape", "4x64"] if ours == theirs == ".bin" else []
    code, found = record(folder, f"a{ours}", f"r{theirs}", *raw, *shape)
    assert code == 1
    (pair,) = found["pairs"]
    assert pair["verdict"]["reason"] == "out_of_tolerance"
    assert pair["comparison"]["shape"] == [4, 64]
    assert pair["comparison"]["worst"]["index"][0] == 66


def test_the_dtypes_that_numpy_lacks(folder):
    narrow = R.astype(ml_dtypes.bfloat16)
    np.save(folder / "a.bfloat16.npy", narrow)
    narrow.tofile(folder / "a.bin")
    header = json.dumps({"y": {"dtype": "BF16", "shape": [4, 64], "data_offsets": [0, 512]}}).encode()
    (folder / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + narrow.tobytes())
    for name in ("a.bfloat16.npy", "a.bin", "a.safetensors"):
        code, found = record(folder, name, "reference.npy", "--dtype", "bfloat16")
        assert code == 0
        assert found["pairs"][0]["comparison"]["dtype"] == "bfloat16"
        assert found["pairs"][0]["verdict"]["reason"] == "identical"


def test_raw_files_of_the_other_byte_order(folder):
    GOOD.astype(">f4").tofile(folder / "a.bin")
    big = ["a.bin", "reference.npy", "--dtype", "float32", "--byte-order", "big"]
    assert record(folder, *big)[0] == 0
    assert record(folder, *big[:-1], "little")[0] == 1


def test_arrays_in_fortran_order(folder):
    np.save(folder / "fortran.npy", np.asfortranarray(GOOD))
    assert reasons(record(folder, "fortran.npy", "reference.npy")[1]) == {"fortran": "identical"}


@pytest.fixture
def dumps(tmp_path):
    """Two folders: what is right, and one array for each thing that can be wrong."""
    for name in ("right", "wrong", "shape", "nan", "missing", "broken", "lost"):
        saved(R, tmp_path / f"golden/layers/{name}.npy")
        saved(GOOD, tmp_path / f"out/layers/{name}.npy")
    saved(BAD, tmp_path / "out/layers/wrong.npy")
    saved(GOOD[:3], tmp_path / "out/layers/shape.npy")
    saved(np.where(GOOD[0, 0] == GOOD, np.nan, GOOD), tmp_path / "out/layers/nan.npy")
    (tmp_path / "out/layers/missing.npy").unlink()
    (tmp_path / "golden/layers/lost.npy").unlink()
    (tmp_path / "out/layers/broken.npy").write_bytes((tmp_path / "out/layers/right.npy").read_bytes()[:-1])
    for side, name in (("out", "none"), ("golden", "none")):
        saved(np.zeros((0, 3), np.float32), tmp_path / side / f"{name}.npy")
    (tmp_path / "out/log.txt").write_text("no array")
    return tmp_path


def test_a_folder_against_a_folder(dumps):
    code, found = record(dumps, "out", "golden")
    assert code == 1
    assert reasons(found) == {
        "layers/broken": "subject_error",
        "layers/lost": "missing_output",
        "layers/missing": "missing_output",
        "layers/nan": "non_finite_mismatch",
        "layers/right": "identical",
        "layers/shape": "shape_mismatch",
        "layers/wrong": "out_of_tolerance",
        "none": "empty",
    }
    assert found["schema"] == COMPARISON_SCHEMA
    assert found["warnings"] == [{"kind": "skipped_files", "files": ["out/log.txt"]}]
    places = {pair["name"]: (pair["actual"], pair["reference"]) for pair in found["pairs"]}
    assert places["layers/missing"] == (None, "golden/layers/missing.npy")
    assert places["layers/lost"] == ("out/layers/lost.npy", None)


def test_the_table_has_failures_alone_worst_first(dumps):
    done = precreg(dumps, "compare", "out", "golden")
    assert done.returncode == 1
    listed = [line.split()[:2] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert listed[-1] == ["ERROR", "layers/broken"]
    assert len(listed) == 7
    # A pair that passed is in the curve alone.
    assert [line for line in done.stdout.splitlines() if "layers/right" in line and "|" not in line] == []
    assert "6 failed, 1 error, 1 passed" in done.stdout


@pytest.mark.parametrize(
    ("patterns", "code"),
    [(["right"], 0), (["layers/wrong"], 1), (["layers/[br]*"], 2), (["right", "wrong"], 1)],
)
def test_a_selection_is_judged_alone(dumps, patterns, code):
    options = [option for pattern in patterns for option in ("--select", pattern)]
    assert precreg(dumps, "compare", "out", "golden", *options).returncode == code


def test_a_missing_array_that_is_selected_is_not_nothing_to_compare(dumps):
    code, found = record(dumps, "out", "golden", "--select", "missing")
    assert code == 1
    assert reasons(found) == {"layers/missing": "missing_output"}


def test_nothing_in_common_could_not_be_judged(tmp_path):
    saved(GOOD, tmp_path / "out/a.npy")
    saved(R, tmp_path / "golden/b.npy")
    code, found = record(tmp_path, "out", "golden")
    assert (code, found["pairs"]) == (2, [])
    (finding,) = found["findings"]
    assert "no name is on both sides (out has a, golden has b)" in finding["message"]
    done = precreg(tmp_path, "compare", "out", "golden")
    assert done.returncode == 2
    assert "no name is on both sides" in done.stdout


def test_two_empty_folders_could_not_be_judged(tmp_path):
    (tmp_path / "out").mkdir()
    assert record(tmp_path, "out", "out")[0] == 2


def test_a_mapping_file(dumps):
    (dumps / "names.yaml").write_text("layers/lost: layers/missing\n")
    code, found = record(dumps, "out", "golden", "--mapping", "names.yaml", "--select", "lost")
    assert (code, reasons(found)) == (0, {"layers/lost": "identical"})
    assert found["settings"]["mapping"] == "names.yaml"
    (dumps / "names.yaml").write_text("layers/lost: layers/mising\n")
    said = refused(dumps, "unknown-array", "out", "golden", "--mapping", "names.yaml")
    assert said.startswith("names.yaml:1: ")


def test_a_benchmark_is_measured_against_the_same_reference(folder):
    code, found = record(folder, "good.npy", "reference.npy", "--benchmark", "bad.npy")
    assert code == 0
    (pair,) = found["pairs"]
    assert pair["benchmark_path"] == "bad.npy"
    assert pair["benchmark"]["metrics"]["max_abs_error"] > 1e4 * pair["comparison"]["metrics"]["max_abs_error"]
    assert "benchmark" in precreg(folder, "compare", "good.npy", "reference.npy", "--benchmark", "bad.npy").stdout


def test_a_benchmark_that_cannot_be_held_is_a_warning(folder):
    np.save(folder / "short.npy", GOOD[:2])
    code, found = record(folder, "good.npy", "reference.npy", "--benchmark", "short.npy")
    assert code == 0
    assert found["pairs"][0]["benchmark"] is None
    assert "short.npy: expected shape (4, 64) but got shape=(2, 64)" in found["warnings"][0]["problem"]


def test_a_benchmark_can_judge(folder):
    """AFTER against BEFORE: exit code 1 with the reason `regressed`, in the terminal, in JSON and on the page."""
    near = (R * (1 + 1e-5 * R)).astype(np.float32)
    np.save(folder / "before.npy", near)
    np.save(folder / "after.npy", (R * (1 + 1.58e-5 * R)).astype(np.float32))
    command = ("after.npy", "reference.npy", "--benchmark", "before.npy", "--rtol", "1e-3")
    code, found = record(folder, *command)
    assert (code, found["settings"]["regression"]) == (0, False)
    assert found["pairs"][0]["difference"]["nearer"] == "benchmark"
    code, found = record(folder, *command, "--regression")
    (pair,) = found["pairs"]
    assert (code, pair["verdict"]["reason"]) == (1, "regressed")
    assert pair["difference"]["ratios"][0]["ratio"] == pytest.approx(1.58, rel=0.01)
    done = precreg(folder, "compare", *command, "--regression", "--report", "page.html")
    assert "over the benchmark (" in done.stdout
    assert "worse than the benchmark: mean_abs_error is 1.58 times the benchmark's" in done.stdout
    assert "exit 1: the pair fails: regressed" in done.stdout
    assert "Worse than the benchmark: mean_abs_error is 1.58 times" in (folder / "page.html").read_text()
    assert record(folder, "before.npy", *command[1:], "--regression")[0] == 0
    assert "expected --benchmark beside --regression" in refused(
        folder, "not-comparable", "after.npy", "reference.npy", "--regression"
    )


def test_a_verdict_by_benchmarks_is_the_same_in_any_selection_and_process(folder):
    """70 pairs go to workers; the error level counts all pairs, also those that are not selected."""
    rng = np.random.default_rng(0)
    for index in range(70):
        reference = rng.standard_normal((16, 16))
        sides = {"r": reference, "b": reference * (1 + 1e-3 * rng.standard_normal((16, 16)))}
        sides["a"] = reference + (sides["b"] - reference) * (1.5 if index % 7 == 0 else 1.01)
        for name, array in sides.items():
            saved(array.astype(np.float64 if name == "r" else np.float32), folder / name / f"{index}.npy")
    command = ("a", "r", "--benchmark", "b", "--rtol", "1", "--regression")
    code, found = record(folder, *command, "--jobs", "2")
    assert code == 1
    assert [int(name) for name, reason in reasons(found).items() if reason == "regressed"] == [*range(0, 70, 7)]
    alone = record(folder, *command, "--select", "14")[1]["pairs"]
    assert alone[0]["verdict"] == next(pair["verdict"] for pair in found["pairs"] if pair["name"] == "14")
    (folder / "b/1.npy").unlink()
    (folder / "b/2.npy").write_bytes(b"no array")
    code, found = record(folder, *command, "--select", "1", "--select", "2")
    pairs = {pair["name"]: pair["verdict"] for pair in found["pairs"]}
    assert (pairs["1"]["reason"], pairs["2"]["reason"]) == ("benchmark_error", "benchmark_error")
    assert pairs["1"]["message"] == "expected a benchmark for '1' but there is none"
    assert "b/2.npy" in pairs["2"]["message"]
    assert record(folder, *command, "--select", "?")[0] == 1, "0 and 7 regressed"


def test_how_many_positions_are_kept(folder):
    kept = record(folder, "bad.npy", "reference.npy", "--worst", "3")[1]["pairs"][0]["comparison"]["worst"]
    assert [len(column) for column in kept.values()] == [3, 3, 3]
    assert len(record(folder, "bad.npy", "reference.npy")[1]["pairs"][0]["comparison"]["worst"]["index"]) == 100


def test_the_record_goes_to_a_file_or_to_stdout(folder):
    done = precreg(folder, "compare", "bad.npy", "reference.npy", "--json", "out/record.json")
    assert "written   out/record.json" in done.stdout
    stored = json.loads((folder / "out/record.json").read_text())
    done = precreg(folder, "compare", "bad.npy", "reference.npy", "--json", "-")
    printed = json.loads(done.stdout)
    assert stored["pairs"] == printed["pairs"]
    assert "FAILED   bad   out_of_tolerance" in done.stderr


def test_a_tolerance_that_rounding_breaks_is_a_warning(folder):
    code, found = record(folder, "good.npy", "reference.npy", "--rtol", "1e-9", "--atol", "0")
    assert code == 1
    facts = [warning["fact"] for warning in found["warnings"]]
    assert [(fact["kind"], fact["dtype"]) for fact in facts] == [("rtol_below_ulp", "float32")]


def test_many_pairs_are_shared_among_processes(tmp_path):
    for number in range(70):
        saved(GOOD, tmp_path / f"out/{number}.npy")
        saved(R, tmp_path / f"golden/{number}.npy")
    saved(BAD, tmp_path / "out/33.npy")
    done = precreg(tmp_path, "compare", "out", "golden", "--jobs", "2", "--json", "shared.json")
    assert done.returncode == 1
    assert "70 of 70 pairs" in done.stderr
    alone = record(tmp_path, "out", "golden", "--jobs", "0")[1]
    assert json.loads((tmp_path / "shared.json").read_text())["pairs"] == alone["pairs"]


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_an_interrupted_comparison_says_how_far_it_was(tmp_path, jobs):
    for number in range(64):
        (tmp_path / "out").mkdir(exist_ok=True)
        with (tmp_path / f"out/{number}.bin").open("wb") as stream:
            stream.truncate(64 << 20)  # a hole: no disk, and long enough to be interrupted in
    command = [sys.executable, "-m", "precreg", "compare", "out", "out", "--dtype", "float32", "--jobs", jobs]
    running = subprocess.Popen(command, cwd=tmp_path, env=environ(), stderr=subprocess.PIPE, text=True)
    assert running.stderr.readline() == "6 of 64 pairs\n"
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=PATIENCE_S)[1]
    assert running.returncode == 130
    assert "of 64 pairs were compared" in said
    assert "Traceback" not in said


DAMAGED = {
    "cut.npy": ("bad-array-file", lambda good: good[:-1]),
    "longer.npy": ("bad-array-file", lambda good: good + b"\0"),
    "text.npy": ("bad-array-file", lambda good: b"1 2 3"),
    "text.npz": ("bad-array-file", lambda good: b"1 2 3"),
    "text.safetensors": ("bad-safetensors-file", lambda good: b"1 2 3"),
    "empty.npy": ("bad-array-file", lambda good: b""),
    "empty.safetensors": ("bad-safetensors-file", lambda good: b""),
    "text.csv": ("unknown-file-format", lambda good: b"1, 2, 3"),
    "odd.bin": ("bad-raw-file", lambda good: b"123"),
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("side", ["actual", "reference"])
def test_a_file_that_cannot_be_read_could_not_be_judged(folder, name, side):
    slug, damage = DAMAGED[name]
    (folder / name).write_bytes(damage((folder / "good.npy").read_bytes()))
    pair = [name, "reference.npy"] if side == "actual" else ["good.npy", name]
    assert refused(folder, slug, *pair, "--dtype", "float32").startswith(f"{name}: ")


def test_pickled_objects_are_never_loaded(folder):
    class Trap:
        def __reduce__(self):
            return open, (str(folder / "trapped"), "w")

    np.save(folder / "trap.npy", np.array([Trap()], object), allow_pickle=True)
    refused(folder, "bad-array-file", "trap.npy", "reference.npy")
    assert not (folder / "trapped").exists()


WRONG = {
    "no reference": ("not-comparable", ["good.npy"]),
    "nothing": ("not-comparable", []),
    "three": ("not-comparable", ["good.npy", "reference.npy", "bad.npy"]),
    "ACTUAL given twice": ("not-comparable", ["good.npy", "reference.npy", "--actual", "bad.npy"]),
    "golden and reference": ("not-comparable", ["good.npy", "--golden", "bad.npy", "--reference", "reference.npy"]),
    "a folder of several where an array is expected": ("not-comparable", ["good.npy", "."]),
    "a file that is not there": ("missing-file", ["god.npy", "reference.npy"]),
    "a standard that is not known": ("unknown-standard", ["good.npy", "reference.npy", "--standard", "torch"]),
    "a metric that is not known": ("unknown-metric", ["good.npy", "reference.npy", "--bound", "max_upl=4"]),
    "a bound that is no number": ("bad-value", ["good.npy", "reference.npy", "--bound", "max_ulp"]),
    "a bound that is NaN": ("bad-value", ["good.npy", "reference.npy", "--bound", "max_ulp=nan"]),
    "a share above 1": ("bad-value", ["good.npy", "reference.npy", "--bound", "match_ratio=2"]),
    "an rtol below 0": ("bad-value", ["good.npy", "reference.npy", "--rtol", "-1"]),
    "an atol without end": ("bad-value", ["good.npy", "reference.npy", "--atol", "inf"]),
    "a raw file without a dtype": ("bad-raw-file", ["good.bin", "reference.npy"]),
    "a dtype that is not known": ("unknown-dtype", ["good.bin", "reference.npy", "--dtype", "half"]),
    "a dtype of another size": ("bad-raw-file", ["good.bin", "reference.npy", "--dtype", "float64", "--shape", "4x64"]),
    "a shape of another size": ("bad-raw-file", ["good.bin", "reference.npy", "--dtype", "float32", "--shape", "4x63"]),
    "a shape that is none": ("bad-value", ["good.bin", "reference.npy", "--dtype", "float32", "--shape", "4;64"]),
    "a mapping that is not there": ("missing-file", [".", ".", "--mapping", "none.yaml"]),
    "a selection of nothing": ("nothing-selected", [".", ".", "--select", "none"]),
    "two arrays of one name": ("not-comparable", [".", "."]),
    "a report that cannot be written": ("not-writable", ["good.npy", "reference.npy", "--report", "good.npy/x.html"]),
    "a record that cannot be written": ("not-writable", ["good.npy", "reference.npy", "--json", "good.npy/x.json"]),
    "a record without a name": ("not-writable", ["good.npy", "reference.npy", "--json", ""]),
    "a record and a report in one file": ("bad-value", ["good.npy", "reference.npy", "--json", "x", "--report", "x"]),
    "a project that is none": ("no-project", ["good.npy", "reference.npy"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_asked_wrongly_is_told(folder, name):
    slug, arguments = WRONG[name]
    GOOD.tofile(folder / "good.bin")
    if name in ("a mapping that is not there", "a selection of nothing"):
        (folder / "good.bin").unlink()
    if name == "a project that is none":
        done = precreg(folder, "--project", "none", "compare", *arguments)
        assert (done.returncode, f"error[{slug}]" in done.stderr) == (2, True)
    else:
        refused(folder, slug, *arguments)


def test_options_that_click_refuses(folder):
    for option in (["--rtol", "few"], ["--jobs", "-1"], ["--byte-order", "middle"], ["--worst", "-1"], ["--sedes"]):
        done = precreg(folder, "compare", "good.npy", "reference.npy", *option)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_names_that_no_terminal_should_be_sent(tmp_path):
    name = os.fsencode(tmp_path) + b"/out/a\xff\x1b[31m.npy"
    (tmp_path / "out").mkdir()
    with open(name, "wb") as stream:
        np.save(stream, GOOD)
    done = precreg(tmp_path, "compare", "out", "out", "--json", "record.json")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert json.loads((tmp_path / "record.json").read_text())["pairs"][0]["name"] == "a\\udcff\x1b[31m"


FUNCTIONS = ("exp", "log", "sin", "cos", "tanh")


def every_float16():
    """Return all finite float16 numbers."""
    numbers = np.arange(2**16, dtype=np.uint16).view(np.float16)
    return numbers[np.isfinite(numbers)]


def ulp_errors(actual, reference):
    """Yield the errors of finite pairs in units of the last place of float16, one number at a time."""
    for a, r in zip(actual.tolist(), reference.tolist(), strict=True):
        if isfinite(a) and abs(r) < 65520:  # what is not below rounds to infinity
            exponent = max(frexp(r)[1] - 1, -14) if r else -14
            yield abs(a - r) / 2.0 ** (exponent - 10)


def test_the_library_functions_on_every_float16(tmp_path):
    x = every_float16()
    expected = {}
    with np.errstate(all="ignore"):
        for name in FUNCTIONS:
            function = getattr(np, name)
            actual, reference = function(x), function(x.astype(np.float64))
            assert actual.dtype == np.float16
            saved(actual, tmp_path / f"float16/{name}.npy")
            saved(reference, tmp_path / f"float64/{name}.npy")
            errors = list(ulp_errors(actual, reference))
            expected[name] = {
                "max_ulp": max(errors),
                "share_above_0.5_ulp": sum(error > 0.5 for error in errors) / len(errors),
                "share_above_1_ulp": sum(error > 1 for error in errors) / len(errors),
            }
    _, found = record(tmp_path, "float16", "float64")
    pairs = {pair["name"]: pair["comparison"]["metrics"] for pair in found["pairs"]}
    assert {name: {metric: pairs[name][metric] for metric in expected[name]} for name in FUNCTIONS} == expected
    assert all(isfinite(figures["max_ulp"]) and floor(figures["max_ulp"]) <= 2 for figures in expected.values())
