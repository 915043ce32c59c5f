"""Where a package is imported from, as Python's finders tell it now, without importing it."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_SITE = {"site-packages", "dist-packages"}


class Origin(NamedTuple):
    """The file that would be imported, None for a package without one, and the folders of a package."""

    file: str | None
    folders: tuple[str, ...]


def origin(top: str) -> Origin | None:
    """Return where a package or module without a dot in its name comes from; None where nothing has that name.

    It is looked up once for as long as sys.path, which the check of another commit changes, is the same.
    """
    return _looked_up(top, tuple(sys.path))


@lru_cache(maxsize=1024)
def _looked_up(top: str, _path: tuple[str, ...]) -> Origin | None:
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    return None if spec is None else Origin(spec.origin, tuple(spec.submodule_search_locations or ()))


def installed_from(top: str, project: Path) -> Path | None:
    """Return the folder of the project from which an installed package is imported, such as src/; usually None."""
    found = None if top in sys.stdlib_module_names else origin(top)
    if found is None:
        return None
    home = Path(found.folders[0]).parent if found.folders else Path(found.file or "/").parent
    inside = home.is_relative_to(project) and _SITE.isdisjoint(home.parts)
    return home if inside else None
