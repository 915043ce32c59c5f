"""How does the summary of a run read on a terminal and in a log?

Groups of cases with the same failure come first, then the next commands to run, then the sentence that explains the
exit code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, isfinite, prod
from pathlib import Path
from shlex import quote
from typing import Literal, NamedTuple

from click import style

from precreg.baseline import is_proposed, is_seen_again
from precreg.report.case_context import look_command
from precreg.report.causes import brief_diagnosis, causes_of, describe_run_diagnoses, diagnoses_of
from precreg.report.describe import (
    STATUS_LABELS,
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
    improved_cases,
    known_bad_cases,
    list_some,
    run_exit_sentence,
    sort_results,
    strip_controls,
)
from precreg.report.groups import ResultGroup, group_results, measure_loss
from precreg.report.layout import format_columns, wrap_lines
from precreg.report.pairs import describe_paired_run
from precreg.report.processes import count_process_changes, describe_process_changes, explain_process_changes
from precreg.report.sections import (
    STANDING_LABELS,
    Standing,
    describe_accelerators,
    describe_finding_counts,
    describe_orphan,
    describe_reuse,
    describe_warning,
    explain_run_finding,
    finding_standing,
    format_finding_factor,
    sort_run_findings,
)
from precreg.report.significant_digits import COLUMNS, describe_digits, digits_rows
from precreg.report.story import describe_loss_size
from precreg.report.studies import StudyTable, describe_studies
from precreg.report.workers import worker_rows
from precreg.types import (
    CaseResult,
    Comparison,
    Diagnosis,
    Reason,
    RunFinding,
    RunRecord,
    Status,
    format_distinct,
    format_duration,
    format_number,
    is_test_defined,
)

# A log stays readable with 20 groups, each with its worst case in full. The reports have the other cases.
MAX_RUN_GROUPS = 20
# The other cases of a group, by their names in the suite.
MAX_OTHERS = 5
# Without an extra all suites of its kind are skipped, and a line names some.
MAX_SKIPPED_SUITES = 8
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
# Enough to compare a loss or a score with the line that a user printed.
_SCALAR_DIGITS = 8
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

# quiet: a line for each group that is not passed, and the exit line. normal: each group with its worst case in full.
# verbose: each case on its own, those that passed, too.
Verbosity = Literal["quiet", "normal", "verbose"]


class _Page(NamedTuple):
    """Hold the width of the terminal, None in a log, and the diagnoses of the run."""

    width: int | None
    known: Mapping[str, Diagnosis]

    @property
    def inner(self) -> int | None:
        """The width beside the indentation."""
        return None if self.width is None else self.width - len(RUN_INDENT)


def render_run_terminal(
    record: RunRecord,
    *,
    colour: bool,
    verbosity: Verbosity = "normal",
    reports: Sequence[Path] = (),
    width: int | None = None,
    took_s: float | None = None,
) -> str:
    """Summarize a run as plain text, or with colours for a terminal.

    `reports` are the written files to point to. Lines fit `width`; None means that nothing wraps. `took_s` is the time
    of the whole command, with loading and reports; by default the time of the run.
    """
    page, results = _Page(width, diagnoses_of(record)), sort_results(record.results)
    seconds = record.duration_s if took_s is None else took_s
    if verbosity == "quiet":
        paragraphs = [[_first_line(group, sized=True) for group in _groups(results)]]
    else:
        listed = _every_case(results, page) if verbosity == "verbose" else _grouped_cases(results, page)
        paragraphs = [
            [_heading(record), *describe_accelerators(record)],
            listed,
            _terminal_findings(record),
            _terminal_digits(record, page),
            *(_terminal_study(study, page) for study in describe_studies(record)),
            _terminal_workers(record, page),
            _ending(record, results, reports, seconds),
        ]
    lines = wrap_lines(_joined(paragraphs), width)
    last = wrap_lines([strip_controls(f"exit {record.exit_code}: {run_exit_sentence(record)}")], width)
    shown = _coloured(lines, last, record) if colour else [*lines, *last]
    return "\n".join(shown) + "\n"


def _joined(paragraphs: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of paragraphs with empty lines between them, without characters that a terminal would obey."""
    # Controls go before colours are added, which are controls themselves.
    text = strip_controls("\n\n".join("\n".join(map(str.rstrip, lines)) for lines in paragraphs if lines))
    return text.split("\n") if text else []


def _every_case(results: Sequence[CaseResult], page: _Page) -> list[str]:
    return [line for result in results for line in _terminal_case(result, page)]


def _groups(results: Sequence[CaseResult]) -> list[ResultGroup]:
    """Return the groups of the cases that did not pass: the most urgent status first, then the largest loss."""
    found = group_results(result for result in results if result.verdict.status is not Status.PASSED)
    order = [*STATUS_LABELS]
    return sorted(found, key=lambda group: order.index(group.key.status))


def _grouped_cases(results: Sequence[CaseResult], page: _Page) -> list[str]:
    together = _unavailable_together(results)
    grouped = {result.id for group in together.values() for result in group}
    groups = _groups([result for result in results if result.id not in grouped])
    lines = [line for group in groups[:MAX_RUN_GROUPS] for line in _terminal_group(group, page)]
    # A line with the count, so that nobody takes a cut list for the whole.
    if rest := groups[MAX_RUN_GROUPS:]:
        number = f"{len(rest)} more group" if len(rest) == 1 else f"{len(rest)} more groups"
        lines.append(f"... and {number} of {count_cases(sum(len(group.results) for group in rest))} in the report")
    return [*lines, *(_unavailable_line(message, group) for message, group in together.items())]


def _first_line(group: ResultGroup, *, sized: bool = False) -> str:
    """Return the line of a group with its worst case, or with its suite if nothing is wrong with the figures.

    A case alone has its size only if `sized`: its message has the numbers.
    """
    label, reason = f"{STATUS_LABELS[group.key.status]:8}", group.key.reason
    number = len(group.results)
    if _is_count(group):
        return f"{label} {count_cases(number)} of {group.key.suite}   {reason}"
    # Errors have no size, so the first by its id represents all.
    place = "first" if group.key.status is Status.ERROR else "worst"
    place = f"the {place} of {count_cases(number)}" if number > 1 else ""
    size = describe_loss_size(group.loss) if sized or place else ""
    return "   ".join(filter(None, (f"{label} {group.worst.id}", reason, ", ".join(filter(None, (place, size))))))


def _is_count(group: ResultGroup) -> bool:
    """Return whether the cases of a group are counted, because none of them is worse than another."""
    return group.key.status in (Status.PROPOSED, Status.SKIPPED) and len(group.results) > 1


def _terminal_group(group: ResultGroup, page: _Page) -> list[str]:
    first = _first_line(group)
    if _is_count(group):
        messages = dict.fromkeys(line for result in group.results for line in result.verdict.message.splitlines())
        names = list_some([result.name for result in group.results], MAX_OTHERS)
        return [first, *(RUN_INDENT + line for line in (*[*messages][:MAX_OTHERS], names))]
    lines = [
        *explain_result(group.worst, page.known, page.inner),
        *(f"others    {text}" for text in _other_cases(group)),
    ]
    return [first, *(RUN_INDENT + line for line in lines)]


def _other_cases(group: ResultGroup) -> Iterator[str]:
    """Name the other cases of a group, and the range of their losses."""
    others = group.results[1:]
    if not others:
        return
    least = measure_loss(others[-1])
    # Without a number, the size is a sentence: the baseline is exact.
    sizes = f", from {size}" if isfinite(least.times) and (size := describe_loss_size(least)) else ""
    names = list_some([result.name for result in others], MAX_OTHERS)
    yield f"{len(others)} more of {group.key.suite}{sizes}: {names}"


def _unavailable_together(results: Sequence[CaseResult]) -> dict[str, list[CaseResult]]:
    """Group the cases that are skipped for the same missing requirement; a single case makes no group."""
    groups: dict[str, list[CaseResult]] = {}
    for result in results:
        if result.verdict.status is Status.SKIPPED and result.verdict.reason is Reason.UNAVAILABLE:
            groups.setdefault(result.verdict.message, []).append(result)
    return {message: group for message, group in groups.items() if len(group) > 1}


def _unavailable_line(message: str, group: Sequence[CaseResult]) -> str:
    suites = sorted({f"{result.tier}/{result.suite}" for result in group})
    label = STATUS_LABELS[Status.SKIPPED]
    return f"{label:8} {count_cases(len(group))} of {list_some(suites, MAX_SKIPPED_SUITES)}   {message}"


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


def _terminal_case(result: CaseResult, page: _Page) -> list[str]:
    verdict = result.verdict
    first = f"{STATUS_LABELS[verdict.status]:8} {result.id}   {verdict.reason}"
    # Passed cases appear with --verbose only, and there one line each. An improvement has figures to accept.
    if verdict.status is Status.PASSED and verdict.reason is not Reason.IMPROVED:
        return [first, *([RUN_INDENT + verdict.message] if verdict.excused else [])]
    return [first, *(RUN_INDENT + line for line in explain_result(result, page.known, page.inner))]


def _terminal_digits(record: RunRecord, page: _Page) -> list[str]:
    """Return the table of the significant digits of stochastic cases."""
    rows = digits_rows(record.results)
    if not rows:
        return []
    table = format_columns(COLUMNS, rows, MAX_STUDY_LINES, page.inner)
    return ["digits   under random noise", *(RUN_INDENT + line for line in table)]


def _terminal_study(study: StudyTable, page: _Page) -> list[str]:
    table = format_columns(*study.measured(), MAX_STUDY_LINES, page.inner)
    return [f"study    {study.suite}   {study.title}", *(RUN_INDENT + line for line in table)]


def explain_result(
    result: CaseResult, known: Mapping[str, Diagnosis] | None = None, width: int | None = None
) -> list[str]:
    """Return the lines that explain a case: message, cause, figures, the end of the output, and provenance.

    `known` are the diagnoses of the run. Tables fit `width`; None means that they have no limit.
    """
    verdict = result.verdict
    texts = [verdict.message, *_scalar_values(result)]
    texts += [*brief_diagnosis(result, known or {}), *finding_notes(verdict)]
    texts += [f"rule      {rule}" for rule in failing_rules(verdict)]
    texts += [*finding_table(finding_rows(verdict, result.outcome.described), width=width), *failure_tail(result)]
    texts += [*describe_digits(result), *explain_process_changes(result)]
    # Provenance explains a change against the baseline. Errors and proposals have no figures to compare.
    if verdict.status is Status.FAILED:
        texts += describe_provenance(result)
    return [line for text in texts for line in text.splitlines()]


def _scalar_values(result: CaseResult) -> Iterator[str]:
    """Yield the values of each failed output of one element, at the seed with the largest error."""
    if result.verdict.status is not Status.FAILED:
        return
    failed = dict.fromkeys(finding.output for finding in result.verdict.findings if finding.output)
    for output in failed:
        of_output = [each for each in result.outcome.comparisons if each.output == output and prod(each.shape) == 1]
        found = [values for each in of_output if (values := _values(each)) is not None]
        if found:
            yield f"values    {output}: {max(found, key=lambda values: values.error).text}"


class _Values(NamedTuple):
    """Hold the size of an error, for the order, and the two values with the error as text."""

    error: float
    text: str


def _values(comparison: Comparison) -> _Values | None:
    """Describe an output of one element; None if its values are not in the record, which has no equal ones."""
    positions = comparison.worst or comparison.non_finite
    if positions is None or not positions.index:
        return None
    actual, expected = positions.actual[0], positions.reference[0]
    seed = f"seed {comparison.seed}"
    # JSON has no NaN and no infinity, so records store them as text.
    if isinstance(actual, str) or isinstance(expected, str):
        return _Values(inf, f"actual {actual}, expected {expected} ({seed})")
    distance = abs(actual - expected)
    shown = format_distinct([float(actual), float(expected)], _SCALAR_DIGITS)
    kind, error = ("relative", distance / abs(expected)) if expected else ("absolute", distance)
    return _Values(error, f"actual {shown[0]}, expected {shown[1]}, {kind} error {format_number(error)} ({seed})")


def render_brief(record: RunRecord, *, reports: Sequence[Path]) -> str:
    """Summarize a run whose failures pytest shows itself: the proposals that wait, and the next commands."""
    results = sort_results(record.results)
    page = _Page(None, diagnoses_of(record))
    waiting = [result for result in results if result.verdict.status is Status.PROPOSED]
    # Without the exit line: pytest sets the exit code of its own session.
    causes = [f"{id}   {line}" for id, line in causes_of(results, page.known)]
    paragraphs = [
        [_heading(record)],
        _grouped_cases(waiting, page),
        causes,
        _terminal_findings(record),
        _ending(record, results, reports, record.duration_s),
    ]
    return "\n".join(_joined(paragraphs))


def _noted_cases(record: RunRecord) -> Iterator[str]:
    """Yield the improved cases, and those that passed although they are wrong."""
    if better := improved_cases(record):
        yield f"improved  {list_some(better, MAX_TERMINAL_IDS)}"
    if bad := known_bad_cases(record):
        yield f"known bad {count_cases(len(bad))}: {list_some(bad, MAX_TERMINAL_IDS)}"


def _terminal_workers(record: RunRecord, page: _Page) -> list[str]:
    """Return the table of the workers of a cluster. Warnings give the reasons of refusals."""
    rows = [(row.worker, row.state, str(row.cases), row.environment, row.differs) for row in worker_rows(record)]
    if not rows:
        return []
    table = format_columns(("worker", "state", "cases", "environment", "differs"), rows, MAX_STUDY_LINES, page.inner)
    return [f"workers  {len(rows)} of the cluster", *(RUN_INDENT + line for line in table)]


def _ending(record: RunRecord, results: Sequence[CaseResult], reports: Sequence[Path], seconds: float) -> list[str]:
    lines = [f"{describe_status_counts(record)} in {format_duration(seconds)}"]
    if asked := describe_run_selection(record):
        lines.append(f"selected  {asked}")
    lines += _noted_cases(record)
    paired = list(describe_paired_run(record))
    lines += [f"pair      {text}" for text in paired[:MAX_PAIRED_LINES]]
    if len(paired) > MAX_PAIRED_LINES:
        lines.append(f"pair      ... and {len(paired) - MAX_PAIRED_LINES} more in the report")
    if record.diagnosed is not None:
        lines.append(f"causes    {describe_run_diagnoses(record.diagnosed)}")
    if record.reused:
        lines.append(f"reused    {describe_reuse(record.reused)}")
    if record.findings:
        lines.append(f"findings  {describe_finding_counts(record.findings)}")
    if record.orphans:
        orphans = list_some([*map(describe_orphan, record.orphans)], MAX_TERMINAL_IDS)
        lines.append(f"warning   baselines without a case: {orphans}; precreg baseline prune removes them")
    lines += [f"warning   {describe_warning(fact)}" for fact in record.warnings[:MAX_RUN_WARNINGS]]
    lines += _changed_processes(record)
    if reports:
        lines.append(f"reports   {'  '.join(path.as_posix() for path in reports)}")
    lines += _next_commands(record, results)
    return [*lines, *_allowances_to_add(record), *_unseen(record)]


def _next_commands(record: RunRecord, results: Sequence[CaseResult]) -> Iterator[str]:
    """Yield the commands that look into the worst failure, and those for results that wait for a decision."""
    # One command only, for the worst case: the others have the same form. Tests define cases that no command knows.
    of_suites = [result for result in results if not is_test_defined(result.definition)]
    worst = of_suites[0] if of_suites else None
    if worst is not None and (command := look_command(worst)):
        yield f"look into {command}"
    elif worst is not None and worst.verdict.status in (Status.FAILED, Status.ERROR):
        yield f"look into precreg explain {quote(worst.id)}"
    # CI must never write a baseline, so its log does not suggest the command.
    if not record.ci:
        yield from _review_commands(record, results)


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
    # Not for failures: a hint to accept them would make the gate a habit.
    if any(is_proposed(result) and result.verdict.status is not Status.FAILED for result in results):
        yield 'accept    precreg baseline diff; precreg baseline accept CASE --reason "why"'
    # A count: with baselines of another machine, this may be every case.
    if seen := sum(is_seen_again(result, record.environment) for result in results):
        gave = "1 case gave" if seen == 1 else f"{seen} cases gave"
        yield f"seen      {gave} the bits accepted in another environment: precreg baseline accept --seen"


def _coloured(lines: Sequence[str], last: Sequence[str], record: RunRecord) -> list[str]:
    # The last line explains the exit code. Its colour shows the result to a reader who scrolls to the end.
    passed = "yellow" if count_unseen(record) else "green"
    colour = passed if record.exit_code == 0 else "red"
    return [*map(_coloured_line, lines), *(style(line, fg=colour, bold=True) for line in last)]


def _coloured_line(line: str) -> str:
    for label, colour in _COLOURS_BY_LABEL.items():
        if line.startswith(f"{label:8} "):
            return style(line[:8], fg=colour, bold=True) + line[8:]
    return line
