"""The stages in order, on one screen: case -> execution -> comparison -> verdict. Nothing else composes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from precreg.baseline.environments import explained, facts
from precreg.baseline.store import Lookup
from precreg.run.run import Plan, outcomes
from precreg.tolerance.pyramid import resolve
from precreg.tolerance.thresholds import unmet
from precreg.tolerance.warnings import unmatched_outputs
from precreg.tolerance.warnings import warnings as tolerance_warnings
from precreg.types.records import Baseline, CaseResult, Environment
from precreg.types.types import Case, Comparison, Layer, Outcome, Positions, Status
from precreg.verdict.judge import Policy, acceptable, judge

KEPT_POSITIONS = 5
"""Worst positions that the record keeps of a case that passed; one that did not keeps all."""


def results(cases: Sequence[Case], plan: Plan, policy: Policy, baselines: Lookup) -> Iterator[CaseResult]:
    """Run, measure and judge cases; yield each result as it comes, in no promised order.

    Baselines are looked up first: one that cannot be read stops a run that has not begun.
    """
    chain, known = plan.environment.chain, facts(plan.project)
    found = {case.id: (case, baselines.lookup(case.baseline_id, chain)) for case in cases}
    by_id = {id: (case, explained(baseline, known, plan.environment)) for id, (case, baseline) in found.items()}
    for outcome in outcomes(cases, plan):
        yield judged(*by_id[outcome.case], outcome, plan.environment, policy)


def judged(
    case: Case, baseline: Baseline | None, outcome: Outcome, environment: Environment, policy: Policy
) -> CaseResult:
    """Put one outcome beside its tolerances and its baseline, and judge it."""
    tolerances = {
        comparison.output: resolve(case.layers, comparison.output, comparison.dtype, environment.chain)
        for comparison in outcome.comparisons
    }
    verdict = judge(case, outcome, tolerances, baseline, environment, policy)
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
        acceptable=acceptable(case, outcome, tolerances, baseline, environment, verdict),
    )


def warnings(cases: Iterable[Case], results: Iterable[CaseResult]) -> tuple[str, ...]:
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
        yield from unmet(layers, result.tolerances[output], dtype)


def _shortened(outcome: Outcome) -> Outcome:
    return replace(outcome, comparisons=tuple(map(_with_few_positions, outcome.comparisons)))


def _with_few_positions(comparison: Comparison) -> Comparison:
    worst = comparison.worst
    if worst is None or len(worst.index) <= KEPT_POSITIONS:
        return comparison
    few = Positions(worst.index[:KEPT_POSITIONS], worst.actual[:KEPT_POSITIONS], worst.reference[:KEPT_POSITIONS])
    return replace(comparison, worst=few)
