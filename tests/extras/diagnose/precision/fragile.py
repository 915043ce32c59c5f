"""A transformer of six blocks with two fragile layers: a LayerNorm of large activations, a softmax of large logits."""

import numpy as np

from tests.extras.onnx_models import FLOAT16, constant, model, node, value

ONNX_SUITE = """\
suite: net
subject:
  onnx: net.onnx
  round_nodes: true
OPTIONS
inputs:
  x: {shape: [8, 16, 64], dtype: float16, normal: {}}
tolerance: {rtol: 0, atol: 1000, mean_abs_error: 1e-3}
seeds: 2
"""


class _Graph:
    """Nodes with names of paths, as exporters of torch write them, and their constants."""

    def __init__(self):
        self.nodes, self.constants, self.random = [], [], np.random.default_rng(5)

    def add(self, kind, path, name, *inputs, **attributes):
        out = f"{path}/{name}"
        self.nodes.append(node(kind, [*inputs], [f"{out}_output"], f"/{out}", **attributes))
        return f"{out}_output"

    def constant(self, path, array):
        name = f"{path}.{len(self.constants)}"
        self.constants.append(constant(name, np.asarray(array)))
        return name

    def number(self, path, number):
        return self.constant(path, np.float16(number))

    def linear(self, path, x, inputs, outputs):
        weight = (self.random.standard_normal((inputs, outputs)) * 0.6 / np.sqrt(inputs)).astype(np.float16)
        return self.add("MatMul", path, "MatMul", x, self.constant(path, weight))

    def norm(self, path, x, shift):
        axes = self.constant(path, np.array([-1], np.int64))
        x = self.add("Add", path, "Add", x, self.number(path, shift))
        mean = self.add("ReduceMean", path, "ReduceMean", x, axes, keepdims=1)
        square = self.add("Mul", path, "Mul", x, x)
        of_squares = self.add("ReduceMean", path, "ReduceMean_1", square, axes, keepdims=1)
        of_mean = self.add("Mul", path, "Mul_1", mean, mean)
        variance = self.add("Sub", path, "Sub", of_squares, of_mean)
        root = self.add("Sqrt", path, "Sqrt", self.add("Add", path, "Add_1", variance, self.number(path, 1e-3)))
        return self.add("Div", path, "Div", self.add("Sub", path, "Sub_1", x, mean), root)

    def weights(self, path, q, k, offset):
        turned = self.add("Transpose", path, "Transpose", k, perm=[0, 2, 1])
        scaled = self.add("Mul", path, "Mul", self.add("MatMul", path, "MatMul", q, turned), self.number(path, 0.2))
        return self.add("Softmax", path, "Softmax", self.add("Add", path, "Add", scaled, self.number(path, offset)))

    def block(self, path, x, width, offset, shift):
        normed = self.norm(f"{path}/norm1", x, shift)
        q, k, v = (self.linear(f"{path}/attention/{name}", normed, width, width) for name in "qkv")
        weights = self.weights(f"{path}/attention/weights", q, k, offset)
        mixed = self.add("MatMul", f"{path}/attention", "MatMul", weights, v)
        x = self.add("Add", path, "Add", x, self.linear(f"{path}/attention/out", mixed, width, width))
        up = self.linear(f"{path}/up", self.norm(f"{path}/norm2", x, 0.0), width, 2 * width)
        down = self.linear(f"{path}/down", self.add("Relu", f"{path}/relu", "Relu", up), 2 * width, width)
        return self.add("Add", path, "Add_1", x, down)


def onnx_transformer(width=64, depth=6, offset=400.0, shift=20.0):
    graph = _Graph()
    x = "x"
    for place in range(depth):
        x = graph.block(f"blocks.{place}", x, width, offset if place == 3 else 0.0, shift if place == 1 else 0.0)
    graph.nodes.append(node("Identity", [x], ["y"], "/Identity"))
    shape = ("batch", 16, width)
    return model(graph.nodes, [value("x", FLOAT16, shape)], [value("y", FLOAT16, shape)], graph.constants, opset=18)
