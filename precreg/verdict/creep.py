"""Did it get worse little by little? What losses come to that were accepted one at a time, each of them too small.

The factor of a metric is its accepted value now over one that was accepted before: the product of all that was
accepted since, losses and gains. So a loss that was made good is none, and a gain that is lost again little by little
is seen. The steps' own bounds say how sure that is: their distances, in logarithms, add in squares. Of all values
before, the one counts that the present one is most surely above, which is the smallest where chance has no part in it.

Growth below the rounding floor of the output dtype is no loss: what was smaller counts as the floor. Values of another
definition of the case are not compared, and of two numbers of seeds those that both have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, hypot, inf
from typing import NamedTuple

from precreg.measure.metrics import MEANS, described, mean_over_seeds, ratio
from precreg.records import AcceptedValue, BaselineEntry, BaselineOutput, Kind, RunFinding
from precreg.types import Location
from precreg.verdict.growth import FLOOR_ULP
from precreg.verdict.steps import Reach

BUDGET = 1.25
"""What is allowed of a case that no suite tells of."""


class Creep(NamedTuple):
    """How many times an earlier accepted value one metric is, at least `lower` times, and what that value was.

    `lower` is 0 where it is not known how sure the factor is. `steps` were accepted since; `before` is at least the
    rounding floor, and of a logarithm, as `current`, no ratio.
    """

    output: str
    metric: str
    factor: float
    lower: float
    current: float
    before: float
    since: AcceptedValue
    steps: int

    def __str__(self) -> str:
        """Say by how much, how sure that is, since when, in how many steps."""
        since = f"{self.since.date} ({self.since.reason})" if self.since.reason else self.since.date
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        sure = f"at least {self.lower:.4g}" if self.lower else "too few samples to tell from noise"
        return (
            f"{self.metric} of {self.output} is {self.factor:.4g} times ({sure}) what was accepted on {since}, "
            f"in {steps}: {self.current:.4g} against {self.before:.4g}"
        )


def creep(about: str, entry: BaselineEntry, budgets: Mapping[str, float], source: Location) -> RunFinding | None:
    """Return what the run is told of a baseline that has surely crept beyond its budget: what is most beyond it.

    `budgets` has the factor that is allowed of each output; one that is not named may creep.
    """
    beyond = [found for found in creeps(entry) if found.lower > budgets.get(found.output, inf)]
    if not beyond:
        return None
    worst = max(beyond, key=lambda found: found.lower / budgets[found.output])
    message = f"{worst}; {budgets[worst.output]:.4g} times are allowed"
    return RunFinding(Kind.CREEP, about, message, worst.factor, source)


def creeps(entry: BaselineEntry) -> Iterator[Creep]:
    """Yield every metric whose accepted value is above one that was accepted before, output by output."""
    for name, output in entry.outputs.items():
        for metric in MEANS:
            found = list(_above(name, metric, output, entry))
            if found:
                yield max(found, key=lambda one: (one.lower, one.factor))


def _above(name: str, metric: str, output: BaselineOutput, entry: BaselineEntry) -> Iterator[Creep]:
    """Yield the ratio to each value before that is smaller than the present one."""
    now, floor = output.metrics.get(metric, []), _floor(metric, output)
    reaches = [*(value.reach for value in entry.accepted), entry.reach]
    for index, value in enumerate(entry.accepted):
        then = value.means.get(name, {}).get(metric, [])
        seeds = min(len(now), len(then))
        current, before = mean_over_seeds(now[:seeds]), mean_over_seeds(then[:seeds])
        if current is None or before is None or value.definition != entry.definition:
            continue
        factor = ratio(metric, current, max(before, floor))
        if factor is not None and factor > 1:
            lower = factor * exp(-_reach(reaches[index + 1 :], name, metric))
            steps = len(entry.accepted) - index
            yield Creep(name, metric, factor, lower, current, max(before, floor), value, steps)


def _reach(steps: Sequence[Reach], output: str, metric: str) -> float:
    """Return the distance of several steps' product from its bounds; infinite where one step's is not known."""
    return hypot(*(reach.get(output, {}).get(metric, inf) for reach in steps))


def _floor(metric: str, output: BaselineOutput) -> float:
    """Return the value below which a metric is rounding; a logarithm of ULP has its floor within."""
    unit = described(metric).unit
    if unit == "log2 ULP":
        return -inf
    scale = mean_over_seeds(output.metrics.get("ulp_scale", [])) or 0.0
    return FLOOR_ULP * (1.0 if unit == "ULP" else scale)
