"""Lay out a comparison of two runs as one HTML file, which opens without a network.

Nothing in a record can become markup or code, as in the page of a run (html.py).
"""

from __future__ import annotations

from typing import Any

from precreg.report.describe import strip_controls
from precreg.report.groups import ResultGroup, measure_loss
from precreg.report.html import PageWords
from precreg.report.html_data import PageTexts, json_for_script
from precreg.report.page_words import CATALOGUES, DEFAULT_LANGUAGE, Language
from precreg.report.story import describe_group_cause, describe_loss_size, short_message
from precreg.report.template import page_script, page_style, render_template
from precreg.report.two_runs import RunComparison
from precreg.report.two_runs_text import (
    ComparedPaths,
    ComparisonPart,
    best_or_worst,
    comparison_notices,
    comparison_parts,
    comparison_sides,
    describe_comparison,
    sort_group,
)

# JSON has all of them.
MAX_PAGE_GROUPS = 100
MAX_PAGE_GROUP_CASES = 10
MAX_PAGE_LINES = 200
# A part of so many lines is open from the beginning.
MAX_OPEN_LINES = 5


def render_two_runs_html(comparison: RunComparison, paths: ComparedPaths, language: Language = DEFAULT_LANGUAGE) -> str:
    """Lay out a comparison as a page, whose switch has the other languages, too."""
    sentence = describe_comparison(comparison)
    values: dict[str, Any] = {
        **PageWords(language, PageTexts()).names(),
        "project": comparison.current.project,
        "exit_code": comparison.exit_code,
        "cases": len(comparison.pairs),
        "sentence": f"{sentence[0].upper()}{sentence[1:]}",
        "sides": dict(comparison_sides(comparison, paths)),
        "notices": [*comparison_notices(comparison, paths)],
        "parts": [_part(part) for part in comparison_parts(comparison)],
        "style": page_style("report.css", "run.css"),
        **page_script("page.js", "two_runs.js"),
        "data": json_for_script(CATALOGUES),
    }
    return strip_controls(render_template("two_runs.html.j2", values))


def _part(part: ComparisonPart) -> dict[str, Any]:
    return {
        "key": part.key,
        "number": part.number,
        "groups": [_group(group) for group in part.groups[:MAX_PAGE_GROUPS]],
        "more_groups": max(0, len(part.groups) - MAX_PAGE_GROUPS),
        "lines": part.lines[:MAX_PAGE_LINES],
        "more_lines": max(0, len(part.lines) - MAX_PAGE_LINES),
        "is_open": len(part.lines) <= MAX_OPEN_LINES,
        "note": part.note,
    }


def _group(group: ResultGroup) -> dict[str, Any]:
    shown = best_or_worst(group)
    return {
        "status": group.key.status,
        "reason": group.key.reason,
        "suite": group.key.suite,
        "operator": group.key.operator,
        "count": len(group.results),
        "size": describe_loss_size(measure_loss(shown)),
        "cause": describe_group_cause(group),
        "message": short_message(shown),
        "more": max(0, len(group.results) - MAX_PAGE_GROUP_CASES),
        "cases": [
            {"id": each.id, "size": describe_loss_size(measure_loss(each)), "message": short_message(each)}
            for each in sort_group(group)[:MAX_PAGE_GROUP_CASES]
        ],
    }
