"""GELU, x times the normal distribution function of x, and its tanh approximation; both in float32.

    erf:   x/2 erfc(-x / sqrt(2))
    tanh:  x/2 (1 + tanh(u)) = x / (1 + exp(-2 u)),   u = sqrt(2/pi) (x + 0.044715 x^3)

Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016. The two differ by up to 5e-4: each has its own exact form.
Neither is computed as 1 + erf or 1 + tanh, which cancel below 0.
"""

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

CUBIC = 0.044715
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)

ERFC_COEFFICIENTS = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)
"""Of t^9, t^8, ..., 1 in ln(erfc(z) / t) + z^2, t = 1 / (1 + z/2): Press et al., Numerical Recipes, 6.2, erfcc."""

LEADING_BITS = np.uint32(0xFFFFF000)
"""The upper half of a float32: the product of two such numbers is exact."""


def gelu(x: npt.NDArray, *, form: Literal["erf", "tanh"]) -> npt.NDArray:
    """Return the form of GELU in x's dtype; its limit -0 at -infinity."""
    values = x.astype(np.float32)
    result = {"erf": erf_form, "tanh": tanh_form}[form](values)
    return np.where(values == -np.inf, np.float32(-0.0), result).astype(x.dtype)


def erf_form(x: npt.NDArray) -> npt.NDArray:
    """Take the normal distribution's upper tail Q at |x|, and 1 - Q above 0."""
    tail = upper_tail(np.abs(x))
    return x * np.where(x < 0, tail, np.float32(1) - tail)


def upper_tail(x: npt.NDArray) -> npt.NDArray:
    """Return erfc(x / sqrt(2)) / 2 for x >= 0, to a relative 1.2e-7 and rounding.

    exp(-x^2/2) is taken in two parts: rounding x^2 before would cost as many ULP as x^2/2 is large.
    """
    t = np.float32(1) / (np.float32(1) + x * np.float32(math.sqrt(0.125)))
    total = np.full_like(t, ERFC_COEFFICIENTS[0])
    for coefficient in ERFC_COEFFICIENTS[1:]:
        total = total * t + np.float32(coefficient)
    capped = np.minimum(x, np.float32(20))
    leading = (capped.view(np.uint32) & LEADING_BITS).view(np.float32)
    rest = (capped - leading) * (capped + leading)
    halved = np.float32(0.5) * t
    return halved * np.exp(np.float32(-0.5) * leading * leading) * np.exp(total - np.float32(0.5) * rest)


def tanh_form(x: npt.NDArray) -> npt.NDArray:
    """Take e = exp(-|u|), and x / (1 + e e), times e e below 0: one e after the other, since e e may be subnormal."""
    cube = np.float32(CUBIC) * x * x * x
    u = np.float32(SQRT_2_OVER_PI) * (x + cube)
    e = np.exp(-np.abs(u))
    quotient = x / (np.float32(1) + e * e)
    return np.where(u < 0, quotient * e * e, quotient)


def exact(x: npt.NDArray, *, form: str) -> npt.NDArray:
    """Compute the same form in x's dtype, float64."""
    result = {"erf": erf_exact, "tanh": tanh_exact}[form](x)
    return np.where(x == -np.inf, -0.0, result)


def erf_exact(x: npt.NDArray) -> npt.NDArray:
    """Use the C library's erfc, one number after the other."""
    tails = np.fromiter((math.erfc(-value / math.sqrt(2)) for value in x.flat), x.dtype, x.size)
    return 0.5 * x * tails.reshape(x.shape)


def tanh_exact(x: npt.NDArray) -> npt.NDArray:
    """Divide x by 1 + exp(-2u)."""
    return x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
