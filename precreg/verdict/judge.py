"""One case's verdict: a pure function of what was measured, the tolerance, and the baseline.

The first question that finds something decides: was there a result, is it accurate enough, is there a baseline for
it, did it get worse. A result that is not accurate enough is still held against its baseline, and both are told.
A verdict depends on its own case alone, so it is the same in any selection, shard or resume.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from precreg.measure.metrics import described
from precreg.types.records import Baseline, BaselineEntry, Environment
from precreg.types.types import Case, Comparison, Finding, Outcome, Reason, Status, Tolerance, Verdict
from precreg.verdict.bounds import broken_bounds
from precreg.verdict.regression import Held, error_level, held, improvement, judged, worse
from precreg.verdict.repeats import bits, unforeseen, unneeded
from precreg.verdict.structure import structural_findings


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


KNOWN_BAD = frozenset(
    {
        Reason.OUT_OF_TOLERANCE,
        Reason.REGRESSED,
        Reason.NONDETERMINISTIC,
        Reason.OVER_BUDGET,
        Reason.NON_FINITE_MISMATCH,
    }
)
"""What `expect: fail` may expect: wrong figures. A missing output or another shape is no figure at all."""


def judge(
    case: Case,
    outcome: Outcome,
    tolerances: Mapping[str, Tolerance],
    baseline: Baseline | None,
    environment: Environment,
    policy: Policy,
) -> Verdict:
    """Judge one case; tolerances has one entry per compared output."""
    plain = verdict_of(_findings(case, outcome, tolerances, baseline, environment, policy), policy)
    plain = replace(plain, message=plain.message + _elsewhere(plain.reason, baseline))
    return plain if case.expect_failure is None else inverted(plain, case.expect_failure)


_OF_CHANGE = frozenset({Reason.WITHIN_TOLERANCE, Reason.IMPROVED, Reason.REGRESSED})


def _elsewhere(reason: Reason, baseline: Baseline | None) -> str:
    """Name the level of the environment that a change was judged by, and what is different here, if anything is."""
    if baseline is None or not baseline.change or reason not in _OF_CHANGE:
        return ""
    return f"; by the baseline of {baseline.environment}, accepted elsewhere: {baseline.change}"


def acceptable(
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
    return judge(case, outcome, tolerances, None, environment, Policy()).reason is Reason.NEW


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
    level = error_level(policy.baselines)
    changed = {} if _same_bits(case, outcome, entry) else _by_output(outcome)
    outputs = [
        held(comparisons, entry, tolerances[name], case.role, alike=alike, level=level)
        for name, comparisons in changed.items()
    ]
    lost = [*_worse(case, outcome, outputs, entry, environment)]
    return inaccurate + lost or [*_not_worse(case, outcome, outputs, entry)]


def _nondeterminism(case: Case, outcome: Outcome) -> Iterator[Finding]:
    """Say of each output whose repeats differ as they may not where they do; the first one is where it starts."""
    for number, (name, where) in enumerate(unforeseen(case, outcome.execution)):
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
    case: Case, outcome: Outcome, outputs: list[Held], entry: BaselineEntry, environment: Environment
) -> Iterator[Finding]:
    if case.exact and not _same_bits(case, outcome, entry):
        yield Finding(Reason.REGRESSED, "the case is declared exact, and its bits are not the baseline's", rule="hard")
    for output in outputs:
        yield from worse(output)
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


def _not_worse(case: Case, outcome: Outcome, outputs: list[Held], entry: BaselineEntry) -> Iterator[Finding]:
    if _same_bits(case, outcome, entry):
        seeds = f"; seeds from {len(entry.inputs)} on have no baseline" if _more_seeds(outcome, entry) else ""
        yield Finding(
            Reason.IDENTICAL, f"every output has the baseline's bits{seeds}{unneeded(case, outcome.execution)}"
        )
        return
    better = [found for found in map(improvement, outputs) if found is not None]
    yield from better or [
        Finding(
            Reason.WITHIN_TOLERANCE,
            f"{bits(case, outcome.execution)}, and {judged(outputs)}{unneeded(case, outcome.execution)}",
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
        agree(digests, entry.outputs[name].digests)
        for name, digests in outcome.execution.outputs.items()
        if name in entry.outputs
    )


def agree(current: tuple[str, ...], accepted: list[str]) -> bool:
    """Tell whether digests are the same at each seed that both sides have."""
    seeds = min(len(current), len(accepted))
    return list(current[:seeds]) == accepted[:seeds]


def _by_output(outcome: Outcome) -> dict[str, list[Comparison]]:
    grouped: dict[str, list[Comparison]] = {}
    for comparison in outcome.comparisons:
        grouped.setdefault(comparison.output, []).append(comparison)
    return grouped


def verdict_of(findings: list[Finding], policy: Policy) -> Verdict:
    """Return the verdict that the worst of the findings, of which there is at least one, decides."""
    worst_first = tuple(sorted(findings, key=_order))
    first = worst_first[0]
    status = STATUS.get(first.reason, Status.FAILED)
    if status is Status.PROPOSED and policy.ci:
        status = Status.FAILED
    if first.reason is Reason.UNAVAILABLE and policy.require:
        status = Status.ERROR
    return Verdict(status, first.reason, _sentence(first), worst_first)


def _order(finding: Finding) -> tuple[int, bool, bool, float]:
    """Worst first: by reason, then lost matches, then those without a ratio (was exact), then by the largest ratio."""
    matches = described(finding.metric).better == "higher"
    return _SEVERITY.index(finding.reason), not matches, finding.ratio is not None, -(finding.ratio or 0.0)


def _sentence(finding: Finding) -> str:
    names_its_output = not finding.output or finding.reason is Reason.NONDETERMINISTIC
    message = finding.message if names_its_output else f"{finding.output}: {finding.message}"
    within = finding.reason is Reason.REGRESSED
    return f"{message}, though within tolerance" if within else message


def inverted(plain: Verdict, why: str) -> Verdict:
    """Return the verdict on a case that is declared to be known-bad, and why it is; errors and the like stay."""
    if plain.reason in KNOWN_BAD:
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
