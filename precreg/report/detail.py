"""What the HTML report shows of one case when it is opened: plain values, ready for JSON, numbers already as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from math import isfinite
from statistics import fmean
from typing import Any

from precreg.measure.histogram import merge
from precreg.measure.metrics import METRICS, described, ratio
from precreg.report import report_describe as describe
from precreg.report.evidence import binding
from precreg.report.side_by_side import judge_of
from precreg.types.numbers import apart, duration, figure
from precreg.types.records import CaseResult
from precreg.types.types import Bound, Comparison, Histogram, Positions, RepeatDifference, Scalar, Tolerance, Verdict
from precreg.verdict.growth import allowed_ratio, means

MOST_POSITIONS = 20
"""Worst positions shown per output, over all seeds."""


def detail(result: CaseResult) -> dict[str, Any]:
    """Describe a case in full; tables are lists of rows of text."""
    verdict, failure = result.verdict, result.outcome.execution.failure
    return {
        "message": verdict.message,
        "notes": [*describe.notes(verdict), *(f"rule: {rule}" for rule in binding(verdict))],
        "findings": list(_findings(verdict)),
        "repeats": [repeat_row(difference) for difference in result.outcome.execution.differences],
        "outputs": [_output(name, result) for name in dict.fromkeys(c.output for c in result.outcome.comparisons)],
        "failure": failure.detail if failure else "",
        "facts": list(_facts(result)),
        "baseline": list(_baseline_facts(result)),
        "digests": list(_digests(result)),
    }


def _findings(verdict: Verdict) -> Iterator[list[str]]:
    """Yield the figures of each finding on a metric, the rule that binds, and the place that set a bound."""
    numbered = (finding for finding in verdict.findings if finding.metric)
    for finding, row in zip(numbered, describe.rows(verdict), strict=True):
        yield [*row, str(finding.source or "")]


def repeat_row(difference: RepeatDifference) -> list[str]:
    """Return output, seed, the runs, the first place, how many elements differ, of which NaN or infinite, and by what.

    The row of an output that one run did not give, or gave in another shape, ends after the runs.
    """
    of = [difference.output, str(difference.seed), f"1 and {difference.repeat}"]
    if difference.place is None:
        return [*of, "", "", "", ""]
    non_finite = str(difference.non_finite) if difference.non_finite else ""
    largest = "" if difference.largest is None else figure(difference.largest, 3)
    return [*of, str(list(difference.place)), f"{difference.differing} of {difference.size}", non_finite, largest]


def _output(name: str, result: CaseResult) -> dict[str, Any]:
    comparisons = [comparison for comparison in result.outcome.comparisons if comparison.output == name]
    first = comparisons[0]
    sketch = result.baseline.entry.sketch.get(name) if result.baseline else None
    return {
        "name": name,
        "about": _about(first, len(comparisons)),
        "metrics": list(_metrics(name, comparisons, result)),
        "counts": count_rows(comparisons),
        "tolerance": list(tolerance_rows(result.tolerances[name])) if name in result.tolerances else [],
        "standard": result.tolerances[name].standard if name in result.tolerances else None,
        "errors": _histogram(merge(c.histogram for c in comparisons if c.histogram is not None)),
        "accepted": _histogram(sketch) if sketch else None,
        "heat": _heat(comparisons),
        "length": first.shape[-1] if first.shape else 1,
        "worst": _worst(comparisons),
        "nonFinite": [row[:-1] for c in comparisons for row in position_rows(c, c.non_finite)][:MOST_POSITIONS],
    }


def _about(comparison: Comparison, seeds: int) -> str:
    shape = "×".join(map(str, comparison.shape)) or "scalar"
    dtypes = f"{comparison.dtype} against {comparison.reference_dtype}"
    return f"{dtypes}, shape {shape}, {seeds} seed" + ("s" if seeds > 1 else "")


def _metrics(name: str, comparisons: Sequence[Comparison], result: CaseResult) -> Iterator[list[str]]:
    """Yield metric, unit, means over the seeds now and then, their ratio, and the reason where the verdict names it."""
    entry = result.baseline.entry.outputs.get(name) if result.baseline else None
    reasons = {finding.metric: finding.reason for finding in result.verdict.findings if finding.output == name}
    for metric in (*METRICS, *(metric.name for metric in comparisons[0].described)):
        known = [c.metrics[metric] for c in comparisons if metric in c.metrics]
        if known:
            current, baseline = means(comparisons[: len(entry.digests)], entry, metric) if entry else (None, None)
            current = fmean(known) if current is None else current
            figures = [*apart([current, baseline]), times(metric, current, baseline)]
            yield [metric, described(metric).unit.removeprefix("1"), *figures, reasons.get(metric, "")]


def times(metric: str, current: float | None, baseline: float | None) -> str:
    """Write how many times the baseline's a metric is; nothing where that has no meaning."""
    quotient = ratio(metric, current, baseline)
    return "" if quotient is None else figure(quotient, 3)


def count_rows(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """Return the counts above 0, added up over the seeds."""
    total = Counter[str]()
    for comparison in comparisons:
        total.update(comparison.counts)
    return [[name, str(number)] for name, number in total.items() if number]


def tolerance_rows(tolerance: Tolerance) -> Iterator[list[str]]:
    """Yield what is limited, the limit, and the layer and place that set it."""
    for bound in (tolerance.rtol, tolerance.atol):
        yield [bound.metric, figure(bound.limit), bound.layer, str(bound.source)]
    for bound in tolerance.bounds:
        yield [bound.metric, _limit(bound), bound.layer, str(bound.source)]
    for number, alternative in enumerate(tolerance.alternatives, 1):
        for bound in alternative:
            yield [f"either {number}: {bound.metric}", _limit(bound), bound.layer, str(bound.source)]
    for metric, growth in tolerance.regression.items():
        sign = "≥" if described(metric).better == "higher" else "≤"
        yield [metric, f"{sign} {figure(allowed_ratio(metric, growth))} × baseline", "", ""]


def _limit(bound: Bound) -> str:
    higher = described(bound.metric).better == "higher"
    return f"{'≥' if higher else '≤'} {figure(bound.limit)}"


def _histogram(histogram: Histogram) -> dict[str, Any]:
    return {"zeros": histogram.zeros, "bins": histogram.bins, "counts": histogram.counts}


def _heat(comparisons: Sequence[Comparison]) -> list[str]:
    strips = [comparison.heat for comparison in comparisons if comparison.heat]
    return [figure(fmean(group), 3) for group in zip(*strips, strict=False)]


def _worst(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """Return the worst positions over all seeds: seed, index, actual, reference, |actual - reference|."""
    rows = [row for comparison in comparisons for row in position_rows(comparison, comparison.worst)]
    rows.sort(key=lambda row: -float(row[-1] or 0))
    return rows[:MOST_POSITIONS]


def position_rows(comparison: Comparison, positions: Positions | None) -> Iterator[list[str]]:
    """Yield the first positions, which are the worst of their seed."""
    if positions is None:
        return
    elements = zip(positions.index, positions.actual, positions.reference, strict=True)
    for index, actual, reference in islice(elements, MOST_POSITIONS):
        place = ", ".join(map(str, unravelled(index, comparison.shape)))
        yield [str(comparison.seed), f"[{place}]", *_pair(actual, reference)]


def unravelled(index: int, shape: Sequence[int]) -> list[int]:
    """Return the indices along each axis of an element, from its place in C order."""
    indices: list[int] = []
    for length in reversed(shape):
        index, along = divmod(index, length)
        indices.append(along)
    return indices[::-1]


def _pair(actual: Scalar, reference: Scalar) -> list[str]:
    """Write two values and their distance; values that JSON has no number for stand as they are, without one."""
    if isinstance(actual, str) or isinstance(reference, str):
        return [str(actual), str(reference), ""]
    if isinstance(actual, int) and isinstance(reference, int):
        return [str(actual), str(reference), str(abs(actual - reference))]
    distance = abs(actual - reference)
    return [*apart([actual, reference], digits=6), figure(distance) if isfinite(distance) else ""]


def _facts(result: CaseResult) -> Iterator[list[str]]:
    yield ["held against", f"a {result.role}"]
    yield ["suite", str(result.source)]
    if result.parameters:
        yield ["parameters", ", ".join(f"{name}={value}" for name, value in result.parameters.items())]
    if result.tags:
        yield ["tags", ", ".join(result.tags)]
    yield ["definition", result.definition]
    yield ["subject's time", duration(result.outcome.execution.duration_s)]


def _baseline_facts(result: CaseResult) -> Iterator[list[str]]:
    baseline = result.baseline
    if baseline is None:
        return
    entry = baseline.entry
    if baseline is result.stored:
        yield ["file", baseline.file]
        yield ["environment", baseline.environment]
        yield ["accepted", f"{entry.date} by {entry.author} at {entry.commit[:8]}"]
        yield ["reason", entry.reason]
    if result.paired is not None:
        yield ["judged by", judge_of(result)]
    yield ["fingerprint", entry.fingerprint]
    if baseline.change:
        yield ["different here", baseline.change]
    yield ["subject's time", duration(entry.duration_s)]


def _digests(result: CaseResult) -> Iterator[list[str]]:
    """Yield what was digested, the seed, the digest now and the accepted one."""
    entry = result.baseline.entry if result.baseline else None
    yield from _side_by_side("inputs", result.outcome.execution.inputs, entry.inputs if entry else [])
    for name, digests in result.outcome.execution.outputs.items():
        accepted = entry.outputs[name].digests if entry and name in entry.outputs else []
        yield from _side_by_side(name, digests, accepted)


def _side_by_side(name: str, now: Sequence[str], accepted: Sequence[str]) -> Iterator[list[str]]:
    for seed, digest in enumerate(now):
        yield [name, str(seed), digest, accepted[seed] if seed < len(accepted) else ""]
