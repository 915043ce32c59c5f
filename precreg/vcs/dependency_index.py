"""Is it certain that no case depends on a change?

Most pushes touch nothing that a case depends on, and need not wait until suites are read. The dependencies of all
cases together are kept in an index. It describes the file system, not a commit: it holds as long as every path that
was visited is unchanged, including links and missing files. `index_writer.py` writes the index when suites are read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from precreg import __version__
from precreg.storage import (
    WORKING_FOLDER,
    find_package_origin,
    has_signature,
    have_same_origins,
    pattern_matches,
    read_regular_file,
    yaml_files,
)
from precreg.storage import can_affect_cases as can_affect_cases

# This module imports nothing that reads suites, nor numpy or GitPython: start-up is most of a push without changes.

INDEX_FILE = f"{WORKING_FOLDER}/dependencies.json"
# Raise it when the index is written by other rules, or a case's dependencies are found by other rules.
INDEX_SCHEMA = 2
# The loader searches the folders in this variable for libraries.
LIBRARY_VARIABLE = "LD_LIBRARY_PATH"
# The same text as in tolerance/layers.py, whose import would take too long here. A test compares the two.
INDEXED_VARIABLE = "PRECISION_THRESHOLDS"
_SITE = {"site-packages", "dist-packages"}
# Names of changed files that belong to no case, in a message.
MAX_UNCLAIMED = 10


def can_be_claimed(path: str) -> bool:
    """Return whether a changed file should belong to a case: no document, baseline, report or hidden file."""
    return can_affect_cases(path) and not path.startswith(("baselines/", "reports/"))


def matches_any(patterns: Iterable[str], path: str) -> bool:
    """Return whether a path matches one of the patterns."""
    return any(pattern_matches(pattern, path) for pattern in patterns)


def kind_providers(kind: str) -> list[list[str]]:
    """Return the entry points that run a kind of subject, and those that declare its dependencies."""
    # Late: only projects with installed kinds read the metadata of all packages.
    from importlib.metadata import entry_points

    groups = ("precreg.subjects", "precreg.dependencies")
    return [sorted(point.value for point in entry_points(group=group, name=kind)) for group in groups]


def no_case_affected(project: Path, changed: Set[str], environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether certainly no case depends on changed files; False means that suites must be read.

    `changed` are paths relative to the project, and the working tree has their new content.
    """
    if environ.get(INDEXED_VARIABLE) or any(path.startswith("baselines/") for path in changed):
        return False
    try:
        index = json.loads(read_regular_file(project / INDEX_FILE))
        known = changed.isdisjoint(index["dependencies"])
        return known and not any(matches_any(index["patterns"], path) for path in changed) and _holds(index, project)
    # No index, a damaged one, or another version's: reading the suites writes it anew.
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


def index_conditions(project: Path) -> dict[str, Any]:
    """Return the conditions of an index, besides its files and packages."""
    return {
        "schema": INDEX_SCHEMA,
        "precreg": __version__,
        "python": sys.version,
        "project": str(project),
        "libraries": os.environ.get(LIBRARY_VARIABLE, ""),
        "suites": sorted(str(path.relative_to(project)) for path in yaml_files(project)),
    }


def installed_from(top: str, project: Path) -> Path | None:
    """Return the folder of the project from which an installed package is imported, such as src/; usually None."""
    found = None if top in sys.stdlib_module_names else find_package_origin(top)
    if found is None:
        return None
    home = Path(found.folders[0]).parent if found.folders else Path(found.file or "/").parent
    inside = home.is_relative_to(project) and _SITE.isdisjoint(home.parts)
    return home if inside else None


def _holds(index: Mapping[str, Any], project: Path) -> bool:
    # From the cheapest condition to the dearest: finding a package's origin searches every folder of sys.path.
    return (
        index["conditions"] == index_conditions(project)
        and all(has_signature(os.path.join(project, path), known) for path, known in index["paths"].items())
        and all(kind_providers(kind) == known for kind, known in index["kinds"].items())
        and have_same_origins(index["packages"])
    )
