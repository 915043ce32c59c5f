"""Which stages does a case pass from its definition to its result?

case -> execution -> comparison -> verdict, in this order on one screen; nothing else composes them. A case whose
outcome the journal has does not run again, and the journal gets each new outcome before anyone sees it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from precreg.baseline import BaselineLookup, explain_baseline, read_environment_facts
from precreg.run.journal import Journal
from precreg.run.worker import CaseRunner, CaseTask, run_in_process
from precreg.subject import prepare_computation
from precreg.tolerance import resolve_tolerance, tolerance_warnings, unmatched_outputs, unmet_thresholds
from precreg.types import (
    Baseline,
    Case,
    CaseResult,
    Comparison,
    Environment,
    Layer,
    Outcome,
    Positions,
    Status,
    ToleranceFact,
    ToleranceWarning,
    UnmetThreshold,
)
from precreg.verdict import Policy, acceptable_as_known_bad, is_acceptable, judge_case

# So many worker processes mean this process.
IN_PROCESS = 0
# Worst positions in the record of a case that passed. A person reads positions of cases that did not, so these keep
# all; five are enough to see a pattern.
KEPT_POSITIONS = 5


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


def run_cases(cases: Sequence[Case], plan: Plan) -> Iterator[Outcome]:
    """Yield one outcome per case: the outcomes of an interrupted run first, then the others as they come.

    Raises UserError (no-workers, not-writable).
    """
    remaining = []
    for case in cases:
        outcome = plan.done.get(case.id)
        if outcome is not None and outcome.definition == case.definition:
            yield outcome
        else:
            remaining.append(case)
    for outcome in _run(remaining, plan):
        if plan.journal is not None:
            plan.journal.append(outcome)
        yield outcome


def _run(cases: Sequence[Case], plan: Plan) -> Iterator[Outcome]:
    task = CaseTask(plan.project, plan.environment.chain, runner=plan.runner)
    prepare_cases(cases, plan.project)
    if plan.jobs == IN_PROCESS:
        return run_in_process(cases, task)
    from precreg.run.workers import run_in_workers

    return run_in_workers(cases, task, plan.jobs)


def prepare_cases(cases: Iterable[Case], project: Path) -> None:
    """Build the programs of cases before the first one runs, so that no timeout of a case counts it."""
    for case in cases:
        for computation in (case.subject, case.oracle, case.benchmark):
            if computation is not None:
                prepare_computation(computation, project / case.directory, project)


def run_and_judge(cases: Sequence[Case], plan: Plan, policy: Policy, baselines: BaselineLookup) -> Iterator[CaseResult]:
    """Run, measure and judge cases; yield each result as it comes, in any order.

    Baselines are read first, so one that cannot be read stops a run that has not begun.
    """
    chain, known = plan.environment.chain, read_environment_facts(plan.project)
    found = {case.id: (case, baselines.lookup(case.baseline_id, chain)) for case in cases}
    by_id = {id: (case, explain_baseline(baseline, known, plan.environment)) for id, (case, baseline) in found.items()}
    for outcome in run_cases(cases, plan):
        yield judge_outcome(*by_id[outcome.case], outcome, plan.environment, policy)


def judge_outcome(
    case: Case, baseline: Baseline | None, outcome: Outcome, environment: Environment, policy: Policy
) -> CaseResult:
    """Judge an outcome by the tolerances and the baseline of its case."""
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


def run_warnings(cases: Iterable[Case], results: Iterable[CaseResult]) -> tuple[UnmetThreshold | ToleranceWarning, ...]:
    """Return a warning for each mistake in the tolerances in use, with the first case that has it.

    Unmet thresholds give one warning for the whole run.
    """
    # Cases of one suite share their layers, so one check for each set of outputs and dtypes is enough. The result of
    # a test-defined case comes without its case, and is checked by itself.
    layers: defaultdict[str, tuple[Layer, ...]] = defaultdict(tuple, {case.id: case.layers for case in cases})
    first: dict[object, CaseResult] = {}
    for result in results:
        outputs = frozenset((comparison.output, comparison.dtype) for comparison in result.outcome.comparisons)
        first.setdefault((id(layers[result.id] or result), outputs), result)
    thresholds = dict.fromkeys(fact for result in first.values() for fact in _unmet(result, layers[result.id]))
    # Reversed, so that the first case of a fact is the one that stays.
    found = {fact: result.id for result in reversed(first.values()) for fact in _warnings(result, layers[result.id])}
    return (*thresholds, *(ToleranceWarning(case, fact, outputs) for (fact, outputs), case in found.items()))


def _warnings(result: CaseResult, layers: tuple[Layer, ...]) -> Iterator[tuple[ToleranceFact, tuple[str, ...]]]:
    """Yield each fact with the outputs that it concerns; none where it concerns all."""
    compared = {comparison.output: comparison for comparison in result.outcome.comparisons}
    outputs_of: defaultdict[ToleranceFact, list[str]] = defaultdict(list)
    for output, comparison in compared.items():
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
