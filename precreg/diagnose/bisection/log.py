"""Which versions did an interrupted search judge already?

The log has the lines of `git bisect log`, which `git bisect replay` takes. A comment before each line has the whole
step. Steps that undo parts of a commit are comments alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.storage import (
    WORKING_FOLDER,
    append_to_regular_file,
    lock_file,
    make_scratch_folder,
    read_regular_file,
    report_write_errors,
)
from precreg.types import BisectionStep

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = f"{WORKING_FOLDER}/bisect"
_STEP = "# precreg step "


class SearchLog:
    """The steps of one search, in a file that grows step by step."""

    def __init__(self, shown: str, stream: IO[bytes], known: dict[str, BisectionStep]) -> None:
        self.shown, self._stream, self._known = shown, stream, known

    def known(self, version: str) -> BisectionStep | None:
        """Return the step of a version that the interrupted search judged."""
        step = self._known.get(version)
        return None if step is None else replace(step, logged=True)

    def take(self, step: BisectionStep, line: str = "") -> None:
        """Append a step and its line. Raises UserError: not-writable."""
        written = f"{_STEP}{msgspec.json.encode(step).decode()}\n" + (f"{line}\n" if line else "")
        self._write(written)
        self._known[step.version] = step

    def note(self, lines: Sequence[str]) -> None:
        """Append lines that are no step. Raises UserError: not-writable."""
        self._write("".join(f"{line}\n" for line in lines))

    def _write(self, text: str) -> None:
        with report_write_errors(self.shown):
            self._stream.write(text.encode(errors="surrogateescape"))


@contextmanager
def open_log(project: Path, identity: Sequence[str], *, resume: bool) -> Iterator[SearchLog]:
    """Open the log of the search with this identity; without `resume` it begins again.

    Raises UserError: nothing-to-resume, locked, not-writable.
    """
    name = sha256(json.dumps([*identity]).encode()).hexdigest()[:16]
    shown = f"{_FOLDER}/{name}.log"
    path = project / shown
    if resume and not path.is_file():
        raise UserError("nothing-to-resume", f"expected the log of this search but there is no file={shown}")
    with report_write_errors(shown):
        make_scratch_folder(project / WORKING_FOLDER)
        make_scratch_folder(path.parent)
        with append_to_regular_file(path) as stream:
            if not lock_file(stream):
                raise UserError("locked", f"expected one search at a time but another process has file={shown}")
            known = _read(path) if resume else {}
            if not resume:
                stream.truncate(0)
            yield SearchLog(shown, stream, known)


def _read(path: Path) -> dict[str, BisectionStep]:
    """Return the steps of a log by version. A kill may have cut the last line off."""
    found = {}
    for line in read_regular_file(path).decode(errors="surrogateescape").splitlines():
        if line.startswith(_STEP):
            try:
                step = msgspec.json.decode(line.removeprefix(_STEP), type=BisectionStep)
            except (msgspec.DecodeError, msgspec.ValidationError):
                continue
            found[step.version] = step
    return found
