"""Small ONNX models for tests."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, DOUBLE, FLOAT16, INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64
node = helper.make_node


def value(name, kind=FLOAT, shape=("n", 4)):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, inputs, outputs, constants=(), opset=17, domains=()):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, [*constants])
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def save(path, made, external=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    if external is None:
        onnx.save(made, path)
    else:
        onnx.save(made, path, save_as_external_data=True, location=external, size_threshold=0)
    return path


WEIGHTS = np.random.default_rng(7).standard_normal((64, 32)).astype(np.float32) / 8


def gelu_net(between=()):
    """Return softmax(gelu(x w)) with further nodes from h to g; the last of them gives g."""
    middle = [*between] or [node("Identity", ["h"], ["g"], "copy")]
    nodes = [
        node("MatMul", ["x", "w"], ["h"], "linear"),
        *middle,
        node("Div", ["g", "root"], ["scaled"]),
        node("Erf", ["scaled"], ["erf"]),
        node("Add", ["erf", "one"], ["up"]),
        node("Mul", ["g", "up"], ["twice"]),
        node("Mul", ["twice", "half"], ["gelu"], "gelu"),
        node("Softmax", ["gelu"], ["y"], "head"),
    ]
    numbers = {"root": np.sqrt(2), "one": 1, "half": 0.5}
    constants = [constant("w", WEIGHTS), *(constant(name, np.float32(number)) for name, number in numbers.items())]
    return model(nodes, [value("x", shape=("n", 64))], [value("y", shape=("n", 32))], constants)


def lossy_net():
    """Return the same net, with a cast to float16 and back."""
    casts = [node("Cast", ["h"], ["narrow"], to=FLOAT16), node("Cast", ["narrow"], ["g"], to=FLOAT)]
    return gelu_net(casts)


def rewritten_net():
    """Return the same net by other nodes, with the same results."""
    return gelu_net([node("Transpose", ["h"], ["t"], perm=[1, 0]), node("Transpose", ["t"], ["g"], perm=[1, 0])])
