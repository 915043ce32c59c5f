"""What was accepted of a case before its present baseline: kept with the entry, and never longer than can be read.

Kept are the last ones; and, of those with the definition that the case has now, the first, and for each output and
metric the smallest. So nothing that creep is told by is ever thinned out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import hypot

from msgspec.structs import replace

from precreg.measure.metrics import MEANS, mean_over_seeds
from precreg.types.records import AcceptedValue, BaselineEntry
from precreg.verdict.statistics.steps import Reach, reaches

LAST = 30
"""How many values are kept for being the last ones."""


def succeed(entry: BaselineEntry, former: BaselineEntry | None) -> BaselineEntry:
    """Return the entry with the past of the one whose place it takes, which becomes the last of it.

    An entry that takes its own place, as where accepting was interrupted, has had no other since.
    """
    if former is None:
        return entry
    if _same_value(entry, former):
        return replace(entry, accepted=former.accepted, reach=former.reach)
    reach = reaches(former, entry) if former.definition == entry.definition else {}
    return replace(entry, accepted=thinned([*former.accepted, value_of(former)], entry.definition), reach=reach)


def value_of(entry: BaselineEntry) -> AcceptedValue:
    """Return what is kept of an entry when another takes its place."""
    means = {
        name: {metric: output.metrics[metric] for metric in MEANS if metric in output.metrics}
        for name, output in entry.outputs.items()
    }
    return AcceptedValue(
        date=entry.date,
        author=entry.author,
        commit=entry.commit,
        reason=entry.reason,
        definition=entry.definition,
        means=means,
        reach=entry.reach,
        confirmation=entry.confirmation,
    )


def history(entry: BaselineEntry) -> tuple[AcceptedValue, ...]:
    """Return every accepted value that is kept, oldest first; the last one is the entry itself."""
    return (*entry.accepted, value_of(entry))


def thinned(values: Sequence[AcceptedValue], definition: str) -> list[AcceptedValue]:
    """Keep the last values; of those of the definition the first, too, and the smallest of each output and metric.

    What is kept is as sure of its ratio to the value before it as all steps together are that led there.
    """
    last = range(max(0, len(values) - LAST), len(values))
    alike = [index for index, value in enumerate(values) if value.definition == definition]
    kept = sorted({*last, *alike[:1], *_smallest(values, alike)})
    return [_in_one(values[former + 1 : index + 1]) for former, index in pairwise([-1, *kept])]


def continues(entry: BaselineEntry, former: BaselineEntry) -> bool:
    """Tell whether the past of an entry is what accepting makes of a former one's: nothing of it left out or altered.

    Up to LAST values may have been accepted since. An entry that has the former's figures is the same value still.
    """
    values = history(former)
    for since in range(min(len(entry.accepted), LAST) + 1):
        recent = entry.accepted[len(entry.accepted) - since :]
        if _told(thinned([*values, *recent], entry.definition)) == _told(entry.accepted):
            return True
    return entry.accepted == former.accepted and entry.reach == former.reach and entry.outputs == former.outputs


def _told(values: Sequence[AcceptedValue]) -> list[AcceptedValue]:
    """Leave out how sure the ratios are, which several steps that became one tell in rounded sums."""
    return [replace(value, reach={}) for value in values]


def _in_one(values: Sequence[AcceptedValue]) -> AcceptedValue:
    """Return the last of several values, of which it alone is kept."""
    reach = together([value.reach for value in values])
    return replace(values[-1], reach=reach, steps=sum(value.steps for value in values))


def together(reaches: Sequence[Reach]) -> Reach:
    """Return how sure the product of several steps is, where that is known of each: independent errors add in squares.

    Of one step it is what it was.
    """
    if len(reaches) == 1:
        return reaches[0]
    found: Reach = {}
    for output, metrics in reaches[0].items():
        for metric in metrics:
            known = [reach[output][metric] for reach in reaches if metric in reach.get(output, {})]
            if len(known) == len(reaches):
                found.setdefault(output, {})[metric] = hypot(*known)
    return found


def _smallest(values: Sequence[AcceptedValue], alike: Sequence[int]) -> Iterator[int]:
    """Yield the index of the smallest value of each output and metric, the first of several that are equal."""
    smallest: dict[tuple[str, str], tuple[float, int]] = {}
    for index in alike:
        for output, means in values[index].means.items():
            for metric, seeds in means.items():
                mean = mean_over_seeds(seeds)
                if mean is not None:
                    smallest[output, metric] = min((mean, index), smallest.get((output, metric), (mean, index)))
    yield from (index for _, index in smallest.values())


def _same_value(entry: BaselineEntry, former: BaselineEntry) -> bool:
    without = {"accepted": [], "reach": {}, "date": "", "confirmation": ""}
    return replace(entry, **without) == replace(former, **without)
