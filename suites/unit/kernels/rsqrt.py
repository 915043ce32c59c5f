"""1 / sqrt(x) as devices compute it, a guess from the bits and Newton steps, and plainly; both in float32.

The guess is Lomont's ("Fast Inverse Square Root", 2003), at most 3.5 % off; a step y <- y (3/2 - x/2 y y) leaves
3/2 d^2 of a relative error d. Every operation is an add, a multiply, a division, a square root or exact: the same bits
on every CPU.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

GUESS = 0x5F375A86
STEPS = 3
SMALL = np.float32(2**-125)
"""Half of what is below is subnormal."""


def rsqrt(x: npt.NDArray, *, method: Literal["newton", "plain"]) -> npt.NDArray:
    """Return 1/sqrt(x) in x's dtype: infinity at 0, with the sign of the zero, 0 at infinity, NaN below 0."""
    return {"newton": newton, "plain": plain}[method](x.astype(np.float32)).astype(x.dtype)


def plain(x: npt.NDArray) -> npt.NDArray:
    """Divide by the root: two operations, each rounded."""
    return np.float32(1) / np.sqrt(x)


def newton(x: npt.NDArray) -> npt.NDArray:
    """Improve the guess; what the bits of a number cannot give (0, infinity, below 0) is taken from the division.

    Subnormals have no exponent to halve, and x/2 must not be one: small x are scaled by 2^24, their results by 2^12.
    """
    small = x < SMALL
    scaled = np.where(small, x * np.float32(2**24), x)
    y = np.int32(GUESS) - (scaled.view(np.int32) >> 1)
    y = improved(y.view(np.float32), np.float32(0.5) * scaled)
    return np.where((x > 0) & (x < np.inf), np.where(small, y * np.float32(2**12), y), plain(x))


def improved(y: npt.NDArray, half_x: npt.NDArray) -> npt.NDArray:
    """Do the steps. (x/2 y) y stays near 1, where y y alone would be subnormal for x near overflow."""
    for _ in range(STEPS):
        y = y * (np.float32(1.5) - (half_x * y) * y)
    return y


def exact(x: npt.NDArray, *, method: str) -> npt.NDArray:
    """Compute in x's dtype, float64; `method` is the subject's and means nothing here."""
    return 1 / np.sqrt(x)
