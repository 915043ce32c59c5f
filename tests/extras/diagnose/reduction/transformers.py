"""Small transformers of ONNX that store activations in float16, with fragile forms of some layers.

ONNX Runtime has no kernels of float16 for most processors, and computes such operators in float32 without rounding. So
the storage is explicit: a cast to float16 and one back.
"""

import numpy as np
from onnx import numpy_helper

from tests.extras.onnx_models import FLOAT, FLOAT16, model, node, value

LENGTH, WIDTH, HEADS, HIDDEN = 12, 32, 4, 64


class _Graph:
    """The nodes and constants of a graph; each call adds a node and returns the name of its result."""

    def __init__(self, seed):
        self.nodes, self.constants, self._random = [], [], np.random.default_rng(seed)

    def add(self, operator, *inputs, name, **attributes):
        self.nodes.append(node(operator, [*inputs], [name], name, **attributes))
        return name

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, name, number):
        return self.constant(name, np.float32(number))

    def stored(self, name):
        """Store a value in float16."""
        narrow = self.add("Cast", name, name=f"{name}/float16", to=FLOAT16)
        return self.add("Cast", narrow, name=f"{name}/stored", to=FLOAT)

    def weight(self, name, *shape):
        return self.constant(name, (self._random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))


def _layer_norm(graph, x, at, fragile):
    """Normalize rows; the fragile form takes E[x^2] - E[x]^2 as the variance, and stores E[x^2] in float16."""
    mean = graph.add("ReduceMean", x, name=f"{at}/mean", axes=[-1])
    centered = graph.add("Sub", x, mean, name=f"{at}/centered")
    if fragile:
        squares = graph.add("Mul", x, x, name=f"{at}/squares")
        mean_square = graph.add("ReduceMean", squares, name=f"{at}/mean_square", axes=[-1])
        mean_square = graph.stored(mean_square)
        square_mean = graph.add("Mul", mean, mean, name=f"{at}/square_mean")
        variance = graph.add("Sub", mean_square, square_mean, name=f"{at}/variance")
    else:
        squares = graph.add("Mul", centered, centered, name=f"{at}/squares")
        variance = graph.add("ReduceMean", squares, name=f"{at}/variance", axes=[-1])
    shifted = graph.add("Add", variance, graph.number(f"{at}/eps", 1e-3), name=f"{at}/shifted")
    deviation = graph.add("Sqrt", shifted, name=f"{at}/deviation")
    return graph.stored(graph.add("Div", centered, deviation, name=f"{at}/normed"))


def _softmax(graph, scores, at, fragile):
    """Return the weights; the fragile form stores scores that it has lifted far from 0."""
    if fragile:
        scores = graph.add("Add", scores, graph.number(f"{at}/lift", 900.0), name=f"{at}/lifted")
        scores = graph.stored(scores)
    return graph.add("Softmax", scores, name=f"{at}/softmax", axis=-1)


def _split(graph, x, at, axes):
    shape = graph.constant(f"{at}/shape", np.array([LENGTH, HEADS, WIDTH // HEADS], np.int64))
    heads = graph.add("Reshape", x, shape, name=f"{at}/split")
    return graph.add("Transpose", heads, name=f"{at}/heads", perm=axes)


def _attention(graph, x, at, fragile):
    q, k, v = (
        _split(
            graph,
            graph.add("MatMul", x, graph.weight(f"{at}/w{name}", WIDTH, WIDTH), name=f"{at}/{name}"),
            f"{at}/{name}",
            axes,
        )
        for name, axes in (("q", [1, 0, 2]), ("k", [1, 2, 0]), ("v", [1, 0, 2]))
    )
    scores = graph.add("MatMul", q, k, name=f"{at}/products")
    scores = graph.add("Mul", scores, graph.number(f"{at}/scale", (WIDTH // HEADS) ** -0.5), name=f"{at}/scores")
    weights = _softmax(graph, scores, at, fragile)
    mixed = graph.add("MatMul", weights, v, name=f"{at}/mixed")
    moved = graph.add("Transpose", mixed, name=f"{at}/moved", perm=[1, 0, 2])
    shape = graph.constant(f"{at}/joined_shape", np.array([LENGTH, WIDTH], np.int64))
    joined = graph.add("Reshape", moved, shape, name=f"{at}/joined")
    return graph.add("MatMul", joined, graph.weight(f"{at}/wo", WIDTH, WIDTH), name=f"{at}/projected")


def transformer(layers=4, fragile_norms=(), fragile_attentions=(), seed=0):
    """Return an encoder of pre-norm blocks on a residual stream; the fragile layers are given by their numbers."""
    graph = _Graph(seed)
    x = graph.add("Add", "x", graph.number("bias", 8.0), name="embedded")
    for layer in range(layers):
        at = f"/blocks.{layer}"
        normed = _layer_norm(graph, x, f"{at}/norm1", layer in fragile_norms)
        attended = _attention(graph, normed, f"{at}/attention", layer in fragile_attentions)
        x = graph.stored(graph.add("Add", x, attended, name=f"{at}/residual1"))
        normed = _layer_norm(graph, x, f"{at}/norm2", False)
        hidden = graph.add("MatMul", normed, graph.weight(f"{at}/w1", WIDTH, HIDDEN), name=f"{at}/up")
        active = graph.add("Relu", hidden, name=f"{at}/relu")
        down = graph.add("MatMul", active, graph.weight(f"{at}/w2", HIDDEN, WIDTH), name=f"{at}/down")
        x = graph.stored(graph.add("Add", x, down, name=f"{at}/residual2"))
    graph.add("Identity", _layer_norm(graph, x, "/norm", False), name="y")
    shape = (LENGTH, WIDTH)
    return model(graph.nodes, [value("x", FLOAT, shape)], [value("y", FLOAT, shape)], graph.constants)


SUITE = """\
suite: encoder
about: An encoder that stores activations in float16
subject: {onnx: encoder.onnx}
inputs:
  x: {shape: [12, 32], dtype: float32, normal: {mean: 0, std: 1}}
tolerance: {rtol: 2e-2, atol: 1e-2}
"""
