"""Which gradient do the inputs of an operation get from the gradient of its result?

The gradient G of a complex value x is such that the result changes by Re(sum(conj(G) dx)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import asarray
from numpy.typing import NDArray

from precreg.shadow.numpy.array import listed_names

Plain = NDArray[Any]


class Derived:
    """One operation whose inputs get gradients."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any], operands: Sequence[Any]
    ) -> None:
        self.function, self.arguments, self.options, self.operands = function, arguments, options, operands

    def values(self) -> list[Plain]:
        """Return the values of the operands, in order, in float64 or complex128."""
        return [_wide(each.value) for each in self.operands]

    def fill(self, replace: Callable[[Any, int], Any], constant: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Return arguments and options with a value for each operand, and for each floating-point constant."""
        place = {id(each): index for index, each in enumerate(self.operands)}

        def inside(value: Any) -> Any:
            if id(value) in place:
                return replace(value, place[id(value)])
            if isinstance(value, list | tuple):
                return type(value)(inside(each) for each in value)
            return constant(value)

        return inside(self.arguments), {name: inside(value) for name, value in self.options.items()}

    def argument(self, index: int, name: str, default: Any = None) -> Any:
        """Return an argument by its position or name."""
        return self.arguments[index] if len(self.arguments) > index else self.options.get(name, default)


Rule = Callable[[Derived, list[Plain]], list[Any]]


def _wide(value: Any) -> Plain:
    array = asarray(value)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def sum_to_shape(gradient: Any, shape: tuple[int, ...]) -> Plain:
    """Sum a gradient over the axes along which an operand was broadcast."""
    gradient = asarray(gradient)
    extra = gradient.ndim - len(shape)
    if extra > 0:
        gradient = _finite_sum(gradient, tuple(range(extra)))
    axes = tuple(axis for axis, length in enumerate(shape) if length == 1 and gradient.shape[axis] != 1)
    gradient = _finite_sum(gradient, axes, keepdims=True) if axes else gradient
    return np.broadcast_to(gradient, shape) if gradient.shape != shape else gradient


def _finite_sum(gradient: Plain, axes: tuple[int, ...], *, keepdims: bool = False) -> Plain:
    """Sum a gradient. An infinite value beside its equal has no error, and 0 times infinity would spoil the sum."""
    total: Plain = gradient.sum(axes, keepdims=keepdims)
    if np.isfinite(total).all():
        return total
    finite: Plain = np.where(np.isfinite(gradient), gradient, 0.0).sum(axes, keepdims=keepdims)
    return finite


def without_infinities(values: Plain) -> Plain:
    """Return operands of a contraction with 0 for infinities and NaN: results of these have no gradient."""
    return values if np.isfinite(values.sum()) else np.where(np.isfinite(values), values, 0.0)


def operand_pair(derived: Derived) -> tuple[tuple[Plain, Plain], tuple[bool, bool]]:
    """Return the values of the first two arguments, and which of them get a gradient."""
    values = iter(derived.values())
    operands = {id(each) for each in derived.operands}
    known = tuple(id(each) in operands for each in derived.arguments[:2])
    pair = tuple(
        without_infinities(next(values) if is_known else asarray(each))
        for each, is_known in zip(derived.arguments, known, strict=False)
    )
    return (pair[0], pair[1]), (known[0], known[1])


# The partial derivatives of ufuncs of their inputs: one function for each input, of all inputs.
_LN2, _LN10 = float(np.log(2.0)), float(np.log(10.0))


def _power_by_exponent(x: Plain, y: Plain) -> Any:
    return np.where(x > 0, np.power(np.abs(x), y) * np.log(np.where(x > 0, x, 1.0)), 0.0)


def _pick(condition: Any) -> Any:
    return asarray(condition, np.float64)


PARTIALS: dict[str, tuple[Callable[..., Any], ...]] = {
    "add": (lambda x, y: 1.0, lambda x, y: 1.0),
    "subtract": (lambda x, y: 1.0, lambda x, y: -1.0),
    "multiply": (lambda x, y: y, lambda x, y: x),
    "divide": (lambda x, y: 1.0 / y, lambda x, y: -x / (y * y)),
    "power": (lambda x, y: y * np.power(x, y - 1.0), _power_by_exponent),
    "negative": (lambda x: -1.0,),
    "positive": (lambda x: 1.0,),
    "sqrt": (lambda x: 0.5 / np.sqrt(x),),
    "cbrt": (lambda x: 1.0 / (3.0 * np.cbrt(x) ** 2),),
    "square": (lambda x: 2.0 * x,),
    "reciprocal": (lambda x: -1.0 / (x * x),),
    "exp": (np.exp,),
    "exp2": (lambda x: _LN2 * np.exp2(x),),
    "expm1": (np.exp,),
    "log": (lambda x: 1.0 / x,),
    "log2": (lambda x: 1.0 / (_LN2 * x),),
    "log10": (lambda x: 1.0 / (_LN10 * x),),
    "log1p": (lambda x: 1.0 / (1.0 + x),),
    "sin": (np.cos,),
    "cos": (lambda x: -np.sin(x),),
    "tan": (lambda x: 1.0 + np.tan(x) ** 2,),
    "arcsin": (lambda x: 1.0 / np.sqrt(1.0 - x * x),),
    "arccos": (lambda x: -1.0 / np.sqrt(1.0 - x * x),),
    "arctan": (lambda x: 1.0 / (1.0 + x * x),),
    "arctan2": (lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y)),
    "sinh": (np.cosh,),
    "cosh": (np.sinh,),
    "tanh": (lambda x: 1.0 / np.cosh(x) ** 2,),
    "arcsinh": (lambda x: 1.0 / np.sqrt(1.0 + x * x),),
    "arccosh": (lambda x: 1.0 / np.sqrt(x * x - 1.0),),
    "arctanh": (lambda x: 1.0 / (1.0 - x * x),),
    "hypot": (lambda x, y: x / np.hypot(x, y), lambda x, y: y / np.hypot(x, y)),
    "logaddexp": (lambda x, y: 1.0 / (1.0 + np.exp(y - x)), lambda x, y: 1.0 / (1.0 + np.exp(x - y))),
    "logaddexp2": (lambda x, y: 1.0 / (1.0 + np.exp2(y - x)), lambda x, y: 1.0 / (1.0 + np.exp2(x - y))),
    "maximum": (lambda x, y: _pick(x >= y), lambda x, y: _pick(x < y)),
    "minimum": (lambda x, y: _pick(x <= y), lambda x, y: _pick(x > y)),
    "fmod": (lambda x, y: 1.0, lambda x, y: -np.trunc(x / y)),
    "remainder": (lambda x, y: 1.0, lambda x, y: -np.floor(x / y)),
    "copysign": (lambda x, y: np.copysign(1.0, x) * np.copysign(1.0, y), lambda x, y: 0.0),
    "ldexp": (lambda x, y: np.exp2(y), lambda x, y: 0.0),
    "deg2rad": (lambda x: np.pi / 180.0,),
    "rad2deg": (lambda x: 180.0 / np.pi,),
    "nextafter": (lambda x, y: 1.0, lambda x, y: 0.0),
    "spacing": (lambda x: 0.0,),
    "sinc": (lambda x: np.where(x == 0, 0.0, (np.cos(np.pi * x) - np.sinc(x)) / np.where(x == 0, 1.0, x)),),
}
for _name, _same in (
    ("true_divide", "divide"), ("float_power", "power"), ("pow", "power"), ("fmax", "maximum"), ("fmin", "minimum"),
    ("mod", "remainder"), ("radians", "deg2rad"), ("degrees", "rad2deg"), ("asin", "arcsin"), ("acos", "arccos"),
    ("atan", "arctan"), ("atan2", "arctan2"), ("asinh", "arcsinh"), ("acosh", "arccosh"), ("atanh", "arctanh"),
):  # fmt: skip
    PARTIALS[_name] = PARTIALS[_same]

# Their values jump and their derivative is 0.
_FLAT = listed_names("rint floor ceil trunc round around fix sign floor_divide heaviside")


def _elementwise(name: str) -> Rule:
    partials = PARTIALS[name]

    def rule(derived: Derived, gradients: list[Plain]) -> list[Any]:
        values = iter(derived.values())
        operands = {id(each) for each in derived.operands}
        inputs = [
            next(values) if id(each) in operands else asarray(each) for each in derived.arguments[: len(partials)]
        ]
        found = []
        for each, partial in zip(derived.arguments, partials, strict=False):
            if id(each) in operands:
                factor = partial(*inputs)
                # numpy would copy real numbers.
                factor = np.conjugate(factor) if np.iscomplexobj(factor) else factor
                found.append(sum_to_shape(np.broadcast_arrays(gradients[0] * factor, *inputs)[0], each.region.shape))
        return found

    return rule


def _factors(derived: Derived, name: str, gradients: list[Plain]) -> list[Any]:
    """Return the gradients of a product or quotient, with a pass for each of them; numpy widens block by block."""
    values = [getattr(each, "value", each) for each in derived.arguments[:2]]
    if any(asarray(each).dtype.kind != "f" for each in values):
        return _elementwise(name)(derived, gradients)
    (first, second), (x, y) = derived.arguments[:2], values
    operands = {id(each) for each in derived.operands}
    by_first = gradients[0] * y if name == "multiply" else gradients[0] / y
    found = [sum_to_shape(by_first, first.region.shape)] if id(first) in operands else []
    if id(second) in operands:
        by_second = gradients[0] * x if name == "multiply" else -(by_first * x) / y
        found.append(sum_to_shape(by_second, second.region.shape))
    return found


def _linear(signs: tuple[float, ...]) -> Rule:
    """Return the rule of a sum or difference, which needs no values."""

    def rule(derived: Derived, gradients: list[Plain]) -> list[Any]:
        operands = {id(each) for each in derived.operands}
        return [
            sum_to_shape(gradients[0] if sign == 1.0 else sign * gradients[0], each.region.shape)
            for each, sign in zip(derived.arguments, signs, strict=False)
            if id(each) in operands
        ]

    return rule


def _no_gradient(derived: Derived, gradients: list[Plain]) -> list[Any]:
    return [None] * len(derived.operands)


def _absolute(derived: Derived, gradients: list[Plain]) -> list[Any]:
    (x,) = derived.values()
    size = np.abs(x)
    return [gradients[0] * np.where(size > 0, x / np.where(size > 0, size, 1.0), 0.0)]


# The number of the first element: above integers that a program writes, and exact in float64 with all that follow.
_FIRST = 2**52


def _moves(derived: Derived, gradients: list[Plain]) -> list[Any]:
    """Move the numbers of elements instead of values, and add each gradient where its value came from."""
    ends = np.cumsum([int(np.prod(each.region.shape)) for each in derived.operands])
    starts = [0, *ends[:-1]]

    def numbered(operand: Any, index: int) -> Any:
        return np.arange(starts[index] + _FIRST, ends[index] + _FIRST).reshape(operand.region.shape)

    arguments, options = derived.fill(numbered, _without_number)
    options = {name: value for name, value in options.items() if name not in ("dtype", "casting")}
    moved = derived.function(*arguments, **options)
    parts = list(moved) if isinstance(moved, tuple | list) else [moved]
    total = np.zeros(int(ends[-1]) + 1, gradients[0].dtype)
    for part, gradient in zip(parts, gradients, strict=False):
        # Integers among the arguments, as in where(x > 0, x, 1), are below the number of the first element.
        places = np.maximum(asarray(part).ravel().astype(np.int64) - (_FIRST - 1), 0)
        total += _scattered(places, np.broadcast_to(gradient, np.shape(part)).ravel(), len(total))
    return [
        total[start + 1 : end + 1].reshape(each.region.shape)
        for start, end, each in zip(starts, ends, derived.operands, strict=True)
    ]


def _scattered(places: Plain, gradient: Plain, length: int) -> Any:
    if gradient.dtype.kind == "c":
        return np.bincount(places, gradient.real, length) + 1j * np.bincount(places, gradient.imag, length)
    return np.bincount(places, gradient, length)


def _without_number(value: Any) -> Any:
    """Return 0, the number of no element, in the place of a floating-point constant."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "biu":
        return np.zeros(np.shape(value), np.int64)
    return 0 if isinstance(value, float | complex) else value


def _axes(derived: Derived, shape: tuple[int, ...], default: Any = None, place: int = 1) -> tuple[int, ...]:
    axis = derived.argument(place, "axis", default)
    if axis is None:
        return tuple(range(len(shape)))
    return tuple(int(each) % len(shape) for each in (axis if isinstance(axis, tuple) else (axis,)))


def _spread(gradient: Plain, shape: tuple[int, ...], axes: tuple[int, ...]) -> Plain:
    """Return the gradient of a reduction with the reduced axes in their places."""
    kept = [1 if axis in axes else length for axis, length in enumerate(shape)]
    return np.broadcast_to(np.reshape(gradient, kept), shape)


def _mask_of(derived: Derived, shape: tuple[int, ...]) -> Any:
    where = derived.options.get("where", True)
    return np.broadcast_to(asarray(where), shape) if where is not True else 1.0


def _sum(derived: Derived, gradients: list[Plain]) -> list[Any]:
    shape = derived.operands[0].region.shape
    axes = _axes(derived, shape)
    return [_spread(gradients[0], shape, axes) * _mask_of(derived, shape), *[None] * (len(derived.operands) - 1)]


def _sum_ufunc(derived: Derived, gradients: list[Plain]) -> list[Any]:
    shape = derived.operands[0].region.shape
    axes = _axes(derived, shape, 0)
    return [_spread(gradients[0], shape, axes) * _mask_of(derived, shape), *[None] * (len(derived.operands) - 1)]


def _count(derived: Derived, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    mask = _mask_of(derived, shape)
    return np.broadcast_to(mask, shape).sum(axes, keepdims=True)


def _mean(derived: Derived, gradients: list[Plain]) -> list[Any]:
    shape = derived.operands[0].region.shape
    axes = _axes(derived, shape)
    return [_spread(gradients[0], shape, axes) * _mask_of(derived, shape) / _count(derived, shape, axes)]


def _var(derived: Derived, gradients: list[Plain]) -> list[Any]:
    return [_variance(derived, gradients[0], False)]


def _std(derived: Derived, gradients: list[Plain]) -> list[Any]:
    return [_variance(derived, gradients[0], True)]


def _variance(derived: Derived, gradient: Plain, is_root: bool) -> Plain:
    x = derived.values()[0]
    axes, mask = _axes(derived, x.shape), _mask_of(derived, x.shape)
    count = _count(derived, x.shape, axes)
    freedom = count - derived.argument(4, "ddof", derived.options.get("correction", 0))
    centered = (x - (x * mask).sum(axes, keepdims=True) / count) * mask
    factor = 2.0 * centered / freedom
    if is_root:
        root = np.sqrt(np.sum(np.abs(centered) ** 2, axes, keepdims=True) / freedom)
        factor = factor / np.where(root > 0, 2.0 * root, np.inf)
    return asarray(_spread(gradient, x.shape, axes) * factor)


def _extreme(default: Any) -> Rule:
    def rule(derived: Derived, gradients: list[Plain]) -> list[Any]:
        x = derived.values()[0]
        axes = _axes(derived, x.shape, default)
        options = {**derived.options, "keepdims": True, "axis": axes}
        reached = x == derived.function(x, **{name: options[name] for name in options if name not in ("out", "dtype")})
        # Equal extremes share the gradient.
        return [_spread(gradients[0], x.shape, axes) * reached / np.maximum(reached.sum(axes, keepdims=True), 1)]

    return rule


def _product_of(default: Any) -> Rule:
    def rule(derived: Derived, gradients: list[Plain]) -> list[Any]:
        x = derived.values()[0]
        axes = _axes(derived, x.shape, default)
        moved = np.moveaxis(x, axes, range(len(axes)))
        flat = moved.reshape(-1, *moved.shape[len(axes) :])
        before = np.concatenate([np.ones_like(flat[:1]), np.cumprod(flat, 0)[:-1]])
        after = np.concatenate([np.cumprod(flat[::-1], 0)[::-1][1:], np.ones_like(flat[:1])])
        others = np.moveaxis((before * after).reshape(moved.shape), range(len(axes)), axes)
        return [_spread(gradients[0], x.shape, axes) * np.conjugate(others)]

    return rule


def _running_axis(derived: Derived, shape: tuple[int, ...], default: Any) -> int | None:
    axis = derived.argument(1, "axis", default)
    return None if axis is None else int(axis) % len(shape)


def _cumsum(default: Any) -> Rule:
    def rule(derived: Derived, gradients: list[Plain]) -> list[Any]:
        shape = derived.operands[0].region.shape
        axis = _running_axis(derived, shape, default)
        gradient = gradients[0]
        if axis is None:
            return [np.cumsum(gradient[::-1])[::-1].reshape(shape)]
        return [np.flip(np.cumsum(np.flip(gradient, axis), axis), axis)]

    return rule


def _cumprod(default: Any) -> Rule:
    def rule(derived: Derived, gradients: list[Plain]) -> list[Any]:
        x = derived.values()[0]
        axis = _running_axis(derived, x.shape, default)
        flat, gradient = (x.ravel(), gradients[0]) if axis is None else (x, gradients[0])
        place = 0 if axis is None else axis
        products = np.cumprod(flat, place)
        weighted = np.flip(np.cumsum(np.flip(gradient * np.conjugate(products), place), place), place)
        return [(weighted / np.where(flat == 0, np.inf, np.conjugate(flat))).reshape(x.shape)]

    return rule


def _extreme_so_far(derived: Derived, gradients: list[Plain]) -> list[Any]:
    x = derived.values()[0]
    axis = _running_axis(derived, x.shape, 0)
    assert axis is not None
    running = derived.function(x, axis=axis)
    places = np.indices(x.shape)[axis]
    # The place of the value that each running extreme comes from.
    source = np.maximum.accumulate(np.where(x == running, places, 0), axis)
    total = np.zeros(x.shape)
    grid: list[Plain] = list(np.indices(x.shape))
    grid[axis] = source
    np.add.at(total, tuple(grid), gradients[0])
    return [total]


def _log_sum(derived: Derived, gradients: list[Plain]) -> list[Any]:
    x = derived.values()[0]
    axes = _axes(derived, x.shape, 0)
    result = np.logaddexp.reduce(x, axes[0], keepdims=True)
    return [_spread(gradients[0], x.shape, axes) * np.exp(x - result)]


def _clip(derived: Derived, gradients: list[Plain]) -> list[Any]:
    given = [
        derived.arguments[0],
        derived.argument(1, "a_min", derived.options.get("min")),
        derived.argument(2, "a_max", derived.options.get("max")),
    ]
    values = iter(derived.values())
    operands = {id(each) for each in derived.operands}
    x, low, high = (next(values) if id(each) in operands else each for each in given)
    below = np.zeros(np.shape(x), bool) if low is None else x < low
    above = np.zeros(np.shape(x), bool) if high is None else x > high
    parts = (~below & ~above, below & ~above, above)
    pairs = [(each, part) for each, part in zip(given, parts, strict=True) if id(each) in operands]
    return [sum_to_shape(gradients[0] * part, each.region.shape) for each, part in pairs]


def _cast(derived: Derived, gradients: list[Plain]) -> list[Any]:
    return [np.reshape(gradients[0], derived.operands[0].region.shape)]


def _modf(derived: Derived, gradients: list[Plain]) -> list[Any]:
    return [gradients[0]]


def _frexp(derived: Derived, gradients: list[Plain]) -> list[Any]:
    return [gradients[0] * np.ldexp(1.0, -np.frexp(derived.values()[0])[1])]


def _write_at(derived: Derived, gradients: list[Plain]) -> list[Any]:
    """Pass the gradient of `add.at` or `subtract.at` on: to the old values whole, to the terms by their places."""
    indices = derived.arguments[1]
    picked = gradients[0][indices] * (-1.0 if derived.function is np.subtract.at else 1.0)
    rest = [sum_to_shape(picked, each.region.shape) for each in derived.operands[1:]]
    return [gradients[0], *rest]


RULES: dict[str, Rule] = {name: _elementwise(name) for name in PARTIALS}
RULES |= dict.fromkeys(_FLAT, _no_gradient)
RULES |= {
    "multiply": lambda derived, gradients: _factors(derived, "multiply", gradients),
    "divide": lambda derived, gradients: _factors(derived, "divide", gradients),
    "add": _linear((1.0, 1.0)),
    "subtract": _linear((1.0, -1.0)),
    "negative": _linear((-1.0,)),
    "positive": _linear((1.0,)),
    "absolute": _absolute,
    "fabs": _absolute,
    "abs": _absolute,
    "conjugate": lambda derived, gradients: [np.conjugate(gradients[0])],
    "conj": lambda derived, gradients: [np.conjugate(gradients[0])],
    "real": _cast,
    "astype": _cast,
    "round_to": _cast,
    "cast_through_device": _cast,
    "clip": _clip,
    "modf": _modf,
    "frexp": _frexp,
    "sum": _sum,
    "add.reduce": _sum_ufunc,
    "mean": _mean,
    "var": _var,
    "std": _std,
    "prod": _product_of(None),
    "multiply.reduce": _product_of(0),
    "cumsum": _cumsum(None),
    "add.accumulate": _cumsum(0),
    "cumprod": _cumprod(None),
    "multiply.accumulate": _cumprod(0),
    "maximum.accumulate": _extreme_so_far,
    "minimum.accumulate": _extreme_so_far,
    "logaddexp.reduce": _log_sum,
    "add.at": _write_at,
    "subtract.at": _write_at,
}
RULES |= dict.fromkeys(("max", "min", "amax", "amin"), _extreme(None))
RULES |= dict.fromkeys(("maximum.reduce", "minimum.reduce", "fmax.reduce", "fmin.reduce"), _extreme(0))

# Functions that move numbers, whatever their values are.
MOVING = listed_names(
    "getitem copy take take_along_axis repeat tile roll flip fliplr flipud rot90 concatenate stack vstack "
    "hstack dstack column_stack block where select choose compress extract delete insert append diag "
    "diagonal diagflat tril triu reshape ravel flatten transpose swapaxes moveaxis rollaxis squeeze "
    "expand_dims broadcast_to broadcast_arrays atleast_1d atleast_2d atleast_3d split array_split hsplit "
    "vsplit dsplit array asarray asanyarray ascontiguousarray asfortranarray resize setitem fill put "
    "place putmask copyto fill_diagonal put_along_axis meshgrid unstack matrix_transpose permute_dims pad "
    "reorder"
)
RULES |= dict.fromkeys(MOVING, _moves)

# The rules of these need no values of their operands.
_LINEAR = listed_names(
    "add subtract negative positive conjugate conj real astype modf sum mean cumsum add.reduce add.accumulate add.at "
    "subtract.at round_to cast_through_device"
)
WITHOUT_VALUES = frozenset((*MOVING, *_FLAT, *_LINEAR))
