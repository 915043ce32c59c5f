"""How far apart are the weights of two runs at one step?

Norms are sums in float64, of values divided by a power of two first, so that no square overflows.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import frexp, fsum, inf, isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import format_of, ulp

Weights = Mapping[str, NDArray[Any]]


class ArrayDistance(NamedTuple):
    """The distance of two arrays of one shape.

    `squares` is the sum of squares of the difference, `norm` that of the reference, `moved` the sum of its absolute
    values, `shrunk` the change of the sum of absolute values, `shifted` that of the sum. `ulps` is the norm of the
    difference over that of the reference's ULPs; None for integers. All are 0 for equal bits, and infinite for NaN and
    infinities.
    """

    squares: float
    norm: float
    moved: float
    shrunk: float
    shifted: float
    ulps: float | None
    has_same_bits: bool
    is_reference_finite: bool
    is_other_finite: bool

    @property
    def relative(self) -> float | None:
        """Return the 2-norm of the difference over the norm of the reference; None if it is not defined."""
        return relative_distance([self])


def relative_distance(parts: list[ArrayDistance]) -> float | None:
    """Return the relative distance over several arrays; None for NaN, infinities, or a difference from zeros."""
    squares, norm = (fsum(values) for values in ((each.squares for each in parts), (each.norm for each in parts)))
    if not (isfinite(squares) and isfinite(norm)):
        return None
    if squares == 0.0:
        return 0.0
    return sqrt(squares / norm) if norm else None


def measure_arrays(reference: NDArray[Any], other: NDArray[Any], *, with_ulps: bool = True) -> ArrayDistance:
    """Measure the distance of an array from a reference of the same shape."""
    same = reference.dtype == other.dtype and reference.tobytes() == other.tobytes()
    a = reference.astype(np.float64)
    finite_a = bool(np.isfinite(a).all())
    if same:
        return ArrayDistance(0.0, _squares(a) if finite_a else inf, 0.0, 0.0, 0.0, 0.0, True, finite_a, finite_a)
    b = other.astype(np.float64)
    finite_b = bool(np.isfinite(b).all())
    if not (finite_a and finite_b):
        return ArrayDistance(inf, inf, inf, 0.0, 0.0, None, False, finite_a, finite_b)
    difference = b - a
    moved, shifted = float(np.abs(difference).sum()), float(difference.sum())
    shrunk = float((np.abs(b) - np.abs(a)).sum())
    squares = _squares(difference)
    ulps = _norm_in_ulps(reference, a, squares) if with_ulps else None
    return ArrayDistance(squares, _squares(a), moved, shrunk, shifted, ulps, False, True, True)


def _squares(values: NDArray[np.float64]) -> float:
    """Return the sum of squares; infinite if it is beyond float64."""
    largest = float(np.abs(values).max(initial=0.0))
    if not largest:
        return 0.0
    exponent = frexp(largest)[1]
    scaled = np.ldexp(values, -exponent).ravel()
    try:
        return float(np.dot(scaled, scaled)) * 4.0**exponent
    except OverflowError:
        return inf


def _norm_in_ulps(reference: NDArray[Any], values: NDArray[np.float64], squares: float) -> float | None:
    """Return the 2-norm of a difference over the norm of its reference's ULPs; None for a dtype without a format."""
    # Not the mean of single distances: weights near zero have tiny ULPs, and would hide all others.
    format = format_of(reference.dtype.name)
    if format is None or not values.size:
        return None
    spacings = _squares(ulp(values, format))
    return sqrt(squares / spacings) if spacings and isfinite(squares) else None


class StepDistance(NamedTuple):
    """The distances of all parameters at one step, by name, in the order of the reference."""

    step: int
    parts: dict[str, ArrayDistance]

    @property
    def relative(self) -> float | None:
        """Return the relative distance over all parameters."""
        return relative_distance(list(self.parts.values()))

    @property
    def has_same_bits(self) -> bool:
        """Return whether all parameters have the same bits."""
        return all(each.has_same_bits for each in self.parts.values())

    def share(self, figure: str) -> float:
        """Return `shrunk` or `shifted` of all parameters over their `moved`: from -1 to 1; 0 where nothing moved."""
        moved = fsum(each.moved for each in self.parts.values())
        if not moved or not isfinite(moved):
            return 0.0
        return fsum(getattr(each, figure) for each in self.parts.values()) / moved


def measure_step(step: int, reference: Weights, other: Weights, *, with_ulps: bool = True) -> StepDistance:
    """Measure the distances of the parameters that two runs share, with the same shape, at one step."""
    shared = [name for name, a in reference.items() if name in other and a.shape == other[name].shape]
    parts = {name: measure_arrays(reference[name], other[name], with_ulps=with_ulps) for name in shared}
    return StepDistance(step, parts)
