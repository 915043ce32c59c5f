"""Which words describe the comparison of two versions: the test on fresh inputs, its end, and its problems?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from precreg.types import (
    Baseline,
    BetterOnFreshInputs,
    CaseResult,
    ClearOnFreshInputs,
    EndedBy,
    FailedOnFreshInputs,
    Finding,
    FixedInputs,
    KnownBadCase,
    NoAcceptedVersion,
    NonFiniteOnFreshInputs,
    OtherVersionFailed,
    OtherVersionInputs,
    OtherVersionOutputs,
    PairFact,
    PairProblem,
    PresentVersionFailed,
    RunRecord,
    UnclearOnFreshInputs,
    UnsteadyVersion,
    WorseOnFreshInputs,
    format_distinct,
    format_number,
)

# A line names a few cases; the record has all of them.
MAX_PAIRED_IDS = 3


def describe_judge(result: CaseResult) -> str:
    """Write the version that judged a case, and the seeds that it took; empty without another version."""
    paired = result.paired
    if paired is None:
        return ""
    # Without a pair the stored baseline judged, and a reader must not take one for the other.
    if paired.fell_back or result.baseline is None:
        return f"the stored baseline: {paired.problem}"
    limit = f"; not on fresh seeds: {paired.problem}" if paired.cause else ""
    return f"{_version(result.baseline)}, run side by side on {_seeds(result)}{limit}"


def _version(other: Baseline) -> str:
    """Write the other version as the command names it, and its commit."""
    revision, commit = other.file.removeprefix("pair "), other.entry.commit
    return f"commit {commit[:8]}" if revision == commit else f"{revision} at {commit[:8]}"


def describe_pair_problem(cause: PairProblem) -> str:
    """Write why two versions could not be compared, or not on fresh inputs."""
    match cause:
        case OtherVersionFailed(reason, message):
            return f"{reason} there: {message}"
        case OtherVersionInputs():
            return "it gets other inputs there, which it reads from files"
        case OtherVersionOutputs(absent):
            return f"it gives no {', '.join(absent)} there, or another shape or dtype"
        case KnownBadCase():
            return "declared to be known-bad"
        case NoAcceptedVersion():
            return describe_no_version(cause)
        case FixedInputs():
            return "its inputs are the same at every seed"
        case PresentVersionFailed(reason, message):
            return f"{reason} on fresh inputs: {message}"
        case UnsteadyVersion(output):
            return f"{output} has other bits in a second run on the same inputs; declare `deterministic: false`"
        case _:
            assert_never(cause)


def describe_no_version(fact: NoAcceptedVersion) -> str:
    """Say why the accepted version is not known."""
    texts = {
        "not_committed": f"no commit has its present entry in {fact.message}; commit the baseline",
        "shallow": "this clone is shallow and may lack the commit; set GIT_DEPTH: 0, or run git fetch --unshallow",
        "no_git": f"git does not give the commit: {fact.message}",
        "no_checkout": f"git cannot check the commit out: {fact.message}",
        "no_workers": "--jobs 0 has no worker processes to run another version in",
    }
    return texts[fact.cause]


def describe_paired_run(record: RunRecord) -> Iterator[str]:
    """Yield the number of cases that another version judged, then the unclear ones, then those without a pair."""
    paired = [result for result in record.results if result.paired is not None]
    if not paired:
        return
    alone = [result for result in paired if result.paired is not None and result.paired.fell_back]
    judged = [result for result in paired if result not in alone]
    if judged:
        commits = dict.fromkeys(result.paired.commit[:8] for result in judged if result.paired)
        version = record.pair[:8] or ", ".join(commits)
        yield f"{len(judged)} of {len(record.results)} cases judged by {version}, run side by side"
    for result in judged:
        if result.paired and not result.paired.clear and result.paired.cause is None:
            yield f"not clear: {result.id}: {result.verdict.message}"
    yield from (text for result in judged for text in _rounding_losses(result))
    yield from _problems("not tested on fresh inputs", [each for each in judged if each.paired and each.paired.cause])
    yield from _problems("judged by the stored baseline", alone)


def _rounding_losses(result: CaseResult) -> Iterator[str]:
    """Yield a line for each output with fewer correctly rounded elements, which fails no case."""
    for share in result.paired.shares if result.paired else ():
        if share.is_loss:
            before, now = (f"{100 * each:.4g} %" for each in (share.before, share.now))
            chance = f"p = {share.p_value:.2g} by the sign test over {_seeds(result)}"
            yield f"fewer correctly rounded elements: {result.id}: {share.output}: {before} -> {now} ({chance})"


def _problems(heading: str, results: Sequence[CaseResult]) -> Iterator[str]:
    """Yield a line for each problem: most cases have one reason, such as an old commit that does not build."""
    by_problem: dict[str, list[str]] = {}
    for result in results:
        by_problem.setdefault(result.paired.problem if result.paired else "", []).append(result.id)
    for problem, ids in by_problem.items():
        yield f"{heading}: {_some(ids)}: {problem}"


def _some(ids: list[str]) -> str:
    rest = f" and {len(ids) - MAX_PAIRED_IDS} more" if len(ids) > MAX_PAIRED_IDS else ""
    return ", ".join(ids[:MAX_PAIRED_IDS]) + rest


def _seeds(result: CaseResult) -> str:
    seeds, end = (0, None) if result.paired is None else (result.paired.seeds, result.paired.end)
    # Only a test on fresh inputs has an end; without one the case's own seeds judged.
    kind = "seed" if end is None else "fresh seed"
    return f"1 {kind}" if seeds == 1 else f"{seeds} {kind}s"


# Biases are in units of the mean |d|, so their growth is a difference and no ratio.
_BIASES = ("bias", "outward_bias")

_END_HINTS: dict[EndedBy, str] = {
    "max_seeds": "--max-seeds allows more",
    "case_seconds": "--pair-seconds allows more",
    "run_seconds": "--pair-run-seconds allows more",
}


def describe_pair_fact(fact: PairFact, finding: Finding) -> str:
    """Write what fresh inputs showed of one output, or of a case."""
    match fact:
        case WorseOnFreshInputs(commit, seeds):
            return f"{_describe_growth(finding)} over {commit[:8]} on {_count(seeds)}{_describe_interval(finding)}"
        case BetterOnFreshInputs(commit, seeds):
            change = f"{_describe_shrinkage(finding)} against {commit[:8]}"
            return f"{change} on {_count(seeds)}{_describe_interval(finding)}"
        case NonFiniteOnFreshInputs(commit, seed, before, now):
            return f"{now} elements differ in NaN or infinity on fresh seed {seed}, where {commit[:8]} has {before}"
        case ClearOnFreshInputs(commit, seeds, same_bits=True):
            return f"bits changed against the baseline, and on {_count(seeds)} they equal the bits of {commit[:8]}"
        case ClearOnFreshInputs(commit, seeds, _, output, metric, upper):
            bound = f"{output}: {metric} grew at most {format_number(upper)}x (95 %)"
            return f"bits changed, and no relevant loss on {_count(seeds)} beside {commit[:8]}: {bound}"
        case FailedOnFreshInputs(commit, failure):
            return f"{failure}, on a fresh input that {commit[:8]} computes"
        case UnclearOnFreshInputs():
            return _describe_unclear(fact)
        case _:
            assert_never(fact)


def _count(seeds: int) -> str:
    return "1 fresh seed" if seeds == 1 else f"{seeds} fresh seeds"


def _describe_growth(finding: Finding) -> str:
    ratio = finding.ratio or 1.0
    if finding.metric in _BIASES:
        return f"{finding.metric} grew by {format_number(ratio - 1)} of the mean |error|"
    return f"{finding.metric} grew {format_distinct([ratio, 1.0])[0]}x"


def _describe_shrinkage(finding: Finding) -> str:
    ratio = finding.ratio or 0.0
    if finding.metric in _BIASES:
        return f"{finding.metric} shrank by {format_number(1 - ratio)} of the mean |error|"
    return f"{finding.metric} shrank to {format_distinct([ratio, 1.0])[0]}x"


def _describe_interval(finding: Finding) -> str:
    lower, upper = finding.lower or 0.0, finding.upper or 0.0
    if finding.metric in _BIASES:
        return f" (95 % CI {format_number(lower - 1)} to {format_number(upper - 1)})"
    before, now = format_distinct([finding.baseline, finding.current])
    bounds = format_distinct([lower, upper, 1.0], 3)
    return f" ({before} -> {now}, 95 % CI {bounds[0]} to {bounds[1]})"


def _describe_unclear(fact: UnclearOnFreshInputs) -> str:
    version, hint = f"beside {fact.commit[:8]}", _END_HINTS[fact.ended_by]
    if not fact.metric:
        drawn = f"the budget allowed only {_count(fact.seeds)}" if fact.seeds else "the budget allowed no seed"
        return f"bits changed, and {drawn} {version}; {hint}"
    growth = f"{fact.metric} grew at most {format_number(fact.upper)}x"
    if fact.metric in _BIASES:
        growth = f"{fact.metric} grew by at most {format_number(fact.upper - 1)} of the mean |error|"
    others = fact.averages and fact.averages != fact.upper
    averages = f", averages at most {format_number(fact.averages)}x" if others else ""
    seeds = f"about {fact.needed} seeds would find a loss of {format_number(fact.detectable)}x; " if fact.needed else ""
    state = f"{_count(fact.seeds)} {version} neither prove nor exclude a relevant loss"
    return f"bits changed, and {state}: {growth}{averages} (95 %); {seeds}{hint}"
