"""report.html of a drift monitor: one file without script or network, in which the series that matter are drawn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from precreg.history.drift.record import DriftRecord, OutputDrift, State
from precreg.report import report_drift_chart as chart
from precreg.report import report_drift_describe as describe
from precreg.report.report_describe import plain
from precreg.report.report_drift_chart import Chart

MOST_DRAWN = 200
"""Findings that are drawn, the worst first; the table has more of them, drift.json all."""


MOST_CHARTS = 3
"""Metrics of one output that are drawn."""


MOST_ROWS = 1000


_TEMPLATES = Path(__file__).parent / "templates"

_FOUND = (State.DRIFT, State.UNMEASURED, State.IMPROVED)


def render(record: DriftRecord) -> str:
    """Lay out the whole report as one HTML document."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined)
    return plain(environment.get_template("drift.html.j2").render(_page(record)))


def _page(record: DriftRecord) -> dict[str, Any]:
    from markupsafe import Markup

    style = "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "drift.css"))
    found = [one for one in record.results if one.state in _FOUND]
    others = [one for one in record.results if one.state in (State.ABSENT, State.TOO_FEW)]
    steady = [one for one in record.results if one.state is State.STEADY]
    return {
        "record": record,
        "sentence": describe.exit_sentence(record),
        "counts": describe.counts(record),
        "scope": describe.scope(record),
        "anchor": describe.anchor(record),
        "style": Markup(style),
        "rows": [_row(number, one) for number, one in enumerate(found[:MOST_ROWS])],
        "beyond": max(0, len(found) - MOST_ROWS),
        "drawn": [_drawn(number, one, record) for number, one in enumerate(found[:MOST_DRAWN])],
        "others": others[:MOST_ROWS],
        "steady": [_drawn(-1, one, record) for one in steady if one.metrics],
        "tally": Counter(str(one.state) for one in record.results),
        "box": chart,
    }


def _row(number: int, found: OutputDrift) -> dict[str, Any]:
    rows = describe.evidence(found)
    link = f"#f{number}" if number < MOST_DRAWN else ""
    return {"found": found, "link": link, "evidence": rows[0] if rows else None, "tone": _TONES[found.state]}


def _drawn(number: int, found: OutputDrift, record: DriftRecord) -> dict[str, Any]:
    charts: list[Chart] = []
    for metric in found.metrics:
        if len(charts) < MOST_CHARTS and (drawing := chart.draw(metric, record)) is not None:
            charts.append(drawing)
    return {
        "number": number,
        "found": found,
        "charts": charts,
        "evidence": describe.evidence(found),
        "tone": _TONES[found.state],
    }


_TONES = {
    State.DRIFT: "failed",
    State.UNMEASURED: "error",
    State.ABSENT: "skipped",
    State.IMPROVED: "passed",
    State.TOO_FEW: "skipped",
    State.STEADY: "passed",
}
"""The classes of report.css."""
