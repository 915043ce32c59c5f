"""Which small losses have added up over the accepted baselines of a case?

Each entry that a run looks up is compared with the best value that was ever accepted for the same definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from precreg.baseline.counts import count_entries
from precreg.baseline.integrity import add_allowance_reasons
from precreg.baseline.store import BaselineKey, Baselines
from precreg.baseline.suite_file import (
    BaselineFile,
    read_baseline_file,
    suite_of_file,
)
from precreg.tolerance import resolve_tolerance
from precreg.types import CUMULATIVE_LOSS, BaselineEntry, Case, CaseResult, Layer, Location, RunFinding, RunRecord
from precreg.verdict import CUMULATIVE_BUDGET, cumulative_loss_finding

# Layers of the tolerance pyramid by the id of the case whose baseline applies.
LayersByCase = Mapping[str, tuple[Layer, ...]]


def find_cumulative_losses(project: Path, every: Iterable[Case], chain: tuple[str, ...]) -> tuple[RunFinding, ...]:
    """Return the cumulative losses of all baselines that a run in this environment could look up, selected or not.

    Only the project's own baselines count: a commit that accepts a loss shows it in the same commit.

    Raises:
        UserError: for unreadable baselines, and for unreadable allowances if there is a loss.
    """
    ids = sorted(set(_ids_with_history(project, chain)))
    if not ids:
        return ()
    layers, baselines = group_layers_by_case(every), Baselines(project)
    found = []
    # An id may have entries in several environments, and the lookup takes the one that a run would use.
    for id in ids:
        baseline = baselines.lookup(id, chain)
        if baseline is not None:
            found.append(cumulative_loss_of_entry(BaselineKey(baseline.environment, id), baseline.entry, layers, chain))
    losses = [finding for finding in found if finding is not None]
    return add_allowance_reasons(project, losses) if losses else ()


def losses_elsewhere(
    project: Path, cases: Iterable[Case], results: Iterable[CaseResult], record: RunRecord
) -> Iterator[RunFinding]:
    """Yield the cumulative losses of baselines that only cases on an accelerator looked up.

    The record has the losses of the run's own environment. Raises UserError as `find_cumulative_losses`.
    """
    here, known = record.environment, {finding.about for finding in record.findings}
    chains = {each.id: here.of_case(each.outcome.execution).chain for each in results}
    for chain in sorted({*chains.values()} - {here.chain}):
        losses = find_cumulative_losses(project, cases, chain)
        yield from (found for found in losses if chains.get(found.about) == chain and found.about not in known)


def cumulative_loss_of_entry(
    place: BaselineKey, entry: BaselineEntry, layers: LayersByCase, chain: tuple[str, ...]
) -> RunFinding | None:
    """Return the finding that a run would report if the entry were its baseline; None without a loss."""
    if not entry.accepted:
        return None
    return cumulative_loss_finding(
        place.id, entry, cumulative_budgets(entry, layers.get(place.id), chain), Location(place.file)
    )


def cumulative_budgets(
    entry: BaselineEntry, layers: tuple[Layer, ...] | None, chain: tuple[str, ...]
) -> dict[str, float]:
    """Return by output the allowed ratio to the best accepted value; an output may have no limit."""
    # Test-defined cases are in no suite, so their layers are unknown and the default applies.
    if layers is None:
        return dict.fromkeys(entry.outputs, CUMULATIVE_BUDGET)
    growths = {
        name: resolve_tolerance(layers, name, output.dtype, chain).regression.get(CUMULATIVE_LOSS)
        for name, output in entry.outputs.items()
    }
    return {name: 1 + growth for name, growth in growths.items() if growth is not None}


def group_layers_by_case(every: Iterable[Case]) -> dict[str, tuple[Layer, ...]]:
    """Return the layers of cases by the id of the case whose baseline applies."""
    cases = list(every)
    # Several cases may share one baseline. The layers of the case that owns it take precedence.
    return {case.baseline_id: case.layers for case in cases} | {case.id: case.layers for case in cases}


def _ids_with_history(project: Path, chain: tuple[str, ...]) -> Iterator[str]:
    """Yield the ids of entries with earlier accepted values."""
    for environment, suite in _files_with_history(project, chain):
        entries = read_baseline_file(project, environment, suite)
        yield from (f"{suite}/{name}" for name, entry in entries.items() if entry.accepted)


def suites_with_history(project: Path, chain: tuple[str, ...]) -> set[str]:
    """Return the ids of the suites that have entries with earlier accepted values.

    Raises UserError as `read_project_bytes`.
    """
    return {place.suite for place in _files_with_history(project, chain)}


def _files_with_history(project: Path, chain: tuple[str, ...]) -> Iterator[BaselineFile]:
    for file, counts in count_entries(project, chain).items():
        if counts.accepted:
            yield BaselineFile(file.split("/")[1], suite_of_file(file))
