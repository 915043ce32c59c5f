"""Did it get worse little by little? What losses come to that were accepted one at a time, each of them too small.

The factor of a metric is its accepted value now over the smallest that was accepted since the first: the product of
all that was accepted since then, losses and gains. So a gain that is lost again little by little is seen, and a loss
that was made good is none. Growth below the rounding floor of the output dtype is no loss: what was smaller counts as
the floor. Values of another definition of the case are not compared, and of two numbers of seeds those that both have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from precreg.measure.metrics import MEANS, described, mean_over_seeds, ratio
from precreg.records import AcceptedValue, BaselineEntry, BaselineOutput, Kind, RunFinding
from precreg.types import Location
from precreg.verdict.regression import FLOOR_ULP

CREEP = "creep"
"""The key under `regression` that allows it: 0.25 allows 1.25 times the smallest accepted value."""

BUDGET = 1.25
"""What is allowed where nothing is said."""


class Creep(NamedTuple):
    """How many times the smallest accepted value one metric is, and what was accepted when it was that small.

    `steps` were accepted after it; `least` is at least the rounding floor, and of a logarithm, as `current`, no ratio.
    """

    output: str
    metric: str
    factor: float
    current: float
    least: float
    since: AcceptedValue
    first: AcceptedValue
    steps: int

    def __str__(self) -> str:
        """Say by how much, since when, in how many steps."""
        since = f"{self.since.date} ({self.since.reason})" if self.since.reason else self.since.date
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return (
            f"{self.metric} of {self.output} is {self.factor:.4g} times the smallest accepted, in {steps}: "
            f"{self.current:.4g} against {self.least:.4g} since {since}"
        )


def creep(about: str, entry: BaselineEntry, budgets: Mapping[str, float], source: Location) -> RunFinding | None:
    """Return what the run is told of a baseline that has crept beyond its budget: the output that is most beyond it.

    `budgets` has the factor that is allowed of each output; one that is not named may creep.
    """
    beyond = [found for found in creeps(entry) if found.factor > budgets.get(found.output, inf)]
    if not beyond:
        return None
    worst = max(beyond, key=lambda found: found.factor / budgets[found.output])
    message = f"{worst}; {budgets[worst.output]:.4g} times are allowed"
    return RunFinding(Kind.CREEP, about, message, worst.factor, source)


def creeps(entry: BaselineEntry) -> Iterator[Creep]:
    """Yield every metric whose accepted value is above the smallest that was accepted, output by output."""
    values = [value for value in entry.accepted if value.definition == entry.definition]
    for name, output in entry.outputs.items():
        for metric in MEANS:
            found = _creep(name, metric, output, values)
            if found is not None:
                yield found


def _creep(name: str, metric: str, output: BaselineOutput, values: Sequence[AcceptedValue]) -> Creep | None:
    now = output.metrics.get(metric, [])
    floor = _floor(metric, output)
    best: tuple[float, Creep] | None = None
    for index, value in enumerate(values):
        then = value.means.get(name, {}).get(metric, [])
        seeds = min(len(now), len(then))
        current, before = mean_over_seeds(now[:seeds]), mean_over_seeds(then[:seeds])
        if current is None or before is None:
            continue
        least = max(before, floor)
        factor = ratio(metric, current, least)
        if factor is not None and factor > 1 and (best is None or factor > best[0]):
            steps = len(values) - index
            best = factor, Creep(name, metric, factor, current, least, value, values[0], steps)
    return None if best is None else best[1]


def _floor(metric: str, output: BaselineOutput) -> float:
    """Return the value below which a metric is rounding; a logarithm of ULP has its floor within."""
    unit = described(metric).unit
    if unit == "log2 ULP":
        return -inf
    scale = mean_over_seeds(output.metrics.get("ulp_scale", [])) or 0.0
    return FLOOR_ULP * (1.0 if unit == "ULP" else scale)
