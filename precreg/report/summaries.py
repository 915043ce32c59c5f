"""How does the summary of a run read, on a terminal and in summary.md?

summary.md is for a comment on a merge request or the page of a job. On a terminal the worst cases come first, then the
next commands to run, then the sentence that explains the exit code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote

from click import style

from precreg.baseline import is_proposed, is_seen_again
from precreg.report.causes import brief_diagnosis, causes_of, describe_run_diagnoses, diagnoses_of
from precreg.report.describe import (
    STATUS_LABELS,
    FindingRow,
    count_cases,
    count_unseen,
    describe_chosen_commit,
    describe_commit,
    describe_provenance,
    describe_run_selection,
    describe_status_counts,
    describe_unseen,
    failing_rules,
    failure_tail,
    finding_notes,
    finding_rows,
    finding_table,
    format_columns,
    improved_cases,
    known_bad_cases,
    list_some,
    run_exit_sentence,
    sort_results,
    strip_controls,
)
from precreg.report.equal_results import (
    describe_group,
    equal_errors,
    names_line,
    represented,
    unavailable_line,
    unavailable_together,
)
from precreg.report.pairs import describe_paired_run
from precreg.report.processes import count_process_changes, describe_process_changes, explain_process_changes
from precreg.report.sections import (
    STANDING_LABELS,
    Standing,
    describe_accelerators,
    describe_finding_counts,
    describe_orphan,
    describe_warning,
    explain_run_finding,
    finding_standing,
    format_finding_factor,
    sort_run_findings,
)
from precreg.report.significant_digits import COLUMNS, describe_digits, digits_rows
from precreg.report.studies import StudyTable, describe_studies
from precreg.types import (
    CaseResult,
    Diagnosis,
    Reason,
    RunFinding,
    RunRecord,
    Status,
    Verdict,
    format_duration,
    is_test_defined,
)

# A comment on a merge request is read at a glance; report.html has every row.
MAX_MARKDOWN_ROWS = 50
MAX_MARKDOWN_IDS = 10
_FIGURES = ("output", "metric", "current", "baseline", "ratio", "allowed")
_HEADINGS = ("status", "case", "reason", *_FIGURES)


def render_run_markdown(record: RunRecord) -> str:
    """Summarize a run in GitHub's and GitLab's Markdown; passed cases are counted, not listed."""
    listed = [r for r in sort_results(record.results) if r.verdict.status is not Status.PASSED]
    errors = equal_errors(listed)
    rows = [_markdown_case(each, errors.get(each.id)) for each in represented(listed, errors)]
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
        parts.append(f"And {len(rows) - MAX_MARKDOWN_ROWS} more in the report.")
    parts += [*_markdown_causes(record), *_markdown_findings(record)]
    if better := improved_cases(record):
        parts.append(f"Improved: {_ids(better)}.")
    if bad := known_bad_cases(record):
        parts.append(f"Known bad, and passed by their baselines: {_ids(bad)}.")
    if record.orphans:
        parts.append(f"Baselines without a case: {_ids([*map(describe_orphan, record.orphans)])}.")
    parts += _markdown_processes(record)
    if record.warnings:
        texts = map(describe_warning, record.warnings[:MAX_MARKDOWN_IDS])
        parts.append("\n".join(f"- Warning: {escape_markdown(text)}" for text in texts))
    parts += [*_markdown_digits(record), *(_markdown_study(study) for study in describe_studies(record))]
    return "\n\n".join(parts) + "\n"


def escape_markdown(text: str) -> str:
    """Escape text against Markdown and HTML, and join it to one line."""
    # GitLab and GitHub render HTML inside Markdown, so names must not become tags. A line break would end a row of a
    # table.
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


def _markdown_case(result: CaseResult, group: Sequence[CaseResult] | None = None) -> str:
    rows = finding_rows(result.verdict, result.outcome.described)
    # Only the worst row: several rows for one case would make the table hard to scan.
    figures = [escape_markdown(text) for text in _figures(rows[0])] if rows else [""] * len(_FIGURES)
    about = (
        f"{markdown_code(result.id)} and {len(group) - 1} more with this error" if group else markdown_code(result.id)
    )
    return _line([result.verdict.status, about, _reason(result.verdict), *figures])


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


# A log stays readable with 20 cases in full. The reports have the others.
MAX_CASES = 20
# Without an extra all suites of its kind are skipped, and a line names some.
# Binding findings come first, so these lines never hide one behind an allowed finding.
MAX_TERMINAL_FINDINGS = 20
# Entries of baselines/allow.yaml, of three lines each, in the order of the findings.
MAX_ALLOWANCES = 5
# These are hints at the end of a log; the reports have all of them.
MAX_TERMINAL_IDS = 5
MAX_RUN_WARNINGS = 5
MAX_PAIRED_LINES = 8
MAX_STUDY_LINES = 12
# The width of the labels, so that details begin below the id.
RUN_INDENT = " " * 9
_COLOURS = {
    Status.FAILED: "red",
    Status.ERROR: "red",
    Status.PROPOSED: "yellow",
    Status.SKIPPED: "blue",
    Status.PASSED: "green",
}
# Colours are added to the finished text by its labels, so plain and coloured text never differ in words.
_COLOURS_BY_LABEL = {
    **{STATUS_LABELS[status]: colour for status, colour in _COLOURS.items()},
    **{STANDING_LABELS[one]: "red" if one is Standing.BINDING else "blue" for one in Standing},
}


def render_run_terminal(record: RunRecord, *, colour: bool, verbose: bool = False, reports: Sequence[Path] = ()) -> str:
    """Summarize a run as plain text, or with colours for a terminal.

    Passed cases appear only with `verbose`; `reports` are the written files to point to.
    """
    results = sort_results(record.results)
    together = {} if verbose else unavailable_together(results)
    errors = {} if verbose else equal_errors(results)
    grouped = {result.id for group in together.values() for result in group}
    shown = results if verbose else [result for result in results if result.verdict.status is not Status.PASSED]
    shown = represented([result for result in shown if result.id not in grouped], errors)
    known = diagnoses_of(record)
    listed = [line for each in shown[:MAX_CASES] for line in _terminal_case(each, known, errors.get(each.id))]
    # A line with the count, so that nobody takes a cut list for the whole.
    if len(shown) > MAX_CASES:
        listed.append(f"... and {len(shown) - MAX_CASES} more in the report")
    listed += [unavailable_line(message, group) for message, group in together.items()]
    paragraphs = [[_heading(record), *describe_accelerators(record)], listed, _terminal_findings(record)]
    paragraphs += [_terminal_digits(record), *map(_terminal_study, describe_studies(record))]
    paragraphs.append(_ending(record, results, reports))
    # Controls go before colours are added, which are controls themselves.
    text = strip_controls("\n\n".join("\n".join(map(str.rstrip, lines)) for lines in paragraphs if lines)) + "\n"
    return _coloured(text, record) if colour else text


def _heading(record: RunRecord) -> str:
    environment = record.environment
    others = ", ".join(level for level in environment.chain if level != environment.label)
    chain = f" (then {others})" if others else ""
    dirty = " with uncommitted changes" if record.git and record.git.dirty else ""
    cases = "1 case" if len(record.results) == 1 else f"{len(record.results)} cases"
    # The heading has all facts that select a baseline: a log of CI is often the only trace of a run.
    commit = describe_commit(record.git)
    judged_by = describe_chosen_commit(record.against, record.against_revision)
    beside = describe_chosen_commit(record.pair, record.pair_revision)
    against = f", against {judged_by}" if record.against else ""
    pair = f", paired with {beside}" if record.pair else ""
    where = f"environment {environment.label}{chain}, commit {commit}{dirty}"
    return f"precreg {record.precreg}: {cases}, {where}{against}{pair}"


def _terminal_findings(record: RunRecord) -> list[str]:
    """Return the lines of the findings on the run: binding, then allowed with the reason, then informational."""
    every = sort_run_findings(record.findings)
    lines = [line for finding in every[:MAX_TERMINAL_FINDINGS] for line in _terminal_finding(finding)]
    if len(every) > MAX_TERMINAL_FINDINGS:
        lines.append(f"... and {describe_finding_counts(every[MAX_TERMINAL_FINDINGS:])} more in the report")
    return lines


def _terminal_finding(finding: RunFinding) -> list[str]:
    label, times = STANDING_LABELS[finding_standing(finding)], format_finding_factor(finding)
    first = "   ".join(filter(None, (f"{label:8} {finding.about}", finding.kind, times)))
    return [first, *(RUN_INDENT + line for text in explain_run_finding(finding) for line in text.splitlines())]


def _terminal_case(
    result: CaseResult, known: Mapping[str, Diagnosis], group: Sequence[CaseResult] | None = None
) -> list[str]:
    """Return the lines of a case, or of the group of cases with its error."""
    verdict = result.verdict
    about = describe_group(group) if group else f"{result.id}   {verdict.reason}"
    first = f"{STATUS_LABELS[verdict.status]:8} {about}"
    # Passed cases appear with --verbose only, and there one line each. An improvement has figures to accept.
    if verdict.status is Status.PASSED and verdict.reason is not Reason.IMPROVED:
        return [first, *([RUN_INDENT + verdict.message] if verdict.excused else [])]
    names = [f"{RUN_INDENT}cases     {names_line(group)}"] if group else []
    return [first, *(RUN_INDENT + line for line in explain_result(result, known)), *names]


def _terminal_digits(record: RunRecord) -> list[str]:
    """Return the table of the significant digits of stochastic cases."""
    rows = digits_rows(record.results)
    if not rows:
        return []
    return [
        "digits   under random noise",
        *(RUN_INDENT + line for line in format_columns(COLUMNS, rows, MAX_STUDY_LINES)),
    ]


def _terminal_study(study: StudyTable) -> list[str]:
    table = format_columns(*study.measured(), MAX_STUDY_LINES)
    return [f"study    {study.suite}   {study.title}", *(RUN_INDENT + line for line in table)]


def explain_result(result: CaseResult, known: Mapping[str, Diagnosis] | None = None) -> list[str]:
    """Return the lines that explain a case: message, cause, figures, the end of the output, and provenance.

    `known` are the diagnoses of the run.
    """
    verdict = result.verdict
    texts = [verdict.message, *brief_diagnosis(result, known or {}), *finding_notes(verdict)]
    texts += [f"rule      {rule}" for rule in failing_rules(verdict)]
    texts += [*finding_table(finding_rows(verdict, result.outcome.described)), *failure_tail(result)]
    texts += [*describe_digits(result), *explain_process_changes(result)]
    # Provenance explains a change against the baseline. Errors and proposals have no figures to compare.
    if verdict.status is Status.FAILED:
        texts += describe_provenance(result)
    return [line for text in texts for line in text.splitlines()]


def render_brief(record: RunRecord, *, reports: Sequence[Path]) -> str:
    """Summarize a run whose failures pytest shows itself: the proposals that wait, and the next commands."""
    results = sort_results(record.results)
    waiting = [result for result in results if result.verdict.status is Status.PROPOSED]
    listed = [line for result in waiting[:MAX_CASES] for line in _terminal_case(result, {})]
    if len(waiting) > MAX_CASES:
        listed.append(f"... and {len(waiting) - MAX_CASES} more in the report")
    # Without the exit line: pytest sets the exit code of its own session.
    causes = [f"{id}   {line}" for id, line in causes_of(results, diagnoses_of(record))]
    paragraphs = [
        [_heading(record)],
        listed,
        causes,
        _terminal_findings(record),
        _ending(record, results, reports)[:-1],
    ]
    return strip_controls("\n\n".join("\n".join(map(str.rstrip, lines)) for lines in paragraphs if lines))


def _noted_cases(record: RunRecord) -> Iterator[str]:
    """Yield the improved cases, and those that passed although they are wrong."""
    if better := improved_cases(record):
        yield f"improved  {list_some(better, MAX_TERMINAL_IDS)}"
    if bad := known_bad_cases(record):
        yield f"known bad {count_cases(len(bad))}: {list_some(bad, MAX_TERMINAL_IDS)}"


def _ending(record: RunRecord, results: Sequence[CaseResult], reports: Sequence[Path]) -> list[str]:
    lines = [f"{describe_status_counts(record)} in {format_duration(record.duration_s)}"]
    if asked := describe_run_selection(record):
        lines.append(f"selected  {asked}")
    lines += _noted_cases(record)
    paired = list(describe_paired_run(record))
    lines += [f"pair      {text}" for text in paired[:MAX_PAIRED_LINES]]
    if len(paired) > MAX_PAIRED_LINES:
        lines.append(f"pair      ... and {len(paired) - MAX_PAIRED_LINES} more in the report")
    if record.diagnosed is not None:
        lines.append(f"causes    {describe_run_diagnoses(record.diagnosed)}")
    if record.findings:
        lines.append(f"findings  {describe_finding_counts(record.findings)}")
    if record.orphans:
        orphans = list_some([*map(describe_orphan, record.orphans)], MAX_TERMINAL_IDS)
        lines.append(f"warning   baselines without a case: {orphans}; precreg baseline prune removes them")
    lines += [f"warning   {describe_warning(fact)}" for fact in record.warnings[:MAX_RUN_WARNINGS]]
    lines += _changed_processes(record)
    if reports:
        lines.append(f"reports   {'  '.join(path.as_posix() for path in reports)}")
    if (
        results
        and results[0].verdict.status in (Status.FAILED, Status.ERROR)
        and not is_test_defined(results[0].definition)
    ):
        # One command only, for the worst case: the others have the same form. `precreg explain` needs a suite, which
        # test-defined cases lack.
        lines.append(f"explain   precreg explain {quote(results[0].id)}")
    # CI must never write a baseline, so its log does not suggest the command.
    lines += () if record.ci else _review_commands(record, results)
    return [
        *lines,
        *_allowances_to_add(record),
        *_unseen(record),
        f"exit {record.exit_code}: {run_exit_sentence(record)}",
    ]


def _allowances_to_add(record: RunRecord) -> Iterator[str]:
    """Yield the entries of baselines/allow.yaml that would permit the binding findings, ready to be pasted."""
    # Late, because reading the sides of a comparison is slow to import, and most runs have no finding.
    from precreg.baseline.integrity import NewAllowance, render_allowance

    binding = [finding for finding in sort_run_findings(record.findings) if finding.binding]
    entries = [*dict.fromkeys(NewAllowance(finding.about, finding.kind, "WHY") for finding in binding)]
    if entries:
        yield 'allow     precreg allow --reason "WHY" adds these entries to the list in baselines/allow.yaml:'
        yield from (f"          {line}" for entry in entries[:MAX_ALLOWANCES] for line in render_allowance(entry))
    if len(entries) > MAX_ALLOWANCES:
        yield f"          # and {len(entries) - MAX_ALLOWANCES} more"


def _changed_processes(record: RunRecord) -> Iterator[str]:
    """Yield the changes that cases left in their process, with the cases."""
    notes = describe_process_changes(record.results)
    if notes:
        yield f"process   {count_process_changes(record.results)}"
    for note in notes[:MAX_RUN_WARNINGS]:
        yield f"          {note.text}: {list_some(note.ids, MAX_TERMINAL_IDS)}"
    if len(notes) > MAX_RUN_WARNINGS:
        yield f"          and {len(notes) - MAX_RUN_WARNINGS} other changes; the report has all of them"


def _unseen(record: RunRecord) -> Iterator[str]:
    """Yield the cases in which the run could not see every loss, with what helps."""
    for note in describe_unseen(record):
        yield f"not seen  {note.text}"
        yield f"          {list_some(note.ids, MAX_TERMINAL_IDS)}"
        yield f"          {note.advice}"


def _review_commands(record: RunRecord, results: Sequence[CaseResult]) -> Iterator[str]:
    """Yield a line for new figures that wait for a person, and one for bits that another environment accepted."""
    if any(map(is_proposed, results)):
        yield 'accept    precreg baseline diff, then precreg baseline accept CASE --reason "why"'
    # A count: with baselines of another machine, this may be every case.
    if seen := sum(is_seen_again(result, record.environment) for result in results):
        gave = "1 case gave" if seen == 1 else f"{seen} cases gave"
        yield f"seen      {gave} the bits accepted in another environment: precreg baseline accept --seen"


def _coloured(text: str, record: RunRecord) -> str:
    # The last line explains the exit code. Its colour shows the result to a reader who scrolls to the end.
    *lines, last = text.splitlines()
    passed = "yellow" if count_unseen(record) else "green"
    last = style(last, fg=passed if record.exit_code == 0 else "red", bold=True)
    return "\n".join([*map(_coloured_line, lines), last]) + "\n"


def _coloured_line(line: str) -> str:
    for label, colour in _COLOURS_BY_LABEL.items():
        if line.startswith(f"{label:8} "):
            return style(line[:8], fg=colour, bold=True) + line[8:]
    return line
