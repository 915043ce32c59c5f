"""The summary on a terminal or in a log: worst first, then what to do next, then why the exit code is what it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from click import style

from precreg.baseline.proposal import is_proposed
from precreg.report import findings, side_by_side
from precreg.report import report_describe as describe
from precreg.report.evidence import binding
from precreg.report.findings import Standing
from precreg.report.told import Told, told
from precreg.types.numbers import duration
from precreg.types.records import CaseResult, RunFinding, RunRecord, is_handwritten
from precreg.types.types import Reason, Status

MOST_CASES = 20
"""Cases shown in full; the reports have the others."""


MOST_FINDINGS = 20
"""Findings on the run that are shown; so many that bind are shown before any other."""


MOST_IDS = 5

MOST_WARNINGS = 5

MOST_OF_PAIR = 8

MOST_OF_STUDY = 12

INDENT = " " * 9


_COLOURS = {
    Status.FAILED: "red",
    Status.ERROR: "red",
    Status.PROPOSED: "yellow",
    Status.SKIPPED: "blue",
    Status.PASSED: "green",
}

_COLOURS_BY_LABEL = {
    **{describe.LABELS[status]: colour for status, colour in _COLOURS.items()},
    **{findings.LABELS[one]: "red" if one is Standing.BINDING else "blue" for one in Standing},
}


def render(record: RunRecord, *, colour: bool, verbose: bool = False, reports: Sequence[Path] = ()) -> str:
    """Summarize a run in plain text, or with colours for a terminal.

    Passed cases are shown only if verbose; `reports` are the files to point to.
    """
    results = describe.worst_first(record.results)
    shown = results if verbose else [result for result in results if result.verdict.status is not Status.PASSED]
    listed = [line for result in shown[:MOST_CASES] for line in _case(result)]
    if len(shown) > MOST_CASES:
        listed.append(f"... and {len(shown) - MOST_CASES} more in the report")
    paragraphs = [[_heading(record)], listed, _found(record)]
    paragraphs += [*map(_study, told(record)), _ending(record, results, reports)]
    text = describe.plain("\n\n".join("\n".join(map(str.rstrip, lines)) for lines in paragraphs if lines)) + "\n"
    return _coloured(text, record) if colour else text


def _heading(record: RunRecord) -> str:
    environment = record.environment
    others = ", ".join(level for level in environment.chain if level != environment.label)
    chain = f" (then {others})" if others else ""
    dirty = " with uncommitted changes" if record.git and record.git.dirty else ""
    cases = "1 case" if len(record.results) == 1 else f"{len(record.results)} cases"
    commit = describe.commit(record.git)
    against = f", against {record.against[:8]}" if record.against else ""
    pair = f", paired with {record.pair[:8]}" if record.pair else ""
    where = f"environment {environment.label}{chain}, commit {commit}{dirty}"
    return f"precreg {record.precreg}: {cases}, {where}{against}{pair}"


def _found(record: RunRecord) -> list[str]:
    """Tell of the run as a whole what binds, what is allowed and why, and what is only told."""
    every = findings.ordered(record.findings)
    lines = [line for finding in every[:MOST_FINDINGS] for line in _finding(finding)]
    if len(every) > MOST_FINDINGS:
        lines.append(f"... and {findings.counts(every[MOST_FINDINGS:])} more in the report")
    return lines


def _finding(finding: RunFinding) -> list[str]:
    label, times = findings.LABELS[findings.standing(finding)], findings.times(finding)
    first = "   ".join(filter(None, (f"{label:8} {finding.about}", finding.kind, times)))
    return [first, *(INDENT + line for text in findings.explained(finding) for line in text.splitlines())]


def _case(result: CaseResult) -> list[str]:
    verdict = result.verdict
    first = f"{describe.LABELS[verdict.status]:8} {result.id}   {verdict.reason}"
    if verdict.status is Status.PASSED and verdict.reason is not Reason.IMPROVED:
        return [first]
    return [first, *(INDENT + line for line in explanation(result))]


def _study(study: Told) -> list[str]:
    table = describe.in_columns(*study.measured(), MOST_OF_STUDY)
    return [f"study    {study.suite}   {study.title}", *(INDENT + line for line in table)]


def explanation(result: CaseResult) -> list[str]:
    """Say why a case is what it is, the verdict's sentence first: figures, the end of what was printed, where from."""
    verdict = result.verdict
    texts = [verdict.message, *describe.notes(verdict), *(f"rule      {rule}" for rule in binding(verdict))]
    texts += [*describe.table(describe.rows(verdict)), *describe.tail(result)]
    if verdict.status is Status.FAILED:
        texts += describe.provenance(result)
    return [line for text in texts for line in text.splitlines()]


def brief(record: RunRecord, *, reports: Sequence[Path]) -> str:
    """Summarize a run whose failures are shown elsewhere: what waits for a person, and what to do next."""
    results = describe.worst_first(record.results)
    waiting = [result for result in results if result.verdict.status is Status.PROPOSED]
    listed = [line for result in waiting[:MOST_CASES] for line in _case(result)]
    if len(waiting) > MOST_CASES:
        listed.append(f"... and {len(waiting) - MOST_CASES} more in the report")
    paragraphs = [[_heading(record)], listed, _found(record), _ending(record, results, reports)[:-1]]
    return describe.plain("\n\n".join("\n".join(map(str.rstrip, lines)) for lines in paragraphs if lines))


def _ending(record: RunRecord, results: Sequence[CaseResult], reports: Sequence[Path]) -> list[str]:
    lines = [f"{describe.counts(record)} in {duration(record.duration_s)}"]
    if asked := describe.selection(record):
        lines.append(f"selected  {asked}")
    if better := describe.improved(record):
        lines.append(f"improved  {describe.some(better, MOST_IDS)}")
    paired = list(side_by_side.summary(record))
    lines += [f"pair      {text}" for text in paired[:MOST_OF_PAIR]]
    if len(paired) > MOST_OF_PAIR:
        lines.append(f"pair      ... and {len(paired) - MOST_OF_PAIR} more in the report")
    if record.findings:
        lines.append(f"findings  {findings.counts(record.findings)}")
    if record.orphans:
        orphans = describe.some(record.orphans, MOST_IDS)
        lines.append(f"warning   baselines without a case: {orphans}; precreg baseline prune removes them")
    lines += [f"warning   {text}" for text in record.warnings[:MOST_WARNINGS]]
    if reports:
        lines.append(f"reports   {'  '.join(path.as_posix() for path in reports)}")
    if (
        results
        and results[0].verdict.status in (Status.FAILED, Status.ERROR)
        and not is_handwritten(results[0].definition)
    ):
        lines.append(f"explain   precreg explain {results[0].id}")
    if not record.ci and any(map(is_proposed, results)):
        lines.append('accept    precreg baseline diff, then precreg baseline accept CASE --reason "why"')
    if any(finding.binding for finding in record.findings):
        lines.append("allow     what is meant is named in baselines/allow.yaml: its case, change and reason")
    return [*lines, f"exit {record.exit_code}: {describe.exit_sentence(record)}"]


def _coloured(text: str, record: RunRecord) -> str:
    *lines, last = text.splitlines()
    last = style(last, fg="green" if record.exit_code == 0 else "red", bold=True)
    return "\n".join([*map(_coloured_line, lines), last]) + "\n"


def _coloured_line(line: str) -> str:
    for label, colour in _COLOURS_BY_LABEL.items():
        if line.startswith(f"{label:8} "):
            return style(line[:8], fg=colour, bold=True) + line[8:]
    return line
