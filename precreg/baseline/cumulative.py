"""What has crept among the baselines of a project: each entry that a run looks up, held against what a case allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from precreg.baseline.integrity import add_allowance_reasons
from precreg.baseline.store import (
    BaselineKey,
    Baselines,
    baseline_files,
    read_baseline_file,
    read_project_bytes,
    suite_of_file,
)
from precreg.tolerance import resolve_tolerance
from precreg.types import CUMULATIVE_LOSS, BaselineEntry, Case, Layer, Location, RunFinding
from precreg.verdict import CUMULATIVE_BUDGET, cumulative_loss_finding

LayersByCase = Mapping[str, tuple[Layer, ...]]
"""Layers of the tolerance pyramid by the id that a case's baseline is looked up by."""


ACCEPTED_MARKER = b'\n      "accepted": ['
"""What an entry has that was accepted before, and nothing else in a file, as baseline/text.py writes it."""


def find_cumulative_losses(project: Path, every: Iterable[Case], chain: tuple[str, ...]) -> tuple[RunFinding, ...]:
    """Return what is found of each baseline that a run in this environment would look up, whatever it selects.

    Looked at are the project's own baselines: what a commit accepts creeps when it is accepted. Those of hand-written
    tests, which no suite tells of, are allowed as much as where nothing is said. Raises UserError for baselines, and
    for allowances if they are needed, that cannot be read.
    """
    layers, baselines = group_layers_by_case(every), Baselines(project)
    found = []
    for id in sorted(set(_with_a_past(project, chain))):
        baseline = baselines.lookup(id, chain)
        if baseline is not None:
            found.append(cumulative_loss_of_entry(BaselineKey(baseline.environment, id), baseline.entry, layers, chain))
    return add_allowance_reasons(project, [finding for finding in found if finding is not None])


def cumulative_loss_of_entry(
    place: BaselineKey, entry: BaselineEntry, layers: LayersByCase, chain: tuple[str, ...]
) -> RunFinding | None:
    """Return what a run would be told of one entry, were it the baseline."""
    if not entry.accepted:
        return None
    return cumulative_loss_finding(
        place.id, entry, cumulative_budgets(entry, layers.get(place.id), chain), Location(place.file)
    )


def cumulative_budgets(
    entry: BaselineEntry, layers: tuple[Layer, ...] | None, chain: tuple[str, ...]
) -> dict[str, float]:
    """Return how many times what was accepted before each output of an entry may be; some may be what they are."""
    if layers is None:
        return dict.fromkeys(entry.outputs, CUMULATIVE_BUDGET)
    growths = {
        name: resolve_tolerance(layers, name, output.dtype, chain).regression.get(CUMULATIVE_LOSS)
        for name, output in entry.outputs.items()
    }
    return {name: 1 + growth for name, growth in growths.items() if growth is not None}


def group_layers_by_case(every: Iterable[Case]) -> dict[str, tuple[Layer, ...]]:
    """Return the layers of cases by the id that their baseline is looked up by; of several the case it belongs to."""
    cases = list(every)
    return {case.baseline_id: case.layers for case in cases} | {case.id: case.layers for case in cases}


def _with_a_past(project: Path, chain: tuple[str, ...]) -> Iterator[str]:
    """Yield the ids of the entries that are not the first of their case; of most files it is seen without reading."""
    for environment in chain:
        for file in baseline_files(project, environment):
            if ACCEPTED_MARKER in (read_project_bytes(project, file) or b""):
                suite = suite_of_file(file)
                entries = read_baseline_file(project, environment, suite)
                yield from (f"{suite}/{name}" for name, entry in entries.items() if entry.accepted)
