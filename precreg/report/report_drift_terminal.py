"""The summary of a drift monitor on a terminal or in a log: what drifts first, then why the exit code is what it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from click import style

from precreg.history.drift.record import DriftRecord, OutputDrift, State
from precreg.report import report_drift_describe as describe
from precreg.report.report_describe import plain, some

MOST_OUTPUTS = 20

MOST_IDS = 5

INDENT = " " * 11


_COLOURS = {State.DRIFT: "red", State.UNMEASURED: "red", State.ABSENT: "yellow", State.IMPROVED: "green"}

_LISTED = frozenset({State.DRIFT, State.UNMEASURED})


def render(record: DriftRecord, *, colour: bool, reports: Sequence[Path] = ()) -> str:
    """Summarize in plain text, or with colours for a terminal; `reports` are the files to point to."""
    found = [one for one in record.results if one.state in _LISTED]
    listed = [line for one in found[:MOST_OUTPUTS] for line in _output(one)]
    if len(found) > MOST_OUTPUTS:
        listed.append(f"... and {len(found) - MOST_OUTPUTS} more in the report")
    paragraphs = [[_heading(record)], listed, _ending(record, reports)]
    text = plain("\n\n".join("\n".join(lines) for lines in paragraphs if lines)) + "\n"
    return "\n".join(map(_coloured, text.splitlines())) + "\n" if colour else text


def _heading(record: DriftRecord) -> str:
    anchor = describe.anchor(record)
    against = f", anchor {anchor}" if anchor else ""
    return f"precreg {record.precreg}: environment {record.environment}, {describe.scope(record)}{against}"


def _output(found: OutputDrift) -> list[str]:
    first = f"{describe.LABELS[found.state]:10} {found.case}   {found.output}"
    lines = [*found.message.split("; "), *describe.table(describe.evidence(found))]
    return [first, *(INDENT + line for line in lines)]


def _ending(record: DriftRecord, reports: Sequence[Path]) -> list[str]:
    lines = [f"outputs   {describe.counts(record)}"]
    for state in (State.IMPROVED, State.ABSENT):
        if ids := list(dict.fromkeys(found.case for found in record.results if found.state is state)):
            lines.append(f"{describe.LABELS[state]:9} {some(ids, MOST_IDS)}")
    lines += [f"warning   {text}" for text in record.warnings]
    if reports:
        lines.append(f"reports   {'  '.join(path.as_posix() for path in reports)}")
    return [*lines, f"exit {record.exit_code}: {describe.exit_sentence(record)}"]


def _coloured(line: str) -> str:
    if line.startswith("exit "):
        return style(line, fg="green" if line.startswith("exit 0") else "red", bold=True)
    for state, fg in _COLOURS.items():
        if line.startswith(f"{describe.LABELS[state]:10} "):
            return style(line[:10], fg=fg, bold=True) + line[10:]
    return line
