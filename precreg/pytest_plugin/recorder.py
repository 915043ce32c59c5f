"""The record of a pytest session: kept in the process that hears of every test, written when the last one has ended."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from os.path import relpath
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import pytest

from precreg.errors import UserError
from precreg.pytest_plugin.projects import Projects
from precreg.storage.garbage import without_search

if TYPE_CHECKING:
    from precreg.types.records import CaseResult, RunRecord
    from precreg.types.types import Case


DIED = "???"
"""The phase in which pytest-xdist reports the test that a worker process died of."""


class Recorder:
    """Takes results as tests report them, the last one of a case that ran again, and writes reports and proposals."""

    def __init__(self, config: pytest.Config, projects: Projects) -> None:
        self._projects, self._began = projects, perf_counter()
        self._arguments = shlex.join(map(str, config.invocation_params.args))
        output = config.getoption("precreg_output", None)
        self._output = None if output is None else config.invocation_params.dir / output
        self._begun: dict[str, RunRecord] = {}
        self._results: dict[str, dict[str, str]] = {}
        self._died: dict[str, str] = {}
        self._summaries: list[str] = []
        self._refused: list[str] = []
        self._bound = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a report carries."""
        if hasattr(report, "precreg"):
            for project, case, text in report.precreg:
                self._begin(project)
                self._results[project][case] = text  # a text, which no search for garbage has to go through
            del report.precreg
        elif report.when == DIED:
            self._died[report.nodeid] = str(report.longrepr)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write reports and proposals; a session that could not, or is worse as a whole, is none that succeeded."""
        for nodeid in self._died:
            found = self._suite_of(nodeid)
            if found is not None:
                self._begin(str(found[0]))
        with without_search():
            for project in self._begun:
                try:
                    self._finish(Path(project))
                except UserError as mistake:
                    self._refused.append(str(self._projects.shown(Path(project), mistake)))
        if (self._refused or self._bound) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what the record says that pytest does not."""
        if self._summaries or self._refused:
            terminalreporter.section("precreg")
        for text in self._summaries:
            terminalreporter.write_line(text)
        for text in self._refused:
            terminalreporter.write_line(text, red=True)

    def _begin(self, name: str) -> None:
        if name in self._begun:
            return
        from msgspec.structs import replace

        from precreg.run.session import begin

        project = Path(name)
        judge = self._projects.judge(project)
        asked = {"pytest": self._arguments}
        begun = begin(project, asked, environment=self._projects.environment, ci=judge.policy.ci)
        bar = self._projects.bar(project)
        self._begun[name] = replace(begun, findings=bar.findings, against=bar.commit)
        self._results[name] = {}

    def _finish(self, project: Path) -> None:
        from msgspec.structs import replace

        from precreg.baseline.creeping import crept
        from precreg.baseline.proposal import pending, propose
        from precreg.baseline.store import Baselines
        from precreg.pytest_plugin.carry import unpacked
        from precreg.report.report_files import write_reports
        from precreg.report.report_terminal import brief
        from precreg.run.session import finish, gone, with_orphans

        results = {result.id: result for result in unpacked(self._results.pop(str(project)).values())}
        cases, all_files = self._cases(project, results.values())
        results |= {result.id: result for result in self._of_the_dead(project, cases)}
        whole = all_files and all(case.id in results for case in cases)
        begun = self._begun[str(project)]
        if whole:  # as only then every case is known, and with it what it allows
            found = (*begun.findings, *crept(project, cases, begun.environment.chain))
            begun = replace(begun, selection={}, findings=found)
        record = finish(begun, cases, results.values(), project=project, duration_s=perf_counter() - self._began)
        self._bound |= any(finding.binding for finding in record.findings)
        dropped: set[str] = set()
        if whole:
            record = with_orphans(record, cases, Baselines(project))
            dropped = gone(pending(project), cases)
        written = write_reports(record, self._folder(project), "gitlab")
        try:
            propose(project, record.results, record.environment, record.git, self._projects.environment, dropped)
        finally:
            self._summaries.append(brief(record, reports=written))

    def _cases(self, project: Path, results: Iterable[CaseResult]) -> tuple[list[Case], bool]:
        """Return the cases of the suites that were run, and whether these were all of the project's.

        Under pytest-xdist this process has collected nothing, and reads them now.
        """
        from precreg.suite.load import suite_files

        files = suite_files(project) if project in self._projects.named.values() else []
        ran = {project / file for file in {result.source.file for result in results}}
        ran |= {found[1] for nodeid in self._died if (found := self._suite_of(nodeid)) and found[0] == project}
        try:
            cases = [case for path in files if path in ran for case in self._projects.cases(project, path)]
        except UserError:
            return [], False
        return cases, bool(files) and ran.issuperset(files)

    def _suite_of(self, nodeid: str) -> tuple[Path, Path] | None:
        return self._projects.of_suite(self._projects.root / nodeid.partition("::")[0])

    def _of_the_dead(self, project: Path, cases: Iterable[Case]) -> Iterable[CaseResult]:
        """Yield an error for each case that a worker process died of."""
        from precreg.types.types import Execution, Failure, Outcome, Reason

        named = {(project / case.source.file, case.name): case for case in cases} if self._died else {}
        for nodeid, message in self._died.items():
            found = self._suite_of(nodeid)
            case = named.get((found[1], nodeid.partition("::")[2])) if found else None
            if case is not None:
                failure = Failure(Reason.CRASHED, " ".join(message.split()))
                outcome = Outcome(case.id, case.definition, Execution(failure=failure))
                yield self._projects.judge(project).judge(case, outcome)

    def _folder(self, project: Path) -> Path:
        """Return where reports go: the project's reports/, or the folder asked for, which several projects share."""
        if self._output is None:
            return Path(relpath(project / "reports"))
        folder = Path(os.path.relpath(self._output))
        return folder if len(self._begun) == 1 else folder / relpath(project, self._projects.root)
