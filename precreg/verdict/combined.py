"""Did a whole suite get worse? Small losses of many cases, in one direction, are evidence that none of them is alone.

The cases whose bits changed are the sample: of each its ratio of mean |d|, and of these the mean with a t interval over
cases. How different they are is in the interval, too. What all of them share is not: so cases of the very same ratio,
which differ in nothing that matters, are one draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import exp, fsum, log, sqrt

from precreg.types.records import CaseResult, Kind, RunFinding
from precreg.types.types import STATISTIC, Comparison
from precreg.verdict.judge import agree
from precreg.verdict.regression import RUN_LEVEL
from precreg.verdict.statistics.paired import DOUBT, changes
from precreg.verdict.statistics.sample import LEAST
from precreg.verdict.statistics.student import quantile, tail

METRIC = "mean_abs_error"


def combined_losses(results: Iterable[CaseResult], fingerprint: str) -> Iterator[RunFinding]:
    """Yield a finding for each suite that became materially worse as a whole, among cases that statistics judge.

    `fingerprint` is that of the run: what was accepted on another one tells of environments, and is left out. The level
    of a suite is that of the run over the number of suites with cases that changed.
    """
    suites = {
        suite: list(dict.fromkeys(pair for result in of_suite if (pair := _change(result, fingerprint)) is not None))
        for suite, of_suite in groupby(sorted(results, key=lambda result: result.id), _suite)
    }
    changed = {suite: pairs for suite, pairs in suites.items() if len(pairs) >= LEAST}
    for suite, pairs in changed.items():
        found = _finding(suite, pairs, RUN_LEVEL / len(changed))
        if found is not None:
            yield found


def _suite(result: CaseResult) -> str:
    return f"{result.tier}/{result.suite}"


def _change(result: CaseResult, fingerprint: str) -> tuple[float, float] | None:
    """Return the logarithm of a case's ratio, the mean over its outputs, and the growth that is not yet material."""
    baseline = result.baseline
    if baseline is None or baseline.entry.fingerprint != fingerprint or not _is_judged(result):
        return None
    logs = [
        log(change.ratio)
        for output, accepted in baseline.entry.outputs.items()
        for change in changes(_seeds(result, output), accepted, baseline.entry.groups.get(output, ()))
        if change.metric == METRIC and change.ratio > 0
    ]
    material = max(tolerance.regression[STATISTIC] for tolerance in result.tolerances.values())
    return (fsum(logs) / len(logs), material) if logs else None


def _is_judged(result: CaseResult) -> bool:
    """Tell whether statistics judged a case: its bits changed, and no output was measured without a baseline for it."""
    baseline = result.baseline
    return (
        baseline is not None
        and result.outcome.definition == baseline.entry.definition
        and all(STATISTIC in tolerance.regression for tolerance in result.tolerances.values())
        and baseline.entry.outputs.keys() == result.outcome.execution.outputs.keys()
        and baseline.entry.outputs.keys() == result.tolerances.keys()
        and not all(
            agree(digests, baseline.entry.outputs[name].digests)
            for name, digests in result.outcome.execution.outputs.items()
        )
    )


def _seeds(result: CaseResult, output: str) -> Sequence[Comparison]:
    assert result.baseline is not None
    seeds = len(result.baseline.entry.inputs)
    return [each for each in result.outcome.comparisons if each.output == output and each.seed < seeds]


def _finding(suite: str, pairs: Sequence[tuple[float, float]], level: float) -> RunFinding | None:
    logs = [value for value, _ in pairs]
    mean = fsum(logs) / len(logs)
    spread = sqrt(fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1) / len(logs))
    freedom = len(logs) - 1
    lower = mean - quantile(DOUBT, freedom) * spread
    chance = tail(mean / spread, freedom) if spread else 0.0
    if mean <= 0 or chance >= level or lower <= log(1 + max(material for _, material in pairs)):
        return None
    message = (
        f"{len(logs)} cases together: {METRIC} is {exp(mean):.4g} times the baseline's, and at least {exp(lower):.4g}; "
        f"noise alone would say so with a chance of {chance:.2g}"
    )
    return RunFinding(Kind.COMBINED_LOSS, suite, message, exp(mean))
