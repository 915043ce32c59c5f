"""What all cases together depend on, remembered: most pushes touch none of it, and then no suite need be read.

The index tells of a file system, not of a commit: it holds as long as every path that was looked at is as it was, links
and files that were looked for in vain among them. This module only compares, and imports next to nothing for it;
`remembering` writes the index whenever suites are read.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from precreg import __version__
from precreg.storage.project import yaml_files
from precreg.storage.writing import WORKING_FOLDER
from precreg.vcs.packages import Origin, origin

INDEX = f"{WORKING_FOLDER}/dependencies.json"
"""Where it is kept, relative to the project."""


SCHEMA = 1
"""Raised when the index is written, or what a case depends on is found, by other rules."""


THRESHOLDS = "PRECISION_THRESHOLDS"
"""As in tolerance/thresholds.py, whose import this must not wait for; a test holds the two together."""


Signature = tuple[int, ...]
"""Mode and inode, and of whatever is no folder on the way to a file also size, mtime and ctime in ns."""


def nothing_touched(project: Path, changed: Set[str], environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether it is certain that no case depends on files that changed; False means that suites must be read.

    `changed` are paths relative to the project, whose files are those of the working tree.
    """
    if environ.get(THRESHOLDS) or any(path.startswith("baselines/") for path in changed):
        return False
    try:
        index = json.loads((project / INDEX).read_bytes())
        return changed.isdisjoint(index["dependencies"]) and _holds(index, project)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False  # none, damaged, or of another version: it is written anew


def conditions(project: Path) -> dict[str, Any]:
    """Return what must be the same, besides files and packages, for an index to hold."""
    return {
        "schema": SCHEMA,
        "precreg": __version__,
        "python": sys.version,
        "project": str(project),
        "suites": sorted(str(path.relative_to(project)) for path in yaml_files(project)),
    }


def signature(path: str) -> Signature | None:
    """Return what tells a file, a link or a folder from any other, or from itself changed; None of what is not there.

    Raises OSError where it cannot be told.
    """
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def identity(found: Signature) -> Signature:
    """Return the part of a folder's signature that stays when files in it come and go."""
    return found[:2] if stat.S_ISDIR(found[0]) else found


def _holds(index: Mapping[str, Any], project: Path) -> bool:
    return (
        index["conditions"] == conditions(project)
        and all(_is_same(os.path.join(project, path), known) for path, known in index["paths"].items())
        and all(origin(top) == _origin(known) for top, known in index["packages"].items())
    )


def _is_same(path: str, known: list[int] | None) -> bool:
    found = signature(path)
    return known is None if found is None else known is not None and found[: len(known)] == tuple(known)


def _origin(known: list[Any] | None) -> Origin | None:
    return None if known is None else Origin(known[0], tuple(known[1]))
