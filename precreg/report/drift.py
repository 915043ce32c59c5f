"""What every report of a drift monitor says, said once: labels, counts, tables, the last sentence.

summary.md of a drift monitor: one table, for a merge request's comment or a job's page.

The summary of a drift monitor on a terminal or in a log: what drifts first, then why the exit code is what it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from click import style

from precreg.history.drift import DriftRecord, DriftState, MetricDrift, OutputDrift
from precreg.report.describe import count_cases, format_columns, list_some, strip_controls
from precreg.report.markdown import escape_markdown, markdown_code
from precreg.types import format_distinct, format_number

DRIFT_LABELS: dict[DriftState, str] = {
    DriftState.DRIFT: "DRIFT",
    DriftState.UNMEASURED: "UNMEASURED",
    DriftState.ABSENT: "absent",
    DriftState.IMPROVED: "improved",
    DriftState.TOO_FEW: "too few",
    DriftState.STEADY: "steady",
}
"""Worst first; what needs a person stands in capitals."""


_RANK = {state: rank for rank, state in enumerate(DRIFT_LABELS)}


class DriftEvidence(NamedTuple):
    """What a metric did not stand, as text; comparisons that say the same share a row. Empty: nothing to say."""

    metric: str
    before: str
    now: str
    ratio: str
    kind: str
    since: str
    judged: str
    against: str


def describe_drift_evidence(found: OutputDrift) -> list[DriftEvidence]:
    """Describe every comparison that an output's metrics did not stand."""
    return [row for metric in found.metrics for row in _rows(metric)]


def _rows(metric: MetricDrift) -> list[DriftEvidence]:
    rows: dict[tuple[str, ...], DriftEvidence] = {}
    for worse in metric.worsenings:
        before, now = format_distinct([worse.before, worse.now])
        ratio = "" if worse.ratio is None else format_number(worse.ratio, 4)
        since = f"run {worse.change.first_bad}"
        told = rows.get((before, since))
        against = worse.against if told is None else f"{told.against}, {worse.against}"
        judged = f"{metric.mode}, {metric.runs} runs"
        rows[before, since] = DriftEvidence(metric.metric, before, now, ratio, worse.kind, since, judged, against)
    return list(rows.values())


def drift_table(rows: Sequence[DriftEvidence], most: int = 12) -> list[str]:
    """Set rows in columns under their names; rows beyond the most are counted."""
    return format_columns(DriftEvidence._fields, rows, most) if rows else []


def group_drift_by_case(record: DriftRecord) -> dict[str, list[OutputDrift]]:
    """Return the outputs of each case, the worst first; cases are sorted."""
    ordered = sorted(record.results, key=lambda found: (found.case, _RANK[found.state], found.output))
    return {case: list(group) for case, group in groupby(ordered, key=lambda found: found.case)}


def describe_drift_counts(record: DriftRecord) -> str:
    """Say how many outputs are in which state, worst first."""
    tally = Counter(found.state for found in record.results)
    return ", ".join(f"{tally[state]} {state}" for state in DRIFT_LABELS if tally[state]) or "nothing"


def describe_drift_scope(record: DriftRecord) -> str:
    """Say which runs were looked at."""
    if not record.runs:
        return "no run"
    first, last = record.runs[0], record.runs[-1]
    if first is last:
        return f"run {first.number}{f', commit {first.commit[:8]}' if first.commit else ''}"
    commits = f", commits {first.commit[:8]} to {last.commit[:8]}" if first.commit and last.commit else ""
    return f"{len(record.runs)} runs, {first.number} to {last.number}{commits}"


def describe_anchor(record: DriftRecord) -> str:
    """Name the anchor with its commit and its runs; nothing without one."""
    if record.anchor is None:
        return ""
    commit = f", commit {record.anchor.commit[:8]}" if record.anchor.commit else ""
    runs = ", ".join(map(str, record.anchor.runs))
    return f"{record.anchor.name}{commit} (run {runs})"


def drift_exit_sentence(record: DriftRecord) -> str:
    """Say in one sentence why the exit code is what it is."""
    states = [found.state for found in record.results]
    drifting = len({found.case for found in record.results if found.state is DriftState.DRIFT})
    if drifting:
        return f"{count_cases(drifting)} {'drifts' if drifting == 1 else 'drift'}"
    unmeasured = len({found.case for found in record.results if found.state is DriftState.UNMEASURED})
    if unmeasured:
        return f"{count_cases(unmeasured)} could not be judged: no longer measured"
    if not {DriftState.STEADY, DriftState.IMPROVED} & set(states):
        return f"nothing could be judged: {describe_drift_counts(record)} in {describe_drift_scope(record)}"
    ways = ", ".join(f"{number} {mode}" for mode, number in record.modes.items())
    return f"nothing drifts; metrics judged: {ways}"


MAX_DRIFT_MARKDOWN_ROWS = 50

MAX_DRIFT_MARKDOWN_IDS = 10

_HEADINGS = ("state", "case", "output", "finding")


def render_drift_markdown(record: DriftRecord) -> str:
    """Summarize in GitHub's and GitLab's Markdown; what is steady is counted, not listed."""
    listed = [found for found in record.results if found.state in (DriftState.DRIFT, DriftState.UNMEASURED)]
    anchor = describe_anchor(record)
    against = f" Anchor: {escape_markdown(anchor)}." if anchor else ""
    place = f"Environment {escape_markdown(record.environment)}, {escape_markdown(describe_drift_scope(record))}"
    parts = [f"# precreg drift: {drift_exit_sentence(record)}", f"{place}: {describe_drift_counts(record)}.{against}"]
    if listed:
        parts.append(
            "\n".join([_line(_HEADINGS), "|" + "---|" * len(_HEADINGS), *map(_row, listed[:MAX_DRIFT_MARKDOWN_ROWS])])
        )
    if len(listed) > MAX_DRIFT_MARKDOWN_ROWS:
        parts.append(f"And {len(listed) - MAX_DRIFT_MARKDOWN_ROWS} more in the report.")
    for state in (DriftState.IMPROVED, DriftState.ABSENT):
        if ids := list(dict.fromkeys(found.case for found in record.results if found.state is state)):
            parts.append(
                f"{state.capitalize()}: {list_some([markdown_code(id) for id in ids], MAX_DRIFT_MARKDOWN_IDS)}."
            )
    if record.warnings:
        parts.append(
            "\n".join(f"- Warning: {escape_markdown(text)}" for text in record.warnings[:MAX_DRIFT_MARKDOWN_IDS])
        )
    return "\n\n".join(parts) + "\n"


def _row(found: OutputDrift) -> str:
    return _line(
        [str(found.state), markdown_code(found.case), escape_markdown(found.output), escape_markdown(found.message)]
    )


def _line(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" for cell in cells)


MAX_OUTPUTS = 20

MAX_DRIFT_TERMINAL_IDS = 5

DRIFT_INDENT = " " * 11


_COLOURS = {
    DriftState.DRIFT: "red",
    DriftState.UNMEASURED: "red",
    DriftState.ABSENT: "yellow",
    DriftState.IMPROVED: "green",
}

_LISTED = frozenset({DriftState.DRIFT, DriftState.UNMEASURED})


def render_drift_terminal(record: DriftRecord, *, colour: bool, reports: Sequence[Path] = ()) -> str:
    """Summarize in plain text, or with colours for a terminal; `reports` are the files to point to."""
    found = [one for one in record.results if one.state in _LISTED]
    listed = [line for one in found[:MAX_OUTPUTS] for line in _output(one)]
    if len(found) > MAX_OUTPUTS:
        listed.append(f"... and {len(found) - MAX_OUTPUTS} more in the report")
    paragraphs = [[_heading(record)], listed, _ending(record, reports)]
    text = strip_controls("\n\n".join("\n".join(lines) for lines in paragraphs if lines)) + "\n"
    return "\n".join(map(_coloured, text.splitlines())) + "\n" if colour else text


def _heading(record: DriftRecord) -> str:
    anchor = describe_anchor(record)
    against = f", anchor {anchor}" if anchor else ""
    return f"precreg {record.precreg}: environment {record.environment}, {describe_drift_scope(record)}{against}"


def _output(found: OutputDrift) -> list[str]:
    first = f"{DRIFT_LABELS[found.state]:10} {found.case}   {found.output}"
    lines = [*found.message.split("; "), *drift_table(describe_drift_evidence(found))]
    return [first, *(DRIFT_INDENT + line for line in lines)]


def _ending(record: DriftRecord, reports: Sequence[Path]) -> list[str]:
    lines = [f"outputs   {describe_drift_counts(record)}"]
    for state in (DriftState.IMPROVED, DriftState.ABSENT):
        if ids := list(dict.fromkeys(found.case for found in record.results if found.state is state)):
            lines.append(f"{DRIFT_LABELS[state]:9} {list_some(ids, MAX_DRIFT_TERMINAL_IDS)}")
    lines += [f"warning   {text}" for text in record.warnings]
    if reports:
        lines.append(f"reports   {'  '.join(path.as_posix() for path in reports)}")
    return [*lines, f"exit {record.exit_code}: {drift_exit_sentence(record)}"]


def _coloured(line: str) -> str:
    if line.startswith("exit "):
        return style(line, fg="green" if line.startswith("exit 0") else "red", bold=True)
    for state, fg in _COLOURS.items():
        if line.startswith(f"{DRIFT_LABELS[state]:10} "):
            return style(line[:10], fg=fg, bold=True) + line[10:]
    return line
