"""What a report shows of one compared pair: plain values, numbers already as text, and its charts as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from precreg.comparison.advice import advice
from precreg.measure.metrics import COUNTS, METRICS, described
from precreg.report import report_describe as describe
from precreg.report.charts.figures import figures
from precreg.report.charts.picture import about
from precreg.report.detail import MOST_POSITIONS, count_rows, position_rows, tolerance_rows, unravelled
from precreg.types.numbers import figure
from precreg.types.records import ComparedPair
from precreg.types.types import Comparison, Status


class MetricRow(NamedTuple):
    """One metric of a pair.

    `at` is where a maximum is first met, `formula` and `source` explain the metric, `broken` says that a bound on it
    does not hold.
    """

    name: str
    value: str
    benchmark: str
    unit: str
    formula: str
    source: str
    at: str
    broken: bool


def shown(pair: ComparedPair, number: int) -> dict[str, Any]:
    """Describe a pair in full; tables are lists of rows of text."""
    comparison = pair.comparison
    return {
        "number": number,
        "pair": pair,
        "about": about(comparison) if comparison else "",
        "findings": list(_findings(pair)),
        "notes": describe.notes(pair.verdict),
        "advice": advice(comparison) if comparison and pair.verdict.status is Status.FAILED else [],
        "limits": list(tolerance_rows(pair.tolerance)) if pair.tolerance else [],
        "figures": figures(comparison) if comparison else [],
        "metrics": list(_metrics(pair, comparison)) if comparison else [],
        "counts": [[*row, COUNTS.get(row[0], "")] for row in count_rows([comparison])] if comparison else [],
        "worst": _positions(comparison, "worst") if comparison else [],
        "more_worst": max(0, len(comparison.worst.index) - MOST_POSITIONS) if comparison and comparison.worst else 0,
        "non_finite": _positions(comparison, "non_finite") if comparison else [],
    }


def _findings(pair: ComparedPair) -> Iterator[list[str]]:
    """Yield metric, value, the benchmark's, ratio, what is allowed, and who says so."""
    numbered = [finding for finding in pair.verdict.findings if finding.metric]
    for finding, row in zip(numbered, describe.rows(pair.verdict), strict=True):
        source = str(finding.source) if finding.source else ""
        yield [row.metric, row.current, row.baseline, row.ratio, row.allowed, source]


def _metrics(pair: ComparedPair, comparison: Comparison) -> Iterator[MetricRow]:
    broken = {finding.metric for finding in pair.verdict.findings}
    others = pair.benchmark.metrics if pair.benchmark else {}
    for name in (*METRICS, *(metric.name for metric in comparison.described)):
        if name in comparison.metrics:
            metric = described(name)
            value, other = comparison.metrics[name], others.get(name)
            written = "" if other is None else figure(other, 6)
            unit = "" if metric.unit == "1" else metric.unit
            at = _index(comparison, name)
            yield MetricRow(name, figure(value, 6), written, unit, metric.formula, metric.source, at, name in broken)


def _index(comparison: Comparison, metric: str) -> str:
    if metric not in comparison.places:
        return ""
    return f"[{', '.join(map(str, unravelled(comparison.places[metric], comparison.shape)))}]"


def _positions(comparison: Comparison, kind: str) -> list[list[str]]:
    """Return index, actual, reference and distance, without the seed, of which a stored array has none."""
    positions = comparison.worst if kind == "worst" else comparison.non_finite
    return [row[1:] for row in position_rows(comparison, positions)]
