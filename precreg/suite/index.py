"""Which cases does a project have, as long as no file that its suites need has changed?

Reading all suites takes seconds in a large project, and most commands need the names of all cases and the definitions
of a few. The index stores the names, suite by suite, with the trail of reading: a suite with a changed file is read
again. A damaged or foreign index is none, and a project that cannot be written works without.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from precreg import __version__
from precreg.errors import UserError
from precreg.storage import (
    DEVICES_FOLDER,
    WORKING_FOLDER,
    FileTrail,
    WatchedReading,
    find_package_origin,
    has_settled,
    has_signature,
    have_same_origins,
    make_scratch_folder,
    pause_gc,
    read_regular_file,
    replace_file,
    watch_reading,
    yaml_files,
)
from precreg.suite.select import ListedCase, Selection, select_cases

if TYPE_CHECKING:
    from precreg.suite.load import Suite
    from precreg.types import Case

# This module imports nothing at its top that reads suites: listing the names of cases needs none of it.

CASES_INDEX = f"{WORKING_FOLDER}/cases.index"
# Raise it when suites are read by other rules within one version of precreg.
_SCHEMA = 1
# tolerance.TOLERANCES_FILE and tolerance.THRESHOLDS_VARIABLE, whose import would take too long here. A test compares.
_TOLERANCES = "suites/tolerances.yaml"
_THRESHOLDS = "PRECISION_THRESHOLDS"

# A path relative to the project, and its signature.
_Step = tuple[str, tuple[int, ...] | None]
_Tags = tuple[str, ...]


class _ListedSuite(NamedTuple):
    """Hold the names of a suite's cases, and what reading the suite looked at.

    `tags` are the different tags of its cases, and `tags_of` has the place of each case's tags in them.
    """

    file: str
    tier: str
    suite: str
    is_table: bool
    names: list[str]
    tags: list[_Tags]
    tags_of: list[int]
    steps: list[_Step]
    packages: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.tier}/{self.suite}"

    def cases(self) -> Iterator[ListedCase]:
        suite = self.id
        for name, place in zip(self.names, self.tags_of, strict=True):
            yield ListedCase(f"{suite}/{name}", self.tier, self.suite, self.tags[place])


class ProjectCases:
    """Hold the names of all cases of a project, and read the definitions of the requested ones."""

    def __init__(
        self, project: Path, environ: Mapping[str, str], suites: Sequence[_ListedSuite], read: dict[str, list[Case]]
    ) -> None:
        self._project, self._environ, self._suites = project, environ, suites
        # The cases of suites that were read, by the file of the suite.
        self._read = read

    @cached_property
    def listed(self) -> list[ListedCase]:
        """Return the names of all cases, in the order of `load_cases`."""
        return [case for suite in self._suites for case in suite.cases()]

    @property
    def number(self) -> int:
        """Return how many cases the project has."""
        return sum(len(suite.names) for suite in self._suites)

    def selected_ids(self, selection: Selection) -> set[str]:
        """Return the ids of the selected cases. Raises UserError as `select_cases`."""
        patterns = {*selection.patterns}
        if patterns and selection == Selection(patterns=selection.patterns):
            # A whole id matches itself alone, so no other name needs an object, of which 100,000 take 0.1 s.
            suites = {suite.id: suite for suite in self._suites}
            if all(_has_case(suites, id) for id in patterns):
                return patterns
        return {case.id for case in select_cases(self.listed, selection)}

    def ids_of_suites(self, suites: Collection[str]) -> set[str]:
        """Return the ids of all cases of some suites, by their ids."""
        return {f"{suite.id}/{name}" for suite in self._suites if suite.id in suites for name in suite.names}

    @property
    def table_suites(self) -> set[str]:
        """Return the ids of the suites whose cases are the rows of a table."""
        return {suite.id for suite in self._suites if suite.is_table}

    def cases(self, ids: Collection[str]) -> list[Case]:
        """Return the definitions of some cases, in the order of `load_cases`. Raises UserError as `load_cases`."""
        wanted = {*ids}
        by_suite: dict[str, set[str]] = {}
        for id in wanted:
            by_suite.setdefault("/".join(id.split("/", 2)[:2]), set()).add(id)
        return self._definitions(lambda suite: by_suite.get(suite.id, set()))

    def of_suites(self, suites: Collection[str]) -> list[Case]:
        """Return the definitions of all cases of some suites, by their ids. Raises UserError as `load_cases`."""
        return self._definitions(lambda suite: {case.id for case in suite.cases()} if suite.id in suites else set())

    def every(self) -> list[Case]:
        """Return the definitions of all cases. Raises UserError as `load_cases`."""
        return self._definitions(lambda suite: {case.id for case in suite.cases()})

    @pause_gc()
    def _definitions(self, wanted_of: Any) -> list[Case]:
        found: list[Case] = []
        with suppress(UserError):
            for suite in self._suites:
                wanted = wanted_of(suite)
                cases = [case for case in self._cases_of(suite, wanted) if case.id in wanted] if wanted else []
                if len(cases) != len(wanted):
                    break
                found += cases
            else:
                return found
        # A file changed since the index was read. Reading all suites finds the error that a user has to see.
        every = _load_plainly(self._project, self._environ)
        wanted = {id for suite in self._suites for id in wanted_of(suite)}
        return [case for case in every if case.id in wanted]

    def _cases_of(self, listed: _ListedSuite, wanted: Collection[str]) -> list[Case]:
        """Return at least the wanted cases of a suite. Raises UserError as `load_cases`."""
        if listed.file in self._read:
            return self._read[listed.file]
        from precreg.suite.expand import expand_rows
        from precreg.suite.load import read_suite

        suite = read_suite(self._project / listed.file, self._project, self._foundation)
        names = {id.removeprefix(f"{listed.id}/") for id in wanted}
        places = [place for place, name in enumerate(listed.names) if name in names]
        cases = expand_rows(suite, self._project, places)
        if len(cases) == len(listed.names):
            self._read[listed.file] = cases
        return cases

    @cached_property
    def _foundation(self) -> Any:
        from precreg.suite.load import read_foundation

        return read_foundation(self._project, self._environ)


@pause_gc()
def project_cases(project: Path, environ: Mapping[str, str] = os.environ) -> ProjectCases:
    """Return the cases of a project, and update the index of their names. Raises UserError as `load_cases`.

    Thresholds of the caller could make any suite invalid, so that with them the index is neither read nor written.
    """
    if environ.get(_THRESHOLDS, "").strip():
        return _without_index(project, environ)
    files = _suite_files(project)
    stored, known = _read_index(project)
    changed = [file for file in files if file not in known]
    read: dict[str, list[Case]] = {}
    if changed:
        try:
            fresh, read = _read_changed(project, environ, changed)
        except UserError:
            # Several suites may have mistakes, and the first one of all is reported.
            return _without_index(project, environ)
        known.update({suite.file: suite for suite in fresh.listed})
    suites = [known[file] for file in files]
    if len({suite.id for suite in suites}) != len(suites):
        return _without_index(project, environ)
    # The foundation may have changed after the stored suites were compared with it.
    if changed and stored in (None, fresh.foundation):
        _write_index(project, [suite for suite in suites if suite.file not in fresh.unsettled], fresh.foundation)
    return ProjectCases(project, environ, suites, read)


def find_cases(project: Path, selection: Selection) -> list[Case]:
    """Return the selected cases of a project; only their suites are read, if the index has the names of all cases.

    Raises UserError as `load_cases` and `select_cases`.
    """
    known = project_cases(project)
    return known.cases(known.selected_ids(selection))


def _has_case(suites: Mapping[str, _ListedSuite], id: str) -> bool:
    tier, _, rest = id.partition("/")
    name, _, case = rest.partition("/")
    return f"{tier}/{name}" in suites and case in suites[f"{tier}/{name}"].names


def _without_index(project: Path, environ: Mapping[str, str]) -> ProjectCases:
    by_suite: dict[str, list[Case]] = {}
    for case in _load_plainly(project, environ):
        by_suite.setdefault(case.source.file, []).append(case)
    suites = [_listed(file, cases, [], {}) for file, cases in by_suite.items()]
    return ProjectCases(project, environ, suites, by_suite)


def _load_plainly(project: Path, environ: Mapping[str, str]) -> list[Case]:
    from precreg.suite.expand import load_cases

    return load_cases(project, environ)


def _listed(file: str, cases: list[Case], steps: list[_Step], packages: dict[str, Any]) -> _ListedSuite:
    tags = {case.tags: None for case in cases}
    places = {each: place for place, each in enumerate(tags)}
    return _ListedSuite(
        file,
        cases[0].tier,
        cases[0].suite,
        any(case.subject.kind == "table" for case in cases),
        [case.name for case in cases],
        [*tags],
        [places[case.tags] for case in cases],
        steps,
        packages,
    )


def _suite_files(project: Path) -> list[str]:
    """Return the suites below a project in the order of `load_suites`."""
    paths = (path.relative_to(project).as_posix() for path in yaml_files(project))
    files = (path for path in paths if path != _TOLERANCES and not path.startswith(f"{DEVICES_FOLDER}/"))
    return sorted(files, key=lambda file: file.split("/"))


class _Fresh(NamedTuple):
    """Hold suites that were just read. A suite is unsettled if the index cannot hold it yet."""

    listed: list[_ListedSuite]
    unsettled: set[str]
    foundation: list[_Step]


def _read_changed(
    project: Path, environ: Mapping[str, str], files: Sequence[str]
) -> tuple[_Fresh, dict[str, list[Case]]]:
    """Read suites with the trail of each. Raises UserError as `load_cases`."""
    from precreg.suite.expand import expand_suite
    from precreg.suite.load import read_foundation, read_suite, require_depends

    began = time_ns()
    below = WatchedReading()
    below.paths.add(str(project / _TOLERANCES))
    with watch_reading(below):
        foundation = read_foundation(project, environ)
    trail = FileTrail(str(project))
    shared = _steps(trail, below)
    listed, unsettled, read = [], set(), {}
    for file in files:
        reading = WatchedReading()
        with watch_reading(reading):
            suite: Suite = read_suite(project / file, project, foundation)
            require_depends(suite, project)
            read[file] = expand_suite(suite, project)
        steps = _steps(trail, reading)
        packages = {top: find_package_origin(top) for top in sorted(reading.packages - sys.stdlib_module_names)}
        listed.append(_listed(file, read[file], steps.keep, packages))
        if not (reading.is_certain and has_settled(max(steps.newest, shared.newest), began)):
            unsettled.add(file)
    return _Fresh(listed, unsettled, shared.keep), read


class _Steps(NamedTuple):
    keep: list[_Step]
    newest: int


def _steps(trail: FileTrail, reading: WatchedReading) -> _Steps:
    """Follow all paths of some reading; a path that the file system refuses makes them newer than any index."""
    try:
        return _followed(trail, reading)
    except (OSError, ValueError):
        return _Steps([], sys.maxsize)


def _followed(trail: FileTrail, reading: WatchedReading) -> _Steps:
    passed = {step for path in sorted(reading.paths | reading.folders) for step in trail.follow(path)}
    listed = {trail.follow_and_list(folder)[-1] for folder in sorted(reading.folders)}
    keep = {(path, path in listed) for path in passed} - {(trail.root, False)}
    signed = [(trail.shown(path), trail.signature(path, is_listed=is_listed)) for path, is_listed in sorted(keep)]
    return _Steps(signed, trail.newest(passed))


def _conditions(project: Path) -> dict[str, Any]:
    return {"schema": _SCHEMA, "precreg": __version__, "python": sys.version, "project": str(project)}


def _read_index(project: Path) -> tuple[list[_Step] | None, dict[str, _ListedSuite]]:
    """Return the steps of the foundation, and the suites of the index that are unchanged, by file.

    There are none of an index that cannot be used, or whose foundation changed.
    """
    try:
        header, _, body = read_regular_file(project / CASES_INDEX).partition(b"\n")
        if header != _header(body):
            return None, {}
        index = json.loads(body)
        if index["conditions"] != _conditions(project):
            return None, {}
        steps = [(path, None if known is None else tuple(known)) for path, known in index["steps"]]
        same = [has_signature(os.path.join(project, path), known) for path, known in steps]
        packages = {top for top, origin in index["packages"].items() if have_same_origins({top: origin})}
        if not all(same[place] for place in index["foundation"]):
            return None, {}
        found = dict(_unchanged(index, steps, same, packages))
        return [steps[place] for place in index["foundation"]] if found else None, found
    # No index, a damaged one, or another version's: reading the suites writes it anew.
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None, {}


def _unchanged(
    index: dict[str, Any], steps: list[_Step], same: list[bool], packages: set[str]
) -> Iterator[tuple[str, _ListedSuite]]:
    for file, tier, suite, is_table, names, tags, tags_of, places, tops in index["suites"]:
        if all(same[place] for place in places) and packages.issuperset(tops):
            origins = {top: index["packages"][top] for top in tops}
            kept = [steps[place] for place in places]
            yield file, _ListedSuite(file, tier, suite, is_table, names, [*map(tuple, tags)], tags_of, kept, origins)


def _write_index(project: Path, suites: Iterable[_ListedSuite], foundation: list[_Step]) -> None:
    """Replace the index in one step; a project that cannot be written has none."""
    places: dict[_Step, int] = {}
    packages: dict[str, Any] = {}

    def place_all(steps: list[_Step]) -> list[int]:
        return [places.setdefault(step, len(places)) for step in steps]

    rows = []
    for suite in suites:
        packages |= suite.packages
        rows.append([*suite[:7], place_all(suite.steps), [*suite.packages]])
    index = {
        "conditions": _conditions(project),
        "foundation": place_all(foundation),
        "steps": [*places],
        "packages": packages,
        "suites": rows,
    }
    body = json.dumps(index, separators=(",", ":")).encode()
    # UnicodeEncodeError cannot happen: JSON escapes everything beyond ASCII.
    with suppress(OSError):
        make_scratch_folder((project / CASES_INDEX).parent)
        replace_file(project / CASES_INDEX, _header(body) + b"\n" + body)


def _header(body: bytes) -> bytes:
    """Return the first line of an index: the length and a checksum, which a truncated or damaged file does not fit."""
    return b"precreg-cases %d %08x" % (len(body), crc32(body))
