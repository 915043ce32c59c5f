"""Write the sentence of each warning and orphan, the same in every report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from precreg.errors import nearest
from precreg.tolerance import THRESHOLDS_VARIABLE
from precreg.types import (
    AtolBelowHalfUlp,
    ComparisonWarning,
    MissingBenchmark,
    Orphan,
    RtolBelowUlp,
    RunWarning,
    SkippedFiles,
    StoredText,
    ToleranceFact,
    ToleranceWarning,
    UnknownCommit,
    UnlistedDtype,
    UnmatchedOutput,
    UnmeasuredBenchmark,
    UnmetThreshold,
    UnwritableFolder,
    VacuousTolerance,
)


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
        case SkippedFiles(files, others):
            return f"files in no format of arrays were passed over: {_first_of(files, others)}"
        case MissingBenchmark(benchmark, pairs, others):
            return f"{benchmark} has no array for {_first_of(pairs, others)}"
        case UnmeasuredBenchmark(pair, problem):
            return f"{pair}: no benchmark: {problem}"
        # mypy then reports a new kind of warning that has no sentence yet.
        case _:
            assert_never(warning)


def describe_tolerance_fact(fact: ToleranceFact) -> str:
    """Write the fault of a tolerance, with its numbers and its source, without the case."""
    match fact:
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
    setting = f"{THRESHOLDS_VARIABLE}: {threshold.metric}={threshold.limit:g} ({threshold.layer})"
    if threshold.cause == "unmatched":
        return f"{setting} has no effect in some cases, which require no match_ratio"
    return f"{setting} is looser than some bounds, and does not hold there"


def describe_warnings(warnings: Iterable[RunWarning | ComparisonWarning]) -> list[str]:
    """Write the sentence of each warning, in their order."""
    return [describe_warning(warning) for warning in warnings]


def describe_orphan(orphan: Orphan | StoredText) -> str:
    """Name a baseline without a case by case and file, with the case that has its definition now."""
    if isinstance(orphan, StoredText):
        return orphan.text
    renamed = f" (now {orphan.renamed})" if orphan.renamed else ""
    return f"{orphan.case} in {orphan.file}{renamed}"


def _first_of(names: Iterable[str], others: int) -> str:
    more = f" and {others} more" if others else ""
    return f"{', '.join(names)}{more}"
