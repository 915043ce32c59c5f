"""The exponential as vector units compute it: argument reduction and a polynomial, all in float32.

    x = k ln 2 + r,  |r| <= ln 2 / 2,  exp(x) = 2^k exp(r)

Reduction after Cody and Waite, "Software Manual for the Elementary Functions", 1980, chapter 6; coefficients of expf in
Moshier's Cephes library. Every operation is an add, a multiply, or one that is exact: the same bits on every CPU.
"""

import numpy as np
import numpy.typing as npt

LOWEST, HIGHEST = np.float32(-104), np.float32(89)
"""Below and above, float32 has only 0 and infinity: 104 and 89 lie past the logarithms of its ends."""

LOG2_E = np.float32(1.44269504088896341)
LN_2_HIGH = np.float32(0.693359375)
"""The leading 9 bits of ln 2: its product with |k| < 2^15 is exact."""
LN_2_LOW = np.float32(-2.12194440e-4)
"""The rest of ln 2."""

COEFFICIENTS = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""Of r^7, r^6, ..., r^2 in exp(r); those of r and 1 are 1."""


def exp(x: npt.NDArray) -> npt.NDArray:
    """Return e to the x in x's dtype, computed in float32: 0 at -infinity, subnormals kept, infinity on overflow."""
    values = np.clip(x.astype(np.float32), LOWEST, HIGHEST)
    k = np.rint(values * LOG2_E)
    r = (values - k * LN_2_HIGH) - k * LN_2_LOW
    return np.ldexp(polynomial(r), k.astype(np.int32)).astype(x.dtype)


def polynomial(r: npt.NDArray) -> npt.NDArray:
    """Return exp(r) for |r| <= ln 2 / 2, by Horner's rule."""
    total = np.full_like(r, COEFFICIENTS[0])
    for coefficient in COEFFICIENTS[1:]:
        total = total * r + np.float32(coefficient)
    return total * (r * r) + r + np.float32(1)


def exact(x: npt.NDArray) -> npt.NDArray:
    """Compute in x's dtype, float64."""
    return np.exp(x)
