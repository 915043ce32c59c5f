"""The page of `precreg compare --report`: one file without network, a table of every pair, and the worst ones drawn.

Nothing in a record can become markup or code: the template escapes, data stands in JSON without <, > and &, the
script sets text only, and the page's own policy runs no script but the one whose digest it names.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from precreg.comparison.pair import shown
from precreg.comparison.summary import exit_sentence, worst_first
from precreg.report import report_describe as describe
from precreg.report.charts.picture import TEMPLATES, shape, style
from precreg.report.report_html import json_for_script
from precreg.types.numbers import SHARE_DIGITS, duration, figure
from precreg.types.records import ComparedPair, ComparisonRecord

MOST_DRAWN = 100
"""Pairs that are drawn and described in full, the worst first; the table has every pair."""


COLUMNS = ("max_abs_error", "mean_abs_error", "max_rel_error", "max_ulp", "match_ratio")
"""The metrics of the table."""


def comparison_html(record: ComparisonRecord) -> str:
    """Lay out the whole report as one HTML document."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    return describe.plain(environment.get_template("comparison.html.j2").render(_page(record)))


def _page(record: ComparisonRecord) -> dict[str, Any]:
    from markupsafe import Markup

    pairs = worst_first(record.pairs)
    script = (TEMPLATES / "comparison.js").read_text(encoding="utf-8")
    data = {"metrics": COLUMNS, "rows": [_row(number, pair) for number, pair in enumerate(pairs)]}
    tally = Counter(pair.verdict.status for pair in pairs)
    return {
        "record": record,
        "sentence": exit_sentence(record),
        "statuses": {status: tally[status] for status in describe.LABELS if tally[status]},
        "limits": ", ".join(f"{name} {limit}" for name, limit in record.settings.limits.items()),
        "duration": duration(record.duration_s),
        "drawn": [shown(pair, number) for number, pair in enumerate(pairs[:MOST_DRAWN])],
        "left_out": _left_out(pairs[MOST_DRAWN:]),
        "style": Markup(style()),
        "script": Markup(script),
        "script_digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "data": Markup(json_for_script(data)),
    }


def _left_out(pairs: Sequence[ComparedPair]) -> str:
    """Say which pairs have no charts here."""
    if not pairs:
        return ""
    tally = Counter(str(pair.verdict.status) for pair in pairs)
    named = ", ".join(f"{number:,} {status}" for status, number in tally.most_common())
    return f"{len(pairs):,} more pairs are in the table alone, to keep the page small: {named}"


def _row(number: int, pair: ComparedPair) -> list[Any]:
    """Describe a pair in a line: its number where it is drawn, name, status, reason, shape, message, and metrics."""
    comparison = pair.comparison
    lengths = shape(comparison.shape) if comparison else ""
    drawn = number if number < MOST_DRAWN else None
    verdict = pair.verdict
    return [drawn, pair.name, verdict.status, verdict.reason, lengths, verdict.message, *_figures(pair)]


def _figures(pair: ComparedPair) -> Iterator[str]:
    metrics = pair.comparison.metrics if pair.comparison else {}
    for name in COLUMNS:
        yield figure(metrics[name], SHARE_DIGITS if name == "match_ratio" else 4) if name in metrics else ""
