"""Where is a history stored, and how does a caller read and write it?

A history holds the runs of one project in a SQLite file or a PostgreSQL database. This module also translates the
errors of the database to UserErrors with a slug and advice.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from errno import EINVAL
from pathlib import Path
from types import TracebackType
from typing import IO, Literal
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from precreg.errors import UserError
from precreg.history.add import add_run, new_run, to_utc
from precreg.history.exchange import (
    ExportReader,
    PruneRule,
    export_lines,
    import_export,
    remove_runs,
    select_runs_to_remove,
)
from precreg.history.parquet import require_pyarrow, write_parquet
from precreg.history.rows import HISTORY_SCHEMA, HISTORY_TABLE, TABLES_METADATA, DamagedError
from precreg.history.runs import HistoryRun, case_names, stored_runs
from precreg.history.series import CaseBlock, CaseCourse, HistorySeries, every_block, every_course, every_series
from precreg.history.states import case_states
from precreg.history.upgrade import upgrade_tables
from precreg.storage import (
    append_to_regular_file,
    future_schema,
    open_regular_file,
    report_write_errors,
    schema_age,
)
from precreg.types import MetricDescription, RunRecord

# Seconds until a server must answer. Without a limit, libpq waits minutes for a host that is down.
CONNECT_TIMEOUT_S = 10

# Seconds to wait for another process that writes. Then the write fails with the slug `locked`.
WAIT_S = 60.0

# The key of the advisory lock. It has no meaning; other users of a shared server are unlikely to choose this number.
_LOCK = 7308325
_SQLITE, _POSTGRESQL = "sqlite", "postgresql"
# SQLSTATE codes of PostgreSQL (appendix A of its manual): read_only_sql_transaction, insufficient_privilege, disk_full.
_NO_PRIVILEGE = "42501"
_DENIED = {"25006", _NO_PRIVILEGE, "53100"}
_LOCK_NOT_AVAILABLE = "55P03"
# Primary result codes of SQLite. An extended code holds its primary code in the low byte.
_SQLITE_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_SQLITE_DENIED = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
# The execution option that marks a transaction of `Database.writing` for `_begin`.
_IMMEDIATE = "precreg_immediate"

Purpose = Literal["read", "write"]


class Database:
    """Open transactions on a database that may hold a history. `shown` is its name without the password."""

    def __init__(self, engine: Engine, shown: str, wait_s: float, secrets: tuple[str, ...] = ()) -> None:
        self.shown = shown
        self._engine, self._wait_s, self._secrets = engine, wait_s, secrets

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the database, also while other processes write."""
        with self._translated_errors("read"), self._engine.connect() as connection, connection.begin():
            if connection.dialect.name == _POSTGRESQL:
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open the only transaction that may write; other writers wait. Commit it as a whole, or roll it back.

        Raises:
            UserError: locked, not-writable.
        """
        with self._translated_errors("write"), self._engine.connect() as connection:
            connection.execution_options(**{_IMMEDIATE: True})
            with connection.begin():
                # PostgreSQL lets several transactions write. The advisory lock makes them wait, as SQLite's lock does.
                if connection.dialect.name == _POSTGRESQL:
                    connection.execute(text(f"SET LOCAL lock_timeout = '{round(self._wait_s * 1000)}ms'"))
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
                yield connection

    def compact(self) -> None:
        """Return the space of removed rows in a SQLite file to the disk. PostgreSQL has autovacuum."""
        # VACUUM needs every other connection to be idle. A busy database keeps the space, and later rows reuse it.
        if self._engine.dialect.name == _SQLITE:
            with suppress(sqlite3.Error), closing(self._engine.raw_connection()) as connection:
                connection.cursor().execute("VACUUM")

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextmanager
    def _translated_errors(self, purpose: Purpose) -> Iterator[None]:
        try:
            yield
        except DBAPIError as problem:
            raise self._user_error(problem, purpose) from None
        # sqlite3 itself decodes some texts of a damaged file.
        except (DamagedError, UnicodeDecodeError) as problem:
            message = f"expected a history, but it is damaged: {problem}"
            raise UserError("history-unavailable", message, file=self.shown) from None

    def _user_error(self, problem: DBAPIError, purpose: Purpose) -> UserError:
        message = " ".join(str(problem.orig).split())
        for secret in self._secrets:  # drivers quote the connection string in some messages, with its password
            message = message.replace(secret, "***")
        slug, expected = _classify(problem, purpose)
        return UserError(slug, f"expected {expected}, but: {message}", file=self.shown)


def _classify(problem: DBAPIError, purpose: Purpose) -> tuple[str, str]:
    """Return the slug of a database error and the unmet expectation, by the error codes of the drivers."""
    state = getattr(problem.orig, "sqlstate", None)
    code = getattr(problem.orig, "sqlite_errorcode", 0) & 0xFF
    if state == _LOCK_NOT_AVAILABLE or code in _SQLITE_BUSY:
        return "locked", "to be the only one that writes the history"
    if state == _NO_PRIVILEGE and purpose == "read":
        return "history-unavailable", "to be allowed to read the history"
    if state in _DENIED or code in _SQLITE_DENIED:
        return "not-writable", "to be able to write"
    return "history-unavailable", "a history"


def open_database(place: str | Path, *, create: bool, wait_s: float) -> Database:
    """Return the database at a path (SQLite) or URL (sqlite, postgresql) without a connection to it.

    Raises:
        UserError: missing-history if the file does not exist and `create` is false; history-unavailable for a URL
            that cannot be read or has no driver; not-writable.
    """
    if isinstance(place, Path) or "://" not in place:
        return _file_database(Path(place), create, wait_s)
    url = _parse_url(re.sub("^postgres://", "postgresql://", place))
    kind = url.get_backend_name()
    if kind == _SQLITE and url.database:
        return _file_database(Path(url.database), create, wait_s)
    if kind != _POSTGRESQL:
        message = f"expected a file, sqlite:///FILE or postgresql://HOST/DATABASE but got history={_format_url(url)}"
        raise UserError("history-unavailable", message)
    return _server_database(url, wait_s)


def _file_database(path: Path, create: bool, wait_s: float) -> Database:
    if create:
        with report_write_errors(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # SQLite itself would wait for the other end of a pipe.
        (append_to_regular_file if create else open_regular_file)(path).close()
    except OSError as problem:
        raise _unopened(path, problem, create=create) from None
    engine = create_engine("sqlite://", creator=_make_opener(path, wait_s), poolclass=NullPool)
    event.listen(engine, "begin", _begin)
    return Database(engine, str(path), wait_s)


def _unopened(path: Path, problem: OSError, *, create: bool) -> UserError:
    if isinstance(problem, FileNotFoundError):
        return UserError("missing-history", "expected a history, but there is no such file", file=str(path))
    # precreg cannot write to a folder or a pipe at this place, and no permission would help.
    slug = "not-writable" if create and problem.errno != EINVAL else "history-unavailable"
    return UserError(slug, f"expected a file, but: {problem.strerror}", file=str(path))


def _make_opener(path: Path, wait_s: float) -> Callable[[], sqlite3.Connection]:
    """Return a function that opens the file.

    It never creates a file, and it leaves the begin of transactions to SQLAlchemy.
    """
    uri = f"file:{quote(str(path))}?mode=rw"
    return lambda: sqlite3.connect(uri, uri=True, timeout=wait_s, isolation_level=None)


def _begin(connection: Connection) -> None:
    """Begin a transaction, and take the write lock at once if it may write."""
    # With a plain BEGIN two writers could both read first. Then neither could get the write lock: a deadlock.
    immediate = connection.get_execution_options().get(_IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _parse_url(place: str) -> URL:
    """Parse a URL. An error does not quote the URL, because an unreadable URL may contain a password."""
    try:
        # With a second @ before the path, SQLAlchemy would read a part of the password as the host and show it.
        if place.partition("://")[2].partition("/")[0].count("@") > 1:
            raise ArgumentError
        return make_url(place)
    except (ArgumentError, ValueError):
        message = "expected a path or a URL such as postgresql://USER:PASSWORD@HOST/DATABASE, its parts percent-encoded"
        raise UserError("history-unavailable", f"{message}, but got a text that cannot be read") from None


def _format_url(url: URL) -> str:
    return url.set(query={}).render_as_string(hide_password=True)


def _server_database(url: URL, wait_s: float) -> Database:
    """Return a database on a PostgreSQL server, with psycopg 3 as its driver."""
    # The extra precreg[postgresql] installs psycopg 3 alone. SQLAlchemy would take psycopg2 for a URL without a driver.
    shown, url = _format_url(url), url.set(drivername="postgresql+psycopg")
    if "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": str(CONNECT_TIMEOUT_S)})
    try:
        engine = create_engine(url)
    except ImportError as problem:
        message = f"expected a driver for PostgreSQL, but: {problem}; pip install 'precreg[postgresql]'"
        raise UserError("history-unavailable", message, file=shown) from None
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # its warnings repeat our errors
    secrets = [url.password, *(url.query.get(name) for name in ("password", "sslpassword"))]
    return Database(engine, shown, wait_s, tuple(str(secret) for secret in secrets if secret))


def open_history(place: str | Path, *, project: str, create: bool = False, wait_s: float = WAIT_S) -> History:
    """Open the history of a project at a path (SQLite) or a URL (sqlite:///..., postgresql://...).

    A history of an earlier schema is upgraded first, so that needs the right to write.

    `project` is the project's name. Use the result as a context manager. `create` makes a missing history.

    Raises:
        UserError: missing-history, other-project, future-schema, history-unavailable (the server is down, a wrong
            password, no driver, no database file), and with `create` or an earlier schema not-writable and locked.
    """
    opened = open_database(place, create=create, wait_s=wait_s)
    try:
        if create:
            with opened.writing() as connection:
                _create_tables(connection, project)
        _upgrade(opened, project)
    except BaseException:
        opened.close()
        raise
    return History(opened, project)


def _create_tables(connection: Connection, project: str) -> None:
    if not inspect(connection).has_table(HISTORY_TABLE.name):
        TABLES_METADATA.create_all(connection)
        connection.execute(insert(HISTORY_TABLE).values(version=HISTORY_SCHEMA, project=project, next_number=1))


def _upgrade(opened: Database, project: str) -> None:
    """Bring a history of an earlier schema to this one, all of it or nothing.

    Raises:
        UserError: as `open_history`, and not-writable or locked if the history must be upgraded.
    """
    with opened.reading() as connection:
        found = _require_history(connection, opened.shown, project)
    if found == HISTORY_SCHEMA:
        return
    try:
        with opened.writing() as connection:
            # Another process may have upgraded the history in the meantime.
            if _require_history(connection, opened.shown, project) != HISTORY_SCHEMA:
                upgrade_tables(connection)
    except UserError as problem:
        message = f"expected to upgrade the history once from {found} to {HISTORY_SCHEMA}: {problem.message}"
        hint = "run precreg history list once as a user who may write it, with as much free space as it has"
        raise UserError(problem.slug, message, hint=hint, file=opened.shown) from None
    opened.compact()


def _require_history(connection: Connection, shown: str, project: str) -> str:
    """Refuse a database without a history, a newer schema, and the history of another project; return the schema."""
    if not inspect(connection).has_table(HISTORY_TABLE.name):
        raise UserError("missing-history", "expected a history, but the database holds none", file=shown)
    found = connection.execute(select(HISTORY_TABLE.c.version, HISTORY_TABLE.c.project)).first()
    if found is None:
        raise DamagedError("the name of its project is missing")
    if schema_age(found.version, HISTORY_SCHEMA) in ("newer", "other"):
        raise future_schema(found.version, HISTORY_SCHEMA, shown)
    if found.project != project:
        message = f"expected the history of {project} but got project={found.project}"
        raise UserError("other-project", message, file=shown)
    version: str = found.version
    return version


class History:
    """Add, read and remove the runs of one project.

    Environments are never mixed: precreg compares a run with runs of the same environment label alone.
    """

    def __init__(self, opened: Database, project: str) -> None:
        self._database, self.project = opened, project
        self._snapshot: Connection | None = None

    def __enter__(self) -> History:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._database.close()

    def add(self, record: RunRecord) -> int | None:
        """Store a run and return its number; None if the history has the run already.

        Raises:
            UserError: other-project, unreadable-record (its start is not a time), locked, not-writable.
        """
        if record.project != self.project:
            message = f"expected a run of {self.project} but got project={record.project}"
            raise UserError("other-project", message, file=self._database.shown)
        states = case_states(record)
        run = new_run(record, states)
        with self._database.writing() as connection:
            return add_run(connection, run, states)

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Read everything inside the `with` block from one state of the history, also while other processes write."""
        with self._database.reading() as self._snapshot:
            try:
                yield
            finally:
                self._snapshot = None

    def _reading(self) -> AbstractContextManager[Connection]:
        return self._database.reading() if self._snapshot is None else nullcontext(self._snapshot)

    def runs(self, environment: str | None = None) -> tuple[HistoryRun, ...]:
        """Return the runs, of one environment or of all, in the order in which they started."""
        with self._reading() as connection:
            return tuple(stored_runs(connection, environment))

    def environments(self) -> tuple[str, ...]:
        """Return the labels of the environments that have runs, sorted."""
        return tuple(sorted({run.environment for run in self.runs()}))

    def cases(self, environment: str) -> list[str]:
        """Return the cases that runs of an environment ran, sorted."""
        with self._reading() as connection:
            return case_names(connection, environment)

    def series(
        self, environment: str, *, since: int | None = None, cases: Sequence[str] = ()
    ) -> Iterator[HistorySeries]:
        """Yield every series of an environment, sorted by case, output and metric.

        Only a few cases are in memory at a time. `since` is the number of the first run to read. `cases` are patterns
        as in `match_names`. Every series comes from one state of the history, and the transaction ends with the
        iterator: iterate to the end, or close it.

        Raises:
            UserError: bad-value, if no run of the environment has the number `since`.
        """
        with self._reading() as connection:
            yield from every_series(connection, environment, since, cases)

    def courses(
        self,
        environment: str,
        wanted: Callable[[str, Sequence[MetricDescription]], bool],
        *,
        since: int | None = None,
        cases: Sequence[str] = (),
    ) -> Iterator[CaseCourse]:
        """Yield the verdicts and the series of each case of an environment, sorted by case.

        `wanted` gets the name of a metric, and the metrics of the case's analyzers. All else is as in `series`.

        Raises:
            UserError: bad-value, if no run of the environment has the number `since`.
        """
        with self._reading() as connection:
            yield from every_course(connection, environment, since, cases, wanted)

    def blocks(self, environment: str, *, since: int | None = None, cases: Sequence[str] = ()) -> Iterator[CaseBlock]:
        """Yield the stored cases of an environment in blocks. All else is as in `series`.

        Raises:
            UserError: bad-value, if no run of the environment has the number `since`.
        """
        with self._reading() as connection:
            yield from every_block(connection, environment, since, cases)

    def export(self) -> Iterator[bytes]:
        """Yield the history as lines of JSON from one state of it. Iterate to the end, or close the iterator."""
        with self._reading() as connection:
            yield from export_lines(connection, self.project)

    def export_parquet(self, stream: IO[bytes]) -> int:
        """Write the history as a Parquet file from one state of it, and return the number of rows.

        Raises:
            UserError: missing-extra without pyarrow.
        """
        require_pyarrow()
        with self._reading() as connection:
            return write_parquet(connection, stream)

    def import_lines(self, lines: Iterable[bytes], shown: str) -> int:
        """Add the new runs of an export, all or none, and return their number.

        `shown` names the export in errors.

        Raises:
            UserError: unreadable-history, future-schema, other-project, locked, not-writable.
        """
        export = ExportReader(lines, shown)
        if export.header.project != self.project:
            message = f"expected an export of {self.project} but got project={export.header.project}"
            raise UserError("other-project", message, file=shown)
        with self._database.writing() as connection:
            return import_export(connection, export)

    def prune(
        self,
        *,
        before: str | None = None,
        keep: int | None = None,
        keep_commits: Collection[str] = (),
        weekly_before: str | None = None,
    ) -> tuple[HistoryRun, ...]:
        """Remove runs as a PruneRule says, all or none, and return them. The series of the other runs do not change.

        Times are ISO 8601.

        Raises:
            ValueError: without a time or a positive `keep`.
            UserError: locked, not-writable.
        """
        if before is None and not keep and weekly_before is None:
            raise ValueError("expected a time, or a number of runs to keep")
        rule = PruneRule(before and to_utc(before), keep, keep_commits, weekly_before and to_utc(weekly_before))
        with self._database.writing() as connection:
            removed = select_runs_to_remove(stored_runs(connection), rule)
            remove_runs(connection, removed)
        if removed:
            self._database.compact()
        return tuple(removed)
