"""Does a case pass, and for which reason?

The verdict is a pure function of the outcome, the tolerances and the baseline of its own case. So it is the same in any
selection, shard or resume. Four questions have an order, and the first with a finding gives the reason: is there a
result, is it accurate enough, is there a baseline for it, did it regress? A result that is not accurate enough is still
compared with its baseline, and the verdict lists both. One stored array is judged by the first two alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from precreg.measure import metric_named
from precreg.types import (
    Baseline,
    BaselineEntry,
    BitsNotExact,
    BoundsHold,
    Case,
    ChangedBits,
    Comparison,
    DefinitionChanged,
    Environment,
    Execution,
    Finding,
    FindingFact,
    InputsChanged,
    KnownBad,
    MetricDescription,
    NewOutput,
    NoBaseline,
    NotRegressed,
    OtherEnvironment,
    Outcome,
    Reason,
    RepeatDifference,
    Role,
    Rule,
    SameBits,
    SameElements,
    Status,
    TimeGrew,
    Tolerance,
    UndeclaredDifference,
    Verdict,
)
from precreg.verdict.known_bad import (
    KNOWN_BAD_REASONS,
    ExcusedFindings,
    excuse_bounds,
    excuse_mismatches,
    excused_gains,
    excused_growth,
    known_bad_improvements,
    known_bad_state,
)
from precreg.verdict.limits import broken_bounds, growth_metrics, structural_findings, unmeasurable_findings
from precreg.verdict.regression import (
    OutputEvidence,
    case_alpha,
    find_improvements,
    find_regressions,
    gather_evidence,
    largest_ratio,
    rounding_losses,
    unjudged_outputs,
)


class Policy(Struct, frozen=True):
    """The strictness of a run: in CI a case without a baseline fails; with `require` an unavailable one is an error.

    `baselines` is the number of cases accepted in the environments of the chain, which sets the error level of each
    case.
    """

    ci: bool = False
    require: bool = False
    # All of them, and not only those selected, so that a verdict is the same in any selection.
    baselines: int = 1


# Every other reason fails.
STATUS: dict[Reason, Status] = {
    Reason.IDENTICAL: Status.PASSED,
    Reason.WITHIN_TOLERANCE: Status.PASSED,
    Reason.NOT_CLEAR: Status.PASSED,
    Reason.IMPROVED: Status.PASSED,
    Reason.KNOWN_BAD: Status.PASSED,
    Reason.EXPECTED_FAILURE: Status.PASSED,
    Reason.NEW: Status.PROPOSED,
    Reason.STALE: Status.PROPOSED,
    Reason.INPUTS_CHANGED: Status.PROPOSED,
    Reason.CRASHED: Status.ERROR,
    Reason.TIMED_OUT: Status.ERROR,
    Reason.SUBJECT_ERROR: Status.ERROR,
    Reason.REFERENCE_ERROR: Status.ERROR,
    Reason.ANALYZER_ERROR: Status.ERROR,
    Reason.BENCHMARK_ERROR: Status.ERROR,
    Reason.UNAVAILABLE: Status.SKIPPED,
}


def status_of_reason(reason: str) -> Status:
    """Return the status that a run on a developer's machine gives to a reason; an unknown reason fails."""
    try:
        return STATUS.get(Reason(reason), Status.FAILED)
    except ValueError:
        # A newer version wrote it.
        return Status.FAILED


# Findings of one question are ranked in the order of Reason, which is the table of docs/verdicts.md.
_SEVERITY = list(Reason)

# The reasons of cases with `expect: fail`.
DECLARED_REASONS = frozenset({Reason.EXPECTED_FAILURE, Reason.UNEXPECTED_PASS})

# The wrong figures that `expect: fail` may expect. A missing output or another shape gives no figure.
EXPECTED_FAILURE_REASONS = frozenset(
    {
        Reason.OUT_OF_TOLERANCE,
        Reason.REGRESSED,
        Reason.NONDETERMINISTIC,
        Reason.OVER_BUDGET,
        Reason.NON_FINITE_MISMATCH,
    }
)

# Reasons that rest on a comparison with the figures of the baseline, whose environment the verdict then names.
_COMPARED_REASONS = frozenset({Reason.WITHIN_TOLERANCE, Reason.KNOWN_BAD, Reason.IMPROVED, Reason.REGRESSED})


def judge_case(
    case: Case,
    outcome: Outcome,
    tolerances: Mapping[str, Tolerance],
    baseline: Baseline | None,
    environment: Environment,
    policy: Policy,
) -> Verdict:
    """Judge one case; tolerances has one entry per compared output."""
    found, excused = _findings(case, outcome, tolerances, baseline, environment, policy)
    verdict = verdict_of(found, policy, outcome.described)
    if baseline is not None and baseline.entry.known is not None and excused:
        # A case that breaks a bound is not within its tolerance, though its baseline excuses it.
        reason = Reason.KNOWN_BAD if verdict.reason is Reason.WITHIN_TOLERANCE else verdict.reason
        why = baseline.entry.known.reason
        verdict = replace(verdict, reason=reason, known_bad=why, excused=tuple(excused))
    if baseline is not None and baseline.difference is not None and verdict.reason in _COMPARED_REASONS:
        verdict = replace(verdict, accepted_in=OtherEnvironment(baseline.environment, baseline.difference))
    return verdict if case.expect_failure is None else invert_verdict(verdict, case.expect_failure)


def is_acceptable(
    case: Case,
    outcome: Outcome,
    tolerances: Mapping[str, Tolerance],
    baseline: Baseline | None,
    environment: Environment,
    verdict: Verdict,
) -> bool:
    """Return whether the outcome could become the case's baseline.

    It must be accurate enough, and it must have something to accept: other bits, or seeds or metrics that the baseline
    lacks. A baseline that is known to be bad gives way to a result that is not.
    """
    is_known_bad = baseline is not None and baseline.entry.known is not None
    if not _has_something_to_accept(case, outcome, baseline, verdict) and not is_known_bad:
        return False
    if verdict.reason in DECLARED_REASONS:
        return False
    if baseline is None and verdict.reason is Reason.NEW:
        # It was judged so already.
        return True
    # Judged without a baseline, a case is new only if it can be measured, repeats and is accurate enough.
    return judge_case(case, outcome, tolerances, None, environment, Policy()).reason is Reason.NEW


def acceptable_as_known_bad(
    case: Case,
    outcome: Outcome,
    tolerances: Mapping[str, Tolerance],
    baseline: Baseline | None,
    environment: Environment,
    verdict: Verdict,
) -> KnownBad | None:
    """Return the wrong state of an outcome that could become the case's baseline as known bad; None if it could not.

    It must be wrong by broken bounds or NaN alone, and it must have something to accept.
    """
    if verdict.reason in DECLARED_REASONS or not _has_something_to_accept(case, outcome, baseline, verdict):
        return None
    alone = judge_case(case, outcome, tolerances, None, environment, Policy())
    repeats = not any(undeclared_differences(case, outcome.execution))
    if not repeats or not {finding.reason for finding in alone.findings} <= KNOWN_BAD_REASONS:
        return None
    return known_bad_state(outcome, tolerances)


def _has_something_to_accept(case: Case, outcome: Outcome, baseline: Baseline | None, verdict: Verdict) -> bool:
    # Other bits of a case that need not repeat are nothing to accept: the next run would have others again.
    unmoved = verdict.reason is Reason.IDENTICAL
    unmoved |= verdict.reason in (Reason.WITHIN_TOLERANCE, Reason.KNOWN_BAD) and not case.deterministic
    return not unmoved or baseline is None or _more_to_keep(outcome, baseline.entry)


def _findings(
    case: Case,
    outcome: Outcome,
    tolerances: Mapping[str, Tolerance],
    baseline: Baseline | None,
    environment: Environment,
    policy: Policy,
) -> ExcusedFindings:
    """Return the findings that judge a case, and those that its baseline excuses."""
    failure = outcome.execution.failure
    if failure is not None:
        return ExcusedFindings([Finding(failure.reason, failure.message)], [])
    same_definition = baseline is not None and baseline.entry.definition == case.baseline_definition
    entry = baseline.entry if baseline is not None and same_definition else None
    unknown = [*_without_baseline(case, outcome, baseline, environment)]
    # With other inputs the accepted state says nothing, and a declared failure has a rule of its own.
    has_state = entry is not None and not unknown and case.expect_failure is None
    known = (entry.known if entry is not None and has_state else None) or KnownBad()
    structural = structural_findings(outcome, case.role, entry, empty_passes=case.empty_passes)
    found, mismatches = excuse_mismatches(structural, outcome, known)
    found = found or [*_nondeterminism(case, outcome)]
    if found:
        return ExcusedFindings(found, mismatches)
    broken = (
        finding
        for comparison in _measured(case, outcome)
        for finding in broken_bounds(comparison, tolerances[comparison.output])
    )
    inaccurate, allowed = excuse_bounds(broken, known)
    excused = mismatches + allowed
    if unknown or entry is None:
        return ExcusedFindings(inaccurate or unknown, excused)
    # Equal bits need no evidence.
    same_bits = _same_bits(case, outcome, entry)
    outputs = [] if same_bits else _evidence(case, outcome, tolerances, entry, environment, policy)
    lost = [*_regressions(case, outcome, outputs, entry, environment)]
    grown = [found for output in outputs for found in excused_growth(output, allowed, known)]
    lost += [each for each in grown if (each.output, each.metric) not in {(one.output, one.metric) for one in lost}]
    better: list[Finding] = []
    if entry.known is not None and has_state and not same_bits:
        better = [*known_bad_improvements(outcome, tolerances, known, is_bad=bool(excused))]
        better += [found for output in outputs for found in excused_gains(output, allowed, known)]
    return ExcusedFindings(inaccurate + lost or better or [*_not_regressed(case, outcome, outputs, entry)], excused)


def _measured(case: Case, outcome: Outcome) -> Iterator[Comparison]:
    """Yield the comparisons that have metrics: outputs that must be empty have none."""
    for comparison in outcome.comparisons:
        if comparison.counts.get("n", 0) or not case.empty_passes:
            yield comparison


def _evidence(
    case: Case,
    outcome: Outcome,
    tolerances: Mapping[str, Tolerance],
    entry: BaselineEntry,
    environment: Environment,
    policy: Policy,
) -> list[OutputEvidence]:
    """Compare each output with its baseline."""
    same_environment = environment.has_seen(entry)
    alpha = case_alpha(policy.baselines)
    return [
        gather_evidence(comparisons, entry, tolerances[name], case.role, same_environment=same_environment, alpha=alpha)
        for name, comparisons in comparisons_by_output(outcome).items()
        if not case.empty_passes or any(comparison.counts.get("finite", 0) for comparison in comparisons)
    ]


def _nondeterminism(case: Case, outcome: Outcome) -> Iterator[Finding]:
    """Yield a finding for each output whose repeats differ without being declared to."""
    # Outputs come in the order in which the subject gives them, so the first to differ shows the stage where it starts.
    for number, (name, difference) in enumerate(undeclared_differences(case, outcome.execution)):
        fact = UndeclaredDifference(first=not number, difference=difference)
        yield Finding(Reason.NONDETERMINISTIC, output=name, rule="hard", fact=fact)


def _without_baseline(
    case: Case, outcome: Outcome, baseline: Baseline | None, environment: Environment
) -> Iterator[Finding]:
    if baseline is None:
        yield Finding(Reason.NEW, fact=NoBaseline(environment.chain))
        return
    if baseline.entry.definition != case.baseline_definition:
        yield Finding(Reason.STALE, fact=DefinitionChanged(baseline.file))
        return
    # The definition has no contents of input files, which may have changed meanwhile.
    drawn = list(outcome.execution.inputs)
    seeds = min(len(drawn), len(baseline.entry.inputs))
    if drawn[:seeds] != baseline.entry.inputs[:seeds]:
        yield Finding(Reason.INPUTS_CHANGED, fact=InputsChanged(baseline.file))
        return
    for name in outcome.execution.outputs:
        if name not in baseline.entry.outputs:
            yield Finding(Reason.NEW, output=name, fact=NewOutput(baseline.file))


def _regressions(
    case: Case, outcome: Outcome, outputs: list[OutputEvidence], entry: BaselineEntry, environment: Environment
) -> Iterator[Finding]:
    if case.exact and not _same_bits(case, outcome, entry):
        yield Finding(Reason.REGRESSED, rule="hard", fact=BitsNotExact())
    for output in outputs:
        yield from find_regressions(output)
    yield from _over_budget(case, outcome, entry, environment)


def _over_budget(case: Case, outcome: Outcome, entry: BaselineEntry, environment: Environment) -> Iterator[Finding]:
    limit = case.budget.time_ratio
    if limit is None or not environment.measured_time_of(entry) or entry.duration_s <= 0:
        return
    current, baseline = outcome.execution.duration_s, entry.duration_s
    if current > limit * baseline:
        yield Finding(
            Reason.OVER_BUDGET,
            metric="duration_s",
            current=current,
            baseline=baseline,
            ratio=current / baseline,
            limit=limit,
            rule="budget",
            fact=TimeGrew(),
        )


def _not_regressed(
    case: Case, outcome: Outcome, outputs: list[OutputEvidence], entry: BaselineEntry
) -> Iterator[Finding]:
    runs = _agreeing_runs(case, outcome.execution)
    if _same_bits(case, outcome, entry):
        seeds = len(entry.inputs) if _more_seeds(outcome, entry) else None
        yield Finding(Reason.IDENTICAL, fact=SameBits(seeds, runs))
        return
    improved = [found for output in outputs for found in find_improvements(output)]
    yield from improved or [
        Finding(Reason.WITHIN_TOLERANCE, fact=_passing_fact(_changed_bits(case, outcome.execution), outputs, runs))
    ]


def _passing_fact(bits: ChangedBits, outputs: Sequence[OutputEvidence], runs: int | None) -> NotRegressed:
    unjudged = unjudged_outputs(outputs)
    rounding = rounding_losses(outputs)
    if not unjudged:
        return NotRegressed(bits, largest_ratio(outputs), runs=runs, rounding=rounding)
    has_thresholds = any(growth_metrics(output.tolerance) for output in outputs)
    return NotRegressed(bits, unjudged=unjudged, has_thresholds=has_thresholds, runs=runs, rounding=rounding)


def _more_seeds(outcome: Outcome, entry: BaselineEntry) -> bool:
    return len(outcome.execution.inputs) > len(entry.inputs)


def _more_to_keep(outcome: Outcome, entry: BaselineEntry) -> bool:
    """Return whether a baseline made now would have seeds, or metrics of an analyzer, that the accepted one lacks."""
    return _more_seeds(outcome, entry) or any(
        not entry.outputs[comparison.output].metrics.keys() >= {metric.name for metric in comparison.described}
        for comparison in outcome.comparisons
        if comparison.output in entry.outputs
    )


def _same_bits(case: Case, outcome: Outcome, entry: BaselineEntry) -> bool:
    """Return whether the outputs have the baseline's bits."""
    # A single run of a case that need not repeat has the baseline's bits by luck only, so statistics judge it.
    return (case.deterministic or case.repeats > 1) and all(
        digests_agree(digests, entry.outputs[name].digests)
        for name, digests in outcome.execution.outputs.items()
        if name in entry.outputs
    )


def digests_agree(current: tuple[str, ...], accepted: list[str]) -> bool:
    """Return whether digests are the same at each seed that both sides have."""
    seeds = min(len(current), len(accepted))
    return list(current[:seeds]) == accepted[:seeds]


def comparisons_by_output(outcome: Outcome) -> dict[str, list[Comparison]]:
    """Return the comparisons of each output, in order of seeds."""
    grouped: dict[str, list[Comparison]] = {}
    for comparison in outcome.comparisons:
        grouped.setdefault(comparison.output, []).append(comparison)
    return grouped


def verdict_of(findings: list[Finding], policy: Policy, described: Sequence[MetricDescription]) -> Verdict:
    """Return the verdict of the worst of at least one finding."""
    # Most cases have one finding, and its key takes longer than the rest.
    in_order = len(findings) == 1
    worst_first = tuple(findings if in_order else sorted(findings, key=lambda each: _worst_first(each, described)))
    first = worst_first[0]
    status = STATUS.get(first.reason, Status.FAILED)
    if status is Status.PROPOSED and policy.ci:
        status = Status.FAILED
    if first.reason is Reason.UNAVAILABLE and policy.require:
        status = Status.ERROR
    return Verdict(status, first.reason, findings=worst_first)


def _worst_first(finding: Finding, described: Sequence[MetricDescription]) -> tuple[int, bool, bool, float]:
    """Return the sort key: reasons, lost matches, metrics without a ratio (they were exact), the largest ratios."""
    matches = metric_named(finding.metric, described).better == "higher"
    return _SEVERITY.index(finding.reason), not matches, finding.ratio is not None, -(finding.ratio or 0.0)


# These cases only lack a baseline, so they rank below every measured failure.
_UNJUDGED = frozenset({Reason.NEW, Reason.STALE, Reason.INPUTS_CHANGED})


def largest_loss(verdict: Verdict) -> float:
    """Return the largest ratio of a finding to its limit or baseline; infinity for a failure without a ratio."""
    if verdict.reason in _UNJUDGED:
        return 0.0
    return max((inf if finding.ratio is None else finding.ratio for finding in verdict.findings), default=inf)


def invert_verdict(verdict: Verdict, why: str) -> Verdict:
    """Return the verdict on a case that is declared known-bad for the reason `why`; errors and skips stay."""
    if verdict.reason in EXPECTED_FAILURE_REASONS:
        status, reason = Status.PASSED, Reason.EXPECTED_FAILURE
    elif verdict.status is Status.PASSED:
        status, reason = Status.FAILED, Reason.UNEXPECTED_PASS
    else:
        return verdict
    return replace(verdict, status=status, reason=reason, message="", underlying=verdict.reason, declared=why)


def judge_pair(comparison: Comparison, tolerance: Tolerance, role: Role) -> Verdict:
    """Judge the comparison of one pair of stored arrays, without a baseline."""
    found = (
        [*unmeasurable_findings(comparison, role)] or [*broken_bounds(comparison, tolerance)] or [*_sound(comparison)]
    )
    return verdict_of([replace(finding, output="", seed=None) for finding in found], Policy(), comparison.described)


def unmeasured_verdict(reason: Reason, cause: FindingFact | str) -> Verdict:
    """Return the verdict on a pair that could not be measured, for a missing side or the message of an error."""
    rule: Rule = "hard" if reason is Reason.MISSING_OUTPUT else ""
    found = Finding(reason, cause, rule=rule) if isinstance(cause, str) else Finding(reason, rule=rule, fact=cause)
    return verdict_of([found], Policy(), ())


def _sound(comparison: Comparison) -> Iterator[Finding]:
    if comparison.metrics.get("equal_share") == 1:
        yield Finding(Reason.IDENTICAL, fact=SameElements())
    else:
        yield Finding(Reason.WITHIN_TOLERANCE, fact=BoundsHold())


def undeclared_differences(case: Case, execution: Execution) -> Iterator[tuple[str, RepeatDifference | None]]:
    """Yield the name of each output whose repeats differ without being declared to, and the difference, if known."""
    differences = {difference.output: difference for difference in execution.differences}
    for name in execution.unsteady:
        difference = differences.get(name)
        # A declaration allows other bits; another shape, dtype or set of outputs it does not.
        if case.deterministic or (difference is not None and difference.place is None):
            yield name, difference


def _changed_bits(case: Case, execution: Execution) -> ChangedBits:
    """Return the bits of a case that does not have the baseline's bits."""
    if case.deterministic or (case.repeats > 1 and not execution.unsteady):
        return ChangedBits("change")
    if not execution.unsteady:
        return ChangedBits("undecided")
    name = execution.unsteady[0]
    return ChangedBits("repeats", name, next((each for each in execution.differences if each.output == name), None))


def _agreeing_runs(case: Case, execution: Execution) -> int | None:
    """Return the number of runs of each seed if all agree and the case is declared not to repeat."""
    return None if case.deterministic or case.repeats == 1 or execution.unsteady else case.repeats
