"""The script one would write first: every figure by itself, over whole arrays, with what numpy has for it."""

from __future__ import annotations

import numpy as np

from measuring.data import Array, Pair

RTOL, ATOL = 1e-5, 1e-8


def naive(pair: Pair) -> dict[str, float]:
    """Return the metrics of docs/metrics.md for a float32 array, and compute its worst places, histogram and sums."""
    actual, reference = pair.actual, pair.reference
    finite = np.isfinite(actual) & np.isfinite(reference)
    a = actual[finite].astype(np.float64)
    r = reference[finite].astype(np.float64)
    same = (np.isnan(actual) & np.isnan(reference)) | (np.isinf(actual) & (actual == reference))
    matching = np.isclose(actual, reference, rtol=RTOL, atol=ATOL, equal_nan=True)
    equal = actual.view(np.int32) == reference.astype(np.float32).view(np.int32)
    figures = {
        "n": actual.size,
        "finite": finite.sum(),
        "exact_matches": (a == r).sum(),
        "above": (a > r).sum(),
        "below": (a < r).sum(),
        "zero_references": (r == 0).sum(),
        "match_ratio": matching.mean(),
        "equal_share": equal.mean(),
        "differing_bits_share": 1 - equal.mean(),
        "non_finite_mismatch_share": (~finite & ~same).mean(),
    }
    figures |= sizes(a, r) | relative(a, r) | in_ulps(a, r) | whole(a, r) | regions(a, r, actual.size)
    worst(np.abs(actual.astype(np.float64) - reference), pair)
    per_axis(np.where(finite, np.abs(actual - reference), 0))
    return {name: float(figure) for name, figure in figures.items()}


def percentiles(values: Array, name: str) -> dict[str, float]:
    """Return five percentiles, each an element."""
    wanted = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
    found = np.quantile(values, list(wanted.values()), method="inverted_cdf")
    return {f"{percent}_{name}": value for percent, value in zip(wanted, found, strict=True)}


def sizes(a: Array, r: Array) -> dict[str, float]:
    """Return the figures of the absolute error."""
    error = np.abs(a - r)
    np.histogram(np.log10(error[error > 0]), bins=100)
    return percentiles(error, "abs_error") | {
        "max_abs_error": error.max(),
        "mean_abs_error": error.mean(),
        "rms_error": np.sqrt(np.mean(error**2)),
        "mse": np.mean(error**2),
        "bias": np.mean(a - r),
        "outward_bias": np.mean((a - r) * np.sign(r)),
        "mean_magnitude": np.abs(r).mean(),
        "max_magnitude": np.abs(r).max(),
    }


def relative(a: Array, r: Array) -> dict[str, float]:
    """Return the figures of the relative error."""
    a, r = a[r != 0], r[r != 0]
    error = np.abs(a - r) / np.abs(r)
    floored = np.abs(a - r) / (np.abs(r) + 1e-7)
    return percentiles(error[np.abs(r) > 1e-12], "rel_error") | {
        "max_rel_error": error.max(),
        "mean_rel_error": error.mean(),
        "share_rel_above_1e-3": np.mean(error > 1e-3),
        "share_rel_above_1e-4": np.mean(error > 1e-4),
        "mere": floored.mean(),
        "mare": floored.max(),
    }


def in_ulps(a: Array, r: Array) -> dict[str, float]:
    """Return the figures in units in the last place of float32."""
    spacing = np.spacing(np.abs(r).astype(np.float32)).astype(np.float64)
    ulps = np.abs(a - r) / spacing
    return percentiles(ulps, "ulp") | {
        "max_ulp": ulps.max(),
        "mean_ulp": ulps.mean(),
        "rms_ulp": np.sqrt(np.mean(ulps**2)),
        "mean_log2_ulp": np.mean(np.log2(ulps + 0.25)),
        "share_above_0.5_ulp": np.mean(ulps > 0.5),
        "share_above_1_ulp": np.mean(ulps > 1),
        "share_above_2_ulp": np.mean(ulps > 2),
        "share_above_32_ulp": np.mean(ulps > 32),
        "ulp_scale": spacing.mean(),
    }


def whole(a: Array, r: Array) -> dict[str, float]:
    """Return the figures of the arrays as vectors, and Cambricon's."""
    error, magnitude = np.abs(a - r), np.abs(r)
    above, below = (a > r).sum(), (a < r).sum()
    cosine = np.dot(a, r) / (np.linalg.norm(a) * np.linalg.norm(r))
    noise = np.sum(error**2) / np.sum(r**2)
    return {
        "diff1": error.sum() / (magnitude.sum() + 1e-9),
        "diff2": np.sqrt(np.sum(error**2) / (np.sum(r**2) + 1e-9)),
        "diff3": np.where(magnitude < 1e-6, error, error / (magnitude + 1e-9)).max(),
        "diff4": below / max(above + below, 1),
        "one_sidedness": abs(2 * below / (above + below) - 1) if above + below >= 100 else 0,
        "error_balance": abs(int(above) - int(below)) / a.size,
        "cosine": cosine,
        "cosine_distance": 1 - cosine,
        "snr": 10 * np.log10(1 / noise),
        "psnr": 20 * np.log10(magnitude.max() / np.sqrt(np.mean(error**2))),
        "effective_bits": -0.5 * np.log2(noise),
        "error_magnitude_correlation": np.corrcoef(error, magnitude)[0, 1],
    }


def regions(a: Array, r: Array, n: int) -> dict[str, float]:
    """Return the shares of Ascend's small values, cancellations, and thresholds, of float32."""
    error, magnitude = np.abs(a - r), np.abs(r)
    small = magnitude < 2**-14
    cancelled = ~small & (magnitude < 2**-8)
    tiny = magnitude <= 2**-20
    return {
        "small_value_error_share": np.sum(small & (error > 2**-30)) / n,
        "cancellation_error_share": np.sum(cancelled & (error > 10 * 2**-13 * magnitude)) / n,
        "relative_violation_share": np.sum(~tiny & (error > 2**-20 * magnitude)) / n,
        "absolute_violation_share": np.sum(tiny & (error > 2**-30)) / n,
    }


def worst(error: Array, pair: Pair) -> list[tuple[int, float, float]]:
    """Return the hundred largest errors: place, actual and reference."""
    places = np.argsort(np.where(np.isfinite(error), error, -1), axis=None)[::-1][:100]
    return [(int(place), pair.actual.flat[place], pair.reference.flat[place]) for place in places]


def per_axis(error: Array) -> list[Array]:
    """Return the sums of the error in up to sixteen groups of each axis."""
    sums = []
    for axis, length in enumerate(error.shape):
        others = tuple(other for other in range(error.ndim) if other != axis)
        groups = np.array_split(error.sum(axis=others), min(length, 16))
        sums.append(np.array([group.sum() for group in groups]))
    return sums
