"""Files that are either the old ones or the new ones, whatever kills the process in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from precreg.errors import UserError
from precreg.scratch import make_scratch_folder


def prepare(folder: Path) -> None:
    """Make a folder of reports, if it is not there. Raises UserError (not-writable)."""
    with _writing(folder):
        make_scratch_folder(folder)


def write(path: Path, content: str | bytes) -> None:
    """Replace a file in one step, and make its folder; text is written as UTF-8 with the newlines it has.

    Raises:
        UserError: not-writable.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with _writing(path):
        make_scratch_folder(path.parent)
        try:
            temporary.write_bytes(data)
            os.replace(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        message = f"expected to write here but got: {problem.strerror or problem}"
        raise UserError("not-writable", message, file=str(path)) from problem
