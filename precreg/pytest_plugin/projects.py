"""The projects of a pytest session: which one a file belongs to, its suites, and what judges its cases."""

from __future__ import annotations

import os
from functools import cache
from os.path import realpath, relpath
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import pytest

from precreg.errors import UserError
from precreg.storage import pause_gc

if TYPE_CHECKING:
    from precreg.pytest_plugin.test_cases import PrecisionCheck
    from precreg.run import Session
    from precreg.suite import Foundation, Suite
    from precreg.types import Case, Layer


if TYPE_CHECKING:
    Layers = tuple[Layer, ...]


class SessionProjects:
    """Everything about projects that is read or detected once a session. Making one reads nothing."""

    def __init__(self, config: pytest.Config) -> None:
        """Take the folders that the ini option names. Raises pytest.UsageError where one is no project's suites/."""
        self.root, self.started_in = config.rootpath, config.invocation_params.dir
        self.named: dict[Path, Path] = {}
        for folder in config.getini("precreg_suites"):
            project = _project(folder)
            if project not in self.named.values():
                self.named[folder] = project
        self.environment = os.environ.get("PRECREG_ENVIRONMENT") or None
        self._against = config.getoption("precreg_against", "off")
        self._began = perf_counter()
        self._first: dict[Path, dict[str, Suite]] = {}
        self.session = cache(self._session)
        self.foundation = cache(self._foundation)
        self.cases = cache(self._cases)
        self.suites = cache(self._suites)
        self.of_test = cache(self._of_test)
        self.shown_path = cache(self._shown_path)
        self._pyramids: dict[object, tuple[Layers, Layers]] = {}

    def of_suite(self, path: Path) -> tuple[Path, Path] | None:
        """Return the project of a suite, and the suite's path in it; None for any other file."""
        if path.suffix not in (".yaml", ".yml"):
            return None
        for folder, project in self.named.items():
            if path.is_relative_to(folder) and not _is_setting(path.relative_to(folder)):
                return project, project / "suites" / path.relative_to(folder)
        return None

    def _of_test(self, path: Path) -> Path:
        """Return the project of a hand-written test: the named one around it, the only one, or pytest's root."""
        known = list(self.named.values())
        around = [project for project in known if Path(realpath(path)).is_relative_to(project)]
        if around:
            return max(around, key=lambda project: len(project.parts))
        return known[0] if len(known) == 1 else Path(realpath(self.root))

    def _shown_path(self, project: Path, path: str) -> str:
        """Write a path relative to the project, or to pytest's root where it lies outside, with POSIX slashes."""
        real = Path(realpath(path))
        inner = real.is_relative_to(project)
        return Path(relpath(real, project) if inner else relpath(path, self.root)).as_posix()

    def shown(self, project: Path, mistake: UserError) -> UserError:
        """Return a mistake whose file is named as seen from where pytest was started."""
        file = None if mistake.file is None else relpath(project / mistake.file, self.started_in)
        return UserError(mistake.slug, mistake.message, file=file, line=mistake.line)

    def _session(self, project: Path) -> Session:
        """Return the run of a project, of which nothing has been read. Raises UserError as `base_commit` does."""
        from precreg.environment import in_ci
        from precreg.report import RUN_OUTPUTS
        from precreg.run import RunRequest, Session
        from precreg.vcs import base_commit

        base = base_commit(project, self._against)
        request = RunRequest(project=project, environment=self.environment, ci=in_ci(os.environ), base=base)
        return Session(request, RUN_OUTPUTS, began=self._began)

    def _foundation(self, project: Path) -> Foundation:
        from precreg.suite import read_foundation

        return read_foundation(project)

    def _cases(self, project: Path, path: Path) -> list[Case]:
        """Read one suite. Raises UserError as `read_suite` and `expand` do, and duplicate-suite."""
        from precreg.suite import expand_suite, read_suite, require_unique_suite

        with pause_gc():
            suite = read_suite(path, project, self.foundation(project))
            require_unique_suite(suite, self._first.setdefault(project, {}))
            held = {case.id: case for case in self.session(project).criteria.cases}
            return [held.get(case.id, case) for case in expand_suite(suite, project)]

    def _suites(self, project: Path) -> dict[str, str]:
        """Return where each suite of a project stands, by tier/suite; nothing while they cannot all be read."""
        from precreg.suite import load_suites

        try:
            return {suite.id: str(suite.source.where("suite")) for suite in load_suites(project)}
        except UserError:
            return {}

    def pyramid(self, project: Path, check: PrecisionCheck) -> tuple[Layers, Layers]:
        """Return a check's own layers, and all of its pyramid; the same tuples wherever it is made again.

        Raises UserError as `read_layers` does.
        """
        key = (project, check.tier, check.category, str(check.source), repr(check.tolerance))
        if key not in self._pyramids:
            from precreg.tolerance import read_layers

            own = tuple(read_layers("test", check.settings, ("tolerance",), check.tolerance))
            self._pyramids[key] = own, self.foundation(project).pyramid(check.tier, check.category, own)
        return self._pyramids[key]


def _is_setting(path: Path) -> bool:
    """Tell whether a YAML file below suites/ is no suite: the tolerances of all suites, or a device."""
    return path.parts[0] == "devices" or path == Path("tolerances.yaml")


def _project(folder: Path) -> Path:
    if folder.name == "suites" and folder.is_dir():
        return Path(realpath(folder)).parent
    came = f"precreg_suites={relpath(folder)}"
    raise pytest.UsageError(str(UserError("no-project", f"expected a folder that is called suites but got {came}")))


PROJECTS_KEY = pytest.StashKey[SessionProjects]()
