"""How does a history of an earlier schema become one of this schema?

Schema 1 stored each state as JSON beside the label of its environment. Exports still have those texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, inspect, select, update

from precreg.history.packing import Texts, query_chunks
from precreg.history.rows import (
    CASES_TABLE,
    FIGURES_TABLE,
    HISTORY_SCHEMA,
    HISTORY_TABLE,
    LAST_TABLE,
    RUNS_TABLE,
    TABLES_METADATA,
    CheckedBinary,
    CheckedInteger,
    CheckedText,
    DamagedError,
)
from precreg.history.runs import new_environment_id
from precreg.history.states import decode_state

FIRST_METADATA = MetaData()
FIRST_CHANGES = Table(
    "precreg_changes",
    FIRST_METADATA,
    Column("environment", Text, primary_key=True),
    Column("case_id", Integer, primary_key=True, autoincrement=False),
    Column("run", CheckedInteger(), primary_key=True, autoincrement=False),
    Column("state", CheckedText(), nullable=False),
)
FIRST_LATEST = Table(
    "precreg_latest",
    FIRST_METADATA,
    Column("environment", Text, primary_key=True),
    Column("case_id", Integer, primary_key=True, autoincrement=False),
    Column("digest", CheckedBinary(), nullable=False),
    sqlite_with_rowid=False,
)


def upgrade_tables(connection: Connection) -> None:
    """Replace the tables of schema 1. Only some cases are in memory at a time. Raises DamagedError."""
    missing = {FIRST_CHANGES.name, FIRST_LATEST.name} - {*inspect(connection).get_table_names()}
    if missing:
        raise DamagedError(f"there is no table {min(missing)}")
    TABLES_METADATA.create_all(connection)
    texts = Texts(connection)
    labels = sorted(set(connection.execute(select(RUNS_TABLE.c.environment)).scalars()))
    cases = sorted(connection.execute(select(CASES_TABLE.c.id)).scalars())
    for label in labels:
        environment = new_environment_id(connection, label)
        for part in query_chunks(cases):
            _upgrade_cases(connection, label, environment, part, texts)
    FIRST_METADATA.drop_all(connection)
    connection.execute(update(HISTORY_TABLE).values(version=HISTORY_SCHEMA))


def _upgrade_cases(connection: Connection, label: str, environment: int, cases: Sequence[int], texts: Texts) -> None:
    old = FIRST_CHANGES.c
    query = select(old.case_id, old.run, old.state).where(old.environment == label, old.case_id.in_(cases))
    rows = connection.execute(query.order_by(old.case_id, old.run)).all()
    states = texts.pack([decode_state(state) for _, _, state in rows])
    changes = [
        {"environment": environment, "case_id": case, "run": run, **state._asdict()}
        for (case, run, _), state in zip(rows, states, strict=True)
    ]
    last = select(FIRST_LATEST.c.case_id, FIRST_LATEST.c.digest).where(
        FIRST_LATEST.c.environment == label, FIRST_LATEST.c.case_id.in_(cases)
    )
    digests = [
        {"environment": environment, "case_id": case, "digest": digest} for case, digest in connection.execute(last)
    ]
    for table, made in ((FIGURES_TABLE, changes), (LAST_TABLE, digests)):
        if made:
            connection.execute(insert(table), made)
