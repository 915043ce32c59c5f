"""References of ONNX models in float64, against longdouble and mpmath."""

import mpmath
import numpy as np
import pytest
from onnx import TensorProto

from precreg.errors import UserError
from precreg.subject import Call
from precreg.subject.onnx.reference import run_reference
from tests.extras.onnx_models import (
    FLOAT,
    FLOAT16,
    INT64,
    WEIGHTS,
    constant,
    gelu_net,
    lossy_net,
    model,
    node,
    save,
    value,
)

ULP = np.finfo(np.float64).eps


@pytest.fixture
def run(tmp_path):
    def run(made, inputs, **options):
        save(tmp_path / "net.onnx", made)
        spec = {"model": "net.onnx", "precision": "float64", **options}
        return run_reference(spec, Call(inputs, {}, tmp_path, tmp_path))

    return run


def drawn(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32).astype(np.float64)


def exact_gelu(x):
    """Return softmax(gelu(x w)) of each row by mpmath, with 40 digits."""
    with mpmath.workdps(40):
        h = mpmath.matrix(x.tolist()) * mpmath.matrix(WEIGHTS.astype(np.float64).tolist())
        # The model has these constants in float32.
        root = mpmath.mpf(float(np.float32(np.sqrt(2))))
        g = h.apply(lambda one: one * (1 + mpmath.erf(one / root)) / 2).tolist()
        sums = [mpmath.fsum(map(mpmath.exp, row)) for row in g]
        return np.array([[float(mpmath.exp(one) / total) for one in row] for row, total in zip(g, sums, strict=True)])


@pytest.mark.parametrize("made", [gelu_net, lossy_net])
def test_a_gelu_has_the_precision_of_float64_and_the_facts_say_who_computed(run, made):
    x = drawn(5, 64)
    found = run(made(), {"x": x})
    assert found.arrays["y"].dtype == np.float64
    # 64 terms of a dot product, and a cast to float16 that the reference widens.
    assert np.abs(found.arrays["y"] / exact_gelu(x) - 1).max() < 1e3 * ULP
    assert found.facts["onnx precision"] == "float64"
    assert found.facts["onnx nodes by onnx.reference"] == "1: Erf"


def test_a_graph_with_all_kernels_is_computed_by_onnx_runtime_alone(run):
    made = model([node("Exp", ["x"], ["e"]), node("ReduceSum", ["e"], ["y"])], [value("x")], [value("y", shape=[1, 1])])
    x = drawn(9, 4)
    found = run(made, {"x": x}, nodes=["e"])
    assert found.facts["onnx nodes by onnxruntime"] == "2"
    assert "onnx nodes by onnx.reference" not in found.facts
    total = np.exp(x.astype(np.longdouble)).sum()
    assert abs(found.arrays["y"].item() / total - 1) < 16 * ULP
    assert list(found.arrays) == ["e", "y"]


def test_a_convolution_is_computed_in_float64_by_the_evaluator(run):
    w = np.random.default_rng(1).standard_normal((3, 2, 3, 3)).astype(np.float32)
    made = model(
        [node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        [value("x", shape=[1, 2, 5, 6])],
        [value("y", shape=None)],
        [constant("w", w)],
    )
    x = drawn(1, 2, 5, 6)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]).astype(np.longdouble)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    exact = np.einsum("ncijkl,ockl->noij", windows, w.astype(np.longdouble))
    found = run(made, {"x": x})
    assert np.abs(found.arrays["y"] - exact).max() < 100 * ULP
    assert found.facts["onnx nodes by onnx.reference"] == "1: Conv"


def test_constants_casts_and_subgraphs_are_widened(run):
    casts = [node("Cast", ["x"], ["narrow"], to=FLOAT16), node("Cast", ["narrow"], ["c"], to=FLOAT)]
    third = node("Constant", [], ["third"], value_float=float(np.float32(1) / 3))
    branches = {}
    for name, op in (("then_branch", "Add"), ("else_branch", "Sub")):
        graph = model([node(op, ["c", "third"], ["b"])], [], [value("b", shape=None)]).graph
        branches[name] = graph
    nodes = [third, *casts, node("If", ["flag"], ["y"], **branches)]
    made = model(nodes, [value("x"), value("flag", TensorProto.BOOL, [])], [value("y")])
    x = drawn(2, 4)
    for flag in (True, False):
        found = run(made, {"x": x, "flag": np.array(flag)}).arrays["y"]
        exact = x + np.float64(np.float32(1) / 3) * (1 if flag else -1)
        assert np.abs(found - exact).max() <= 4 * ULP


def test_quantized_integers_stay_integers_and_scales_are_float64(run):
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
        node("DequantizeLinear", ["b", "s"], ["bias"]),
    ]
    # An int32 that float32 cannot hold.
    constants = [constant("s", np.float32(0.1)), constant("z", np.uint8(128)), constant("b", np.int32([2**30 + 1]))]
    made = model(nodes, [value("x")], [value("y"), value("bias", shape=[1])], constants, opset=13)
    x = drawn(3, 4)
    found = run(made, {"x": x}, nodes=["q"])
    scale = np.float64(np.float32(0.1))
    codes = np.clip(np.rint(x / scale) + 128, 0, 255)
    assert found.arrays["q"].dtype == np.uint8
    assert (found.arrays["q"] == codes).all()
    assert (found.arrays["y"] == (codes - 128) * scale).all()
    assert found.arrays["bias"].item() == (2**30 + 1) * scale


def test_a_node_that_nothing_computes_in_float64_is_refused_by_name(run):
    nodes = [node("MelWeightMatrix", ["n", "n", "n", "low", "high"], ["m"], "mel"), node("Add", ["m", "x"], ["y"])]
    inputs = [value("x", shape=[5, 8]), value("n", INT64, [])]
    constants = [constant("low", np.float32(0)), constant("high", np.float32(4))]
    made = model(nodes, inputs, [value("y", shape=None)], constants)
    given = {"x": drawn(5, 8), "n": np.array(8)}
    with pytest.raises(UserError) as caught:
        run(made, given)
    assert caught.value.slug == "unsupported-model"
    assert "expected MelWeightMatrix (mel) in float64 but" in caught.value.message
    assert "fallback: float32" in caught.value.message
    found = run(made, given, fallback="float32")
    assert found.facts["onnx nodes by onnxruntime in float32 only"] == "1: MelWeightMatrix"


def test_kernels_that_refuse_float64_when_they_run_are_replaced(run):
    w, r = (np.random.default_rng(seed).standard_normal((1, 9, 3)).astype(np.float32) for seed in (1, 2))
    made = model(
        [node("GRU", ["x", "w", "r"], ["", "y"], hidden_size=3)],
        [value("x", shape=[4, 2, 3])],
        [value("y", shape=None)],
        [constant("w", w), constant("r", r)],
        opset=14,
    )
    found = run(made, {"x": drawn(4, 2, 3)})
    assert found.facts["onnx nodes by onnx.reference"] == "1: GRU"
    assert found.arrays["y"].dtype == np.float64
    assert (found.arrays["y"].astype(np.float32) != found.arrays["y"]).any()


def test_a_long_double_is_a_float64_input(run):
    made = model([node("Neg", ["x"], ["y"])], [value("x", FLOAT)], [value("y", FLOAT)])
    assert run(made, {"x": drawn(2, 4).astype(np.longdouble)}).arrays["y"].dtype == np.float64


@pytest.mark.parametrize("opset", [13, 20])
def test_scales_along_an_axis_and_functions_are_in_float64(run, opset):
    """Gelu is a function of Erf in opset 20."""
    scales = np.array([0.1, 0.3, 0.7], np.float32)
    q = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    nodes = [node("DequantizeLinear", ["q", "s"], ["d"], axis=0)]
    nodes += [node("Gelu", ["d"], ["g"])] if opset == 20 else [node("Erf", ["d"], ["g"])]
    made = model(
        [*nodes, node("Add", ["g", "x"], ["y"])],
        [value("x", shape=[3, 4])],
        [value("y", shape=[3, 4])],
        [constant("q", q), constant("s", scales)],
        opset=opset,
    )
    found = run(made, {"x": np.zeros((3, 4))}, nodes=["d", "g"])
    wide = q * scales.astype(np.float64)[:, None]
    assert (found.arrays["d"] == wide).all()
    with mpmath.workdps(40):
        root = mpmath.sqrt(2)
        exact = [mpmath.erf(one) if opset == 13 else one * (1 + mpmath.erf(one / root)) / 2 for one in wide.ravel()]
        errors = [abs(got - one) for got, one in zip(found.arrays["g"].ravel().tolist(), exact, strict=True)]
    assert max(errors) < 8 * ULP


def test_dynamic_quantization_has_scales_in_float64(run):
    made = model(
        [node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])],
        [value("x")],
        [value("q", TensorProto.UINT8), value("s", shape=[]), value("z", TensorProto.UINT8, [])],
    )
    x = drawn(5, 4)
    found = run(made, {"x": x}).arrays
    assert found["s"] == (max(x.max(), 0) - min(x.min(), 0)) / 255
    restored = (found["q"].astype(np.float64) - found["z"]) * found["s"]
    assert np.abs(restored - x).max() <= found["s"] * (1 / 2 + 1 / 2)
