"""Which cases differ between two runs, and is a run worse than an earlier one?

The current run is compared with the baseline run by facts alone: verdicts, bits, and the errors of cases with other
bits. The statistic of baselines judges these errors, so noise is no loss. two_runs_text.py writes the words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from precreg.baseline import differing_facts, entry_from
from precreg.errors import UserError
from precreg.types import (
    BaselineEntry,
    CaseResult,
    ChangedEnvironment,
    Comparison,
    Environment,
    Finding,
    LargestRatio,
    Reason,
    RunRecord,
    Status,
    Tolerance,
)
from precreg.verdict import (
    OutputEvidence,
    Policy,
    case_alpha,
    comparisons_by_output,
    digests_agree,
    find_improvements,
    find_regressions,
    gather_evidence,
    largest_ratio,
    structural_findings,
    unjudged_outputs,
    verdict_of,
)

# By urgency: the first kind that applies to a case is its kind.
PairKind = Literal[
    "newly_failing",
    "worse",
    "not_comparable",
    "fixed",
    "improved",
    "other_verdict",
    "unjudged",
    "within_noise",
    "same",
]
# The reason why errors of a case have no comparison: it could not be judged now, it is another computation, it drew
# other inputs, or a run has no figures of it.
Obstacle = Literal["", "error", "definition", "inputs", "no_figures"]

# Times of less than a millisecond are noise of the clock and of the scheduler, and so are smaller ratios.
MIN_SECONDS = 1e-3
MIN_TIME_RATIO = 1.5


class BoundChange(Struct, frozen=True):
    """A limit of an output that differs between two runs; None where a run has no such limit."""

    output: str
    name: str
    before: float | None
    now: float | None


class ErrorComparison(Struct, frozen=True):
    """The errors of a case compared with the earlier ones: significant findings, or the largest ratio within noise."""

    findings: tuple[Finding, ...] = ()
    largest: LargestRatio | None = None
    # No statistic judges an output with other bits.
    unjudged: bool = False
    same_bits: bool = False


class CasePair(Struct, frozen=True):
    """A case of two runs, and how it changed.

    `judged` is the current result. It has the verdict of the comparison if its errors grew or shrank significantly,
    unless the case fails now and passed before: its own verdict may have a cause.
    """

    kind: PairKind
    before: CaseResult
    now: CaseResult
    judged: CaseResult
    errors: ErrorComparison
    obstacle: Obstacle = ""
    bounds: tuple[BoundChange, ...] = ()

    @property
    def id(self) -> str:
        """The id of the case."""
        return self.now.id

    @property
    def is_worse(self) -> bool:
        """Return whether the case makes the exit code 1."""
        return self.kind in ("newly_failing", "worse")


class TimeChange(Struct, frozen=True):
    """The times of a case in two runs, in seconds."""

    id: str
    before: float
    now: float


class TimeComparison(Struct, frozen=True):
    """The times of the cases that both runs computed, and those that changed most, in seconds."""

    before: float
    now: float
    # Times of different processors say nothing about the code.
    same_processor: bool
    changes: tuple[TimeChange, ...]


class RunComparison(Struct, frozen=True):
    """Two runs compared case by case; `pairs` are in the order of their ids.

    `missing` cases are in the baseline run alone although the current run selected all cases; `unselected` ones are
    outside its selection. `added` cases are in the current run alone.
    """

    current: RunRecord
    baseline: RunRecord
    pairs: tuple[CasePair, ...]
    added: tuple[CaseResult, ...]
    missing: tuple[CaseResult, ...]
    unselected: tuple[CaseResult, ...]
    # The facts in which the environments differ; None if they are the same.
    environment: ChangedEnvironment | None
    times: TimeComparison

    def of_kind(self, *kinds: PairKind) -> list[CasePair]:
        """Return the pairs of some kinds."""
        return [pair for pair in self.pairs if pair.kind in kinds]

    @property
    def is_older(self) -> bool:
        """Return whether the current run started before the baseline run: the two may be swapped."""
        return _start(self.current) < _start(self.baseline)

    @property
    def exit_code(self) -> int:
        """1 if a case is worse; otherwise 2 if a case could not be compared; otherwise 0."""
        if any(pair.is_worse for pair in self.pairs):
            return 1
        return 2 if self.missing or self.of_kind("not_comparable") else 0


def compare_records(current: RunRecord, baseline: RunRecord) -> RunComparison:
    """Compare a run with an earlier one.

    Raises:
        UserError: not-comparable, if both are the same run, or no case is in both.
    """
    if current == baseline:
        message = f"expected two runs but got one run twice, started {current.started}"
        raise UserError("not-comparable", message, hint=_COMPARE_HINT)
    now, before = ({result.id: result for result in record.results} for record in (current, baseline))
    common = sorted(now.keys() & before.keys())
    if not common:
        raise _no_common_case(current, baseline)
    alpha = case_alpha(len(common))
    pairs = tuple(_compare_case(before[id], now[id], (current, baseline), alpha) for id in common)
    gone = [before[id] for id in sorted(before.keys() - now.keys())]
    lost, unselected = ([], gone) if current.selection else (gone, [])
    return RunComparison(
        current=current,
        baseline=baseline,
        pairs=pairs,
        added=tuple(now[id] for id in sorted(now.keys() - before.keys())),
        missing=tuple(lost),
        unselected=tuple(unselected),
        environment=_environment_change(baseline, current),
        times=_compare_times(pairs, current, baseline),
    )


_COMPARE_HINT = "name the new record, then the earlier one: precreg report --compare reports earlier/reports"


def _no_common_case(current: RunRecord, baseline: RunRecord) -> UserError:
    sides = " and ".join(
        f"{len(record.results)} {'case' if len(record.results) == 1 else 'cases'} of project {record.project}"
        for record in (current, baseline)
    )
    message = f"expected two runs with a common case but got {sides}, without a common id"
    return UserError("not-comparable", message, hint=f"{_COMPARE_HINT}, of the same suites")


def _start(record: RunRecord) -> float:
    # Records may have other offsets from UTC, so texts do not sort.
    return datetime.fromisoformat(record.started).timestamp()


def _environment_change(baseline: RunRecord, current: RunRecord) -> ChangedEnvironment | None:
    sides = [{**record.environment.facts, "precreg": record.precreg} for record in (baseline, current)]
    facts = differing_facts(*sides)
    return ChangedEnvironment(facts) if facts else None


def _compare_times(pairs: Iterable[CasePair], current: RunRecord, baseline: RunRecord) -> TimeComparison:
    computed = [
        TimeChange(pair.id, *(each.outcome.execution.duration_s for each in (pair.before, pair.now)))
        for pair in pairs
        if not pair.obstacle
    ]
    timed = [each for each in computed if each.before > 0 and each.now > 0]
    changed = [each for each in timed if _has_other_time(each)]
    processors = [record.environment.facts.get("cpu", "") for record in (current, baseline)]
    return TimeComparison(
        sum(each.before for each in timed),
        sum(each.now for each in timed),
        same_processor=processors[0] == processors[1],
        changes=tuple(sorted(changed, key=lambda each: (-abs(each.now - each.before), each.id))),
    )


def _has_other_time(change: TimeChange) -> bool:
    shorter, longer = sorted((change.before, change.now))
    return longer >= MIN_SECONDS and longer >= MIN_TIME_RATIO * shorter


def _compare_case(before: CaseResult, now: CaseResult, records: tuple[RunRecord, RunRecord], alpha: float) -> CasePair:
    """Compare a case of the current record, the first one, with its result in the baseline record."""
    obstacle = _obstacle(before, now)
    errors = ErrorComparison()
    if not obstacle:
        here, there = (
            record.environment.of_case(each.outcome.execution)
            for record, each in zip(records, (now, before), strict=True)
        )
        errors = _compare_errors(before, now, here, there, alpha)
    kind = _kind(before, now, errors, obstacle)
    judged = now
    if errors.findings and kind != "newly_failing":
        judged = replace(now, verdict=verdict_of([*errors.findings], Policy(), now.outcome.described))
    bounds = tuple(_bound_changes(before.tolerances, now.tolerances))
    return CasePair(kind, before, now, judged, errors, obstacle, bounds)


def _obstacle(before: CaseResult, now: CaseResult) -> Obstacle:
    if now.verdict.status is Status.ERROR:
        return "error"
    if now.definition != before.definition:
        return "definition"
    if not (_has_figures(before) and _has_figures(now)):
        return "no_figures"
    # As with baselines: of two numbers of seeds, the common ones count.
    return "" if all(map(str.__eq__, now.outcome.execution.inputs, before.outcome.execution.inputs)) else "inputs"


def _has_figures(result: CaseResult) -> bool:
    outputs = result.outcome.execution.outputs
    compared = {comparison.output for comparison in result.outcome.comparisons}
    # Records are read from files, where a digest may be missing.
    return bool(compared) and compared <= outputs.keys()


def _compare_errors(
    before: CaseResult, now: CaseResult, here: Environment, there: Environment, alpha: float
) -> ErrorComparison:
    """Judge other bits as a run judges them by a baseline; the environments are those of `now` and of `before`."""
    accepted, present = before.outcome.execution.outputs, now.outcome.execution.outputs
    if accepted.keys() == present.keys() and all(digests_agree(present[name], [*accepted[name]]) for name in present):
        return ErrorComparison(same_bits=True)
    entry = entry_from(before.outcome, there.fingerprint, "", there.facts.get("cpu", ""))
    if broken := _newly_broken(before, now, entry):
        return ErrorComparison(tuple(broken))
    outputs = [*_evidence(before, now, entry, here, alpha)]
    worse = [found for output in outputs for found in find_regressions(output)]
    better = [found for output in outputs for found in find_improvements(output)]
    if worse or better:
        return ErrorComparison(tuple(worse or better))
    if not outputs or unjudged_outputs(outputs):
        return ErrorComparison(unjudged=True)
    return ErrorComparison(largest=largest_ratio(outputs))


def _newly_broken(before: CaseResult, now: CaseResult, entry: BaselineEntry) -> list[Finding]:
    """Return the structural faults of a result that the earlier one had not, or had in fewer elements."""
    known = {_fault(found): found.current or 0 for found in structural_findings(before.outcome, before.role, None)}
    every = structural_findings(now.outcome, now.role, entry)
    return [found for found in every if (found.current or 0) > known.get(_fault(found), -1)]


def _fault(found: Finding) -> tuple[Reason, str, int | None]:
    return found.reason, found.output, found.seed


def _evidence(
    before: CaseResult, now: CaseResult, entry: BaselineEntry, here: Environment, alpha: float
) -> Iterator[OutputEvidence]:
    """Compare each output that both results have, with finite pairs and a tolerance."""
    same_environment = here.has_seen(entry)
    for name, comparisons in comparisons_by_output(now.outcome).items():
        # The earlier tolerance: the current run could have loosened it.
        tolerance = before.tolerances.get(name) or now.tolerances.get(name)
        if name in entry.outputs and tolerance is not None and any(map(_is_measured, comparisons)):
            yield gather_evidence(
                comparisons, entry, tolerance, now.role, same_environment=same_environment, alpha=alpha
            )


def _is_measured(comparison: Comparison) -> bool:
    return comparison.figures is not None or bool(comparison.counts.get("finite", 0))


def _kind(before: CaseResult, now: CaseResult, errors: ErrorComparison, obstacle: Obstacle) -> PairKind:
    was, status = before.verdict.status, now.verdict.status
    is_failing = status is Status.FAILED
    applies: dict[PairKind, bool] = {
        "newly_failing": was is Status.PASSED and is_failing,
        "worse": any(found.reason is not Reason.IMPROVED for found in errors.findings),
        "not_comparable": obstacle in ("error", "definition", "inputs"),
        "fixed": was in (Status.FAILED, Status.ERROR) and status is Status.PASSED,
        "improved": bool(errors.findings),
        "other_verdict": was is not status or (is_failing and before.verdict.reason is not now.verdict.reason),
        "unjudged": errors.unjudged,
        # Without figures, only the verdicts are known, and they are the same.
        "same": errors.same_bits or obstacle == "no_figures",
    }
    return next((kind for kind, does_apply in applies.items() if does_apply), "within_noise")


def _bound_changes(before: Mapping[str, Tolerance], now: Mapping[str, Tolerance]) -> Iterator[BoundChange]:
    """Yield the limits that differ, of outputs that both results have."""
    for output in before.keys() & now.keys():
        old, new = _limits(before[output]), _limits(now[output])
        for name in dict.fromkeys((*old, *new)):
            if old.get(name) != new.get(name):
                yield BoundChange(output, name, old.get(name), new.get(name))


def _limits(tolerance: Tolerance) -> dict[str, float]:
    """Return all limits of a tolerance by name; those of alternatives and of growth have a prefix."""
    alternatives = (
        (f"alternative {number} {bound.metric}", bound.limit)
        for number, bounds in enumerate(tolerance.alternatives, 1)
        for bound in bounds
    )
    growths = (
        (f"regression {name}", limit) for name, limit in (*tolerance.regression.items(), *tolerance.directions.items())
    )
    elements = (("rtol", tolerance.rtol.limit), ("atol", tolerance.atol.limit))
    return dict((*elements, *((bound.metric, bound.limit) for bound in tolerance.bounds), *alternatives, *growths))
