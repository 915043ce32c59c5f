"""How large are the errors of one output at one seed, in the figures that two versions are compared by?

A pair of versions is compared over many seeds, so each seed needs a few figures only: averages, maxima and biases. The
mean of the largest 1/64 of the errors moves less from seed to seed than a maximum, and still shows losses that an
average hides (benchmarks/detection.py). A run's own comparison has more metrics, and is exact in its sums.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from precreg.arithmetic import ulp
from precreg.measure.pairing import (
    ElementPairs,
    Pairing,
    bits_equal,
    count_non_finite,
    longdouble_to_float64,
    make_pairs,
    pairing_of,
    round_references,
)
from precreg.storage import Array
from precreg.types import SeedFigures

# 1 of so many elements counts among the largest errors, at least one.
TOP_SHARE = 64

# Elements at a time: the temporary arrays of a chunk stay below 100 MB. The grid is fixed, so that sums are the same
# on every machine.
_CHUNK = 1 << 20


def measure_seed(actual: Array, reference: Array) -> SeedFigures:
    """Measure one output against its reference, arrays of one shape with at least one element.

    Metrics over the finite pairs, as docs/metrics.md defines them; `top_abs_error` and `top_ulp` are means of the
    largest max(1, n // 64) errors. Without a finite pair there are no metrics. Raises UserError (bad-value,
    unknown-dtype) for arrays of anything but numbers.
    """
    pairing = pairing_of(actual.dtype, reference.dtype)
    actual, reference = np.ascontiguousarray(actual).reshape(-1), np.ascontiguousarray(reference).reshape(-1)
    with np.errstate(all="ignore"):
        chunks = [
            _measure(actual[start : start + _CHUNK], reference[start : start + _CHUNK], pairing)
            for start in range(0, actual.size, _CHUNK)
        ]
        errors, ulps, signed, outward = (
            np.concatenate(parts) for parts in zip(*[c.errors for c in chunks], strict=True)
        )
        metrics = _metrics(errors, ulps, signed, outward) if errors.size else {}
    return SeedFigures(
        metrics=metrics,
        size=actual.size,
        mismatched=sum(chunk.mismatched for chunk in chunks),
        correctly_rounded=sum(chunk.correctly_rounded for chunk in chunks),
    )


def measure_pair(accepted: Array, present: Array, reference: Array) -> tuple[SeedFigures, SeedFigures]:
    """Measure two outputs against one reference; metrics are over the elements at which both are finite.

    A version without a NaN that the other has is compared with it by the same elements.
    """
    found = measure_seed(accepted, reference), measure_seed(present, reference)
    if not any(figures.mismatched for figures in found):
        return found
    finite = np.isfinite(accepted) & np.isfinite(present)
    if not finite.any():
        return replace(found[0], metrics={}), replace(found[1], metrics={})
    common = [measure_seed(each[finite], reference[finite]).metrics for each in (accepted, present)]
    return replace(found[0], metrics=common[0]), replace(found[1], metrics=common[1])


class _Chunk(NamedTuple):
    """|d|, U, d and d * sign(r) of the finite pairs of a chunk, and the counts of all its pairs."""

    errors: tuple[Array, Array, Array, Array]
    mismatched: int
    correctly_rounded: int


def _measure(actual: Array, reference: Array, pairing: Pairing) -> _Chunk:
    buffers = tuple(np.empty(actual.size) for _ in range(5))
    pairs = make_pairs(actual, reference, pairing, buffers)
    rounded = round_references(pairs.reference, pairing)
    finite = np.isfinite(pairs.actual) & np.isfinite(rounded)
    correct = int(np.count_nonzero(bits_equal(pairs.actual, rounded)))
    mismatched = 0
    if not finite.all():
        mismatched = count_non_finite(pairs.actual[~finite], rounded[~finite]).mismatched.size
        pairs = pairs.take(finite)
    # Complex numbers have the signed errors of their sizes, which are outward already.
    sign = np.ones(1) if pairing.is_complex else np.sign(longdouble_to_float64(pairs.reference))
    return _Chunk((pairs.error, _in_ulps(pairs, pairing), pairs.signed, pairs.signed * sign), mismatched, correct)


def _in_ulps(pairs: ElementPairs, pairing: Pairing) -> Array:
    if pairing.format is None:
        return pairs.error
    if pairs.wide is not None:
        quotients: Array = (pairs.wide[0] / ulp(pairs.wide[1], pairing.format)).astype(np.float64)
        return quotients
    found: Array = pairs.error / ulp(pairs.magnitude, pairing.format)
    return found


def _metrics(errors: Array, ulps: Array, signed: Array, outward: Array) -> dict[str, float]:
    return {
        "mean_abs_error": float(np.mean(errors)),
        "rms_error": _rms(errors),
        "max_abs_error": float(np.max(errors)),
        "top_abs_error": _mean_of_largest(errors),
        "mean_ulp": float(np.mean(ulps)),
        "rms_ulp": _rms(ulps),
        "max_ulp": float(np.max(ulps)),
        "top_ulp": _mean_of_largest(ulps),
        "bias": float(np.mean(signed)),
        "outward_bias": float(np.mean(outward)),
    }


def _rms(values: Array) -> float:
    # Scaled by the largest, because the squares of errors below 1e-162 vanish, and above 1e154 overflow.
    largest = float(np.max(values))
    if largest == 0 or not np.isfinite(largest):
        return largest
    return largest * sqrt(float(np.mean(np.square(values / largest))))


def _mean_of_largest(values: Array) -> float:
    number = max(1, values.size // TOP_SHARE)
    largest = np.partition(values, values.size - number)[values.size - number :]
    # In order, because a partition may leave equal sums in another order on another processor.
    return float(np.mean(np.sort(largest)))
