"""The studies of a run as report.html shows them."""

from __future__ import annotations

from typing import Any

from precreg.report import report_studies_chart as chart
from precreg.report.told import Told, told
from precreg.types.records import RunRecord

MOST_DRAWN = 24
"""Series of one study that are drawn; the table has more of them."""


MOST_ROWS = 500


def shown(record: RunRecord) -> list[dict[str, Any]]:
    """Return what the template needs of every study: the table, and a drawing for each series."""
    return [_shown(one) for one in told(record)]


def _shown(one: Told) -> dict[str, Any]:
    return {
        "told": one,
        "panels": _panels(one),
        "rows": one.rows[:MOST_ROWS],
        "beyond": max(0, len(one.series) - MOST_DRAWN),
        "left_out": max(0, len(one.rows) - MOST_ROWS),
    }


def _panels(one: Told) -> list[dict[str, Any]]:
    shared = chart.axes(one.series) if one.series else None
    if shared is None:
        return []
    from markupsafe import Markup

    return [
        {"name": series.name or "all cases", "svg": Markup(chart.draw(series, shared, one.over, one.metric))}
        for series in one.series[:MOST_DRAWN]
    ]
