"""precreg quantization on modules of torch: the real command, its data, a suite that gates, and mistakes."""

import json

import numpy as np
import pytest

from tests.e2e.command import accept_on_main, change, precreg, repository

NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 5)

    def forward(self, x, shift=None):
        x = torch.relu(self.up(x))
        return self.down(x if shift is None else x + shift)


def make():
    return Net(), data()


def data():
    torch.manual_seed(7)
    return [torch.randn(16, 16) for _ in range(2)]


def alone():
    return Net()


def nothing():
    return []


def broken():
    raise ValueError("no weights here")


def dynamic():
    from torch.ao.quantization import quantize_dynamic

    torch.manual_seed(0)
    return quantize_dynamic(Net().eval(), {nn.Linear}, dtype=torch.qint8), data()


def float_form():
    torch.manual_seed(0)
    return Net().eval()


def share(outputs):
    return float((outputs[0].argmax(-1) == 1).mean())
"""

SUITE = """suite: quantized
subject: {quantization: "net:make", weights: int8, activations: int8}
inputs:
  x: {shape: [32, 16], dtype: float32, normal: {}}
tolerance:
  outputs:
    quantized.*: {rms_error: 0.15}
    accumulated.down: {rms_error: 0.15}
"""


@pytest.fixture(name="folder")
def folder_of_net(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    return tmp_path


def stored(folder, *arguments):
    done = precreg(folder, "quantization", *arguments, "--json", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_model_gives_a_table_a_record_and_a_page(folder):
    done = precreg(folder, "quantization", "net:make", "--report", "page.html", "--json", "q.json")
    assert done.returncode == 0, done.stderr
    record = json.loads((folder / "q.json").read_text())
    assert [row["layer"] for row in record["rows"]] == ["up", "down"]
    worst = max(record["rows"], key=lambda row: row["both_alone"]["relative"])["layer"]
    first = next(line for line in done.stdout.splitlines() if "Linear" in line)
    assert first.split()[0] == worst
    assert "Error of the model by depth" in (folder / "page.html").read_text()
    # The same weights in each run.
    assert stored(folder, "net:make")["rows"] == record["rows"]


def test_stored_inputs_are_arguments_by_name(folder):
    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal((40, 16)), "shift": rng.standard_normal((40, 32))}
    np.savez(folder / "in.npz", **{name: each.astype(np.float32) for name, each in inputs.items()})
    found = stored(folder, "net:alone", "--data", "in.npz")
    assert found["calibration"] == {"source": "in.npz", "batches": 2, "inputs": 40, "measured": 40, "has_more": False}
    # Other inputs fix the scales: those of one call are too small for these.
    np.save(folder / "small.npy", inputs["x"].astype(np.float32) * 0.01)
    other = stored(folder, "net:alone", "--data", "in.npz", "--calibration-data", "small.npy")
    assert other["total"]["relative"] > 10 * found["total"]["relative"]
    assert other["rows"][0]["activation"]["figures"]["clipped"] == 0


def test_fewer_batches_are_printed(folder):
    done = precreg(folder, "quantization", "net:make", "--batches", 1)
    assert "calibrated with 1 batch of net:make (16 inputs)" in done.stdout
    assert "more batches of the data were left out (--batches)" in done.stdout


def test_options_that_a_quantized_model_does_not_use_are_named(folder):
    done = precreg(folder, "quantization", "net:dynamic", "--weights", "int4", "--group", 32, "--batches", 1)
    assert "--weights, --group have no effect: the model has scales of its own" in done.stdout
    assert "clipping and codes from 1 batch of net:dynamic (16 inputs), measured on 16" in done.stdout
    done = precreg(
        folder, "quantization", "net:make", "--float", "net:float_form", "--activations", "float", "--dynamic"
    )
    assert "--float has no effect: only models that are quantized already need a float form" in done.stdout
    assert "--dynamic has no effect: activations stay float" in done.stdout


def test_a_metric_of_the_project(folder):
    done = precreg(folder, "quantization", "net:make", "--metric", "net:share")
    assert "metric of the float model: " in done.stdout
    assert " metric " in done.stdout


def test_a_dynamic_model_with_and_without_its_float_form(folder):
    without, with_float = stored(folder, "net:dynamic"), stored(folder, "net:dynamic", "--float", "net:float_form")
    assert without["source"] == "torch"
    assert without["rows"][0]["weight_alone"] is None
    assert with_float["rows"][0]["weight_alone"]["relative"] > 0
    for found in (without, with_float):
        assert found["executed"]["relative"] == pytest.approx(found["total"]["relative"], rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["net:alone"], "expected data beside the model but net:alone returns none"),
        (["net:alone", "--data", "net:nothing"], "expected at least one batch of inputs but got 0 from net:nothing"),
        (["net:alone", "--data", "wide.npz"], "batch 0: x: float32 (4, 3), shift: float32 (4, 32)"),
        (["net:alone", "--data", "lengths.npz"], "x: float32 (4, 16), shift: float32 (3, 32)"),
        (["net:alone", "--data", "nan.npy"], "expected finite inputs but got 1 of 32 NaN or infinite in batch 0"),
        (["net:alone", "--data", "missing.npy"], "error[missing-file]"),
        (["net:broken"], "no weights here"),
        (["net:absent"], "error[missing-function]"),
        (["net:make", "--layers", "sideways"], "expected a layer with weights but got layers=sideways"),
        (["net:make", "--weights", "float", "--activations", "float"], "got float for both"),
        (["net:make", "--activations", "int8", "--calibration", "median"], "'median' is not one of"),
    ],
)
def test_mistakes_name_what_was_expected_and_what_came(folder, arguments, words):
    x = np.zeros((4, 16), np.float32)
    np.savez(folder / "wide.npz", x=x[:, :3], shift=np.zeros((4, 32), np.float32))
    np.savez(folder / "lengths.npz", x=x, shift=np.zeros((3, 32), np.float32))
    x[1, 2] = np.nan
    np.save(folder / "nan.npy", x[:2])
    done = precreg(folder, "quantization", *arguments)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr
    assert "this is a bug of precreg" not in done.stderr
    assert "what to do:" in done.stderr


def test_a_suite_gates_the_error_of_a_layer(tmp_path):
    unit = tmp_path / "suites" / "unit"
    unit.mkdir(parents=True)
    (unit / "net.py").write_text(NET)
    (unit / "quantized.yaml").write_text(SUITE)
    folder = accept_on_main(repository(tmp_path))
    assert precreg(folder, "run").returncode == 0
    change(unit / "quantized.yaml", "weights: int8", "weights: int2")
    done = precreg(folder, "run")
    assert done.returncode == 1, done.stdout
    assert "quantized.up" in done.stdout
    assert "rms_error" in done.stdout


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("weights: int8", "weights: int9", "expected one of float, int2"),
        ("weights: int8", "wights: int8", 'but got wights; did you mean "weights"'),
        ("weights: int8", "zero_point: 1", "expected true or false but got zero_point=1"),
        ("weights: int8", "weights: nvfp4, granularity: tensor", "expected no granularity beside weights=nvfp4"),
        ("activations: int8", "activations: float, dynamic: true", "expected no dynamic beside activations=float"),
        ("net:make", "net:mke", "error[missing-function]"),
    ],
)
def test_mistakes_in_a_suite_have_their_line(tmp_path, before, after, words):
    unit = tmp_path / "suites" / "unit"
    unit.mkdir(parents=True)
    (unit / "net.py").write_text(NET)
    (unit / "quantized.yaml").write_text(SUITE.replace(before, after))
    done = precreg(tmp_path, "list")
    assert done.returncode == 2
    assert "suites/unit/quantized.yaml:2: " in done.stderr
    assert words in done.stderr


@pytest.mark.parametrize("option", ["weights: int4", "layers: up", "dynamic: true"])
def test_options_beside_a_quantized_model_fail_the_case_and_name_them(tmp_path, option):
    unit = tmp_path / "suites" / "unit"
    unit.mkdir(parents=True)
    (unit / "net.py").write_text(NET)
    text = SUITE.replace("net:make", "net:dynamic").replace("weights: int8, activations: int8", option)
    (unit / "quantized.yaml").write_text(text)
    done = precreg(tmp_path, "run")
    assert done.returncode == 2, done.stdout
    name = option.partition(":")[0]
    message = f"expected no options beside net:dynamic, which returns a model with scales of its own, but got {name}="
    assert message in done.stdout
    assert "what to do: write subject: {quantization: 'net:dynamic'}" in done.stdout


def test_a_suite_measures_a_quantized_model_without_options(tmp_path):
    unit = tmp_path / "suites" / "unit"
    unit.mkdir(parents=True)
    (unit / "net.py").write_text(NET)
    text = SUITE.replace("net:make", "net:dynamic").replace(", weights: int8, activations: int8", "")
    (unit / "quantized.yaml").write_text(text)
    done = precreg(tmp_path, "run")
    assert "PROPOSED unit/quantized/default" in done.stdout
    assert "scales of its own" not in done.stdout


def test_explain_shows_every_option_of_the_subject(tmp_path):
    unit = tmp_path / "suites" / "unit"
    unit.mkdir(parents=True)
    (unit / "net.py").write_text(NET)
    (unit / "quantized.yaml").write_text(SUITE.replace("activations: int8", "activations: int8, granularity: tensor"))
    done = precreg(tmp_path, "explain", "unit/quantized")
    assert done.returncode == 0, done.stderr
    assert "subject     quantization net:make, weights=int8, activations=int8, granularity=tensor\n" in done.stdout
