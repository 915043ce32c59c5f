"""Which accepted baselines have no case any more, and which rows of tables are gone?

A table makes its own cases, so a row that is gone takes its case along. A job that ends early would pass with the rows
that it wrote. So a run gives each accepted row without a row a case that fails, until someone removes its baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from precreg.baseline import Baselines
from precreg.environment import detect_environment
from precreg.suite import is_unread
from precreg.types import Case, Computation, Orphan, Reason, RunRecord


def add_vanished_rows(cases: Sequence[Case], project: Path, environment: str | None) -> list[Case]:
    """Return the cases, and one for each accepted row of a table that has no row any more.

    `environment` is the label of the run, or None. Raises UserError for baselines that cannot be read.
    """
    first = {f"{case.tier}/{case.suite}": case for case in reversed(cases) if case.subject.kind == "table"}
    # Without its reader the rows of a table are unknown.
    tables = {suite: case for suite, case in first.items() if not is_unread(case)}
    if not tables:
        return [*cases]
    chain = detect_environment(environment).chain
    return [*cases, *_vanished(tables, {case.id for case in cases}, Baselines(project), chain)]


def _vanished(
    tables: dict[str, Case], known: Iterable[str], baselines: Baselines, chain: tuple[str, ...]
) -> Iterator[Case]:
    found = baselines.orphans({*known}, chain)
    for place in dict.fromkeys(sorted(each.id for each in found)):
        suite, _, name = place.rpartition("/")
        accepted = baselines.lookup(place, chain)
        if suite in tables and accepted is not None:
            row, definition = tables[suite], accepted.entry.definition
            spec = {**row.subject.spec, "row": {"case": name}, "vanished": True}
            yield replace(
                row,
                id=place,
                name=name,
                definition=definition,
                baseline_id=place,
                baseline_definition=definition,
                subject=Computation("table", spec),
                parameters={},
                expect_failure=None,
            )


def _known_baselines(cases: Iterable[Case], baselines: Baselines, chain: tuple[str, ...]) -> frozenset[str]:
    """Return the ids of baselines that cases look up.

    Without its reader the rows of a table are unknown, so that each baseline of its suite may have a case.
    """
    every = tuple(cases)
    unread = tuple(f"{case.tier}/{case.suite}/" for case in every if is_unread(case))
    of_tables = (place.id for place, _ in baselines.entries(chain)) if unread else ()
    return frozenset(case.baseline_id for case in every).union(id for id in of_tables if id.startswith(unread))


def add_orphans(record: RunRecord, every: Iterable[Case], baselines: Baselines) -> RunRecord:
    """Add the baselines that no case of the project looks up, each with the new case of the same definition.

    Only a run of every case can find them. Baselines of test-defined cases are no orphans: suites do not list these.
    """
    new = {result.definition: result.id for result in record.results if result.verdict.reason is Reason.NEW}
    chains = (record.environment.of_case(result.outcome.execution).chain for result in record.results)
    labels = tuple(dict.fromkeys(label for chain in (record.environment.chain, *chains) for label in chain))
    found = baselines.orphans(_known_baselines(every, baselines, record.environment.chain), labels)
    orphans = (Orphan(place.id, place.file, new.get(entry.definition, "")) for place, entry in found.items())
    return replace(record, orphans=tuple(orphans))
