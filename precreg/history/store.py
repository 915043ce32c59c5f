"""A history: the runs of one project, kept in a SQLite file or a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType

from sqlalchemy import Connection, insert, inspect, select

from precreg.errors import UserError
from precreg.history.add import add_run, in_utc, new_run
from precreg.history.coding import DamagedError
from precreg.history.database import Database, database
from precreg.history.exchange import Export, exported
from precreg.history.prune import remove_runs, to_remove
from precreg.history.read import every_series, stored_runs
from precreg.history.series import Run, Series
from precreg.history.state import states
from precreg.history.tables import HISTORY, METADATA, SCHEMA
from precreg.history.unite import unite
from precreg.types.records import RunRecord

WAIT_S = 60.0
"""How long to wait for another process that writes."""


_FAMILY, _, _VERSION = SCHEMA.partition("/")


def open_history(place: str | Path, *, project: str, create: bool = False, wait_s: float = WAIT_S) -> History:
    """Open the history of a project, by its name, at a path (SQLite) or a URL (sqlite:///..., postgresql://...).

    Use it as a context manager. With `create` it is made where there is none.

    Raises:
        UserError: missing-history, other-project, future-schema, history-unavailable (the server is down, a wrong
            password, no driver, no database file), and with `create` not-writable and locked.
    """
    opened = database(place, create=create, wait_s=wait_s)
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
    if not inspect(connection).has_table(HISTORY.name):
        METADATA.create_all(connection)
        connection.execute(insert(HISTORY).values(version=SCHEMA, project=project, next_number=1))


def _require(connection: Connection, shown: str, project: str) -> None:
    """Refuse what is no history, one that a newer version made, and that of another project."""
    if not inspect(connection).has_table(HISTORY.name):
        raise UserError("missing-history", "expected a history, but the database holds none", file=shown)
    found = connection.execute(select(HISTORY.c.version, HISTORY.c.project)).first()
    if found is None:
        raise DamagedError("it does not say whose history it is")
    family, _, version = found.version.partition("/")
    if family != _FAMILY or not version.isdecimal() or int(version) > int(_VERSION):
        message = f"expected schema {SCHEMA} or older but got schema={found.version}"
        raise UserError("future-schema", message, file=shown)
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
        kept = states(record)
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

    def runs(self, environment: str | None = None) -> tuple[Run, ...]:
        """Return the runs, of one environment or of all, in the order in which they started."""
        with self._reading() as connection:
            return tuple(stored_runs(connection, environment))

    def environments(self) -> tuple[str, ...]:
        """Return the labels of the environments that have runs, sorted."""
        return tuple(sorted({run.environment for run in self.runs()}))

    def series(self, environment: str, *, since: int | None = None, cases: Sequence[str] = ()) -> Iterator[Series]:
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
            yield from exported(connection, self.project)

    def import_lines(self, lines: Iterable[bytes], shown: str) -> int:
        """Add the runs of an export that are not here yet, all or none, and return how many.

        `shown` names the export in errors.

        Raises:
            UserError: unreadable-history, future-schema, other-project, locked, not-writable.
        """
        export = Export(lines, shown)
        if export.header.project != self.project:
            message = f"expected an export of {self.project} but got project={export.header.project}"
            raise UserError("other-project", message, file=shown)
        with self._database.writing() as connection:
            return unite(connection, export)

    def prune(
        self, *, before: str | None = None, keep: int | None = None, keep_commits: Collection[str] = ()
    ) -> tuple[Run, ...]:
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
            gone = to_remove(stored_runs(connection), before and in_utc(before), keep, keep_commits)
            remove_runs(connection, gone)
        if gone:
            self._database.compact()
        return tuple(gone)
