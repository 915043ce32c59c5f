"""Describe one case of a run for the page: message, cause, positions, histograms, tolerances and baseline.

The page's script draws the description. Everything in it is text or a number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import Any

from precreg.measure import METRICS, merge_histograms, metric_named, metric_ratio
from precreg.report.case_context import (
    CaseContext,
    environment_rows,
    history_of,
    links_of,
    reproduce_command,
    search_commands,
)
from precreg.report.case_values import MAX_DETAIL_POSITIONS, bit_rows, map_of_errors, worst_rows
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
    RepeatDifference,
    Tolerance,
    described_metric,
    format_distinct,
    format_duration,
    format_number,
)
from precreg.verdict import allowed_ratio, seed_means


def describe_case(
    result: CaseResult, known: Mapping[str, Diagnosis] | None = None, context: CaseContext | None = None
) -> dict[str, Any]:
    """Describe a case in full; tables are lists of rows of text. `known` are the diagnoses of the run.

    `context` has the facts of the run: links need its commit, and the command its criteria.
    """
    context = context or CaseContext()
    verdict, failure = result.verdict, result.outcome.execution.failure
    return {
        "message": verdict.message,
        "command": reproduce_command(result, context),
        "links": links_of(result, context),
        "history": history_of(result, context),
        "notes": [*finding_notes(verdict), *(f"rule: {rule}" for rule in failing_rules(verdict))],
        "diagnosis": [] if result.diagnosis is None else diagnosis_rows(result.diagnosis, known),
        "searches": search_commands(result, context),
        "findings": list(_case_findings(result)),
        "repeats": [repeat_row(difference) for difference in result.outcome.execution.differences],
        "outputs": [_output(name, result) for name in dict.fromkeys(c.output for c in result.outcome.comparisons)],
        "failure": failure.detail if failure else "",
        "facts": list(_facts(result)),
        "environment": environment_rows(result),
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
        "map": map_of_errors(comparisons),
        "heat": _heat(comparisons),
        "length": first.shape[-1] if first.shape else 1,
        "worst": worst_rows(comparisons),
        "nonFinite": [row[:4] + row[6:] for c in comparisons for row in bit_rows(c, c.non_finite)][
            :MAX_DETAIL_POSITIONS
        ],
    }


def _about(comparison: Comparison, seeds: int) -> str:
    shape = "×".join(map(str, comparison.shape)) or "scalar"
    dtypes = f"{comparison.dtype} against {comparison.reference_dtype}"
    return f"{dtypes}, shape {shape}, {seeds} seed" + ("s" if seeds > 1 else "")


def _metrics(name: str, comparisons: Sequence[Comparison], result: CaseResult) -> Iterator[list[str]]:
    """Yield metric, unit, means over the seeds now and then, their ratio, the allowed value, and the verdict's reason.

    The metrics that the verdict names come first, then those with an allowed value, and then all others.
    """
    rows = list(_metric_rows(name, comparisons, result))
    yield from sorted(rows, key=lambda row: (not row[-1], not row[-2]))


def _metric_rows(name: str, comparisons: Sequence[Comparison], result: CaseResult) -> Iterator[list[str]]:
    allowed = _allowed_values(result.tolerances.get(name), comparisons[0].described)
    entry = result.baseline.entry.outputs.get(name) if result.baseline else None
    reasons = {finding.metric: finding.reason for finding in result.verdict.findings if finding.output == name}
    for metric in (*METRICS.values(), *map(described_metric, comparisons[0].described)):
        # A metric may be undefined for some seeds, such as a relative error of zeros.
        known = [c.metrics[metric.name] for c in comparisons if metric.name in c.metrics]
        if known:
            if entry is None:
                figures = [format_number(fmean(known)), "", ""]
            else:
                # Means over the seeds that the baseline has, so that both are means of the same inputs.
                current, baseline = seed_means(comparisons[: len(entry.digests)], entry, metric.name)
                current = fmean(known) if current is None else current
                figures = [*format_distinct([current, baseline]), format_metric_ratio(metric, current, baseline)]
            unit, limits = metric.unit.removeprefix("1"), allowed.get(metric.name, "")
            yield [metric.name, unit, *figures, limits, reasons.get(metric.name, "")]


def _allowed_values(tolerance: Tolerance | None, described: Sequence[MetricDescription]) -> dict[str, str]:
    """Return the limits of each metric that a tolerance judges, in words, by the metric's name."""
    limits = defaultdict[str, list[str]](list)
    # The first two rows are rtol and atol, which the match ratio is made of.
    for row in [] if tolerance is None else islice(tolerance_rows(tolerance, described), 2, None):
        limits[row[0].rpartition(": ")[2]].append(row[1])
    return {name: ", ".join(dict.fromkeys(texts)) for name, texts in limits.items()}


def format_metric_ratio(metric: Metric, current: float | None, baseline: float | None) -> str:
    """Write the ratio of a metric to the baseline's; empty for a metric without a meaningful ratio."""
    quotient = metric_ratio(metric, current, baseline)
    # A ratio near 1 needs more digits, because "1" says that nothing changed.
    return "" if quotient is None else format_distinct([quotient, 1.0], 3)[0]


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


def _facts(result: CaseResult) -> Iterator[list[str]]:
    yield ["compared with", f"a {result.role}"]
    yield ["suite", str(result.source)]
    if result.parameters:
        yield ["parameters", ", ".join(f"{name}={value}" for name, value in result.parameters.items())]
    if result.tags:
        yield ["tags", ", ".join(result.tags)]
    yield ["definition", result.definition]
    yield from (["digits", line.removeprefix("digits").strip()] for line in describe_digits(result))
    yield ["subject's time", format_duration(result.outcome.execution.duration_s)]
    if reused := result.outcome.reused:
        yield ["reused from the run of", " at ".join(filter(None, (reused.started, reused.commit[:8])))]
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
