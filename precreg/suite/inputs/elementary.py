"""Logarithms and powers with the same bits everywhere: only +, -, *, /, comparison, frexp and ldexp, in stated order.

IEEE 754 fixes the result of each of these operations; it does not fix log and exp, and C libraries and numpy's vector
code differ in the last bits. Series are Taylor's, long enough that what they leave out is far below rounding. Every
numpy call is one operation with one rounding, so no multiplication is fused with an addition.
"""

from __future__ import annotations

from math import factorial

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


_LN2 = 0.6931471805599453

_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
"""The leading 32 bits of ln 2, so that its product with any exponent is exact."""

_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")

_SQRT_HALF = 0.7071067811865476

_ARTANH_SERIES = np.array([2 / (2 * k + 1) for k in range(11)])[:, np.newaxis]

_EXP_SERIES = np.array([1 / factorial(k) for k in range(14)])[:, np.newaxis]


def polynomial(x: Reals, coefficients: Reals) -> Reals:
    """Return the sum of coefficients[k] * x**k along the first axis, by Horner's rule, for a vector x.

    Further axes of the coefficients hold several polynomials, evaluated at once; their last has length 1.
    """
    result: Reals = coefficients[-1] * x
    for coefficient in coefficients[-2:0:-1]:
        result += coefficient
        result *= x
    result += coefficients[0]
    return result


def log(x: Reals) -> Reals:
    """Return the natural logarithm of a vector of positive, finite numbers, within 4 ulp."""
    exponents, log_significands = _split(x)
    return exponents * _LN2_HIGH + (exponents * _LN2_LOW + log_significands)


def log2(x: Reals) -> Reals:
    """Return the logarithm to base 2 of a vector of positive, finite numbers, within 5 ulp."""
    exponents, log_significands = _split(x)
    return exponents + log_significands / _LN2


def exp2(x: Reals) -> Reals:
    """Return 2**x of a vector, within 2 ulp where the result is a normal number."""
    whole = np.rint(x)
    return np.ldexp(polynomial((x - whole) * _LN2, _EXP_SERIES), whole.astype(np.int32))


def _split(x: Reals) -> tuple[Reals, Reals]:
    """Return e and log(m), which is 2 artanh((m - 1) / (m + 1)), where x = m * 2**e and m is within sqrt(2) of 1."""
    significands, exponents = np.frexp(x)
    low = significands < _SQRT_HALF
    significands = significands * (1.0 + low)
    ratio = (significands - 1.0) / (significands + 1.0)
    return exponents - 1.0 * low, ratio * polynomial(ratio * ratio, _ARTANH_SERIES)
