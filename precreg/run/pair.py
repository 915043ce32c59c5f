"""Two versions of the code on the same cases: batch by batch, first the other version, then the working tree's own.

Each version has worker processes of its own, so that neither sees a module of the other; and only one of the two
computes at a time, so that what slows the machine down slows both down.

A paired run: every case is computed by two versions of the code, and what the other version gave judges it.

Both run here and now, on the same inputs, so nothing but the code differs: digests decide where they are the same, and
a machine that is slow today is slow for both. docs/pairs.md tells what it is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from precreg.baseline import BaselineLookup, entry_from, explain_baseline, read_environment_facts
from precreg.run.pipeline import Plan, judge_outcome
from precreg.run.workers import WorkerPool
from precreg.subject import TreePair
from precreg.types import Baseline, Case, CaseResult, Outcome, PairedRun
from precreg.verdict import Policy, judge_case
from precreg.verdict.statistics import interim_analyses, is_conclusive, split_alpha, without_bounds

CASES_PER_WORKER = 8
"""In one batch: enough to keep workers busy, few enough that both versions of a case run within seconds."""


class OutcomePair(NamedTuple):
    """What the two versions gave for one case."""

    other: Outcome
    own: Outcome


class SideBySide:
    """The workers of both versions, as long as it is open."""

    def __init__(self, plan: Plan, project: Path, trees: TreePair) -> None:
        """Plan for at most `plan.jobs` workers of either version; `project` is the project's folder in the checkout."""
        chain = plan.environment.chain
        self.batch = CASES_PER_WORKER * max(1, plan.jobs)
        self._own, self._other = (
            WorkerPool(plan.project, chain, plan.jobs),
            WorkerPool(project, chain, plan.jobs, trees),
        )

    def run(self, cases: Sequence[Case]) -> Iterator[OutcomePair]:
        """Yield what both versions give for each case of one batch, the other version's first computed for all.

        Raises UserError (no-workers).
        """
        others = {outcome.case: outcome for outcome in self._other.run(cases)}
        for own in self._own.run(cases):
            yield OutcomePair(others[own.case], own)

    def seconds(self, case: Case) -> float:
        """Return how long both versions took for a case when they last ran it: drawing, computing and measuring."""
        return self._own.seconds.get(case.id, 0.0) + self._other.seconds.get(case.id, 0.0)

    def close(self) -> None:
        """Kill all workers, busy or not."""
        self._own.close()
        self._other.close()


class OtherVersion(NamedTuple):
    """The version that judges: the revision asked for, its commit, and the project's folder in its checkout."""

    revision: str
    commit: str
    project: Path
    trees: TreePair


class PairBudget(NamedTuple):
    """How many seeds both versions draw at most until a verdict is clear, and for how long after the first look."""

    seeds: int
    seconds: float


def paired_results(
    cases: Sequence[Case],
    plan: Plan,
    policy: Policy,
    baselines: BaselineLookup,
    version: OtherVersion,
    effort: PairBudget,
) -> Iterator[CaseResult]:
    """Run both versions on all cases, and judge one by the other; yield results batch by batch.

    A case of which the other version gives nothing to judge by is judged by what was accepted, and says why. Raises
    UserError (no-workers, not-writable) and, before anything runs, what reading baselines does.
    """
    chain, known = plan.environment.chain, read_environment_facts(plan.project)
    found = {case.id: baselines.lookup(case.baseline_id, chain) for case in cases}
    accepted = {id: explain_baseline(baseline, known, plan.environment) for id, baseline in found.items()}
    side = SideBySide(plan, version.project, version.trees)
    try:
        run = _Run(plan, policy, version, effort, side, accepted)
        for start in range(0, len(cases), side.batch):
            yield from run.batch(cases[start : start + side.batch])
    finally:
        side.close()


class _Seen(NamedTuple):
    """A case after a look: its result, what both versions gave, the seconds both took, and the looks still planned."""

    case: Case
    result: CaseResult
    pair: OutcomePair
    seconds: float
    looks: tuple[int, ...]
    spent: float = 0.0

    def goes_on(self, seconds: float) -> bool:
        """Tell whether to look again: it is not clear, and twice the seeds can be afforded."""
        paired = self.result.paired
        is_open = paired is not None and not paired.clear and not paired.problem
        return is_open and bool(self.looks) and self.spent + 2 * self.seconds <= seconds


class _Run(NamedTuple):
    """What all cases of one paired run have in common."""

    plan: Plan
    policy: Policy
    version: OtherVersion
    effort: PairBudget
    side: SideBySide
    accepted: Mapping[str, Baseline | None]

    def batch(self, cases: Sequence[Case]) -> Iterator[CaseResult]:
        """Look at every case once, and again, with twice the seeds each time, at those that are not clear."""
        by_id = {case.id: case for case in cases}
        seen = [self._first(by_id[pair.own.case], pair) for pair in self._kept(cases)]
        while seen:
            open_ = {each.case.id: each for each in seen if each.goes_on(self.effort.seconds)}
            yield from (each.result for each in seen if each.case.id not in open_)
            again = [_with_seeds(each.case, each.looks[0]) for each in open_.values()]
            seen = [self._again(open_[pair.own.case], pair) for pair in self.side.run(again)]

    def _kept(self, cases: Sequence[Case]) -> Iterator[OutcomePair]:
        for pair in self.side.run(cases):
            if self.plan.journal is not None:
                self.plan.journal.append(pair.own)
            yield pair

    def _first(self, case: Case, pair: OutcomePair) -> _Seen:
        """Judge the seeds of the case itself: by the other version, or by what was accepted where that gave nothing.

        What is declared to be known-bad is so by what was accepted: another version that is as bad would pass it.
        """
        stored, environment = self.accepted[case.id], self.plan.environment
        result = judge_outcome(case, stored, pair.own, environment, self.policy)
        problem = "declared to be known-bad" if case.expect_failure is not None else _problem(pair)
        if problem:
            return _Seen(case, replace(result, paired=PairedRun(case.seeds, False, problem)), pair, 0.0, ())
        looks = interim_analyses(case.seeds, self.effort.seeds)
        other = self._baseline(case, pair)
        policy = split_alpha(self.policy, len(looks))
        by_other = judge_outcome(case, other, pair.own, environment, policy)
        clear = is_conclusive(by_other.verdict, pair.own, other.entry, by_other.tolerances)
        paired = PairedRun(case.seeds, clear)
        result = replace(by_other, acceptable=result.acceptable, accepted=stored, paired=paired)
        return _Seen(case, result, pair, self.side.seconds(case), looks[1:])

    def _again(self, seen: _Seen, pair: OutcomePair) -> _Seen:
        """Judge more seeds: bounds are those of the case's own, and the shortest time is that of all looks."""
        if _problem(pair):
            return seen._replace(looks=())
        case, looks = seen.case, len(interim_analyses(seen.case.seeds, self.effort.seeds))
        pair = OutcomePair(_shortest(seen.pair.other, pair.other), _shortest(seen.pair.own, pair.own))
        tolerances = {name: without_bounds(tolerance) for name, tolerance in seen.result.tolerances.items()}
        other, policy = self._baseline(case, pair), split_alpha(self.policy, looks)
        verdict = judge_case(case, pair.own, tolerances, other, self.plan.environment, policy)
        paired = PairedRun(seen.looks[0], is_conclusive(verdict, pair.own, other.entry, tolerances))
        result = replace(seen.result, verdict=verdict, paired=paired)
        seconds = self.side.seconds(case)
        return _Seen(case, result, pair, seconds, seen.looks[1:], seen.spent + seconds)

    def _baseline(self, case: Case, pair: OutcomePair) -> Baseline:
        environment = self.plan.environment
        entry = entry_from(pair.other, environment.fingerprint, self.version.commit)
        entry = replace(entry, definition=case.baseline_definition)
        return Baseline(entry, environment.label, f"pair {self.version.revision}")


def _with_seeds(case: Case, seeds: int) -> Case:
    """Return a case with more seeds, and as much more time for them."""
    return replace(case, seeds=seeds, timeout_s=case.timeout_s * seeds / case.seeds)


def _problem(pair: OutcomePair) -> str:
    """Say why the other version gives nothing to judge by; nothing where it does."""
    failure = pair.other.execution.failure
    if failure is not None:
        return f"{failure.reason} there: {failure.message}"
    if pair.own.execution.failure is not None:
        return ""
    if pair.other.execution.inputs != pair.own.execution.inputs:
        return "it gets other inputs there, which it reads from files"
    new = [name for name in pair.own.execution.outputs if name not in pair.other.execution.outputs]
    return f"it gives no {', '.join(new)} there" if new else ""


def _shortest(before: Outcome, now: Outcome) -> Outcome:
    """Return an outcome with the shorter time of two."""
    duration_s = min(before.execution.duration_s, now.execution.duration_s)
    return replace(now, execution=replace(now.execution, duration_s=duration_s))
