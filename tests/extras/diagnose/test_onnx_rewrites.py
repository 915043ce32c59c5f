"""Rewrites of ONNX nodes: a change of a model, and the cause that a search names."""

from time import monotonic

import numpy as np
import pytest

from precreg.diagnose.bases import hypotheses_of, prepare_base
from precreg.diagnose.onnx import OnnxRewriting
from precreg.diagnose.search import Base, CauseSearch
from precreg.subject import Call
from tests.diagnose.bases import FOLDER, normal
from tests.extras.onnx_models import FLOAT, FLOAT16, constant, model, node, save, value

RANDOM = np.random.default_rng(3)
SQUARE = RANDOM.standard_normal((48, 48)).astype(np.float32) / 7
QUERY, KEY, BIAS = (RANDOM.standard_normal(shape).astype(np.float32) / 7 for shape in ((48, 32), (48, 32), (48,)))


def casts(name, given, kind=FLOAT16):
    return [node("Cast", [given], [f"{name}_narrow"], to=kind), node("Cast", [f"{name}_narrow"], [name], to=FLOAT)]


def block(
    epsilon=1e-5,
    hop=False,
    root=5.6,
    factor_first=True,
    approximate="none",
    residual=True,
    square=SQUARE,
    turned=0,
    twice=False,
    step=0.02,
    zero=0,
    highest=2.0,
    growth="Exp",
    axis=-1,
):
    """Return a normalization, attention weights, a linear layer, a GELU and a quantized output."""
    numbers = {"root": root, "step": step, "lowest": -2.0, "highest": highest, "factor": 1.1}
    constants = [constant(name, np.float32(number)) for name, number in numbers.items()]
    arrays = {"q": QUERY, "k": KEY, "square": square, "bias": BIAS, "ones": np.ones(48, np.float32)}
    constants += [*(constant(name, array) for name, array in arrays.items()), constant("zero", np.int8(0))]
    constants.append(constant("own_zero", np.int8(zero)))
    order = [node("Mul", ["weights", "factor"], ["more"]), node("Div", ["more", "spread"], ["shared"])]
    if not factor_first:
        order = [node("Div", ["weights", "spread"], ["more"]), node("Mul", ["more", "factor"], ["shared"])]
    nodes = [
        node("LayerNormalization", ["x", "ones"], ["normed"], "norm", epsilon=epsilon, axis=-1),
        node("MatMul", ["normed", "q"], ["query"], "query"),
        node("MatMul", ["normed", "k"], ["key_made" if hop else "key"], "key"),
        *(casts("key", "key_made") if hop else []),
        node("Transpose", ["key"], ["turned_key"], perm=[1, 0]),
        node("MatMul", ["query", "turned_key"], ["scores"], "scores"),
        node("Div", ["scores", "root"], ["scaled"], "scale"),
        node("Softmax", ["scaled"], ["weights"], "softmax", axis=axis),
        node("ReduceSum", ["x", "last"], ["sums"], "sums", keepdims=1),
        node("Abs", ["sums"], ["sizes"]),
        node(growth, ["sizes"], ["spread"], "spread"),
        *order,
        node("MatMul", ["shared", "x"], ["mixed"], "mix"),
        node("Gemm", ["mixed", "square", "bias"], ["linear"], "linear", transB=turned),
        *([node("Add", ["linear", "bias"], ["linear2"])] if twice else []),
        node("Gelu", ["linear2" if twice else "linear"], ["active"], "gelu", approximate=approximate),
        *([node("Add", ["active", "x"], ["total"], "residual")] if residual else []),
        node("Clip", ["total" if residual else "active", "lowest", "highest"], ["clipped"], "clip"),
        node("QuantizeLinear", ["clipped", "step", "own_zero"], ["codes"], "quantize"),
        node("DequantizeLinear", ["codes", "step", "zero"], ["rough"], "dequantize"),
    ]
    constants.append(constant("last", np.array([-1])))
    outputs = [value("clipped", shape=("n", 48)), value("rough", shape=("n", 48))]
    return model(nodes, [value("x", shape=("n", 48))], outputs, constants, opset=20)


X = normal(20, 48)


def engine_of(folder, made, **options):
    path = save(folder / "net.onnx", made)
    return OnnxRewriting({"model": path.name, **options}, Call({"x": X}, {}, folder, folder))


def search(folder, good, bad, **options):
    (folder / "bad").mkdir()
    changed = engine_of(folder / "bad", bad, **options)
    target, _ = changed.record({"x": X}, {})
    base = Base("accepted", engine_of(folder, good, **options), {"x": X}, {}, FOLDER)
    prepared = prepare_base(base, target)
    return CauseSearch(base, prepared.error, prepared.places, hypotheses_of(prepared), monotonic() + 300).run()


CHANGES = {
    "epsilon": ({"epsilon": 1e-3}, "other_option", "norm"),
    "cast": ({"hop": True}, "hop_result", "key"),
    "scale": ({"root": 5.7}, "other_constant", "scale"),
    "order": ({"factor_first": False}, "swapped_order", "shared"),
    "GELU": ({"approximate": "tanh"}, "other_option", "gelu"),
    "residual": ({"residual": False}, "only_operand", "residual"),
    "transposed weights": ({"square": np.ascontiguousarray(SQUARE.T)}, "other_option", "linear"),
    "bias twice": ({"twice": True}, "operand_twice", "linear"),
    "bound": ({"highest": 1.5}, "other_constant", "clip"),
    "zero point": ({"zero": 1}, "other_constant", "quantize"),
    "operator": ({"growth": "Softplus"}, "other_function", "spread"),
    "shared scale": ({"step": 0.04}, "other_constant", "quantize"),
    "axis": ({"axis": 0}, "other_option", "softmax"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("optimization", ["all", "disabled"])
def test_a_change_of_a_model_is_named_with_all_bits(tmp_path, name, optimization):
    options, rewrite, module = CHANGES[name]
    found = search(tmp_path, block(), block(**options), optimization=optimization)
    cause = found.causes[0]
    assert (cause.rewrite, cause.place.site.module) == (rewrite, module), found
    assert cause.evidence.reproduced == cause.evidence.elements, found
