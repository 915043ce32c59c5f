"""compare(actual, reference): everything that is measured of one output, as one Comparison without judgement."""

from __future__ import annotations

from math import isfinite, nan

import numpy as np
from numpy.typing import ArrayLike

from precreg.measure.figures import Errors, Figures, count_pairs, errors_of, measure_errors
from precreg.measure.histogram import count_errors
from precreg.measure.metrics import COUNTS, METRICS
from precreg.measure.promote import Array, identical, non_finite_counts, promote, widening
from precreg.types import Comparison, Positions, Scalar

HEAT_GROUPS = 64


def compare(
    actual: ArrayLike,
    reference: ArrayLike,
    *,
    output: str = "out",
    seed: int = 0,
    rtol: float,
    atol: float,
    worst: int = 100,
) -> Comparison:
    """Measure how far `actual` is from `reference`.

    Arrays of any shape, memory layout and byte order; integers, booleans, floating-point formats that arith knows,
    complex numbers. The reference may be of a wider dtype. `rtol` and `atol` decide which elements count as
    matching; `worst` limits how many positions are named. Nothing is broadcast: where the shapes differ, metrics
    and counts are empty; where there is no element, metrics are. docs/metrics.md has every formula.
    Raises UserError (bad-value, unknown-dtype) for arrays of anything but numbers.
    """
    a, r = np.asarray(actual), np.asarray(reference)
    wide = widening(a.dtype, r.dtype)
    identity = (output, seed, wide.dtype, a.shape, wide.reference_dtype, r.shape)
    if a.shape != r.shape:
        return Comparison(*identity)
    if a.size == 0:
        return Comparison(*identity, counts=dict.fromkeys(COUNTS, 0))
    with np.errstate(all="ignore"):
        pairs = promote(a, r, wide)
        finite = np.isfinite(pairs.actual) & np.isfinite(pairs.rounded)
        counts, mismatched = non_finite_counts(pairs, finite)
        errors = errors_of(pairs if np.count_nonzero(finite) == a.size else pairs.take(finite))
        counts |= count_pairs(errors, wide.format) | {"n": a.size}
        matching = counts["nan_matched"] + counts["inf_matched"] + errors.count_within(rtol, atol)
        equal = int(np.count_nonzero(identical(pairs, wide)))
        figures = measure_errors(errors, wide.format) | _shares(a.size, matching, equal)
        worst_at = finite.nonzero()[0][_largest(errors, worst)]
        return Comparison(
            *identity,
            metrics={name: figure for name in METRICS if isfinite(figure := float(figures.get(name, nan)))},
            counts={name: counts[name] for name in COUNTS},
            worst=_positions(worst_at, a, r),
            non_finite=_positions(mismatched[:worst], a, r),
            histogram=count_errors(errors.ordered) if errors.ordered.size else None,
            heat=_heat(errors.absolute, finite, a.shape),
        )


def _shares(n: int, matching: int, equal: int) -> Figures:
    return {"match_ratio": matching / n, "equal_share": equal / n, "differing_bits_share": (n - equal) / n}


def _largest(errors: Errors, k: int) -> Array:
    """Return the places of the k largest errors above zero, largest first; the earlier of two equal ones first."""
    if k <= 0 or errors.ordered.size == 0:
        return np.empty(0, np.intp)
    bound = errors.ordered[-k:][0]
    places: Array = ((errors.absolute >= bound) & (errors.absolute > 0)).nonzero()[0]
    largest: Array = places[(-errors.absolute[places]).argsort(kind="stable")[:k]]
    return largest


def _positions(index: Array, actual: Array, reference: Array) -> Positions | None:
    if index.size == 0:
        return None
    return Positions(index.tolist(), _scalars(actual.reshape(-1)[index]), _scalars(reference.reshape(-1)[index]))


def _scalars(values: Array) -> list[Scalar]:
    """Return numbers that read back as the same values; as text what JSON has no number for."""
    if values.dtype.kind in "biu":
        return [int(value) for value in values.tolist()]
    if values.dtype.kind == "c" or values.dtype.itemsize > 8:
        return [str(value) for value in values]
    numbers: list[float] = values.astype(np.float64).tolist()
    return [*numbers] if all(map(isfinite, numbers)) else [n if isfinite(n) else repr(n) for n in numbers]


def _heat(absolute: Array, finite: Array, shape: tuple[int, ...]) -> list[float] | None:
    """Return the mean error in up to 64 groups along the last axis; 0 for a group without a finite pair."""
    if len(shape) < 2:
        return None
    full = np.zeros(finite.size, absolute.dtype)
    full[finite] = absolute
    length = shape[-1]
    groups = min(length, HEAT_GROUPS)
    starts = np.arange(groups) * length // groups
    sums = np.add.reduceat(np.add.reduce(full.reshape(-1, length), axis=0), starts)
    counts = np.add.reduceat(np.add.reduce(finite.reshape(-1, length), axis=0, dtype=np.intp), starts)
    heat: list[float] = (sums / np.maximum(counts, 1)).astype(np.float64).tolist()
    return heat if all(map(isfinite, heat)) else None
