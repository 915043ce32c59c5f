"""Writing the index of what all cases depend on, whenever suites were read for a change."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import time_ns

from precreg.storage.writing import make_scratch_folder, replace_file
from precreg.suite.expand import expand
from precreg.suite.load import Suite, load
from precreg.suite.recorded import folders_searched
from precreg.tolerance.layers import TOLERANCES
from precreg.types.types import Case
from precreg.vcs.files import dependencies, packages, paths, paths_in
from precreg.vcs.packages import origin
from precreg.vcs.remembered import INDEX, Signature, conditions, identity, signature

SETTLED_NS = 2_000_000_000
"""The age from which a timestamp is trusted. A younger one may be that of two contents, because the clocks of file
systems tick: every few milliseconds, or, of FAT, every two seconds. git calls such files racily clean."""


MOST_LINKS = 40
"""As many as Linux follows on the way to one file."""


def load_and_remember(project: Path, environ: Mapping[str, str] = os.environ) -> list[Case]:
    """Return every case of a project, and write the index of what they depend on. Raises UserError as `load_cases`."""
    began = time_ns()
    suites = load(project, environ)
    cases = [case for suite in suites for case in expand(suite, project)]
    remember(project, suites, cases, began)
    return cases


def remember(project: Path, suites: list[Suite], cases: list[Case], began_ns: int) -> None:
    """Write the index, unless anything that it tells of changed just before `began_ns`, when reading began, or later.

    A project that cannot be written goes without an index.
    """
    with suppress(OSError):
        trail = _trail(project, suites, cases)
        known = conditions(project)
        read = {TOLERANCES, *(suite.source.file for suite in suites)}
        if read != {TOLERANCES, *known["suites"]} or trail.newest() >= began_ns - SETTLED_NS:
            return
        index = {
            "conditions": known,
            "dependencies": sorted(frozenset().union(*(dependencies(case, project) for case in cases))),
            "packages": {top: origin(top) for top in sorted(packages(cases, project))},
            "paths": trail.to_keep(),
        }
        make_scratch_folder((project / INDEX).parent)
        replace_file(project / INDEX, json.dumps(index).encode())


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
    return {str(path) for path in frozenset(named).union(*(paths(case, project) for case in cases))}


class _Trail:
    """What was met on the way to paths, by absolute path: files, folders, links and where they lead, and nothing."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.seen: dict[str, Signature | None] = {root: signature(root)}
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
            if found is None or links > MOST_LINKS:
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

    def to_keep(self) -> dict[str, Signature | None]:
        """Return signatures by path, relative to the project where they are in it."""
        told = (path for path in self.seen if path != self.root or path in self.listed)
        return {path.removeprefix(f"{self.root}/"): self._kept(path) for path in told}

    def _look(self, path: str) -> Signature | None:
        if path not in self.seen:
            self.seen[path] = signature(path)
        return self.seen[path]

    def _kept(self, path: str) -> Signature | None:
        found = self.seen[path]
        return found if found is None or path in self.listed else identity(found)
