"""Repeats that differ, in words: from which element on, how many, by how much, in which runs; and whether they may.

One case's verdict: a pure function of what was measured, the tolerance, and the baseline.

The first question that finds something decides: was there a result, is it accurate enough, is there a baseline for
it, did it get worse. A result that is not accurate enough is still held against its baseline, and both are told.
A verdict depends on its own case alone, so it is the same in any selection, shard or resume.

The verdict on one stored array held against another: accurate enough or not, without a baseline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from precreg.measure import metric_named
from precreg.types import (
    Baseline,
    BaselineEntry,
    Case,
    Comparison,
    Environment,
    Execution,
    Finding,
    MetricDescription,
    Outcome,
    Reason,
    RepeatDifference,
    Role,
    Status,
    Tolerance,
    Verdict,
)
from precreg.verdict.accuracy import broken_bounds, structural_findings, unmeasurable_findings
from precreg.verdict.regression import (
    OutputEvidence,
    case_alpha,
    describe_evidence,
    find_improvement,
    find_regressions,
    gather_evidence,
)


def undeclared_differences(case: Case, execution: Execution) -> Iterator[tuple[str, str]]:
    """Yield each output whose repeats differ as was not declared, and where: a declaration is of bits alone."""
    differences = {difference.output: difference for difference in execution.differences}
    for name in execution.unsteady:
        difference = differences.get(name)
        if case.deterministic or (difference is not None and difference.place is None):
            yield name, describe_difference(difference)


def describe_bits(case: Case, execution: Execution) -> str:
    """Say what became of the bits of a case whose bits are not the baseline's."""
    if case.deterministic or (case.repeats > 1 and not execution.unsteady):
        return "bits changed"
    if not execution.unsteady:
        return "bits may change from run to run, as declared"
    first = next((each for each in execution.differences if each.output == execution.unsteady[0]), None)
    return f"repeats differ as declared, starting in output {execution.unsteady[0]!r}{describe_difference(first)}"


def describe_unneeded(case: Case, execution: Execution) -> str:
    """Say that runs need not have agreed, where all of them did."""
    if case.deterministic or case.repeats == 1 or execution.unsteady:
        return ""
    return f"; all {case.repeats} runs of each seed agree, so `deterministic: false` may not be needed"


def describe_difference(difference: RepeatDifference | None) -> str:
    """Say where an output of a later run differs from the first run's; nothing of a record that does not know."""
    if difference is None:
        return ""
    runs = f"between run 1 and {difference.repeat} of seed {difference.seed}"
    if difference.place is None:
        return f": not there in both, or of another shape or dtype, {runs}"
    place = f" at {list(difference.place)}" if difference.place else ""
    verb = "differs" if difference.differing == 1 else "differ"
    elements = f"{difference.differing} of {difference.size} elements {verb}"
    return f"{place}: {elements}, {_extent(difference)}, {runs}"


def _extent(difference: RepeatDifference) -> str:
    """Say by how much elements differ, and how many of them cannot say."""
    strange = f"{difference.non_finite} of them NaN or infinite" if difference.non_finite else ""
    if difference.largest is None:
        return strange or "by more than float64 holds"
    distance = f"by at most {difference.largest:.3g}" if difference.largest else "in their bits alone"
    return f"{strange}, {distance}" if strange else distance


class Policy(Struct, frozen=True):
    """What a place asks for: in CI a case without a baseline fails; with `require` an unavailable one is an error.

    `baselines` is the number of cases that were accepted in the environments of the chain, from which the error level
    of each follows: all of them, not those that were selected.
    """

    ci: bool = False
    require: bool = False
    baselines: int = 1


STATUS: dict[Reason, Status] = {
    Reason.IDENTICAL: Status.PASSED,
    Reason.WITHIN_TOLERANCE: Status.PASSED,
    Reason.IMPROVED: Status.PASSED,
    Reason.EXPECTED_FAILURE: Status.PASSED,
    Reason.NEW: Status.PROPOSED,
    Reason.STALE: Status.PROPOSED,
    Reason.INPUTS_CHANGED: Status.PROPOSED,
    Reason.CRASHED: Status.ERROR,
    Reason.TIMED_OUT: Status.ERROR,
    Reason.SUBJECT_ERROR: Status.ERROR,
    Reason.REFERENCE_ERROR: Status.ERROR,
    Reason.ANALYZER_ERROR: Status.ERROR,
    Reason.UNAVAILABLE: Status.SKIPPED,
}
"""Every other reason has failed."""


_SEVERITY = list(Reason)


EXPECTED_FAILURE_REASONS = frozenset(
    {
        Reason.OUT_OF_TOLERANCE,
        Reason.REGRESSED,
        Reason.NONDETERMINISTIC,
        Reason.OVER_BUDGET,
        Reason.NON_FINITE_MISMATCH,
    }
)
"""What `expect: fail` may expect: wrong figures. A missing output or another shape is no figure at all."""


def judge_case(
    case: Case,
    outcome: Outcome,
    tolerances: Mapping[str, Tolerance],
    baseline: Baseline | None,
    environment: Environment,
    policy: Policy,
) -> Verdict:
    """Judge one case; tolerances has one entry per compared output."""
    plain = verdict_of(_findings(case, outcome, tolerances, baseline, environment, policy), policy, outcome.described)
    plain = replace(plain, message=plain.message + _elsewhere(plain.reason, baseline))
    return plain if case.expect_failure is None else invert_verdict(plain, case.expect_failure)


_OF_CHANGE = frozenset({Reason.WITHIN_TOLERANCE, Reason.IMPROVED, Reason.REGRESSED})


def _elsewhere(reason: Reason, baseline: Baseline | None) -> str:
    """Name the level of the environment that a change was judged by, and what is different here, if anything is."""
    if baseline is None or not baseline.change or reason not in _OF_CHANGE:
        return ""
    return f"; by the baseline of {baseline.environment}, accepted elsewhere: {baseline.change}"


def is_acceptable(
    case: Case,
    outcome: Outcome,
    tolerances: Mapping[str, Tolerance],
    baseline: Baseline | None,
    environment: Environment,
    verdict: Verdict,
) -> bool:
    """Tell whether the case as it is now could become its own baseline.

    It must be sound and accurate enough, as one without a baseline would be, and there must be something to accept:
    other bits, or seeds or metrics that the baseline does not have. Bits that may differ from run to run are nothing.
    """
    if verdict.reason in (Reason.EXPECTED_FAILURE, Reason.UNEXPECTED_PASS):
        return False
    unmoved = verdict.reason is Reason.IDENTICAL
    unmoved |= verdict.reason is Reason.WITHIN_TOLERANCE and not case.deterministic
    if unmoved and baseline is not None and not _more_to_keep(outcome, baseline.entry):
        return False
    return judge_case(case, outcome, tolerances, None, environment, Policy()).reason is Reason.NEW


def _findings(
    case: Case,
    outcome: Outcome,
    tolerances: Mapping[str, Tolerance],
    baseline: Baseline | None,
    environment: Environment,
    policy: Policy,
) -> list[Finding]:
    failure = outcome.execution.failure
    if failure is not None:
        return [Finding(failure.reason, failure.message)]
    defined_alike = baseline is not None and baseline.entry.definition == case.baseline_definition
    entry = baseline.entry if baseline is not None and defined_alike else None
    found = [*structural_findings(outcome, case.role, entry)] or [*_nondeterminism(case, outcome)]
    if found:
        return found
    inaccurate = [*_out_of_tolerance(outcome, tolerances)]
    unknown = [*_without_baseline(case, outcome, baseline, environment)]
    if unknown or entry is None:
        return inaccurate or unknown
    alike = entry.fingerprint == environment.fingerprint
    level = case_alpha(policy.baselines)
    changed = {} if _same_bits(case, outcome, entry) else _by_output(outcome)
    outputs = [
        gather_evidence(comparisons, entry, tolerances[name], case.role, alike=alike, level=level)
        for name, comparisons in changed.items()
    ]
    lost = [*_worse(case, outcome, outputs, entry, environment)]
    return inaccurate + lost or [*_not_worse(case, outcome, outputs, entry)]


def _nondeterminism(case: Case, outcome: Outcome) -> Iterator[Finding]:
    """Say of each output whose repeats differ as they may not where they do; the first one is where it starts."""
    for number, (name, where) in enumerate(undeclared_differences(case, outcome.execution)):
        message = f"{'differs too' if number else f'starts in output {name!r}'}{where}"
        yield Finding(Reason.NONDETERMINISTIC, message, name, rule="hard")


def _out_of_tolerance(outcome: Outcome, tolerances: Mapping[str, Tolerance]) -> Iterator[Finding]:
    for comparison in outcome.comparisons:
        yield from broken_bounds(comparison, tolerances[comparison.output])


def _without_baseline(
    case: Case, outcome: Outcome, baseline: Baseline | None, environment: Environment
) -> Iterator[Finding]:
    if baseline is None:
        yield Finding(Reason.NEW, f"no baseline in {', '.join(environment.chain)}")
        return
    if baseline.entry.definition != case.baseline_definition:
        message = f"the case is defined otherwise than when {baseline.file} was accepted"
        yield Finding(Reason.STALE, f"{message} (subject, reference, params or inputs)")
        return
    drawn = list(outcome.execution.inputs)
    seeds = min(len(drawn), len(baseline.entry.inputs))
    if drawn[:seeds] != baseline.entry.inputs[:seeds]:
        yield Finding(
            Reason.INPUTS_CHANGED, f"the same definition gave other inputs than when {baseline.file} was accepted"
        )
        return
    for name in outcome.execution.outputs:
        if name not in baseline.entry.outputs:
            yield Finding(Reason.NEW, f"output {name!r} has no baseline in {baseline.file}", name)


def _worse(
    case: Case, outcome: Outcome, outputs: list[OutputEvidence], entry: BaselineEntry, environment: Environment
) -> Iterator[Finding]:
    if case.exact and not _same_bits(case, outcome, entry):
        yield Finding(Reason.REGRESSED, "the case is declared exact, and its bits are not the baseline's", rule="hard")
    for output in outputs:
        yield from find_regressions(output)
    yield from _over_budget(case, outcome, entry, environment)


def _over_budget(case: Case, outcome: Outcome, entry: BaselineEntry, environment: Environment) -> Iterator[Finding]:
    limit = case.budget.time_ratio
    if limit is None or entry.fingerprint != environment.fingerprint or entry.duration_s <= 0:
        return
    current, baseline = outcome.execution.duration_s, entry.duration_s
    if current > limit * baseline:
        message = f"the subject took {current:.3g} s, {current / baseline:.3g} times the baseline's {baseline:.3g} s"
        figures = (current, baseline, current / baseline, limit)
        yield Finding(Reason.OVER_BUDGET, message, "", "duration_s", None, *figures, rule="budget")


def _not_worse(case: Case, outcome: Outcome, outputs: list[OutputEvidence], entry: BaselineEntry) -> Iterator[Finding]:
    if _same_bits(case, outcome, entry):
        seeds = f"; seeds from {len(entry.inputs)} on have no baseline" if _more_seeds(outcome, entry) else ""
        yield Finding(
            Reason.IDENTICAL, f"every output has the baseline's bits{seeds}{describe_unneeded(case, outcome.execution)}"
        )
        return
    better = [found for found in map(find_improvement, outputs) if found is not None]
    yield from better or [
        Finding(
            Reason.WITHIN_TOLERANCE,
            f"{describe_bits(case, outcome.execution)}, and {describe_evidence(outputs)}"
            f"{describe_unneeded(case, outcome.execution)}",
        )
    ]


def _more_seeds(outcome: Outcome, entry: BaselineEntry) -> bool:
    return len(outcome.execution.inputs) > len(entry.inputs)


def _more_to_keep(outcome: Outcome, entry: BaselineEntry) -> bool:
    """Tell whether a baseline made now would have seeds, or metrics of an analyzer, that the accepted one lacks."""
    return _more_seeds(outcome, entry) or any(
        not entry.outputs[comparison.output].metrics.keys() >= {metric.name for metric in comparison.described}
        for comparison in outcome.comparisons
        if comparison.output in entry.outputs
    )


def _same_bits(case: Case, outcome: Outcome, entry: BaselineEntry) -> bool:
    """Tell whether digests decide, and are the baseline's: one run of what need not repeat has them by luck."""
    return (case.deterministic or case.repeats > 1) and all(
        digests_agree(digests, entry.outputs[name].digests)
        for name, digests in outcome.execution.outputs.items()
        if name in entry.outputs
    )


def digests_agree(current: tuple[str, ...], accepted: list[str]) -> bool:
    """Tell whether digests are the same at each seed that both sides have."""
    seeds = min(len(current), len(accepted))
    return list(current[:seeds]) == accepted[:seeds]


def _by_output(outcome: Outcome) -> dict[str, list[Comparison]]:
    grouped: dict[str, list[Comparison]] = {}
    for comparison in outcome.comparisons:
        grouped.setdefault(comparison.output, []).append(comparison)
    return grouped


def verdict_of(findings: list[Finding], policy: Policy, described: Sequence[MetricDescription]) -> Verdict:
    """Return the verdict that the worst of the findings, of which there is at least one, decides."""
    worst_first = tuple(sorted(findings, key=lambda finding: _order(finding, described)))
    first = worst_first[0]
    status = STATUS.get(first.reason, Status.FAILED)
    if status is Status.PROPOSED and policy.ci:
        status = Status.FAILED
    if first.reason is Reason.UNAVAILABLE and policy.require:
        status = Status.ERROR
    return Verdict(status, first.reason, _sentence(first), worst_first)


def _order(finding: Finding, described: Sequence[MetricDescription]) -> tuple[int, bool, bool, float]:
    """Worst first: by reason, then lost matches, then those without a ratio (was exact), then by the largest ratio."""
    matches = metric_named(finding.metric, described).better == "higher"
    return _SEVERITY.index(finding.reason), not matches, finding.ratio is not None, -(finding.ratio or 0.0)


def _sentence(finding: Finding) -> str:
    names_its_output = not finding.output or finding.reason is Reason.NONDETERMINISTIC
    message = finding.message if names_its_output else f"{finding.output}: {finding.message}"
    within = finding.reason is Reason.REGRESSED
    return f"{message}, though within tolerance" if within else message


def invert_verdict(plain: Verdict, why: str) -> Verdict:
    """Return the verdict on a case that is declared to be known-bad, and why it is; errors and the like stay."""
    if plain.reason in EXPECTED_FAILURE_REASONS:
        message = f"failed as declared ({why}): {plain.reason}: {plain.message}"
        return replace(
            plain, status=Status.PASSED, reason=Reason.EXPECTED_FAILURE, message=message, underlying=plain.reason
        )
    if plain.status is Status.PASSED:
        message = f"declared known-bad ({why}), yet it passed: {plain.message}; remove expect: fail"
        return replace(
            plain, status=Status.FAILED, reason=Reason.UNEXPECTED_PASS, message=message, underlying=plain.reason
        )
    return plain


def judge_pair(comparison: Comparison, tolerance: Tolerance, role: Role) -> Verdict:
    """Judge what was measured of one pair by the questions that are asked of a case, up to its baseline."""
    found = (
        [*unmeasurable_findings(comparison, role)] or [*broken_bounds(comparison, tolerance)] or [*_sound(comparison)]
    )
    return verdict_of([replace(finding, output="", seed=None) for finding in found], Policy(), comparison.described)


def unmeasured_verdict(reason: Reason, message: str) -> Verdict:
    """Return the verdict on what could not be measured: a side is missing, or cannot be read."""
    return verdict_of([Finding(reason, message, rule="hard" if reason is Reason.MISSING_OUTPUT else "")], Policy(), ())


def _sound(comparison: Comparison) -> Iterator[Finding]:
    if comparison.metrics.get("equal_share") == 1:
        yield Finding(Reason.IDENTICAL, "every element is the reference's, to the bit, in the actual's dtype")
    else:
        yield Finding(Reason.WITHIN_TOLERANCE, "every bound holds")
