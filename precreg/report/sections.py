"""Which words describe a run as a whole: its selection, its pair, its findings, warnings and orphans?

A selection is stored as the options of the run. Several runs, such as shards or tiers, merge theirs here. The sentence
of a warning or an orphan is the same in every report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from math import inf
from typing import Any, assert_never

import msgspec

from precreg.errors import nearest
from precreg.report.unclaimed import describe_unclaimed_files
from precreg.tolerance import THRESHOLDS_VARIABLE
from precreg.types import (
    ACCELERATOR_FACT,
    STATISTIC,
    TIERS,
    AbsentFigures,
    AtolBelowHalfUlp,
    ClusterWarning,
    ComparisonWarning,
    EmptyPasses,
    ExactnessGained,
    ExactnessLost,
    FigureMoved,
    Finding,
    Location,
    LostWorkers,
    MaximaGrew,
    MetricGrew,
    MetricImproved,
    MissingBenchmark,
    NarrowPart,
    NarrowReference,
    NonFiniteFigures,
    NotRegressed,
    Orphan,
    OtherWorkers,
    RefusedWorker,
    ReusedOutcomes,
    RoundingLost,
    RtolBelowUlp,
    RunFinding,
    RunRecord,
    RunWarning,
    SameOracles,
    ShadowingFiles,
    SkippedFiles,
    SmallOutputGrew,
    StoredText,
    ToleranceFact,
    ToleranceWarning,
    UncheckedBounds,
    UnclaimedFiles,
    UnkeptReason,
    UnknownCommit,
    UnlistedDtype,
    UnmatchedOutput,
    UnmeasuredBenchmark,
    UnmetThreshold,
    UnwritableFolder,
    VacuousTolerance,
    format_distinct,
    format_number,
)
from precreg.verdict.statistics import MIN_SAMPLES

# The options of a run by name, as its record stores them; empty for the whole project.
SelectionDict = dict[str, Any]
_SHARD, _TIERS, _ANY = "shard", "tiers", "any"
_WORDS = {
    "patterns": "pattern",
    _TIERS: "tier",
    "suites": "suite",
    "tags": "tag",
    "changed_since": "changed since",
    "last_failed": "failed in the last run",
}


def without_shard(selection: SelectionDict) -> SelectionDict:
    """Return the selection that all shards of a run share."""
    return {name: value for name, value in selection.items() if name != _SHARD}


def selection_key(selection: SelectionDict) -> bytes:
    """Return equal bytes for equal selections, whether they come from a run or from a file."""
    # Tuples become lists in a file and dicts may change their order; sorted JSON is the same before and after.
    return msgspec.json.encode(selection, order="sorted")


def merge_selections(selections: Iterable[SelectionDict]) -> SelectionDict:
    """Return the selection of all runs together; empty for the whole project. Order and grouping do not matter.

    Tiers are united. Selections that differ in another option are listed under `any`.
    """
    tiers: dict[bytes, set[str]] = {}
    for part in _parts(selections):
        named = _tiers(part)
        rest = part if named is None else {name: value for name, value in part.items() if name != _TIERS}
        # No tier named means all tiers, so naming all of them gives the same selection.
        tiers.setdefault(selection_key(rest), set()).update(TIERS if named is None else named)
    together = [_with_tiers(msgspec.json.decode(rest), names) for rest, names in sorted(tiers.items())]
    # One run of the whole project covers every other selection.
    if {} in together or not together:
        return {}
    # A list, because a union of options would also cover combinations that nobody ran.
    return together[0] if len(together) == 1 else {_ANY: together}


def describe_selection(selection: SelectionDict) -> str:
    """Write the selection without its shard, such as `tier unit; tag fast`; empty for the whole project."""
    return " or ".join(
        "; ".join(_describe_part(name, value) for name, value in part.items()) for part in _parts([selection])
    )


def _parts(selections: Iterable[SelectionDict]) -> Iterator[SelectionDict]:
    for selection in selections:
        parts = selection.get(_ANY)
        if isinstance(parts, list) and all(isinstance(part, dict) for part in parts):
            yield from map(without_shard, parts)
        else:
            yield without_shard(selection)


def _tiers(selection: SelectionDict) -> list[str] | None:
    """Return the tiers that a selection names; None if it names none, or if a file holds anything but texts."""
    named = selection.get(_TIERS)
    if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
        return None
    return list(named)


def _with_tiers(rest: SelectionDict, names: set[str]) -> SelectionDict:
    order = [tier for tier in TIERS if tier in names] + sorted(names - set(TIERS))
    return rest if names >= set(TIERS) else {_TIERS: order, **rest}


def _describe_part(name: str, value: Any) -> str:
    if value is True:
        return _WORDS.get(name, name)
    values = value if isinstance(value, list | tuple) else [value]
    return f"{_WORDS.get(name, name)} {', '.join(map(str, values))}"


# A finding without a place points to the file in which it could be allowed.
ALLOWANCES_LOCATION = Location("baselines/allow.yaml")
# A finding about one of these names its file in place of a case.
_FOLDERS = ("baselines/", "suites/")


class Standing(StrEnum):
    """Name the effect of a finding on its run.

    BINDING fails the run. ALLOWED has a reason in baselines/allow.yaml. TOLD is informational and never fails a run.
    """

    BINDING = "binding"
    ALLOWED = "allowed"
    TOLD = "told"


# In the order of urgency; capitals mark the findings that need a person, as for cases.
STANDING_LABELS: dict[Standing, str] = {Standing.BINDING: "FINDING", Standing.ALLOWED: "allowed", Standing.TOLD: "told"}
_RANK = {standing: rank for rank, standing in enumerate(Standing)}


def finding_standing(finding: RunFinding) -> Standing:
    """Return the effect of a finding on its run; only a finding that can fail a run can be allowed."""
    if finding.binding:
        return Standing.BINDING
    return Standing.ALLOWED if finding.fails else Standing.TOLD


def sort_run_findings(findings: Iterable[RunFinding]) -> tuple[RunFinding, ...]:
    """Sort distinct findings worst first: by standing, those without a factor first, then by the largest factor."""
    return tuple(sorted(set(findings), key=_order))


def _order(finding: RunFinding) -> tuple[Any, ...]:
    # A deleted case or tolerance has no factor, and is worse than any looser one.
    factor = inf if finding.factor is None else finding.factor
    rest = (finding.about, finding.kind, finding.message, str(finding.source or ""), finding.allowed or "")
    return _RANK[finding_standing(finding)], -factor, *rest, finding.allowed is None, finding.fails


def group_run_findings(findings: Iterable[RunFinding]) -> list[list[RunFinding]]:
    """Group the findings of one kind about one case or file, worst first.

    GitLab identifies an entry by kind and name alone, so each group is one entry.
    """
    groups: dict[tuple[str, str], list[RunFinding]] = {}
    for finding in sort_run_findings(findings):
        groups.setdefault((finding.kind, finding.about), []).append(finding)
    return list(groups.values())


def explain_run_finding(finding: RunFinding) -> list[str]:
    """Write the finding, its place, and the reason that allows it."""
    texts = [finding.message]
    if finding.source is not None:
        texts.append(f"at        {finding.source}")
    if finding.allowed is not None:
        texts.append(f"allowed   {finding.allowed}")
    return texts


def format_finding_factor(finding: RunFinding) -> str:
    """Write how many times looser or worse, if the finding has a number."""
    return "" if finding.factor is None else f"{format_number(finding.factor, 3)} times"


def finding_location(record: RunRecord, finding: RunFinding) -> Location:
    """Return the line to open: of the finding, else of the file or the case it is about, else of the allowances."""
    if finding.source is not None and finding.source.file:
        return finding.source
    if finding.about.startswith(_FOLDERS):
        return Location(finding.about)
    sources = (r.source for r in record.results if finding.about in (r.id, f"{r.tier}/{r.suite}"))
    return next(sources, ALLOWANCES_LOCATION)


def describe_finding_counts(findings: Sequence[RunFinding]) -> str:
    """Count the findings of each standing; empty without any."""
    tally = Counter(map(finding_standing, findings))
    return ", ".join(f"{tally[one]} {one}" for one in Standing if tally[one])


def describe_failing_findings(findings: Iterable[RunFinding]) -> str:
    """Write the part of a sentence that counts the binding findings by kind; empty without any."""
    kinds = Counter(finding.kind for finding in sort_run_findings(findings) if finding.binding)
    if not kinds:
        return ""
    number = sum(kinds.values())
    named = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{number} {'finding' if number == 1 else 'findings'} on the run: {named}"


def describe_warning(warning: RunWarning | ComparisonWarning) -> str:
    """Write the sentence of a warning, first the case, the outputs or the pair that it is about."""
    match warning:
        # Records of schema 1 stored the sentence and no facts, so it is shown as it is.
        case StoredText(text):
            return text
        case ToleranceWarning(case, fact, outputs):
            return ": ".join(filter(None, (case, ", ".join(outputs), describe_tolerance_fact(fact))))
        case UnmetThreshold():
            return _describe_threshold(warning)
        case UnknownCommit(problem):
            return f"the commit is not known: {problem}"
        case UnwritableFolder(folder):
            return f"{folder}/ cannot be written: the run has no journal to resume from, and proposes nothing"
        case SameOracles(cases, fresh):
            changed = f"references or goldens of {cases} case{'s' * (cases != 1)} may have changed since the base"
            return f"{changed}; their results have the same bits at all seeds and at {fresh} fresh ones"
        case NarrowReference() | NarrowPart() | EmptyPasses():
            return _describe_reference(warning)
        case ShadowingFiles() | UnclaimedFiles() | SkippedFiles() | MissingBenchmark() | UnmeasuredBenchmark():
            return _describe_files(warning)
        case LostWorkers() | RefusedWorker() | OtherWorkers():
            return describe_cluster_warning(warning)
        # mypy then reports a new kind of warning that has no sentence yet.
        case _:
            assert_never(warning)


# Beside a number of cases.
_RAN_BECAUSE: dict[UnkeptReason, str] = {
    "new": "new, or under new conditions",
    "changed": "changed",
    "changed_meanwhile": "with files that changed during the run",
    "failed": "failed",
    "unavailable": "without a requirement",
    "left_changes": "with changes left in the process",
    "nondeterministic": "declared nondeterministic",
    "timed": "with a measurement of time",
    "undeclared": "of a kind without declared dependencies",
    "network": "with use of the network",
    "programs": "with a start of other programs",
    "deleted_library": "with a library that was replaced",
    "unreadable": "with paths that precreg cannot follow",
}


def describe_reuse(fact: ReusedOutcomes) -> str:
    """Count the cases that reused an outcome, and the others by the reason why they ran."""
    reused = f"{fact.cases} case{'s' * (fact.cases != 1)} reused the outcome of an earlier run (since {fact.oldest})"
    number = sum(count for _, count in fact.ran)
    reasons = ", ".join(f"{count} {_RAN_BECAUSE[reason]}" for reason, count in fact.ran)
    return f"{reused}, because nothing that they depend on changed; {number} ran{f': {reasons}' if reasons else ''}"


def describe_cluster_warning(warning: ClusterWarning) -> str:
    """Write which workers of a cluster were lost or refused, or have another environment than the run."""
    match warning:
        case LostWorkers(workers, retried, given_up):
            given = f", and {given_up} {'was' if given_up == 1 else 'were'} given up" if given_up else ""
            counted = f"{len(workers)} worker{'s' * (len(workers) != 1)} ended while they ran cases"
            return f"{counted} ({', '.join(workers)}): {retried} ran again on other workers{given}"
        case RefusedWorker(worker, "failure", there):
            return f"worker {worker} got no case: {there}"
        case RefusedWorker(worker, subject, there, here):
            return f"worker {worker} got no case: its {subject} is {there}, and this run has {here}"
        case OtherWorkers(cases, worker, facts, workers):
            others = f" and {workers - 1} more" if workers > 1 else ""
            ran = f"{cases} case{'s' * (cases != 1)} ran on workers in another environment"
            return f"{ran}, {worker}{others}: {', '.join(facts)}"


def _describe_reference(warning: NarrowReference | NarrowPart | EmptyPasses) -> str:
    others = "" if warning.cases == 1 else f" and {warning.cases - 1} more"
    if isinstance(warning, EmptyPasses):
        wanted = "the golden has outputs without a finite element"
        return f"{warning.case}{others}: {wanted}, where only shape, dtype, NaN and infinities are compared"
    if isinstance(warning, NarrowPart):
        return f"{warning.case}{others}: a part of the reference is in lower precision ({warning.part})"
    causes = {
        "asked": "as reference_dtype: float64 asks; mpmath gives a wider one",
        "kind": "because its kind computes in float64 at most; name a reference: of another kind for a wider one",
        "platform": "because longdouble is float64 on this platform; reference_dtype: mpmath gives a wider one",
    }
    narrow = "the reference is not wider than the float64 outputs, so errors include its own"
    return f"{warning.case}{others}: {narrow}, {causes[warning.cause]}"


def _describe_files(
    warning: ShadowingFiles | UnclaimedFiles | SkippedFiles | MissingBenchmark | UnmeasuredBenchmark,
) -> str:
    match warning:
        case ShadowingFiles(files, others):
            named = _first_of(files, others)
            return (
                f"files with names of Python's modules or of libraries, which imports may find in their place: {named}"
            )
        case UnclaimedFiles(files, others):
            return describe_unclaimed_files(files, others)
        case SkippedFiles(files, others):
            return f"files in no format of arrays were passed over: {_first_of(files, others)}"
        case MissingBenchmark(benchmark, pairs, others):
            return f"{benchmark} has no array for {_first_of(pairs, others)}"
        case UnmeasuredBenchmark(pair, problem):
            return f"{pair}: no benchmark: {problem}"


def describe_tolerance_fact(fact: ToleranceFact) -> str:
    """Write the fault of a tolerance, with its numbers and its source, without the case."""
    match fact:
        case UncheckedBounds(metrics, source, table):
            return f"{table} has no figure of {', '.join(metrics)}, so nothing checks the bounds of {source} on them"
        case UnlistedDtype(standard, dtype):
            return f"standard {standard} has no limits for {dtype}, so the bounds of the layers below it apply"
        case RtolBelowUlp(rtol, source, dtype, ulp):
            return f"rtol={rtol:g} ({source}) is below 1 ULP of {dtype} ({ulp:g}): rounding alone can break it"
        case AtolBelowHalfUlp(atol, source, dtype, half_ulp, magnitude):
            # The mean |r| is in the sentence, because half an ULP depends on it.
            below = f"rtol=0, atol={atol:g} ({source}) is below half an ULP of {dtype} ({half_ulp:g})"
            where = f"where |r| is {magnitude:.3g} on average"
            return f"{below} {where}: only a result that needs no rounding passes"
        case VacuousTolerance(limits, source, magnitude):
            named = ", ".join(f"{metric}={limit:g}" for metric, limit in limits)
            where = "" if magnitude is None else f" where |r| is {magnitude:.3g} on average"
            return f"a result that is wrong by 100 % passes: {named} ({source}){where}"
        case UnmatchedOutput(output, layer, source, outputs):
            # The nearest name, because most of these are typing errors.
            return f"no output is called {output} ({layer}: {source}){nearest(output, outputs)}"
        case _:
            assert_never(fact)


def _describe_threshold(threshold: UnmetThreshold) -> str:
    setting = f"{threshold.file or THRESHOLDS_VARIABLE}: {threshold.metric}={threshold.limit:g} ({threshold.layer})"
    if threshold.cause == "unmatched":
        return f"{setting} has no effect in some cases, which require no match_ratio"
    return f"{setting} is looser than some bounds, and does not hold there"


def describe_orphan(orphan: Orphan | StoredText) -> str:
    """Name a baseline without a case by case and file, with the case that has its definition now."""
    if isinstance(orphan, StoredText):
        return orphan.text
    renamed = f" (now {orphan.renamed})" if orphan.renamed else ""
    return f"{orphan.case} in {orphan.file}{renamed}"


def _first_of(names: Iterable[str], others: int) -> str:
    more = f" and {others} more" if others else ""
    return f"{', '.join(names)}{more}"


def describe_rounding_loss(lost: RoundingLost) -> str:
    """Write the shares of correctly rounded elements before and now, and the sign test over seeds."""
    before, now = (f"{100 * share:.4g} %" for share in (lost.baseline, lost.current))
    seeds = "its seed" if lost.seeds == 1 else f"each of {lost.seeds} seeds"
    chance = f"p = {lost.p_value:.2g} by the sign test"
    return f"; {lost.output}: {before} -> {now} of the elements are correctly rounded, fewer at {seeds} ({chance})"


def describe_recorded(fact: AbsentFigures | NonFiniteFigures) -> str:
    """Write which figures of a row are absent or not finite, or that the table lacks the row."""
    if isinstance(fact, NonFiniteFigures):
        values = ", ".join(f"{metric} is {text}" for metric, text in fact.figures.items())
        return f"the row has figures that are not finite: {values} ({fact.place})"
    if not fact.place.line:
        why = "the sweep ended early, or the row was removed: precreg baseline prune"
        return f"{fact.place} has no row of this case, and its baseline has one ({why})"
    return f"the row has no figure of {', '.join(fact.metrics)} ({fact.place}): its cell is empty"


def describe_unjudged(fact: NotRegressed) -> str:
    """Write why no statistic judges some outputs, and which rules judge them."""
    causes = {"few_samples": f"fewer than {MIN_SAMPLES} samples", "statistic_off": f"{STATISTIC} is off"}
    causes |= {"figures_alone": "figures alone, whose noise is unknown"}
    alone = "; ".join(f"{', '.join(each.outputs)}: {causes[each.cause]}" for each in fact.unjudged)
    return f"{alone}, so only {'bounds and thresholds' if fact.has_thresholds else 'bounds'} apply"


def describe_figure(fact: FigureMoved, finding: Finding, current: float, baseline: float) -> str:
    """Write how a recorded figure moved, and by which ratio its error did."""
    figures = " -> ".join(format_distinct([baseline, current]))
    if finding.ratio is None:
        return f"{finding.metric} moved ({figures}), by figures alone"
    times, allowed, _ = format_distinct([finding.ratio, finding.limit, 1.0], 3)
    error = f"1 - {finding.metric}" if fact.rest else f"the error {finding.metric}"
    verb = "shrank to" if fact.improved else "grew to"
    limit = "an improvement from" if fact.improved else "allowed"
    return f"{error} {verb} {times} times the baseline's ({figures}; {limit} {allowed} times), by figures alone"


def describe_exactness(fact: ExactnessLost | ExactnessGained, metric: str, current: float, baseline: float) -> str:
    """Write that the output is exact and its baseline or benchmark is not, or the other way round."""
    gained = isinstance(fact, ExactnessGained)
    if fact.judge == "benchmark":
        exact, other, error = ("output", "benchmark", baseline) if gained else ("benchmark", "output", current)
        return f"the {exact} is exact, and the {other} is not: its {metric} is {error:.4g}"
    if gained:
        return f"the output is exact at every seed, and was not: {metric} is 0 and was {baseline:.4g}"
    return f"the output was exact at every seed, and is not: {metric} was 0 and is {current:.4g}"


def describe_grown_seeds(fact: MetricGrew | MetricImproved | SmallOutputGrew | MaximaGrew) -> str:
    """Write the seeds at which a metric grew, if these decide."""
    match fact:
        case MetricGrew() | MetricImproved():
            return ""
        case SmallOutputGrew(elements, seeds):
            unit = "1 element" if elements == 1 else f"{elements} elements"
            return f", of {unit} at {'1 seed' if seeds == 1 else f'{seeds} seeds'}"
        case MaximaGrew(larger, seeds):
            return f": at {larger} of {seeds} seeds above every maximum of the baseline"
        case _:
            assert_never(fact)


def describe_accelerators(record: RunRecord) -> list[str]:
    """Write for each accelerator how many cases computed on it, and which baselines apply to them."""
    here = record.environment
    counts = Counter(
        (model, here.of_case(result.outcome.execution).chain)
        for result in record.results
        if (model := result.outcome.execution.facts.get(ACCELERATOR_FACT))
    )
    return [
        f"{number} {'case' if number == 1 else 'cases'} on {model} (baselines of {', then '.join(chain)})"
        for (model, chain), number in sorted(counts.items())
    ]
