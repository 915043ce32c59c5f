"""Writing files that are either the old ones or the new ones, whatever kills the process in between.

Keeping paths inside the project, wherever symbolic links lead.

Where the project is, and which paths belong to it.

Making many objects at once: Python's search for cycles would go through all there are, again and again.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ELOOP
from os.path import realpath
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.types import Location


WORKING_FOLDER = ".precreg"
"""The folder of a project's journals, proposals and lock, and of what its cases were found to depend on."""


@contextmanager
def report_write_errors(shown: str) -> Iterator[None]:
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
    with open_replacement(path) as stream:
        stream.write(content)


@contextmanager
def open_replacement(path: Path) -> Iterator[IO[bytes]]:
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


def resolve_inside(project: Path, path: str | Path, *, file: str | None = None, line: int | None = None) -> Path:
    """Return `path` (absolute, or relative to the project) resolved, symbolic links too.

    Raises UserError (outside-project) where it leads out of the project; `file` and `line` say who named it.
    """
    try:
        resolved = _resolved(project / path)
        inner = resolved.is_relative_to(project.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, a NUL in the name
        inner = False
    if not inner:
        message = f"expected a path inside the project but got path={path}"
        raise UserError("outside-project", message, file=file, line=line)
    return resolved


def _resolved(path: Path) -> Path:
    """Follow symbolic links as far as there are files; raise OSError or RuntimeError for links in a circle."""
    try:
        return path.resolve(strict=True)
    except OSError as error:
        if error.errno == ELOOP:
            raise
        return path.resolve()


MAX_PATH = 1024


def find_project(start: Path) -> Path:
    """Return the nearest folder at or above `start` that has a suites/ folder, or else .precreg/.

    A project of hand-written tests alone has no suites; its tests have made .precreg/. Raises UserError (no-project).
    """
    start = Path(realpath(start))
    for mark in ("suites", WORKING_FOLDER):
        for folder in (start, *start.parents):
            if (folder / mark).is_dir():
                return folder
    raise UserError("no-project", f"expected a folder with suites/ but got start={start}, and none above it has one")


# A project's own devices, one file each. Reading suites needs the name of the folder alone, and no device.
DEVICES_FOLDER = "suites/devices"


def yaml_files(project: Path) -> list[Path]:
    """Return the YAML files below suites/, hidden ones too; folders behind links are not entered."""
    return [
        Path(folder, name)
        for folder, folders, files in os.walk(project / "suites")
        for name in (*folders, *files)
        if name.endswith((".yaml", ".yml"))
    ]


def path_beside_suite(project: Path, directory: str, path: str, where: Location) -> str:
    """Return a path that a suite names relative to its folder, as a path relative to the project.

    Links are followed first, so that one cannot lead out. Raises UserError: outside-project, also for an absolute
    path; bad-value as `require_path` does.
    """
    require_path(path, where)
    if PurePosixPath(path).is_absolute():
        message = f"expected a path relative to {directory}/ but got path={path}"
        raise UserError("outside-project", message, file=where.file, line=where.line)
    target = resolve_inside(project, Path(directory, path), file=where.file, line=where.line)
    return target.relative_to(realpath(project)).as_posix()


def require_path(path: str, where: Location) -> None:
    """Raise UserError (bad-value) for a path, or a pattern of paths, that no file system takes."""
    if "\0" in path or len(path) > MAX_PATH:
        message = f"expected a path of at most {MAX_PATH} characters, without NUL, but got path={path[:60]!r}"
        raise UserError("bad-value", message, file=where.file, line=where.line)


@contextmanager
def pause_gc() -> Iterator[None]:
    """Make many objects that have no cycles without a search for garbage among them; afterwards it is as it was."""
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            gc.enable()
