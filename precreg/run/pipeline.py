"""Which stages does a case pass from its definition to its result?

case -> execution -> comparison -> verdict, in this order on one screen; nothing else composes them. A case whose
outcome the journal has does not run again, and the journal gets each new outcome before anyone sees it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from ctypes import c_longdouble, sizeof
from functools import cached_property
from pathlib import Path
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from precreg.baseline import BaselineLookup, Baselines, explain_baseline, read_environment_facts
from precreg.environment import detect_environment
from precreg.run.journal import Journal
from precreg.run.packed import MANY_CASES
from precreg.run.reuse import OutcomeCache
from precreg.run.workers import CaseRunner, CaseTask, LocalPlace, RunPlace, run_in_process
from precreg.subject import kind_named, prepare_computation
from precreg.tolerance import resolve_tolerance, tolerance_warnings, unmatched_outputs, unmet_thresholds
from precreg.types import (
    NARROW_FACT,
    Baseline,
    Case,
    CaseResult,
    Comparison,
    EmptyPasses,
    Environment,
    Layer,
    NarrowPart,
    NarrowReference,
    Outcome,
    Positions,
    Status,
    ToleranceFact,
    ToleranceWarning,
    UnmetThreshold,
)
from precreg.verdict import Policy, acceptable_as_known_bad, is_acceptable, judge_case, unchecked_bounds

# So many worker processes mean this process.
IN_PROCESS = 0
# Worst positions in the record of a case that passed. A person reads positions of cases that did not, so these keep
# all; five are enough to see a pattern.
KEPT_POSITIONS = 5
# A long double of so many bytes, as on macOS with ARM, is float64, and numpy gives it this name.
_FLOAT64_BYTES = 8
_FLOAT64 = frozenset({"float64", "complex128"})


class Plan(Struct, frozen=True):
    """The place and the means of a run; `project` is absolute."""

    project: Path
    environment: Environment
    jobs: int = IN_PROCESS
    # Takes the new outcomes.
    journal: Journal | None = None
    # The outcomes of an interrupted run by case id.
    done: dict[str, Outcome] = field(default_factory=dict)
    # The function of a self-test that runs its cases; None runs each case as its suite defines it.
    runner: CaseRunner | None = None
    # The accepted digests of outputs by case id: other outputs get a map of their errors, if the case has an entry.
    accepted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # The workers of a cluster, in the place of `jobs`; None without one.
    cluster: RunPlace | None = None
    # Gives outcomes of earlier runs, and keeps the new ones; None runs each case.
    reuse: OutcomeCache | None = None
    # Pairs take figures of fresh seeds from earlier runs, and keep theirs.
    use_caches: bool = True

    @property
    def place(self) -> RunPlace:
        """Return where items run that need workers."""
        return LocalPlace(self.jobs) if self.cluster is None else self.cluster

    def close(self) -> None:
        """Close the journal, and the outcomes of earlier runs."""
        if self.journal is not None:
            self.journal.close()
        if self.reuse is not None:
            self.reuse.close()


def run_cases(cases: Sequence[Case], plan: Plan) -> Iterator[Outcome]:
    """Yield one outcome per case: those of an interrupted run and of earlier runs first, the others as they come.

    Raises UserError (no-workers, not-writable).
    """
    remaining = []
    for case in cases:
        # Verdicts are computed anew for all of them.
        outcome = plan.done.get(case.id)
        if outcome is None or outcome.definition != case.definition:
            outcome = None if plan.reuse is None else plan.reuse.find(case, plan.accepted.get(case.id))
        if outcome is not None:
            yield outcome
        else:
            remaining.append(case)
    for outcome in _run(remaining, plan):
        if plan.journal is not None:
            plan.journal.append(outcome)
        yield outcome


def _run(cases: Sequence[Case], plan: Plan) -> Iterator[Outcome]:
    if not cases:
        # No worker starts where earlier runs have all outcomes.
        return iter(())
    task = CaseTask(plan.project, plan.environment.chain, runner=plan.runner, accepted=plan.accepted)
    if plan.place.builds_here:
        prepare_cases(cases, plan.project)
    if plan.place.jobs == IN_PROCESS:
        return run_in_process(cases, task)
    if plan.reuse is None:
        return plan.place.run(cases, task)
    from precreg.run.reuse import ObservedTask

    return plan.reuse.keep_all(cases, plan.place.run(cases, ObservedTask(task)))


def prepare_cases(cases: Iterable[Case], project: Path) -> None:
    """Build the programs of cases before the first one runs, so that no timeout of a case counts it."""
    done: set[str] = set()
    for case in cases:
        for computation in (case.subject, case.oracle, case.benchmark):
            # Rows of a matrix share their computations.
            key = f"{case.directory} {computation!r}"
            if computation is not None and key not in done:
                done.add(key)
                prepare_computation(computation, project / case.directory, project)


def run_and_judge(cases: Sequence[Case], plan: Plan, policy: Policy, baselines: BaselineLookup) -> Iterator[CaseResult]:
    """Run, measure and judge cases; yield each result as it comes, in any order.

    Raises UserError as `run_cases` does, and for baselines that cannot be read.
    """
    accepted = AcceptedBaselines(plan.project, plan.environment, baselines).read(cases)
    by_id = {case.id: case for case in cases}
    plan = replace(plan, accepted=accepted.digests(cases))
    for outcome in run_cases(cases, plan):
        yield accepted.judge(by_id[outcome.case], outcome, policy)


class AcceptedBaselines:
    """The accepted baselines of cases, each by the chain of the environment in which the case computed."""

    def __init__(self, project: Path, environment: Environment, baselines: BaselineLookup) -> None:
        """Take the environment of the run, and the baselines of the project or of another commit."""
        self._project, self._environment, self._baselines = project, environment, baselines
        self._found: dict[tuple[str, str], Baseline | None] = {}
        self._digests: dict[str, tuple[str, ...]] = {}
        self._numbers: dict[tuple[str, ...], int] = {}

    def read(self, cases: Iterable[Case]) -> AcceptedBaselines:
        """Read the baselines of the run's environment, so that an unreadable file stops a run before it begins."""
        for case in cases:
            found = self.of(case, self._environment)
            self._digests[case.id] = () if found is None else tuple(_output_digests(found))
        return self

    def of(self, case: Case, environment: Environment) -> Baseline | None:
        """Return the baseline of a case; None if it has none. Raises UserError for files that cannot be read."""
        key = (case.id, environment.fingerprint)
        if key in self._found:
            return self._found[key]
        baseline = self._baselines.lookup(case.baseline_id, environment.chain)
        found = explain_baseline(baseline, self._known, environment)
        # The baselines of many cases wait packed in their store, because objects take ten times the memory.
        if len(self._found) < MANY_CASES:
            self._found[key] = found
        return found

    def digests(self, cases: Sequence[Case]) -> dict[str, tuple[str, ...]]:
        """Return the digests of the accepted outputs of each case; none for a case without a baseline."""
        self.read(case for case in cases if case.id not in self._digests)
        return {case.id: self._digests[case.id] for case in cases}

    def judge(self, case: Case, outcome: Outcome, policy: Policy) -> CaseResult:
        """Judge an outcome by the tolerances and the baseline of its case."""
        # Only the outcome shows whether the case computed on an accelerator, and on which one.
        environment = self._environment.of_case(outcome.execution)
        if environment.chain != self._environment.chain:
            policy = replace(policy, baselines=self._number(environment.chain))
        return judge_outcome(case, self.of(case, environment), outcome, self._environment, policy)

    def _number(self, chain: tuple[str, ...]) -> int:
        """Count the baselines of a run with cases on an accelerator: all of them share one error level."""
        if chain not in self._numbers:
            every = (*self._environment.chain, *chain)
            self._numbers[chain] = self._baselines.number(tuple(dict.fromkeys(every)))
        return self._numbers[chain]

    @cached_property
    def _known(self) -> dict[str, dict[str, str]]:
        return read_environment_facts(self._project)


class CaseJudge:
    """Judge the cases of one project one by one, in this process; every file of baselines is read once."""

    def __init__(
        self, project: Path, *, environment: str | None, ci: bool, baselines: BaselineLookup | None = None
    ) -> None:
        """Detect the environment; `baselines` are the project's by default. Raises UserError (bad-value)."""
        self.project, self.environment = project, detect_environment(environment)
        self.baselines: BaselineLookup = Baselines(project) if baselines is None else baselines
        self.policy = Policy(ci=ci, baselines=self.baselines.number(self.environment.chain))
        self._accepted = AcceptedBaselines(project, self.environment, self.baselines)

    def run(self, case: Case) -> CaseResult:
        """Run a case in this process, measure it and judge it. Timeouts are not enforced."""
        task = CaseTask(self.project, self.environment.chain, accepted=self._accepted.digests([case]))
        return self.judge(case, next(run_in_process([case], task)))

    def judge(self, case: Case, outcome: Outcome) -> CaseResult:
        """Judge a measured outcome. Raises UserError for baselines that cannot be read."""
        return self._accepted.judge(case, outcome, self.policy)

    def baseline(self, case: Case) -> Baseline | None:
        """Look up the accepted baseline of a case in the run's environment; None if it has none."""
        return self._accepted.of(case, self.environment)


def _output_digests(baseline: Baseline) -> Iterator[str]:
    return (digest for output in baseline.entry.outputs.values() for digest in output.digests)


def judge_outcome(
    case: Case, baseline: Baseline | None, outcome: Outcome, environment: Environment, policy: Policy
) -> CaseResult:
    """Judge an outcome by the tolerances and the baseline of its case; `environment` is the run's."""
    environment = environment.of_case(outcome.execution)
    tolerances = {
        comparison.output: resolve_tolerance(case.layers, comparison.output, comparison.dtype, environment.chain)
        for comparison in outcome.comparisons
    }
    verdict = judge_case(case, outcome, tolerances, baseline, environment, policy)
    acceptable = is_acceptable(case, outcome, tolerances, baseline, environment, verdict)
    return CaseResult(
        id=case.id,
        tier=case.tier,
        suite=case.suite,
        name=case.name,
        source=case.source,
        role=case.role,
        definition=case.definition,
        parameters=case.parameters if case.device is None else {**case.parameters, "device": case.device},
        tags=case.tags,
        outcome=outcome if verdict.status is not Status.PASSED else _limit_positions(outcome),
        verdict=verdict,
        tolerances=tolerances,
        baseline=baseline,
        baseline_id=case.baseline_id,
        acceptable=acceptable,
        wrong_state=None
        if acceptable
        else acceptable_as_known_bad(case, outcome, tolerances, baseline, environment, verdict),
    )


def run_warnings(
    cases: Iterable[Case], results: Sequence[CaseResult]
) -> tuple[UnmetThreshold | ToleranceWarning | NarrowReference | NarrowPart | EmptyPasses, ...]:
    """Return a warning for each mistake in the tolerances in use, with the first case that has it.

    Unmet thresholds give one warning for the whole run. Warnings about references that are no wider than outputs
    follow, and one about goldens without a finite element.
    """
    # Cases of one suite share their layers, so one check for each set of outputs and dtypes is enough. The result of
    # a test-defined case comes without its case, and is checked by itself.
    cases = tuple(cases)
    layers: defaultdict[str, tuple[Layer, ...]] = defaultdict(tuple, {case.id: case.layers for case in cases})
    first: dict[object, CaseResult] = {}
    for result in results:
        outputs = frozenset((outline.output, outline.dtype) for outline in result.outcome.outlines)
        first.setdefault((id(layers[result.id] or result), outputs), result)
    thresholds = dict.fromkeys(fact for result in first.values() for fact in _unmet(result, layers[result.id]))
    # Reversed, so that the first case of a fact is the one that stays.
    found = {fact: result.id for result in reversed(first.values()) for fact in _warnings(result, layers[result.id])}
    tolerances = (ToleranceWarning(case, fact, outputs) for (fact, outputs), case in found.items())
    narrow = narrow_references(cases, results, sizeof(c_longdouble))
    return (*thresholds, *tolerances, *narrow, *empty_passes(cases, results))


def empty_passes(cases: Iterable[Case], results: Sequence[CaseResult]) -> Iterator[EmptyPasses]:
    """Yield a warning that counts the cases whose golden wants outputs without a finite element, and got them."""
    allowed = {case.id for case in cases if case.empty_passes}
    sound = (each for each in results if each.id in allowed and each.verdict.status in (Status.PASSED, Status.PROPOSED))
    found = [
        result.id
        for result in sound
        if any(not comparison.counts.get("finite", 0) for comparison in result.outcome.comparisons)
    ]
    if found:
        yield EmptyPasses(found[0], len(found))


def narrow_references(
    cases: Iterable[Case], results: Sequence[CaseResult], longdouble_bytes: int
) -> Iterator[NarrowReference | NarrowPart]:
    """Yield a warning for each cause of references that are no wider than float64 outputs, or are so in part."""
    by_id = {case.id: case for case in cases}
    asked = {id for id, case in by_id.items() if case.reference_dtype and case.reference_dtype.name == "float64"}
    limited = {id for id, case in by_id.items() if kind_named(case.oracle.kind).widest == "float64"}
    found: defaultdict[Literal["asked", "kind", "platform"], list[str]] = defaultdict(list)
    for result in results:
        compared = {each.reference_dtype for each in result.outcome.outlines if each.dtype in _FLOAT64}
        if result.role != "reference" or not compared or not _FLOAT64.issuperset(compared):
            continue
        if result.id in asked:
            found["asked"].append(result.id)
        elif result.id in limited:
            found["kind"].append(result.id)
        elif longdouble_bytes <= _FLOAT64_BYTES:
            found["platform"].append(result.id)
    for cause, ids in found.items():
        yield NarrowReference(ids[0], len(ids), cause)
    parts = [(each.id, part) for each in results if (part := each.outcome.execution.oracle_facts.get(NARROW_FACT))]
    if parts:
        yield NarrowPart(*parts[0], len(parts))


def _warnings(result: CaseResult, layers: tuple[Layer, ...]) -> Iterator[tuple[ToleranceFact, tuple[str, ...]]]:
    """Yield each fact with the outputs that it concerns; none where it concerns all."""
    compared = {comparison.output: comparison for comparison in result.outcome.comparisons}
    outputs_of: defaultdict[ToleranceFact, list[str]] = defaultdict(list)
    for output, comparison in compared.items():
        if unchecked := unchecked_bounds(comparison, result.tolerances[output]):
            outputs_of[unchecked].append(output)
        magnitude = comparison.metrics.get("mean_magnitude")
        for fact in tolerance_warnings(result.tolerances[output], comparison.dtype, magnitude, result.role):
            outputs_of[fact].append(output)
    for fact, outputs in outputs_of.items():
        yield fact, () if len(outputs) == len(compared) else tuple(outputs)
    if compared:
        yield from ((fact, ()) for fact in unmatched_outputs(layers, compared))


def _unmet(result: CaseResult, layers: tuple[Layer, ...]) -> Iterator[UnmetThreshold]:
    for output, dtype in {comparison.output: comparison.dtype for comparison in result.outcome.comparisons}.items():
        yield from unmet_thresholds(layers, result.tolerances[output], dtype)


def _limit_positions(outcome: Outcome) -> Outcome:
    """Return the outcome with at most KEPT_POSITIONS worst positions of each comparison."""
    return replace(outcome, comparisons=tuple(map(_with_few_positions, outcome.comparisons)))


def _with_few_positions(comparison: Comparison) -> Comparison:
    worst = comparison.worst
    if worst is None or len(worst.index) <= KEPT_POSITIONS:
        return comparison
    few = Positions(worst.index[:KEPT_POSITIONS], worst.actual[:KEPT_POSITIONS], worst.reference[:KEPT_POSITIONS])
    return replace(comparison, worst=few)
