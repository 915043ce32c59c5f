"""Does the bound of a case hold with some of its parts in a wider dtype?

A trial runs the case on all of its seeds in this process. Inputs and the oracle are computed once for all trials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from precreg.diagnose.precision.kinds import Altered
from precreg.run import PlainComputation, run_case
from precreg.subject import Call
from precreg.tolerance import resolve_tolerance
from precreg.types import (
    Bound,
    Environment,
    Finding,
    Location,
    Outcome,
    PrecisionTrial,
    Reason,
    Tolerance,
)
from precreg.verdict import Policy, judge_case

_T = TypeVar("_T")
_BOUND = Location("--bound")


class LimitOfMetric(NamedTuple):
    """A bound of the command line, which replaces all bounds of a case."""

    metric: str
    limit: float


class _Kept(PlainComputation):
    """Compute a case on another arithmetic, with the inputs and the oracle of the trials before it."""

    def __init__(self, results: dict[tuple[str, int], Any], altered: Altered) -> None:
        super().__init__()
        self._results, self._arithmetic = results, altered.arithmetic

    def reuse(self, step: str, seed: int, compute: Callable[[], _T]) -> _T:
        """Return the inputs and the oracle's outputs of an earlier trial; trials measure different outputs."""
        if step not in ("inputs", "oracle"):
            return compute()
        if (step, seed) not in self._results:
            self._results[step, seed] = compute()
        found: _T = self._results[step, seed]
        return found

    def run_subject(self, call: Call, seed: int, run: Callable[[Call], _T]) -> _T:
        """Run the subject on the arithmetic of the trial."""
        return run(call if self._arithmetic is None else replace(call, arithmetic=self._arithmetic))


class CaseTrials:
    """Run a case with some of its parts in the wider dtype, and judge it by its bounds."""

    def __init__(self, project: Path, environment: Environment, limit: LimitOfMetric | None) -> None:
        self._project, self._environment, self._limit = project, environment, limit
        self._results: dict[tuple[str, int], Any] = {}
        # The output and the metric of the first broken bound, which all trials show.
        self._shown: tuple[str, str] | None = None

    def run(self, altered: Altered, kept: Sequence[str]) -> PrecisionTrial:
        """Return the trial of one configuration with the names of the parts that it keeps."""
        # An expected failure is a bound that is broken, too.
        case = replace(altered.case, expect_failure=None)
        outcome = run_case(case, self._project, self._environment.chain, _Kept(self._results, altered))
        seconds = outcome.execution.duration_s
        failure = outcome.execution.failure
        if failure is not None:
            return PrecisionTrial(kept=tuple(kept), holds=False, problem=failure.message)
        environment = self._environment.of_case(outcome.execution)
        tolerances = {
            each.output: self._bounded(resolve_tolerance(case.layers, each.output, each.dtype, environment.chain))
            for each in outcome.comparisons
        }
        verdict = judge_case(case, outcome, tolerances, None, environment, Policy())
        if verdict.reason is Reason.NONDETERMINISTIC:
            return PrecisionTrial(kept=tuple(kept), holds=False, seconds=seconds, problem=verdict.reason.value)
        if verdict.reason is Reason.NEW:
            return self._shown_value(PrecisionTrial(kept=tuple(kept), holds=True, seconds=seconds), outcome)
        return self._broken(PrecisionTrial(kept=tuple(kept), holds=False, seconds=seconds), verdict.findings[0])

    def _bounded(self, tolerance: Tolerance) -> Tolerance:
        if self._limit is None:
            return tolerance
        bound = Bound(self._limit.metric, self._limit.limit, _BOUND.file, _BOUND)
        return replace(tolerance, bounds=(bound,), alternatives=())

    def _broken(self, trial: PrecisionTrial, finding: Finding) -> PrecisionTrial:
        metric = finding.metric or finding.reason.value
        if finding.reason is Reason.OUT_OF_TOLERANCE and self._shown is None:
            self._shown = (finding.output, finding.metric)
        return replace(
            trial,
            output=finding.output,
            metric=metric,
            value=finding.current,
            limit=finding.limit,
            seed=finding.seed or 0,
        )

    def _shown_value(self, trial: PrecisionTrial, outcome: Outcome) -> PrecisionTrial:
        """Add the largest value of the metric that the first broken bound is on."""
        if self._shown is None:
            return trial
        output, metric = self._shown
        values = [
            each.metrics[metric] for each in outcome.comparisons if each.output == output and metric in each.metrics
        ]
        return replace(trial, output=output, metric=metric, value=max(values, default=None))
