"""Exact sums of float64 numbers: as a few floats that do not overlap, whatever the order they were added in."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import frexp, fsum, inf, isfinite, ldexp, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.measure.tally import Expansion

BLOCK = 1 << 15
"""Terms that are summed at once: few enough for their buffers to stay in a core's caches, many enough for numpy."""


HUGE = 2.0**960
"""Up to this size as many terms as memory holds add up without overflow."""


_LARGEST = ldexp(2**53 - 1, 971)

_SMALLEST = ldexp(1.0, -1074)


def value(parts: Iterable[float]) -> float:
    """Return the sum of the parts, rounded once: infinite beyond the largest float64, NaN of opposite infinities."""
    parts = tuple(parts)
    try:
        return fsum(parts)
    except ValueError:
        return nan
    except OverflowError:
        return _rounded(sum(map(Fraction, parts), Fraction(0)))


def expansion(parts: Iterable[float]) -> Expansion:
    """Return the one expansion of a sum: each float is the rounded rest of what those before it leave.

    It is the same for every order and grouping of the parts. Infinities and NaN swallow the rest, and so does a sum
    beyond the largest float64.
    """
    rest, found = list(parts), []
    while first := value(rest):
        found.append(first)
        if not isfinite(first):
            return (first,)
        rest.append(-first)
    return tuple(found)


def add(first: Expansion, second: Expansion) -> Expansion:
    """Return the exact sum of two expansions."""
    if not first or not second:
        return first or second
    return expansion((*first, *second))


def _rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


def total(terms: NDArray[Any]) -> Expansion:
    """Return the exact sum of a flat float64 array."""
    parts: list[float] = []
    scratch = np.empty(min(BLOCK, terms.size)), np.empty(min(BLOCK, terms.size))
    for start in range(0, terms.size, BLOCK):
        block = terms[start : start + BLOCK]
        largest = max(float(np.maximum.reduce(block)), -float(np.minimum.reduce(block)))
        if largest <= HUGE:
            parts += partial_sums(block, largest, 0.0, scratch)
        else:  # infinities and NaN, too
            parts += block.tolist()
    return expansion(parts)


def partial_sums(
    terms: NDArray[Any], largest: float, unit: float, scratch: tuple[NDArray[Any], NDArray[Any]]
) -> list[float]:
    """Return a few floats whose sum is that of the terms, exactly.

    `largest` bounds the size of the terms, at most HUGE; every term is a multiple of `unit`, a power of two, or of
    nothing known where that is 0. `scratch` is overwritten and at least as long as the terms.

    Terms that are multiples of one unit add up exactly while their sum stays below 2**53 units. So the upper bits of
    each term are taken off and summed alone, as long as what is left is too wide: adding 1.5 * 2**k rounds a term to
    a multiple of 2**(k - 52), and k is chosen to let the sum of all such multiples be exact (Rump, Ogita and Oishi,
    Accurate Floating-Point Summation I, 2008, "extraction").
    """
    parts: list[float] = []
    doublings = max((terms.size - 1).bit_length(), 2)
    while ldexp(largest, doublings) > ldexp(unit or _SMALLEST, 53):
        exponent = frexp(largest)[1] + doublings - 1
        sigma = ldexp(1.5, exponent)
        upper, rest = scratch[0][: terms.size], scratch[1][: terms.size]
        np.add(terms, sigma, out=upper)
        np.subtract(upper, sigma, out=upper)
        parts.append(float(np.add.reduce(upper)))
        terms = np.subtract(terms, upper, out=rest)
        largest = ldexp(1.0, exponent - 53)
        if ldexp(largest, doublings) > ldexp(unit or _SMALLEST, 53):  # what is left may well be less
            largest = max(float(np.maximum.reduce(terms)), -float(np.minimum.reduce(terms)))
    parts.append(float(np.add.reduce(terms)))
    return parts
