"""A digest of all that results depend on in a project, so that a run goes on only with what it began with.

The journal of a run: a header, then one outcome a line, each given to the system before the next case is awaited.

A killed run keeps what it had. Only the last line can be torn by a kill, and a torn line is one case to run again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from errno import ENOSPC
from os import strerror
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from precreg import __version__
from precreg.errors import UserError
from precreg.storage import lock_file, make_scratch_folder, report_write_errors, schema_age
from precreg.subject import escape_surrogates
from precreg.types import Environment, Outcome

LARGE_BYTES = 2**23
"""From this size a file counts by size and time, because reading all recorded data takes seconds at every start.

A time that changes without the content costs a run from the start, and never a wrong result.
"""


_SOURCES = (".py", ".so", ".pyd", ".npy", ".npz")

_BUILT = frozenset({"node_modules", "reports", "build", "dist"})


def sources_digest(project: Path) -> str:
    """Return a digest of the project's modules and arrays, and of every file below suites/, whatever its kind.

    Any file beside a suite may be one that a subject reads. Hidden files and folders, caches and virtual environments
    are left out, and outside suites/ what is built. 32 hexadecimal characters.
    """
    digest = hashlib.sha256()
    for path in sorted(_sources(project)):
        content = _content(path)
        digest.update(os.fsencode(path.relative_to(project)) + f"\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:32]


def _content(path: Path) -> bytes:
    """Return what tells one state of the file from the next."""
    try:
        facts = path.stat()
        if facts.st_size >= LARGE_BYTES:
            return f"{facts.st_size} {facts.st_mtime_ns}".encode()
        return path.read_bytes()
    except OSError as problem:
        return str(problem).encode()


def _sources(project: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(project):
        in_suites = Path(folder).is_relative_to(project / "suites")
        left_out, endings = (frozenset(), "") if in_suites else (_BUILT, _SOURCES)
        folders[:] = [name for name in folders if name not in left_out and not _is_hidden_or_installed(folder, name)]
        paths = (Path(folder, name) for name in files if name.endswith(endings) and not name.startswith("."))
        yield from (path for path in paths if path.is_file())


def _is_hidden_or_installed(folder: str, name: str) -> bool:
    is_environment = os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
    return name.startswith(".") or name == "__pycache__" or is_environment


JOURNAL_SCHEMA = "precreg-journal/2"

_Line = TypeVar("_Line")


class JournalHeader(Struct, frozen=True, forbid_unknown_fields=True):
    """What a run depends on: a run goes on only where all of it is the same. `code` is the digest of the sources."""

    schema: str
    precreg: str
    project: str
    environment: str
    fingerprint: str
    code: str


class _Schema(Struct):
    schema: str


class Journal:
    """An open journal, locked against every other process until it is closed or its process ends."""

    def __init__(self, path: Path) -> None:
        """Open the file, made when it is not there. Raises UserError (locked, not-writable)."""
        self.path = path
        self._encoder = msgspec.json.Encoder()
        with report_write_errors(str(path)):
            make_scratch_folder(path.parent)
            self._file = path.open("ab", buffering=0)
            locked = lock_file(self._file)
        if not locked:
            self._file.close()
            message = f"expected to be the only run that writes {path.name} but another process has it open"
            raise UserError("locked", message, file=str(path))

    def append(self, line: JournalHeader | Outcome) -> None:
        """Add a line and give it to the system. Raises UserError (not-writable), for instance when the disk is full."""
        text = self._encoder.encode(line) + b"\n"
        with report_write_errors(str(self.path)):
            if self._file.write(text) < len(text):
                raise OSError(ENOSPC, strerror(ENOSPC))

    def keep(self, length: int) -> None:
        """Cut off all but the first `length` bytes."""
        self._file.truncate(length)

    def close(self) -> None:
        """Close the file, and give up its lock."""
        self._file.close()


def journal_header(project: Path, environment: Environment, against: str = "") -> JournalHeader:
    """Describe the run that is about to be made; a commit that it is judged against decides seeds and repeats, too."""
    name, code = escape_surrogates(project.name), " against ".join(filter(None, (sources_digest(project), against)))
    return JournalHeader(JOURNAL_SCHEMA, __version__, name, environment.label, environment.fingerprint, code)


def start_journal(path: Path, header: JournalHeader) -> Journal:
    """Begin a new journal in place of the last one. Raises UserError (locked, not-writable)."""
    journal = Journal(path)
    journal.keep(0)
    journal.append(header)
    return journal


def resume_journal(path: Path, header: JournalHeader) -> tuple[Journal, dict[str, Outcome]]:
    """Open the journal of an interrupted run to go on with it, and return its outcomes by case id.

    Raises UserError: nothing-to-resume where there is no journal, code-changed where it is of other code or of another
    environment, future-schema, unreadable-journal, locked, not-writable.
    """
    if not path.exists():
        raise UserError(
            "nothing-to-resume", "expected the journal of an interrupted run but there is none", file=str(path)
        )
    journal = Journal(path)
    try:
        whole = path.read_bytes().rpartition(b"\n")
        lines = whole[0].split(b"\n")
        _require_same(_header(lines[0], path), header, path)
        outcomes = [_decoded(line, Outcome, path, number) for number, line in enumerate(lines[1:], start=2)]
        journal.keep(len(whole[0]) + 1)
    except UserError:
        journal.close()
        raise
    return journal, {outcome.case: outcome for outcome in outcomes}


def _header(line: bytes, path: Path) -> JournalHeader:
    if not line:
        raise UserError("nothing-to-resume", "expected a header but the run was stopped before it", file=str(path))
    schema = _decoded(line, _Schema, path, 1).schema
    age = schema_age(schema, JOURNAL_SCHEMA)
    if age == "same":
        return _decoded(line, JournalHeader, path, 1)
    slug = "future-schema" if age == "newer" else "unreadable-journal"
    raise UserError(slug, f"expected schema={JOURNAL_SCHEMA} but got schema={schema}", file=str(path), line=1)


def _decoded(line: bytes, kind: type[_Line], path: Path, number: int) -> _Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as error:
        message = f"expected a line of a journal but got {error}"
        raise UserError("unreadable-journal", message, file=str(path), line=number) from error


def _require_same(written: JournalHeader, present: JournalHeader, path: Path) -> None:
    for name in JournalHeader.__struct_fields__:
        before, now = getattr(written, name), getattr(present, name)
        if before != now:
            raise UserError(
                "code-changed", f"expected {name}={before}, as the run began, but got {now}", file=str(path)
            )
