"""What all cases together depend on, remembered: most pushes touch none of it, and then no suite need be read.

The index tells of a file system, not of a commit: it holds as long as every path that was looked at is as it was, links
and files that were looked for in vain among them. This module only compares, and imports next to nothing for it;
`remembering` writes the index whenever suites are read.

Writing the index of what all cases depend on, whenever suites were read for a change.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import Any

from precreg import __version__
from precreg.storage import WORKING_FOLDER, make_scratch_folder, replace_file, yaml_files
from precreg.suite import Suite, expand_suite, folders_searched, load_suites
from precreg.tolerance import TOLERANCES_FILE
from precreg.types import Case
from precreg.vcs.dependency import (
    PackageOrigin,
    case_dependencies,
    dependency_packages,
    dependency_paths,
    find_package_origin,
    paths_in,
)

INDEX_FILE = f"{WORKING_FOLDER}/dependencies.json"
"""Where it is kept, relative to the project."""


INDEX_SCHEMA = 1
"""Raised when the index is written, or what a case depends on is found, by other rules."""


INDEXED_VARIABLE = "PRECISION_THRESHOLDS"
"""As in tolerance/thresholds.py, whose import this must not wait for; a test holds the two together."""


FileSignature = tuple[int, ...]
"""Mode and inode, and of whatever is no folder on the way to a file also size, mtime and ctime in ns."""


def no_case_affected(project: Path, changed: Set[str], environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether it is certain that no case depends on files that changed; False means that suites must be read.

    `changed` are paths relative to the project, whose files are those of the working tree.
    """
    if environ.get(INDEXED_VARIABLE) or any(path.startswith("baselines/") for path in changed):
        return False
    try:
        index = json.loads((project / INDEX_FILE).read_bytes())
        return changed.isdisjoint(index["dependencies"]) and _holds(index, project)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False  # none, damaged, or of another version: it is written anew


def index_conditions(project: Path) -> dict[str, Any]:
    """Return what must be the same, besides files and packages, for an index to hold."""
    return {
        "schema": INDEX_SCHEMA,
        "precreg": __version__,
        "python": sys.version,
        "project": str(project),
        "suites": sorted(str(path.relative_to(project)) for path in yaml_files(project)),
    }


def file_signature(path: str) -> FileSignature | None:
    """Return what tells a file, a link or a folder from any other, or from itself changed; None of what is not there.

    Raises OSError where it cannot be told.
    """
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def folder_identity(found: FileSignature) -> FileSignature:
    """Return the part of a folder's signature that stays when files in it come and go."""
    return found[:2] if stat.S_ISDIR(found[0]) else found


def _holds(index: Mapping[str, Any], project: Path) -> bool:
    return (
        index["conditions"] == index_conditions(project)
        and all(_is_same(os.path.join(project, path), known) for path, known in index["paths"].items())
        and all(find_package_origin(top) == _origin(known) for top, known in index["packages"].items())
    )


def _is_same(path: str, known: list[int] | None) -> bool:
    found = file_signature(path)
    return known is None if found is None else known is not None and found[: len(known)] == tuple(known)


def _origin(known: list[Any] | None) -> PackageOrigin | None:
    return None if known is None else PackageOrigin(known[0], tuple(known[1]))


SETTLED_NS = 2_000_000_000
"""The age from which a timestamp is trusted. A younger one may be that of two contents, because the clocks of file
systems tick: every few milliseconds, or, of FAT, every two seconds. git calls such files racily clean."""


MAX_LINKS = 40
"""As many as Linux follows on the way to one file."""


def load_cases_and_index(project: Path, environ: Mapping[str, str] = os.environ) -> list[Case]:
    """Return every case of a project, and write the index of what they depend on. Raises UserError as `load_cases`."""
    began = time_ns()
    suites = load_suites(project, environ)
    cases = [case for suite in suites for case in expand_suite(suite, project)]
    write_index(project, suites, cases, began)
    return cases


def write_index(project: Path, suites: list[Suite], cases: list[Case], began_ns: int) -> None:
    """Write the index, unless anything that it tells of changed just before `began_ns`, when reading began, or later.

    A project that cannot be written goes without an index.
    """
    with suppress(OSError):
        trail = _trail(project, suites, cases)
        known = index_conditions(project)
        read = {TOLERANCES_FILE, *(suite.source.file for suite in suites)}
        if read != {TOLERANCES_FILE, *known["suites"]} or trail.newest() >= began_ns - SETTLED_NS:
            return
        index = {
            "conditions": known,
            "dependencies": sorted(frozenset().union(*(case_dependencies(case, project) for case in cases))),
            "packages": {top: find_package_origin(top) for top in sorted(dependency_packages(cases, project))},
            "paths": trail.to_keep(),
        }
        make_scratch_folder((project / INDEX_FILE).parent)
        replace_file(project / INDEX_FILE, json.dumps(index).encode())


def _trail(project: Path, suites: list[Suite], cases: list[Case]) -> _Trail:
    trail = _Trail(str(project))
    for place in _places(project, suites, cases):
        trail.follow(place)
    for suite in suites:
        for folder in folders_searched(suite, project):
            trail.follow_and_list(folder)
    return trail


def _places(project: Path, suites: list[Suite], cases: list[Case]) -> set[str]:
    """Return every path that was looked at; what a suite names stands there as it was written, links and all."""
    named = (
        path
        for suite in suites
        for value in (suite.file.subject, suite.file.reference, suite.file.golden)
        if isinstance(value, dict)
        for path in paths_in(value, suite.directory, project)
    )
    return {str(path) for path in frozenset(named).union(*(dependency_paths(case, project) for case in cases))}


class _Trail:
    """What was met on the way to paths, by absolute path: files, folders, links and where they lead, and nothing."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.seen: dict[str, FileSignature | None] = {root: file_signature(root)}
        self.listed: set[str] = set()

    def follow(self, path: str) -> str:
        """Note all that decides what a path means, up to the first thing that is not there; return where it ends."""
        inside = path.startswith(f"{self.root}/")
        here = self.root if inside else "/"
        waiting = path[len(self.root) if inside else 0 :].split("/")[::-1]
        links = 0
        while waiting:
            here = os.path.normpath(os.path.join(here, waiting.pop()))
            found = self._look(here)
            if found is None or links > MAX_LINKS:
                break
            if stat.S_ISLNK(found[0]):
                links += 1
                waiting += os.readlink(here).split("/")[::-1]
                here = "/" if os.readlink(here).startswith("/") else os.path.dirname(here)
        return here

    def follow_and_list(self, folder: str) -> None:
        """Note a folder together with which names are in it."""
        self.listed.add(self.follow(folder))

    def newest(self) -> int:
        """Return when anything changed last, in ns; folders change with the names in them."""
        return max(max(found[3:]) for found in self.seen.values() if found is not None)

    def to_keep(self) -> dict[str, FileSignature | None]:
        """Return signatures by path, relative to the project where they are in it."""
        told = (path for path in self.seen if path != self.root or path in self.listed)
        return {path.removeprefix(f"{self.root}/"): self._kept(path) for path in told}

    def _look(self, path: str) -> FileSignature | None:
        if path not in self.seen:
            self.seen[path] = file_signature(path)
        return self.seen[path]

    def _kept(self, path: str) -> FileSignature | None:
        found = self.seen[path]
        return found if found is None or path in self.listed else folder_identity(found)
