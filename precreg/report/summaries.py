"""How does the summary of a run read, on a terminal and in summary.md?

summary.md is for a comment on a merge request or the page of a job. On a terminal the worst cases come first, then the
next commands to run, then the sentence that explains the exit code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from precreg.report.case_context import CaseContext, context_of, history_of, look_command, reproduce_command
from precreg.report.causes import causes_of, describe_run_diagnoses, diagnoses_of
from precreg.report.describe import (
    FindingRow,
    count_cases,
    describe_chosen_commit,
    describe_commit,
    describe_run_selection,
    describe_status_counts,
    describe_unseen,
    finding_rows,
    improved_cases,
    known_bad_cases,
    list_some,
    sort_results,
    strip_controls,
)
from precreg.report.groups import ResultGroup, group_results
from precreg.report.processes import count_process_changes, describe_process_changes
from precreg.report.sections import (
    describe_accelerators,
    describe_finding_counts,
    describe_orphan,
    describe_reuse,
    describe_warning,
    finding_standing,
    format_finding_factor,
    sort_run_findings,
)
from precreg.report.significant_digits import COLUMNS, digits_rows
from precreg.report.story import describe_compared, describe_group_cause, describe_loss_size, short_message
from precreg.report.studies import StudyTable, describe_studies
from precreg.report.workers import WorkerRow, worker_rows
from precreg.types import (
    Reason,
    RunFinding,
    RunRecord,
    Status,
    Verdict,
    format_duration,
)

# A comment on a merge request is read at a glance; report.html has every row.
MAX_MARKDOWN_ROWS = 50
MAX_MARKDOWN_IDS = 10
# Characters of all folded details. GitLab refuses a note of more than 1,000,000, and GitHub a summary above 1 MiB.
MAX_DETAIL_CHARACTERS = 60_000
_FIGURES = ("output", "metric", "current", "baseline", "ratio", "allowed")
_HEADINGS = ("status", "case", "reason", *_FIGURES)


def render_run_markdown(record: RunRecord) -> str:
    """Summarize a run in GitHub's and GitLab's Markdown; passed cases are counted, not listed."""
    groups = _sorted_groups(record)
    rows = [_markdown_row(group) for group in groups]
    git = f"commit {markdown_code(describe_commit(record.git))}" if record.git else "no commit"
    judged_by = markdown_code(describe_chosen_commit(record.against, record.against_revision))
    beside = markdown_code(describe_chosen_commit(record.pair, record.pair_revision))
    against = f", against {judged_by}" if record.against else ""
    pair = f", paired with {beside}" if record.pair else ""
    label, took = escape_markdown(record.environment.label), format_duration(record.duration_s)
    place = f"Environment {label}, {git}{against}{pair}, {took}."
    # A reader of a comment sees the heading first, so it has the counts.
    parts = [f"# precreg: {describe_status_counts(record)}", place]
    if computed := describe_accelerators(record):
        parts.append(f"{escape_markdown('; '.join(computed))}.")
    # A reviewer must not take the result of a selection for the result of the project.
    if asked := describe_run_selection(record):
        parts.append(f"Not the whole project, but {escape_markdown(asked)}.")
    parts += _markdown_unseen(record)
    if rows:
        parts.append("\n".join([_line(_HEADINGS), "|" + "---|" * len(_HEADINGS), *rows[:MAX_MARKDOWN_ROWS]]))
    if len(rows) > MAX_MARKDOWN_ROWS:
        rest = sum(len(group.results) for group in groups[MAX_MARKDOWN_ROWS:])
        parts.append(f"And {count_cases(rest)} more in the report.")
    parts += [*_markdown_details(groups, record), *_markdown_causes(record), *_markdown_findings(record)]
    if better := improved_cases(record):
        parts.append(f"Improved: {_ids(better)}.")
    if bad := known_bad_cases(record):
        parts.append(f"Known bad, and passed by their baselines: {_ids(bad)}.")
    if record.orphans:
        parts.append(f"Baselines without a case: {_ids([*map(describe_orphan, record.orphans)])}.")
    if record.reused:
        parts.append(f"{describe_reuse(record.reused)}.")
    parts += [*_markdown_processes(record), *_markdown_workers(record)]
    if record.warnings:
        texts = map(describe_warning, record.warnings[:MAX_MARKDOWN_IDS])
        parts.append("\n".join(f"- Warning: {escape_markdown(text)}" for text in texts))
    parts += [*_markdown_digits(record), *(_markdown_study(study) for study in describe_studies(record))]
    return "\n\n".join(parts) + "\n"


def _sorted_groups(record: RunRecord) -> list[ResultGroup]:
    """Group the cases that are not passed by reason, suite and cause, in the order of all reports."""
    listed = [result for result in sort_results(record.results) if result.verdict.status is not Status.PASSED]
    places = {result.id: place for place, result in enumerate(listed)}
    return sorted(group_results(listed), key=lambda group: places[group.worst.id])


def _markdown_details(groups: Sequence[ResultGroup], record: RunRecord) -> Iterator[str]:
    """Yield a folded part for each group of failures and errors, until they fill a comment."""
    failed = [group for group in groups if group.key.status in (Status.FAILED, Status.ERROR)]
    context, used, shown = context_of(record), 0, 0
    for group in failed:
        text = _markdown_group(group, context)
        used += len(text)
        if used > MAX_DETAIL_CHARACTERS:
            break
        shown += 1
        yield text
    if shown < len(failed):
        yield f"Details of {len(failed) - shown} more groups are in the report."


def _markdown_group(group: ResultGroup, context: CaseContext) -> str:
    """Describe a group: its worst case, how much, since when, why, and the commands that repeat and explain it."""
    worst, key = group.worst, group.key
    operator = f", {key.operator}" if key.operator else ""
    size = describe_loss_size(group.loss)
    title = f"{count_cases(len(group.results))} of {key.suite}{operator}: {key.reason}{f', {size}' if size else ''}"
    facts = [
        ("worst", f"{markdown_code(worst.id)}: {escape_markdown(short_message(worst))}"),
        ("since", escape_markdown(_since(group, context))),
        ("compared with", escape_markdown(describe_compared(worst, group.loss).removeprefix(", compared with "))),
        ("cause", escape_markdown(describe_group_cause(group))),
        ("reproduce", markdown_code(reproduce_command(worst, context))),
        ("look into", markdown_code(look) if (look := look_command(worst)) else ""),
        ("others", _ids([result.id for result in group.results[1:]])),
    ]
    lines = "\n".join(f"- {label}: {text}" for label, text in facts if text)
    # Markdown inside of HTML needs the empty lines.
    return f"<details><summary>{escape_html(title)}</summary>\n\n{lines}\n\n</details>"


def _since(group: ResultGroup, context: CaseContext) -> str:
    """Write the first bad run of the history; empty without one."""
    known = history_of(group.worst, context)
    return str((known or {}).get("sentence") or "")


def escape_html(text: str) -> str:
    """Escape text for an element of HTML inside of Markdown, in one line."""
    return escape(" ".join(strip_controls(text).split()))


def escape_markdown(text: str) -> str:
    """Escape text against Markdown and HTML, and join it to one line."""
    # GitLab and GitHub render HTML inside Markdown, so names must not become tags. A line break would end a row of a
    # table. Most cells of the table of 100,000 accepted cases are empty or one word.
    if not text or text.isalnum():
        return text
    return re.sub(r"([\\`*\[\]<>|~&])", r"\\\1", " ".join(strip_controls(text).split()))


def markdown_code(text: str) -> str:
    """Quote text as code, in a table too: the fence is longer than any run of backticks in it."""
    # A pipe ends a cell even inside code, and a line break ends the table.
    text = " ".join(strip_controls(text).split()).replace("|", r"\|")
    # A backslash escapes nothing inside code, so CommonMark needs a longer fence around backticks.
    longest = max(map(len, re.findall("`+", text)), default=0)
    if longest == 0:
        return f"`{text}`"
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}"


def _markdown_unseen(record: RunRecord) -> list[str]:
    """Return the list of the cases in which the run could not see every loss, with what helps."""
    notes = [
        f"- **{escape_markdown(note.text)}**: {_ids(note.ids)}. {escape_markdown(note.advice)}"
        for note in describe_unseen(record)
    ]
    return ["\n".join(notes)] if notes else []


def _markdown_processes(record: RunRecord) -> list[str]:
    """Return the list of the changes that cases left in their process."""
    notes = describe_process_changes(record.results)
    if not notes:
        return []
    lines = [f"- {escape_markdown(note.text)}: {_ids(note.ids)}" for note in notes[:MAX_MARKDOWN_IDS]]
    more = [f"- and {len(notes) - MAX_MARKDOWN_IDS} other changes"] if len(notes) > MAX_MARKDOWN_IDS else []
    return [f"{count_process_changes(record.results)}:\n\n" + "\n".join([*lines, *more])]


def _markdown_causes(record: RunRecord) -> list[str]:
    """Return the list of the failed cases with their causes."""
    if record.diagnosed is None:
        return []
    pairs = causes_of(sort_results(record.results), diagnoses_of(record))
    found = [f"- {markdown_code(id)}: {escape_markdown(line)}" for id, line in pairs]
    more = (
        [f"- and {len(found) - MAX_MARKDOWN_ROWS} more lines in the report"] if len(found) > MAX_MARKDOWN_ROWS else []
    )
    counted = f"{describe_run_diagnoses(record.diagnosed)}."
    return ["## Causes", *(["\n".join([*found[:MAX_MARKDOWN_ROWS], *more])] if found else []), escape_markdown(counted)]


def _markdown_findings(record: RunRecord) -> list[str]:
    """Return the table of the findings on the run."""
    every = sort_run_findings(record.findings)
    if not every:
        return []
    headings = ("finding", "about", "kind", "times", "what")
    rows = [_line(headings), "|" + "---|" * len(headings), *map(_markdown_finding, every[:MAX_MARKDOWN_ROWS])]
    more = (
        [f"And {describe_finding_counts(every[MAX_MARKDOWN_ROWS:])} more in the report."]
        if len(every) > MAX_MARKDOWN_ROWS
        else []
    )
    return [f"## On the run: {describe_finding_counts(every)}", "\n".join(rows), *more]


def _markdown_finding(finding: RunFinding) -> str:
    times = format_finding_factor(finding).removesuffix(" times")
    at = f" ({finding.source})" if finding.source else ""
    what = f"{finding.message}{at}" + (f"; allowed: {finding.allowed}" if finding.allowed is not None else "")
    return _line([finding_standing(finding), markdown_code(finding.about), finding.kind, times, escape_markdown(what)])


def _markdown_workers(record: RunRecord) -> list[str]:
    """Return the table of the workers of a cluster; none for a run on this machine."""
    rows = worker_rows(record)
    if not rows:
        return []
    headings = ("worker", "state", "cases", "environment", "fingerprint", "facts that differ, or the reason")
    lines = [_line(_worker_cells(row)) for row in rows[:MAX_MARKDOWN_ROWS]]
    more = [f"And {len(rows) - MAX_MARKDOWN_ROWS} more in the report."] if len(rows) > MAX_MARKDOWN_ROWS else []
    return ["## Workers", "\n".join([_line(headings), "|" + "---|" * len(headings), *lines]), *more]


def _worker_cells(row: WorkerRow) -> list[str]:
    why = describe_warning(row.refusal) if row.refusal else row.differs
    cells = (row.worker, row.state, str(row.cases), row.environment, row.fingerprint, why)
    return [*map(escape_markdown, cells)]


def _markdown_digits(record: RunRecord) -> list[str]:
    """Return the table of the significant digits of stochastic cases."""
    rows = digits_rows(record.results)
    if not rows:
        return []
    lines = [_line([markdown_code(case), *map(escape_markdown, cells)]) for case, *cells in rows[:MAX_MARKDOWN_ROWS]]
    more = [f"And {len(rows) - MAX_MARKDOWN_ROWS} more in the report."] if len(rows) > MAX_MARKDOWN_ROWS else []
    return ["## Significant digits", "\n".join([_line(COLUMNS), "|" + "---|" * len(COLUMNS), *lines]), *more]


def _markdown_study(study: StudyTable) -> str:
    rows = [_line([escape_markdown(cell) for cell in row]) for row in study.rows[:MAX_MARKDOWN_ROWS]]
    table = "\n".join([_line([*map(escape_markdown, study.columns)]), "|" + "---|" * len(study.columns), *rows])
    heading = f"## {escape_markdown(study.title[0].upper() + study.title[1:])}: {markdown_code(study.suite)}"
    more = [f"And {len(study.rows) - MAX_MARKDOWN_ROWS} more."] if len(study.rows) > MAX_MARKDOWN_ROWS else []
    return "\n\n".join([heading, table, *more, f"{escape_markdown(study.remark[0].upper() + study.remark[1:])}."])


def _markdown_row(group: ResultGroup) -> str:
    """Write the row of a group: its worst case, with the worst of its figures alone."""
    worst = group.worst
    rows = finding_rows(worst.verdict, worst.outcome.described)
    figures = [escape_markdown(text) for text in _figures(rows[0])] if rows else [""] * len(_FIGURES)
    others = len(group.results) - 1
    about = f"{markdown_code(worst.id)} and {others} more" if others else markdown_code(worst.id)
    return _line([worst.verdict.status, about, _reason(worst.verdict), *figures])


def _figures(row: FindingRow) -> list[str]:
    """Return the cells of the headings; the interval and the noise of a ratio share its cell."""
    known = ", ".join(filter(None, (row.interval, row.noise and f"noise {row.noise}")))
    ratio = f"{row.ratio} ({known})" if known else row.ratio
    return [row.output, row.metric, row.current, row.baseline, ratio, row.allowed]


def _reason(verdict: Verdict) -> str:
    """Return the reason with the rule that failed, and with the place if no metric has figures for it."""
    rule = verdict.findings[0].rule if verdict.findings else ""
    reason = f"{verdict.reason} ({rule})" if rule else verdict.reason
    # Runs that differ have a position but no metric, so the columns of figures would be empty.
    return f"{reason}: {escape_markdown(verdict.message)}" if verdict.reason is Reason.NONDETERMINISTIC else reason


def _line(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def _ids(ids: Sequence[str]) -> str:
    return list_some([markdown_code(id) for id in ids], MAX_MARKDOWN_IDS)
