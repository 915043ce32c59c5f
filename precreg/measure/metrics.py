"""Which metrics are there, and which facts about them do rules, reports and baselines read?

The table is the single list: every list of metric names is a filter over it. `python -m precreg.measure.metrics >
docs/metrics.md` writes its page. Regions are the constants per output dtype with which standards treat small values
apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import exp2, inf, isfinite, nextafter
from sys import float_info

from msgspec import Struct
from msgspec.structs import replace

from precreg.types import (
    SHARE_RANGE,
    Direction,
    Family,
    Growth,
    Metric,
    MetricDescription,
    MetricRange,
    View,
    described_metric,
    find_description,
)

SOURCE_HIGHAM = "Higham, Accuracy and Stability of Numerical Algorithms, 1.2"
SOURCE_ULP = "Muller et al., Handbook of Floating-Point Arithmetic, 2.3.2"
SOURCE_MSPROBE = "Ascend msprobe"
SOURCE_OPBASE = "cann/opbase experimental_standard.md"
SOURCE_COMMON = "common statistics"
SOURCE_PRECREG = "precreg"
SOURCE_MLU = "Cambricon mlu-ops"
SOURCE_POLYGRAPHY = "Polygraphy"
SOURCE_SOHIER = "Sohier et al., Confidence intervals for stochastic arithmetic, 2021"
SOURCE_DYNAMO = "torch._dynamo.utils.same"
_LARGEST = float_info.max
_DECIBELS = MetricRange(-_LARGEST, _LARGEST, "a finite number of decibels")
# A float64 has 53 significant bits, so that effective_bits ends there.
_BITS = MetricRange(-_LARGEST, 53.0, "a number of bits up to 53")
# A binary128 longdouble has 113 significant bits, 34.02 decimal digits.
_DIGITS = MetricRange(0.0, 34.0, "a number of decimal digits from 0 to 34")
# log2(U* + 1/4) of an exact element is -2.
_LOG2_ULP = MetricRange(-2.0, _LARGEST, "a finite number that is at least -2")
_COSINE = MetricRange(-1.0, 1.0, "a cosine from -1 to 1")
_CORRELATION = MetricRange(-1.0, 1.0, "a correlation from -1 to 1")


def _percentiles(name: str, unit: str, family: Family, of: str) -> tuple[Metric, ...]:
    """Return P50, P90, P95, P99 and P99.9 of errors that a sketch counts by size."""
    return tuple(
        Metric(
            f"p{percent}_{name}",
            unit,
            f"{percent}th percentile of {of}, rounded up",
            "lower",
            SOURCE_COMMON,
            family=family,
            aggregate="percentile",
            views=("terminal",) if (percent, name) == ("99", "ulp") else (),
        )
        for percent in ("50", "90", "95", "99", "99.9")
    )


# The smallest error of a benchmark that the floored ratios divide by, by output dtype (mindstudio-probe 26.2.0).
# msprobe lists no other dtype, so that a floored ratio is absent there.
BENCHMARK_FLOORS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-14}


def _plain_ratio(error: str) -> Metric:
    """Return the ratio of an error to the benchmark's."""
    formula = f"{error} / {error} of the benchmark; 1 where both are 0"
    return Metric(
        f"{error}_ratio",
        "benchmark",
        formula,
        "lower",
        SOURCE_COMMON,
        ratio_of=error,
        views=("terminal",),
        needs_benchmark=True,
    )


def _floored_ratio(error: str) -> Metric:
    """Return the ratio of an error to the benchmark's, which counts as at least msprobe's floor."""
    formula = f"{error} / max({error} of the benchmark, floor of msprobe)"
    return Metric(
        f"floored_{error}_ratio",
        "benchmark",
        formula,
        "lower",
        SOURCE_MSPROBE,
        ratio_of=error,
        floored=True,
        needs_benchmark=True,
    )


# A row a metric: its description, then the facts by which rules and reports filter.
# fmt: off
_TABLE = (
    Metric("max_abs_error", "value", "max |d|; Cambricon's diff3_2", "lower", SOURCE_HIGHAM,
           family="absolute", aggregate="maximum", default_growth=3.0, kept=True, judged=True,
           views=("bars", "picture", "pairs", "terminal")),
    Metric("mean_abs_error", "value", "mean |d|; MAE", "lower", SOURCE_COMMON,
           family="absolute", aggregate="mean", kept=True, judged=True, sums="absolute", stable=True,
           views=("bars", "picture", "pairs", "terminal")),
    # Few large errors make rms_error, and many small ones mean_log2_ulp: another environment moves these two further
    # than the other averages, hence environment_factor=2.
    Metric("rms_error", "value", "sqrt(mean d^2); RMSE", "lower", SOURCE_COMMON,
           family="absolute", aggregate="mean", kept=True, judged=True, sums="squared", power=0.5,
           environment_factor=2, views=("picture", "terminal")),
    Metric("mse", "value^2", "mean d^2", "lower", SOURCE_COMMON, family="absolute", aggregate="mean"),
    Metric("bias", "value", "mean d, signed; a bound holds its size", "lower", SOURCE_COMMON,
           family="absolute", aggregate="signed mean", kept=True, judged=True, sums="signed", views=("terminal",)),
    Metric("outward_bias", "value", "mean d sign(r): positive away from zero", "lower", SOURCE_PRECREG,
           family="absolute", aggregate="signed mean", kept=True, sums="outward"),
    *_percentiles("abs_error", "value", "absolute", "|d|"),
    Metric("max_rel_error", "1", "max RE over r != 0", "lower", SOURCE_HIGHAM,
           family="relative", aggregate="maximum", kept=True, judged=True,
           views=("bars", "picture", "pairs", "terminal")),
    Metric("mean_rel_error", "1", "mean RE over r != 0", "lower", SOURCE_COMMON,
           family="relative", aggregate="mean", kept=True, judged=True, views=("bars", "picture", "terminal")),
    *_percentiles("rel_error", "1", "relative", "RE over |r| > 1e-12"),
    Metric("share_rel_above_1e-3", "1", "share of RE > 1e-3 over r != 0", "lower",
           SOURCE_MSPROBE + ", double thousandth", family="share"),
    Metric("share_rel_above_1e-4", "1", "share of RE > 1e-4 over r != 0", "lower",
           SOURCE_MSPROBE + ", double ten-thousandth", family="share"),
    Metric("mere", "1", "mean |d| / (|r| + 1e-7)", "lower", SOURCE_OPBASE, family="relative", aggregate="mean"),
    Metric("mare", "1", "max |d| / (|r| + 1e-7)", "lower", SOURCE_OPBASE, family="relative", aggregate="maximum"),
    Metric("max_ulp", "ULP", "max U", "lower", SOURCE_ULP,
           family="ulp", aggregate="maximum", kept=True, judged=True, views=("picture", "pairs", "terminal")),
    Metric("mean_ulp", "ULP", "mean U", "lower", SOURCE_MSPROBE + ", ULP standard",
           family="ulp", aggregate="mean", kept=True, judged=True, sums="ulps", views=("terminal",)),
    Metric("rms_ulp", "ULP", "sqrt(mean U^2)", "lower", SOURCE_COMMON,
           family="ulp", aggregate="mean", kept=True, sums="squared_ulps", power=0.5, by_groups=True,
           environment_factor=2),
    Metric("mean_log2_ulp", "log2 ULP", "mean log2(U* + 1/4); -2 where every element is exact", "lower", SOURCE_PRECREG,
           family="ulp", aggregate="mean", range=_LOG2_ULP, kept=True, judged=True, sums="logs", stable=True,
           environment_factor=2),
    *_percentiles("ulp", "ULP", "ulp", "U"),
    Metric("share_above_0.5_ulp", "1", "share of U > 1/2: not correctly rounded", "lower", SOURCE_ULP,
           family="share", views=("terminal",)),
    Metric("share_above_1_ulp", "1", "share of U > 1", "lower", SOURCE_MSPROBE + ", ULP standard",
           family="share", views=("terminal",)),
    Metric("share_above_2_ulp", "1", "share of U > 2", "lower", SOURCE_COMMON, family="share"),
    Metric("share_above_32_ulp", "1", "share of U > 32", "lower", SOURCE_MSPROBE + ", ULP standard", family="share"),
    # Kept to convert growth from values to ULP. It depends on the reference alone, so that no rule judges it.
    Metric("ulp_scale", "value", "mean ulp(r): the unit of the output's rounding", "lower", SOURCE_PRECREG, kept=True),
    Metric("mean_magnitude", "value", "mean |r|", "lower", SOURCE_COMMON),
    Metric("max_magnitude", "value", "max |r|", "lower", SOURCE_COMMON),
    Metric("match_ratio", "1", "share of all n that match", "higher", "torch.testing.assert_close, numpy.isclose",
           family="share", aggregate="mean", range=SHARE_RANGE, kept=True, judged=True, views=("pairs", "terminal")),
    Metric("equal_share", "1", "share of all n that are bit-identical", "higher",
           SOURCE_MSPROBE + ", binary consistency", family="share", aggregate="mean", range=SHARE_RANGE, kept=True,
           judged=True, views=("picture", "terminal")),
    Metric("differing_bits_share", "1", "1 - equal_share", "lower", SOURCE_MSPROBE + ", binary consistency",
           family="share"),
    Metric("non_finite_mismatch_share", "1", "share of all n whose NaN or infinity is mismatched", "lower",
           SOURCE_MSPROBE, family="share", blind=True),
    Metric("small_value_error_share", "1", "share of all n: errors among small values (Regions)", "lower",
           SOURCE_OPBASE, family="share", by_region=True, blind=True),
    Metric("cancellation_error_share", "1", "share of all n: errors in the cancellation region", "lower", SOURCE_OPBASE,
           family="share", by_region=True, blind=True),
    Metric("relative_violation_share", "1", "share of all n: violations where |r| is not small", "lower",
           SOURCE_MSPROBE, family="share", by_region=True),
    Metric("absolute_violation_share", "1", "share of all n: violations where |r| is small", "lower", SOURCE_MSPROBE,
           family="share", by_region=True, blind=True),
    Metric("diff1", "1", "sum |d| / (sum |r| + 1e-9)", "lower", SOURCE_MLU, family="relative"),
    Metric("diff2", "1", "sqrt(sum d^2 / (sum r^2 + 1e-9))", "lower", SOURCE_MLU, family="relative"),
    # diff3 and the shares by region compare with constants that differ by output dtype.
    Metric("diff3", "1", "max of |d| where |r| < EPS, else of |d| / (|r| + 1e-9)", "lower", SOURCE_MLU,
           family="relative", by_region=True),
    Metric("diff4", "1", "share of a < r among a != r", "lower", SOURCE_MLU, blind=True),
    Metric("one_sidedness", "1", "|2 diff4 - 1|: 1 where all errors have one sign; 0 below 100 of them", "lower",
           SOURCE_MLU, blind=True),
    Metric("error_balance", "1", "|above - below| / n; EB", "lower", SOURCE_MSPROBE, blind=True),
    Metric("cosine", "1", "sum a r / sqrt(sum a^2 sum r^2)", "higher", SOURCE_POLYGRAPHY, range=_COSINE, blind=True),
    Metric("cosine_distance", "1", "1 - cosine, without its cancellation", "lower", SOURCE_PRECREG,
           blind=True, views=("terminal",)),
    Metric("snr", "dB", "10 log10(sum r^2 / sum d^2); 9999 where d = 0", "higher", SOURCE_POLYGRAPHY,
           family="relative", range=_DECIBELS, views=("terminal",)),
    Metric("psnr", "dB", "20 log10(max |r| / rms_error); 9999 where d = 0", "higher", SOURCE_POLYGRAPHY,
           family="relative", range=_DECIBELS),
    Metric("effective_bits", "bit", "1/2 log2(sum r^2 / sum d^2), at most 53", "higher", SOURCE_PRECREG,
           family="relative", range=_BITS),
    Metric("error_magnitude_correlation", "1", "Pearson correlation of |d| with |r|", "lower", SOURCE_COMMON,
           range=_CORRELATION, sizeless=True),
    Metric("min_significant_digits", "digit", "smallest number of significant decimal digits of an element", "higher",
           SOURCE_SOHIER, range=_DIGITS, views=("terminal",), needs_samples=True),
    Metric("median_significant_digits", "digit", "median number of significant decimal digits", "higher",
           SOURCE_SOHIER, range=_DIGITS, views=("terminal",), needs_samples=True),
    *map(_plain_ratio, ("max_abs_error", "mean_abs_error", "rms_error", "mare", "mere")),
    # Only msprobe's standards bound these: the floor hides a loss of any nearly exact result.
    *map(_floored_ratio, ("mare", "mere", "rms_error")),
    Metric("small_value_error_ratio", "benchmark", "errors among small values / max(the benchmark's, 1)", "lower",
           SOURCE_OPBASE, needs_benchmark=True, by_region=True, blind=True),
    Metric("cancellation_error_ratio", "benchmark", "errors in cancellation / max(the benchmark's, 1)", "lower",
           SOURCE_OPBASE, needs_benchmark=True, by_region=True, blind=True),
    Metric("rms_excess", "value", "rms_error - m times the benchmark's, m = 2 or 3", "lower", SOURCE_DYNAMO,
           needs_benchmark=True),
    Metric("rms_excess_3", "value", "rms_error - 3 times the benchmark's", "lower", SOURCE_DYNAMO,
           needs_benchmark=True),
)
# fmt: on

# Every metric that a bound may name, in the order of docs/metrics.md.
METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}


ANALYZER_NAME_PATTERN = r"[A-Za-z_][A-Za-z0-9_-]*"
# No name of the table matches: the point in share_above_0.5_ulp precedes a digit.
_METRIC_OF_ANALYZER = re.compile(rf"(?P<analyzer>{ANALYZER_NAME_PATTERN})\.(?P<metric>[A-Za-z_][A-Za-z0-9_.-]*)")


# In the place of an analyzer, the direction of a figure that a table records under a name of its own: higher.n_exact.
# The name has it, because tolerances are compared where no table is at hand.
OWN_FIGURES: tuple[Direction, ...] = ("lower", "higher")


def analyzer_of(metric: str) -> str | None:
    """Return the analyzer in the name of a metric; None for names of the table and other names."""
    match = None if metric in METRICS else _METRIC_OF_ANALYZER.fullmatch(metric)
    return None if match is None else match["analyzer"]


def metric_named(name: str, described: Iterable[MetricDescription]) -> Metric:
    """Return a metric by its name, from the table or from the descriptions of analyzers' metrics."""
    return METRICS.get(name) or described_metric(find_description(name, described))


def baseline_metrics() -> tuple[str, ...]:
    """Return the metrics of the table that a baseline keeps, in the order of its file."""
    kept = [metric for metric in METRICS.values() if metric.kept]
    # Files have the scales of errors after the errors, and their order is part of the format.
    return tuple(metric.name for metric in sorted(kept, key=lambda metric: metric.family == "statistic"))


def mean_metrics() -> tuple[str, ...]:
    """Return the averages that statistics judge: a single element does not move them far."""
    return tuple(m.name for m in METRICS.values() if m.judged and m.sums and m.aggregate == "mean")


def relative_errors() -> tuple[str, ...]:
    """Return the metrics whose growth a study fits: |d_n / d_0 - 1| of a computed d_n that should be d_0."""
    names = (metric.name for metric in METRICS.values() if metric.is_relative_ratio)
    default = Growth("").metric  # messages and the schema name the default first
    return tuple(sorted(names, key=lambda name: name != default))


def view_metrics(view: View) -> tuple[Metric, ...]:
    """Return the metrics that a short view shows, in the order of the table."""
    return tuple(metric for metric in METRICS.values() if view in metric.views)


def metrics_to_keep(described: Iterable[MetricDescription]) -> tuple[str, ...]:
    """Return the metrics of an output that a baseline keeps; `described` are its analyzers' metrics."""
    return (*baseline_metrics(), *(description.name for description in described))


# Every count of a Comparison and its meaning.
COUNT_DESCRIPTIONS: dict[str, str] = {
    "n": "elements",
    "finite": "pairs with both sides finite: the pairs that errors are taken over",
    "nan_matched": "pairs with NaN on both sides",
    "nan_mismatched": "pairs with NaN on one side",
    "inf_matched": "pairs with an infinity of the same sign on both sides",
    "plus_inf_matched": "of them, the pairs of positive infinities",
    "minus_inf_matched": "of them, the pairs of negative infinities",
    "inf_mismatched": "pairs without NaN that have an infinity on one side, or infinities of different sign",
    "plus_inf_mismatched": "of them, those where the reference's infinity, or else the actual's, is positive",
    "minus_inf_mismatched": "of them, those where the reference's infinity, or else the actual's, is negative",
    "zero_references": "finite pairs with r == 0",
    "actual_subnormals": "finite pairs with 0 < |a| < the smallest normal number of the output dtype",
    "reference_subnormals": "finite pairs with 0 < |r| < the smallest normal number of the output dtype",
    "flushed_subnormals": "finite pairs with a == 0 whose r, rounded to the output dtype, is subnormal",
    "exact_matches": "finite pairs with a == r",
    "zero_sign_differences": "of them, zeros of different sign (of complex numbers: in any component)",
    "above": "finite pairs with a > r",
    "below": "finite pairs with a < r",
}


def metric_ratio(metric: Metric, current: float | None, baseline: float | None) -> float | None:
    """Return the ratio of a metric to the baseline's: of the sizes of a bias, of 2^value for a logarithm.

    None if a value is absent, the baseline is 0, or the ratio is beyond float64.
    """
    if current is None or baseline is None:
        return None
    # A difference of logarithms is a ratio; 2^1024 overflows.
    if metric.scale == "log2":
        return exp2(current - baseline) if current - baseline < 1024 else None
    times = abs(current) / abs(baseline) if baseline else None
    return times if times is not None and isfinite(times) else None


def ratio_denominator(metric: Metric, dtype: str, benchmark: Mapping[str, float]) -> float | None:
    """Return the error of the benchmark by which a ratio divides, or the floor if that is larger (msprobe, calc_ratio).

    `benchmark` are the benchmark's metrics. None if the metric is no such ratio, the benchmark lacks the error, or
    msprobe has no floor for the dtype.
    """
    error = benchmark.get(metric.ratio_of)
    if error is None or not metric.floored:
        return error
    return max(error, BENCHMARK_FLOORS[dtype]) if dtype in BENCHMARK_FLOORS else None


def mean_over_seeds(values: Sequence[float | None]) -> float | None:
    """Return the mean; None if a seed leaves the metric undefined, and without any seed."""
    known = [value / len(values) for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None  # divided first, because the sum may overflow


_INTRODUCTION = """\
# Metrics

Each metric is one number made from the errors of an output. [Definitions of metrics](metric-definitions.md) defines the
symbols: `a` is the actual value, `r` the reference, `d = a - r`, `RE = |d| / |r|`, and `U = |d| / ulp(r)`. Errors are
measured over the finite pairs.

`python -m precreg.measure.metrics` writes this page from `precreg/measure/metrics.py`, and a test compares the two.
"""


def metrics_markdown() -> str:
    """Return docs/metrics.md."""
    lines = [_INTRODUCTION, "| metric | unit | formula | better | source |", "|---|---|---|---|---|"]
    lines += [_row(f"`{m.name}`", m.unit, m.formula, m.better, m.source) for m in METRICS.values()]
    lines += ["", "## Counts", "", "| count | counts |", "|---|---|"]
    lines += [_row(f"`{name}`", meaning) for name, meaning in COUNT_DESCRIPTIONS.items()]
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


class Regions(Struct, frozen=True):
    """Bounds of regions in the unit of the values; 0.0 for a region that is empty for the dtype.

    Ascend (cann/opbase experimental_standard.md): a pair with |r| < `small_bound` is a small value, and an error if
    |a-r| > `small_error`. A pair with `small_bound` <= |r| < `cancellation_bound` is in the cancellation region, and an
    error if |a-r| > `cancellation_rtol` * |r|. This is the standard's bound on the largest relative error, 10 T.

    msprobe's absolute threshold: pairs with |r| < `threshold_bound` violate it if |a-r| > `threshold_atol`, all others
    if |a-r| > `threshold_rtol` * |r|.

    Cambricon's diff3: |a-r| for |r| < `diff3_bound`, and |a-r| / (|r| + 1e-9) for all others.
    """

    small_bound: float = 0.0
    small_error: float = 0.0
    cancellation_bound: float = 0.0
    cancellation_rtol: float = 0.0
    threshold_bound: float = 0.0
    threshold_rtol: float = 0.0
    threshold_atol: float = 0.0
    diff3_bound: float = 0.0


# Constants of cann/opbase and msprobe. msprobe includes the bound itself among small values, hence the next float64.
_FLOAT8_E4M3 = Regions(2**-4, 2**-6, 2**-1, 10 * 2**-3)
REGIONS: dict[str, Regions] = {
    "float16": Regions(2**-11, 2**-16, 2**-5, 10 * 2**-10, nextafter(2**-10, inf), 2**-10, 2**-16, 1e-4),
    "bfloat16": Regions(2**-8, 2**-16, 2**-3, 10 * 2**-7, nextafter(2**-10, inf), 2**-8, 2**-16),
    "float32": Regions(2**-14, 2**-30, 2**-8, 10 * 2**-13, nextafter(2**-20, inf), 2**-20, 2**-30, 1e-6),
    "float8_e4m3": _FLOAT8_E4M3,
    "float8_e4m3fn": _FLOAT8_E4M3,
    "float8_e5m2": Regions(2**-3, 2**-5, 2.0**0, 10 * 2**-2),
}
NO_REGIONS = Regions()


def regions_of(dtype_name: str, changed: tuple[tuple[str, float], ...] = ()) -> Regions:
    """Return the regions of an output dtype, with a standard's changes; empty ones for an unlisted dtype."""
    regions = REGIONS.get(dtype_name, NO_REGIONS)
    return replace(regions, **dict(changed)) if changed else regions


if __name__ == "__main__":
    print(metrics_markdown(), end="")
