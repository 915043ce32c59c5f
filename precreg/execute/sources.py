"""A digest of the code that a run depends on, so that an interrupted run goes on only with the code it began with."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

_CODE = (".py", ".so", ".pyd")
_SUITES = (".yaml", ".yml")
_WITHOUT_SOURCES = frozenset({"__pycache__", "node_modules", "reports", "build", "dist"})


def sources_digest(project: Path) -> str:
    """Return a digest of the project's Python and extension modules, and of all suites.

    Hidden folders, virtual environments and what is built are left out. 32 hexadecimal characters.
    """
    digest = hashlib.sha256()
    for path in sorted(_sources(project)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(project).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:32]


def _sources(project: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(project):
        folders[:] = [name for name in folders if _may_hold_sources(folder, name)]
        in_suites = Path(folder).is_relative_to(project / "suites")
        endings = _CODE + _SUITES if in_suites else _CODE
        yield from (Path(folder, name) for name in files if name.endswith(endings))


def _may_hold_sources(folder: str, name: str) -> bool:
    is_environment = os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
    return not (name.startswith(".") or name in _WITHOUT_SOURCES or is_environment)
