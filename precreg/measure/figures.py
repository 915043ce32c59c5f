"""The figures of finite pairs: formulas as in metrics.py, over arrays of one real working dtype."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from precreg.arith.formats import Format
from precreg.arith.spacing import ulp
from precreg.measure.promote import Array, Pairs

Figures = dict[str, Any]
"""Figures by name: floats, or numpy scalars of the working dtype."""

MERE_FLOOR = 1e-7
"""Added to |r| in MERE and MARE (cann/opbase experimental_standard.md)."""

SMALLEST_RELATIVE_REFERENCE = 1e-12
"""Percentiles of the relative error leave out references up to this size."""


class Errors(NamedTuple):
    """Finite pairs as real numbers.

    `actual` is |a|, `reference` |r|, `absolute` |a-r|; `signed` is a-r, for complex numbers |a| - |r|; `ordered` is
    `absolute` in ascending order.
    """

    actual: Array
    reference: Array
    absolute: Array
    signed: Array
    ordered: Array

    def count_within(self, rtol: float, atol: float) -> int:
        """Count the errors that atol + rtol * |r| allows."""
        return int(np.count_nonzero(self.absolute <= atol + rtol * self.reference))


def errors_of(pairs: Pairs) -> Errors:
    """Take sizes and errors of finite pairs."""
    actual, reference, absolute = np.abs(pairs.actual), np.abs(pairs.reference), np.abs(pairs.difference)
    signed = actual - reference if pairs.difference.dtype.kind == "c" else pairs.difference
    return Errors(actual, reference, absolute, signed, np.sort(absolute))


def nearest_rank(ordered: Array, permille: int) -> Any:
    """Return the smallest of the ascending values that at least permille/1000 of them do not exceed."""
    return ordered[-(-permille * ordered.size // 1000) - 1]


def count_pairs(errors: Errors, format: Format | None) -> dict[str, int]:
    """Count zeros, subnormals and signs; see COUNTS in metrics.py."""
    n = errors.absolute.size
    smallest_normal = 0.0 if format is None else format.smallest_normal
    return {
        "finite": n,
        "zero_references": n - int(np.count_nonzero(errors.reference)),
        "actual_subnormals": _count_subnormal(errors.actual, smallest_normal),
        "reference_subnormals": _count_subnormal(errors.reference, smallest_normal),
        "exact_matches": n - int(np.count_nonzero(errors.absolute)),
        "above": int(np.count_nonzero(errors.signed > 0)),
        "below": int(np.count_nonzero(errors.signed < 0)),
    }


def _count_subnormal(magnitudes: Array, smallest_normal: float) -> int:
    small = magnitudes[magnitudes < smallest_normal]
    return int(np.count_nonzero(small))


def measure_errors(errors: Errors, format: Format | None) -> Figures:
    """Return every figure of the errors that is defined; infinities and NaN, from overflow, are still among them."""
    if errors.absolute.size == 0:
        return {}
    return _absolute(errors) | _relative(errors) | _floored(errors) | _in_ulps(errors, format)


def _absolute(errors: Errors) -> Figures:
    """Return mean, largest, percentiles and moments of |a-r|, the bias, and the mean |r|.

    Errors are scaled by the largest before they are squared: 1e-200 has an RMS, though its square underflows.
    """
    n, largest = errors.absolute.size, errors.ordered[-1]
    scaled = errors.absolute / largest if largest else errors.absolute
    rms = largest * np.sqrt(np.add.reduce(scaled * scaled) / n)
    return {
        "max_abs_error": largest,
        "mean_abs_error": np.add.reduce(errors.absolute) / n,
        "rms_error": rms,
        "mse": rms * rms,
        "bias": np.add.reduce(errors.signed) / n,
        "p50_abs_error": nearest_rank(errors.ordered, 500),
        "p90_abs_error": nearest_rank(errors.ordered, 900),
        "p99_abs_error": nearest_rank(errors.ordered, 990),
        "p99.9_abs_error": nearest_rank(errors.ordered, 999),
        "mean_magnitude": np.add.reduce(errors.reference) / n,
    }


def _relative(errors: Errors) -> Figures:
    """Return the figures of |a-r| / |r| over non-zero references, each group where it has elements."""
    absolute, reference = errors.absolute, errors.reference
    nonzero = reference != 0
    if np.count_nonzero(nonzero) < nonzero.size:
        absolute, reference = absolute[nonzero], reference[nonzero]
    n = absolute.size
    if n == 0:
        return {}
    relative = absolute / reference
    figures: Figures = {
        "max_rel_error": np.maximum.reduce(relative),
        "mean_rel_error": np.add.reduce(relative) / n,
        "share_rel_above_1e-3": np.count_nonzero(relative > 1e-3) / n,
        "share_rel_above_1e-4": np.count_nonzero(relative > 1e-4) / n,
    }
    return figures | _relative_percentiles(relative[reference > SMALLEST_RELATIVE_REFERENCE])


def _relative_percentiles(relative: Array) -> Figures:
    if relative.size == 0:
        return {}
    relative.sort()
    return {f"p{percent}_rel_error": nearest_rank(relative, 10 * percent) for percent in (50, 90, 95, 99)}


def _floored(errors: Errors) -> Figures:
    """Return mean and largest of |a-r| / (|r| + 1e-7)."""
    ratios = errors.absolute / (errors.reference + MERE_FLOOR)
    return {"mere": np.add.reduce(ratios) / ratios.size, "mare": np.maximum.reduce(ratios)}


def _in_ulps(errors: Errors, format: Format | None) -> Figures:
    """Return the figures of the error in units in the last place of the output dtype at the reference.

    Integers (format None) have an ulp of 1.
    """
    n = errors.absolute.size
    spacing = np.ones_like(errors.reference) if format is None else ulp(errors.reference, format)
    ulps = errors.absolute / spacing
    return {
        "max_ulp": np.maximum.reduce(ulps),
        "mean_ulp": np.add.reduce(ulps) / n,
        "mean_log2_ulp": np.add.reduce(np.log2(ulps + 0.25)) / n,
        "share_above_1_ulp": np.count_nonzero(ulps > 1) / n,
        "share_above_32_ulp": np.count_nonzero(ulps > 32) / n,
        "ulp_scale": np.add.reduce(spacing) / n,
    }
