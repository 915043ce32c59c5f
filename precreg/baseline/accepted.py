"""What was accepted of a case before its present baseline: kept with the entry, and never longer than can be read.

Kept are the last ones; and, of those with the definition that the case has now, the first, and for each output and
metric the smallest. So nothing that creep is told by is ever thinned out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from precreg.measure.metrics import MEANS, mean_over_seeds
from precreg.records import AcceptedValue, BaselineEntry

LAST = 30
"""How many values are kept for being the last ones."""


def succeed(entry: BaselineEntry, former: BaselineEntry | None) -> BaselineEntry:
    """Return the entry with the past of the one whose place it takes, which becomes the last of it.

    An entry that takes its own place, as where accepting was interrupted, has had no other since.
    """
    if former is None:
        return entry
    past = former.accepted if _same_value(entry, former) else [*former.accepted, value_of(former)]
    return replace(entry, accepted=thinned(past, entry.definition))


def value_of(entry: BaselineEntry) -> AcceptedValue:
    """Return what is kept of an entry when another takes its place."""
    means = {
        name: {metric: output.metrics[metric] for metric in MEANS if metric in output.metrics}
        for name, output in entry.outputs.items()
    }
    return AcceptedValue(
        entry.date, entry.author, entry.commit, entry.reason, entry.definition, means, entry.confirmation
    )


def history(entry: BaselineEntry) -> tuple[AcceptedValue, ...]:
    """Return every accepted value that is kept, oldest first; the last one is the entry itself."""
    return (*entry.accepted, value_of(entry))


def thinned(values: Sequence[AcceptedValue], definition: str) -> list[AcceptedValue]:
    """Keep the last values; of those of the definition the first, too, and the smallest of each output and metric."""
    last = range(max(0, len(values) - LAST), len(values))
    alike = [index for index, value in enumerate(values) if value.definition == definition]
    kept = {*last, *alike[:1], *_smallest(values, alike)}
    return [values[index] for index in sorted(kept)]


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
    return replace(entry, accepted=[], date="") == replace(former, accepted=[], date="")
