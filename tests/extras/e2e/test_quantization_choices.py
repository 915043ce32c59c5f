"""`precreg quantization` on ONNX models, with sensitivities and proposals, as a user runs it."""

import json

import numpy as np
import pytest

from tests.e2e.command import precreg
from tests.extras.quantization.onnx.made import float_net, images, quantized_net

NET = """
import torch
from torch import nn

def make():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
    with torch.no_grad():
        net[2].weight[:, 3] *= 40
    return net, [torch.randn(64, 12) for _ in range(2)]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    float_net(folder / "float.onnx")
    quantized_net(folder / "int8.onnx", folder / "float.onnx")
    np.savez(folder / "inputs.npz", x=images())
    (folder / "net.py").write_text(NET)
    return folder


def ran(project, *arguments):
    found = precreg(project, "quantization", *arguments)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_a_quantized_graph_is_measured_with_its_own_scales(project):
    shown = ran(project, "int8.onnx", "--float", "float.onnx", "--data", "inputs.npz", "--json", "q.json")
    record = json.loads((project / "q.json").read_text())
    assert record["source"] == "onnx"
    assert [row["layer"] for row in record["rows"]] == ["conv", "pool", "flatten", "up", "tanh", "head"] or record[
        "rows"
    ]
    assert "the quantized model itself:" in shown
    assert "r: the codes cut negative values, so the float form has a Relu" in shown


def test_a_float_graph_has_sensitivities_and_a_proposal(project):
    options = ("--sensitivity", "--max-bits", "8", "--json", "f.json", "--report", "f.html")
    shown = ran(project, "float.onnx", "--data", "inputs.npz", *options)
    record = json.loads((project / "f.json").read_text())
    assert record["proposal"]["bits"] <= 8
    assert record["proposal"]["measured"]["relative"] > 0
    assert "Spearman first order to alone 1.000 (differences at +-0.0625 of each error)" in shown
    page = (project / "f.html").read_text()
    assert "Proposal of formats" in page
    assert "<script" not in page


@pytest.mark.parametrize("options", [("--dynamic",), ("--activations", "mxfp8_e4m3"), ("--activations", "hif8")])
def test_activations_of_a_float_graph_have_every_format(project, options):
    shown = ran(project, "float.onnx", "--data", "inputs.npz", *options, "--json", "a.json")
    record = json.loads((project / "a.json").read_text())
    assert all(row["activation_alone"]["relative"] > 0 for row in record["rows"])
    assert (", chosen at each call" if options == ("--dynamic",) else options[1]) in shown


def test_a_module_has_both_ranks_and_a_proposal_within_its_error(project):
    shown = ran(project, "net:make", "--sensitivity", "--max-error", "0.02", "--json", "m.json")
    record = json.loads((project / "m.json").read_text())
    assert record["sensitivity"]["first_order_alone"] == 1.0
    assert "Spearman first order to alone 1.000 (16 probes)" in shown
    assert record["proposal"]["measured"]["relative"] <= 0.02


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("net:make", "--max-bits", "3"), "expected a budget of at least 4.8210"),
        (("net:make", "--max-bits", "6", "--max-error", "0.1"), "expected a bound on the bits or on the error"),
        (("net:make", "--width", "int4"), "expected --max-bits BITS or --max-error ERROR beside --width"),
        (("net:make", "--max-bits", "6", "--width", "int44"), "int44"),
        (("net:make", "--max-bits", "6", "--width", "float32"), "got float32 alone"),
        (("float.onnx",), "expected data for float.onnx but got none"),
        (("int8.onnx", "--data", "inputs.npz", "--max-bits", "6"), "which is quantized already"),
        (("absent.onnx", "--data", "inputs.npz"), "absent.onnx"),
        (("net.py.onnx", "--data", "inputs.npz"), "net.py.onnx"),
    ],
)
def test_what_cannot_be_measured_is_refused(project, arguments, message):
    (project / "net.py.onnx").write_text(NET)
    found = precreg(project, "quantization", *arguments)
    assert found.returncode in (2, 3, 4), found.stdout + found.stderr
    assert message in found.stderr
    assert "Traceback" not in found.stderr
