"""Describe one case of a run for the page: message, cause, positions, histograms, tolerances and baseline.

The page's script draws the description. Everything in it is text or a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite
from statistics import fmean
from typing import Any

from precreg.measure import METRICS, merge_histograms, metric_named, metric_ratio
from precreg.report.causes import diagnosis_rows
from precreg.report.describe import (
    failing_rules,
    finding_notes,
    finding_rows,
)
from precreg.report.pairs import describe_judge
from precreg.report.significant_digits import describe_digits
from precreg.types import (
    Bound,
    CaseResult,
    Comparison,
    Diagnosis,
    Histogram,
    Metric,
    MetricDescription,
    Positions,
    RepeatDifference,
    Scalar,
    Tolerance,
    described_metric,
    format_distinct,
    format_duration,
    format_number,
    unravel_index,
)
from precreg.verdict import allowed_ratio, seed_means

# Worst positions of one output over all seeds; record.json has the others.
MAX_DETAIL_POSITIONS = 20


def describe_case(result: CaseResult, known: Mapping[str, Diagnosis] | None = None) -> dict[str, Any]:
    """Describe a case in full; tables are lists of rows of text. `known` are the diagnoses of the run."""
    verdict, failure = result.verdict, result.outcome.execution.failure
    return {
        "message": verdict.message,
        "notes": [*finding_notes(verdict), *(f"rule: {rule}" for rule in failing_rules(verdict))],
        "diagnosis": [] if result.diagnosis is None else diagnosis_rows(result.diagnosis, known),
        "findings": list(_case_findings(result)),
        "repeats": [repeat_row(difference) for difference in result.outcome.execution.differences],
        "outputs": [_output(name, result) for name in dict.fromkeys(c.output for c in result.outcome.comparisons)],
        "failure": failure.detail if failure else "",
        "facts": list(_facts(result)),
        "baseline": list(_baseline_facts(result)),
        "digests": list(_digests(result)),
    }


def _case_findings(result: CaseResult) -> Iterator[list[str]]:
    """Yield the figures of each finding on a metric, the rule that failed, and the place that set a bound."""
    numbered = (finding for finding in result.verdict.findings if finding.metric)
    rows = finding_rows(result.verdict, result.outcome.described)
    for finding, row in zip(numbered, rows, strict=True):
        yield [*row, str(finding.source or "")]


def repeat_row(difference: RepeatDifference) -> list[str]:
    """Return output, seed, runs, first position, counts of differing and of non-finite elements, largest distance.

    If one run lacks the output, or has another shape of it, the row ends after the runs.
    """
    of = [difference.output, str(difference.seed), f"1 and {difference.repeat}"]
    # No position means that one run lacks the output, or has another shape of it.
    if difference.place is None:
        return [*of, "", "", "", ""]
    non_finite = str(difference.non_finite) if difference.non_finite else ""
    largest = "" if difference.largest is None else format_number(difference.largest, 3)
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
        "tolerance": list(tolerance_rows(result.tolerances[name], first.described))
        if name in result.tolerances
        else [],
        "standard": result.tolerances[name].standard if name in result.tolerances else None,
        "errors": _histogram(merge_histograms(c.histogram for c in comparisons if c.histogram is not None)),
        "accepted": _histogram(sketch) if sketch else None,
        "heat": _heat(comparisons),
        "length": first.shape[-1] if first.shape else 1,
        "worst": _worst(comparisons),
        "nonFinite": [row[:-1] for c in comparisons for row in position_rows(c, c.non_finite)][:MAX_DETAIL_POSITIONS],
    }


def _about(comparison: Comparison, seeds: int) -> str:
    shape = "×".join(map(str, comparison.shape)) or "scalar"
    dtypes = f"{comparison.dtype} against {comparison.reference_dtype}"
    return f"{dtypes}, shape {shape}, {seeds} seed" + ("s" if seeds > 1 else "")


def _metrics(name: str, comparisons: Sequence[Comparison], result: CaseResult) -> Iterator[list[str]]:
    """Yield metric, unit, means over the seeds now and then, their ratio, and the reason if the verdict names it."""
    entry = result.baseline.entry.outputs.get(name) if result.baseline else None
    reasons = {finding.metric: finding.reason for finding in result.verdict.findings if finding.output == name}
    for metric in (*METRICS.values(), *map(described_metric, comparisons[0].described)):
        # A metric may be undefined for some seeds, such as a relative error of zeros.
        known = [c.metrics[metric.name] for c in comparisons if metric.name in c.metrics]
        if known:
            # Means over the seeds that the baseline has, so that both are means of the same inputs.
            seeds = comparisons[: len(entry.digests)] if entry else ()
            current, baseline = seed_means(seeds, entry, metric.name) if entry else (None, None)
            current = fmean(known) if current is None else current
            figures = [*format_distinct([current, baseline]), format_metric_ratio(metric, current, baseline)]
            yield [metric.name, metric.unit.removeprefix("1"), *figures, reasons.get(metric.name, "")]


def format_metric_ratio(metric: Metric, current: float | None, baseline: float | None) -> str:
    """Write the ratio of a metric to the baseline's; empty for a metric without a meaningful ratio."""
    quotient = metric_ratio(metric, current, baseline)
    return "" if quotient is None else format_number(quotient, 3)


def count_rows(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """Return the counts above 0, summed over the seeds."""
    total = Counter[str]()
    for comparison in comparisons:
        total.update(comparison.counts)
    return [[name, str(number)] for name, number in total.items() if number]


def tolerance_rows(tolerance: Tolerance, described: Sequence[MetricDescription]) -> Iterator[list[str]]:
    """Yield each limited metric, its limit, and its layer and place; `described` are the analyzers' metrics."""
    for bound in (tolerance.rtol, tolerance.atol):
        yield [bound.metric, format_number(bound.limit), bound.layer, str(bound.source)]
    for bound in tolerance.bounds:
        yield [bound.metric, _limit(bound, described), bound.layer, str(bound.source)]
    for number, alternative in enumerate(tolerance.alternatives, 1):
        for bound in alternative:
            yield [f"either {number}: {bound.metric}", _limit(bound, described), bound.layer, str(bound.source)]
    for name, growth in tolerance.regression.items():
        metric = metric_named(name, described)
        sign = "≥" if metric.better == "higher" else "≤"
        yield [name, f"{sign} {format_number(allowed_ratio(metric, growth))} × baseline", "", ""]
    for name, growth in tolerance.directions.items():
        yield [name, f"{format_number(1 + growth)} times", "", ""]


def _limit(bound: Bound, described: Sequence[MetricDescription]) -> str:
    higher = metric_named(bound.metric, described).better == "higher"
    return f"{'≥' if higher else '≤'} {format_number(bound.limit)}"


def _histogram(histogram: Histogram) -> dict[str, Any]:
    return {"zeros": histogram.zeros, "bins": histogram.bins, "counts": histogram.counts}


def _heat(comparisons: Sequence[Comparison]) -> list[str]:
    strips = [comparison.heat for comparison in comparisons if comparison.heat]
    return [format_number(fmean(group), 3) for group in zip(*strips, strict=False)]


def _worst(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """Return the worst positions over all seeds: seed, index, actual, reference, |actual - reference|."""
    rows = [row for comparison in comparisons for row in position_rows(comparison, comparison.worst)]
    # Each seed has its own worst positions. The sort makes them one list, so that one bad seed fills it.
    rows.sort(key=lambda row: -float(row[-1] or 0))
    return rows[:MAX_DETAIL_POSITIONS]


def position_rows(comparison: Comparison, positions: Positions | None) -> Iterator[list[str]]:
    """Yield the first positions, which are the worst of their seed."""
    if positions is None:
        return
    elements = zip(positions.index, positions.actual, positions.reference, strict=True)
    for index, actual, reference in islice(elements, MAX_DETAIL_POSITIONS):
        place = ", ".join(map(str, unravel_index(index, comparison.shape)))
        yield [str(comparison.seed), f"[{place}]", *_pair(actual, reference)]


def _pair(actual: Scalar, reference: Scalar) -> list[str]:
    """Write two values and their distance; a value that JSON stores as text, such as "nan", has no distance."""
    # JSON has no NaN and no infinity, so records store them as text.
    if isinstance(actual, str) or isinstance(reference, str):
        return [str(actual), str(reference), ""]
    # Integers beyond 2^53 keep every digit, and their difference is exact.
    if isinstance(actual, int) and isinstance(reference, int):
        return [str(actual), str(reference), str(abs(actual - reference))]
    distance = abs(actual - reference)
    return [*format_distinct([actual, reference], digits=6), format_number(distance) if isfinite(distance) else ""]


def _facts(result: CaseResult) -> Iterator[list[str]]:
    yield ["held against", f"a {result.role}"]
    yield ["suite", str(result.source)]
    if result.parameters:
        yield ["parameters", ", ".join(f"{name}={value}" for name, value in result.parameters.items())]
    if result.tags:
        yield ["tags", ", ".join(result.tags)]
    yield ["definition", result.definition]
    yield from (["digits", line.removeprefix("digits").strip()] for line in describe_digits(result))
    yield ["subject's time", format_duration(result.outcome.execution.duration_s)]
    yield from ([name, fact] for name, fact in result.outcome.execution.facts.items())
    yield from ([f"{result.role}'s {name}", fact] for name, fact in result.outcome.execution.oracle_facts.items())


def _baseline_facts(result: CaseResult) -> Iterator[list[str]]:
    baseline = result.baseline
    if baseline is None:
        return
    entry = baseline.entry
    # A paired run was judged by another version's result, which nobody accepted and no file has.
    if baseline is result.stored:
        yield ["file", baseline.file]
        yield ["environment", baseline.environment]
        yield ["accepted", f"{entry.date} by {entry.author} at {entry.commit[:8]}"]
        yield ["reason", entry.reason]
    if result.paired is not None:
        yield ["judged by", describe_judge(result)]
    yield ["fingerprint", entry.fingerprint]
    if baseline.change:
        yield ["different here", baseline.change]
    yield from (["digits", line.removeprefix("digits").strip()] for line in describe_digits(result))
    yield ["subject's time", format_duration(entry.duration_s)]


def _digests(result: CaseResult) -> Iterator[list[str]]:
    """Yield the name of each digest, the seed, the digest now, and the accepted one."""
    entry = result.baseline.entry if result.baseline else None
    yield from _side_by_side("inputs", result.outcome.execution.inputs, entry.inputs if entry else [])
    for name, digests in result.outcome.execution.outputs.items():
        accepted = entry.outputs[name].digests if entry and name in entry.outputs else []
        yield from _side_by_side(name, digests, accepted)


def _side_by_side(name: str, now: Sequence[str], accepted: Sequence[str]) -> Iterator[list[str]]:
    for seed, digest in enumerate(now):
        yield [name, str(seed), digest, accepted[seed] if seed < len(accepted) else ""]
