"""Write a drift record as report.html, junit.xml and drift.json.

report.html is one file without script or network. Each chart has one metric over the runs, on a logarithmic axis if
every value is above 0; a run without a value leaves a gap. JUnit has one test per case, and its suites are called
precreg.drift.TIER. GitLab identifies a test by suite, class and name, and would join it with the test of `precreg run`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from precreg.history import HistoryRun, changed_facts
from precreg.history.drift import DriftRecord, DriftState, MetricDrift, OutputDrift
from precreg.report.describe import strip_controls
from precreg.report.drift.terminal import (
    describe_anchor,
    describe_drift,
    describe_drift_counts,
    describe_drift_evidence,
    describe_drift_scope,
    describe_metric_drift,
    describe_worsening,
    drift_exit_sentence,
    drift_table,
    drift_warnings,
    group_drift_by_case,
    render_drift_markdown,
)
from precreg.report.files import make_reports_folder
from precreg.report.junit import junit_document, junit_suite
from precreg.report.template import page_style, render_template
from precreg.storage import replace_file, report_write_errors
from precreg.types import TIERS, format_distinct

if TYPE_CHECKING:
    from junit_xml import TestCase


# In the units of the SVG, which scales to the width of the page.
WIDTH, HEIGHT = 720, 220
LEFT, RIGHT, TOP, BOTTOM = 74, 14, 12, 34
# More numbers of runs would touch each other at this width.
MAX_TICKS = 10
# 10**308 is still a float64; a place above it comes only from the margin of the axis.
MAX_POWER = 308.0
MAX_FLOAT = sys.float_info.max


class Mark(NamedTuple):
    """Hold a vertical line across the chart, with its tooltip."""

    kind: str
    x: float
    text: str


class Dot(NamedTuple):
    """Hold one run's value."""

    x: float
    y: float
    text: str


class ChartTick(NamedTuple):
    """Hold a place on an axis and its number."""

    at: float
    text: str


class DriftChart(NamedTuple):
    """Hold everything that the template draws, in the SVG's units; `description` is the same in words."""

    metric: str
    description: str
    lines: tuple[str, ...]
    accepted: tuple[str, ...]
    dots: tuple[Dot, ...]
    marks: tuple[Mark, ...]
    anchor: float | None
    across: tuple[ChartTick, ...]
    upward: tuple[ChartTick, ...]


class _Scale(NamedTuple):
    """Map values to the vertical axis: by logarithms, or by shares of a unit, which never overflow."""

    lowest: float
    highest: float
    unit: float | None

    def y(self, value: float) -> float:
        return self.y_of(log10(value) if self.unit is None else value / self.unit)

    def value_at(self, place: float) -> float:
        if self.unit is None:
            return 10 ** min(place, MAX_POWER)
        return max(-MAX_FLOAT, min(place * self.unit, MAX_FLOAT))

    def y_of(self, place: float) -> float:
        share = (place - self.lowest) / (self.highest - self.lowest)
        # SVG counts downward from the top. One decimal is below a pixel and keeps the page small.
        return round(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP), 1)


def draw_drift_chart(metric: MetricDrift, record: DriftRecord) -> DriftChart | None:
    """Lay out one metric; None if no run has a value."""
    known = {run.number: run for run in record.runs}
    points = [point for point in metric.points if point.run in known]
    values = [point.value for point in points]
    accepted = [point.accepted for point in points]
    if not any(value is not None for value in values):
        return None
    runs = [known[point.run] for point in points]
    anchor = _anchor(metric, record)
    scale = _scale([*values, *accepted, anchor])
    xs = _xs(len(points))
    return DriftChart(
        metric.metric,
        _description(metric, runs, values, accepted[-1], anchor, record),
        _paths(xs, values, scale),
        _paths(xs, accepted, scale),
        tuple(_dots(xs, runs, values, scale)),
        tuple(_marks(xs, runs, metric)),
        None if anchor is None else scale.y(anchor),
        _across(xs, runs),
        _upward(scale),
    )


def _anchor(metric: MetricDrift, record: DriftRecord) -> float | None:
    runs = () if record.anchor is None else record.anchor.runs
    return next((point.value for point in metric.points if point.run in runs and point.value is not None), None)


def _scale(values: Sequence[float | None]) -> _Scale:
    known = [value for value in values if value is not None]
    # A logarithm needs values above 0. Otherwise the largest value is the unit, so shares never overflow.
    unit = None if min(known) > 0 else max(map(abs, known)) or 1.0
    places = [log10(value) if unit is None else value / unit for value in known]
    # The margin of a constant series: 5 % of its value, or half a unit at 0.
    room = (max(places) - min(places)) * 0.08 or abs(places[0]) * 0.05 or 0.5
    return _Scale(min(places) - room, max(places) + room, unit)


def _xs(count: int) -> list[float]:
    room = WIDTH - LEFT - RIGHT
    return [round(LEFT + room * (at + 0.5) / count, 1) for at in range(count)]


def _paths(xs: Sequence[float], values: Sequence[float | None], scale: _Scale) -> tuple[str, ...]:
    """Return one list of points for each stretch without a gap."""
    stretches: list[list[str]] = [[]]
    for x, value in zip(xs, values, strict=True):
        if value is None:
            # A line across a gap would show values that no run measured.
            stretches.append([])
        else:
            stretches[-1].append(f"{x},{scale.y(value)}")
    return tuple(" ".join(stretch) for stretch in stretches if stretch)


def _dots(xs: Sequence[float], runs: Sequence[HistoryRun], values: Sequence[float | None], scale: _Scale) -> list[Dot]:
    return [
        Dot(x, scale.y(value), f"run {run.number}, {run.started[:10]}, {run.commit[:8] or 'no commit'}: {value:.6g}")
        for x, run, value in zip(xs, runs, values, strict=True)
        if value is not None
    ]


def _marks(xs: Sequence[float], runs: Sequence[HistoryRun], metric: MetricDrift) -> list[Mark]:
    """Return the marks where the environment changed, and at the first worse runs."""
    marks = []
    for (left, right), (before, after) in zip(pairwise(xs), pairwise(runs), strict=True):
        if before.fingerprint != after.fingerprint:
            # The mark lies between the two runs, because neither of them is the change.
            facts = ", ".join(f"{name} {was} to {now}" for name, was, now in sorted(changed_facts(before, after)))
            marks.append(
                Mark("environment", (left + right) / 2, f"environment changed before run {after.number}: {facts}")
            )
    place = {run.number: x for x, run in zip(xs, runs, strict=True)}
    firsts = {worse.change.first_bad for worse in metric.worsenings}
    return marks + [Mark("change", place[run], f"worse from run {run} on") for run in sorted(firsts) if run in place]


def _across(xs: Sequence[float], runs: Sequence[HistoryRun]) -> tuple[ChartTick, ...]:
    # Rounded up, so that the number of ticks never exceeds the limit.
    every = max(1, -(-len(xs) // MAX_TICKS))
    return tuple(ChartTick(xs[at], str(runs[at].number)) for at in range(0, len(xs), every))


def _upward(scale: _Scale) -> tuple[ChartTick, ...]:
    # The margin of _scale is about 8 %, so the outer numbers are close to the smallest and the largest value.
    places = [scale.lowest + share * (scale.highest - scale.lowest) for share in (0.08, 0.36, 0.64, 0.92)]
    values = [scale.value_at(place) for place in places]
    return tuple(
        ChartTick(scale.y_of(place), text) for place, text in zip(places, format_distinct(values), strict=True)
    )


def _description(
    metric: MetricDrift,
    runs: Sequence[HistoryRun],
    values: Sequence[float | None],
    accepted: float | None,
    anchor: float | None,
    record: DriftRecord,
) -> str:
    known = [value for value in values if value is not None]
    parts = [
        f"{metric.metric} over {len(runs)} runs, {runs[0].number} to {runs[-1].number}: first {known[0]:.6g}, "
        f"last {known[-1]:.6g}, least {min(known):.6g}, most {max(known):.6g}"
    ]
    if accepted is not None:
        parts.append(f"accepted {accepted:.6g}")
    if anchor is not None and record.anchor is not None:
        parts.append(f"at the anchor {record.anchor.name} {anchor:.6g}")
    return "; ".join([*parts, *(describe_worsening(metric.metric, worse) for worse in metric.worsenings)])


# Charts make the page large, so only the worst findings have one.
MAX_DRAWN_SERIES = 200
# Other metrics of an output usually show the same change.
MAX_CHARTS = 3
MAX_DRIFT_HTML_ROWS = 1000
_NOT_JUDGED = (DriftState.ABSENT, DriftState.TOO_NOISY, DriftState.TOO_FEW)
_FOUND = (DriftState.DRIFT, DriftState.UNMEASURED, DriftState.IMPROVED)


def render_drift_html(record: DriftRecord) -> str:
    """Lay out the whole report as one HTML document."""
    return render_template("drift.html.j2", _page(record))


def _page(record: DriftRecord) -> dict[str, Any]:
    found = [one for one in record.results if one.state in _FOUND]
    others = [one for one in record.results if one.state in _NOT_JUDGED]
    steady = [one for one in record.results if one.state is DriftState.STEADY]
    return {
        "record": record,
        "warnings": drift_warnings(record),
        "describe_drift": describe_drift,
        "sentence": drift_exit_sentence(record),
        "counts": describe_drift_counts(record),
        "scope": describe_drift_scope(record),
        "anchor": describe_anchor(record),
        "style": page_style("report.css", "drift.css"),
        "rows": [_row(number, one) for number, one in enumerate(found[:MAX_DRIFT_HTML_ROWS])],
        "beyond": max(0, len(found) - MAX_DRIFT_HTML_ROWS),
        # Rows are cheap and charts are not, so the table is longer than the list of charts.
        "drawn": [_drawn(number, one, record) for number, one in enumerate(found[:MAX_DRAWN_SERIES])],
        "undrawn": max(0, len(found) - MAX_DRAWN_SERIES),
        "others": others[:MAX_DRIFT_HTML_ROWS],
        "others_beyond": max(0, len(others) - MAX_DRIFT_HTML_ROWS),
        "steady": [_drawn(-1, one, record) for one in steady if one.metrics],
        "tally": Counter(str(one.state) for one in record.results),
        "box": {"WIDTH": WIDTH, "HEIGHT": HEIGHT, "LEFT": LEFT, "RIGHT": RIGHT, "TOP": TOP, "BOTTOM": BOTTOM},
    }


def _row(number: int, found: OutputDrift) -> dict[str, Any]:
    rows = describe_drift_evidence(found)
    link = f"#f{number}" if number < MAX_DRAWN_SERIES else ""
    return {"found": found, "link": link, "evidence": rows[0] if rows else None, "tone": _TONES[found.state]}


def _drawn(number: int, found: OutputDrift, record: DriftRecord) -> dict[str, Any]:
    charts: list[DriftChart] = []
    for metric in found.metrics:
        # The metrics come worst first, so the charts that are left out are the least important ones.
        if len(charts) < MAX_CHARTS and (drawing := draw_drift_chart(metric, record)) is not None:
            charts.append(drawing)
    return {
        "number": number,
        "found": found,
        "charts": charts,
        "evidence": describe_drift_evidence(found),
        "tone": _TONES[found.state],
    }


# The CSS classes in report.css.
_TONES = {
    DriftState.DRIFT: "failed",
    DriftState.UNMEASURED: "error",
    DriftState.ABSENT: "skipped",
    DriftState.IMPROVED: "passed",
    DriftState.TOO_NOISY: "skipped",
    DriftState.TOO_FEW: "skipped",
    DriftState.STEADY: "passed",
}


def render_drift_junit(record: DriftRecord) -> str:
    """Write one test suite per tier, its cases sorted by name; both dialects are the same, as no test has a file."""
    cases = _without_twins(group_drift_by_case(record))
    suites = [
        junit_suite(
            f"precreg.drift.{tier}", [_test(id, outputs) for id, outputs in cases.items() if _parts(id)[0] == tier]
        )
        for tier in dict.fromkeys([*TIERS, *(_parts(id)[0] for id in cases)])
        if any(_parts(id)[0] == tier for id in cases)
    ]
    return junit_document(suites)


def _without_twins(cases: dict[str, list[OutputDrift]]) -> dict[str, list[OutputDrift]]:
    """Join cases with one identity in XML, worst output first."""
    joined: dict[str, list[OutputDrift]] = {}
    for id, outputs in cases.items():
        joined.setdefault(strip_controls(id), []).extend(outputs)
    # The states are declared worst first.
    order = list(DriftState)
    return {id: sorted(joined[id], key=lambda found: order.index(found.state)) for id in sorted(joined)}


def _parts(id: str) -> tuple[str, str, str]:
    """Split tier/suite/name."""
    # partition and not split, because names may contain slashes. The id is all that is known of a case that left the
    # suites.
    tier, _, rest = id.partition("/")
    suite, _, name = rest.partition("/")
    return tier, suite, name


def _test(id: str, outputs: Sequence[OutputDrift]) -> TestCase:
    from junit_xml import TestCase

    tier, suite, _ = _parts(id)
    # GitLab's list of failures shows the name alone.
    test = TestCase(id, classname=f"{tier}.{suite}")
    worst = outputs[0]
    message = strip_controls(f"{worst.output}: {describe_drift(worst)}")
    match worst.state:
        case DriftState.DRIFT:
            test.add_failure_info(message, _body(id, outputs), worst.state)
        case DriftState.UNMEASURED:
            test.add_error_info(message, _body(id, outputs), worst.state)
        # These were not judged, so neither a pass nor a failure would be true.
        case DriftState.ABSENT | DriftState.TOO_NOISY | DriftState.TOO_FEW:
            test.add_skipped_info(message)
    return test


def _body(id: str, outputs: Sequence[OutputDrift]) -> str:
    listed = [found for found in outputs if found.state in (DriftState.DRIFT, DriftState.UNMEASURED)]
    parts = [
        [id],
        *(
            [f"{found.output}: {describe_drift(found)}", *drift_table(describe_drift_evidence(found))]
            for found in listed
        ),
    ]
    return strip_controls("\n\n".join("\n".join(lines) for lines in parts))


def render_drift_json(record: DriftRecord) -> bytes:
    """Return the record as one line of JSON, with the sentences of its findings beside the facts."""
    # The sentences are not part of the record: a later version may word them better.
    plain = msgspec.to_builtins(record) | {"warnings": drift_warnings(record)}
    for written, found in zip(plain["results"], record.results, strict=True):
        written["message"] = describe_drift(found)
        for of_metric, metric in zip(written["metrics"], found.metrics, strict=True):
            of_metric["message"] = describe_metric_drift(metric)
            for of_worsening, worse in zip(of_metric["worsenings"], metric.worsenings, strict=True):
                of_worsening["message"] = describe_worsening(metric.metric, worse)
    return msgspec.json.encode(plain) + b"\n"


def write_drift_reports(record: DriftRecord, folder: Path) -> list[Path]:
    """Write drift.json, junit.xml, report.html and summary.md, each in one step; return their paths.

    Raises:
        UserError: not-writable.
    """
    contents = {
        "drift.json": render_drift_json(record),
        "junit.xml": render_drift_junit(record).encode(),
        "report.html": render_drift_html(record).encode(),
        "summary.md": render_drift_markdown(record).encode(),
    }
    # Everything is rendered by now, so an error leaves the former reports complete.
    make_reports_folder(folder)
    for name, content in contents.items():
        with report_write_errors(str(folder / name)):
            replace_file(folder / name, content)
    return [folder / name for name in contents]
