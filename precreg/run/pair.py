"""Does the working tree compute worse than another version of the code, side by side?

A paired run computes every case by the working tree and by another version, here and now, on the same inputs. Only the
code differs, so digests and statistics of the other version judge. docs/pairs.md explains when to use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os.path import realpath
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from precreg.baseline import BaselineLookup, entry_from, explain_baseline, read_environment_facts
from precreg.errors import UserError
from precreg.run.pipeline import Plan, judge_outcome
from precreg.run.worker import CaseTask
from precreg.run.workers import WorkerPool
from precreg.subject import TreePair
from precreg.types import (
    Baseline,
    Case,
    CaseResult,
    KnownBadCase,
    OtherVersionFailed,
    OtherVersionInputs,
    OtherVersionOutputs,
    Outcome,
    PairedRun,
    PairProblem,
)
from precreg.vcs import checkout_commit, commit_has_path, resolve_revision, unset_hook_variables, worktree_root
from precreg.verdict import Policy, judge_case
from precreg.verdict.statistics import (
    MAX_SECONDS,
    MAX_SEEDS,
    interim_analyses,
    is_conclusive,
    split_alpha,
    without_bounds,
)

# In one batch: enough to keep workers busy, few enough that both versions of a case run within seconds.
CASES_PER_WORKER = 8


class OutcomePair(NamedTuple):
    """The outcomes of one case by the two versions."""

    other: Outcome
    own: Outcome


class SideBySide:
    """The worker processes of both versions.

    Each version has its own workers, so neither sees a module of the other. Only one version computes at a time, so a
    load of the machine slows both down.
    """

    def __init__(self, plan: Plan, project: Path, trees: TreePair) -> None:
        """Prepare `plan.jobs` workers for each version; `project` is the project's folder in the checkout."""
        chain = plan.environment.chain
        self.batch = CASES_PER_WORKER * max(1, plan.jobs)
        self._own = WorkerPool(CaseTask(plan.project, chain), plan.jobs)
        self._other = WorkerPool(CaseTask(project, chain, trees), plan.jobs)

    def run(self, cases: Sequence[Case]) -> Iterator[OutcomePair]:
        """Run one batch by the other version, then by the working tree's own; yield both outcomes of each case.

        Raises UserError (no-workers).
        """
        others = {outcome.case: outcome for outcome in self._other.run(cases)}
        for own in self._own.run(cases):
            yield OutcomePair(others[own.case], own)

    def seconds(self, case: Case) -> float:
        """Return the time of both versions for the last run of a case: drawing, computing and measuring."""
        return self._own.seconds.get(case.id, 0.0) + self._other.seconds.get(case.id, 0.0)

    def close(self) -> None:
        """Kill all workers, busy or not."""
        self._own.close()
        self._other.close()


class OtherVersion(NamedTuple):
    """The version that judges: the revision as requested, its commit, and the project's folder in its checkout."""

    revision: str
    commit: str
    project: Path
    trees: TreePair


def other_commit(project: Path, revision: str) -> str:
    """Return the commit of the revision. Raises UserError: no-git, unknown-revision, no-merge-base; bad-pair."""
    unset_hook_variables()
    commit, root = resolve_revision(project, revision), worktree_root(project)
    suites = (_folder_in(root, project) / "suites").as_posix()
    if not commit_has_path(root, commit, suites):
        raise UserError("bad-pair", f"expected a commit with {suites}/ but got pair={revision}: {commit[:8]} has none")
    return commit


@contextmanager
def other_version(project: Path, revision: str, commit: str) -> Iterator[OtherVersion]:
    """Check the commit out into a temporary folder, and remove it at the end. Raises UserError (no-checkout)."""
    root = worktree_root(project)
    with checkout_commit(root, commit) as tree:
        own, other = Path(realpath(root)), Path(realpath(tree))
        yield OtherVersion(revision, commit, other / _folder_in(root, project), TreePair(own, other))


def _folder_in(root: Path, project: Path) -> Path:
    return Path(realpath(project)).relative_to(realpath(root))


class PairBudget(NamedTuple):
    """The most seeds that each version draws until a verdict is conclusive, and the most seconds for more seeds."""

    seeds: int = MAX_SEEDS
    seconds: float = MAX_SECONDS


def pair_budget(seeds: int | None, seconds: float | None) -> PairBudget:
    """Return the budget of a request; None means the default."""
    return PairBudget(MAX_SEEDS if seeds is None else seeds, MAX_SECONDS if seconds is None else seconds)


def paired_results(
    cases: Sequence[Case],
    plan: Plan,
    policy: Policy,
    baselines: BaselineLookup,
    version: OtherVersion,
    budget: PairBudget,
) -> Iterator[CaseResult]:
    """Run both versions on all cases, judge one by the other, and yield results batch by batch.

    If the other version has no usable outcome of a case, the accepted baseline judges and the result states the
    reason. Raises UserError (no-workers, not-writable), and errors of reading baselines before anything runs.
    """
    chain, known = plan.environment.chain, read_environment_facts(plan.project)
    found = {case.id: baselines.lookup(case.baseline_id, chain) for case in cases}
    accepted = {id: explain_baseline(baseline, known, plan.environment) for id, baseline in found.items()}
    side = SideBySide(plan, version.project, version.trees)
    try:
        run = _PairedRun(plan, policy, version, budget, side, accepted)
        for start in range(0, len(cases), side.batch):
            yield from run.batch(cases[start : start + side.batch])
    finally:
        side.close()


class _Analyzed(NamedTuple):
    """A case after an interim analysis: its result, both outcomes, and the time of both versions."""

    case: Case
    result: CaseResult
    pair: OutcomePair
    seconds: float
    # Seeds of the analyses that are still planned.
    analyses: tuple[int, ...]
    # Seconds of all analyses after the first.
    spent: float = 0.0

    def goes_on(self, seconds: float) -> bool:
        """Return True if the result is not conclusive and the budget allows twice the seeds."""
        paired = self.result.paired
        is_open = paired is not None and not paired.clear and not paired.fell_back
        return is_open and bool(self.analyses) and self.spent + 2 * self.seconds <= seconds


class _PairedRun(NamedTuple):
    """The settings that all cases of one paired run share."""

    plan: Plan
    policy: Policy
    version: OtherVersion
    budget: PairBudget
    side: SideBySide
    accepted: Mapping[str, Baseline | None]

    def batch(self, cases: Sequence[Case]) -> Iterator[CaseResult]:
        """Analyze every case once, and then again with twice the seeds each time until it is conclusive."""
        by_id = {case.id: case for case in cases}
        analyzed = [self._first(by_id[pair.own.case], pair) for pair in self._run_and_keep(cases)]
        while analyzed:
            open_ = {each.case.id: each for each in analyzed if each.goes_on(self.budget.seconds)}
            yield from (each.result for each in analyzed if each.case.id not in open_)
            again = [_with_seeds(each.case, each.analyses[0]) for each in open_.values()]
            analyzed = [self._again(open_[pair.own.case], pair) for pair in self.side.run(again)]

    def _run_and_keep(self, cases: Sequence[Case]) -> Iterator[OutcomePair]:
        for pair in self.side.run(cases):
            if self.plan.journal is not None:
                self.plan.journal.append(pair.own)
            yield pair

    def _first(self, case: Case, pair: OutcomePair) -> _Analyzed:
        """Judge the case's own seeds by the other version, or by the accepted baseline if that has no outcome."""
        stored, environment = self.accepted[case.id], self.plan.environment
        result = judge_outcome(case, stored, pair.own, environment, self.policy)
        # A known-bad case is judged by its baseline: another version that is as bad would pass it.
        cause = KnownBadCase() if case.expect_failure is not None else _problem(pair)
        if cause is not None:
            return _Analyzed(case, replace(result, paired=PairedRun(case.seeds, False, cause=cause)), pair, 0.0, ())
        analyses = interim_analyses(case.seeds, self.budget.seeds)
        other = self._baseline(case, pair)
        policy = split_alpha(self.policy, len(analyses))
        by_other = judge_outcome(case, other, pair.own, environment, policy)
        conclusive = is_conclusive(by_other.verdict, pair.own, other.entry, by_other.tolerances)
        paired = PairedRun(case.seeds, conclusive)
        result = replace(by_other, acceptable=result.acceptable, accepted=stored, paired=paired)
        return _Analyzed(case, result, pair, self.side.seconds(case), analyses[1:])

    def _again(self, before: _Analyzed, pair: OutcomePair) -> _Analyzed:
        """Judge more seeds of a case."""
        if _problem(pair) is not None:
            return before._replace(analyses=())
        case, analyses = before.case, len(interim_analyses(before.case.seeds, self.budget.seeds))
        # The shortest time of all analyses is the least disturbed one.
        pair = OutcomePair(_shortest(before.pair.other, pair.other), _shortest(before.pair.own, pair.own))
        # Bounds are limits for the case's own seeds: more seeds would find larger maxima.
        tolerances = {name: without_bounds(tolerance) for name, tolerance in before.result.tolerances.items()}
        other, policy = self._baseline(case, pair), split_alpha(self.policy, analyses)
        verdict = judge_case(case, pair.own, tolerances, other, self.plan.environment, policy)
        paired = PairedRun(before.analyses[0], is_conclusive(verdict, pair.own, other.entry, tolerances))
        result = replace(before.result, verdict=verdict, paired=paired)
        seconds = self.side.seconds(case)
        return _Analyzed(case, result, pair, seconds, before.analyses[1:], before.spent + seconds)

    def _baseline(self, case: Case, pair: OutcomePair) -> Baseline:
        environment = self.plan.environment
        entry = entry_from(pair.other, environment.fingerprint, self.version.commit)
        # Both versions ran HEAD's definition of the case, so the entry is not stale.
        entry = replace(entry, definition=case.baseline_definition)
        return Baseline(entry, environment.label, f"pair {self.version.revision}")


def _with_seeds(case: Case, seeds: int) -> Case:
    """Return a case with more seeds, and with a timeout in proportion."""
    return replace(case, seeds=seeds, timeout_s=case.timeout_s * seeds / case.seeds)


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


def _shortest(before: Outcome, now: Outcome) -> Outcome:
    """Return the later outcome with the shorter time of the two."""
    duration_s = min(before.execution.duration_s, now.execution.duration_s)
    return replace(now, execution=replace(now.execution, duration_s=duration_s))
