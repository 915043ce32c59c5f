"""The results that a study is made from: those of its suite that measured anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from precreg.measure.metrics import mean_over_seeds
from precreg.suite.matrix import case_name
from precreg.types.records import CaseResult
from precreg.types.types import Comparison


class Measured(NamedTuple):
    """One output of one case: the result it is of, and its comparisons, one a seed."""

    result: CaseResult
    output: str
    seeds: tuple[Comparison, ...]

    def mean(self, metric: str) -> float | None:
        """Return the mean of a metric over the seeds; None where a seed leaves it undefined."""
        return mean_over_seeds([comparison.metrics.get(metric) for comparison in self.seeds])


def of_suite(suite: str, results: Iterable[CaseResult]) -> list[CaseResult]:
    """Return the results of the suite tier/name, in their order."""
    return [result for result in results if f"{result.tier}/{result.suite}" == suite]


def outputs(result: CaseResult) -> list[Measured]:
    """Return what was measured of a case, output by output; nothing where it has no outputs."""
    comparisons = result.outcome.comparisons
    names = dict.fromkeys(comparison.output for comparison in comparisons)
    return [Measured(result, name, tuple(c for c in comparisons if c.output == name)) for name in names]


def others(result: CaseResult, over: str) -> str:
    """Name a case by its parameters but one; nothing where it has no other."""
    rest = {name: value for name, value in result.parameters.items() if name != over}
    return case_name(rest) if rest else ""


def series_name(parameters: str, output: str, *, of_several: bool) -> str:
    """Name a series by its parameters, and by its output where the suite has several."""
    return ", ".join(filter(None, (parameters, output if of_several else "")))
