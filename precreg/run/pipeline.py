"""Running the cases of a plan: what the journal has is not run again, and what comes is kept before it is shown.

The stages in order, on one screen: case -> execution -> comparison -> verdict. Nothing else composes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from precreg.baseline import BaselineLookup, explain_baseline, read_environment_facts
from precreg.run.journal import Journal
from precreg.run.worker import CaseRunner
from precreg.tolerance import resolve_tolerance, tolerance_warnings, unmatched_outputs, unmet_thresholds
from precreg.types import Baseline, Case, CaseResult, Comparison, Environment, Layer, Outcome, Positions, Status
from precreg.verdict import Policy, is_acceptable, judge_case

IN_PROCESS = 0


class Plan(Struct, frozen=True):
    """Where and how cases run: `jobs` worker processes, or this process for 0.

    `project` is absolute. `done` holds the outcomes of an interrupted run by case id, and `journal` takes the new ones.
    """

    project: Path
    environment: Environment
    jobs: int = IN_PROCESS
    journal: Journal | None = None
    done: dict[str, Outcome] = field(default_factory=dict)
    # The function of a self-test that runs its cases; None runs each case as its suite defines it.
    runner: CaseRunner | None = None


def run_cases(cases: Sequence[Case], plan: Plan) -> Iterator[Outcome]:
    """Yield one outcome per case: those that are done first, then the others as they come.

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
    if plan.jobs == IN_PROCESS:
        from precreg.run.worker import run_in_process

        return run_in_process(cases, plan.project, plan.environment.chain, plan.runner)
    from precreg.run.workers import run_in_workers

    return run_in_workers(cases, plan.project, plan.environment.chain, plan.jobs, plan.runner)


KEPT_POSITIONS = 5
"""Worst positions that the record keeps of a case that passed; one that did not keeps all."""


def run_and_judge(cases: Sequence[Case], plan: Plan, policy: Policy, baselines: BaselineLookup) -> Iterator[CaseResult]:
    """Run, measure and judge cases; yield each result as it comes, in no promised order.

    Baselines are looked up first: one that cannot be read stops a run that has not begun.
    """
    chain, known = plan.environment.chain, read_environment_facts(plan.project)
    found = {case.id: (case, baselines.lookup(case.baseline_id, chain)) for case in cases}
    by_id = {id: (case, explain_baseline(baseline, known, plan.environment)) for id, (case, baseline) in found.items()}
    for outcome in run_cases(cases, plan):
        yield judge_outcome(*by_id[outcome.case], outcome, plan.environment, policy)


def judge_outcome(
    case: Case, baseline: Baseline | None, outcome: Outcome, environment: Environment, policy: Policy
) -> CaseResult:
    """Put one outcome beside its tolerances and its baseline, and judge it."""
    tolerances = {
        comparison.output: resolve_tolerance(case.layers, comparison.output, comparison.dtype, environment.chain)
        for comparison in outcome.comparisons
    }
    verdict = judge_case(case, outcome, tolerances, baseline, environment, policy)
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
        outcome=outcome if verdict.status is not Status.PASSED else _shortened(outcome),
        verdict=verdict,
        tolerances=tolerances,
        baseline=baseline,
        baseline_id=case.baseline_id,
        acceptable=is_acceptable(case, outcome, tolerances, baseline, environment, verdict),
    )


def run_warnings(cases: Iterable[Case], results: Iterable[CaseResult]) -> tuple[str, ...]:
    """Say what is wrong with the tolerances in use, with the first case that has it; of thresholds, once for all.

    Cases of one suite share their layers, and are looked at once for each set of outputs and dtypes. A result without
    its case, as of a hand-written test, is looked at by itself.
    """
    layers: defaultdict[str, tuple[Layer, ...]] = defaultdict(tuple, {case.id: case.layers for case in cases})
    first: dict[object, CaseResult] = {}
    for result in results:
        outputs = frozenset((comparison.output, comparison.dtype) for comparison in result.outcome.comparisons)
        first.setdefault((id(layers[result.id] or result), outputs), result)
    texts = {text: result.id for result in reversed(first.values()) for text in _warnings(result, layers[result.id])}
    thresholds = dict.fromkeys(text for result in first.values() for text in _unmet(result, layers[result.id]))
    return (*thresholds, *(f"{case}: {text}" for text, case in texts.items()))


def _warnings(result: CaseResult, layers: tuple[Layer, ...]) -> Iterator[str]:
    compared = {comparison.output: comparison for comparison in result.outcome.comparisons}
    concerned: defaultdict[str, list[str]] = defaultdict(list)
    for output, comparison in compared.items():
        magnitude = comparison.metrics.get("mean_magnitude")
        for text in tolerance_warnings(result.tolerances[output], comparison.dtype, magnitude, result.role):
            concerned[text].append(output)
    for text, outputs in concerned.items():
        yield text if len(outputs) == len(compared) else f"{', '.join(outputs)}: {text}"
    if compared:
        yield from unmatched_outputs(layers, compared)


def _unmet(result: CaseResult, layers: tuple[Layer, ...]) -> Iterator[str]:
    for output, dtype in {comparison.output: comparison.dtype for comparison in result.outcome.comparisons}.items():
        yield from unmet_thresholds(layers, result.tolerances[output], dtype)


def _shortened(outcome: Outcome) -> Outcome:
    return replace(outcome, comparisons=tuple(map(_with_few_positions, outcome.comparisons)))


def _with_few_positions(comparison: Comparison) -> Comparison:
    worst = comparison.worst
    if worst is None or len(worst.index) <= KEPT_POSITIONS:
        return comparison
    few = Positions(worst.index[:KEPT_POSITIONS], worst.actual[:KEPT_POSITIONS], worst.reference[:KEPT_POSITIONS])
    return replace(comparison, worst=few)
