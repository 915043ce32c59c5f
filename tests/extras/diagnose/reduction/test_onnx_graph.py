"""Transformers of ONNX with fragile layers, reduced to the nodes that a user made fragile."""

import numpy as np
import onnx
import onnxruntime
import pytest

from precreg.diagnose.reduction import ReduceSettings, reduce_case
from precreg.errors import UserError
from precreg.suite.expand import load_cases
from tests.extras.diagnose.reduction.transformers import SUITE, transformer
from tests.extras.onnx_models import FLOAT, constant, model, node, save, value


def project(folder, made, suite=SUITE):
    save(folder / "suites" / "unit" / "encoder.onnx", made)
    (folder / "suites" / "unit" / "encoder.yaml").write_text(suite)
    return folder


def reduced(folder, **settings):
    (case,) = load_cases(folder)
    return reduce_case(case, folder, ReduceSettings(folder / "reduced", ("cpu", "generic"), **settings))


def places(part):
    return [kept.site.module for kept in part.kept]


def test_an_encoder_without_a_fragile_layer_passes(tmp_path):
    assert reduced(project(tmp_path, transformer())).status == "passed"


def test_a_fragile_softmax_among_183_nodes(tmp_path):
    made = transformer(fragile_attentions=[2])
    found = reduced(project(tmp_path, made))
    assert (found.status, found.engine, found.operations) == ("reduced", "onnx", len(made.graph.node))
    (part,) = found.parts
    assert places(part) == ["/blocks.2/attention/lifted/float16"]
    assert found.runs < 30
    assert part.others < 1 < part.proof
    # The remedy in the reduced model: no cast.
    path = tmp_path / "reduced" / "suites" / "unit" / "reduced_encoder_default" / "model.onnx"
    small = onnx.load(path)
    onnx.checker.check_model(small)
    assert [each.op_type for each in small.graph.node if each.op_type != "Identity"] == ["Cast"]
    boundary = np.load(path.parent / f"{small.graph.input[0].name}.npy")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (narrow,) = session.run(None, {small.graph.input[0].name: boundary})
    assert np.array_equal(narrow, boundary.astype(np.float16))


def test_two_fragile_layers_are_two_parts(tmp_path):
    found = reduced(project(tmp_path, transformer(fragile_norms=[1], fragile_attentions=[2])), parts=3)
    assert found.status == "reduced"
    assert [places(part) for part in found.parts] == [
        ["/blocks.2/attention/lifted/float16"],
        ["/blocks.1/norm1/mean_square/float16"],
    ]
    assert found.parts[0].alone > found.parts[1].alone > 1
    assert found.parts[1].others < 1
    assert found.runs < 60


def test_nodes_that_fail_only_together(tmp_path):
    """Two casts whose errors add up: neither alone breaks the bounds."""
    nodes = []
    for at, name in enumerate(("x", "s0")):
        nodes += [
            node("Cast", [name], [f"n{at}"], f"cast{at}", to=10),
            node("Cast", [f"n{at}"], [f"w{at}"], f"back{at}", to=FLOAT),
            node("Add", [f"w{at}", "lift"], [f"s{at}"], f"add{at}"),
        ]
    constants = [onnx.numpy_helper.from_array(np.float32(0.00017), "lift")]
    made = model(nodes, [value("x", shape=(1,))], [value("s1", shape=(1,))], constants)
    # Both casts of these round down by 1.7e-4.
    suite = """\
suite: encoder
subject: {onnx: encoder.onnx}
inputs: {x: {shape: [1], dtype: float32, constant: {value: 1.00017}}}
tolerance: {rtol: 0, atol: 3.0e-4}
"""
    found = reduced(project(tmp_path, made, suite))
    assert found.status == "reduced"
    (part,) = found.parts
    assert places(part) == ["cast0", "cast1"]
    # The boundary of two nodes that do not touch: the value between them is stored, too.
    assert [(each.role, each.name) for each in part.tensors] == [
        ("input", "x"),
        ("input", "s0"),
        ("output", "n0"),
        ("output", "n1"),
    ]
    assert part.proof is not None


def test_a_fault_of_the_rewritten_program_is_reduced_there(tmp_path):
    """ONNX Runtime folds a shift and a scale into the weights of a convolution, which then round.

    As written, the convolution of integers and the shift are exact.
    """
    weights = np.random.default_rng(0).integers(60, 70, (8, 16, 1, 1)).astype(np.float32)
    shift = -1000 * weights.sum((1, 2, 3)).reshape(8, 1, 1)
    constants = {"w": weights, "shift": shift, "scale": np.full((8, 1, 1), 1 / 3, np.float32)}
    nodes = [
        node("Conv", ["x", "w"], ["h"], "conv"),
        node("Add", ["h", "shift"], ["s"], "shifted"),
        node("Mul", ["s", "scale"], ["y"], "scaled"),
    ]
    initializers = [constant(name, array) for name, array in constants.items()]
    made = model(nodes, [value("x", shape=(1, 16, 4, 4))], [value("y", shape=(1, 8, 4, 4))], initializers)
    suite = """\
suite: encoder
subject: {onnx: encoder.onnx}
inputs: {x: {shape: [1, 16, 4, 4], dtype: float32, integers: {low: 999, high: 1001}}}
tolerance: {rtol: 1e-4, atol: 1e-3}
"""
    found = reduced(project(tmp_path, made, suite))
    assert found.status == "reduced"
    (part,) = found.parts
    assert [kept.name for kept in part.kept] == ["Conv"]
    # No library computes the node of ONNX Runtime in float64: the exact values are stored.
    assert any("expected-" in file or file.endswith("model.onnx") for file in part.files)
    assert part.proof is not None


def test_a_model_in_float64_is_refused(tmp_path):
    made = model([node("Relu", ["x"], ["y"], "relu")], [value("x")], [value("y")])
    suite = """\
suite: encoder
subject: {onnx: encoder.onnx, precision: float64}
reference: k:wrong
inputs: {x: {shape: [2, 4], dtype: float32, normal: {mean: 0, std: 1}}}
"""
    folder = project(tmp_path, made, suite)
    (folder / "suites" / "unit" / "k.py").write_text("def wrong(x):\n    return {'y': x}\n")
    with pytest.raises(UserError, match="irreducible"):
        reduced(folder)
