"""Networks of ONNX for traces: an encoder layer and a net of convolutions, small enough for a test."""

import numpy as np

from tests.extras.onnx_models import FLOAT16, INT64, constant, model, node, value

WIDTH, HEADS = 32, 4


def _normal(rng, *shape):
    return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def _layer(at, scores, rng):
    """Return the nodes and weights of one encoder layer from h{at} to h{at + 1}; `scores` makes those of attention."""
    name = f"layers.{at}."
    heads = [
        each
        for part in "qkv"
        for each in (
            node("MatMul", [f"h{at}", f"{name}w{part}"], [f"{name}{part}1"], f"{name}{part}"),
            node("Reshape", [f"{name}{part}1", "split"], [f"{name}{part}2"]),
            node("Transpose", [f"{name}{part}2"], [f"{name}{part}3"], perm=[0, 2, 1, 3]),
        )
    ]
    rest = [
        node("Transpose", [f"{name}k3"], [f"{name}kt"], perm=[0, 1, 3, 2]),
        *scores(name),
        node("Div", [f"{name}scores", "root"], [f"{name}scaled"]),
        node("Softmax", [f"{name}scaled"], [f"{name}p"], f"{name}softmax", axis=-1),
        node("MatMul", [f"{name}p", f"{name}v3"], [f"{name}o1"], f"{name}attend"),
        node("Transpose", [f"{name}o1"], [f"{name}o2"], perm=[0, 2, 1, 3]),
        node("Reshape", [f"{name}o2", "join"], [f"{name}o3"]),
        node("MatMul", [f"{name}o3", f"{name}wo"], [f"{name}o4"], f"{name}out"),
        node("Add", [f"{name}o4", f"h{at}"], [f"{name}r"], f"{name}residual"),
        node("LayerNormalization", [f"{name}r", f"{name}g", f"{name}b"], [f"{name}n"], f"{name}norm", epsilon=1e-5),
        node("MatMul", [f"{name}n", f"{name}w1"], [f"{name}f1"], f"{name}up"),
        node("Relu", [f"{name}f1"], [f"{name}f2"]),
        node("MatMul", [f"{name}f2", f"{name}w2"], [f"{name}f3"], f"{name}down"),
        node("Add", [f"{name}f3", f"{name}n"], [f"h{at + 1}"], f"{name}residual2"),
    ]
    shapes = {**{f"w{part}": (WIDTH, WIDTH) for part in "qkvo"}, "w1": (WIDTH, 64), "w2": (64, WIDTH)}
    weights = [constant(name + key, _normal(rng, *shape)) for key, shape in shapes.items()]
    norm = [constant(f"{name}g", 1 + _normal(rng, WIDTH)), constant(f"{name}b", _normal(rng, WIDTH))]
    return [*heads, *rest], [*weights, *norm]


def plain_scores(name):
    return [node("MatMul", [f"{name}q3", f"{name}kt"], [f"{name}scores"], f"{name}scores")]


def half_scores(name):
    """Return scores that a product in float16 makes."""
    return [
        node("Cast", [f"{name}q3"], [f"{name}qh"], to=FLOAT16),
        node("Cast", [f"{name}kt"], [f"{name}kh"], to=FLOAT16),
        node("MatMul", [f"{name}qh", f"{name}kh"], [f"{name}sh"], f"{name}scores_in_half"),
        node("Cast", [f"{name}sh"], [f"{name}scores"], to=1),
    ]


def hopping_scores(name):
    """Return scores of queries that were cast to float16 and back."""
    return [
        node("Cast", [f"{name}q3"], [f"{name}qh"], f"{name}hop", to=FLOAT16),
        node("Cast", [f"{name}qh"], [f"{name}q4"], f"{name}back", to=1),
        node("MatMul", [f"{name}q4", f"{name}kt"], [f"{name}scores"], f"{name}scores"),
    ]


def encoder(layers=3, faulty=(), scores=half_scores):
    nodes, weights, rng = [], [], np.random.default_rng(11)
    for at in range(layers):
        made = _layer(at, scores if at in faulty else plain_scores, rng)
        nodes, weights = nodes + made[0], weights + made[1]
    numbers = {
        "root": np.float32(np.sqrt(WIDTH / HEADS)),
        "split": np.array([0, 0, HEADS, WIDTH // HEADS], np.int64),
        "join": np.array([0, 0, WIDTH], np.int64),
    }
    constants = [*weights, *(constant(name, number) for name, number in numbers.items())]
    inputs, outputs = [value("h0", shape=("n", "t", WIDTH))], [value(f"h{layers}", shape=("n", "t", WIDTH))]
    return model(nodes, inputs, outputs, constants)


def convolutions(between=()):
    """Return a net of convolutions with a residual; further nodes go from "pooled" to "narrow"."""
    rng = np.random.default_rng(12)
    middle = [*between] or [node("Identity", ["pooled"], ["narrow"])]
    nodes = [
        node("Conv", ["x", "w0"], ["c0"], "stem", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c0", "g", "b", "m", "v"], ["n0"], "norm"),
        node("Relu", ["n0"], ["r0"]),
        node("MaxPool", ["r0"], ["pooled"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        *middle,
        node("Conv", ["narrow", "w1", "b1"], ["c1"], "block.conv1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"], "block.relu"),
        node("Conv", ["r1", "w2"], ["c2"], "block.depthwise", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=32),
        node("Conv", ["c2", "w3"], ["c3"], "block.conv2", kernel_shape=[1, 1]),
        node("Add", ["c3", "narrow"], ["sum"], "block.add"),
        node("Relu", ["sum"], ["r2"]),
        node("GlobalAveragePool", ["r2"], ["mean"]),
        node("Flatten", ["mean"], ["flat"]),
        node("Gemm", ["flat", "wf", "bf"], ["logits"], "head", transB=1),
        node("ArgMax", ["logits"], ["top1"], axis=-1, keepdims=0),
    ]
    shapes = {
        "w0": (32, 3, 3, 3), "w1": (32, 32, 3, 3), "w2": (32, 1, 3, 3), "w3": (32, 32, 1, 1), "wf": (10, 32),
        "g": (32,), "b": (32,), "m": (32,), "b1": (32,), "bf": (10,),
    }  # fmt: skip
    weights = [constant(name, (rng.standard_normal(shape) / 6).astype(np.float32)) for name, shape in shapes.items()]
    weights.append(constant("v", rng.uniform(0.5, 1.5, 32).astype(np.float32)))
    outputs = [value("logits", shape=("n", 10)), value("top1", INT64, ("n",))]
    return model(nodes, [value("x", shape=("n", 3, "h", "w"))], outputs, weights)


def hop():
    """Return nodes that cast to float16 and back."""
    return [node("Cast", ["pooled"], ["short"], "hop", to=FLOAT16), node("Cast", ["short"], ["narrow"], "back", to=1)]


_DRAWN = np.random.default_rng(13)
INPUTS = {
    "encoder": {"h0": _DRAWN.standard_normal((2, 9, WIDTH)).astype(np.float32)},
    "convolutions": {"x": _DRAWN.standard_normal((2, 3, 20, 24)).astype(np.float32)},
}
NETWORKS = {"encoder": encoder, "convolutions": convolutions}
