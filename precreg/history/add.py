"""Which rows does one more run add to the tables?

A case gets a row if its state changed at the run, and no row otherwise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, Table, and_, bindparam, delete, insert, select, update

from precreg.errors import UserError
from precreg.history.rows import (
    CASES_TABLE,
    CHANGES_TABLE,
    HISTORY_TABLE,
    LATEST_TABLE,
    RUNS_TABLE,
    SCOPES_TABLE,
    Scope,
    StateRows,
    insert_state,
)
from precreg.history.series import CaseState, case_rows, query_chunks, scopes_of, stored_runs
from precreg.types import ACCELERATOR_FACT, Environment, RunRecord, decisive_facts, facts_fingerprint


class NewRun(Struct, frozen=True, forbid_unknown_fields=True):
    """Hold the stored facts of a run apart from its cases.

    `identity` is a digest of the run. The same run has the same identity if someone adds it again.
    """

    identity: str
    started: str
    commit: str
    branch: str
    dirty: bool
    environment: str
    fingerprint: str
    facts: dict[str, str]
    precreg: str
    exit_code: Annotated[int, Meta(ge=0, le=255)]


def new_run(record: RunRecord, states: Mapping[str, CaseState]) -> NewRun:
    """Return the stored facts of a record. Raises UserError (unreadable-record) if its start is not a time."""
    git, environment = record.git, _environment_of(record)
    return NewRun(
        identity=_compute_identity(record, states),
        started=to_utc(record.started),
        commit="" if git is None else git.commit,
        branch="" if git is None else git.branch,
        dirty=git is not None and git.dirty,
        environment=environment.label,
        fingerprint=environment.fingerprint,
        facts=environment.facts,
        precreg=record.precreg,
        exit_code=record.exit_code,
    )


def _environment_of(record: RunRecord) -> Environment:
    """Return the environment of a run, with the facts of its accelerators: another one is another machine."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for facts in (result.outcome.execution.facts for result in record.results):
        if ACCELERATOR_FACT in facts:
            for name, fact in decisive_facts(facts).items():
                found[name].add(fact)
    here = record.environment
    every = {**here.facts, **{name: " and ".join(sorted(values)) for name, values in found.items()}}
    return replace(here, fingerprint=facts_fingerprint(decisive_facts(every)), facts=every) if found else here


def _compute_identity(record: RunRecord, states: Mapping[str, CaseState]) -> str:
    """Return a digest that differs between any two runs."""
    # Two monitors may start in the same second and measure the same values. Durations in nanoseconds differ.
    commit = None if record.git is None else record.git.commit
    digest = blake2b(digest_size=16)
    digest.update(repr((record.started, record.duration_s, record.environment.label, commit)).encode())
    for result in sorted(record.results, key=lambda result: result.id):
        state = states.get(result.id)
        digest.update(repr((result.id, state and state.digest, result.outcome.execution.duration_s)).encode())
    return digest.hexdigest()


def to_utc(started: str) -> str:
    """Convert a time to ISO 8601 in UTC, so that texts sort as times do.

    Raises UserError (unreadable-record) if the text is not a time.
    """
    try:
        return datetime.fromisoformat(started).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        message = f"expected a time such as 2026-11-21T03:00:00+00:00 but got started={started!r}"
        raise UserError("unreadable-record", message) from None


def add_run(connection: Connection, run: NewRun, states: Mapping[str, CaseState]) -> int | None:
    """Store a run and return its number; None if the history has the run already."""
    if connection.execute(select(RUNS_TABLE.c.number).where(RUNS_TABLE.c.identity == run.identity)).first() is not None:
        return None
    # The table has the next number, because the number of a removed run must not be used again.
    number: int = connection.execute(select(HISTORY_TABLE.c.next_number)).scalar_one()
    connection.execute(update(HISTORY_TABLE).values(next_number=number + 1))
    later = [kept.number for kept in stored_runs(connection, run.environment) if kept.started > run.started]
    ids = case_ids(connection)
    add_cases(connection, ids, states)
    by_id = {ids[name]: state for name, state in states.items()}
    write_run(connection, run, number, Scope.of(by_id))
    # Nearly every run is the newest run. It needs one digest a case, and not the rows of the cases.
    if later:
        _add_before(connection, run.environment, number, by_id, later)
    else:
        _add_last(connection, run.environment, number, by_id)
    return number


def write_run(connection: Connection, run: NewRun, number: int, scope: Scope) -> None:
    """Write the row of a run, and its scope unless another run has the same scope."""
    packed = scope.packed()
    # With 128 bits, a collision of two scopes is practically impossible.
    digest = blake2b(packed, digest_size=16).hexdigest()
    if connection.execute(select(SCOPES_TABLE.c.digest).where(SCOPES_TABLE.c.digest == digest)).first() is None:
        connection.execute(insert(SCOPES_TABLE).values(digest=digest, bitmap=packed))
    values = msgspec.structs.asdict(run)
    values |= {"number": number, "commit_id": values.pop("commit"), "scope": digest}
    values["facts"] = msgspec.json.encode(run.facts).decode()
    connection.execute(insert(RUNS_TABLE).values(values))


def case_ids(connection: Connection) -> dict[str, int]:
    """Return the id of every case of the history by name."""
    return {name: id for name, id in connection.execute(select(CASES_TABLE.c.name, CASES_TABLE.c.id)).all()}


def add_cases(connection: Connection, ids: dict[str, int], names: Iterable[str]) -> None:
    """Write the cases that `ids` lacks to the history, and add them to `ids`."""
    # sorted: the order of a set differs between processes, and ids should not depend on it.
    new = {name: id for id, name in enumerate(sorted(set(names) - ids.keys()), max(ids.values(), default=0) + 1)}
    _insert_all(connection, CASES_TABLE, [{"id": id, "name": name} for name, id in new.items()])
    ids.update(new)


def _add_last(connection: Connection, environment: str, number: int, states: Mapping[int, CaseState]) -> None:
    """Add the states of the run that started last. It reads only the latest digest of each case."""
    query = select(LATEST_TABLE.c.case_id, LATEST_TABLE.c.digest).where(LATEST_TABLE.c.environment == environment)
    latest = {case: digest for case, digest in connection.execute(query).all()}
    changed = {case: state for case, state in states.items() if latest.get(case) != state.digest}
    rows = [_make_change_row(environment, case, number, state.text) for case, state in changed.items()]
    _insert_all(connection, CHANGES_TABLE, rows)
    write_latest(connection, environment, {case: state.digest for case, state in changed.items()})


def _add_before(
    connection: Connection, environment: str, number: int, states: Mapping[int, CaseState], later: Sequence[int]
) -> None:
    """Add the states of a run that started before other runs."""
    # A later run without a row had the state before. If the new run changes the state, the later run needs a row.
    order = [run.number for run in stored_runs(connection, environment)]
    positions = {run: position for position, run in enumerate(order)}
    scopes = scopes_of(connection, environment)
    last = {}
    for part in query_chunks(states):
        before = case_rows(connection, environment, part, positions)
        after: dict[int, StateRows[str]] = {}
        for case in part:
            following = next((run for run in later if case in scopes[run]), None)
            place = None if following is None else positions[following]
            after[case] = insert_state(before.get(case, {}), positions[number], states[case].text, place)
            if following is None:
                last[case] = states[case].digest
        write_rows(connection, environment, order, before, after)
    write_latest(connection, environment, last)


def write_rows(
    connection: Connection,
    environment: str,
    order: Sequence[int],
    before: Mapping[int, StateRows[str]],
    after: Mapping[int, StateRows[str]],
) -> None:
    """Replace the rows `before` of the cases by the rows `after`. Rows are by position in `order`."""
    removed, added = [], []
    for case, rows in after.items():
        old = before.get(case, {})
        removed += [{"of_case": case, "of_run": order[place]} for place in old if rows.get(place) != old[place]]
        added += [_make_change_row(environment, case, order[p], text) for p, text in rows.items() if old.get(p) != text]
    _delete_all(connection, CHANGES_TABLE, _matches_key(CHANGES_TABLE, environment, run=bindparam("of_run")), removed)
    _insert_all(connection, CHANGES_TABLE, added)


def write_latest(connection: Connection, environment: str, digests: Mapping[int, bytes | None]) -> None:
    """Set the digest of the last state of each case; None removes a case that no run has."""
    _delete_all(
        connection, LATEST_TABLE, _matches_key(LATEST_TABLE, environment), [{"of_case": case} for case in digests]
    )
    some = ((case, digest) for case, digest in digests.items() if digest is not None)
    rows = [{"environment": environment, "case_id": case, "digest": digest} for case, digest in some]
    _insert_all(connection, LATEST_TABLE, rows)


def _matches_key(table: Table, environment: str, **columns: Any) -> ColumnElement[bool]:
    named = {"environment": environment, "case_id": bindparam("of_case"), **columns}
    return and_(*(table.c[column] == value for column, value in named.items()))


def _make_change_row(environment: str, case: int, run: int, text: str) -> dict[str, Any]:
    return {"environment": environment, "case_id": case, "run": run, "state": text}


def _insert_all(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(insert(table), rows)


def _delete_all(connection: Connection, table: Table, which: ColumnElement[bool], keys: list[dict[str, Any]]) -> None:
    if keys:
        connection.execute(delete(table).where(which), keys)
