"""When and with which content does precreg write the index of dependencies?

`dependency_index.py` reads the index. It loads without this module, which loads all code that reads suites.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import time_ns

from precreg.storage import (
    DEVICES_FOLDER,
    FileTrail,
    find_package_origin,
    has_settled,
    make_scratch_folder,
    pause_gc,
    replace_file,
)
from precreg.suite import Suite, expand_suite, folders_searched, load_suites, node_test_folders
from precreg.tolerance import TOLERANCES_FILE
from precreg.types import Case
from precreg.vcs.dependency import (
    case_dependencies,
    dependency_packages,
    dependency_paths,
    dependency_patterns,
    distinct_dependencies,
    has_unknown_dependencies,
    installed_kinds,
    paths_in,
)
from precreg.vcs.dependency_index import INDEX_FILE, index_conditions, kind_providers


@pause_gc()
def load_cases_and_index(project: Path, environ: Mapping[str, str] = os.environ) -> list[Case]:
    """Return every case of a project, and write the index of their dependencies. Raises UserError as `load_cases`."""
    began = time_ns()
    suites = load_suites(project, environ)
    cases = [case for suite in suites for case in expand_suite(suite, project)]
    write_index(project, suites, cases, began)
    return cases


def write_index(project: Path, suites: list[Suite], cases: list[Case], began_ns: int) -> None:
    """Write the index, unless a file that it covers changed just before `began_ns`, the start of reading, or later.

    A case with unknown dependencies depends on every file, so there is no index.
    """
    cases = distinct_dependencies(cases)
    # A project on a read-only disk works without an index.
    with suppress(OSError):
        if any(has_unknown_dependencies(case, project) for case in cases):
            return
        trail = _follow_dependencies(project, suites, cases)
        conditions = index_conditions(project)
        found = {path for path in conditions["suites"] if not path.startswith(f"{DEVICES_FOLDER}/")}
        read = {suite.source.file for suite in suites}
        if read != found - {TOLERANCES_FILE} or not has_settled(trail.newest(), began_ns):
            return
        index = {
            "conditions": conditions,
            "dependencies": sorted(frozenset().union(*(case_dependencies(case, project) for case in cases))),
            "patterns": sorted(frozenset[str]().union(*(dependency_patterns(case, project) for case in cases))),
            "kinds": {kind: kind_providers(kind) for kind in sorted(installed_kinds(cases))},
            "packages": {top: find_package_origin(top) for top in sorted(dependency_packages(cases, project))},
            "paths": trail.to_keep(),
        }
        make_scratch_folder((project / INDEX_FILE).parent)
        replace_file(project / INDEX_FILE, json.dumps(index).encode())


def _follow_dependencies(project: Path, suites: list[Suite], cases: list[Case]) -> FileTrail:
    """Follow every path of a dependency; paths in suites are followed as they are written, with their links."""
    named = (
        path
        for suite in suites
        for value in (suite.file.subject, suite.file.reference, suite.file.golden, suite.file.benchmark)
        if isinstance(value, dict)
        for path in paths_in(value, suite.directory, project)
    )
    trail = FileTrail(str(project))
    for path in frozenset(named).union(*(dependency_paths(case, project) for case in cases)):
        trail.follow(str(path))
    for suite in suites:
        for folder in (*folders_searched(suite, project), *node_test_folders(suite, project)):
            trail.follow_and_list(folder)
    return trail
