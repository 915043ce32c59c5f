"""How is an operation on float64 computed in longdouble, in step with its result?

torch has no dtype beyond float64, so numpy computes: each common operation has a form here. Others have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from precreg.shadow.torch.rules import map_leaves
from precreg.shadow.torch.schema import Facts
from precreg.shadow.torch.twins import array_of

Form = Callable[[dict[str, Any]], Any]

# Products of longdouble have no BLAS: beyond these a trace takes many seconds.
_MAX_PRODUCTS = 2e8
_MATRICES = {
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"),
    "baddbmm": ("batch1", "batch2"),
}


def long_form(func: Any, facts: Facts, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Form | None:
    """Return the form in longdouble of an operation whose tensors of floating numbers are float64; None without one."""
    given = facts.given(args, kwargs)
    if facts.writes not in ((), ("self",)) or facts.hidden_writes or given.get("dtype") not in (None, torch.float64):
        return None
    if any(isinstance(each, complex) for each in given.values()):
        return None
    if facts.name == "convolution" and (given["transposed"] or _count_of_windows(given) > _MAX_PRODUCTS):
        return None
    if facts.name in _MATRICES and _products(*[given[each] for each in _MATRICES[facts.name]]) > _MAX_PRODUCTS:
        return None
    form = _FORMS.get(facts.name.removesuffix("_") if facts.writes else facts.name)
    if form is None and facts.moves and not facts.writes:
        return _move(func, facts)
    return form


def _products(one: Any, other: Any) -> float:
    """Return the number of products of a matrix product."""
    return float(prod(one.shape)) * float(other.shape[-1])


def long_constant(facts: Facts, args: Sequence[Any], kwargs: Mapping[str, Any], count: int) -> Any:
    """Return the exact numbers of a constant of float64, whose parameters are float64; None if they are not known."""
    given, places = facts.given(args, kwargs), np.arange(count, dtype=np.longdouble)
    if facts.name in ("full", "full_like"):
        return np.longdouble(given["fill_value"])
    if facts.name == "scalar_tensor":
        return np.longdouble(given["s"])
    if facts.name == "arange":
        return given.get("start", 0) + given.get("step", 1) * places
    if facts.name == "linspace" and not isinstance(given["start"], torch.Tensor):
        return given["start"] + (np.longdouble(given["end"]) - given["start"]) * places / max(count - 1, 1)
    return None


def compute_long(form: Form, facts: Facts, args: Sequence[Any], kwargs: Mapping[str, Any], wide: dict[int, Any]) -> Any:
    """Return the results of a form on longdouble values, which replace the tensors of the call by id."""

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return wide[id(leaf)] if id(leaf) in wide else array_of(leaf)
        return leaf

    given = facts.given(map_leaves(widen, args), map_leaves(widen, kwargs))
    with np.errstate(all="ignore"):
        return map_leaves(lambda leaf: None if leaf is None else np.asarray(leaf), form(given))


def _move(func: Any, facts: Facts) -> Form:
    """Return the form of an operation that moves numbers: torch moves them as sums of two numbers of float64."""

    def move(given: dict[str, Any]) -> Any:
        high = map_leaves(_high, given)
        low = map_leaves(_low, given)
        # A number for the border is exact, and is in one of both.
        low.update({"value": 0.0} if "value" in low else {})
        return func(**high).numpy().astype(np.longdouble) + func(**low).numpy()

    return move


def _high(leaf: Any) -> Any:
    return (
        torch.from_numpy(leaf.astype(np.float64) if leaf.dtype == np.longdouble else leaf) if _is_array(leaf) else leaf
    )


def _low(leaf: Any) -> Any:
    if not _is_array(leaf) or leaf.dtype != np.longdouble:
        return _high(leaf)
    high = leaf.astype(np.float64)
    # Infinities and NaN have no rest.
    return torch.from_numpy(np.where(np.isfinite(high), leaf - high, 0.0).astype(np.float64))


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray)


def _axes(given: Mapping[str, Any]) -> Any:
    dim = given.get("dim")
    return None if dim is None or dim == [] else dim if isinstance(dim, int) else tuple(dim)


def _reduce(function: Callable[..., Any]) -> Form:
    return lambda given: function(given["self"], axis=_axes(given), keepdims=given.get("keepdim", False))


def _one(function: Callable[[Any], Any]) -> Form:
    return lambda given: function(given["self"])


def _two(function: Callable[[Any, Any], Any]) -> Form:
    return lambda given: function(given["self"], given["other"])


def _quotient(given: dict[str, Any]) -> Any:
    found = given["self"] / given["other"]
    rounding = given.get("rounding_mode")
    return found if rounding is None else np.trunc(found) if rounding == "trunc" else np.floor(found)


def _clamp(given: dict[str, Any]) -> Any:
    found = given["self"]
    found = found if given.get("min") is None else np.maximum(found, given["min"])
    return found if given.get("max") is None else np.minimum(found, given["max"])


def _product_of_matrices(term: str, left: str, right: str) -> Form:
    def form(given: dict[str, Any]) -> Any:
        product = given[left] @ given[right] * given.get("alpha", 1)
        beta = given.get("beta", 1)
        # torch ignores NaN of a term that it does not add.
        return product if not term or beta == 0 else product + given[term] * beta

    return form


def _variance(given: dict[str, Any]) -> Any:
    x, axes = given["self"], _axes(given)
    correction = given.get("correction")
    correction = (1 if given.get("unbiased", True) else 0) if correction is None else correction
    keep = given.get("keepdim", False)
    mean = x.mean(axis=axes, keepdims=True)
    count = x.size // max(mean.size, 1)
    return np.square(x - mean).sum(axis=axes, keepdims=keep) / np.longdouble(max(count - correction, 0))


def _norm(given: dict[str, Any]) -> Any:
    x, order, axes, keep = np.abs(given["self"]), given.get("ord", 2), _axes(given), given.get("keepdim", False)
    if order in (np.inf, -np.inf):
        return (np.max if order > 0 else np.min)(x, axis=axes, keepdims=keep)
    if order == 0:
        return (x != 0).sum(axis=axes, keepdims=keep).astype(np.longdouble)
    total = (np.square(x) if order == 2 else x**order).sum(axis=axes, keepdims=keep)
    return np.sqrt(total) if order == 2 else total ** (1 / np.longdouble(order))


def _sigmoid(x: Any) -> Any:
    # The size of the exponential is at most 1 on both sides.
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _shifted(x: Any, axis: int) -> Any:
    return x - x.max(axis=axis, keepdims=True)


def _softmax(given: dict[str, Any]) -> Any:
    powers = np.exp(_shifted(given["self"], given["dim"]))
    return powers / powers.sum(axis=given["dim"], keepdims=True)


def _log_softmax(given: dict[str, Any]) -> Any:
    shifted = _shifted(given["self"], given["dim"])
    return shifted - np.log(np.exp(shifted).sum(axis=given["dim"], keepdims=True))


def _logsumexp(given: dict[str, Any]) -> Any:
    x, axes, keep = given["self"], _axes(given), given.get("keepdim", False)
    most = x.max(axis=axes, keepdims=True)
    most = np.where(np.isfinite(most), most, 0)
    found = np.log(np.exp(x - most).sum(axis=axes, keepdims=True)) + most
    return found if keep else np.squeeze(found, axis=axes)


def _safe_softmax(given: dict[str, Any]) -> Any:
    # A row whose numbers are all masked gives 0.
    masked = np.isneginf(given["self"]).all(axis=given["dim"], keepdims=True)
    return np.where(masked, 0, _softmax({"self": np.where(masked, 0, given["self"]), "dim": given["dim"]}))


def _extreme(values: Callable[..., Any], places: Callable[..., Any]) -> Form:
    def form(given: dict[str, Any]) -> Any:
        x, keep = given["self"], given.get("keepdim", False)
        if "dim" not in given:
            return values(x)
        return values(x, axis=given["dim"], keepdims=keep), places(x, axis=given["dim"], keepdims=keep)

    return form


def _put(given: dict[str, Any]) -> Any:
    found = given["self"].copy()
    at: Any = tuple(slice(None) if each is None else each for each in given["indices"])
    if given.get("accumulate"):
        np.add.at(found, at, given["values"])
    else:
        found[at] = given["values"]
    return found


def _count_of_windows(given: Mapping[str, Any]) -> float:
    """Return a bound of the number of products of a convolution."""
    return float(prod(given["input"].shape)) * float(prod(given["weight"].shape[2:])) * float(given["weight"].shape[0])


def _convolution(given: dict[str, Any]) -> Any:
    x, weight, groups, count = given["input"], given["weight"], given["groups"], given["weight"].ndim - 2
    # One number may apply to all directions.
    stride, padding, dilation = ((list(given[name]) * count)[:count] for name in ("stride", "padding", "dilation"))
    x = np.pad(x, [(0, 0)] * (x.ndim - count) + [(each, each) for each in padding])
    reach = [(size - 1) * step + 1 for size, step in zip(weight.shape[2:], dilation, strict=True)]
    steps: Any = (..., *[slice(None, None, each) for each in (*stride, *dilation)])
    windows = sliding_window_view(x, reach, axis=tuple(range(-count, 0)))[steps]
    places = windows.shape[-2 * count : -count]
    # Batches and groups, places, and the numbers of a window.
    windows = windows.reshape(-1, groups, x.shape[-count - 1] // groups, *windows.shape[-2 * count :])
    windows = np.moveaxis(windows, 2, 2 + count).reshape(len(windows), groups, prod(places), -1)
    factors = weight.reshape(groups, weight.shape[0] // groups, -1)
    out = np.swapaxes(windows @ np.swapaxes(factors, -1, -2), -1, -2)
    out = out.reshape(*x.shape[: -count - 1], weight.shape[0], *places)
    return out if given["bias"] is None else out + given["bias"].reshape(-1, *[1] * count)


def _layer_norm(given: dict[str, Any]) -> Any:
    x, axes = given["input"], tuple(range(-len(given["normalized_shape"]), 0))
    mean = x.mean(axis=axes, keepdims=True)
    rstd = 1 / np.sqrt(np.square(x - mean).mean(axis=axes, keepdims=True) + given["eps"])
    out = (x - mean) * rstd
    out = out if given["weight"] is None else out * given["weight"]
    return out if given["bias"] is None else out + given["bias"], mean, rstd


_PI = np.longdouble("3.14159265358979323846264338327950288")
# Both ways to erfc have their worst error here, and need about as many terms.
_MIDDLE = 1.0
_TERMS, _FRACTIONS = 30, 300


def _gauss(x: Any) -> Any:
    """Return exp(-x**2): the square of the first 24 bits is exact, so that the size of x adds no error."""
    first = x.astype(np.float32).astype(np.longdouble)
    return np.exp(-first * first) * np.exp((first - x) * (first + x))


def _erfc(x: Any, gauss: Any = None) -> Any:
    """Return 1 - erf(x) by a series near 0, and by a continued fraction otherwise (Abramowitz & Stegun 7.1)."""
    size = np.abs(x)
    far = np.maximum(size, _MIDDLE)
    fraction = far
    for n in range(_FRACTIONS, 0, -1):
        fraction = far + np.longdouble(n) / 2 / fraction
    tail = (_gauss(x) if gauss is None else gauss) / np.sqrt(_PI) / fraction
    beyond = np.where(x < 0, 2 - tail, tail)
    return np.where(size < _MIDDLE, 1 - _erf_near(np.where(size < _MIDDLE, x, 0)), beyond)


def _erf_near(x: Any) -> Any:
    term = 2 * x / np.sqrt(_PI) * np.exp(-x * x)
    found = term
    for n in range(1, _TERMS):
        term = term * (2 * x * x) / (2 * n + 1)
        found = found + term
    return found


def _erf(x: Any) -> Any:
    return np.where(np.abs(x) < _MIDDLE, _erf_near(np.where(np.abs(x) < _MIDDLE, x, 0)), 1 - _erfc(x))


def _gelu(given: dict[str, Any]) -> Any:
    x = given["self"]
    if given.get("approximate", "none") == "tanh":
        return x / 2 * (1 + np.tanh(np.sqrt(2 / _PI) * (x + np.longdouble(0.044715) * x**3)))
    first = x.astype(np.float32).astype(np.longdouble)
    gauss = np.exp(-first * first / 2) * np.exp((first - x) * (first + x) / 2)
    return x / 2 * _erfc(-x / np.sqrt(np.longdouble(2)), gauss)


def _gelu_back(given: dict[str, Any]) -> Any:
    x, gradient = given["self"], given["grad_output"]
    if given.get("approximate", "none") == "tanh":
        factor, cubic = np.sqrt(2 / _PI), np.longdouble(0.044715)
        along = np.tanh(factor * (x + cubic * x**3))
        return gradient * ((1 + along) + x * (1 - along**2) * factor * (1 + 3 * cubic * x**2)) / 2
    half = np.sqrt(np.longdouble(2))
    return gradient * (_erfc(-x / half) / 2 + x * _gauss(x / half) / np.sqrt(2 * _PI))


def _silu_back(given: dict[str, Any]) -> Any:
    factor = _sigmoid(given["self"])
    return given["grad_output"] * factor * (1 + given["self"] * (1 - factor))


def _layer_norm_back(given: dict[str, Any]) -> Any:
    """Return the gradients of layer_norm, whose statistics are values of their own."""
    gradient, x, rstd = given["grad_out"], given["input"], given["rstd"]
    axes = tuple(range(-len(given["normalized_shape"]), 0))
    rows = tuple(range(x.ndim - len(axes)))
    normal = (x - given["mean"]) * rstd
    weighted = gradient if given["weight"] is None else gradient * given["weight"]
    along = (weighted * normal).mean(axis=axes, keepdims=True)
    inner = rstd * (weighted - weighted.mean(axis=axes, keepdims=True) - normal * along)
    found = (inner, (gradient * normal).sum(axis=rows), gradient.sum(axis=rows))
    return tuple(each if wanted else None for each, wanted in zip(found, given["output_mask"], strict=True))


def _softmax_back(given: dict[str, Any]) -> Any:
    gradient, output, dim = given["grad_output"], given["output"], given["dim"]
    return output * (gradient - (gradient * output).sum(axis=dim, keepdims=True))


def _log_softmax_back(given: dict[str, Any]) -> Any:
    gradient, output, dim = given["grad_output"], given["output"], given["dim"]
    return gradient - np.exp(output) * gradient.sum(axis=dim, keepdims=True)


def _power(given: dict[str, Any]) -> Any:
    # One of both may be a number of Python, which is float64 by itself.
    return np.power(np.asarray(given["self"], np.longdouble), np.asarray(given["exponent"], np.longdouble))


def _mean_squares(given: dict[str, Any]) -> Any:
    squares = np.square(given["self"] - given["target"])
    return (squares, squares.mean(), squares.sum())[given.get("reduction", 1)]


_FORMS: dict[str, Form] = {
    # copy_ takes another tensor, which may have to be repeated.
    "copy": lambda given: given["src"].astype(np.longdouble),
    "fill": lambda given: np.asarray(given["value"], np.longdouble),
    "zero": _one(np.zeros_like),
    "where": lambda given: np.where(given["condition"], given["self"], given["other"]),
    "masked_fill": lambda given: np.where(given["mask"], np.asarray(given["value"], np.longdouble), given["self"]),
    "_to_copy": _one(np.copy),
    "add": lambda given: given["self"] + given["other"] * np.longdouble(given.get("alpha", 1)),
    "sub": lambda given: given["self"] - given["other"] * np.longdouble(given.get("alpha", 1)),
    "rsub": lambda given: given["other"] - given["self"] * np.longdouble(given.get("alpha", 1)),
    "mul": _two(np.multiply),
    "div": _quotient,
    "addcmul": lambda given: given["self"] + given["tensor1"] * given["tensor2"] * given.get("value", 1),
    "addcdiv": lambda given: given["self"] + given["tensor1"] / given["tensor2"] * given.get("value", 1),
    "lerp": lambda given: given["self"] + (given["end"] - given["self"]) * given["weight"],
    "neg": _one(np.negative),
    "abs": _one(np.abs),
    "sqrt": _one(np.sqrt),
    "rsqrt": _one(lambda x: 1 / np.sqrt(x)),
    "reciprocal": _one(lambda x: 1 / x),
    "square": _one(np.square),
    "exp": _one(np.exp),
    "exp2": _one(np.exp2),
    "expm1": _one(np.expm1),
    "log": _one(np.log),
    "log1p": _one(np.log1p),
    "log2": _one(np.log2),
    "log10": _one(np.log10),
    "sin": _one(np.sin),
    "cos": _one(np.cos),
    "tan": _one(np.tan),
    "sinh": _one(np.sinh),
    "cosh": _one(np.cosh),
    "tanh": _one(np.tanh),
    "atan": _one(np.arctan),
    "sigmoid": _one(_sigmoid),
    "erf": _one(_erf),
    "erfc": _one(_erfc),
    "pow": _power,
    "maximum": _two(np.maximum),
    "minimum": _two(np.minimum),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "relu": _one(lambda x: np.maximum(x, 0)),
    "silu": _one(lambda x: x * _sigmoid(x)),
    "gelu": _gelu,
    "sum": _reduce(np.sum),
    "mean": _reduce(np.mean),
    "amax": _reduce(np.max),
    "amin": _reduce(np.min),
    "prod": _reduce(np.prod),
    "var": _variance,
    "std": lambda given: np.sqrt(_variance(given)),
    "linalg_vector_norm": _norm,
    "logsumexp": _logsumexp,
    "cumsum": lambda given: np.cumsum(given["self"], axis=given["dim"]) if given["self"].ndim else given["self"],
    "mm": _product_of_matrices("", "self", "mat2"),
    "bmm": _product_of_matrices("", "self", "mat2"),
    "mv": _product_of_matrices("", "self", "vec"),
    "dot": _product_of_matrices("", "self", "tensor"),
    "addmm": _product_of_matrices("self", "mat1", "mat2"),
    "baddbmm": _product_of_matrices("self", "batch1", "batch2"),
    "addmv": _product_of_matrices("self", "mat", "vec"),
    "_softmax": _softmax,
    "_safe_softmax": _safe_softmax,
    "_log_softmax": _log_softmax,
    "convolution": _convolution,
    "index_put": _put,
    "max": _extreme(np.max, np.argmax),
    "min": _extreme(np.min, np.argmin),
    "floor": _one(np.floor),
    "ceil": _one(np.ceil),
    "trunc": _one(np.trunc),
    "sign": _one(np.sign),
    "fmod": _two(np.fmod),
    "remainder": _two(np.remainder),
    "leaky_relu": lambda given: np.where(given["self"] > 0, 1, given.get("negative_slope", 0.01)) * given["self"],
    "gelu_backward": _gelu_back,
    "silu_backward": _silu_back,
    "native_layer_norm_backward": _layer_norm_back,
    "native_layer_norm": _layer_norm,
    "mse_loss": _mean_squares,
    "tanh_backward": lambda given: given["grad_output"] * (1 - np.square(given["output"])),
    "sigmoid_backward": lambda given: given["grad_output"] * given["output"] * (1 - given["output"]),
    "threshold_backward": lambda given: np.where(given["self"] > given["threshold"], given["grad_output"], 0),
    "_softmax_backward_data": _softmax_back,
    "_log_softmax_backward_data": _log_softmax_back,
    "gt": _two(np.greater),
    "ge": _two(np.greater_equal),
    "lt": _two(np.less),
    "le": _two(np.less_equal),
    "eq": _two(np.equal),
    "ne": _two(np.not_equal),
}
