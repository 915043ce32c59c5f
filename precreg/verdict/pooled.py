"""Did the cases of a suite lose together on fresh inputs, none of them enough to fail alone?

The cases of one suite and dtype whose bits changed have the same code, so their log ratios have about one mean. Seeds
of different cases are drawn independently, so variances add. docs/pair-test.md derives the level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import exp, fsum, log, sqrt
from typing import NamedTuple

from precreg.types import (
    PAIRED_LOSS,
    CaseResult,
    FindingKind,
    PairedFigure,
    PooledLoss,
    RunFinding,
)
from precreg.verdict.pair import BIASES
from precreg.verdict.statistics import FIRST_LOOK, t_quantile, t_sf

# Probability that a run in which no suite is worse reports any by its pooled evidence, on top of the level of cases.
POOLED_ALPHA = 0.01

# One-sided level of the printed lower bound.
_LOWER_ALPHA = 0.025


class _Member(NamedTuple):
    """One metric of one case: the mean of its log ratios, its standard error, and the number of seeds."""

    mean: float
    error: float
    seeds: int


def pooled_losses(results: Iterable[CaseResult]) -> Iterator[RunFinding]:
    """Yield a finding for each suite and dtype whose cases regressed together on fresh inputs.

    A group in which a case failed alone needs no pooled evidence. Groups and metrics share the level (Bonferroni).
    """
    groups = {key: members for key, members in _groups(results).items() if len(members) > 1}
    for (suite, dtype), members in groups.items():
        metrics = [metric for metric in _shared_metrics(members, dtype) if metric not in BIASES]
        found = [
            (metric, loss)
            for metric in metrics
            if (loss := _pooled(members, dtype, metric)) is not None
            and loss.p_value * len(metrics) * len(groups) <= POOLED_ALPHA
        ]
        if found:
            _, fact = min(found, key=lambda each: each[1].p_value)
            yield RunFinding(FindingKind.COMBINED_LOSS, suite, factor=fact.factor, fact=fact)


def _groups(results: Iterable[CaseResult]) -> dict[tuple[str, str], list[CaseResult]]:
    """Group the cases that ended without a failure, by suite and dtype; a case with several dtypes is in several."""
    found: dict[tuple[str, str], list[CaseResult]] = {}
    failed = set()
    for result in sorted(results, key=lambda each: each.id):
        if result.paired is None or not result.paired.figures or result.paired.seeds < FIRST_LOOK:
            continue
        for dtype in dict.fromkeys(figure.dtype for figure in result.paired.figures):
            key = f"{result.tier}/{result.suite}", dtype
            found.setdefault(key, []).append(result)
            if result.paired.end == "worse":
                failed.add(key)
    return {key: members for key, members in found.items() if key not in failed}


def _shared_metrics(members: Sequence[CaseResult], dtype: str) -> list[str]:
    """Return the metrics that the outputs of this dtype have in every case, in their order."""
    of_cases = [dict.fromkeys(f.metric for f in _figures(each) if f.dtype == dtype) for each in members]
    return [name for name in of_cases[0] if all(name in each for each in of_cases)]


def _figures(result: CaseResult) -> tuple[PairedFigure, ...]:
    return () if result.paired is None else result.paired.figures


def _pooled(members: Sequence[CaseResult], dtype: str, metric: str) -> PooledLoss | None:
    """Test the mean of the cases' log ratios against the smallest relevant loss; None if it cannot be."""
    of_cases = [_member(each, dtype, metric) for each in members]
    cases = len(of_cases)
    mean = fsum(each.mean for each in of_cases) / cases
    error = sqrt(fsum(each.error**2 for each in of_cases)) / cases
    limit = log(
        1
        + max(
            each.tolerances[figure.output].regression.get(PAIRED_LOSS, 0.0)
            for each in members
            for figure in _figures(each)
        )
    )
    if error == 0 or mean <= limit:
        return None
    df = _degrees_of_freedom(of_cases)
    p_value = t_sf((mean - limit) / error, df)
    lower = exp(mean - t_quantile(_LOWER_ALPHA, df) * error)
    return PooledLoss(cases, dtype, metric, exp(mean), lower, p_value)


def _member(result: CaseResult, dtype: str, metric: str) -> _Member:
    """Return one metric of a case; outputs of one case are correlated, so their errors add as they are."""
    figures = [each for each in _figures(result) if (each.dtype, each.metric) == (dtype, metric)]
    number = len(figures)
    seeds = 0 if result.paired is None else result.paired.seeds
    mean, error = (fsum(values) / number for values in ([f.log_mean for f in figures], [f.log_error for f in figures]))
    return _Member(mean, error, seeds)


def _degrees_of_freedom(members: Sequence[_Member]) -> float:
    """Return the degrees of freedom of a sum of means with unequal variances (Welch 1947, Satterthwaite 1946)."""
    total = fsum(each.error**2 for each in members)
    return total**2 / fsum(each.error**4 / (each.seeds - 1) for each in members)
