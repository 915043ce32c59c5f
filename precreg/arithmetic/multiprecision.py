"""How do numbers of numpy become numbers of mpmath, and back?

The way there is exact. The way back rounds once, to the nearest longdouble, ties to even.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_mpmath(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of real or complex floats as an object array of mpmath's mpf or mpc, exactly."""
    from mpmath import mp

    if array.dtype.kind == "c":
        parts = zip(_reals(array.real, mp), _reals(array.imag, mp), strict=True)
        return _objects([_exact_complex(mp, real, imaginary) for real, imaginary in parts], array.shape)
    return _objects(_reals(array, mp), array.shape)


def _reals(array: NDArray[Any], mp: Any) -> list[Any]:
    """Return numbers of mpmath with all bits, whatever precision mpmath works with."""
    if np.can_cast(array.dtype, np.float64):
        return [_exact_real(mp, float(value), 0.0) for value in array.ravel()]
    if array.dtype != np.dtype(np.longdouble):  # bfloat16 and the like
        return [_exact_real(mp, value, 0.0) for value in array.astype(np.float64).ravel().tolist()]
    return [_exact_long(mp, value) for value in array.ravel()]


def _exact_real(mp: Any, high: float, low: float) -> Any:
    # mpmath.libmp keeps all bits of a float, and mpf(...) would round to the working precision.
    from mpmath.libmp import from_float, mpf_add

    return mp.make_mpf(from_float(high) if low == 0.0 else mpf_add(from_float(high), from_float(low)))


def _exact_long(mp: Any, value: Any) -> Any:
    from mpmath.libmp import from_man_exp

    if not np.isfinite(value):
        return _exact_real(mp, float(value), 0.0)
    # The significand of a long double is an integer of at most 113 bits, which two of 64 bits hold.
    significand, exponent = np.frexp(value)
    upper = np.floor(np.ldexp(significand, 56))
    lower = np.ldexp(np.ldexp(significand, 56) - upper, 64)
    return mp.make_mpf(from_man_exp((int(upper) << 64) + int(lower), int(exponent) - 120))


def _exact_complex(mp: Any, real: Any, imaginary: Any) -> Any:
    return mp.make_mpc((real._mpf_, imaginary._mpf_))


def _objects(values: list[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


def from_mpmath(array: NDArray[Any]) -> NDArray[Any]:
    """Return an object array of numbers of mpmath and Python as longdouble or clongdouble, each rounded once.

    Raises:
        TypeError: for an object that is no number.
    """
    from mpmath import mp

    values = [mp.convert(value) for value in array.ravel()]
    round_part = _rounding()
    if not any(hasattr(value, "_mpc_") for value in values):
        return np.array([round_part(value._mpf_) for value in values], np.longdouble).reshape(array.shape)
    found = np.empty(len(values), np.clongdouble)
    found.real = [round_part(value.real._mpf_) for value in values]
    found.imag = [round_part(value.imag._mpf_) for value in values]
    return found.reshape(array.shape)


def _rounding() -> Callable[[tuple[int, int, int, int]], Any]:
    """Return the function that rounds mpmath's (sign, significand, exponent, bits) to longdouble."""
    limits = np.finfo(np.longdouble)
    precision, least_exponent = int(limits.nmant) + 1, int(limits.minexp) - int(limits.nmant)

    def nearest_long(parts: tuple[int, int, int, int]) -> Any:
        sign, significand, exponent, bits = parts
        if not significand:
            # mpmath has zero, which has no sign, and marks NaN and infinities by exponents.
            return _without_significand(exponent)
        dropped = max(bits - precision, least_exponent - exponent, 0)
        kept = _shift_to_nearest(significand, dropped)
        upper, lower = kept >> 56, kept & (2**56 - 1)
        # Each part has at most 64 bits, and their sum at most the precision: no step rounds.
        exact = np.ldexp(np.longdouble(upper), 56) + np.longdouble(lower)
        # ldexp overflows to infinity as IEEE 754 asks. A C int holds the exponent of anything else.
        with np.errstate(over="ignore"):
            size = np.ldexp(exact, min(exponent + dropped, 2**30))
        return -size if sign else size

    return nearest_long


def _without_significand(exponent: int) -> Any:
    from mpmath.libmp import finf, fninf, fzero

    known = {fzero[2]: np.longdouble(0), finf[2]: np.longdouble(np.inf), fninf[2]: -np.longdouble(np.inf)}
    return known.get(exponent, np.longdouble(np.nan))


def _shift_to_nearest(significand: int, dropped: int) -> int:
    """Return the significand without its lowest bits, rounded to nearest with ties to even."""
    if not dropped:
        return significand
    kept, rest, half = significand >> dropped, significand & ((1 << dropped) - 1), 1 << (dropped - 1)
    return kept + (rest > half or (rest == half and kept & 1 == 1))
