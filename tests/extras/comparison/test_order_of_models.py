"""The order of execution from an ONNX model: its nodes are sorted, and names of tensors are no names of files."""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper

from precreg.comparison.order import read_order
from precreg.errors import UserError
from tests.e2e.command import started
from tests.extras.onnx_models import gelu_net, model, node, save, value

OUTPUTS = ["h", "g", "scaled", "erf", "up", "twice", "gelu", "y"]


def test_tensors_come_in_the_order_of_the_nodes(tmp_path):
    known = read_order(save(tmp_path / "net.onnx", gelu_net()))
    assert (known.source, list(known.names)) == ("onnx", ["x", *OUTPUTS])


def test_the_order_is_topological(tmp_path):
    """Each node of the model comes after those that compute its inputs, whatever the names are."""
    made = gelu_net()
    names = list(read_order(save(tmp_path / "net.onnx", made)).names)
    weights = {each.name for each in made.graph.initializer}
    for each in made.graph.node:
        for needed in set(each.input) - weights:
            assert names.index(needed) < names.index(each.output[0])


def test_tensors_of_a_subgraph_come_before_the_outputs_of_its_node(tmp_path):
    branches = {
        f"{name}_branch": helper.make_graph([node("Identity", ["x"], [f"{name}_y"])], name, [], [value(f"{name}_y")])
        for name in ("then", "else")
    }
    condition = helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, ())
    nodes = [node("If", ["c"], ["inner"], **branches), node("Relu", ["inner"], ["y"])]
    made = model(nodes, [value("x"), condition], [value("y")])
    names = list(read_order(save(tmp_path / "net.onnx", made)).names)
    assert set(names[:2]) == {"x", "c"}
    assert set(names[2:4]) == {"then_y", "else_y"}
    assert names[4:] == ["inner", "y"]


def test_no_model_is_refused(tmp_path):
    (tmp_path / "net.onnx").write_bytes(b"no protobuf of a model")
    with pytest.raises(UserError) as caught:
        read_order(tmp_path / "net.onnx")
    assert caught.value.slug == "bad-model"


def test_without_the_package_the_extra_is_named(tmp_path):
    save(tmp_path / "net.onnx", gelu_net())
    np.save(tmp_path / "y.npy", np.ones(3))
    # A process of its own: a package cannot be imported twice.
    code = "import sys; sys.modules['onnx'] = None; sys.argv[0] = 'precreg'; from precreg.__main__ import main; main()"
    command = [sys.executable, "-c", code, "compare", "y.npy", "y.npy", "--order", "net.onnx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "net.onnx: error[missing-extra]: expected the package onnx" in done.stderr
    assert "precreg[onnx]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_names_the_first_failing_tensor_in_the_order_of_the_model(tmp_path):
    # Names as an exporter of torch writes them: no file can have them.
    nodes = [
        node("Relu", ["x"], ["/layer.1/Relu_output_0"]),
        node("Neg", ["/layer.1/Relu_output_0"], ["/layer.0/Neg_output_0"]),
        node("Abs", ["/layer.0/Neg_output_0"], ["y"]),
    ]
    save(tmp_path / "net.onnx", model(nodes, [value("x")], [value("y")]))
    good = np.linspace(-1, 1, 64)
    for name, factor in (("layer.1/Relu_output_0", 1.0), ("layer.0/Neg_output_0", 1.1), ("y", 1.5)):
        for side, scale in (("actual", factor), ("reference", 1.0)):
            file = tmp_path / side / f"{name}.npy"
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, (good * scale).astype(np.float32))
    done = started(tmp_path, "compare", "actual", "reference", "--order", "net.onnx", "--json", "r.json")
    assert done.returncode == 1, done.stderr
    assert "first failing: layer.0/Neg_output_0 (2 of 3 in order)" in done.stdout
    assert "order     the nodes of the model net.onnx; 1 name of it matches no array (x)" in done.stdout
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["order"]["source"] == "onnx"
    assert [pair["name"] for pair in record["pairs"]] == ["layer.1/Relu_output_0", "layer.0/Neg_output_0", "y"]
