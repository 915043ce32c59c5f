"""Whether what was accepted is still what was accepted: baselines changed, removed, or put in the shade of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from precreg.baseline.accepted import continues
from precreg.baseline.integrity.side import Change, Pairs, Side, is_redefined
from precreg.baseline.store import Place
from precreg.environment.environment import chain
from precreg.measure.metrics import mean_over_seeds, ratio
from precreg.types.records import BaselineEntry, BaselineOutput, Kind, is_handwritten
from precreg.types.types import Location

_PARTS = {
    "definition": "definition",
    "inputs": "inputs",
    "fingerprint": "fingerprint",
    "duration_s": "time",
    "outputs": "figures",
    "sketch": "figures",
    "groups": "figures",
    "described": "metrics of analyzers",
    "reach": "past",
    "accepted": "past",
}
"""What judges of an entry, in words; its reason, author, date and commit do not."""


_AVERAGES = ("mean_abs_error", "rms_error", "mean_ulp")
"""What tells best by how much an output became worse; maxima move by themselves."""


def rewritten(base: Side, head: Side, pairs: Pairs) -> Iterator[Change]:
    """Yield every entry of the base that is another one now, is gone, or is looked up no more.

    Looked at are the entries of cases that are still there and compute the same, and those of hand-written tests, which
    no suite tells of. An entry of a case that is gone goes with it.
    """
    ids = {before.baseline_id: now.baseline_id for before, now in pairs.judged if not is_redefined(before, now)}
    for place, entry in base.accepted.items():
        id = place.id if is_handwritten(entry.definition) else ids.get(place.id)
        if id is not None:
            yield from _entry(place, entry, head.accepted.get(Place(place.environment, id)), id)
    yield from _added(base, head, ids)


def _entry(place: Place, before: BaselineEntry, now: BaselineEntry | None, id: str) -> Iterator[Change]:
    source = Location(place.file)
    if now is None:
        message = f"what was accepted on {before.date or 'an unknown day'} is gone from {place.file}"
        yield Change(Kind.BASELINE_REMOVED, id, message, source=source)
        return
    parts = dict.fromkeys(part for name, part in _PARTS.items() if getattr(before, name) != getattr(now, name))
    if parts:
        worst = _worst(before, now)
        message = f"another baseline in {place.file}: {', '.join(parts)} changed"
        if worst is not None:
            message += f"; {worst[1]} is {worst[0]:.3g} times what was accepted"
        yield Change(Kind.BASELINE_CHANGED, id, message, None if worst is None else worst[0], source)
    if before.definition == now.definition and not continues(now, before):
        message = f"what was accepted before is not all kept in {place.file}: small losses would add up unseen"
        yield Change(Kind.HISTORY_REMOVED, id, message, source=source)


def _worst(before: BaselineEntry, now: BaselineEntry) -> tuple[float, str] | None:
    """Return the largest growth of an average, and whose it is; None where none grew or fell."""
    found = [
        (grown, f"{metric} of {name}")
        for name, output in before.outputs.items()
        if name in now.outputs
        for metric in _AVERAGES
        if (grown := ratio(metric, _mean(now.outputs[name], metric), _mean(output, metric)))
    ]
    return max((item for item in found if item[0] != 1), default=None)


def _mean(output: BaselineOutput, metric: str) -> float | None:
    return mean_over_seeds(output.metrics.get(metric, []))


def _added(base: Side, head: Side, ids: Mapping[str, str]) -> Iterator[Change]:
    """Yield entries of known cases that are new: they are found before one that judged, or judge where none did."""
    former = {now: before for before, now in ids.items()}
    unreadable = {each.file for each in base.unreadable}
    for place, entry in head.accepted.items():
        before = former.get(place.id, place.id)
        known = (place.id in former or is_handwritten(entry.definition)) and place.file not in unreadable
        if known and Place(place.environment, before) not in base.accepted:
            levels = (level for level in chain(place.environment) if Place(level, before) in base.accepted)
            yield _new(place, next(levels, None))


def _new(place: Place, judged: str | None) -> Change:
    source = Location(place.file)
    if judged is None:
        message = f"has a first baseline in {place.environment}, and HEAD's judges there"
        return Change(Kind.CASE_INTRODUCED, place.id, message, source=source)
    message = f"{place.file} is new, and comes before the baseline of {judged}, which judged"
    return Change(Kind.BASELINE_CHANGED, place.id, message, source=source)
