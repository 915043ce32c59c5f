"""Which rows does one more run add to the tables?

A case gets a row if its state changed at the run, and no row otherwise.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace
from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from precreg.errors import UserError
from precreg.history.packing import PackedState, Texts, batched, query_chunks
from precreg.history.rows import (
    CASES_TABLE,
    FIGURES_TABLE,
    HISTORY_TABLE,
    LAST_TABLE,
    RUNS_TABLE,
    SCOPES_TABLE,
    Scope,
    StateRows,
    insert_state,
)
from precreg.history.runs import (
    EnvironmentRuns,
    all_cases,
    case_rows,
    fetch_many,
    new_environment_id,
    stored_runs,
)
from precreg.history.states import CaseState, decode_state
from precreg.types import ACCELERATOR_FACT, Environment, RunRecord, decisive_facts, facts_fingerprint

# Cases that are packed and written at a time: it bounds the memory of the first run of 100,000 cases.
WRITE_CHUNK = 5_000


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
    ids = all_cases(connection)
    add_cases(connection, ids, states)
    by_id = {ids[name]: state for name, state in states.items()}
    write_run(connection, run, number, Scope.of(by_id))
    # Nearly every run is the newest run. It needs one digest a case, and not the rows of the cases.
    if later:
        _add_before(connection, run.environment, number, by_id, later)
    else:
        _add_last(connection, new_environment_id(connection, run.environment), number, by_id)
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


def add_cases(connection: Connection, ids: dict[str, int], names: Iterable[str]) -> None:
    """Write the cases that `ids` lacks to the history, and add them to `ids`."""
    # sorted: the order of a set differs between processes, and ids should not depend on it.
    new = {name: id for id, name in enumerate(sorted(set(names) - ids.keys()), max(ids.values(), default=0) + 1)}
    _insert_all(connection, CASES_TABLE, [{"id": id, "name": name} for name, id in new.items()])
    ids.update(new)


def _add_last(connection: Connection, environment: int, number: int, states: Mapping[int, CaseState]) -> None:
    """Add the states of the run that started last. It reads only the last digest of each case."""
    last, texts = last_digests(connection, environment), Texts(connection)
    changed = [case for case, state in states.items() if last.get(case) != state.digest]
    # In the order of the key: each page of a table or an index is then written once.
    for part in batched(sorted(changed), WRITE_CHUNK):
        packed = texts.pack([decode_state(states[case].text) for case in part])
        rows = [_make_row(environment, case, number, state) for case, state in zip(part, packed, strict=True)]
        _insert_all(connection, FIGURES_TABLE, rows)
        write_last(connection, environment, {case: states[case].digest for case in part})


def last_digests(connection: Connection, environment: int) -> dict[int, bytes]:
    """Return the digest of the last state of each case. Raises DamagedError."""
    query = select(LAST_TABLE.c.case_id, LAST_TABLE.c.digest).where(LAST_TABLE.c.environment == environment)
    return dict(fetch_many(connection, query, (int, bytes)))


def _add_before(
    connection: Connection, label: str, number: int, states: Mapping[int, CaseState], later: Sequence[int]
) -> None:
    """Add the states of a run that started before other runs."""
    # A later run without a row had the state before. If the new run changes the state, the later run needs a row.
    environment, texts = new_environment_id(connection, label), Texts(connection)
    runs = EnvironmentRuns(connection, label)
    own, first = runs.positions[number], runs.positions[later[0]]
    for part in query_chunks(sorted(states)):
        before = case_rows(connection, environment, part, runs.positions)
        packed = texts.pack([decode_state(states[case].text) for case in part])
        after: dict[int, StateRows[PackedState]] = {}
        last = {}
        for case, state, ran in zip(part, packed, runs.ran(part), strict=True):
            following = next(iter(ran[bisect_left(ran, first) :]), None)
            after[case] = insert_state(before.get(case, {}), own, state, following)
            if following is None:
                last[case] = states[case].digest
        write_rows(connection, environment, runs.order, before, after)
        write_last(connection, environment, last)


def write_rows(
    connection: Connection,
    environment: int,
    order: Sequence[int],
    before: Mapping[int, StateRows[PackedState]],
    after: Mapping[int, StateRows[PackedState]],
) -> None:
    """Replace the rows `before` of the cases by the rows `after`. Rows are by position in `order`."""
    removed, added = [], []
    for case, rows in after.items():
        old = before.get(case, {})
        removed += [{"of_case": case, "of_run": order[place]} for place in old if rows.get(place) != old[place]]
        added += [_make_row(environment, case, order[p], state) for p, state in rows.items() if old.get(p) != state]
    _delete_all(connection, FIGURES_TABLE, _matches_key(FIGURES_TABLE, environment, run=bindparam("of_run")), removed)
    _insert_all(connection, FIGURES_TABLE, added)


def write_last(connection: Connection, environment: int, digests: Mapping[int, bytes | None]) -> None:
    """Set the digest of the last state of each case; None removes a case that no run has."""
    _delete_all(connection, LAST_TABLE, _matches_key(LAST_TABLE, environment), [{"of_case": case} for case in digests])
    some = ((case, digest) for case, digest in digests.items() if digest is not None)
    rows = [{"environment": environment, "case_id": case, "digest": digest} for case, digest in some]
    _insert_all(connection, LAST_TABLE, rows)


def _matches_key(table: Table, environment: int, **columns: Any) -> ColumnElement[bool]:
    named = {"environment": environment, "case_id": bindparam("of_case"), **columns}
    return and_(*(table.c[column] == value for column, value in named.items()))


def _make_row(environment: int, case: int, run: int, state: PackedState) -> dict[str, Any]:
    return {"environment": environment, "case_id": case, "run": run, **state._asdict()}


def _insert_all(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(insert(table), rows)


def _delete_all(connection: Connection, table: Table, which: ColumnElement[bool], keys: list[dict[str, Any]]) -> None:
    if keys:
        connection.execute(delete(table).where(which), keys)
