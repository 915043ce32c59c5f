"""Where does an interrupted run go on?

The journal has a header and then one outcome a line. Each line reaches the system before the run waits for the next
case, so a killed run keeps its outcomes. A kill can tear only the last line, and that case runs again. The header has
a digest of the project's sources: a run goes on only with the code that it began with.

The first outcome with figures is plain JSON, and the dictionary of the following ones: each of their lines is a JSON
string, the base64 of the compressed JSON. 3,000 tiny cases have 8.4 MB in plain JSON, and 0.5 MB so.
"""

from __future__ import annotations

import hashlib
import os
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Iterator
from errno import ENOSPC
from os import strerror
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from precreg import __version__
from precreg.errors import UserError
from precreg.storage import (
    append_to_regular_file,
    lock_file,
    make_scratch_folder,
    pack_bytes,
    read_regular_file,
    report_write_errors,
    schema_age,
    unpack_bytes,
)
from precreg.subject import escape_surrogates
from precreg.types import ClusterWorker, Environment, Outcome

# A file of at least 8 MiB enters the digest by size and time, because reading all recorded data would take seconds at
# every start. A time that changes without the content costs a run from the start, and never gives a wrong result.
LARGE_BYTES = 2**23

_SOURCE_SUFFIXES = (".py", ".so", ".pyd", ".npy", ".npz")
# Folders that a build or a run writes: their files would change the digest at every run.
_BUILT_FOLDERS = frozenset({"node_modules", "reports", "build", "dist"})

JOURNAL_SCHEMA = "precreg-journal/3"
# All lines of its journals are plain JSON. A run that goes on with one adds such lines.
_PLAIN_SCHEMA = "precreg-journal/2"
# The most bytes of one outcome, as a worker may send it.
_MAX_OUTCOME_BYTES = 1 << 30
# The line of a worker comes before its first outcome; lines of outcomes begin with the case.
_WORKER_LINE = b'{"name":'
_PACKED_MARK = b'"'

_Line = TypeVar("_Line")


def sources_digest(project: Path) -> str:
    """Return a digest of the project's modules and arrays, and of every file below suites/: 32 hexadecimal characters.

    A subject may read any file beside its suite, so all of these count. Hidden files and folders, caches and virtual
    environments do not, nor do build folders outside suites/.
    """
    digest = hashlib.sha256()
    for path in project_sources(project):
        content = _read_state(path)
        # Paths and lengths separate the files: moving bytes from one file to the next changes the digest.
        digest.update(os.fsencode(path.relative_to(project)) + f"\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:32]


def _read_state(path: Path) -> bytes:
    """Return the content of a file, size and time of a large one, or the error that reading it gives."""
    try:
        facts = path.stat()
        if facts.st_size >= LARGE_BYTES:
            return f"{facts.st_size} {facts.st_mtime_ns}".encode()
        return read_regular_file(path)
    except OSError as problem:
        return str(problem).encode()


def project_sources(project: Path) -> list[Path]:
    """Return the project's modules and arrays, and every file below suites/, sorted."""
    return sorted(_source_files(project))


def _source_files(project: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(project):
        in_suites = Path(folder).is_relative_to(project / "suites")
        left_out, endings = (frozenset(), "") if in_suites else (_BUILT_FOLDERS, _SOURCE_SUFFIXES)
        folders[:] = [name for name in folders if name not in left_out and not _is_hidden_or_installed(folder, name)]
        paths = (Path(folder, name) for name in files if name.endswith(endings) and not name.startswith("."))
        yield from (path for path in paths if path.is_file())


def _is_hidden_or_installed(folder: str, name: str) -> bool:
    # Every virtual environment has this file, whatever the name of its folder.
    is_environment = os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
    return name.startswith(".") or name == "__pycache__" or is_environment


class JournalHeader(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The conditions of a run, which goes on only if all are the same.

    `code` is the digest of the sources, and `against` the revision whose baselines and definitions judge.
    """

    schema: str
    precreg: str
    project: str
    environment: str
    fingerprint: str
    # The digest of the sources, and the commit that judges, if any.
    code: str
    against: str = ""


class _Schema(Struct):
    schema: str


class Journal:
    """An open journal, locked against every other process until it is closed or its process ends.

    `workers` are the workers of a cluster that gave the outcomes of an interrupted run, by their index.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or create it. Raises UserError (locked, not-writable)."""
        self.path = path
        self.workers: tuple[ClusterWorker, ...] = ()
        # The text that lines of outcomes are compressed with: none before the first outcome with figures.
        self.words = b""
        self.is_plain = False
        self._encoder = msgspec.json.Encoder()
        with report_write_errors(str(path)):
            make_scratch_folder(path.parent)
            # Unbuffered, so that a kill loses at most the last line.
            self._file = append_to_regular_file(path)
            locked = lock_file(self._file)
        if not locked:
            self._file.close()
            message = f"expected to be the only run that writes {path.name} but another process has it open"
            raise UserError("locked", message, file=str(path))

    def append(self, line: JournalHeader | Outcome | ClusterWorker) -> None:
        """Write a line. Raises UserError (not-writable), for instance if the disk is full."""
        text = self._encoder.encode(line)
        # An outcome without figures is short, and has other words.
        has_figures = not self.is_plain and isinstance(line, Outcome) and bool(line.comparisons)
        if has_figures and self.words:
            self._write(_pack(text, self.words))
            return
        self._write(text)
        if has_figures:
            self.words = text

    def _write(self, text: bytes) -> None:
        with report_write_errors(str(self.path)):
            # An unbuffered write to a nearly full disk may write a part of the line without an error.
            if self._file.write(text + b"\n") <= len(text):
                raise OSError(ENOSPC, strerror(ENOSPC))

    def keep(self, length: int) -> None:
        """Cut off all but the first `length` bytes."""
        self._file.truncate(length)

    def close(self) -> None:
        """Close the file, which releases its lock."""
        self._file.close()


def journal_header(project: Path, environment: Environment, against: str = "") -> JournalHeader:
    """Return the header of a run. `against` is the commit that judges it: its cases may have other seeds or repeats."""
    name, code = escape_surrogates(project.name), sources_digest(project)
    return JournalHeader(JOURNAL_SCHEMA, __version__, name, environment.label, environment.fingerprint, code, against)


def start_journal(path: Path, header: JournalHeader) -> Journal:
    """Begin a journal in place of the last one. Raises UserError (locked, not-writable)."""
    journal = Journal(path)
    journal.keep(0)
    journal.append(header)
    return journal


def resume_journal(path: Path, header: JournalHeader) -> tuple[Journal, dict[str, Outcome]]:
    """Open the journal of an interrupted run, and return it with its outcomes by case id.

    Raises UserError: nothing-to-resume without a journal, code-changed if the code or the environment differs,
    future-schema, unreadable-journal, locked, not-writable.
    """
    if not path.exists():
        raise UserError(
            "nothing-to-resume", "expected the journal of an interrupted run but there is none", file=str(path)
        )
    journal = Journal(path)
    try:
        complete, _, _torn = _read_lines(path).rpartition(b"\n")
        lines = complete.split(b"\n")
        written = _read_header(lines[0], path)
        _require_same(written, header, path)
        journal.is_plain = written.schema == _PLAIN_SCHEMA
        numbered = list(enumerate(lines[1:], start=2))
        of_cases = ((at, line) for at, line in numbered if not line.startswith(_WORKER_LINE))
        outcomes = [*_read_outcomes(journal, of_cases)]
        workers = [_decode(line, ClusterWorker, path, at) for at, line in numbered if line.startswith(_WORKER_LINE)]
        journal.workers = tuple(workers)
        journal.keep(len(complete) + 1)
    except UserError:
        journal.close()
        raise
    return journal, {outcome.case: outcome for outcome in outcomes}


def _pack(text: bytes, words: bytes) -> bytes:
    return _PACKED_MARK + b2a_base64(pack_bytes(text, words), newline=False) + _PACKED_MARK


def _read_outcomes(journal: Journal, lines: Iterable[tuple[int, bytes]]) -> Iterator[Outcome]:
    """Yield the outcomes of numbered lines. The journal gets the text that compresses the following ones."""
    path = journal.path
    for at, line in lines:
        if line.startswith(_PACKED_MARK) and journal.words:
            yield _decode(_unpack(line, journal.words, path, at), Outcome, path, at)
            continue
        outcome = _decode(line, Outcome, path, at)
        if outcome.comparisons and not journal.words and not journal.is_plain:
            journal.words = line
        yield outcome


def _unpack(line: bytes, words: bytes, path: Path, number: int) -> bytes:
    try:
        if not line.endswith(_PACKED_MARK):
            raise ValueError("a text without an end")
        return unpack_bytes(a2b_base64(line[1:-1], strict_mode=True), words, _MAX_OUTCOME_BYTES)
    except ValueError as error:
        raise _unreadable_line(error, path, number) from error


def _unreadable_line(error: Exception, path: Path, number: int) -> UserError:
    return UserError("unreadable-journal", f"expected a line of a journal but got {error}", file=str(path), line=number)


def _read_lines(path: Path) -> bytes:
    try:
        return read_regular_file(path)
    except OSError as problem:
        message = f"expected a journal that can be read, but: {problem.strerror}"
        raise UserError("unreadable-journal", message, file=str(path)) from problem


def _read_header(line: bytes, path: Path) -> JournalHeader:
    if not line:
        raise UserError("nothing-to-resume", "expected a header but the run was stopped before it", file=str(path))
    # The schema first and alone: other versions may have other fields.
    schema = _decode(line, _Schema, path, 1).schema
    age = schema_age(schema, JOURNAL_SCHEMA)
    if age == "same" or schema == _PLAIN_SCHEMA:
        return _decode(line, JournalHeader, path, 1)
    slug = "future-schema" if age == "newer" else "unreadable-journal"
    raise UserError(slug, f"expected schema={JOURNAL_SCHEMA} but got schema={schema}", file=str(path), line=1)


def _decode(line: bytes, kind: type[_Line], path: Path, number: int) -> _Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except (ValueError, RecursionError) as error:
        raise _unreadable_line(error, path, number) from error


def _require_same(written: JournalHeader, present: JournalHeader, path: Path) -> None:
    # Journals of version 0.1.0 have the revision in `code`, behind the digest.
    if present.against and written.code == f"{present.code} against {present.against}":
        written = replace(written, code=present.code, against=present.against)
    written = replace(written, schema=present.schema)
    for name in JournalHeader.__struct_fields__:
        before, now = getattr(written, name), getattr(present, name)
        if before != now:
            raise UserError(
                "code-changed", f"expected {name}={before}, as the run began, but got {now}", file=str(path)
            )
