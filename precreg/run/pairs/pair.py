"""Does the working tree compute worse than another version of the code, side by side?

Both versions compute a case here and now, on the same inputs. Only the code differs, so digests and statistics of the
other version judge the case's own seeds first. A case that passes them with other bits goes on with fresh seeds
(`escalation.py`). docs/pairs.md explains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from msgspec.structs import replace

from precreg.baseline import BaselineLookup, entry_from
from precreg.run.pairs.cache import pair_key
from precreg.run.pairs.escalation import Announce, Escalation, OpenCase, PairBudget, PairProgress, judges_pairs
from precreg.run.pairs.other_version import OtherVersion
from precreg.run.pipeline import AcceptedBaselines, Plan, judge_outcome, prepare_cases
from precreg.run.workers import CaseTask
from precreg.subject import TreePair
from precreg.types import (
    Baseline,
    Budget,
    Case,
    CaseResult,
    KnownBadCase,
    OtherVersionFailed,
    OtherVersionInputs,
    OtherVersionOutputs,
    Outcome,
    PairedRun,
    PairProblem,
    Reason,
)
from precreg.verdict import Policy, case_alpha, has_figures_alone

# In one batch: enough to keep workers busy, few enough that both versions of a case run within seconds.
CASES_PER_WORKER = 8


class OutcomePair(NamedTuple):
    """The outcomes of one case by the two versions."""

    other: Outcome
    own: Outcome


def always_goes_on(_other: Outcome) -> bool:
    """Return True: the present version runs whatever the other one gave."""
    return True


class SideBySide:
    """The worker processes of both versions.

    Each version has its own workers, so neither sees a module of the other. Only one version computes at a time, so a
    load of the machine slows both down.
    """

    def __init__(self, plan: Plan, project: Path, trees: TreePair) -> None:
        """Prepare the workers of each version; `project` is the project's folder in the checkout."""
        chain, place = plan.environment.chain, plan.place
        self.batch = CASES_PER_WORKER * max(1, place.jobs)
        self._projects = (project, plan.project) if place.builds_here else ()
        self._pools = place.open_pools(CaseTask(project, chain, trees), CaseTask(plan.project, chain), always_goes_on)

    def run(self, cases: Sequence[Case]) -> Iterator[OutcomePair]:
        """Run one batch by the other version, then by the working tree's own; yield both outcomes of each case.

        Raises UserError (no-workers).
        """
        for project in self._projects:
            prepare_cases(cases, project)
        for other, own in self._pools.run([(case, case) for case in cases]):
            assert own is not None  # a failure of the other version stops no case
            yield OutcomePair(other, own)

    def close(self) -> None:
        """Kill all workers, busy or not."""
        self._pools.close()


# Seconds of both versions and the reference for one case, and for all cases of a run. A case of 15 ms a seed affords
# 1280 seeds in 20 s; most changes that need fresh seeds need 20 or 40 (docs/detection.md).
CASE_SECONDS = 20.0
RUN_SECONDS = 300.0

# Seeds of a case at most. A case of 2 ms a seed affords all of them, and a scalar needs 2250 for a loss of 1.2 times
# (docs/pairs.md).
MAX_SEEDS = 10240


def pair_budget(seeds: int | None, case_seconds: float | None, run_seconds: float | None) -> PairBudget:
    """Return the budget of a request; None means the default."""
    return PairBudget(
        MAX_SEEDS if seeds is None else seeds,
        CASE_SECONDS if case_seconds is None else case_seconds,
        RUN_SECONDS if run_seconds is None else run_seconds,
    )


def paired_results(
    cases: Sequence[Case],
    plan: Plan,
    policy: Policy,
    baselines: BaselineLookup,
    version: OtherVersion,
    budget: PairBudget,
    announce: Announce,
) -> Iterator[CaseResult]:
    """Run both versions on all cases, judge one by the other, and yield results as they come.

    If the other version has no usable outcome of a case, the accepted baseline judges and the result states the
    reason. Raises UserError (no-workers, not-writable), and errors of reading baselines before anything runs.
    """
    accepted = AcceptedBaselines(plan.project, plan.environment, baselines).read(cases)
    side = SideBySide(plan, version.project, version.trees)
    open_: list[OpenCase] = []
    try:
        beside = _RunBeside(plan, policy, version, side, accepted)
        for start in range(0, len(cases), side.batch):
            for case, pair, result in beside.batch(cases[start : start + side.batch]):
                if goes_on(result):
                    open_.append(_open_case(case, result, pair, plan, version))
                else:
                    yield result
    finally:
        side.close()
    yield from _escalate(open_, plan, version, budget, policy, announce)


class _RunBeside(NamedTuple):
    """The settings that all cases of one paired run share."""

    plan: Plan
    policy: Policy
    version: OtherVersion
    side: SideBySide
    accepted: AcceptedBaselines

    def batch(self, cases: Sequence[Case]) -> Iterator[tuple[Case, OutcomePair, CaseResult]]:
        """Yield cases with their outcomes and results; a case over its time budget runs a second time first."""
        by_id, slow = {case.id: case for case in cases}, list[OutcomePair]()
        for pair in self.side.run(cases):
            if self.plan.journal is not None:
                self.plan.journal.append(pair.own)
            case = by_id[pair.own.case]
            result = self._judge(case, pair)
            if result.verdict.reason is Reason.OVER_BUDGET:
                slow.append(pair)
            else:
                yield case, pair, result
        # The machine may have been busy, and the shortest time of two runs is the less disturbed one.
        first = {pair.own.case: pair for pair in slow}
        for again in self.side.run([by_id[id] for id in first]) if slow else ():
            before, case = first[again.own.case], by_id[again.own.case]
            pair = OutcomePair(_shortest(before.other, again.other), _shortest(before.own, again.own))
            yield case, pair, self._judge(case, pair)

    def _judge(self, case: Case, pair: OutcomePair) -> CaseResult:
        result = self.accepted.judge(case, pair.own, self.policy)
        return judge_by_other(case, result, pair, self.plan, self.policy, self.version)


def _shortest(before: Outcome, now: Outcome) -> Outcome:
    """Return the earlier outcome with the shorter time of the two."""
    if now.execution.failure is not None:
        return before
    duration_s = min(before.execution.duration_s, now.execution.duration_s)
    return replace(before, execution=replace(before.execution, duration_s=duration_s))


def escalated_results(
    changed: Sequence[tuple[Case, CaseResult]],
    plan: Plan,
    policy: Policy,
    version: OtherVersion,
    budget: PairBudget,
    announce: Announce,
) -> Iterator[CaseResult]:
    """Run the accepted version on cases whose bits changed, judge them by it, and yield results as they come.

    `changed` has the results of the ordinary run, whose outcomes are those of the present version. Raises UserError
    (no-workers).
    """
    by_id = {case.id: (case, result) for case, result in changed}
    open_: list[OpenCase] = []
    place = plan.place
    if place.builds_here:
        prepare_cases([case for case, _ in changed], version.project)
    began, limit = monotonic(), budget.run_seconds
    task = CaseTask(version.project, plan.environment.chain, version.trees)
    for done, other in enumerate(place.run([case for case, _ in changed], task), 1):
        announce(PairProgress(done, len(changed), 0, monotonic() - began, limit))
        case, result = by_id[other.case]
        pair = OutcomePair(other, result.outcome)
        if unlike := _unlike_outputs(pair):
            # The stored baseline has the shapes and dtypes of the present version.
            cause = OtherVersionOutputs(unlike)
            yield replace(result, paired=PairedRun(case.seeds, False, cause=cause, commit=version.commit))
            continue
        # The two versions ran at different times, so their times are no evidence; the ordinary run judged them.
        by_other = judge_by_other(replace(case, budget=Budget()), result, pair, plan, policy, version)
        # One more run of a case that need not repeat is one more draw: the stored baseline passed it already.
        result = by_other if case.deterministic else replace(by_other, verdict=result.verdict)
        if goes_on(result):
            open_.append(_open_case(case, result, pair, plan, version))
        else:
            yield result
    left = budget._replace(run_seconds=max(0.0, limit - (monotonic() - began)))
    yield from _escalate(open_, plan, version, left, policy, announce)


def _is_known_bad(case: Case, stored: Baseline | None) -> bool:
    """Return whether a baseline that was accepted as known bad is the case's."""
    return stored is not None and stored.entry.known is not None and stored.entry.definition == case.baseline_definition


def judge_by_other(
    case: Case, result: CaseResult, pair: OutcomePair, plan: Plan, policy: Policy, version: OtherVersion
) -> CaseResult:
    """Judge the case's own seeds by the other version; by the stored baseline, as `result` does, if that cannot."""
    # A known-bad case is judged by its baseline: another version that is as bad would pass it.
    known = case.expect_failure is not None or _is_known_bad(case, result.stored)
    cause = KnownBadCase() if known else _problem(pair)
    if cause is not None:
        return replace(result, paired=PairedRun(case.seeds, False, cause=cause, commit=version.commit))
    other = _baseline_of(case, pair.other, plan, version)
    by_other = judge_outcome(case, other, pair.own, plan.environment, policy)
    paired = PairedRun(case.seeds, not is_open(by_other), judged=True, commit=version.commit)
    proposed = {"acceptable": result.acceptable, "wrong_state": result.wrong_state}
    return replace(by_other, accepted=result.stored, paired=paired, **proposed)


def _unlike_outputs(pair: OutcomePair) -> tuple[str, ...]:
    """Return the outputs that both versions have, in different shapes or dtypes."""
    others, own = ({(each.output, each.seed): each for each in outcome.comparisons} for outcome in pair)
    both = (key for key in own if key in others)
    unlike = [key for key in both if (own[key].shape, own[key].dtype) != (others[key].shape, others[key].dtype)]
    return tuple(dict.fromkeys(name for name, _ in unlike))


def goes_on(result: CaseResult) -> bool:
    """Return True for a case that passed on its own seeds with other bits than the other version's."""
    return result.paired is not None and result.paired.judged and is_open(result)


def is_open(result: CaseResult) -> bool:
    """Return True for a case that passed with other bits, and has an output that fresh inputs judge."""
    has_passed = result.verdict.reason in (Reason.WITHIN_TOLERANCE, Reason.IMPROVED)
    # Nothing computes the figures of a table on fresh inputs.
    return has_passed and judges_pairs(result) and not has_figures_alone(result.outcome.comparisons)


def _open_case(case: Case, result: CaseResult, pair: OutcomePair, plan: Plan, version: OtherVersion) -> OpenCase:
    environment = plan.environment.of_case(pair.own.execution)
    return OpenCase(case, result, pair_key(case, pair, (version.project, plan.project), environment))


def _escalate(
    cases: Sequence[OpenCase],
    plan: Plan,
    version: OtherVersion,
    budget: PairBudget,
    policy: Policy,
    announce: Announce,
) -> Iterator[CaseResult]:
    if not cases:
        return
    escalation = Escalation(plan, version, budget, case_alpha(policy.baselines), announce)
    try:
        yield from escalation.run(cases)
    finally:
        escalation.close()


def _baseline_of(case: Case, outcome: Outcome, plan: Plan, version: OtherVersion) -> Baseline:
    """Return the outcome of the other version in the place of a baseline."""
    environment = plan.environment.of_case(outcome.execution)
    entry = entry_from(outcome, environment.fingerprint, version.commit, environment.facts.get("cpu", ""))
    # Both versions ran HEAD's definition of the case, so the entry is not stale.
    entry = replace(entry, definition=case.baseline_definition)
    return Baseline(entry, environment.label, f"pair {version.revision}")


def _problem(pair: OutcomePair) -> PairProblem | None:
    """Return the reason why the other version cannot judge; None if it can."""
    failure = pair.other.execution.failure
    if failure is not None:
        return OtherVersionFailed(failure.reason, failure.message)
    if pair.own.execution.failure is not None:
        return None
    if pair.other.execution.inputs != pair.own.execution.inputs:
        return OtherVersionInputs()
    new = tuple(name for name in pair.own.execution.outputs if name not in pair.other.execution.outputs)
    return OtherVersionOutputs(new) if new else None
