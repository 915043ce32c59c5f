"""Lay out the page of `precreg compare --report`, and write and read the record of a comparison.

The page is one file without a network: a table of every pair, and the worst pairs drawn. Nothing in a record can
become markup or code. The template escapes, data is JSON without <, > and &, and the script sets text only. The page's
own policy runs only the script whose digest it names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import asdict

from precreg.comparison.course import pair_errors
from precreg.comparison.summary import (
    advise_pair,
    benchmark_column,
    comparison_exit_sentence,
    describe_firsts,
    describe_no_rise,
    describe_order,
    describe_regressions,
    divides_by_floor,
    group_rows,
    one_line,
    regression_rows,
    sort_pairs,
)
from precreg.measure import COUNT_DESCRIPTIONS, METRICS, view_metrics
from precreg.report import (
    MAX_DETAIL_POSITIONS,
    STATUS_LABELS,
    count_differences,
    count_rows,
    describe_benchmark_difference,
    describe_warning,
    finding_notes,
    finding_rows,
    json_for_script,
    page_script,
    position_rows,
    render_template,
    tolerance_rows,
)
from precreg.report.charts import (
    LayerError,
    comparison_style,
    describe_layer_errors,
    describe_sides,
    draw_figures,
    draw_layer_errors,
    format_shape,
)
from precreg.storage import read_json_record, write_json_record
from precreg.types import (
    COMPARISON_SCHEMA,
    SHARE_DIGITS,
    ComparedPair,
    Comparison,
    ComparisonRecord,
    ComparisonWarning,
    described_metric,
    format_duration,
    format_number,
    read_facts,
    unravel_index,
)


class MetricRow(NamedTuple):
    """Hold one metric of a pair.

    `at` is the first position of a maximum, `formula` and `source` explain the metric, `broken` marks a broken bound.
    """

    name: str
    value: str
    benchmark: str
    unit: str
    formula: str
    source: str
    at: str
    broken: bool


def describe_pair(pair: ComparedPair, number: int) -> dict[str, Any]:
    """Describe a pair in full; tables are lists of rows of text."""
    comparison = pair.comparison
    return {
        "number": number,
        "pair": pair,
        "about": describe_sides(comparison) if comparison else "",
        "findings": list(_findings(pair)),
        "notes": finding_notes(pair.verdict),
        "difference": describe_benchmark_difference(pair.difference) if pair.difference else "",
        "advice": advise_pair(pair),
        "limits": list(tolerance_rows(pair.tolerance, pair.described)) if pair.tolerance else [],
        "figures": draw_figures(comparison) if comparison else [],
        "metrics": list(_metrics(pair, comparison)) if comparison else [],
        "counts": [[*row, COUNT_DESCRIPTIONS.get(row[0], "")] for row in count_rows([comparison])]
        if comparison
        else [],
        "worst": _positions(comparison, "worst") if comparison else [],
        "more_worst": max(0, len(comparison.worst.index) - MAX_DETAIL_POSITIONS)
        if comparison and comparison.worst
        else 0,
        "non_finite": _positions(comparison, "non_finite") if comparison else [],
    }


def _findings(pair: ComparedPair) -> Iterator[list[str]]:
    """Yield metric, value, the benchmark's value, ratio, limit, and the source of the limit."""
    numbered = [finding for finding in pair.verdict.findings if finding.metric]
    for finding, row in zip(numbered, finding_rows(pair.verdict, pair.described), strict=True):
        source = str(finding.source) if finding.source else ""
        yield [row.metric, row.current, row.baseline, row.ratio, row.allowed, source]


def _metrics(pair: ComparedPair, comparison: Comparison) -> Iterator[MetricRow]:
    broken = {finding.metric for finding in pair.verdict.findings}
    others = benchmark_column(pair)
    for metric in (*METRICS.values(), *map(described_metric, comparison.described)):
        if (name := metric.name) in comparison.metrics:
            value, other = comparison.metrics[name], others.get(name)
            floor = " (floor)" if divides_by_floor(pair, metric) else ""
            written = "" if other is None else f"{format_number(other, 6)}{floor}"
            unit = "" if metric.unit == "1" else metric.unit
            at = _index(comparison, name)
            yield MetricRow(
                name, format_number(value, 6), written, unit, metric.formula, metric.source, at, name in broken
            )


def _index(comparison: Comparison, metric: str) -> str:
    if metric not in comparison.places:
        return ""
    return f"[{', '.join(map(str, unravel_index(comparison.places[metric], comparison.shape)))}]"


def _positions(comparison: Comparison, kind: str) -> list[list[str]]:
    """Return index, actual, reference and distance, without the seed, because a stored array has none."""
    positions = comparison.worst if kind == "worst" else comparison.non_finite
    return [row[1:] for row in position_rows(comparison, positions)]


# Charts make the page large, so only the worst pairs have them; the table has every pair.
MAX_DRAWN_PAIRS = 100
# The metric columns of the table, which the page can sort by.
PAIR_COLUMNS = tuple(metric.name for metric in view_metrics("pairs"))


def render_comparison_html(record: ComparisonRecord) -> str:
    """Lay out the whole report as one HTML document."""
    return render_template("comparison.html.j2", _page(record))


def _page(record: ComparisonRecord) -> dict[str, Any]:
    from markupsafe import Markup

    pairs = sort_pairs(record.pairs)
    # Data and not markup: the script makes only the rows that are visible, because 10,000 rows of HTML are unusable.
    data = {"metrics": PAIR_COLUMNS, "rows": [_row(number, pair) for number, pair in enumerate(pairs)]}
    tally = Counter(pair.verdict.status for pair in pairs)
    return {
        "record": record,
        "describe_warning": describe_warning,
        "sentence": comparison_exit_sentence(record),
        "statuses": {status: tally[status] for status in STATUS_LABELS if tally[status]},
        "differences": count_differences(pair.difference for pair in pairs if pair.difference is not None),
        "limits": ", ".join(f"{name} {limit}" for name, limit in record.settings.limits.items()),
        "duration": format_duration(record.duration_s),
        "drawn": [describe_pair(pair, number) for number, pair in enumerate(pairs[:MAX_DRAWN_PAIRS])],
        **_course(record),
        "left_out": _left_out(pairs[MAX_DRAWN_PAIRS:]),
        "style": comparison_style(),
        **page_script("comparison.js"),
        "data": Markup(json_for_script(data)),
    }


def _course(record: ComparisonRecord) -> dict[str, Any]:
    """Return the chart along the order of execution; one pair has no course."""
    if len(record.pairs) < 2:
        return {"course": None}
    points = pair_errors(record.pairs)
    curve = [
        LayerError(
            one_line(point.pair.name),
            point.error,
            point.allowed,
            point.benchmark,
            point.fails,
            str(point.pair.verdict.reason),
        )
        for point in points
    ]
    regressed = regression_rows(record)
    return {
        "course": {"svg": draw_layer_errors(curve), "caption": describe_layer_errors(curve)},
        "order": describe_order(record),
        "groups": group_rows(record),
        "firsts": list(describe_firsts(record, points)),
        "no_rise": describe_no_rise(points),
        "regressions": describe_regressions(record),
        "regressed": regressed[:MAX_DRAWN_PAIRS],
        "more_regressed": max(0, len(regressed) - MAX_DRAWN_PAIRS),
    }


def _left_out(pairs: Sequence[ComparedPair]) -> str:
    """Write which pairs have no charts on the page."""
    if not pairs:
        return ""
    tally = Counter(str(pair.verdict.status) for pair in pairs)
    named = ", ".join(f"{number:,} {status}" for status, number in tally.most_common())
    return f"{len(pairs):,} more pairs are in the table alone, to keep the page small: {named}"


def _row(number: int, pair: ComparedPair) -> list[Any]:
    """Describe a pair in one row: its number if it is drawn, name, status, reason, shape, message, and metrics."""
    comparison = pair.comparison
    lengths = format_shape(comparison.shape) if comparison else ""
    # The number is the anchor of the drawn pair, so a row without charts has no link.
    drawn = number if number < MAX_DRAWN_PAIRS else None
    verdict = pair.verdict
    return [drawn, pair.name, verdict.status, verdict.reason, lengths, verdict.message, *_figures(pair)]


def _figures(pair: ComparedPair) -> Iterator[str]:
    metrics = pair.comparison.metrics if pair.comparison else {}
    for name in PAIR_COLUMNS:
        yield format_number(metrics[name], SHARE_DIGITS if name == "match_ratio" else 4) if name in metrics else ""


def write_comparison_record(record: ComparisonRecord, path: Path) -> None:
    """Write a record as one line of JSON, in one step; its folder is there. Raises UserError (not-writable)."""
    write_json_record(record, path)


class _StoredComparison(ComparisonRecord, frozen=True):
    """Decode a record of either schema: warnings are facts, or sentences in schema 1."""

    warnings: tuple[ComparisonWarning | str, ...] = ()  # type: ignore[assignment]


def read_comparison_record(path: Path) -> ComparisonRecord:
    """Read a record of this schema or an older one as a record of this schema; unknown fields are ignored.

    Raises:
        UserError: missing-file, unreadable-record, future-schema; each names the file.
    """
    stored = read_json_record(path, _StoredComparison, COMPARISON_SCHEMA, "the record of a comparison")
    fields = asdict(stored) | {"schema": COMPARISON_SCHEMA, "warnings": read_facts(stored.warnings)}
    return ComparisonRecord(**fields)
