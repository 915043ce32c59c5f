"""Which older version of the code judges the cases whose bits changed, and what does it say?

In a merge request that is the merge base, before a push the commit that the push replaces, and anywhere else the commit
that first has the baseline's present entry. A case whose baseline the older version lacks was accepted later, so its
version is that of its entry, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import NamedTuple

from msgspec.structs import replace

from precreg.baseline import acceptance_commit, commit_has_entry
from precreg.errors import UserError
from precreg.run.escalation import PairBudget
from precreg.run.other_version import other_version
from precreg.run.pair import escalated_results, is_open
from precreg.run.pipeline import IN_PROCESS, Plan
from precreg.types import Case, CaseResult, NoAcceptedVersion, PairedRun
from precreg.verdict import Policy


class Announcement(NamedTuple):
    """The cases that run by an older version, its commit, and the budget, for the progress of a run."""

    cases: int
    commit: str
    budget: PairBudget


Announce = Callable[[Announcement], None]


def judge_changed_cases(
    cases: Sequence[Case],
    results: Sequence[CaseResult],
    plan: Plan,
    policy: Policy,
    *,
    base: str | None,
    budget: PairBudget,
    announce: Announce,
) -> Iterator[CaseResult]:
    """Judge each result with changed bits by the accepted version; yield all of them, and the others unchanged.

    `base` is the commit that a merge request or a push compares with; None if there is none. Raises UserError
    (no-workers).
    """
    by_id = {case.id: case for case in cases}
    changed = [result for result in results if _has_changed(by_id[result.id], result)]
    ids = {result.id for result in changed}
    yield from (result for result in results if result.id not in ids)
    by_version = _by_version(changed, plan, base)
    began = monotonic()
    for version, of_version in by_version.items():
        if isinstance(version, NoAcceptedVersion):
            yield from (_without_version(result, version) for result in of_version)
            continue
        left = budget._replace(run_seconds=max(0.0, budget.run_seconds - (monotonic() - began)))
        announce(Announcement(len(of_version), version, left))
        yield from _judge_by(version, [(by_id[r.id], r) for r in of_version], plan, policy, left)


def _has_changed(case: Case, result: CaseResult) -> bool:
    # A known-bad case is judged by its baseline: another version that is as bad would pass it.
    is_known_bad = result.baseline is not None and result.baseline.entry.known is not None
    return is_open(result) and case.expect_failure is None and not is_known_bad


def _by_version(
    changed: Sequence[CaseResult], plan: Plan, base: str | None
) -> Mapping[str | NoAcceptedVersion, list[CaseResult]]:
    found: dict[str | NoAcceptedVersion, list[CaseResult]] = {}
    for result in changed:
        found.setdefault(_version_of(result, plan, base), []).append(result)
    return found


def _version_of(result: CaseResult, plan: Plan, base: str | None) -> str | NoAcceptedVersion:
    """Return the commit of the accepted version of one case."""
    assert result.baseline is not None  # its bits differ from the baseline's
    if plan.jobs == IN_PROCESS:
        return NoAcceptedVersion("no_workers")
    id = result.baseline_id
    if base is not None and commit_has_entry(plan.project, base, id, result.baseline):
        return base
    return acceptance_commit(plan.project, id, result.baseline.file)


def _judge_by(
    commit: str,
    changed: Sequence[tuple[Case, CaseResult]],
    plan: Plan,
    policy: Policy,
    budget: PairBudget,
) -> Iterator[CaseResult]:
    try:
        with other_version(plan.project, commit, commit) as version:
            yield from escalated_results(changed, plan, policy, version, budget)
    except UserError as problem:
        if problem.slug != "no-checkout":
            raise
        cause = NoAcceptedVersion("no_checkout", problem.message)
        yield from (_without_version(result, cause) for _, result in changed)


def _without_version(result: CaseResult, cause: NoAcceptedVersion) -> CaseResult:
    return replace(result, paired=PairedRun(0, False, cause=cause))
