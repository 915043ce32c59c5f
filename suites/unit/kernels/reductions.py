"""Sums and means over the last axis, in orders whose errors differ, and the same exactly.

With u the unit roundoff of the accumulator and n terms, the error of a sum is at most (Higham, Accuracy and Stability
of Numerical Algorithms, 2nd edition, chapter 4; gamma(k) = k u / (1 - k u)):

    naive         gamma(n - 1) sum |x|
    eight_way     gamma(n / 8 + 2) sum |x|           n / 8 rounded up
    pairwise      gamma(log2 n) sum |x|              log2 n rounded up
    compensated   u |sum x| + gamma(n - 1)^2 sum |x|

Every step is an elementwise addition or a running sum (numpy.add.accumulate, which is sequential), each rounded by
IEEE 754, so the outputs have the same bits on every CPU. numpy.sum's order is numpy's own affair.
"""

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

LANES = 8
Method = Literal["naive", "eight_way", "pairwise", "compensated"]
Accumulator = Literal["own", "float32"]


def total(x: npt.NDArray, *, method: Method, accumulator: Accumulator) -> npt.NDArray:
    """Add up the last axis of x (..., n), n >= 1, in the accumulator's dtype; the result (...) has x's dtype."""
    terms = x if accumulator == "own" else x.astype(accumulator)
    return METHODS[method](terms).astype(x.dtype)


def naive(terms: npt.NDArray) -> npt.NDArray:
    """Add term by term: what a plain loop does."""
    return np.add.accumulate(terms, axis=-1)[..., -1]


def eight_way(terms: npt.NDArray) -> npt.NDArray:
    """Keep eight partial sums, of every eighth term each, and merge them by halves at the end."""
    padded = padded_to(terms, LANES * math.ceil(terms.shape[-1] / LANES))
    lanes = padded.reshape(*terms.shape[:-1], -1, LANES)
    return pairwise(np.add.accumulate(lanes, axis=-2)[..., -1, :])


def pairwise(terms: npt.NDArray) -> npt.NDArray:
    """Add neighbours, then neighbouring sums, until one is left (Higham, 4.1)."""
    terms = padded_to(terms, 1 << (terms.shape[-1] - 1).bit_length())
    while terms.shape[-1] > 1:
        terms = terms[..., ::2] + terms[..., 1::2]
    return terms[..., 0]


def compensated(terms: npt.NDArray) -> npt.NDArray:
    """Add term by term, add up what each addition lost, and correct at the end.

    Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974, which improves Kahan's
    sum. The losses are exact (Knuth's TwoSum; The Art of Computer Programming, volume 2, 4.2.2, theorem B). Where the
    sum has overflowed they are NaN, and it stays as it is.
    """
    sums = np.add.accumulate(terms, axis=-1)
    before, added, after = sums[..., :-1], terms[..., 1:], sums[..., 1:]
    taken = after - before
    lost = (before - (after - taken)) + (added - taken)
    corrected = sums[..., -1] + naive(np.concatenate([np.zeros_like(terms[..., :1]), lost], axis=-1))
    return np.where(np.isfinite(sums[..., -1]), corrected, sums[..., -1])


METHODS = {"naive": naive, "eight_way": eight_way, "pairwise": pairwise, "compensated": compensated}


def padded_to(terms: npt.NDArray, length: int) -> npt.NDArray:
    """Append -0.0 to the last axis, which changes no sum: x + -0.0 is x for every x, both zeros included."""
    missing = [(0, 0)] * (terms.ndim - 1) + [(0, length - terms.shape[-1])]
    return np.pad(terms, missing, constant_values=-0.0)


def mean(x: npt.NDArray, *, method: Literal["sum_first", "running"]) -> npt.NDArray:
    """Average the last axis of x (..., n), n >= 1, in float32 at least; the result (...) has x's dtype.

    sum_first is a pairwise sum divided by n; it overflows where the sum does. running is m_k = m + (x_k - m) / k,
    whose values stay within those of x (Knuth, The Art of Computer Programming, volume 2, 4.2.2, equation 15).
    """
    terms = x.astype(np.promote_types(x.dtype, np.float32))
    result = running_mean(terms) if method == "running" else pairwise(terms) / terms.dtype.type(x.shape[-1])
    return result.astype(x.dtype)


def running_mean(terms: npt.NDArray) -> npt.NDArray:
    """Move the mean of the first k - 1 terms towards the k-th by a k-th of their distance."""
    average = terms[..., 0]
    for k in range(1, terms.shape[-1]):
        average = average + (terms[..., k] - average) / terms.dtype.type(k + 1)
    return average


def masked_mean(x: npt.NDArray, lengths: npt.NDArray) -> npt.NDArray:
    """Average the first `lengths` (rows,) elements of each row of x (rows, n), in float32; an empty row gives 0.

    What lies behind a row's length does not count, whatever it is: padding is often NaN. The result has x's dtype.
    """
    inside = np.arange(x.shape[-1]) < lengths[:, None]
    terms = np.where(inside, x, x.dtype.type(0)).astype(np.float32)
    return (pairwise(terms) / np.maximum(lengths, 1).astype(np.float32)).astype(x.dtype)


def exact_total(x: npt.NDArray, *, method: Method, accumulator: Accumulator) -> npt.NDArray:
    """Add up without error; `method` and `accumulator` are the subject's and mean nothing here."""
    return exact_sum(x)


def exact_mean(x: npt.NDArray, *, method: str) -> npt.NDArray:
    """Divide the exact sum by n; `method` is the subject's and means nothing here."""
    return exact_sum(x) / x.dtype.type(x.shape[-1])


def exact_masked_mean(x: npt.NDArray, lengths: npt.NDArray) -> npt.NDArray:
    """Average row by row what is within its length; an empty row gives 0."""
    pairs = zip(x, lengths, strict=True)
    return np.array([math.fsum(row[:length]) / length if length else 0 for row, length in pairs])


def exact_sum(x: npt.NDArray) -> npt.NDArray:
    """Add up the last axis of float64 or long double x, of which each value is a float64, and round once.

    math.fsum is exact before it rounds to float64. What that leaves is found by a second sum: a long double has room
    for it, and a float64 is not changed by it.
    """
    rows = x.astype(np.float64).reshape(-1, x.shape[-1]).tolist()
    sums = [math.fsum(row) for row in rows]
    rests = [math.fsum([*row, -first]) for row, first in zip(rows, sums, strict=True)]
    return (np.array(sums, x.dtype) + np.array(rests, x.dtype)).reshape(x.shape[:-1])
