"""Print a comparison.

One pair gets its figures and worst positions. Many pairs get groups of equal failures, the first failing pair in
order, the worst failures, and a curve of the error. The verdict comes last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from click import style

from precreg.comparison.course import is_bad, pair_errors
from precreg.comparison.curve import draw_text_curve
from precreg.comparison.groups import FailureGroup, group_failed_pairs
from precreg.comparison.summary import (
    advise_pair,
    benchmark_column,
    comparison_exit_sentence,
    describe_firsts,
    describe_no_rise,
    describe_order,
    describe_regressions,
    describe_why,
    divides_by_floor,
    group_rows,
    one_line,
    regression_rows,
    sort_pairs,
)
from precreg.measure import metric_named, view_metrics
from precreg.report import (
    STATUS_LABELS,
    count_differences,
    describe_benchmark_difference,
    describe_warning,
    finding_notes,
    format_columns,
    position_rows,
    strip_controls,
    wrap_lines,
)
from precreg.report.charts import describe_sides
from precreg.types import (
    SHARE_DIGITS,
    Bound,
    ComparedPair,
    Comparison,
    ComparisonRecord,
    Metric,
    Positions,
    Status,
    Tolerance,
    format_duration,
    format_number,
)

# A log stays readable; the record has every pair.
MAX_FAILURES = 20
MAX_TERMINAL_POSITIONS = 10
MAX_COMPARISON_WARNINGS = 5
MAX_GROUPS = 20
COMPARISON_INDENT = " " * 9
# Counts printed unless they are 0.
_COUNTS = ("nan_matched", "nan_mismatched", "inf_matched", "inf_mismatched", "zero_references")


def render_comparison_terminal(
    record: ComparisonRecord,
    *,
    colour: bool,
    written: Sequence[Path] = (),
    width: int | None = None,
    quiet: bool = False,
) -> str:
    """Summarize as plain text, or with colours for a terminal; `written` are the files to point to.

    Lines fit `width`; None means that nothing wraps. With `quiet` there is a line for each failing pair, and the exit
    line.
    """
    if quiet:
        bad = [pair for pair in sort_pairs(record.pairs) if is_bad(pair)]
        more = [f"... and {len(bad) - MAX_FAILURES} more"] if len(bad) > MAX_FAILURES else []
        paragraphs = [[*map(_label, bad[:MAX_FAILURES]), *more, *_ending(record, written)[-1:]]]
    else:
        # One pair is mostly a debugging session, many pairs a gate: the first needs figures, the second failures.
        body = _one(record.pairs[0]) if len(record.pairs) == 1 else _many(record, width)
        paragraphs = [[_heading(record)], *body, _ending(record, written)]
    text = strip_controls("\n\n".join("\n".join(map(str.rstrip, lines)) for lines in paragraphs if lines))
    *lines, last = text.splitlines()
    wrapped, ending = wrap_lines(lines, width), wrap_lines([last], width)
    shown = _coloured(wrapped, ending, record) if colour else [*wrapped, *ending]
    return "\n".join(shown) + "\n"


def _heading(record: ComparisonRecord) -> str:
    asked = record.settings
    return f"precreg {record.precreg}: {asked.actual} against the {asked.role} {asked.reference}"


def _one(pair: ComparedPair) -> Iterator[list[str]]:
    comparison = pair.comparison
    if comparison is not None:
        yield [describe_sides(comparison), *_counted(comparison)]
        yield _figures(pair, comparison)
        yield _positions("worst positions", comparison, comparison.worst)
        yield _positions("NaN or infinity on one side", comparison, comparison.non_finite)
    texts = [pair.verdict.message, *finding_notes(pair.verdict), *_further(pair)]
    yield [_label(pair), *(COMPARISON_INDENT + text for text in texts)]
    if comparison is not None and pair.verdict.status is Status.FAILED:
        yield [f"advice   {text}" for text in advise_pair(pair)]


def _further(pair: ComparedPair) -> list[str]:
    """Return the messages of all findings but the first, and the difference from the benchmark."""
    others = [finding.message for finding in pair.verdict.findings[1:] if finding.metric]
    return [*others, *([describe_benchmark_difference(pair.difference)] if pair.difference else [])]


def _label(pair: ComparedPair) -> str:
    return f"{STATUS_LABELS[pair.verdict.status]:8} {one_line(pair.name)}   {pair.verdict.reason}"


def _counted(comparison: Comparison) -> list[str]:
    known = [f"{comparison.counts[name]:,} {name}" for name in _COUNTS if comparison.counts.get(name)]
    return [", ".join(known)] if known else []


def _figures(pair: ComparedPair, comparison: Comparison) -> list[str]:
    """Arrange metrics, their values, the benchmark's, and the limits in columns; leave out empty ones."""
    allowed = _allowed(pair.tolerance, comparison) if pair.tolerance else {}
    others = benchmark_column(pair)
    metrics = [metric_named(name, comparison.described) for name in dict.fromkeys((*_short_list(), *allowed))]
    rows = [
        [m.name, _value(m, comparison.metrics, others), _beside(pair, m, others), _unit(m), allowed.get(m.name, "")]
        for m in metrics
        if m.name in comparison.metrics or m.name in allowed
    ]
    # The benchmark's value is beside the value, because a reader compares the two.
    names = ["metric", "value", "benchmark", "unit", "allowed"]
    kept = [column for column, name in enumerate(names) if name != "benchmark" or pair.benchmark]
    return _in_columns([names[column] for column in kept], [[row[column] for column in kept] for row in rows])


def _short_list() -> list[str]:
    """Return the metrics that are printed without a bound: errors first, and the match ratio last."""
    metrics = view_metrics("terminal")
    higher = [metric.name for metric in metrics if metric.better == "higher"]
    # The match ratio decides by default, and the last line of a table is the easiest to find.
    return [*(metric.name for metric in metrics if metric.better == "lower"), *reversed(higher)]


def _allowed(tolerance: Tolerance, comparison: Comparison) -> dict[str, str]:
    """Return the limit of each metric, with the number of its alternative if there are several."""
    found = {
        bound.metric: f"{_limit(bound, comparison)} (alternative {number})"
        for number, alternative in enumerate(tolerance.alternatives, 1)
        for bound in alternative
    }
    return {**found, **{bound.metric: _limit(bound, comparison) for bound in tolerance.bounds}}


def _unit(metric: Metric) -> str:
    return metric.unit.removeprefix("1")


def _figure(metric: Metric, metrics: dict[str, float]) -> str:
    is_share = metric.better == "higher" and not _unit(metric)
    # Shares near 1 differ in their last digits, so four digits would show 1 for a failure.
    digits = SHARE_DIGITS if is_share else 4
    return format_number(metrics[metric.name], digits) if metric.name in metrics else "undefined"


def _value(metric: Metric, metrics: dict[str, float], others: dict[str, float]) -> str:
    """Return a figure of the output; a ratio to a benchmark without errors is infinite."""
    no_divisor = metric.name not in metrics and metric.ratio_of and others.get(metric.name) == 0
    return "infinite" if no_divisor else _figure(metric, metrics)


def _beside(pair: ComparedPair, metric: Metric, others: dict[str, float]) -> str:
    return _figure(metric, others) + (" (floor)" if divides_by_floor(pair, metric) else "")


def _limit(bound: Bound, comparison: Comparison) -> str:
    higher = metric_named(bound.metric, comparison.described).better == "higher"
    return f"{'>=' if higher else '<='} {format_number(bound.limit, SHARE_DIGITS)}"


def _positions(title: str, comparison: Comparison, positions: Positions | None) -> list[str]:
    if positions is None:
        return []
    # A stored array has no seed, so its column is left out.
    rows = [row[1:] for row in position_rows(comparison, positions)][:MAX_TERMINAL_POSITIONS]
    more = len(positions.index) - len(rows)
    rest = [f"and {more} more in the record"] if more > 0 else []
    return [*_in_columns([title, "actual", "reference", "|a-r|"], rows), *rest]


def _in_columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return format_columns(names, rows, len(rows)) if rows else []


def _many(record: ComparisonRecord, width: int | None) -> Iterator[list[str]]:
    points = pair_errors(record.pairs)
    yield [f"order     {describe_order(record)}"]
    # Groups come before single failures: one missing folder hides behind hundreds of large errors.
    groups = group_rows(record)
    names = ["pairs", "reason", "cause", "first in order"]
    yield format_columns(names, groups, MAX_GROUPS, width) if groups else []
    firsts = list(describe_firsts(record, points))
    yield [f"{label}: {text}" for label, text in firsts] or [*filter(None, [describe_no_rise(points)])]
    yield _failures(record, width)
    yield draw_text_curve(points, width)
    yield _regressions(record, width)


def _failures(record: ComparisonRecord, width: int | None) -> list[str]:
    """List the failing pairs worst first, without the unmeasured pairs of a group, which the group lists."""
    # Passed pairs are counted in the last lines. Thousands of them would push the failures out of the log.
    grouped = {id(pair) for group in group_failed_pairs(record.pairs) if _stands_for(group) for pair in group.pairs}
    bad = [pair for pair in sort_pairs(record.pairs) if is_bad(pair) and id(pair) not in grouped]
    rows = [
        [STATUS_LABELS[pair.verdict.status], one_line(pair.name), pair.verdict.reason, describe_why(pair)]
        for pair in bad
    ]
    return format_columns(["", "name", "reason", "why"], rows, MAX_FAILURES, width, spare=("reason",)) if rows else []


def _stands_for(group: FailureGroup) -> bool:
    return len(group.pairs) > 1 and not group.is_measured


def _regressions(record: ComparisonRecord, width: int | None) -> list[str]:
    rows = regression_rows(record)
    columns = ["regressed", "metric", "benchmark", "actual", "ratio"]
    table = format_columns(columns, rows, MAX_FAILURES, width) if rows else []
    return [*table, *describe_regressions(record)]


def _ending(record: ComparisonRecord, written: Sequence[Path]) -> list[str]:
    tally = Counter(pair.verdict.status for pair in record.pairs)
    counts = ", ".join(f"{tally[status]:,} {status}" for status in STATUS_LABELS if tally[status])
    lines = [f"{counts} in {format_duration(record.duration_s)}"] if len(record.pairs) > 1 else []
    differences = [pair.difference for pair in record.pairs if pair.difference is not None]
    if len(record.pairs) > 1 and differences:
        lines.append(f"against the benchmark: {count_differences(differences)}")
    lines += [f"warning   {describe_warning(fact)}" for fact in record.warnings[:MAX_COMPARISON_WARNINGS]]
    if len(record.warnings) > MAX_COMPARISON_WARNINGS:
        lines.append(f"warning   and {len(record.warnings) - MAX_COMPARISON_WARNINGS} more in the record")
    if written:
        lines.append(f"written   {'  '.join(path.as_posix() for path in written)}")
    return [*lines, f"exit {record.exit_code}: {comparison_exit_sentence(record)}"]


def _coloured(lines: Sequence[str], ending: Sequence[str], record: ComparisonRecord) -> list[str]:
    # The last line explains the exit code, so its colour shows the result.
    colour = "green" if record.exit_code == 0 else "red"
    return [*map(_coloured_line, lines), *(style(part, fg=colour, bold=True) for part in ending)]


def _coloured_line(line: str) -> str:
    for status, colour in ((Status.FAILED, "red"), (Status.ERROR, "red"), (Status.PASSED, "green")):
        label = STATUS_LABELS[status]
        if line.startswith(f"{label} "):
            return style(label, fg=colour, bold=True) + line[len(label) :]
    return line
