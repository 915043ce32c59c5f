"""Which projects does a pytest session have, and to which of them does a file belong?"""

from __future__ import annotations

import os
from functools import cache
from os.path import realpath, relpath
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import pytest

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.pytest_plugin.test_cases import PrecisionCheck
    from precreg.run import Session
    from precreg.suite import Foundation, Suite
    from precreg.types import Case, Layer

    Layers = tuple[Layer, ...]


class SessionProjects:
    """Hold the projects of a session, and read and detect everything at most once, at its first use."""

    def __init__(self, config: pytest.Config) -> None:
        """Take the folders of the ini option. Raises pytest.UsageError for a folder that is not called suites."""
        self.root, self.started_in = config.rootpath, config.invocation_params.dir
        self.named: dict[Path, Path] = {}
        for folder in config.getini("precreg_suites"):
            project = _project(folder)
            if project not in self.named.values():
                self.named[folder] = project
        self.environment = os.environ.get("PRECREG_ENVIRONMENT") or None
        self._against = config.getoption("precreg_against", "off")
        self._diagnose = config.getoption("precreg_diagnose", 0.0)
        self._began = perf_counter()
        self._first: dict[Path, dict[str, Suite]] = {}
        # Caches of the instance: a cache on the class would keep every session of a process.
        self.session = cache(self._session)
        self.foundation = cache(self._foundation)
        self.cases = cache(self._cases)
        self.suites = cache(self._suites)
        self.of_test = cache(self._of_test)
        self.shown_path = cache(self._shown_path)
        self._pyramids: dict[object, tuple[Layers, Layers]] = {}

    def forget(self) -> None:
        """Free the cases, baselines and records of a session that ends."""
        for cached in (self.session, self.cases):
            cached.cache_clear()

    def of_suite(self, path: Path) -> tuple[Path, Path] | None:
        """Return the project of a suite, and the suite's path in it; None for any other file."""
        # pytest asks for every file that it sees, so the cheap test comes first.
        if path.suffix not in (".yaml", ".yml"):
            return None
        for folder, project in self.named.items():
            if path.is_relative_to(folder) and not _is_setting(path.relative_to(folder)):
                return project, project / "suites" / path.relative_to(folder)
        return None

    def _of_test(self, path: Path) -> Path:
        """Return the project of a test: the named project around it, the only one, or pytest's root."""
        known = list(self.named.values())
        # realpath on both sides: a checkout behind a link would otherwise belong to no project.
        around = [project for project in known if Path(realpath(path)).is_relative_to(project)]
        if around:
            return max(around, key=lambda project: len(project.parts))  # the innermost of nested projects
        return known[0] if len(known) == 1 else Path(realpath(self.root))

    def _shown_path(self, project: Path, path: str) -> str:
        """Return a path relative to the project, or to pytest's root if it lies outside, with POSIX slashes."""
        real = Path(realpath(path))
        inner = real.is_relative_to(project)
        return Path(relpath(real, project) if inner else relpath(path, self.root)).as_posix()

    def shown(self, project: Path, mistake: UserError) -> UserError:
        """Return a mistake whose file is relative to the folder that pytest was started in."""
        file = None if mistake.file is None else relpath(project / mistake.file, self.started_in)
        return UserError(mistake.slug, mistake.message, file=file, line=mistake.line, hint=mistake.hint)

    def _session(self, project: Path) -> Session:
        """Return the run of a project. Raises UserError as `base_commit` does."""
        from precreg.environment import in_ci
        from precreg.report import RUN_OUTPUTS
        from precreg.run import RunRequest, Session
        from precreg.vcs import base_commit

        base = base_commit(project, self._against)
        request = RunRequest(
            project=project,
            environment=self.environment,
            ci=in_ci(os.environ),
            base=base,
            diagnose=self._diagnose,
        )
        return Session(request, RUN_OUTPUTS, began=self._began)

    def _foundation(self, project: Path) -> Foundation:
        from precreg.suite import read_foundation

        return read_foundation(project)

    def _cases(self, project: Path, path: Path) -> list[Case]:
        """Read the cases of one suite, as the base judges them. Raises UserError: duplicate-suite, or unreadable."""
        from precreg.storage import pause_gc
        from precreg.suite import expand_suite, read_suite, require_depends, require_unique_suite

        # Expanding a suite makes many objects without cycles, which the garbage collector would search in vain.
        with pause_gc():
            suite = read_suite(path, project, self.foundation(project))
            require_unique_suite(suite, self._first.setdefault(project, {}))
            require_depends(suite, project)
            judged = {case.id: case for case in self.session(project).criteria.cases}
            return [judged.get(case.id, case) for case in expand_suite(suite, project)]

    def place_of_suite(self, project: Path, suite: str) -> str | None:
        """Return file and line of the suite tier/suite; None if no suite has this name, or a suite cannot be read."""
        from precreg.suite import load_suites

        if suite not in self.suites(project):
            return None
        return next(str(each.source.where("suite")) for each in load_suites(project) if each.id == suite)

    def _suites(self, project: Path) -> frozenset[str]:
        """Return the suites by tier/suite; none if a suite cannot be read."""
        from precreg.suite import project_cases

        # From the index of suites: reading all of them takes 0.1 s and more.
        try:
            return frozenset(f"{case.tier}/{case.suite}" for case in project_cases(project).listed)
        except UserError:
            return frozenset()

    def pyramid(self, project: Path, check: PrecisionCheck) -> tuple[Layers, Layers]:
        """Return a check's own layers, and all layers of its pyramid. Raises UserError as `read_layers` does."""
        # The same tuples for the same check: resolved tolerances are cached by the identity of their layers.
        key = (project, check.tier, check.category, str(check.source), repr(check.tolerance))
        if key not in self._pyramids:
            from precreg.tolerance import read_layers

            own = tuple(read_layers("test", check.settings, ("tolerance",), check.tolerance))
            self._pyramids[key] = own, self.foundation(project).pyramid(check.tier, check.category, own)
        return self._pyramids[key]


def _is_setting(path: Path) -> bool:
    """Return True for a YAML file below suites/ that is not a suite: tolerances of all suites, or a device."""
    return path.parts[0] == "devices" or path == Path("tolerances.yaml")


def _project(folder: Path) -> Path:
    if folder.name == "suites" and folder.is_dir():
        return Path(realpath(folder)).parent
    received = f"precreg_suites={relpath(folder)}"
    raise pytest.UsageError(str(UserError("no-project", f"expected a folder called suites but got {received}")))


PROJECTS_KEY = pytest.StashKey[SessionProjects]()
