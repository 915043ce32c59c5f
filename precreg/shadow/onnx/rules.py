"""Which operators of ONNX have a rule of float64 that can be differentiated?

A rule gets the attributes of a node and its inputs, None for one that is absent. It returns the outputs that it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from math import pi, prod, sqrt
from typing import Any

import numpy as np

from precreg.shadow.onnx.convolution import convolve, convolve_back, mean_pool, pool, steps_of
from precreg.shadow.onnx.wide import Array, Wide, choose, join, wide

Attributes = dict[str, Any]
Rule = Callable[..., Wide | Sequence[Wide]]


def erf_of(x: Wide) -> Wide:
    """Return the error function."""
    return x.apply(_erf, lambda v, _: 2 / np.sqrt(np.pi) * np.exp(-v * v))


def _erf(x: Array) -> Array:
    from math import erf

    if x.dtype != np.float64:
        raise NotImplementedError("erf beyond float64")
    found: Array = np.vectorize(erf, otypes=[np.float64])(x) if x.size else x
    return found


def gelu_of(x: Wide, approximate: str = "none") -> Wide:
    """Return x times the normal distribution's P(X <= x), or its approximation by tanh."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + (sqrt(2 / pi) * (x + 0.044715 * (x * x * x))).tanh())
    return 0.5 * x * (1.0 + erf_of(x / np.sqrt(x.value.dtype.type(2))))


def softmax_of(x: Wide, axis: int = -1) -> Wide:
    """Return exp(x) over its sum along an axis."""
    raised = (x - wide(np.max(x.value, axis=axis, keepdims=True))).exp()
    return raised / raised.sum(axis, keepdims=True)


def softplus_of(x: Wide) -> Wide:
    """Return log(1 + exp(x)), without overflow."""
    return x.apply(lambda v: np.logaddexp(0, v), lambda v, _: 0.5 * (1 + np.tanh(0.5 * v)))


def normalized(x: Wide, axes: tuple[int, ...], epsilon: float) -> tuple[Wide, Wide, Wide]:
    """Return x less its mean over its standard deviation along axes, the mean, and 1 / standard deviation."""
    mean = x.mean(axes, keepdims=True)
    centred = x - mean
    inverse = 1.0 / ((centred * centred).mean(axes, keepdims=True) + epsilon).sqrt()
    return centred * inverse, mean, inverse


def _unary(function: Callable[[Array], Array], slope: Callable[[Array, Array], Array]) -> Rule:
    return lambda attributes, x: x.apply(function, slope)


def _flat(function: Callable[[Array], Array]) -> Rule:
    """Return the rule of a function that is constant between its steps."""
    return lambda attributes, x: Wide(function(x.value))


def _fold(combine: Callable[[Wide, Wide], Wide]) -> Rule:
    return lambda attributes, *parts: reduce(combine, parts)


def _mean(attributes: Attributes, *parts: Wide) -> Wide:
    return reduce(Wide.__add__, parts) / float(len(parts))


def _leaky(x: Wide, below: Wide) -> Wide:
    return choose(x.value > 0, x, below)


def _celu(attributes: Attributes, x: Wide) -> Wide:
    alpha = float(attributes.get("alpha", 1.0))
    return _leaky(x, alpha * ((x.minimum(0.0) / alpha).exp() - 1.0))


def _elu(attributes: Attributes, x: Wide) -> Wide:
    return _leaky(x, float(attributes.get("alpha", 1.0)) * (x.minimum(0.0).exp() - 1.0))


def _selu(attributes: Attributes, x: Wide) -> Wide:
    # The defaults of the operator are the float32 numbers next to the paper's.
    alpha = float(attributes.get("alpha", np.float32(1.67326319217681884765625)))
    gamma = float(attributes.get("gamma", np.float32(1.05070102214813232421875)))
    return gamma * _leaky(x, alpha * (x.minimum(0.0).exp() - 1.0))


def _hard_sigmoid(attributes: Attributes, x: Wide) -> Wide:
    alpha, beta = float(attributes.get("alpha", np.float32(0.2))), float(attributes.get("beta", 0.5))
    return (alpha * x + beta).maximum(0.0).minimum(1.0)


def _clip(attributes: Attributes, x: Wide, low: Wide | None = None, high: Wide | None = None) -> Wide:
    lowest = low if low is not None else attributes.get("min")
    highest = high if high is not None else attributes.get("max")
    found = x if lowest is None else x.maximum(lowest)
    return found if highest is None else found.minimum(highest)


def _where(attributes: Attributes, mask: Wide, first: Wide, second: Wide) -> Wide:
    return choose(mask.value.astype(np.bool_), first, second)


def _gemm(attributes: Attributes, a: Wide, b: Wide, c: Wide | None = None) -> Wide:
    left = a.transpose() if attributes.get("transA") else a
    right = b.transpose() if attributes.get("transB") else b
    product = float(attributes.get("alpha", 1.0)) * (left @ right)
    return product if c is None else product + float(attributes.get("beta", 1.0)) * c


def _along_axis(compute: Callable[[Wide, int], Wide]) -> Rule:
    def rule(attributes: Attributes, x: Wide) -> Wide:
        if attributes["opset"] >= 13:
            return compute(x, attributes.get("axis", -1))
        # Before opset 13 the axes from the given one on were one.
        axis = attributes.get("axis", 1) % x.ndim
        return compute(x.reshape([prod(x.shape[:axis]), -1]), -1).reshape(x.shape)

    return rule


def _log_softmax(x: Wide, axis: int) -> Wide:
    lowered = x - wide(np.max(x.value, axis=axis, keepdims=True))
    return lowered - lowered.exp().sum(axis, keepdims=True).log()


def _layer_norm(attributes: Attributes, x: Wide, scale: Wide, bias: Wide | None = None) -> list[Wide]:
    first = attributes.get("axis", -1) % x.ndim
    found, mean, inverse = normalized(x, tuple(range(first, x.ndim)), attributes.get("epsilon", EPSILON))
    found = found * scale
    return [found if bias is None else found + bias, mean, inverse]


# The definitions of the operators write 1e-05; attributes are float32.
EPSILON = float(np.float32(1e-5))


def _rms_norm(attributes: Attributes, x: Wide, scale: Wide) -> Wide:
    axes = tuple(range(attributes.get("axis", -1) % x.ndim, x.ndim))
    return x / ((x * x).mean(axes, keepdims=True) + float(attributes.get("epsilon", EPSILON))).sqrt() * scale


def by_name(operator: str, attributes: Attributes, *inputs: Wide | None) -> Wide:
    """Return the result of an operator with one output."""
    found = ARITHMETIC[operator](attributes, *inputs)
    assert isinstance(found, Wide)
    return found


def along_channels(value: Wide, ndim: int) -> Wide:
    """Return one number for each channel in a shape that broadcasts to (n, channels, ...)."""
    return value.reshape([-1, *[1] * (ndim - 2)])


def _batch_norm(attributes: Attributes, x: Wide, scale: Wide, bias: Wide, mean: Wide, variance: Wide) -> Wide:
    scale, bias, mean, variance = (along_channels(each, x.ndim) for each in (scale, bias, mean, variance))
    return (x - mean) / (variance + float(attributes.get("epsilon", EPSILON))).sqrt() * scale + bias


def _instance_norm(attributes: Attributes, x: Wide, scale: Wide, bias: Wide) -> Wide:
    found, _, _ = normalized(x, tuple(range(2, x.ndim)), attributes.get("epsilon", EPSILON))
    return found * along_channels(scale, x.ndim) + along_channels(bias, x.ndim)


def _group_norm(attributes: Attributes, x: Wide, scale: Wide, bias: Wide) -> Wide:
    groups = attributes["num_groups"]
    grouped = x.reshape([x.shape[0], groups, -1])
    found = normalized(grouped, (2,), attributes.get("epsilon", EPSILON))[0]
    if scale.value.size == x.shape[1]:
        return found.reshape(x.shape) * along_channels(scale, x.ndim) + along_channels(bias, x.ndim)
    # Until opset 21 scale and bias had one number for each group.
    return (found * scale.reshape([-1, 1]) + bias.reshape([-1, 1])).reshape(x.shape)


def _conv(attributes: Attributes, x: Wide, w: Wide, bias: Wide | None = None) -> Wide:
    found = convolve(x, w, steps_of(attributes, w.shape[2:], x.shape[2:]), attributes.get("group", 1))
    return found if bias is None else found + along_channels(bias, x.ndim)


def _conv_transpose(attributes: Attributes, x: Wide, w: Wide, bias: Wide | None = None) -> Wide:
    if attributes.get("output_shape") or attributes.get("auto_pad", "NOTSET") != "NOTSET":
        raise NotImplementedError("ConvTranspose with output_shape or auto_pad")
    steps = steps_of(attributes, w.shape[2:], x.shape[2:])
    more = attributes.get("output_padding") or [0] * (x.ndim - 2)
    sizes = tuple(
        (size - 1) * stride + dilation * (kernel - 1) + 1 + extra - low - high
        for size, stride, dilation, kernel, extra, (low, high) in zip(
            x.shape[2:], steps.strides, steps.dilations, steps.kernel, more, steps.pads, strict=True
        )
    )
    found = convolve_back(x, w, steps, attributes.get("group", 1), sizes)
    return found if bias is None else found + along_channels(bias, x.ndim)


def max_pool(attributes: Attributes, x: Wide) -> Wide:
    """Return the maxima of windows (MaxPool), without their indices."""
    steps = steps_of(attributes, tuple(attributes["kernel_shape"]), x.shape[2:])
    return pool(x, steps, Wide.maximum, -np.inf, ceil=bool(attributes.get("ceil_mode")))


def average_pool(attributes: Attributes, x: Wide) -> Wide:
    """Return the means of windows (AveragePool)."""
    steps = steps_of(attributes, tuple(attributes["kernel_shape"]), x.shape[2:])
    ceil, include = bool(attributes.get("ceil_mode")), bool(attributes.get("count_include_pad"))
    return mean_pool(x, steps, include_pad=include, ceil=ceil)


def _global_mean(attributes: Attributes, x: Wide) -> Wide:
    return x.mean(tuple(range(2, x.ndim)), keepdims=True)


def _global_max(attributes: Attributes, x: Wide) -> Wide:
    flat = x.reshape([*x.shape[:2], -1]).extreme(np.argmax, 2)
    return flat.reshape([*x.shape[:2], *[1] * (x.ndim - 2)])


def _reduction(compute: Callable[[Wide, tuple[int, ...], bool], Wide]) -> Rule:
    def rule(attributes: Attributes, x: Wide, axes: Wide | None = None) -> Wide:
        given = attributes.get("axes") if axes is None else axes.value.reshape(-1).tolist()
        if not given and attributes.get("noop_with_empty_axes"):
            return x
        places = tuple(axis % x.ndim for axis in given or range(x.ndim))
        return compute(x, places, bool(attributes.get("keepdims", 1)))

    return rule


def _extreme(function: Callable[..., Array]) -> Callable[[Wide, tuple[int, ...], bool], Wide]:
    def compute(x: Wide, axes: tuple[int, ...], keepdims: bool) -> Wide:
        kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        rest = [axis for axis in range(x.ndim) if axis not in axes]
        rows = x.transpose([*rest, *axes]).reshape([*(x.shape[axis] for axis in rest), -1])
        found = rows.extreme(function, rows.ndim - 1)
        return found.reshape(kept) if keepdims else found

    return compute


def _log_sum_exp(x: Wide, axes: tuple[int, ...], keepdims: bool) -> Wide:
    top = wide(np.max(x.value, axis=axes, keepdims=True))
    found = (x - top).exp().sum(axes, keepdims=True).log() + top
    return found if keepdims else found.reshape(np.squeeze(top.value, axes).shape)


def _product(x: Wide, axes: tuple[int, ...], keepdims: bool) -> Wide:
    found: Array = np.prod(x.value, axis=axes, keepdims=True)

    def pull(g: Array) -> Array:
        spread: Array = g.reshape(found.shape) * found / x.value
        return spread

    return Wide(found if keepdims else np.squeeze(found, axes), [(x, pull)])


def _cumulative(attributes: Attributes, x: Wide, axis: Wide) -> Wide:
    at = int(axis.value.reshape(-1)[0])
    if attributes.get("exclusive"):
        raise NotImplementedError("CumSum with exclusive")

    def forward(v: Array) -> Array:
        return np.cumsum(v, at)

    def backward(v: Array) -> Array:
        return np.flip(np.cumsum(np.flip(v, at), at), at)

    return x.linear(backward, forward) if attributes.get("reverse") else x.linear(forward, backward)


def _einsum(attributes: Attributes, *parts: Wide) -> Wide:
    inputs, arrow, output = attributes["equation"].replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not arrow or "." in inputs or any(len(set(term)) < len(term) for term in terms):
        raise NotImplementedError("Einsum with an ellipsis or a diagonal")

    def pull(place: int) -> Callable[[Array], Array]:
        others = [at for at in range(len(terms)) if at != place]
        known = {name for at in others for name in terms[at]} | set(output)
        kept = "".join(name for name in terms[place] if name in known)
        equation = ",".join([output, *(terms[at] for at in others)]) + "->" + kept

        def compute(g: Array) -> Array:
            found = np.einsum(equation, g, *(parts[at].value for at in others), optimize=True)
            for axis, name in enumerate(terms[place]):
                found = found if name in known else np.expand_dims(found, axis)
            return np.broadcast_to(found, parts[place].shape)

        return compute

    found = np.einsum(attributes["equation"], *(part.value for part in parts), optimize=True)
    return Wide(found, [(part, pull(place)) for place, part in enumerate(parts)])


ARITHMETIC: Mapping[str, Rule] = {
    "Abs": _unary(np.abs, lambda x, _: np.sign(x)),
    "Acos": _unary(np.arccos, lambda x, _: -1 / np.sqrt(1 - x * x)),
    "Add": lambda attributes, a, b: a + b,
    "Asin": _unary(np.arcsin, lambda x, _: 1 / np.sqrt(1 - x * x)),
    "Asinh": _unary(np.arcsinh, lambda x, _: 1 / np.sqrt(x * x + 1)),
    "Acosh": _unary(np.arccosh, lambda x, _: 1 / np.sqrt(x * x - 1)),
    "Atan": _unary(np.arctan, lambda x, _: 1 / (1 + x * x)),
    "Atanh": _unary(np.arctanh, lambda x, _: 1 / (1 - x * x)),
    "AveragePool": average_pool,
    "BatchNormalization": _batch_norm,
    "Ceil": _flat(np.ceil),
    "Celu": _celu,
    "Clip": _clip,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Cos": _unary(np.cos, lambda x, _: -np.sin(x)),
    "Cosh": _unary(np.cosh, lambda x, _: np.sinh(x)),
    "CumSum": _cumulative,
    "Div": lambda attributes, a, b: a / b,
    "Einsum": _einsum,
    "Elu": _elu,
    "Erf": lambda attributes, x: erf_of(x),
    "Exp": lambda attributes, x: x.exp(),
    "Floor": _flat(np.floor),
    "Gelu": lambda attributes, x: gelu_of(x, attributes.get("approximate", "none")),
    "Gemm": _gemm,
    "GlobalAveragePool": _global_mean,
    "GlobalMaxPool": _global_max,
    "GroupNormalization": _group_norm,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda attributes, x: x * (x * (1 / 6) + 0.5).maximum(0.0).minimum(1.0),
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda attributes, x: _leaky(x, float(attributes.get("alpha", np.float32(0.01))) * x),
    "Log": lambda attributes, x: x.log(),
    "LogSoftmax": _along_axis(_log_softmax),
    "MatMul": lambda attributes, a, b: a @ b,
    "Max": _fold(Wide.maximum),
    "MaxPool": max_pool,
    "Mean": _mean,
    "Min": _fold(Wide.minimum),
    "Mish": lambda attributes, x: x * softplus_of(x).tanh(),
    "Mul": lambda attributes, a, b: a * b,
    "Neg": lambda attributes, x: -x,
    "PRelu": lambda attributes, x, slope: _leaky(x, slope * x),
    "Pow": lambda attributes, a, b: a**b,
    "RMSNormalization": _rms_norm,
    "Reciprocal": lambda attributes, x: 1.0 / x,
    "ReduceL1": _reduction(lambda x, axes, keep: x.apply(np.abs, lambda v, _: np.sign(v)).sum(axes, keepdims=keep)),
    "ReduceL2": _reduction(lambda x, axes, keep: (x * x).sum(axes, keepdims=keep).sqrt()),
    "ReduceLogSum": _reduction(lambda x, axes, keep: x.sum(axes, keepdims=keep).log()),
    "ReduceLogSumExp": _reduction(_log_sum_exp),
    "ReduceMax": _reduction(_extreme(np.argmax)),
    "ReduceMean": _reduction(lambda x, axes, keep: x.mean(axes, keepdims=keep)),
    "ReduceMin": _reduction(_extreme(np.argmin)),
    "ReduceProd": _reduction(_product),
    "ReduceSum": _reduction(lambda x, axes, keep: x.sum(axes, keepdims=keep)),
    "ReduceSumSquare": _reduction(lambda x, axes, keep: (x * x).sum(axes, keepdims=keep)),
    "Relu": lambda attributes, x: x.maximum(0.0),
    "Round": _flat(np.rint),
    "Selu": _selu,
    "Sigmoid": lambda attributes, x: x.sigmoid(),
    "Sign": _flat(np.sign),
    "Sin": _unary(np.sin, lambda x, _: np.cos(x)),
    "Sinh": _unary(np.sinh, lambda x, _: np.cosh(x)),
    "Softmax": _along_axis(softmax_of),
    "Softplus": lambda attributes, x: softplus_of(x),
    "Softsign": _unary(lambda x: x / (1 + np.abs(x)), lambda x, _: 1 / (1 + np.abs(x)) ** 2),
    "Sqrt": lambda attributes, x: x.sqrt(),
    "Sub": lambda attributes, a, b: a - b,
    "Sum": _fold(lambda a, b: a + b),
    "Swish": lambda attributes, x: x * (float(attributes.get("alpha", 1.0)) * x).sigmoid(),
    "Tan": _unary(np.tan, lambda _, y: 1 + y * y),
    "Tanh": lambda attributes, x: x.tanh(),
    "ThresholdedRelu": lambda attributes, x: choose(x.value > attributes.get("alpha", 1.0), x, np.zeros(1)),
    "Where": _where,
}


def _concat(attributes: Attributes, *parts: Wide) -> Wide:
    return join(parts, attributes["axis"])


def _reshape(attributes: Attributes, x: Wide, shape: Wide) -> Wide:
    sizes = shape.value.tolist()
    if not attributes.get("allowzero"):
        sizes = [size or x.shape[axis] for axis, size in enumerate(sizes)]
    return x.reshape(sizes)


def _flatten(attributes: Attributes, x: Wide) -> Wide:
    axis = attributes.get("axis", 1)
    rows = prod(x.shape[: axis + x.ndim if axis < 0 else axis])
    return x.reshape([rows, x.value.size // rows if rows else 0])


def _transpose(attributes: Attributes, x: Wide) -> Wide:
    return x.transpose(attributes.get("perm"))


def _expand(attributes: Attributes, x: Wide, shape: Wide) -> Wide:
    return x.broadcast_to(np.broadcast_shapes(x.shape, tuple(shape.value.tolist())))


def _slice(attributes: Attributes, x: Wide, *given: Wide | None) -> Wide:
    lists = [None if each is None else each.value.reshape(-1).tolist() for each in given]
    starts, ends, axes, steps = (*lists, None, None, None, None)[:4]
    if starts is None or ends is None:
        starts, ends, axes = attributes["starts"], attributes["ends"], attributes.get("axes")
    key = [slice(None)] * x.ndim
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis, step = axes[place] if axes else place, steps[place] if steps else 1
        # An end at or before -size - 1 reaches the first element when the step is negative.
        before = step < 0 and end < -x.shape[axis]
        key[axis] = slice(start, None if before else end, step)
    return x.slice(tuple(key))


def _split(attributes: Attributes, x: Wide, sizes: Wide | None = None) -> list[Wide]:
    axis = attributes.get("axis", 0) % x.ndim
    given = attributes.get("split") if sizes is None else sizes.value.tolist()
    if not given:
        parts = attributes.get("num_outputs") or attributes["outputs"]
        each = -(-x.shape[axis] // parts)
        given = [min(each, x.shape[axis] - at * each) for at in range(parts)]
    ends = np.cumsum([0, *given]).tolist()
    lead = (slice(None),) * axis
    return [x.slice((*lead, slice(low, high))) for low, high in pairwise(ends)]


def _gather(attributes: Attributes, x: Wide, places: Wide) -> Wide:
    return x[(*(slice(None),) * (attributes.get("axis", 0) % x.ndim), places.value)]


def _squeeze(attributes: Attributes, x: Wide, axes: Wide | None = None) -> Wide:
    given = attributes.get("axes") if axes is None else axes.value.reshape(-1).tolist()
    return x.reshape(np.squeeze(np.empty(x.shape, np.bool_), None if given is None else tuple(given)).shape)


def _unsqueeze(attributes: Attributes, x: Wide, axes: Wide | None = None) -> Wide:
    given = attributes["axes"] if axes is None else axes.value.reshape(-1).tolist()
    return x.reshape(np.expand_dims(np.empty(x.shape, np.bool_), tuple(given)).shape)


# These operators only move numbers.
MOVES: Mapping[str, Rule] = {
    "Concat": _concat,
    "Dropout": lambda attributes, x, *rest: x,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Identity": lambda attributes, x: x,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
