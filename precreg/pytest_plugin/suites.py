"""Which items do suites become in a pytest session?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from precreg.errors import UserError
from precreg.pytest_plugin.projects import PROJECTS_KEY, SessionProjects
from precreg.pytest_plugin.recorder import apply_verdict, keep_result
from precreg.subject import leave_module_space
from precreg.types import Case

# Marks that change how pytest runs a test. A suite's tag of that name is a keyword alone.
EFFECTIVE_MARKERS = frozenset(
    {"filterwarnings", "parametrize", "skip", "skipif", "usefixtures", "xdist_group", "xfail"}
)


class SuiteHooks:
    """Implement the hooks of a session that has suites to collect."""

    def __init__(self, projects: SessionProjects) -> None:
        self._projects = projects

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Stop a session before it begins if a base or proposals are unreadable. Raises pytest.UsageError."""
        from precreg.baseline import pending_proposals

        for project in self._projects.named.values():
            try:
                self._projects.session(project)  # resolves the base
                pending_proposals(project)
            except UserError as mistake:
                raise pytest.UsageError(str(self._projects.shown(project, mistake))) from None

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Collect the YAML files below the folders of the ini option."""
        found = self._projects.of_suite(file_path)
        if found is None:
            return None
        suite: SuiteCollector = SuiteCollector.from_parent(parent, path=file_path)
        suite.project, suite.suite = found
        return suite

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep one item of each case if arguments overlap."""
        # A case that ran twice would count twice.
        first: dict[object, pytest.Item] = {}
        kept = [item for item in items if first.setdefault(_identity(item), item) is item]
        if len(kept) < len(items):
            again = [item for item in items if first[_identity(item)] is not item]
            items[:] = kept
            config.hook.pytest_deselected(items=again)


class SuiteCollector(pytest.File):
    """Collect a suite. A mistake in it appears with its line and without a traceback."""

    project: Path
    suite: Path

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each case."""
        projects = self.config.stash[PROJECTS_KEY]
        try:
            cases = projects.cases(self.project, self.suite)
            # Baselines that cannot be read stop the suite now, before a case runs.
            if not self.config.option.collectonly:
                projects.session(self.project).judge.baseline(cases[0])
        except UserError as mistake:
            raise self.CollectError(str(projects.shown(self.project, mistake))) from None
        # --strict-markers refuses marks that nobody registered.
        for tag in {tag for case in cases for tag in case.tags if _is_mark(tag)}:
            self.config.addinivalue_line("markers", f"{tag}: a tag of suites")
        for case in cases:
            yield CaseItem.from_parent(self, name=case.name, case=case)


class CaseItem(pytest.Item):
    """Run a case in this process, and measure and judge it as `precreg run` does."""

    parent: SuiteCollector

    def __init__(self, *, case: Case, **others: Any) -> None:
        """Mark the case with its tier and tags."""
        super().__init__(**others)
        self.case = case
        self.stash[PROJECTS_KEY] = self.config.stash[PROJECTS_KEY]
        # So that -k selects by suite and tag, and -m by tier and tag.
        self.extra_keyword_matches.update((case.suite, *case.tags))
        self.add_marker(case.tier)
        for tag in filter(_is_mark, case.tags):
            self.add_marker(tag)

    def runtest(self) -> None:
        """Run the case, and fail or skip by its verdict."""
        from precreg.report import add_result_messages

        project = self.parent.project
        try:
            result = add_result_messages(self.stash[PROJECTS_KEY].session(project).judge.run(self.case))
        finally:
            leave_module_space()  # or tests after this one would import the suite's modules
        keep_result(self, project, result)
        apply_verdict(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return a user's mistake without a traceback."""
        if isinstance(excinfo.value, UserError):
            return str(self.stash[PROJECTS_KEY].shown(self.parent.project, excinfo.value))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return file and line of the case's definition, for editors."""
        return self.path, self.case.source.line - 1, self.case.id


def _is_mark(tag: str) -> bool:
    return tag not in EFFECTIVE_MARKERS and not tag.startswith("_")


def _identity(item: pytest.Item) -> object:
    return (item.parent.project, item.case.id) if isinstance(item, CaseItem) else item
