"""Which metrics does a tally give? The formulas of docs/metrics.md, in ordinary floats and exact sums."""

from __future__ import annotations

from fractions import Fraction
from math import fsum, inf, isfinite, ldexp, log2, log10, nan, sqrt
from typing import NamedTuple

from precreg.arithmetic import Format
from precreg.measure.metrics import METRICS, Regions
from precreg.measure.sketch import sizes
from precreg.measure.tally import Expansion, Tally, round_expansion

# Decibels of a signal without noise. Metrics are finite, and no other signal reaches this value.
EXACT_DB = 9999.0
MAX_BITS = 53.0  # significant bits of a float64, in which errors are measured
# Few signs agree by luck: with 100 pairs, one_sidedness above 0.4 has a probability below 1e-4.
MIN_UNEQUAL = 100
_PERCENTILES = {
    name: tuple(f"{percent}_{name}" for percent in ("p50", "p90", "p95", "p99", "p99.9"))
    for name in ("abs_error", "rel_error", "ulp")
}

_ABOVE = ("share_above_0.5_ulp", "share_above_1_ulp", "share_above_2_ulp", "share_above_32_ulp")

# A variance below 2^-40 of the mean square is a deviation below a millionth: rounding of products hides it.
_LEAST_VARIANCE = 2.0**-40
# Differences of rounded sums that cancel to less than these shares are taken again from the exact sums.
_PLAIN_VARIANCE = 2.0**-20
_CANCELLED = 2.0**-10

# The units of exact sums in 1, and in 1 of products of sums.
_UNITS = 1 << 1074
_SQUARED_UNITS = _UNITS * _UNITS

Figures = dict[str, float]


def compute_metrics(tally: Tally, format: Format | None, regions: Regions) -> Figures:
    """Return every defined and finite metric, in the order of METRICS.

    `format` is the floating-point format of the output (None: integers), `regions` those of its dtype.
    """
    if not tally.counts.n:
        return {}
    found = _shares(tally, regions)
    finite = tally.counts.finite > 0
    if finite:
        for figures in (_absolute, _relative, _in_ulps, _signs, _second_degree):
            found.update(figures(tally))
    in_order: Figures = {}
    for name, metric in METRICS.items():
        figure = found.get(name)
        if finite and metric.derive is not None and (value := metric.derive(found)) is not None:
            found[name] = figure = value
        # figure - figure is 0 for finite numbers alone.
        if figure is not None and figure - figure == 0.0:
            in_order[name] = figure
    return in_order


# The metrics of compute_summary: those of the usual bounds on elements, and of the curve of a folder.
SUMMARY_METRICS = frozenset(
    {"match_ratio", "equal_share", "differing_bits_share", "non_finite_mismatch_share"}
    | {"max_abs_error", "mean_abs_error", "mean_magnitude"}
)


def compute_summary(tally: Tally, regions: Regions) -> Figures:
    """Return the metrics of SUMMARY_METRICS that compute_metrics would return, in a fifth of its time."""
    if not tally.counts.n:
        return {}
    found = _shares(tally, regions)
    if n := tally.counts.finite:
        found["max_abs_error"] = tally.maxima.absolute
        found["mean_abs_error"] = _mean(tally, "absolute", n)
        found["mean_magnitude"] = _mean(tally, "magnitude", n)
    return {name: figure for name, figure in found.items() if name in SUMMARY_METRICS and figure - figure == 0.0}


def _shares(tally: Tally, regions: Regions) -> Figures:
    """Return shares of all n."""
    counts, n = tally.counts, tally.counts.n
    mismatched = counts.nan_mismatched + counts.plus_inf_mismatched + counts.minus_inf_mismatched
    found = {
        "match_ratio": counts.matching / n,
        "equal_share": counts.equal / n,
        "differing_bits_share": (n - counts.equal) / n,
        "non_finite_mismatch_share": mismatched / n,
    }
    if regions.small_bound:
        found["small_value_error_share"] = counts.small_value_errors / n
        found["cancellation_error_share"] = counts.cancellation_errors / n
    if regions.threshold_bound:
        found["relative_violation_share"] = counts.relative_violations / n
        found["absolute_violation_share"] = counts.absolute_violations / n
    return found


def _mean(tally: Tally, name: str, n: int) -> float:
    """Return the mean of the terms of a sum of first degree."""
    total: Expansion = getattr(tally.sums, name)
    if not tally.scaled:
        return (total[0] if len(total) == 1 else round_expansion(total)) / n
    if beyond := tally.scaled.get((name, 600)):  # divide before adding, as the sum may be beyond float64
        both = [*(part / n * 2.0**-600 for part in total), *(part / n for part in beyond)]
        return _times_power(fsum(both), 600) if all(map(isfinite, both)) else round_expansion(total)
    return round_expansion(total) / n


def _times_power(number: float, exponent: int) -> float:
    try:
        return ldexp(number, exponent)
    except OverflowError:
        return inf if number > 0 else -inf


def _absolute(tally: Tally) -> Figures:
    n, maxima = tally.counts.finite, tally.maxima
    return {
        "max_abs_error": maxima.absolute,
        "mean_abs_error": _mean(tally, "absolute", n),
        "bias": _mean(tally, "signed", n),
        "outward_bias": _mean(tally, "outward", n),
        "mean_magnitude": _mean(tally, "magnitude", n),
        "max_magnitude": maxima.magnitude,
        **dict(
            zip(_PERCENTILES["abs_error"], sizes(tally.sketches.absolute, maxima.absolute).percentiles, strict=True)
        ),
    }


def _relative(tally: Tally) -> Figures:
    """Return the figures of |d| / |r| over non-zero references, and of its relatives mere, mare and diff3."""
    counts, maxima = tally.counts, tally.maxima
    found = {"mere": _mean(tally, "floored", counts.finite), "mare": maxima.floored, "diff3": maxima.diff3}
    n = counts.finite - counts.zero_references
    if n:  # references of zero have no relative error
        found["max_rel_error"] = maxima.relative
        found["mean_rel_error"] = _mean(tally, "relative", n)
        found["share_rel_above_1e-3"] = counts.thousandths / n
        found["share_rel_above_1e-4"] = counts.ten_thousandths / n
    if tally.sketches.relative.keys:
        counted = sizes(tally.sketches.relative, maxima.relative)
        found |= zip(_PERCENTILES["rel_error"], counted.percentiles, strict=True)
    return found


def _in_ulps(tally: Tally) -> Figures:
    n, counted = tally.counts.finite, sizes(tally.sketches.ulps, tally.maxima.ulps)
    return {
        "max_ulp": tally.maxima.ulps,
        "mean_ulp": _mean(tally, "ulps", n),
        "rms_ulp": _root(_mean(tally, "squared_ulps", n)),
        "mean_log2_ulp": counted.mean_log2,
        "ulp_scale": _mean(tally, "spacing", n),
        **dict(zip(_PERCENTILES["ulp"], counted.percentiles, strict=True)),
        **{name: count / n for name, count in zip(_ABOVE, counted.above, strict=True)},
    }


def _root(square: float) -> float:
    """Return the square root of a mean square; NaN for NaN."""
    return sqrt(square) if square >= 0 else nan


def _signs(tally: Tally) -> Figures:
    above, below = tally.counts.above, tally.counts.below
    unequal = above + below
    # Signs of a few errors agree by accident, so one_sidedness stays 0 for them.
    found = {"error_balance": abs(above - below) / tally.counts.n, "one_sidedness": 0.0}
    if unequal:
        found["diff4"] = below / unequal
    if unequal >= MIN_UNEQUAL:
        found["one_sidedness"] = abs(above - below) / unequal
    return found


class _Products(NamedTuple):
    """Sums of second degree: errors in units of 2**2i, references in 2**2j, products in 2**(i + j)."""

    errors: float
    references: float
    product: float
    weighted: float
    error_exponent: int = 0
    reference_exponent: int = 0


def _products(tally: Tally) -> _Products:
    sums = tally.sums
    if not tally.scaled or not any(exponent != 600 for _, exponent in tally.scaled):
        squares = round_expansion(sums.squared_error), round_expansion(sums.squared_reference)
        return _Products(*squares, round_expansion(sums.product), round_expansion(sums.weighted_error))
    # Some products are beyond float64: take common powers of two out of the exact sums before rounding them.
    names = ("squared_error", "squared_reference", "product", "weighted_error")
    totals = [_exactly(tally, name) for name in names]
    if None in totals:
        return _Products(nan, nan, nan, nan)
    i, j = (_half_exponent(total) for total in totals[:2])
    shifts = (2 * i, 2 * j, i + j, i + j)
    dd, rr, rd, weighted = (float(t / Fraction(2) ** s) for t, s in zip(totals, shifts, strict=True) if t is not None)
    return _Products(dd, rr, rd, weighted, i, j)


def _exactly(tally: Tally, name: str) -> Fraction | None:
    """Return a sum of second degree as a fraction; None if it is infinite or NaN."""
    sums = {0: getattr(tally.sums, name)} | {k: parts for (of, k), parts in tally.scaled.items() if of == name}
    if not all(isfinite(part) for parts in sums.values() for part in parts):
        return None
    exact = (Fraction(2) ** k * sum(map(Fraction, parts), Fraction(0)) for k, parts in sums.items())
    return sum(exact, Fraction(0))


def _half_exponent(total: Fraction | None) -> int:
    return (total.numerator.bit_length() - total.denominator.bit_length()) // 2 if total else 0


def _second_degree(tally: Tally) -> Figures:
    n, sums, maxima = tally.counts.finite, _products(tally), tally.maxima
    i, j = sums.error_exponent, sums.reference_exponent
    if not isfinite(sums.errors) or not isfinite(sums.references):
        return {}
    rms = _times_power(sqrt(sums.errors / n), i)
    diff1 = _mean(tally, "absolute", n) / (_mean(tally, "magnitude", n) + 1e-9 / n)  # means, because sums may overflow
    found = {
        "rms_error": rms,
        "mse": _times_power(sums.errors / n, 2 * i),
        "diff1": diff1,
        "diff2": _diff2(sums),
        "error_magnitude_correlation": _correlation(tally, sums),
    }
    if not sums.errors:
        found |= {"snr": EXACT_DB, "psnr": EXACT_DB, "effective_bits": MAX_BITS}
    elif sums.references:
        ratio = sums.references / sums.errors
        if not ratio:  # the quotient underflows, and has no logarithm
            bits = (log2(sums.references) - log2(sums.errors)) / 2 + (j - i)
            decibels = 10 * (log10(sums.references) - log10(sums.errors))
        else:
            bits, decibels = log2(ratio) / 2 + (j - i), 10 * log10(ratio)
        found["snr"] = decibels + 20 * (j - i) * log10(2)
        found["effective_bits"] = min(bits, MAX_BITS)
        if rms and isfinite(rms):  # the RMSE may underflow to 0 though errors are not 0
            found["psnr"] = 20 * (log10(maxima.magnitude) - log10(rms))
    return found | _cosine(tally, sums)


def _diff2(sums: _Products) -> float:
    i, j = sums.error_exponent, max(sums.reference_exponent, 0)
    references = _times_power(sums.references, 2 * (sums.reference_exponent - j))
    return _times_power(sqrt(sums.errors / (references + 1e-9 * _power(-2 * j))), i - j)


def _power(exponent: int) -> float:
    return _times_power(1.0, exponent)


def _cosine(tally: Tally, sums: _Products) -> Figures:
    """Return the cosine, and 1 - cosine from the sine, which does not cancel for a cosine near 1.

    Both are absent if all actuals together are below a millionth of the references: the rounding of products hides
    them.
    """
    most = max(sums.error_exponent, sums.reference_exponent)
    of_errors, of_references = _power(sums.error_exponent - most), _power(sums.reference_exponent - most)
    errors = sums.errors * of_errors * of_errors
    references = sums.references * of_references * of_references
    product = sums.product * of_errors * of_references
    actuals = fsum((references, product, product, errors)) if isfinite(product) else nan
    if not sums.references > 0 or not actuals > _LEAST_VARIANCE * references:
        return {}
    # With d = a - r, sum a r = sum r^2 + sum r d, and a and d have the same part across r: no cancellation for small d.
    along = sums.references * of_references + sums.product * of_errors
    across = errors - sums.product / sums.references * sums.product * of_errors * of_errors
    # Exact sums take fractions, so they are the exception: only where rounded sums cancel.
    if not tally.scaled and (across < _CANCELLED * errors or actuals < _CANCELLED * references):
        along, across, actuals = _exact_angle(tally)
    # Rounding may leave the cosine just outside of its range.
    cosine = min(max(along / sqrt(actuals) / sqrt(sums.references), -1.0), 1.0)
    sine2 = min(max(across / actuals, 0.0), 1.0)
    return {"cosine": cosine, "cosine_distance": sine2 / (1 + cosine) if cosine >= 0 else 1 - cosine}


def _exact_angle(tally: Tally) -> tuple[float, float, float]:
    """Return sum a r, the sum of squares of the part of a orthogonal to r, and sum a^2, from exact sums."""
    parts = (tally.sums.squared_error, tally.sums.squared_reference, tally.sums.product)
    errors, references, product = map(_in_units, parts)
    # Python rounds the quotient of two integers once, as it rounds a fraction.
    along, across = (references + product) / _UNITS, (errors * references - product * product) / (references * _UNITS)
    return along, across, (references + 2 * product + errors) / _UNITS


def _in_units(parts: Expansion) -> int:
    """Return the exact sum of finite floats in units of 2**-1074, of which every float64 is a multiple."""
    total = 0
    for part in parts:
        numerator, denominator = part.as_integer_ratio()
        total += numerator * (_UNITS // denominator)
    return total


def _correlation(tally: Tally, sums: _Products) -> float:
    """Return the correlation of |d| with |r|; NaN if one of them varies by less than a millionth of its size."""
    if sums.error_exponent or sums.reference_exponent or (tally.scaled and any(k == 600 for _, k in tally.scaled)):
        return nan
    n = tally.counts.finite
    errors, magnitudes = round_expansion(tally.sums.absolute), round_expansion(tally.sums.magnitude)
    total = (n * sums.errors, n * sums.references)
    variances = (total[0] - errors * errors, total[1] - magnitudes * magnitudes)
    covariance = n * sums.weighted - errors * magnitudes
    # Without errors, and without references other than 0, a variance is 0: no need of exact sums.
    if not total[0] or not total[1]:
        return nan
    if not all(v > _PLAIN_VARIANCE * t for v, t in zip(variances, total, strict=True)):
        variances, covariance = _exact_variances(tally)
    if not all(v > _LEAST_VARIANCE * t for v, t in zip(variances, total, strict=True)):
        return nan
    return min(max(covariance / sqrt(variances[0]) / sqrt(variances[1]), -1.0), 1.0)


def _exact_variances(tally: Tally) -> tuple[tuple[float, float], float]:
    sums, n = tally.sums, tally.counts.finite
    parts = (sums.absolute, sums.magnitude, sums.squared_error, sums.squared_reference, sums.weighted_error)
    if not all(isfinite(number) for part in parts for number in part):
        return (nan, nan), nan
    d, r, dd, rr, rd = map(_in_units, parts)
    try:
        variances = (n * dd * _UNITS - d * d) / _SQUARED_UNITS, (n * rr * _UNITS - r * r) / _SQUARED_UNITS
        return variances, (n * rd * _UNITS - d * r) / _SQUARED_UNITS
    except OverflowError:
        return (nan, nan), nan
