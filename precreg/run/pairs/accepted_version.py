"""Which older version of the code judges the cases whose bits changed, and what does it say?

In a merge request that is the merge base, before a push the commit that the push replaces, and anywhere else the commit
that first has the baseline's present entry. A case whose baseline the older version lacks was accepted later, so its
version is that of its entry, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic

from msgspec.structs import replace

from precreg.baseline import acceptance_commit, commit_has_entry
from precreg.errors import UserError
from precreg.run.pairs.escalation import Announce, Announcement, PairBudget
from precreg.run.pairs.other_version import checked_out_version
from precreg.run.pairs.pair import escalated_results, is_open
from precreg.run.pipeline import IN_PROCESS, Plan
from precreg.types import Baseline, Case, CaseResult, NoAcceptedVersion, PairedRun
from precreg.vcs import affected_cases, changed_files_since_commit
from precreg.verdict import Policy


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
        same_code = _with_same_code([by_id[result.id] for result in of_version], version, plan)
        yield from (result for result in of_version if result.id in same_code)
        others = [(by_id[result.id], result) for result in of_version if result.id not in same_code]
        if others:
            announce(Announcement(len(others), version, left))
            yield from _judge_by(version, others, plan, policy, left, announce)


def _has_changed(case: Case, result: CaseResult) -> bool:
    # A known-bad case is judged by its baseline: another version that is as bad would pass it.
    is_known_bad = result.baseline is not None and result.baseline.entry.known is not None
    return is_open(result) and case.expect_failure is None and not is_known_bad


def _with_same_code(cases: Sequence[Case], commit: str, plan: Plan) -> frozenset[str]:
    """Return the ids of cases that need not repeat and whose files equal the commit's.

    Such a case has other bits in every run, so its bits show no change of the code.
    """
    restless = [case for case in cases if not case.deterministic]
    if not restless:
        return frozenset()
    try:
        changed = affected_cases(restless, changed_files_since_commit(plan.project, commit), plan.project)
    except UserError:
        # The other version cannot be checked out then, either, and the reason is reported there.
        return frozenset()
    return frozenset(case.id for case in restless) - {case.id for case in changed}


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
    if plan.place.jobs == IN_PROCESS:
        return NoAcceptedVersion("no_workers")
    return find_accepted_commit(plan.project, result.baseline_id, result.baseline, base)


def find_accepted_commit(project: Path, id: str, baseline: Baseline, base: str | None) -> str | NoAcceptedVersion:
    """Return the commit of the accepted version of a baseline: `base` if it has the entry, or the entry's first one."""
    if base is not None and commit_has_entry(project, base, id, baseline):
        return base
    return acceptance_commit(project, id, baseline.file)


def _judge_by(
    commit: str,
    changed: Sequence[tuple[Case, CaseResult]],
    plan: Plan,
    policy: Policy,
    budget: PairBudget,
    announce: Announce,
) -> Iterator[CaseResult]:
    try:
        with checked_out_version(plan.project, commit, commit) as version:
            yield from escalated_results(changed, plan, policy, version, budget, announce)
    except UserError as problem:
        if problem.slug != "no-checkout":
            raise
        cause = NoAcceptedVersion("no_checkout", problem.message)
        yield from (_without_version(result, cause) for _, result in changed)


def _without_version(result: CaseResult, cause: NoAcceptedVersion) -> CaseResult:
    return replace(result, paired=PairedRun(0, False, cause=cause))
