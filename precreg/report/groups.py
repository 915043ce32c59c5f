"""How large is the loss of a case, and which cases fail for the same reason?

Facts only: describe.py and the reports write their words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import inf, isfinite
from typing import Literal, NamedTuple

from precreg.measure import metric_named
from precreg.types import (
    CaseResult,
    Cause,
    Comparison,
    Finding,
    NotRegressed,
    Reason,
    RewriteTarget,
    Scalar,
    Status,
    Tolerance,
)

# The thing that a loss is a multiple of; empty where nothing was measured, such as after a crash.
LossUnit = Literal["", "tolerance", "baseline", "baseline time"]

# These cases only lack a baseline to judge them, or a requirement, or are better than declared.
_WITHOUT_LOSS = frozenset({Reason.NEW, Reason.STALE, Reason.INPUTS_CHANGED, Reason.UNAVAILABLE, Reason.UNEXPECTED_PASS})
# Names of parameters that choose the operator of a case, in the order of preference.
_OPERATOR_PARAMETERS = ("operator", "op", "function")
# 10^(x / 20) overflows beyond 6165 dB; an exact result has 9999 dB.
_MAX_DECIBELS = 6000.0


class LossSize(NamedTuple):
    """The size of a loss as a multiple of the tolerance or the baseline: 2.5 times the tolerance.

    Infinity has no multiple: nothing was computed, the tolerance is 0, or the baseline is exact. Passed
    cases have the ratio of their figures, which is below 1 for an improvement; 0 means no difference.
    """

    times: float
    unit: LossUnit
    # The finding with the number; None without a number.
    finding: Finding | None = None


class CauseKey(NamedTuple):
    """The identity of a cause that `precreg diagnose` found: the rewrite, the altered part and its line."""

    rewrite: str
    target: RewriteTarget
    name: str
    file: str
    line: int


class GroupKey(NamedTuple):
    """The identity of a group: status and reason, suite (tier/suite), operator, and cause.

    `operator` is empty unless a parameter of the case names one. `problem` is the message of cases that could not be
    judged, with each number replaced by 0, so that the same exception for two shapes is one group.
    """

    status: Status
    reason: Reason
    suite: str
    operator: str = ""
    cause: CauseKey | None = None
    problem: str = ""


class ResultGroup(NamedTuple):
    """Cases with one key, worst first, with the size of the worst loss.

    Cases that no diagnosis reached join the group of their suite if it has a single cause; `diagnosed` counts the
    others. `cause` is the cause of the worst diagnosed case.
    """

    key: GroupKey
    results: tuple[CaseResult, ...]
    loss: LossSize
    cause: Cause | None = None
    diagnosed: int = 0

    @property
    def worst(self) -> CaseResult:
        """The case with the largest loss."""
        return self.results[0]


def group_failures(results: Iterable[CaseResult]) -> tuple[ResultGroup, ...]:
    """Group the failed cases by reason, suite, operator and cause; the largest loss first."""
    return group_results(result for result in results if result.verdict.status is Status.FAILED)


def group_results(results: Iterable[CaseResult]) -> tuple[ResultGroup, ...]:
    """Group cases of any status by status, reason, suite, operator and cause; the largest loss first.

    Groups with losses of the same size come in the order of their number of cases, then by suite.
    """
    found: dict[GroupKey, list[CaseResult]] = {}
    for result in results:
        found.setdefault(_key(result), []).append(result)
    groups = [_group(key, members) for key, members in _with_undiagnosed(found).items()]
    return tuple(sorted(groups, key=lambda each: (-each.loss.times, -len(each.results), each.worst.id)))


def loss_order(result: CaseResult) -> tuple[float, str]:
    """Return the sort key that puts the largest loss first, and equal losses in the order of their ids."""
    return -loss_size(result), result.id


def loss_size(result: CaseResult) -> float:
    """Return the size of a loss on one scale for all reasons: the multiple of the tolerance or of the baseline.

    Infinity without a number: a crash, a missing output, NaN in place of a number, an error of an exact baseline.
    """
    return measure_loss(result).times


def measure_loss(result: CaseResult) -> LossSize:
    """Return the largest multiple of a finding with its unit and its finding."""
    verdict = result.verdict
    if verdict.reason in _WITHOUT_LOSS or verdict.status is Status.SKIPPED:
        return LossSize(0.0, "")
    if verdict.status is Status.PASSED:
        return _passed(result)
    if verdict.reason is Reason.NONDETERMINISTIC:
        # Any difference breaks the declaration, and no tolerance measures it, unless it is NaN.
        broken = any(difference.non_finite for difference in result.outcome.execution.differences)
        return LossSize(inf if broken else 1.0, "")
    sizes = [_finding_size(finding, result) for finding in verdict.findings]
    return max(sizes, key=lambda each: each.times, default=LossSize(inf, ""))


def _passed(result: CaseResult) -> LossSize:
    """Return the ratio to the baseline of a case whose bits changed; 0 for one with the baseline's bits."""
    for finding in result.verdict.findings:
        if isinstance(finding.fact, NotRegressed) and finding.fact.largest is not None:
            return LossSize(finding.fact.largest.ratio or 0.0, "baseline", finding)
        if finding.reason is Reason.IMPROVED and finding.metric:
            times = _times_baseline(finding, result)
            return LossSize(times if isfinite(times) else 0.0, "baseline", finding)
    return LossSize(0.0, "")


def _finding_size(finding: Finding, result: CaseResult) -> LossSize:
    if not finding.metric:
        # A known-bad baseline has a number of mismatches in NaN, so more of them have a ratio without a metric.
        return LossSize(inf, "") if finding.ratio is None else LossSize(abs(finding.ratio), "baseline", finding)
    if finding.reason is Reason.OVER_BUDGET:
        return LossSize(finding.ratio or inf, "baseline time", finding)
    if finding.reason is Reason.OUT_OF_TOLERANCE:
        return LossSize(_times_tolerance(finding, result), "tolerance", finding)
    times = _times_baseline(finding, result)
    if times == inf and finding.metric == "match_ratio":
        # All elements matched the golden before, so the size is the distance of the elements that no longer do.
        return LossSize(_worst_excess(finding, result), "tolerance", finding)
    return LossSize(times, "baseline", finding)


def _times_tolerance(finding: Finding, result: CaseResult) -> float:
    if finding.ratio is not None:
        return abs(finding.ratio)
    if finding.current is None or finding.limit is None:
        return inf
    if finding.metric == "match_ratio":
        return _worst_excess(finding, result)
    if not _is_higher_better(finding, result):
        return inf
    return _error_ratio(finding.current, finding.limit, finding, result)


def _times_baseline(finding: Finding, result: CaseResult) -> float:
    current, baseline = finding.current, finding.baseline
    if current is not None and baseline is not None and _is_higher_better(finding, result):
        return _error_ratio(current, baseline, finding, result)
    return inf if finding.ratio is None else abs(finding.ratio)


def _is_higher_better(finding: Finding, result: CaseResult) -> bool:
    return metric_named(finding.metric, result.outcome.described).better == "higher"


def _error_ratio(current: float, other: float, finding: Finding, result: CaseResult) -> float:
    """Return the ratio of the errors behind two shares, or two values in decibels."""
    metric = metric_named(finding.metric, result.outcome.described)
    if metric.scale == "dB":
        difference = other - current
        return 10 ** (difference / 20) if abs(difference) < _MAX_DECIBELS else inf
    if metric.unit == "1":
        # The error of a share is its rest to 1.
        return (1 - current) / (1 - other) if other < 1 else inf
    return other / current if current > 0 else inf


def _worst_excess(finding: Finding, result: CaseResult) -> float:
    """Return the largest |actual - reference| over (atol + rtol |reference|), of the recorded worst positions."""
    tolerance = result.tolerances.get(finding.output)
    if tolerance is None:
        return inf
    compared = (each for each in result.outcome.comparisons if each.output == finding.output)
    excesses = [each for comparison in compared for each in _excesses(comparison, tolerance)]
    largest = max(excesses, default=inf)
    # The recorded positions are the worst by distance. They may miss a small element far beyond its tolerance.
    return largest if largest > 1 else inf


def _excesses(comparison: Comparison, tolerance: Tolerance) -> Iterator[float]:
    if comparison.worst is None:
        return
    for actual, reference in zip(comparison.worst.actual, comparison.worst.reference, strict=True):
        yield _excess(actual, reference, tolerance)


def _excess(actual: Scalar, reference: Scalar, tolerance: Tolerance) -> float:
    # JSON has no NaN and no infinity, so records store them as text.
    if isinstance(actual, str) or isinstance(reference, str):
        return inf
    allowed = tolerance.atol.limit + tolerance.rtol.limit * abs(reference)
    distance = abs(actual - reference)
    if not isfinite(distance) or allowed <= 0:
        return inf if distance else 0.0
    return distance / allowed


def _key(result: CaseResult) -> GroupKey:
    verdict = result.verdict
    return GroupKey(
        verdict.status,
        verdict.reason,
        f"{result.tier}/{result.suite}",
        next((str(result.parameters[name]) for name in _OPERATOR_PARAMETERS if name in result.parameters), ""),
        None if (cause := _main_cause(result)) is None else cause_key(cause),
        re.sub(r"\d+", "0", verdict.message) if verdict.status is Status.ERROR else "",
    )


def _main_cause(result: CaseResult) -> Cause | None:
    return None if result.diagnosis is None else next(iter(result.diagnosis.causes), None)


def cause_key(cause: Cause) -> CauseKey:
    """Return the identity of a cause; its line is the one in the present version, if that is known."""
    site = cause.present or cause.place.site
    return CauseKey(cause.rewrite, cause.place.target, cause.place.name, site.file, site.line)


def _with_undiagnosed(found: Mapping[GroupKey, list[CaseResult]]) -> dict[GroupKey, list[CaseResult]]:
    """Move cases that no diagnosis reached to the only group with a cause, if there is only one."""
    known: dict[GroupKey, list[GroupKey]] = {}
    for key in found:
        if key.cause is not None:
            known.setdefault(key._replace(cause=None), []).append(key)
    joined: dict[GroupKey, list[CaseResult]] = {}
    for key, members in found.items():
        homes = known.get(key, []) if key.cause is None else []
        for result in members:
            home = homes[0] if len(homes) == 1 and result.diagnosis is None else key
            joined.setdefault(home, []).append(result)
    return joined


def _group(key: GroupKey, members: Iterable[CaseResult]) -> ResultGroup:
    results = tuple(sorted(members, key=loss_order))
    causes = [cause for result in results if (cause := _main_cause(result)) is not None]
    return ResultGroup(key, results, measure_loss(results[0]), next(iter(causes), None), len(causes))
