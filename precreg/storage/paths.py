"""Keeping paths inside the project, wherever symbolic links lead."""

from __future__ import annotations

from errno import ELOOP
from pathlib import Path

from precreg.errors import UserError


def inside(project: Path, path: str | Path, *, file: str | None = None, line: int | None = None) -> Path:
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
