"""Where the project is, and which paths belong to it."""

from __future__ import annotations

import os
from os.path import realpath
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from precreg.errors import UserError
from precreg.storage.paths import inside
from precreg.storage.writing import WORKING_FOLDER

if TYPE_CHECKING:
    from precreg.types.types import Location


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


def yaml_files(project: Path) -> list[Path]:
    """Return the YAML files below suites/, hidden ones too; folders behind links are not entered."""
    return [
        Path(folder, name)
        for folder, folders, files in os.walk(project / "suites")
        for name in (*folders, *files)
        if name.endswith((".yaml", ".yml"))
    ]


def beside(project: Path, directory: str, path: str, where: Location) -> str:
    """Return a path that a suite names relative to its folder, as a path relative to the project.

    Links are followed first, so that one cannot lead out. Raises UserError: outside-project, also for an absolute
    path; bad-value as `require_path` does.
    """
    require_path(path, where)
    if PurePosixPath(path).is_absolute():
        message = f"expected a path relative to {directory}/ but got path={path}"
        raise UserError("outside-project", message, file=where.file, line=where.line)
    target = inside(project, Path(directory, path), file=where.file, line=where.line)
    return target.relative_to(realpath(project)).as_posix()


def require_path(path: str, where: Location) -> None:
    """Raise UserError (bad-value) for a path, or a pattern of paths, that no file system takes."""
    if "\0" in path or len(path) > MAX_PATH:
        message = f"expected a path of at most {MAX_PATH} characters, without NUL, but got path={path[:60]!r}"
        raise UserError("bad-value", message, file=where.file, line=where.line)
