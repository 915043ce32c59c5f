"""A digest of all that results depend on in a project, so that a run goes on only with what it began with."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

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
