"""Where are outcomes kept for later runs, and which of them are removed?

A SQLite file in the working folder of a project. It is a cache: a file that is damaged, of another version or of
another user counts as empty, and no problem of it stops a run. When the file grows beyond MAX_BYTES, the outcomes go
first that no run has used for the longest time.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw, Struct, msgpack

from precreg.run.reuse.file_state import digest_of
from precreg.storage import MOST_WORDS, WORKING_FOLDER, make_scratch_folder, pack_bytes, unpack_bytes
from precreg.types import Outcome

if TYPE_CHECKING:
    from sqlite3 import Connection

OUTCOMES_FILE = f"{WORKING_FOLDER}/outcomes.sqlite"
# Raise it when keys, entries or the observations behind them get another meaning.
STORE_SCHEMA = 3
# 100,000 outcomes of one output and one seed take 172 MB (20,000 rows of 1.4 kB, measured).
MAX_BYTES = 1 << 29
# SQLite's own pages of 4 KiB take a quarter more for such rows.
_PAGE_BYTES = 8192
# A row without its content: six names of 32 characters, and two of them again in the index.
_ROW_BYTES = 256
# The share of MAX_BYTES that is left after a removal, so that not each run removes some.
_KEPT_SHARE = 0.8
# Outcomes of one case for other states of its files, so that switching branches and back finds them.
MAX_VARIANTS = 4
# A use is noted by the day, because writing it for each case would cost more than reading the outcome.
_DAY_S = 86400
# Another process may write its outcomes meanwhile.
_WAIT_S = 5.0

_TABLES = (
    # With row ids, because a table without them moves the end of each row above 1,000 bytes to a page of its own.
    "CREATE TABLE outcomes (key TEXT NOT NULL, variant TEXT NOT NULL, used INTEGER NOT NULL, digest TEXT NOT NULL,"
    " words TEXT NOT NULL, seen TEXT NOT NULL, loaded TEXT NOT NULL, content BLOB NOT NULL,"
    " PRIMARY KEY (key, variant))",
    # Sets of paths, and the texts that outcomes are compressed with.
    "CREATE TABLE sets (name TEXT NOT NULL PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID",
)

_T = TypeVar("_T")


class OutcomeConditions(Struct, frozen=True, array_like=True):
    """All that the outcome of a case depended on beside the key.

    `files` is the digest of the files that the definition and the imports name. `seen` and `loaded` name sets of paths
    with their states: those that the code opened, and the modules and libraries outside the project. `shadows` is a
    digest of the names in folders that imports search. `constants` is a digest of the tolerances that the measurement
    used. `started` and `commit` are those of the run that computed.
    """

    files: str
    seen: str
    loaded: str
    shadows: str
    constants: str
    started: str
    commit: str


class KeptOutcome(OutcomeConditions, frozen=True, array_like=True):
    """The outcome of a case with its conditions."""

    outcome: Outcome


class EncodedOutcome(OutcomeConditions, frozen=True, array_like=True):
    """A `KeptOutcome` whose outcome waits as msgpack, which takes a tenth of its memory."""

    outcome: Raw


class PathSet(Struct, frozen=True, array_like=True):
    """Paths with their states, and names of modules that must not be shadowed."""

    states: dict[str, str]
    tops: list[str] = []


class OutcomeStore:
    """The kept outcomes of one project. Every problem of its file makes it empty."""

    def __init__(self, project: Path) -> None:
        """Open nothing yet."""
        self._path = project / OUTCOMES_FILE
        self._connection: Connection | None = None
        self._is_new = not self.exists()
        self._encoder = msgpack.Encoder()
        self._outcomes, self._sets = msgpack.Decoder(KeptOutcome), msgpack.Decoder(PathSet)
        self._used: list[tuple[int, str, str]] = []
        # The texts that outcomes are compressed with, by name: each process that adds some has its own.
        self._words: dict[str, bytes] = {}
        self._own_words = b""
        self._today = int(time()) // _DAY_S

    def exists(self) -> bool:
        """Return whether an earlier run may have kept something."""
        return self._path.is_file()

    def find(self, key: str) -> Iterator[KeptOutcome]:
        """Yield the outcomes of a key, the last used first."""
        # A run that begins without the file finds nothing in it, and asks once for each case.
        if self._is_new:
            return
        query = "SELECT variant, used, digest, words, content FROM outcomes WHERE key = ? ORDER BY used DESC"
        rows: list[Any] = self._guarded(lambda database: database.execute(query, (key,)).fetchall(), [])
        for row in rows:
            # A damaged file may have a value of any type in any place.
            with suppress(ValueError, TypeError, RecursionError, zlib.error):
                variant, used, digest, name, content = row
                if digest_of(key, variant, name, content) == digest:
                    kept = self._outcomes.decode(unpack_bytes(content, self._find_words(name)))
                    if used != self._today:
                        self._used.append((self._today, key, variant))
                    yield kept

    def find_set(self, name: str) -> PathSet | None:
        """Return the set of a name; None if it is missing or damaged."""
        content = self._find_content(name)
        with suppress(ValueError, RecursionError):
            return self._sets.decode(content) if content else None
        return None

    def _find_words(self, name: str) -> bytes:
        if name not in self._words:
            self._words[name] = self._find_content(name)
        return self._words[name]

    def _find_content(self, name: str) -> bytes:
        query = "SELECT content FROM sets WHERE name = ?"
        row = self._guarded(lambda database: database.execute(query, (name,)).fetchone(), None)
        with suppress(ValueError, TypeError, zlib.error):
            if row is not None and digest_of(row[0]) == name:
                return zlib.decompress(row[0])
        return b""

    def add(self, outcomes: Sequence[tuple[str, KeptOutcome | EncodedOutcome]], sets: Sequence[PathSet]) -> None:
        """Keep outcomes by key, and their sets; keep none where the file cannot be written."""
        if outcomes and not self._own_words:
            # Outcomes of one project have the same names and mostly the same paths. The first one compresses the
            # others to a tenth, in less than half of the time.
            self._own_words = self._encoder.encode(outcomes[0][1])[-MOST_WORDS:]
        # Each time, because the file may be a new one since.
        words = zlib.compress(self._own_words, 1)
        rows = [self._row(key, kept, digest_of(words)) for key, kept in outcomes]
        packed = [words, *map(self._pack, sets)]
        self._guarded(lambda database: self._write(database, rows, packed), None)

    def set_name(self, content: PathSet) -> str:
        """Return the name of a set, which is a digest of its content."""
        return digest_of(self._pack(content))

    def close(self) -> None:
        """Note the uses of this run, make room, and close the file."""
        self._guarded(self._finish, None)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _pack(self, content: PathSet) -> bytes:
        return zlib.compress(self._encoder.encode(content), 1)

    def _row(self, key: str, kept: KeptOutcome | EncodedOutcome, words: str) -> tuple[Any, ...]:
        content = pack_bytes(self._encoder.encode(kept), self._own_words)
        variant = digest_of(kept.files, kept.seen, kept.loaded, kept.shadows, kept.constants)
        digest = digest_of(key, variant, words, content)
        return key, variant, self._today, digest, words, kept.seen, kept.loaded, content

    def _write(self, database: Connection, rows: list[tuple[Any, ...]], packed: list[bytes]) -> None:
        with database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(
                "INSERT OR IGNORE INTO sets VALUES (?, ?)", [(digest_of(each), each) for each in packed]
            )
            database.executemany("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            surplus = (
                "DELETE FROM outcomes WHERE key = ?1 AND variant != ?2 AND variant NOT IN"
                " (SELECT variant FROM outcomes WHERE key = ?1 AND variant != ?2 ORDER BY used DESC LIMIT ?3)"
            )
            database.executemany(surplus, [(row[0], row[1], MAX_VARIANTS - 1) for row in rows])

    def _finish(self, database: Connection) -> None:
        with database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("UPDATE outcomes SET used = ? WHERE key = ? AND variant = ?", self._used)
            self._used.clear()
            size = _size(database)
            if size > MAX_BYTES:
                self._remove_oldest(database, size)

    def _remove_oldest(self, database: Connection, size: int) -> None:
        """Remove the outcomes that no run has used for the longest time, and the sets that no other outcome has."""
        left, surplus = size - int(MAX_BYTES * _KEPT_SHARE), []
        lengths = dict(database.execute("SELECT name, length(content) FROM sets"))
        users = dict(database.execute("SELECT words, count(*) FROM outcomes GROUP BY words"))
        for key, variant, words, length in database.execute(
            "SELECT key, variant, words, length(content) FROM outcomes ORDER BY used"
        ):
            if left <= 0:
                break
            users[words] -= 1
            # The last outcome that needs a text takes it along.
            left -= length + _ROW_BYTES + (0 if users[words] else lengths.get(words, 0))
            surplus.append((key, variant))
        database.executemany("DELETE FROM outcomes WHERE key = ? AND variant = ?", surplus)
        named = " UNION ".join(f"SELECT {column} FROM outcomes" for column in ("words", "seen", "loaded"))
        database.execute(f"DELETE FROM sets WHERE name NOT IN ({named})")

    def _guarded(self, use: Callable[[Connection], _T], otherwise: _T) -> _T:
        """Use the database. A damaged file is removed, and any other problem leaves the run without it."""
        from sqlite3 import DatabaseError, Error, OperationalError

        try:
            return use(self._open())
        except OperationalError:
            # It is locked for long, or the disk is full: others may use the file.
            return otherwise
        except DatabaseError:
            self._remove()
            return otherwise
        except (Error, OSError, OverflowError, ValueError):
            return otherwise

    def _open(self) -> Connection:
        if self._connection is None:
            import sqlite3

            make_scratch_folder(self._path.parent)
            self._require_own()
            connection = sqlite3.connect(self._path, timeout=_WAIT_S, isolation_level=None)
            try:
                connection.execute("PRAGMA trusted_schema = OFF")
                # It applies to a new file, and does nothing to others.
                connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
                # A power cut may damage the file, which then counts as empty.
                connection.execute("PRAGMA synchronous = OFF")
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _require_own(self) -> None:
        """Refuse a file that is no regular one of this user: what others wrote must not become a result."""
        if self._path.is_symlink() or (self._path.exists() and not self._is_own()):
            self._path.unlink()

    def _is_own(self) -> bool:
        return self._path.is_file() and self._path.stat().st_uid == os.geteuid()

    def _prepare(self, database: Connection) -> None:
        """Make the tables in a new file. Raises DatabaseError for tables that this version did not make."""
        from sqlite3 import DatabaseError

        with database:
            database.execute("BEGIN IMMEDIATE")
            found = [row[0] for row in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if not found and not version:
                for statement in _TABLES:
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {STORE_SCHEMA}")
            elif sorted(found) != sorted(_TABLES) or version != STORE_SCHEMA:
                raise DatabaseError("the tables of another version")

    def _remove(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        for suffix in ("", "-journal"):
            with suppress(OSError):
                os.unlink(f"{self._path}{suffix}")


def _size(database: Connection) -> int:
    pages, free, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
