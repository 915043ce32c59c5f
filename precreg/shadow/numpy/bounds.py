"""How large can the rounding error of one operation be, and of a chain of them to first order?

Sums of n terms err by at most (n - 1) u sum |x| in any order, and products of n terms by n u |x| |y| (Rump, Error
estimation of floating-point summation and dot product, BIT 52, 2012; Jeannerod and Rump, Improved error bounds for
inner products, SIAM J. Matrix Anal. Appl. 34, 2013). These are the bounds of Higham, Accuracy and Stability of
Numerical Algorithms, 4.4 and 3.5, without the denominator 1 - n u. u is the unit roundoff of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import FORMATS, Format, dtype_name, exact_round
from precreg.shadow.numpy.array import listed_names
from precreg.shadow.numpy.derivatives import MOVING, Derived
from precreg.shadow.sizes import MASK_LIMIT

# A step of the tape, and a result that it wrote. The tape imports this module.
Step = Any
Written = Any

Bound = NDArray[np.float64]

# IEEE 754 rounds these correctly, in numpy also for formats of 16 bits: they compute in float32 and round once more,
# which changes no result.
_CORRECTLY_ROUNDED = frozenset(("add", "subtract", "multiply", "divide", "true_divide", "sqrt", "square", "reciprocal"))

# numpy's own tests allow these functions up to 4 ULP (numpy/_core/tests/data/umath-validation-set-*.csv).
_FUNCTIONS = frozenset(
    listed_names(
        "exp exp2 expm1 log log2 log10 log1p cbrt sin cos tan arcsin arccos arctan "
        "sinh cosh tanh arcsinh arccosh arctanh"
    )
)
_FUNCTION_ULP = 4.0
# A format of 16 bits gets the result of float32, rounded: half a ULP and a little more.
_NARROW_FUNCTION_ULP, _NARROW_PRECISION = 1.0, 11

# These choose or move numbers, and round none.
_EXACT = frozenset(
    listed_names(
        "negative positive absolute fabs maximum minimum fmax fmin max min amax amin copysign "
        "maximum.reduce minimum.reduce"
    )
)

_SUMS = frozenset(("sum", "add.reduce", "cumsum", "add.accumulate", "nansum", "trace"))
_MEANS = frozenset(("mean", "nanmean"))
_PRODUCTS = frozenset(("matmul", "dot", "inner", "vdot", "tensordot", "einsum", "vecdot", "convolve", "outer"))


def own_bound(step: Step, written: Written) -> Bound | None:
    """Return the largest own error of each element of a step's result; None for a function without a known bound."""
    result, format = written.result, FORMATS.get(dtype_name(written.region.dtype))
    if result is None or format is None:
        return None
    if step.name in MOVING or step.name in _EXACT or step.name == "astype":
        # The tape has no error of a result that is exact.
        return np.zeros(result.shape) if written.kept_error is None else _rounding(result, format)
    if step.name in _CORRECTLY_ROUNDED:
        return _rounding(result, format) + _constants_bound(step, result, format)
    if step.name in _FUNCTIONS or (step.name == "power" and _has_exact_exponent(step, format)):
        ulps = _FUNCTION_ULP if format.precision > _NARROW_PRECISION else _NARROW_FUNCTION_ULP
        return 2.0 * ulps * _rounding(result, format)
    if step.name in _SUMS or step.name in _MEANS or step.name in _PRODUCTS:
        return _terms_bound(step, result, format)
    return None


def _has_exact_exponent(step: Step, format: Format) -> bool:
    """Return whether the exponent of a power is a number that the dtype has."""
    exponent = step.arguments[1] if len(step.arguments) == 2 else None
    return isinstance(exponent, float | int) and exact_round(float(exponent), format) == exponent


def _rounding(result: NDArray[Any], format: Format) -> Bound:
    """Return the bound of one rounding to nearest: u |z|, and half of the smallest number below the normal ones."""
    size = np.abs(result.astype(np.float64))
    # float64 has no half of its own smallest number.
    tiny = format.smallest_subnormal / 2 or format.smallest_subnormal
    found: Bound = np.where(np.isfinite(size), size, 0.0) * format.unit_roundoff + tiny
    return found


def _may_narrow(step: Step, format: Format) -> bool:
    """Return whether terms may be rounded to the dtype of the result before they are added."""
    if any(isinstance(each, np.ndarray) for each in step.arguments):
        # The tape has widened the inputs of the computation.
        return True
    dtypes = [FORMATS.get(dtype_name(each.region.dtype)) for each in step.operands]
    return any(
        each is None or each.precision > format.precision or each.min_exponent < format.min_exponent for each in dtypes
    )


def _constants_bound(step: Step, result: NDArray[Any], format: Format) -> Bound:
    """Return the effect of rounding Python's numbers to the dtype: the exact operation takes them as they are."""
    found = np.zeros(result.shape)
    for value in step.arguments:
        if isinstance(value, float | int | np.floating) and float(value) != 0.0:
            lost = abs(exact_round(float(value), format) - float(value))
            by_size = np.abs(result.astype(np.float64)) * (lost / abs(float(value)))
            # A factor moves the result in proportion, and a term by itself. The second order comes from two roundings.
            found += lost if step.name in ("add", "subtract") else by_size * (1.0 + 4.0 * format.unit_roundoff)
    return found


def _terms_bound(step: Step, result: NDArray[Any], format: Format) -> Bound | None:
    """Return the bound of a sum, a mean or a product: the function of absolute values, by the number of terms."""
    if {"initial", "where", "out"} & step.options.keys():
        return None
    derived = Derived(step.function, step.arguments, step.options, step.operands)
    try:
        sizes, terms = _applied(derived, np.abs), _applied(derived, np.ones_like)
    except Exception:
        # A function may refuse float64; then nothing is known.
        return None
    if not np.isfinite(sizes).all() or sizes.shape != result.shape:
        return None
    count = float(terms.max(initial=0.0))
    if step.name in _MEANS:
        # A mean of ones does not count them. The division is one more rounding.
        values = [*derived.values(), *(each for each in step.arguments if isinstance(each, np.ndarray))]
        count = max(value.size for value in values) / max(sizes.size, 1) + 1.0
    steps = count - 1.0 if step.name in _SUMS or step.name in _MEANS else count
    steps += 1.0 if step.name in _MEANS else 0.0
    may_narrow = _may_narrow(step, format)
    steps += 1.0 if may_narrow else 0.0
    # Sums lose nothing to underflow; products, quotients and casts do.
    tiny = 0.0 if step.name in _SUMS and not may_narrow else count * format.smallest_subnormal
    found: Bound = max(steps, 0.0) * format.unit_roundoff * sizes + tiny
    return found


def _applied(derived: Derived, change: Callable[[Any], Any]) -> Bound:
    """Return the function of changed floating-point arguments."""
    values = derived.values()

    def constant(value: Any) -> Any:
        is_floating = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        return change(value.astype(np.float64)) if is_floating else value

    arguments, options = derived.fill(lambda _, index: change(values[index]), constant)
    return np.asarray(derived.function(*arguments, **options), np.float64)


class BoundLedger:
    """Bounds of the operations on the way to one output, and of the output's error to first order.

    `own` has the 2-norm of an operation's bound over that of its result. `total` is the sum of |gradient| times bound.
    """

    def __init__(self) -> None:
        self.own: dict[int, float] = {}
        self.total = 0.0
        # Unknown bounds, or a gradient that does not reach the operations before.
        self.is_complete = True

    def add(self, step: Step, gradients: list[NDArray[Any]]) -> None:
        """Add one operation with the gradients at its results."""
        for written, gradient in zip(step.written, gradients, strict=True):
            bound = own_bound(step, written)
            if bound is None or gradient.dtype.kind == "c":
                self.is_complete = False
                continue
            self.total += float(np.sum(np.abs(gradient) * bound))
            values = np.asarray(written.result, np.float64).ravel()
            # Infinities and masks have no error that is counted, so they are no measure of one either.
            is_counted = np.abs(values) <= MASK_LIMIT
            size = float(np.linalg.norm(values[is_counted]))
            if step.number is not None and size > 0.0:
                largest = float(np.linalg.norm(bound.ravel()[is_counted])) / size
                self.own[step.number] = max(self.own.get(step.number, 0.0), largest)
