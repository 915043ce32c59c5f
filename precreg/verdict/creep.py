"""Did it get worse little by little? What losses come to that were accepted one at a time, each of them too small.

The factor of a metric is its accepted value now over one that was accepted before: the product of all that was
accepted since, losses and gains. So a loss that was made good is none, and a gain that is lost again little by little
is seen. The steps' own bounds say how sure that is: their distances, in logarithms, add in squares. Of all values
before, the one counts that the present one is most surely above, which is the smallest where chance has no part in it.

A single loss that is surely beyond what is allowed, and beyond BUDGET, is no small one: it was accepted for what it is,
and nothing before it counts any more. Smaller regressions that were accepted add up like losses that nothing refuses.

Growth below the rounding floor of the output dtype is no loss: what was smaller counts as the floor. Values of another
definition of the case are not compared, and of two numbers of seeds those that both have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, hypot, inf
from typing import NamedTuple

from precreg.measure.metrics import MEANS, described, mean_over_seeds, ratio
from precreg.tolerance.pyramid import GROWTHS
from precreg.types.records import AcceptedValue, BaselineEntry, BaselineOutput, Kind, RunFinding
from precreg.types.types import CREEP, Location
from precreg.verdict.growth import FLOOR_ULP

BUDGET = 1 + GROWTHS[CREEP]
"""What is allowed of a case that no suite tells of, and the smallest loss that is not small."""


class Creep(NamedTuple):
    """How many times an earlier accepted value one metric is, at least `lower` times, and what that value was.

    `lower` is 0 where it is not known how sure the factor is. `steps` of those kept were accepted since; `before` is at
    least the rounding floor, and of a logarithm, as `current`, no ratio.
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
    beyond = [found for found in creeps(entry, budgets) if found.lower > budgets.get(found.output, inf)]
    if not beyond:
        return None
    worst = max(beyond, key=lambda found: found.lower / budgets[found.output])
    message = f"{worst}; {budgets[worst.output]:.4g} times are allowed"
    return RunFinding(Kind.CREEP, about, message, worst.factor, source)


def creeps(entry: BaselineEntry, budgets: Mapping[str, float]) -> Iterator[Creep]:
    """Yield every metric whose accepted value is above one that was accepted before, output by output."""
    for name in entry.outputs:
        for metric in MEANS:
            large = max(BUDGET, budgets.get(name, inf))
            found = [one for one in _since(name, metric, entry, large) if one.factor > 1]
            if found:
                yield max(found, key=lambda one: (one.lower, one.factor))


def _since(name: str, metric: str, entry: BaselineEntry, large: float) -> Iterator[Creep]:
    """Yield the ratio to each value before, the latest first, back to a single step that is surely large."""
    output = entry.outputs[name]
    now, floor = output.metrics.get(metric, []), _floor(metric, output)
    after, reach, joined, distance = now, entry.reach, 1, 0.0
    for index, value in reversed([*enumerate(entry.accepted)]):
        then = value.means.get(name, {}).get(metric, [])
        of_step = reach.get(name, {}).get(metric, inf)
        step = _ratio(metric, after, then, floor)
        if joined == 1 and step is not None and step.factor * exp(-of_step) > large:
            return
        distance = hypot(distance, of_step)
        found = _ratio(metric, now, then, floor)
        if found is not None and value.definition == entry.definition:
            lower = found.factor * exp(-distance)
            yield Creep(name, metric, found.factor, lower, *found[1:], value, len(entry.accepted) - index)
        after, reach, joined = then, value.reach, value.steps


class _Ratio(NamedTuple):
    factor: float
    current: float
    before: float


def _ratio(metric: str, now: Sequence[float | None], then: Sequence[float | None], floor: float) -> _Ratio | None:
    """Compare the means over the seeds that both have; what was smaller than the floor counts as that."""
    seeds = min(len(now), len(then))
    current, before = mean_over_seeds(now[:seeds]), mean_over_seeds(then[:seeds])
    if current is None or before is None:
        return None
    factor = ratio(metric, current, max(before, floor))
    return None if factor is None else _Ratio(factor, current, max(before, floor))


def _floor(metric: str, output: BaselineOutput) -> float:
    """Return the value below which a metric is rounding; a logarithm of ULP has its floor within."""
    unit = described(metric).unit
    if unit == "log2 ULP":
        return -inf
    scale = mean_over_seeds(output.metrics.get("ulp_scale", [])) or 0.0
    return FLOOR_ULP * (1.0 if unit == "ULP" else scale)
