"""What a metric is, and the descriptions of those that are not ours: analyzers bring them, comparisons carry them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Direction = Literal["lower", "higher"]


class Metric(NamedTuple):
    """One figure of a Comparison: a is the actual value, r the reference.

    `unit` is "value" (that of the output itself), "value^2", "ULP", "log2 ULP", "dB", "bit", "1" (a
    ratio), or "benchmark" (a multiple of a benchmark's); an analyzer may have others.
    """

    name: str
    unit: str
    formula: str
    better: Direction
    source: str


_BROUGHT: dict[str, Metric] = {}


def register_metrics(metrics: Iterable[Metric]) -> None:
    """Remember what this process was told of metrics that are not ours; what was told last holds."""
    _BROUGHT.update((metric.name, metric) for metric in metrics)


def registered_metric(name: str) -> Metric:
    """Return what was told of a metric; of one that nobody described, that less of it is better."""
    return _BROUGHT.get(name) or Metric(name, "1", "not described", "lower", "")
