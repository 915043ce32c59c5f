"""Did recorded figures regress against the baseline, or improve?

A table has figures and no arrays. So nothing shows their noise, and no statistic applies: a figure regressed if its
error grew beyond the allowed ratio, whatever caused that. The error of a share that is better where it is higher is
its rest to 1: from 0.999 to 0.998, twice as many elements are wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp2, inf, isfinite

from precreg.measure import metric_named
from precreg.types import (
    GAIN,
    AbsentFigures,
    BaselineOutput,
    Comparison,
    FigureMoved,
    Finding,
    Location,
    Metric,
    NonFiniteFigures,
    Reason,
    Tolerance,
    growth_key,
)


def unusable_figures(comparison: Comparison) -> Iterator[Finding]:
    """Yield the findings of a row with empty cells, and of one with NaN or infinities: nothing passes by absence."""
    source = comparison.figures
    assert source is not None
    place = Location(source.file, source.line)
    if source.empty:
        absent = AbsentFigures(source.empty, place)
        yield Finding(Reason.MISSING_OUTPUT, output=comparison.output, rule="hard", fact=absent)
    if source.non_finite:
        found = NonFiniteFigures(source.non_finite, place)
        yield Finding(Reason.NON_FINITE_MISMATCH, output=comparison.output, rule="hard", fact=found)


def is_row_gone(comparison: Comparison) -> bool:
    """Return whether a table has no row of the case, so that its dtype and its elements are unknown."""
    return comparison.figures is not None and comparison.figures.line == 0


def moved_figures(
    comparison: Comparison, accepted: BaselineOutput, tolerance: Tolerance, *, improved: bool
) -> Iterator[Finding]:
    """Yield each figure whose error grew beyond its allowed ratio, or shrank beyond the ratio of gains."""
    for name, current in comparison.metrics.items():
        metric, before = metric_named(name, comparison.described), accepted.metrics.get(name, [])
        growth = _allowed_growth(tolerance, name, improved=improved)
        if growth is None or not before or before[0] is None:
            continue
        now, then = _error(metric, current), _error(metric, before[0])
        worse, better = (then, now) if improved else (now, then)
        if worse > (1 + growth) * better and worse > better:
            yield _moved(comparison.output, metric, current, before[0], growth, improved=improved)


def _allowed_growth(tolerance: Tolerance, metric: str, *, improved: bool) -> float | None:
    growth = tolerance.regression.get(metric)
    return tolerance.directions.get(growth_key(metric, GAIN), growth) if improved else growth


def is_rest(metric: Metric) -> bool:
    """Return whether the error of a metric is its rest to 1."""
    return metric.better == "higher" and metric.unit == "1"


def _error(metric: Metric, value: float) -> float:
    """Return the size of error that a figure shows: 0 is exact, and more is worse."""
    if is_rest(metric):
        return 1 - value
    if metric.scale == "log2":
        return exp2(min(value, 1023.0))
    if metric.scale == "dB":
        # 10^(v / 20) overflows beyond 6165 dB; 9999 means an exact result.
        return 10 ** (-value / 20) if abs(value) < 6000 else 0.0 if value > 0 else inf
    if metric.scale == "bit":
        return exp2(-max(min(value, 1023.0), -1023.0))
    if metric.better == "higher":
        return 1 / value if value > 0 else inf
    return abs(value)


def _moved(output: str, metric: Metric, current: float, baseline: float, growth: float, *, improved: bool) -> Finding:
    now, then = _error(metric, current), _error(metric, baseline)
    ratio = now / then if then > 0 and isfinite(now) and isfinite(then) else None
    return Finding(
        Reason.IMPROVED if improved else Reason.REGRESSED,
        output=output,
        metric=metric.name,
        current=current,
        baseline=baseline,
        ratio=ratio if ratio is not None and isfinite(ratio) else None,
        limit=1 / (1 + growth) if improved else 1 + growth,
        rule="guard",
        fact=FigureMoved(improved, is_rest(metric)),
    )


def has_figures_alone(comparisons: Sequence[Comparison]) -> bool:
    """Return whether figures were recorded without arrays."""
    return any(comparison.figures is not None for comparison in comparisons)
