"""Which words answer a reviewer: what got worse, by how much, since when, and why?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import isinf
from typing import NamedTuple

from precreg.report.causes import cause_line, cause_phrase
from precreg.report.chinese import chinese_environment_change
from precreg.report.describe import count_cases, run_exit_sentence
from precreg.report.findings import describe_environment_difference
from precreg.report.groups import LossSize, LossUnit, ResultGroup, cause_key
from precreg.report.sections import describe_failing_findings
from precreg.types import (
    SHARE_DIGITS,
    CaseResult,
    Cause,
    Reason,
    RunRecord,
    Status,
    format_distinct,
)

# A row of a table has so many characters of a message; the panel of the case has all of them.
MAX_SHORT_MESSAGE = 200
_SIZE_DIGITS = 3
_UNITS: dict[LossUnit, str] = {
    "": "",
    "tolerance": "the tolerance",
    "baseline": "the baseline",
    "baseline time": "the baseline's time",
}
_VERBS = {Reason.REGRESSED: "regressed", Reason.OUT_OF_TOLERANCE: "out of tolerance"}


class Story(NamedTuple):
    """One sentence in three parts, so that a page can make a link of the case in the middle; it may be empty."""

    before: str
    case: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        """The whole sentence."""
        return f"{self.before}{self.case}{self.after}"


class EnvironmentNote(NamedTuple):
    """A difference between the environments of a run and of baselines, and the ids of their cases."""

    text: str
    ids: list[str]
    chinese: str


def describe_loss_size(loss: LossSize) -> str:
    """Write a size such as "2.5 x the tolerance"; empty without a number."""
    finding = loss.finding
    if isinf(loss.times):
        if finding is None or loss.unit == "baseline time":
            return ""
        exact = finding.baseline == 0 if loss.unit == "baseline" else finding.limit == 0
        return f"{_UNITS[loss.unit]} is {'exact' if loss.unit == 'baseline' else '0'}" if exact else ""
    if not loss.unit or not loss.times:
        return ""
    return f"{format_distinct([loss.times, 1.0], _SIZE_DIGITS)[0]} x {_UNITS[loss.unit]}"


def short_message(result: CaseResult) -> str:
    """Return the first line of a verdict's message, cut to `MAX_SHORT_MESSAGE` characters."""
    line = next(iter(result.verdict.message.splitlines()), "")
    return line if len(line) <= MAX_SHORT_MESSAGE else f"{line[: MAX_SHORT_MESSAGE - 3]}..."


def describe_group_cause(group: ResultGroup) -> str:
    """Write the cause of a group with its evidence in the worst diagnosed case; empty without a cause."""
    first = next((r.diagnosis for r in group.results if r.diagnosis is not None and r.diagnosis.causes), None)
    if first is None:
        return ""
    cases = len(group.results)
    several = f" (found in {group.diagnosed} of {cases} cases)" if cases > 1 else ""
    return f"{cause_line(first)}{several}"


def describe_run_story(record: RunRecord, failures: Sequence[ResultGroup]) -> Story:
    """Write what got worse, by how much, since which commit and why; `failures` are the groups of failed cases.

    Without a failed case the sentence explains the exit code.
    """
    if not failures:
        sentence = run_exit_sentence(record)
        return Story(f"{sentence[0].upper()}{sentence[1:]}")
    worst, loss = failures[0].worst, failures[0].loss
    number = sum(len(group.results) for group in failures)
    where = ": in " if number == 1 else "; in the worst, "
    cause = f"; cause: {_short_cause(failures[0].cause)}" if failures[0].cause else ""
    found = describe_failing_findings(record.findings)
    rest = f"{_describe_loss(worst, loss)}{describe_compared(worst, loss)}{cause}{f'; {found}' if found else ''}"
    return Story(f"{_count_failed(failures, len(record.results))}{where}", worst.id, f", {rest}")


def _count_failed(failures: Sequence[ResultGroup], total: int) -> str:
    number = sum(len(group.results) for group in failures)
    cases = f"{number:,} of {total:,} cases" if total > 1 else count_cases(number)
    reasons = Counter[Reason]()
    for group in failures:
        reasons[group.key.reason] += len(group.results)
    if len(reasons) == 1:
        (reason,) = reasons
        return f"{cases} {_VERBS.get(reason, f'failed ({reason})')}"
    return f"{cases} failed ({', '.join(f'{count:,} {reason}' for reason, count in reasons.most_common())})"


def _describe_loss(result: CaseResult, loss: LossSize) -> str:
    """Write the size of a loss with its two numbers, or the message of the verdict without a size."""
    finding, size = loss.finding, describe_loss_size(loss)
    if finding is None or not size or not finding.metric or isinf(loss.times):
        return short_message(result)
    digits = SHARE_DIGITS if "ratio" in finding.metric else 4
    now, then, limit = format_distinct([finding.current, finding.baseline, finding.limit], digits)
    if loss.unit == "tolerance":
        of = "the worst element" if finding.metric == "match_ratio" else finding.metric
        figures = f" ({now}, limit {limit})" if now and limit else ""
    else:
        of, figures = finding.metric, f" ({then} -> {now})" if now and then else ""
    return f"{of} is {size}{figures}"


def describe_compared(result: CaseResult, loss: LossSize) -> str:
    """Write the commit of the result that is better: the other version's of a pair, or that of the baseline."""
    if loss.unit not in ("baseline", "baseline time") or result.baseline is None:
        return ""
    entry = result.baseline.entry
    if not entry.commit:
        return f", compared with the baseline of {entry.date}" if entry.date else ""
    accepted = f" (accepted {entry.date})" if result.baseline is result.stored and entry.date else ""
    return f", compared with commit {entry.commit[:8]}{accepted}"


def _short_cause(cause: Cause) -> str:
    key = cause_key(cause)
    where = f"{key.file}:{key.line}" if key.file else cause.place.site.module
    if key.target in ("input", "param", "output"):
        return f"{cause_phrase(cause)} in {key.target} {key.name}"
    return f"{cause_phrase(cause)} at {where}" if where else f"{cause_phrase(cause)} ({key.name})"


def describe_environments(results: Iterable[CaseResult]) -> list[EnvironmentNote]:
    """Return each difference from the environment of a baseline with its cases; most cases first."""
    found: dict[str, list[str]] = {}
    chinese: dict[str, str] = {}
    for result in results:
        baseline = result.stored
        if baseline is None or (baseline.difference is None and not baseline.change):
            continue
        text = baseline.change or (baseline.difference and describe_environment_difference(baseline.difference)) or ""
        label = f"{baseline.environment}: {text}"
        found.setdefault(label, []).append(result.id)
        chinese.setdefault(label, f"{baseline.environment}：{chinese_environment_change(baseline)}")
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return [EnvironmentNote(text, sorted(ids), chinese[text]) for text, ids in ordered]


def group_unjudged(groups: Iterable[ResultGroup]) -> list[ResultGroup]:
    """Return the groups that could not be judged: errors first, then proposed and skipped cases, the largest first."""
    order = [Status.ERROR, Status.PROPOSED, Status.SKIPPED]
    found = [group for group in groups if group.key.status in order]
    return sorted(found, key=lambda group: (order.index(group.key.status), -len(group.results), group.worst.id))
