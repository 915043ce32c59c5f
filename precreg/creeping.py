"""What has crept among the baselines of a project: each entry that a run looks up, held against what a case allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from precreg.baseline.store import Baselines, Place
from precreg.records import BaselineEntry, RunFinding
from precreg.tolerance.pyramid import resolve
from precreg.types import Case, Layer, Location
from precreg.verdict.creep import BUDGET, CREEP, creep

Layers = Mapping[str, tuple[Layer, ...]]
"""Layers of the tolerance pyramid by the id that a case's baseline is looked up by."""


def crept(every: Iterable[Case], baselines: Baselines, chain: tuple[str, ...]) -> tuple[RunFinding, ...]:
    """Return what is found of each baseline that a run in this environment would look up, whatever it selects.

    Baselines of hand-written tests, which no suite tells of, are allowed as much as where nothing is said.
    """
    layers = layers_of(every)
    found: dict[str, RunFinding | None] = {}
    for place, entry in baselines.entries(chain):
        if place.id not in found:
            found[place.id] = crept_at(place, entry, layers, chain)
    return tuple(finding for _, finding in sorted(found.items()) if finding is not None)


def crept_at(place: Place, entry: BaselineEntry, layers: Layers, chain: tuple[str, ...]) -> RunFinding | None:
    """Return what a run would be told of one entry, were it the baseline."""
    if not entry.accepted:
        return None
    return creep(place.id, entry, budgets(entry, layers.get(place.id), chain), Location(place.file))


def budgets(entry: BaselineEntry, layers: tuple[Layer, ...] | None, chain: tuple[str, ...]) -> dict[str, float]:
    """Return how many times its smallest accepted value each output of an entry may be; some may be what they are."""
    if layers is None:
        return dict.fromkeys(entry.outputs, BUDGET)
    growths = {
        name: resolve(layers, name, output.dtype, chain).regression.get(CREEP) for name, output in entry.outputs.items()
    }
    return {name: 1 + growth for name, growth in growths.items() if growth is not None}


def layers_of(every: Iterable[Case]) -> dict[str, tuple[Layer, ...]]:
    """Return the layers of cases by the id that their baseline is looked up by; of several the case it belongs to."""
    cases = list(every)
    return {case.baseline_id: case.layers for case in cases} | {case.id: case.layers for case in cases}
