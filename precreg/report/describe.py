"""What binds a verdict: the rule, and as text the interval of its ratio and what noise explains.

Where a reader of a repository finds what a report speaks of: files below its root, and lines.

What every report says of a run and of a case, said once: labels, order, tables, provenance, the last sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import PurePosixPath
from typing import NamedTuple

from precreg.measure import metric_named
from precreg.report.sections import describe_failing_findings, describe_judge, describe_selection
from precreg.types import (
    SHARE_DIGITS,
    CaseResult,
    Finding,
    GitState,
    Location,
    Metric,
    MetricDescription,
    Reason,
    RunRecord,
    Status,
    Verdict,
    format_distinct,
    format_number,
    is_test_defined,
)

RATIO_DIGITS = 3
"""Significant digits of ratios, and more where two that are held against each other would look alike."""


HARD_RULE = "hard"
"""The rule that allows what the baseline has, and nothing else."""


_OF_RATIOS = frozenset({"statistic", "guard", "budget"})


def limits_ratio(finding: Finding) -> bool:
    """Tell whether a finding's limit is one on the ratio to the baseline, and not on the metric itself."""
    return finding.rule in _OF_RATIOS


def failing_rules(verdict: Verdict) -> list[str]:
    """Name the rule that decided a verdict where no row of figures does; nothing where a record does not know."""
    return [first.rule for first in verdict.findings[:1] if first.rule and not first.metric]


def format_interval(finding: Finding) -> str:
    """Write the confidence bounds of the ratio, of which either may be unknown; nothing where both are."""
    lower, _ = format_distinct([finding.lower, finding.limit], RATIO_DIGITS)
    upper, _ = format_distinct([finding.upper, finding.limit], RATIO_DIGITS)
    if lower and upper:
        return f"{lower} to {upper}"
    return (lower and f"at least {lower}") or (upper and f"at most {upper}")


def format_noise(finding: Finding) -> str:
    """Write the ratio that noise explains; one that is not 1, nor the finding's own, never looks like it."""
    return format_distinct([finding.floor, finding.ratio, 1.0], RATIO_DIGITS)[0]


def repository_path(record: RunRecord, file: str) -> str:
    """Return the path of a project's file from the root of its repository."""
    return str(PurePosixPath(record.folder, file))


def location_to_show(result: CaseResult) -> Location:
    """Return the line to look at first: that of a broken bound if the project wrote it, otherwise that of the suite."""
    first = next(iter(result.verdict.findings), None)
    if first is None or first.reason is not Reason.OUT_OF_TOLERANCE:
        return result.source
    return next((place for place in _setters(result, first) if place.line), result.source)


def _setters(result: CaseResult, finding: Finding) -> list[Location]:
    """Return who set a bound: only files of the project have lines. A match is as near as its rtol and atol say."""
    places = [finding.source] if finding.source else []
    tolerance = result.tolerances.get(finding.output)
    if finding.metric == "match_ratio" and tolerance is not None:
        places += [tolerance.rtol.source, tolerance.atol.source]
    return places


STATUS_LABELS: dict[Status, str] = {
    Status.FAILED: "FAILED",
    Status.ERROR: "ERROR",
    Status.PROPOSED: "PROPOSED",
    Status.SKIPPED: "SKIPPED",
    Status.PASSED: "passed",
}
"""Worst first; what needs a person stands in capitals."""


_RANK = {status: rank for rank, status in enumerate(STATUS_LABELS)}

_FACTORS = frozenset({Reason.REGRESSED, Reason.OVER_BUDGET})

_UNJUDGED = frozenset({Reason.NEW, Reason.STALE, Reason.INPUTS_CHANGED})


MAX_TAIL_LINES = 20

MAX_TAIL_CHARACTERS = 1500
"""What text reports show of the end of a traceback or of what was printed; the HTML report has all that was kept."""


_UNPRINTABLE = re.compile(r"[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")


def strip_controls(text: str) -> str:
    """Leave out what no terminal, log or XML 1.0 document should be sent: controls, surrogates, text direction."""
    return _UNPRINTABLE.sub("", text)


def sort_results(results: Iterable[CaseResult]) -> list[CaseResult]:
    """Sort by status, then by the largest ratio to what was allowed or accepted, then by id.

    A failure without a ratio (a NaN, a missing output, an error where none was) comes before all others, a case that
    fails for want of a baseline after them.
    """
    return sorted(results, key=lambda result: (*verdict_rank(result.verdict), result.id))


def verdict_rank(verdict: Verdict) -> tuple[int, float]:
    """Return what sorts verdicts worst first: by status, then by the largest ratio."""
    return _RANK[verdict.status], -_badness(verdict)


def _badness(verdict: Verdict) -> float:
    if verdict.reason in _UNJUDGED:
        return 0.0
    return max((inf if finding.ratio is None else finding.ratio for finding in verdict.findings), default=inf)


def describe_status_counts(record: RunRecord) -> str:
    """Say how many cases have which status, worst first."""
    tally = Counter(result.verdict.status for result in record.results)
    parts = (_counted(status, tally[status]) for status in STATUS_LABELS if tally[status])
    return ", ".join(parts) or "no cases"


def _counted(status: Status, number: int) -> str:
    return f"{number} errors" if status is Status.ERROR and number > 1 else f"{number} {status}"


def describe_commit(git: GitState | None) -> str:
    """Name the commit that was run by its first eight digits."""
    return "none" if git is None else git.commit[:8]


def describe_run_selection(record: RunRecord) -> str:
    """Say what was selected, with the shard; nothing of a run of the whole project."""
    shard = record.selection.get("shard")
    return "; ".join(filter(None, (describe_selection(record.selection), "" if shard is None else f"shard {shard}")))


class FindingRow(NamedTuple):
    """One finding on one metric, as text; empty where there is nothing to say.

    `interval` are the confidence bounds of the ratio, `noise` is the ratio that noise explains, `rule` is what binds.
    """

    output: str
    seed: str
    metric: str
    current: str
    baseline: str
    ratio: str
    interval: str
    noise: str
    allowed: str
    rule: str


def finding_rows(verdict: Verdict, described: Sequence[MetricDescription]) -> list[FindingRow]:
    """Describe the findings that carry numbers, worst first; `described` are the analyzers' metrics."""
    return [_row(finding, metric_named(finding.metric, described)) for finding in verdict.findings if finding.metric]


def _row(finding: Finding, metric: Metric) -> FindingRow:
    seed = "" if finding.seed is None else str(finding.seed)
    higher = metric.better == "higher"
    factors = finding.reason in _FACTORS and finding.rule != HARD_RULE and not higher
    if limits_ratio(finding) or factors:
        current, baseline = format_distinct([finding.current, finding.baseline])
        ratio, allowed, _ = format_distinct([finding.ratio, finding.limit, finding.floor], digits=3)
    else:
        digits = SHARE_DIGITS if higher else 4
        most = finding.baseline if finding.rule == HARD_RULE else finding.limit
        current, baseline, limit = format_distinct([finding.current, finding.baseline, most], digits)
        ratio = "" if finding.ratio is None else format_number(finding.ratio, max(digits, 3))
        sign = ">=" if higher else "<="
        allowed = limit and f"{sign} {limit}"
    measured = (current or "undefined", baseline, ratio, format_interval(finding), format_noise(finding), allowed)
    return FindingRow(finding.output, seed, finding.metric, *measured, finding.rule)


def finding_notes(verdict: Verdict) -> list[str]:
    """List the findings without a metric that the verdict's own sentence leaves out, with their output and seed."""
    others = (finding for finding in verdict.findings if not finding.metric and finding.message not in verdict.message)
    return list(dict.fromkeys(map(_note, others)))


def _note(finding: Finding) -> str:
    seed = "" if finding.seed is None else f"seed {finding.seed}"
    place = ", ".join(filter(None, (finding.output, seed)))
    return f"{place}: {finding.message}" if place else finding.message


def finding_table(rows: Sequence[FindingRow], most: int = 12) -> list[str]:
    """Set rows in columns under their names; columns with nothing in them are left out, and rows beyond the most."""
    if not rows:
        return []
    names = [name for name in FindingRow._fields if any(getattr(row, name) for row in rows)]
    return format_columns(names, [[getattr(row, name) for name in names] for row in rows], most)


def format_columns(names: Sequence[str], rows: Sequence[Sequence[str]], most: int) -> list[str]:
    """Set rows of cells in columns under their names; rows beyond the most are counted."""
    cells = [names, *rows[:most]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    return lines if len(rows) <= most else [*lines, f"and {len(rows) - most} more"]


def describe_provenance(result: CaseResult) -> list[str]:
    """Say where the baseline and the case come from."""
    suite = f"{'test ' if is_test_defined(result.definition) else 'suite'}     {result.source}"
    if result.baseline is None:
        return [suite]
    if result.baseline is not result.stored:
        return [f"baseline  {describe_judge(result)}", suite]
    entry = result.baseline.entry
    commit = f" at {entry.commit[:8]}" if entry.commit else ""
    accepted = f"baseline  {result.baseline.file}, accepted {entry.date}{commit}: {entry.reason}"
    return [accepted, *([f"judged by {describe_judge(result)}"] if result.paired else []), suite]


def failure_tail(result: CaseResult) -> list[str]:
    """Return the last lines of a failure's traceback or output."""
    failure = result.outcome.execution.failure
    return [] if failure is None else failure.detail[-MAX_TAIL_CHARACTERS:].splitlines()[-MAX_TAIL_LINES:]


def run_exit_sentence(record: RunRecord) -> str:
    """Say in one sentence why the exit code is what it is: the cases, and what was found about the run."""
    failed, unjudged = _failed(record), _unjudged(record)
    found = describe_failing_findings(record.findings)
    of_cases = failed or unjudged or ("" if found else _harmless(record))
    parts = (of_cases, found) if failed else (found, of_cases)
    return "; ".join(filter(None, parts))


def _failed(record: RunRecord) -> str:
    failed = _with_status(record, Status.FAILED)
    if failed and {result.verdict.reason for result in failed} == {Reason.REGRESSED}:
        return f"{count_cases(len(failed))} {'is' if len(failed) == 1 else 'are'} worse than {_judge_of_all(record)}"
    return f"{count_cases(len(failed))} failed: {_reasons(failed)}" if failed else ""


def _unjudged(record: RunRecord) -> str:
    unjudged = _with_status(record, Status.ERROR, Status.PROPOSED)
    return f"{count_cases(len(unjudged))} could not be judged: {_reasons(unjudged)}" if unjudged else ""


def _harmless(record: RunRecord) -> str:
    """Say what exit code 0 rests on: it is no praise where nothing was judged."""
    skipped = len(_with_status(record, Status.SKIPPED))
    if skipped == len(record.results):
        return f"nothing was judged: {count_cases(skipped)} skipped" if skipped else "there was no case to judge"
    also = f"; {count_cases(skipped)} skipped" if skipped else ""
    return f"nothing is worse than {_judge_of_all(record)}{also}"


def _judge_of_all(record: RunRecord) -> str:
    return f"what {record.pair[:8]} gives here" if record.pair else "what was accepted"


def _with_status(record: RunRecord, *statuses: Status) -> list[CaseResult]:
    return [result for result in record.results if result.verdict.status in statuses]


def count_cases(number: int) -> str:
    """Count cases."""
    return f"{number} case" if number == 1 else f"{number} cases"


def _reasons(results: Sequence[CaseResult]) -> str:
    tally = Counter(result.verdict.reason for result in results)
    return ", ".join(f"{number} {reason}" for reason, number in tally.most_common())


def list_some(texts: Sequence[str], most: int) -> str:
    """List texts in a sentence; those beyond the most are counted."""
    rest = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + rest


def improved_cases(record: RunRecord) -> list[str]:
    """Return the ids of the cases that are better than what was accepted."""
    return sorted(result.id for result in record.results if result.verdict.reason is Reason.IMPROVED)
