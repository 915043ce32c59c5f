"""The float64 rules of operators: the same numbers as the reference evaluator, and derivatives as differences."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from precreg.shadow.onnx.exact import ExactNodes, node_rule
from precreg.shadow.onnx.program import Program, ProgramNode
from precreg.subject.onnx import ModelFile, make_session
from precreg.types import Site
from tests.extras.onnx_models import model, node

RNG = np.random.default_rng(5)


def normal(*shape):
    return RNG.standard_normal(shape)


def integers(*values):
    return np.array(values, np.int64)


# Operator, inputs (floats are tracked), attributes.
# One of each kind of function of elements, and of images.
UNARY = [
    "Abs",
    "Atan",
    "Asinh",
    "Celu",
    "Cos",
    "Elu",
    "Exp",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "LogSoftmax",
    "Mish",
    "Neg",
    "Relu",
    "Selu",
    "Sigmoid",
    "Sin",
    "Sinh",
    "Cosh",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "Round",
    "Floor",
    "Ceil",
    "Sign",
    "Flatten",
    "Transpose",
    "Identity",
]
IMAGE = normal(2, 4, 7, 6)
WEIGHTS = normal(6, 2, 3, 3)
SQUARE = {"kernel_shape": [3, 3]}
CASES = [
    *((name, [normal(2, 3, 4, 5)], {}) for name in UNARY),
    *(
        (name, [RNG.uniform(0.2, 0.9, (3, 4))], {})
        for name in ("Log", "Sqrt", "Reciprocal", "Acos", "Asin", "Atanh", "Erf")
    ),
    ("Acosh", [1 + RNG.uniform(0.2, 0.9, (3, 4))], {}),
    ("Gelu", [normal(3, 4)], {"approximate": "tanh"}),
    ("Softmax", [normal(3, 4, 5)], {"axis": 1}),
    *((name, [normal(3, 1, 5), normal(4, 5)], {}) for name in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    ("Pow", [RNG.uniform(0.5, 2, (3, 4)), normal(4)], {}),
    ("Sum", [normal(3, 4), normal(4), normal(3, 1)], {}),
    ("Mean", [normal(3, 4), normal(4), normal(3, 1)], {}),
    ("PRelu", [normal(3, 4), normal(4)], {}),
    ("Clip", [normal(3, 4), np.array(-0.5), np.array(0.7)], {}),
    ("Where", [normal(3, 4) > 0, normal(3, 4), normal(4)], {}),
    ("MatMul", [normal(2, 3, 4), normal(4, 5)], {}),
    ("MatMul", [normal(4), normal(2, 4, 5)], {}),
    ("MatMul", [normal(2, 3, 4), normal(4)], {}),
    ("Gemm", [normal(4, 3), normal(5, 4), normal(5)], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Einsum", [normal(2, 3, 4), normal(2, 4, 5)], {"equation": "bij,bjk->bik"}),
    ("LayerNormalization", [normal(3, 4, 5), normal(5), normal(5)], {}),
    ("LayerNormalization", [normal(3, 4, 5), normal(4, 5)], {"axis": 1, "epsilon": 0.01}),
    ("RMSNormalization", [normal(3, 4, 5), normal(5)], {}),
    ("BatchNormalization", [IMAGE, normal(4), normal(4), normal(4), RNG.uniform(0.5, 2, 4)], {}),
    ("InstanceNormalization", [IMAGE, normal(4), normal(4)], {}),
    ("GroupNormalization", [IMAGE, normal(4), normal(4)], {"num_groups": 2}),
    ("Conv", [IMAGE, normal(6, 4, 3, 2), normal(6)], {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ("Conv", [IMAGE, WEIGHTS], {"group": 2, "dilations": [2, 1], "pads": [1, 1, 1, 1]}),
    ("Conv", [IMAGE, normal(4, 1, 3, 3)], {"group": 4, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("Conv", [normal(2, 3, 9), normal(5, 3, 4)], {"auto_pad": "SAME_LOWER"}),
    ("ConvTranspose", [IMAGE, normal(4, 5, 3, 3), normal(5)], {"strides": [2, 2], "pads": [1, 1, 0, 1]}),
    ("ConvTranspose", [IMAGE, normal(4, 5, 3, 3)], {"output_padding": [1, 0], "strides": [2, 2]}),
    ("MaxPool", [IMAGE], {**SQUARE, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("MaxPool", [IMAGE], {**SQUARE, "strides": [2, 2], "ceil_mode": 1}),
    ("AveragePool", [IMAGE], {**SQUARE, "pads": [1, 1, 1, 1]}),
    ("AveragePool", [IMAGE], {**SQUARE, "pads": [1, 1, 1, 1], "count_include_pad": 1, "strides": [2, 2]}),
    ("AveragePool", [IMAGE], {**SQUARE, "strides": [2, 2], "ceil_mode": 1}),
    *((name, [normal(3, 4, 5), integers(0, 2)], {}) for name in ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2")),
    *((name, [normal(3, 4, 5), integers(-1)], {"keepdims": 0}) for name in ("ReduceMax", "ReduceMin", "ReduceProd")),
    ("ReduceLogSum", [RNG.uniform(0.5, 2, (3, 4))], {}),
    ("ReduceLogSumExp", [normal(3, 4, 5), integers(1)], {"keepdims": 0}),
    ("ReduceSumSquare", [normal(3, 4, 5)], {}),
    ("CumSum", [normal(3, 4), np.array(1)], {}),
    ("CumSum", [normal(3, 4), np.array(0)], {"reverse": 1}),
    ("Concat", [normal(3, 4), normal(3, 2)], {"axis": -1}),
    ("Reshape", [normal(3, 4, 5), integers(0, -1)], {}),
    ("Transpose", [normal(3, 4, 5)], {"perm": [2, 0, 1]}),
    ("Expand", [normal(3, 1), integers(2, 1, 4)], {}),
    ("Slice", [normal(6, 7), integers(1, -1), integers(5, -100), integers(0, 1), integers(2, -2)], {}),
    ("Gather", [normal(6, 4), integers(0, 3, 3, -1)], {"axis": 0}),
    ("Squeeze", [normal(3, 1, 4, 1), integers(1)], {}),
    ("Unsqueeze", [normal(3, 4), integers(0, -1)], {}),
    ("Pad", [normal(3, 4), integers(1, 0, 0, 2), np.array(0.5)], {}),
    ("Tile", [normal(3, 4), integers(2, 1)], {}),
    ("GatherElements", [normal(3, 4), RNG.integers(0, 3, (2, 4))], {"axis": 0}),
    ("GatherND", [normal(3, 4), RNG.integers(0, 3, (5, 1))], {}),
    ("DepthToSpace", [normal(1, 8, 2, 3)], {"blocksize": 2}),
    ("ScatterND", [normal(5, 3), integers(0, 3).reshape(2, 1), normal(2, 3)], {}),
    ("Trilu", [normal(4, 4)], {"upper": 0}),
]


def names_of(inputs):
    return [f"x{place}" for place in range(len(inputs))]


def nodes_of(tmp_path, operator, inputs, attributes, outputs=1, domain="", opset=23):
    """Return the exact nodes of a program of one node, and the node's inputs by name."""
    names = names_of(inputs)
    made = node(operator, names, [f"y{place}" for place in range(outputs)], domain=domain, **attributes)
    program = Program.__new__(Program)
    program.model = model([made], [], [], opset=opset, domains=[domain] if domain else [])
    program.model.ir_version = 10
    given = {each.name: onnx.helper.get_attribute_value(each) for each in made.attribute}
    given = {name: value.decode() if isinstance(value, bytes) else value for name, value in given.items()}
    program.nodes = [ProgramNode(made, {**given, "opset": opset, "outputs": outputs}, tuple(names), Site())]
    exact = ExactNodes(program, ModelFile("m.onnx", b"", tmp_path), 1, np.dtype(np.float64))
    return exact, dict(zip(names, inputs, strict=True))


def evaluated(operator, inputs, attributes, opset=23):
    names = names_of(inputs)
    made = node(operator, names, ["y0"], **attributes)
    kinds = [onnx.helper.np_dtype_to_tensor_dtype(np.asarray(each).dtype) for each in inputs]
    values = [onnx.helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, kinds, strict=True)]
    alone = model(
        [made], values, [onnx.helper.make_tensor_value_info("y0", onnx.TensorProto.DOUBLE, None)], opset=opset
    )
    return ReferenceEvaluator(alone).run(None, dict(zip(names, inputs, strict=True)))[0]


def case_id(case):
    return f"{case[0]}-{'-'.join(map(str, case[2].values()))}"


# The evaluator computes these in float32, or rounds a constant to it.
ROUGH = {"Gelu": 3e-7, "Erf": 3e-7, "Selu": 3e-7, "GroupNormalization": 3e-7, "HardSigmoid": 1e-8, "HardSwish": 1e-7,
         "LayerNormalization": 1e-8, "LeakyRelu": 1e-8, "BatchNormalization": 1e-8, "InstanceNormalization": 1e-8,
         "RMSNormalization": 1e-6}  # fmt: skip


@pytest.mark.parametrize(("operator", "inputs", "attributes"), CASES, ids=map(case_id, CASES))
def test_a_rule_gives_what_the_reference_evaluator_gives(tmp_path, operator, inputs, attributes):
    exact, given = nodes_of(tmp_path, operator, inputs, attributes)
    expected = evaluated(operator, inputs, attributes)
    found = exact.pull_back(0, given, [expected], []).outputs[0].value
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= ROUGH.get(operator, 1e-13) * max(1, np.abs(expected).max())


@pytest.mark.parametrize(("operator", "inputs", "attributes"), CASES, ids=map(case_id, CASES))
def test_gradients_are_those_of_differences(tmp_path, operator, inputs, attributes):
    exact, given = nodes_of(tmp_path, operator, inputs, attributes)
    low = [evaluated(operator, inputs, attributes)]
    of = [name for name, value in given.items() if value.dtype == np.float64]
    require_gradients(exact, given, low, of)


def require_gradients(exact, given, low, of):
    rng = np.random.default_rng(7)
    pulled = exact.pull_back(0, given, low, of)
    weights = [rng.standard_normal(each.shape) if each.value.dtype.kind == "f" else None for each in pulled.outputs]
    back = pulled.back(weights, of)

    def inner(values):
        pairs = zip(weights, exact.compute(0, values, low), strict=False)
        return sum(float(np.sum(weight * made)) for weight, made in pairs if weight is not None)

    for name in of:
        step = rng.standard_normal(given[name].shape) * 1e-5
        moved = [{**given, name: given[name] + sign * step} for sign in (1, -1)]
        expected = (inner(moved[0]) - inner(moved[1])) / 2
        found = float(np.sum(back[name] * step)) if name in back else 0.0
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-10), name


NEW = np.float32


def runtime(tmp_path, operator, inputs, attributes, outputs, domain="com.microsoft"):
    """Return what ONNX Runtime gives for one node of its own domain."""
    names = names_of(inputs)
    kinds = [onnx.helper.np_dtype_to_tensor_dtype(each.dtype) for each in inputs]
    values = [onnx.helper.make_tensor_value_info(name, kind, each.shape)
              for name, kind, each in zip(names, kinds, inputs, strict=True)]  # fmt: skip
    results = [f"y{place}" for place in range(outputs)]
    made = node(operator, names, results, domain=domain, **attributes)
    content = model([made], values, [onnx.ValueInfoProto(name=name) for name in results], domains=[domain])
    session = make_session(ModelFile("m", content.SerializeToString(), tmp_path), {"optimization": "disabled"})
    return session.run(None, dict(zip(names, inputs, strict=True)))


def low(*shape):
    return normal(*shape).astype(np.float32)


TURNED = {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1}
MASK = np.array([[1] * 5, [1, 1, 1, 0, 0]], np.int32)
OWN = [
    ("BiasGelu", [low(2, 3, 8), low(8)], {}, 1),
    ("FastGelu", [low(2, 3, 8), low(8)], {}, 1),
    ("FusedConv", [low(2, 3, 6, 6), low(4, 3, 3, 3), low(4), low(2, 4, 4, 4)], {"activation": "Relu"}, 1),
    ("FusedConv", [low(2, 3, 6, 6), low(4, 3, 3, 3)], {"activation": "LeakyRelu", "activation_params": [0.25]}, 1),
    ("FusedConv", [low(2, 3, 6, 6), low(4, 3, 3, 3)], {"activation": "Clip", "activation_params": [-0.5, 1.0]}, 1),
    ("FusedGemm", [low(3, 4), low(4, 5), low(5)], {"activation": "Relu", "alpha": 0.5}, 1),
    ("FusedMatMul", [low(2, 4, 3), low(2, 5, 4)], {"transA": 1, "transB": 1, "alpha": 0.25}, 1),
    ("FusedMatMul", [low(5, 2, 3, 4), low(2, 3, 4, 6)], {"transBatchA": 1}, 1),
    ("FusedMatMul", [low(4, 2, 3, 5), low(6, 2, 3, 4)], TURNED, 1),
    ("Gelu", [low(3, 4)], {}, 1),
    ("QuickGelu", [low(3, 4)], {}, 1),
    ("SkipLayerNormalization", [low(2, 3, 8), low(2, 3, 8), low(8), low(8), low(8)], {"epsilon": 1e-3}, 1),
    ("SkipSimplifiedLayerNormalization", [low(2, 3, 8), low(2, 3, 8), low(8)], {"epsilon": 1e-3}, 1),
    ("Attention", [low(2, 5, 8), low(8, 24), low(24)], {"num_heads": 2}, 1),
    ("Attention", [low(2, 5, 8), low(8, 24), low(24)], {"num_heads": 2, "unidirectional": 1}, 1),
    ("Attention", [low(2, 5, 8), low(8, 24), low(24), MASK], {"num_heads": 2}, 1),
    ("MultiHeadAttention", [low(2, 5, 8), low(2, 6, 8), low(2, 6, 8), low(24)], {"num_heads": 2}, 1),
    ("EmbedLayerNormalization", [np.array([[1, 2, 3]], np.int32), np.array([[0, 1, 0]], np.int32), low(9, 8),
                                 low(5, 8), low(2, 8), low(8), low(8)], {"epsilon": 1e-3}, 2),
    # Weights of 7 bits: processors without VNNI saturate the sum of two products of 8 bits.
    ("MatMulIntegerToFloat", [RNG.integers(0, 255, (3, 4), np.uint8), RNG.integers(-63, 63, (4, 5), np.int8),
                              np.array(0.1, np.float32), np.array(0.02, np.float32), np.array(120, np.uint8)], {}, 1),
    ("QLinearAdd", [RNG.integers(0, 255, (3, 4), np.uint8), NEW(0.1), np.uint8(3), RNG.integers(0, 255, 4, np.uint8),
                    NEW(0.2), np.uint8(9), NEW(0.4), np.uint8(5)], {}, 1),
    ("QLinearMul", [RNG.integers(0, 255, (3, 4), np.uint8), NEW(0.1), np.uint8(3), RNG.integers(0, 255, 4, np.uint8),
                    NEW(0.2), np.uint8(9), NEW(2.4), np.uint8(5)], {}, 1),
    ("QLinearSigmoid",
     [RNG.integers(0, 255, (3, 4), np.uint8), NEW(0.05), np.uint8(128), NEW(1 / 256), np.uint8(0)], {}, 1),
    ("QLinearLeakyRelu", [RNG.integers(0, 255, (3, 4), np.uint8), NEW(0.05), np.uint8(128), NEW(0.06), np.uint8(8)],
     {"alpha": 0.1}, 1),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "inputs", "attributes", "outputs"), OWN, ids=map(case_id, OWN))
def test_a_rule_of_onnx_runtimes_own_operator_is_what_it_computes(tmp_path, operator, inputs, attributes, outputs):
    inputs = [np.asarray(each) for each in inputs]
    expected = runtime(tmp_path, operator, inputs, attributes, outputs)
    wide = [each.astype(np.float64) if each.dtype == np.float32 else each for each in inputs]
    exact, given = nodes_of(tmp_path, operator, wide, attributes, outputs, domain="com.microsoft", opset=17)
    found = exact.pull_back(0, given, expected, []).outputs[0].value
    if found.dtype.kind in "iu":
        # Halves of a step may fall to another side.
        assert np.abs(found.astype(int) - expected[0].astype(int)).max() <= 1
    else:
        assert np.abs(found - expected[0]).max() <= 4e-6 * np.abs(expected[0]).max()
        floats = [name for name, value in given.items() if value.dtype == np.float64]
        require_gradients(exact, given, expected, floats)
    assert node_rule(exact._program.nodes[0]).rule is not None
