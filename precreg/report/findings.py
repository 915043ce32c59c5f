"""Which sentences state a verdict, its findings, and the environment of its baseline?

Rooms below this one give facts with empty messages. The functions `add_...` fill these in once, before a record or a
result leaves the program. A message that is there, such as the words of an exception or of an old record, stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import assert_never

from msgspec.structs import replace

from precreg.measure import METRICS
from precreg.report.pairs import describe_pair_fact, describe_pair_problem
from precreg.report.run_findings import add_run_finding_message
from precreg.report.sections import (
    describe_exactness,
    describe_figure,
    describe_grown_seeds,
    describe_recorded,
    describe_rounding_loss,
    describe_unjudged,
)
from precreg.types import (
    AbsenceFact,
    AbsentArray,
    AbsentFigures,
    AbsentOutput,
    Baseline,
    BitsNotExact,
    Bound,
    BoundsHold,
    BrokenBound,
    BrokenLimit,
    CaseResult,
    ChangedBits,
    ChangedEnvironment,
    DefinitionChanged,
    EnvironmentDifference,
    EnvironmentFact,
    ExactnessGained,
    ExactnessLost,
    FigureMoved,
    Finding,
    InputsChanged,
    JudgeFact,
    KnownBadFact,
    KnownBadFixed,
    LargestRatio,
    MatchesLost,
    MaximaGrew,
    MetricGrew,
    MetricImproved,
    NewOutput,
    NoAlternative,
    NoBaseline,
    NoCommonName,
    NoElement,
    NoFinitePair,
    NonFiniteElements,
    NonFiniteFigures,
    NonFiniteMoved,
    NothingCompared,
    NotRegressed,
    OtherDtype,
    OtherShape,
    PairedRun,
    PairFact,
    PassFact,
    RatioMoved,
    Reason,
    RegressionFact,
    RepeatDifference,
    RunRecord,
    SameBits,
    SameDescription,
    SameElements,
    SideContents,
    SmallOutputGrew,
    StructureFact,
    TimeGrew,
    UndeclaredDifference,
    UnknownEnvironment,
    Verdict,
    format_distinct,
)


def add_messages(record: RunRecord) -> RunRecord:
    """Fill in the empty messages of a record."""
    return replace(
        record,
        results=tuple(map(add_result_messages, record.results)),
        findings=tuple(map(add_run_finding_message, record.findings)),
    )


def add_result_messages(result: CaseResult) -> CaseResult:
    """Fill in the empty messages of a result."""
    return replace(
        result,
        verdict=add_verdict_messages(result.verdict),
        baseline=result.baseline and _add_change(result.baseline),
        accepted=result.accepted and _add_change(result.accepted),
        paired=result.paired and _add_problem(result.paired),
    )


def _add_problem(paired: PairedRun) -> PairedRun:
    if paired.problem or paired.cause is None:
        return paired
    return replace(paired, problem=describe_pair_problem(paired.cause))


def _add_change(baseline: Baseline) -> Baseline:
    if baseline.change or baseline.difference is None:
        return baseline
    return replace(baseline, change=describe_environment_difference(baseline.difference))


def add_verdict_messages(verdict: Verdict) -> Verdict:
    """Fill in the empty messages of a verdict and of its findings."""
    if verdict.message:
        return verdict
    named = replace(
        verdict,
        findings=tuple(map(add_finding_message, verdict.findings)),
        excused=tuple(map(add_finding_message, verdict.excused)),
    )
    return replace(named, message=_describe_verdict(named))


def add_finding_message(finding: Finding) -> Finding:
    """Fill in the message of a finding, unless it has one."""
    return finding if finding.message else replace(finding, message=describe_finding(finding))


def _describe_verdict(verdict: Verdict) -> str:
    """Write the message of the worst finding, the environment of the baseline, and a declaration as known-bad."""
    if not verdict.findings:
        return ""
    first = verdict.findings[0]
    # The message of nondeterminism names its output itself.
    named = not first.output or first.reason is Reason.NONDETERMINISTIC
    message = first.message if named else f"{first.output}: {first.message}"
    # A broken bound would be the worse reason, so a regression that decides is always within tolerance.
    is_known_bad = bool(verdict.excused) or isinstance(first.fact, NonFiniteMoved)
    if first.reason is Reason.REGRESSED and not is_known_bad:
        message += ", though within tolerance"
    if verdict.excused:
        message += f"; known bad ({verdict.known_bad}): {_describe_excused(verdict.excused)}"
    if verdict.accepted_in is not None:
        change = describe_environment_difference(verdict.accepted_in.difference)
        message += f"; by the baseline of {verdict.accepted_in.environment}, accepted in another environment: {change}"
    if verdict.reason is Reason.EXPECTED_FAILURE:
        return f"failed as declared ({verdict.declared}): {verdict.underlying}: {message}"
    if verdict.reason is Reason.UNEXPECTED_PASS:
        return f"declared known-bad ({verdict.declared}), yet it passed: {message}; remove expect: fail"
    return message


def _describe_excused(excused: Sequence[Finding]) -> str:
    """Write the first excused finding, and the number of the others."""
    first = excused[0]
    more = f" and {len(excused) - 1} more" if excused[1:] else ""
    return f"{first.output}: {first.message}{more}"


def describe_finding(finding: Finding) -> str:
    """Write the sentence of a finding, without its output and its seed."""
    fact = finding.fact
    if fact is None:
        return finding.message
    if isinstance(fact, AbsenceFact):
        return _describe_absence(fact, finding.output)
    if isinstance(fact, StructureFact):
        return _describe_structure(fact)
    if isinstance(fact, BrokenBound | NoAlternative):
        return _describe_broken_bound(fact, finding)
    if isinstance(fact, JudgeFact):
        return _describe_missing_judge(fact, finding.output)
    if isinstance(fact, RegressionFact):
        return _describe_regression(fact, finding)
    if isinstance(fact, PairFact):
        return describe_pair_fact(fact, finding)
    if isinstance(fact, KnownBadFact):
        return _describe_known_bad(fact)
    return _describe_pass(fact)


def _describe_known_bad(fact: KnownBadFact) -> str:
    """Write how a case changed whose baseline was accepted as known bad."""
    match fact:
        case NonFiniteMoved():
            now = f"{fact.nan_now} elements differ in NaN and {fact.inf_now} in infinity"
            return f"{now}; {fact.nan_before} and {fact.inf_before} did in the baseline that is known to be bad"
        case KnownBadFixed(why):
            return f"every bound holds; the baseline was accepted as known bad ({why}), so accept an ordinary one"
        case _:
            assert_never(fact)


def _describe_absence(fact: AbsenceFact, output: str) -> str:
    """Write which output or array is missing."""
    match fact:
        case AbsentOutput("baseline"):
            return f"the baseline has an output {output!r} that is gone"
        case AbsentOutput(side):
            return f"the subject gave no output {output!r}, which the {side} has"
        case AbsentFigures():
            return describe_recorded(fact)
        case NothingCompared():
            return "nothing was compared: neither side gave an output"
        case AbsentArray(side, array):
            return f"the {side} side has no array {array!r}"
        case NoCommonName(actual, reference):
            sides = f"{_describe_side(actual)}, {_describe_side(reference)}"
            return f"nothing was compared: no name is on both sides ({sides})"
        # mypy then reports a new fact that has no sentence yet.
        case _:
            assert_never(fact)


def _describe_structure(fact: StructureFact) -> str:
    """Write why an output could not be measured."""
    match fact:
        case OtherShape(expected, actual, "baseline"):
            return f"expected the baseline's shape {_shape(expected)} but got {_shape(actual)}"
        case OtherShape(expected, actual):
            return f"expected shape {_shape(expected)} but got shape={_shape(actual)}"
        case OtherDtype(expected, actual, side):
            return f"expected the {side}'s dtype {expected} but got dtype={actual}"
        case NonFiniteElements(differing, size, first):
            counted = f"{differing} of {size} elements differ in NaN or infinity"
            if first is None:
                return counted
            return f"{counted}, first at {first.index}: actual {first.actual}, reference {first.reference}"
        case NonFiniteFigures():
            return describe_recorded(fact)
        case NoElement(shape):
            return f"shape {_shape(shape)} has no element"
        case NoFinitePair():
            return "not one pair of elements is finite, so nothing was measured"
        case _:
            assert_never(fact)


def _describe_side(contents: SideContents) -> str:
    more = f" and {contents.others} more" if contents.others else ""
    return f"{contents.side} has {', '.join(contents.arrays) or 'no array'}{more}"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _describe_broken_bound(fact: BrokenBound | NoAlternative, finding: Finding) -> str:
    """Write the broken limits, the layer that set them, and rtol and atol of a match ratio."""
    if isinstance(fact, BrokenBound):
        broken = _describe_limit(fact.broken)
    else:
        facts = "; or ".join(", and ".join(map(_describe_limit, each)) for each in fact.alternatives)
        broken = f"none of {len(fact.alternatives)} alternatives holds: {facts}"
    return f"{broken} ({fact.layer}, {finding.source}){_describe_closeness(fact.closeness)}"


def _describe_limit(broken: BrokenLimit) -> str:
    infinite = bool(broken.error) and broken.benchmark_error == 0
    unknown = "is infinite" if infinite else "is not defined on this data"
    if (metric := METRICS.get(broken.metric)) is not None and metric.needs_samples:
        unknown = "needs an output of real numbers and stochastic: in the suite"
    unknown = "needs a benchmark" if broken.lacks_benchmark else unknown
    got = unknown if broken.current is None else f"is {broken.current:.7g}"
    relation = "at least" if broken.at_least else "at most"
    return f"{broken.metric} {got}{_describe_sides(broken)}, and must be {relation} {broken.limit:.7g}"


def _describe_sides(broken: BrokenLimit) -> str:
    """Write the two errors of a ratio to a benchmark, and the floor if it counts in place of the benchmark's."""
    if broken.error is None or broken.benchmark_error is None:
        return ""
    error, other, floor = format_distinct([broken.error, broken.benchmark_error, broken.floor])
    floored = f", which counts as {floor}" if floor else ""
    return f" ({error}, the benchmark's {other}{floored})"


def _describe_closeness(closeness: Sequence[Bound]) -> str:
    limits = ", ".join(f"{bound.metric}={bound.limit:g} ({bound.source})" for bound in closeness)
    return f" at {limits}" if limits else ""


def _describe_missing_judge(fact: JudgeFact, output: str) -> str:
    """Write why no baseline judges."""
    match fact:
        case NoBaseline(environments):
            return f"no baseline in {', '.join(environments)}"
        case NewOutput(file):
            return f"output {output!r} has no baseline in {file}"
        case DefinitionChanged(file):
            changed = f"the definition of the case changed since {file} was accepted"
            return f"{changed} (subject, reference, params or inputs)"
        case InputsChanged(file):
            return f"the inputs changed since {file} was accepted, with the same definition"
        case _:
            assert_never(fact)


def _describe_regression(fact: RegressionFact, finding: Finding) -> str:
    """Write a change against the baseline, with the figures of the finding."""
    current, baseline = (inf if value is None else value for value in (finding.current, finding.baseline))
    match fact:
        case BitsNotExact():
            return "the case is declared exact, and its bits are not the baseline's"
        case ExactnessLost() | ExactnessGained():
            return describe_exactness(fact, finding.metric, current, baseline)
        case MatchesLost(tested):
            counts = "more than runs differ by" if tested else "any loss counts"
            return f"{finding.metric} against the golden fell from {baseline:.7g} to {current:.7g}; {counts}"
        case RatioMoved():
            return _describe_ratio(finding, fact.judge) + _describe_maximum(fact)
        case MetricGrew() | MetricImproved() | SmallOutputGrew() | MaximaGrew():
            return _describe_growth(fact, finding, current, baseline) + describe_grown_seeds(fact)
        case FigureMoved():
            return describe_figure(fact, finding, current, baseline)
        case TimeGrew():
            times = f"{current / baseline:.3g} times the baseline's {baseline:.3g} s"
            return f"the subject took {current:.3g} s, {times}"
        case UndeclaredDifference(first, difference):
            begins = f"starts in output {finding.output!r}" if first else "differs too"
            return f"{begins}{describe_difference(difference)}"
        case _:
            assert_never(fact)


def _describe_growth(
    fact: MetricGrew | MetricImproved | SmallOutputGrew | MaximaGrew, finding: Finding, current: float, baseline: float
) -> str:
    if finding.ratio is None:
        return f"{finding.metric} was {baseline:.4g} and is {current:.4g}"
    times, allowed, _ = format_distinct([finding.ratio, finding.limit, 1.0], 3)
    figures = " -> ".join(format_distinct([baseline, current]))
    limit = "an improvement from" if isinstance(fact, MetricImproved) else "allowed"
    judge = "baseline" if isinstance(fact, MaximaGrew) else fact.judge
    return f"{finding.metric} {_describe_change(finding.ratio, times, judge)} ({figures}, {limit} {allowed}x)"


def _describe_change(ratio: float, times: str, judge: str) -> str:
    """Write a ratio to the baseline or the benchmark with the verb of its direction."""
    return f"fell to {times}x of the {judge}" if ratio < 1 else f"grew {times}x over the {judge}"


def _describe_ratio(finding: Finding, judge: str) -> str:
    """Write a ratio with its confidence interval and the largest ratio within noise."""
    ratio, lower, upper, floor, min_ratio = (
        inf if value is None else value
        for value in (finding.ratio, finding.lower, finding.upper, finding.floor, finding.limit)
    )
    known = finding.current is not None and finding.baseline is not None
    figures = f"{' -> '.join(format_distinct([finding.baseline, finding.current]))}, " if known else ""
    if METRICS[finding.metric].scale == "signed":
        verb, growth = ("grew", ratio - 1) if ratio >= 1 else ("fell", 1 - ratio)
        bounds = sorted((abs(lower - 1), abs(upper - 1)))
        interval = f"between {bounds[0]:.3g} and {bounds[1]:.3g}"
        return f"{finding.metric} {verb} by {growth:.3g} of the mean |d| ({figures}{interval})"
    noise = f"up to {_times(floor, ratio, 3)}x" if floor < inf else "unbounded"
    scale = " in the scale of each element" if METRICS[finding.metric].unit != "value" else ""
    change = f"{finding.metric} {_describe_change(ratio, _times(ratio, floor, 4), judge)}{scale}"
    if isinstance(finding.fact, RatioMoved) and finding.fact.typical:
        change += " in a typical group of elements"
    return f"{change} ({figures}{_interval(lower, upper, min_ratio)}; noise alone: {noise})"


def _times(ratio: float, other: float, digits: int) -> str:
    """Format a ratio with the digits that distinguish it from 1 and from the other one."""
    return format_distinct([ratio, other, 1.0], digits)[0]


def _interval(lower: float | None, upper: float | None, min_ratio: float) -> str:
    """Format the bounds of a ratio with the digits that distinguish them from 1 and the minimum relevant ratio."""
    least, most = (format_distinct([bound, min_ratio, 1.0], 3)[0] for bound in (lower, upper))
    return f"between {least} and {most}"


def _describe_maximum(fact: RatioMoved) -> str:
    """Write the rise of the maximum of an output that improved; empty if it did not rise."""
    before, now = fact.maximum_before, fact.maximum_now
    if before is None or now is None:
        return ""
    times = f", {now / before:.3g} times" if before else ""
    return f"; its maximum rose from {before:.4g} to {now:.4g}{times}"


def _describe_pass(fact: PassFact) -> str:
    """Write why a case passed."""
    match fact:
        case SameBits(seeds, runs):
            others = "" if seeds is None else f"; seeds from {seeds} on have no baseline"
            return f"every output has the baseline's bits{others}{_describe_agreement(runs)}"
        case NotRegressed():
            evidence = describe_unjudged(fact) if fact.largest is None else _describe_largest(fact.largest)
            lost = "".join(map(describe_rounding_loss, fact.rounding))
            return f"{_describe_bits(fact.bits)}, and {evidence}{lost}{_describe_agreement(fact.runs)}"
        case SameElements():
            return "every element is the reference's, to the bit, in the actual's dtype"
        case BoundsHold():
            return "every bound holds"
        case _:
            assert_never(fact)


def _describe_agreement(runs: int | None) -> str:
    if runs is None:
        return ""
    return f"; all {runs} runs of each seed agree, so `deterministic: false` may not be needed"


def _describe_bits(bits: ChangedBits) -> str:
    match bits.cause:
        case "change":
            return "bits changed"
        case "undecided":
            return "bits may change from run to run, as declared"
        case "repeats":
            place = describe_difference(bits.difference)
            return f"repeats differ as declared, starting in output {bits.output!r}{place}"
        case _:
            assert_never(bits.cause)


def _describe_largest(largest: LargestRatio) -> str:
    ratio = inf if largest.ratio is None else largest.ratio
    interval = _interval(largest.lower, largest.upper, largest.min_ratio)
    times = f"{_times(ratio, 1.0, 4)} times the baseline's, {interval}"
    return f"no judged metric is worse: {largest.output}: {largest.metric} is {times}"


def describe_difference(difference: RepeatDifference | None) -> str:
    """Write where an output of a later run differs from the first run's; empty for an unknown difference."""
    if difference is None:
        return ""
    runs = f"between run 1 and {difference.repeat} of seed {difference.seed}"
    if difference.place is None:
        return f": missing in one of them, or of another shape or dtype, {runs}"
    place = f" at {list(difference.place)}" if difference.place else ""
    verb = "differs" if difference.differing == 1 else "differ"
    elements = f"{difference.differing} of {difference.size} elements {verb}"
    return f"{place}: {elements}, {_extent(difference)}, {runs}"


def _extent(difference: RepeatDifference) -> str:
    """Write by how much elements differ, and how many are NaN or infinite."""
    strange = f"{difference.non_finite} of them NaN or infinite" if difference.non_finite else ""
    if difference.largest is None:
        return strange or "by more than float64 holds"
    # A largest difference of 0 comes from 0.0 and -0.0, or from other bits of NaN.
    largest_difference = f"by at most {difference.largest:.3g}" if difference.largest else "in their bits alone"
    return f"{strange}, {largest_difference}" if strange else largest_difference


def describe_environment_difference(difference: EnvironmentDifference) -> str:
    """Write the differing facts: `numpy 2.3.5 -> 2.5.1, cpu_features without AVX512F`."""
    match difference:
        case ChangedEnvironment(facts):
            return ", ".join(map(_describe_environment_fact, facts))
        case UnknownEnvironment(fingerprint):
            return f"nothing is kept of the environment {fingerprint}"
        case SameDescription(before, now):
            return f"environments {before} and {now} have the same description"
        case _:
            assert_never(difference)


def _describe_environment_fact(fact: EnvironmentFact) -> str:
    name, before, now = fact.name, fact.before, fact.now
    if before is None or now is None:
        return f"{name} {now} new" if before is None else f"{name} {before} gone"
    if name != "cpu_features":
        return f"{name} {before} -> {now}"
    # A processor has dozens of features, so only the difference is readable.
    had, has = before.split(), now.split()
    gone = " ".join(each for each in had if each not in has)
    new = " ".join(each for each in has if each not in had)
    changes = (f"{word} {features}" for word, features in (("without", gone), ("with", new)) if features)
    return f"{name} {' and '.join(changes) or 'in another order'}"
