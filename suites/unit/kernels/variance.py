"""The variance over the last axis (of a population: divided by n), by three algorithms, and the same exactly.

With kappa = sqrt(1 + (mean / std)^2), the condition of the problem, and u the unit roundoff, relative errors are of the
order n u for two passes, n kappa u for Welford's updates, and n kappa^2 u for the textbook formula, which may come out
negative (Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance", The American Statistician 37, 1983).
Every step is elementwise or a running sum, so the outputs have the same bits on every CPU.
"""

from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt


def variance(x: npt.NDArray, *, method: Literal["two_pass", "welford", "textbook"]) -> npt.NDArray:
    """Give the variance of the last axis of x (..., n), n >= 1, computed in float32 at least; (...) in x's dtype."""
    return METHODS[method](x.astype(np.promote_types(x.dtype, np.float32))).astype(x.dtype)


def two_pass(x: npt.NDArray) -> npt.NDArray:
    """Average the squares of the centered values, and take off what the rounding of the mean has added.

    (sum d^2 - (sum d)^2 / n) / n with d = x - mean: the corrected two-pass algorithm of Chan, Golub and LeVeque.
    """
    count = x.dtype.type(x.shape[-1])
    centered = x - total(x) / count
    drift = total(centered)
    return ((total(centered * centered) - drift * drift / count) / count)[..., 0]


def welford(x: npt.NDArray) -> npt.NDArray:
    """Update mean and sum of squared deviations element by element, reading x once.

    Welford, "Note on a Method for Calculating Corrected Sums of Squares and Products", 1962.
    """
    mean, squares = x[..., 0], np.zeros_like(x[..., 0])
    for k in range(1, x.shape[-1]):
        distance = x[..., k] - mean
        mean = mean + distance / x.dtype.type(k + 1)
        squares = squares + distance * (x[..., k] - mean)
    return squares / x.dtype.type(x.shape[-1])


def textbook(x: npt.NDArray) -> npt.NDArray:
    """E[x^2] - E[x]^2, a difference of two large numbers wherever the mean is large."""
    count = x.dtype.type(x.shape[-1])
    mean = total(x) / count
    return (total(x * x) / count - mean * mean)[..., 0]


METHODS = {"two_pass": two_pass, "welford": welford, "textbook": textbook}


def total(terms: npt.NDArray) -> npt.NDArray:
    """Add up the last axis one by one; it becomes 1."""
    return np.add.accumulate(terms, axis=-1)[..., -1:]


def exact(x: npt.NDArray, *, method: str) -> npt.NDArray:
    """Compute in rational numbers and round once to x's dtype; `method` is the subject's and means nothing here.

    x is float64, or long double of which each value is a float64.
    """
    rows = x.astype(np.float64).reshape(-1, x.shape[-1]).tolist()
    return np.array([rounded(rational_variance(row), x.dtype) for row in rows]).reshape(x.shape[:-1])


def rational_variance(row: list[float]) -> Fraction:
    """Give (n sum k^2 - (sum k)^2) / (n unit)^2, where the numbers are k / unit with one power of two for all."""
    ratios = [value.as_integer_ratio() for value in row]
    unit = max(denominator for _, denominator in ratios)
    whole = [numerator * (unit // denominator) for numerator, denominator in ratios]
    return Fraction(len(row) * sum(k * k for k in whole) - sum(whole) ** 2, (len(row) * unit) ** 2)


def rounded(number: Fraction, dtype: np.dtype) -> np.floating:
    """Round to float64, and add the rest where the dtype has room for it."""
    first = float(number)
    return dtype.type(first) + dtype.type(float(number - Fraction(first)))
