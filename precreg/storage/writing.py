"""Writing files that are either the old ones or the new ones, whatever kills the process in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from precreg.errors import UserError

WORKING_FOLDER = ".precreg"
"""The folder of a project's journals, proposals and lock, and of what its cases were found to depend on."""


@contextmanager
def writing(shown: str) -> Iterator[None]:
    """Tell a user what could not be written, and why: no permission, a full disk, a file where a folder should be.

    Raises:
        UserError: not-writable, in place of an OSError.
    """
    try:
        yield
    except OSError as problem:
        message = f"expected to be able to write, but: {problem.strerror or problem}"
        raise UserError("not-writable", message, file=shown) from problem


def make_scratch_folder(folder: Path) -> None:
    """Make a folder, and those above it, with a .gitignore for all it will hold; one that is there stays as it is.

    For what is made again at any time: reports, journals, proposals. A run that leaves files behind would otherwise
    make its own tree dirty. Several processes may make it at once. Raises OSError.
    """
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("*\n")


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file, or make it, in one step: after it the new content is on the disk, before it the old.

    A device or a pipe is written to instead. The folder must be there. Two processes that replace one file at once do
    not mix their contents. Raises OSError.
    """
    with replacing(path) as stream:
        stream.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open what becomes the new content of a file, as `replace_file` does, once all of it is written."""
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as stream:  # a device or a pipe is written to: /dev/null must stay what it is
            yield stream
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Make a rename in the folder outlast a power cut; a file system that cannot flush folders has to do without."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
