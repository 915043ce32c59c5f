"""summary.md of a drift monitor: one table, for a merge request's comment or a job's page."""

from __future__ import annotations

from collections.abc import Sequence

from precreg.history.drift.record import DriftRecord, OutputDrift, State
from precreg.report import report_drift_describe as describe
from precreg.report.report_describe import some
from precreg.report.report_markdown import code, escaped

MOST_ROWS = 50

MOST_IDS = 10

_HEADINGS = ("state", "case", "output", "finding")


def render(record: DriftRecord) -> str:
    """Summarize in GitHub's and GitLab's Markdown; what is steady is counted, not listed."""
    listed = [found for found in record.results if found.state in (State.DRIFT, State.UNMEASURED)]
    anchor = describe.anchor(record)
    against = f" Anchor: {escaped(anchor)}." if anchor else ""
    place = f"Environment {escaped(record.environment)}, {escaped(describe.scope(record))}"
    parts = [f"# precreg drift: {describe.exit_sentence(record)}", f"{place}: {describe.counts(record)}.{against}"]
    if listed:
        parts.append("\n".join([_line(_HEADINGS), "|" + "---|" * len(_HEADINGS), *map(_row, listed[:MOST_ROWS])]))
    if len(listed) > MOST_ROWS:
        parts.append(f"And {len(listed) - MOST_ROWS} more in the report.")
    for state in (State.IMPROVED, State.ABSENT):
        if ids := list(dict.fromkeys(found.case for found in record.results if found.state is state)):
            parts.append(f"{state.capitalize()}: {some([code(id) for id in ids], MOST_IDS)}.")
    if record.warnings:
        parts.append("\n".join(f"- Warning: {escaped(text)}" for text in record.warnings[:MOST_IDS]))
    return "\n\n".join(parts) + "\n"


def _row(found: OutputDrift) -> str:
    return _line([str(found.state), code(found.case), escaped(found.output), escaped(found.message)])


def _line(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" for cell in cells)
