"""The journal of a run: a header, then one outcome a line, each given to the system before the next case is awaited.

A killed run keeps what it had. Only the last line can be torn by a kill, and a torn line is one case to run again.
"""

from __future__ import annotations

import fcntl
from errno import ENOSPC
from os import strerror
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from precreg import __version__
from precreg.errors import UserError
from precreg.run.sources import sources_digest
from precreg.storage.writing import make_scratch_folder, writing
from precreg.subject.failure import encodable
from precreg.types.records import Environment
from precreg.types.types import Outcome

JOURNAL_SCHEMA = "precreg-journal/2"

_Line = TypeVar("_Line")


class Header(Struct, frozen=True, forbid_unknown_fields=True):
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
        with writing(str(path)):
            make_scratch_folder(path.parent)
            self._file = path.open("ab", buffering=0)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                self._file.close()
                message = f"expected to be the only run that writes {path.name} but another process has it open"
                raise UserError("locked", message, file=str(path)) from error

    def append(self, line: Header | Outcome) -> None:
        """Add a line and give it to the system. Raises UserError (not-writable), for instance when the disk is full."""
        text = self._encoder.encode(line) + b"\n"
        with writing(str(self.path)):
            if self._file.write(text) < len(text):
                raise OSError(ENOSPC, strerror(ENOSPC))

    def keep(self, length: int) -> None:
        """Cut off all but the first `length` bytes."""
        self._file.truncate(length)

    def close(self) -> None:
        """Close the file, and give up its lock."""
        self._file.close()


def header(project: Path, environment: Environment, against: str = "") -> Header:
    """Describe the run that is about to be made; a commit that it is judged against decides seeds and repeats, too."""
    name, code = encodable(project.name), " against ".join(filter(None, (sources_digest(project), against)))
    return Header(JOURNAL_SCHEMA, __version__, name, environment.label, environment.fingerprint, code)


def start(path: Path, header: Header) -> Journal:
    """Begin a new journal in place of the last one. Raises UserError (locked, not-writable)."""
    journal = Journal(path)
    journal.keep(0)
    journal.append(header)
    return journal


def resume(path: Path, header: Header) -> tuple[Journal, dict[str, Outcome]]:
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


def _header(line: bytes, path: Path) -> Header:
    if not line:
        raise UserError("nothing-to-resume", "expected a header but the run was stopped before it", file=str(path))
    schema = _decoded(line, _Schema, path, 1).schema
    if schema == JOURNAL_SCHEMA:
        return _decoded(line, Header, path, 1)
    family, _, version = schema.rpartition("/")
    own_family, _, own_version = JOURNAL_SCHEMA.rpartition("/")
    is_newer = family == own_family and version.isdecimal() and int(version) > int(own_version)
    slug = "future-schema" if is_newer else "unreadable-journal"
    raise UserError(slug, f"expected schema={JOURNAL_SCHEMA} but got schema={schema}", file=str(path), line=1)


def _decoded(line: bytes, kind: type[_Line], path: Path, number: int) -> _Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as error:
        message = f"expected a line of a journal but got {error}"
        raise UserError("unreadable-journal", message, file=str(path), line=number) from error


def _require_same(written: Header, present: Header, path: Path) -> None:
    for name in Header.__struct_fields__:
        before, now = getattr(written, name), getattr(present, name)
        if before != now:
            raise UserError(
                "code-changed", f"expected {name}={before}, as the run began, but got {now}", file=str(path)
            )
