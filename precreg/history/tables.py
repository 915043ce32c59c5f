"""The tables of a history. A case has a row in `changes` only at a run where what is kept of it changed.

A run's scope is the set of cases that it ran, stored once for all runs that ran the same: so "unchanged" (in the
scope, no row) differs from "not run" (a selection, a shard, a device that was not there, a case that is gone).
`latest` holds, for each case in each environment, the digest of its state at the last run that ran it.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Integer, LargeBinary, MetaData, Table, Text

SCHEMA = "precreg-history/1"


METADATA = MetaData()


HISTORY = Table(
    "precreg_history",
    METADATA,
    Column("version", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("next_number", Integer, nullable=False),
)
"""One row: what this is, whose, and the number of the next run."""


RUNS = Table(
    "precreg_runs",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("identity", Text, nullable=False, unique=True),
    Column("started", Text, nullable=False),
    Column("commit_id", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("dirty", Boolean, nullable=False),
    Column("environment", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("precreg", Text, nullable=False),
    Column("exit_code", Integer, nullable=False),
    Column("scope", Text, nullable=False),
)


SCOPES = Table(
    "precreg_scopes",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("bitmap", LargeBinary, nullable=False),
)


CASES = Table(
    "precreg_cases",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
)


CHANGES = Table(
    "precreg_changes",
    METADATA,
    Column("environment", Text, primary_key=True),
    Column("case_id", Integer, primary_key=True, autoincrement=False),
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
)
"""SQLite appends rows and keys them apart: rows kept in the order of the key would split a page for nearly each."""


LATEST = Table(
    "precreg_latest",
    METADATA,
    Column("environment", Text, primary_key=True),
    Column("case_id", Integer, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
