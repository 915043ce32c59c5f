"""Which magnitude should be the largest that does not saturate?

A threshold trades the spacing of the codes for values that saturate. Each method returns one threshold for each row.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import numpy as np

from precreg.quantization.codes import Codes, Floats, Rows, choose_scales, decode, encode
from precreg.types import CalibrationMethod, Quantizer

# The search for the smallest mean squared error: parts of the largest magnitude, then a finer step around the best.
_COARSE = 32
_FINE = 12
# More elements change the best threshold by less than its step (tests/quantization/test_calibration.py).
_SEARCHED_ELEMENTS = 2**18
# Migacz, 8-bit Inference with TensorRT (GTC 2017): 2,048 bins of magnitudes.
ENTROPY_BINS = 2048
# As Apache MXNet's calibration of that method has it.
_SMOOTHING = 1e-4
_PERCENTILES: dict[CalibrationMethod, float] = {"p99.9": 0.999, "p99.99": 0.9999}


def find_thresholds(
    method: CalibrationMethod, rows: Rows, codes: Codes, quantizer: Quantizer, dtype: np.dtype[np.generic]
) -> Floats:
    """Return the threshold of each row by a method; 0.0 for a row of zeros."""
    largest: Floats = np.abs(rows.values).max(axis=1, initial=0.0)
    if method in _PERCENTILES:
        return _percentiles(rows, _PERCENTILES[method])
    if method == "mse":
        return _least_squared_error(rows, codes, quantizer, dtype, largest)
    if method == "entropy":
        # Codes for magnitudes: half of them, as one sign needs.
        levels = codes.size // 2
        return np.array([entropy_threshold(row, levels) for row in rows.values])
    return largest


def _percentiles(rows: Rows, share: float) -> Floats:
    """Return the percentile of the magnitudes of each row, interpolated as numpy does; zeros that fill it count not."""
    ordered = np.sort(np.abs(rows.values), axis=1)
    width = ordered.shape[1]
    place = (width - rows.lengths) + (rows.lengths - 1) * share
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, width - 1)
    line = np.arange(len(ordered))
    low, high = ordered[line, below], ordered[line, above]
    found: Floats = low + (high - low) * (place - below)
    return found


def _least_squared_error(
    rows: Rows, codes: Codes, quantizer: Quantizer, dtype: np.dtype[np.generic], largest: Floats
) -> Floats:
    step = ceil(rows.values.size / _SEARCHED_ELEMENTS)
    searched = rows._replace(values=rows.values[:, ::step]) if step > 1 else rows

    def errors(factor: Floats) -> Floats:
        scales = choose_scales(codes, quantizer, rows, factor * largest, dtype)
        differences = searched.values - decode(encode(codes, searched.values, scales).codes, scales)
        found: Floats = np.square(differences).sum(axis=1)
        return found

    best = np.ones(len(largest))
    least = errors(best)
    for number in range(1, _COARSE):
        best, least = _better(np.full(len(best), number / _COARSE), errors, best, least)
    centre = best.copy()
    for number in range(-_FINE, _FINE + 1):
        factor = np.clip(centre + number / (_COARSE * (_FINE + 1)), 1 / (4 * _COARSE), 1.0)
        best, least = _better(factor, errors, best, least)
    return best * largest


def _better(factor: Floats, errors: Callable[[Floats], Floats], best: Floats, least: Floats) -> tuple[Floats, Floats]:
    found = errors(factor)
    is_less = found < least
    return np.where(is_less, factor, best), np.where(is_less, found, least)


def entropy_threshold(values: Floats, levels: int) -> float:
    """Return the threshold whose codes keep the distribution of magnitudes best, by Kullback-Leibler divergence.

    `levels` are the codes of magnitudes: 128 for int8. The method is that of TensorRT (Migacz, GTC 2017). For each
    number of bins, the bins beyond it are added to the last one, and `levels` equal parts take the place of the bins.
    Each part spreads its count evenly over its bins that have any.
    """
    magnitudes = np.abs(values[values != 0.0])
    if not magnitudes.size:
        return 0.0
    largest = float(magnitudes.max())
    counts = np.histogram(magnitudes, bins=ENTROPY_BINS, range=(0.0, largest))[0].astype(np.float64)
    if levels >= ENTROPY_BINS:
        return largest
    divergences = [_divergence(counts, kept, levels) for kept in range(levels, ENTROPY_BINS + 1)]
    kept = levels + int(np.argmin(divergences))
    return largest if kept == ENTROPY_BINS else (kept + 0.5) * largest / ENTROPY_BINS


def _divergence(counts: Floats, kept: int, levels: int) -> float:
    inner = counts[:kept]
    reference = inner.copy()
    reference[-1] += counts[kept:].sum()
    has_any = reference > 0.0
    # Bin number times levels over bins: its part, as equal parts of the kept range have it.
    part = np.arange(kept) * levels // kept
    sums = np.bincount(part, inner, levels)
    filled = np.bincount(part, has_any, levels)
    spread = np.where(has_any, sums[part] / np.maximum(filled[part], 1.0), 0.0)
    p, q = _smoothed(reference), _smoothed(spread)
    if p is None or q is None:
        return float("inf")
    p, q = p / p.sum(), q / q.sum()
    return float((p * np.log(p / q)).sum())


def _smoothed(counts: Floats) -> Floats | None:
    """Return counts with a little in place of each zero, taken from the others; None if these have too little.

    An outlier is counted in the last bin of the reference alone, so that the divergence would be infinite.
    """
    is_zero = counts == 0.0
    zeros = int(is_zero.sum())
    others = counts.size - zeros
    taken = _SMOOTHING * zeros / others if others else 1.0
    return None if taken >= 1.0 else counts + np.where(is_zero, _SMOOTHING, -taken)
