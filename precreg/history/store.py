"""The database of a history: where it is, its transactions, and its errors told as what a user can mend.

A history: the runs of one project, kept in a SQLite file or a PostgreSQL database.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, NoReturn
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from precreg.errors import UserError
from precreg.history.add import add_run, new_run, to_utc
from precreg.history.exchange import ExportReader, export_lines, import_export, remove_runs, select_runs_to_remove
from precreg.history.rows import HISTORY_SCHEMA, HISTORY_TABLE, TABLES_METADATA, DamagedError
from precreg.history.series import HistoryRun, HistorySeries, case_states, every_series, stored_runs
from precreg.storage import future_schema, report_write_errors, schema_age
from precreg.types import RunRecord

CONNECT_TIMEOUT_S = 10
"""How long a database server may take to answer; without it a host that is down is waited for by the minute."""


_LOCK = 7308325  # any number that other users of a shared server are not likely to have chosen

_SQLITE, _POSTGRESQL = "sqlite", "postgresql"

_NO_PRIVILEGE = "42501"

_DENIED = {"25006", _NO_PRIVILEGE, "53100"}  # read_only_sql_transaction, insufficient_privilege, disk_full

_LOCK_NOT_AVAILABLE = "55P03"

_IMMEDIATE = "precreg_immediate"


Purpose = Literal["read", "write"]


class Database:
    """A place that may hold a history. `shown` names it without its password."""

    def __init__(self, engine: Engine, shown: str, wait_s: float, secrets: tuple[str, ...] = ()) -> None:
        self.shown = shown
        self._engine, self._wait_s, self._secrets = engine, wait_s, secrets

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the database, whatever others write meanwhile."""
        with self._told("read"), self._engine.connect() as connection, connection.begin():
            if connection.dialect.name == _POSTGRESQL:
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open the one transaction that may write; others wait for it. It is kept whole, or not at all.

        Raises:
            UserError: locked, not-writable.
        """
        with self._told("write"), self._engine.connect() as connection:
            connection.execution_options(**{_IMMEDIATE: True})
            with connection.begin():
                if connection.dialect.name == _POSTGRESQL:
                    connection.execute(text(f"SET LOCAL lock_timeout = '{round(self._wait_s * 1000)}ms'"))
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
                yield connection

    def compact(self) -> None:
        """Give the space of what was removed back to the disk, if nothing is in the way; else later rows take it."""
        if self._engine.dialect.name == _SQLITE:
            with suppress(sqlite3.Error), closing(self._engine.raw_connection()) as connection:
                connection.cursor().execute("VACUUM")

    def close(self) -> None:
        """Let go of every connection."""
        self._engine.dispose()

    @contextmanager
    def _told(self, purpose: Purpose) -> Iterator[None]:
        try:
            yield
        except DBAPIError as problem:
            self._tell(problem, purpose)
        except DamagedError as problem:
            message = f"expected a history, but it is damaged: {problem}"
            raise UserError("history-unavailable", message, file=self.shown) from None

    def _tell(self, problem: DBAPIError, purpose: Purpose) -> NoReturn:
        said = " ".join(str(problem.orig).split())
        for secret in self._secrets:
            said = said.replace(secret, "***")
        slug, expected = _kind(problem, said, purpose)
        raise UserError(slug, f"expected {expected}, but: {said}", file=self.shown) from None


def _kind(problem: DBAPIError, said: str, purpose: Purpose) -> tuple[str, str]:
    state = getattr(problem.orig, "sqlstate", None)
    if state == _LOCK_NOT_AVAILABLE or "database is locked" in said:
        return "locked", "to be the only one that writes the history"
    if state == _NO_PRIVILEGE and purpose == "read":
        return "history-unavailable", "to be allowed to read the history"
    if state in _DENIED or re.search("readonly database|disk is full|disk I/O error", said):
        return "not-writable", "to be able to write"
    return "history-unavailable", "a history"


def open_database(place: str | Path, *, create: bool, wait_s: float) -> Database:
    """Return the database at a path (SQLite) or URL (sqlite, postgresql), without connecting yet.

    Raises:
        UserError: missing-history where there is no such file, and it is not to be made; history-unavailable for a
            URL that cannot be read, and where there is no driver for it; not-writable.
    """
    if isinstance(place, Path) or "://" not in place:
        return _file(Path(place), create, wait_s)
    url = _parsed(re.sub("^postgres://", "postgresql://", place))
    kind = url.get_backend_name()
    if kind == _SQLITE and url.database:
        return _file(Path(url.database), create, wait_s)
    if kind != _POSTGRESQL:
        message = f"expected a file, sqlite:///FILE or postgresql://HOST/DATABASE but got history={_shown(url)}"
        raise UserError("history-unavailable", message)
    return _server(url, wait_s)


def _file(path: Path, create: bool, wait_s: float) -> Database:
    if path.is_dir():
        raise UserError("history-unavailable", "expected a file, but it is a folder", file=str(path))
    if create:
        with report_write_errors(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    elif not path.exists():
        raise UserError("missing-history", "expected a history, but there is no such file", file=str(path))
    engine = create_engine("sqlite://", creator=_opener(path, wait_s), poolclass=NullPool)
    event.listen(engine, "begin", _begin)
    return Database(engine, str(path), wait_s)


def _opener(path: Path, wait_s: float) -> Callable[[], sqlite3.Connection]:
    """Return what opens the file, so that no file is made where there is none, and transactions begin when we say."""
    uri = f"file:{quote(str(path))}?mode=rw"
    return lambda: sqlite3.connect(uri, uri=True, timeout=wait_s, isolation_level=None)


def _begin(connection: Connection) -> None:
    """Take the lock at once where something will be written: two that read first could both not go on."""
    immediate = connection.get_execution_options().get(_IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _parsed(place: str) -> URL:
    """Read a URL. What cannot be read is not shown: it may have a password in it."""
    try:
        if place.partition("://")[2].partition("/")[0].count("@") > 1:
            raise ArgumentError
        return make_url(place)
    except (ArgumentError, ValueError):
        message = "expected a path or a URL such as postgresql://USER:PASSWORD@HOST/DATABASE, its parts percent-encoded"
        raise UserError("history-unavailable", f"{message}, but what was given cannot be read") from None


def _shown(url: URL) -> str:
    return url.set(query={}).render_as_string(hide_password=True)


def _server(url: URL, wait_s: float) -> Database:
    """Connect by psycopg 3, whatever driver the URL names or SQLAlchemy would take by itself."""
    shown, url = _shown(url), url.set(drivername="postgresql+psycopg")
    if "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": str(CONNECT_TIMEOUT_S)})
    try:
        engine = create_engine(url)
    except ImportError as problem:
        message = f"expected a driver for PostgreSQL, but: {problem}; pip install 'precreg[postgresql]'"
        raise UserError("history-unavailable", message, file=shown) from None
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns of what we tell as an error
    secrets = [url.password, *(url.query.get(name) for name in ("password", "sslpassword"))]
    return Database(engine, shown, wait_s, tuple(str(secret) for secret in secrets if secret))


WAIT_S = 60.0
"""How long to wait for another process that writes."""


def open_history(place: str | Path, *, project: str, create: bool = False, wait_s: float = WAIT_S) -> History:
    """Open the history of a project, by its name, at a path (SQLite) or a URL (sqlite:///..., postgresql://...).

    Use it as a context manager. With `create` it is made where there is none.

    Raises:
        UserError: missing-history, other-project, future-schema, history-unavailable (the server is down, a wrong
            password, no driver, no database file), and with `create` not-writable and locked.
    """
    opened = open_database(place, create=create, wait_s=wait_s)
    try:
        if create:
            with opened.writing() as connection:
                _make(connection, project)
        with opened.reading() as connection:
            _require(connection, opened.shown, project)
    except BaseException:
        opened.close()
        raise
    return History(opened, project)


def _make(connection: Connection, project: str) -> None:
    if not inspect(connection).has_table(HISTORY_TABLE.name):
        TABLES_METADATA.create_all(connection)
        connection.execute(insert(HISTORY_TABLE).values(version=HISTORY_SCHEMA, project=project, next_number=1))


def _require(connection: Connection, shown: str, project: str) -> None:
    """Refuse what is no history, one that a newer version made, and that of another project."""
    if not inspect(connection).has_table(HISTORY_TABLE.name):
        raise UserError("missing-history", "expected a history, but the database holds none", file=shown)
    found = connection.execute(select(HISTORY_TABLE.c.version, HISTORY_TABLE.c.project)).first()
    if found is None:
        raise DamagedError("it does not say whose history it is")
    if schema_age(found.version, HISTORY_SCHEMA) in ("newer", "other"):
        raise future_schema(found.version, HISTORY_SCHEMA, shown)
    if found.project != project:
        message = f"expected the history of {project} but got project={found.project}"
        raise UserError("other-project", message, file=shown)


class History:
    """The runs of one project. Environments are never mixed: a run is compared with those of its own label alone."""

    def __init__(self, opened: Database, project: str) -> None:
        self._database, self.project = opened, project
        self._held: Connection | None = None

    def __enter__(self) -> History:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._database.close()

    def add(self, record: RunRecord) -> int | None:
        """Keep a run, and return its number; None where it is there already.

        Raises:
            UserError: other-project, unreadable-record (a start that is no time), locked, not-writable.
        """
        if record.project != self.project:
            message = f"expected a run of {self.project} but got project={record.project}"
            raise UserError("other-project", message, file=self._database.shown)
        kept = case_states(record)
        run = new_run(record, kept)
        with self._database.writing() as connection:
            return add_run(connection, run, kept)

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Let all that is read within come from one state of the history, whatever others write meanwhile."""
        with self._database.reading() as self._held:
            try:
                yield
            finally:
                self._held = None

    def _reading(self) -> AbstractContextManager[Connection]:
        return self._database.reading() if self._held is None else nullcontext(self._held)

    def runs(self, environment: str | None = None) -> tuple[HistoryRun, ...]:
        """Return the runs, of one environment or of all, in the order in which they started."""
        with self._reading() as connection:
            return tuple(stored_runs(connection, environment))

    def environments(self) -> tuple[str, ...]:
        """Return the labels of the environments that have runs, sorted."""
        return tuple(sorted({run.environment for run in self.runs()}))

    def series(
        self, environment: str, *, since: int | None = None, cases: Sequence[str] = ()
    ) -> Iterator[HistorySeries]:
        """Yield every series of an environment, sorted by case, output and metric; few cases are in memory at once.

        `since` is the number of the first run to read. `cases` are patterns: a case's id, a part of it, or with the
        wildcards * ? []. Every series is read from one state of the history; iterate to the end, or close.

        Raises:
            UserError: bad-value, if no run of the environment has the number `since`.
        """
        with self._reading() as connection:
            yield from every_series(connection, environment, since, cases)

    def export(self) -> Iterator[bytes]:
        """Yield the history as lines of JSON, read from one state of it; iterate to the end, or close."""
        with self._reading() as connection:
            yield from export_lines(connection, self.project)

    def import_lines(self, lines: Iterable[bytes], shown: str) -> int:
        """Add the runs of an export that are not here yet, all or none, and return how many.

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
        self, *, before: str | None = None, keep: int | None = None, keep_commits: Collection[str] = ()
    ) -> tuple[HistoryRun, ...]:
        """Remove runs, all or none, and return them; the series of those that stay do not change.

        Removed is what started before a time (ISO 8601; None for any), except the newest `keep` runs of each
        environment and the runs of the commits.

        Raises:
            ValueError: with neither `before` nor a positive `keep`.
            UserError: locked, not-writable.
        """
        if before is None and not keep:
            raise ValueError("expected a time, or a number of runs to keep")
        with self._database.writing() as connection:
            gone = select_runs_to_remove(stored_runs(connection), before and to_utc(before), keep, keep_commits)
            remove_runs(connection, gone)
        if gone:
            self._database.compact()
        return tuple(gone)
