"""What a test's cases came to, on the way from where it ran to the one process that writes the record.

It travels on the test's report, so a worker process of pytest-xdist that dies later loses nothing that was reported.

The record of a pytest session: kept in the process that hears of every test, written when the last one has ended.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.pytest_plugin.projects import SessionProjects
from precreg.report import explain_result, strip_controls
from precreg.storage import pause_gc
from precreg.types import CaseResult, Reason, Status
from precreg.verdict import EXPECTED_FAILURE_REASONS, invert_verdict

if TYPE_CHECKING:
    from precreg.types import Case, RunRecord


RESULTS = pytest.StashKey[list[tuple[Path, CaseResult]]]()


_ENCODE = msgspec.json.Encoder().encode

_DECODE = msgspec.json.Decoder(CaseResult).decode


def keep_result(item: pytest.Item, project: Path, result: CaseResult) -> None:
    """Remember a result until the next report of its test is made."""
    item.stash.setdefault(RESULTS, []).append((project, result))


def attach_results(item: pytest.Item, report: pytest.TestReport) -> None:
    """Move what is remembered to a report, which then says what pytest has no exception for.

    A test that passed, and has cases nobody accepted, has not passed: it waits for a person. Neither has one that
    caught the exception of a check. One whose case fails as its suite declares is what pytest calls xfailed; and the
    cases of a test that pytest calls xfailed fail as declared. What a fixture checked before the test goes with the
    test: a report of its set-up that is none of success would keep it from running.
    """
    kept = item.stash.get(RESULTS, [])
    if not kept or (report.when == "setup" and report.passed):
        return
    item.stash[RESULTS] = []
    carrying: Any = report
    if report.skipped and hasattr(report, "wasxfail"):
        kept = [(project, _as_declared(result, report.wasxfail)) for project, result in kept]
    carrying.precreg = [(str(project), result.id, _ENCODE(result).decode()) for project, result in kept]
    if report.passed and not hasattr(report, "wasxfail"):
        _tell([result for _, result in kept], carrying)


def _tell(results: Sequence[CaseResult], report: Any) -> None:
    """Make the report of a test that raised nothing say what came of its cases, the worst first."""
    failed = [result for result in results if result.verdict.status in (Status.FAILED, Status.ERROR)]
    proposed = [result for result in results if result.verdict.status is Status.PROPOSED]
    expected = [result for result in results if result.verdict.reason is Reason.EXPECTED_FAILURE]
    if failed or proposed:
        report.outcome, report.longrepr = "failed", "\n\n".join(map(describe_outcome, failed or proposed))
        if not failed:
            report.precreg_proposed = True
    elif expected:
        report.outcome, report.wasxfail = "skipped", strip_controls(expected[0].verdict.message)


def _as_declared(result: CaseResult, why: str) -> CaseResult:
    """Judge a case of a test that is marked xfail as one of a suite that says `expect: fail`."""
    if result.verdict.reason not in EXPECTED_FAILURE_REASONS:
        return result
    return replace(result, verdict=invert_verdict(result.verdict, why or "xfail"), acceptable=False)


def unpack_results(texts: Iterable[str]) -> Iterator[CaseResult]:
    """Yield the results that reports carried as text."""
    return map(_DECODE, texts)


def describe_outcome(result: CaseResult) -> str:
    """Say why a case is what it is; the first line is what pytest's short summary shows."""
    first, *others = explain_result(result)
    return strip_controls("\n".join([f"{result.verdict.reason}: {first}", *others]))


def apply_verdict(result: CaseResult) -> None:
    """Fail the running test, or skip it, as the verdict says; what is proposed is told when the test has ended."""
    if result.verdict.status in (Status.FAILED, Status.ERROR):
        pytest.fail(describe_outcome(result), pytrace=False)
    if result.verdict.status is Status.SKIPPED:
        options: dict[str, Any] = {"_use_item_location": True}
        raise pytest.skip.Exception(strip_controls(result.verdict.message), **options)


DIED = "???"
"""The phase in which pytest-xdist reports the test that a worker process died of."""


class SessionRecorder:
    """Takes results as tests report them, the last one of a case that ran again, and writes reports and proposals."""

    def __init__(self, config: pytest.Config, projects: SessionProjects) -> None:
        self._projects = projects
        self._arguments = shlex.join(map(str, config.invocation_params.args))
        output = config.getoption("precreg_output", None)
        self._output = None if output is None else config.invocation_params.dir / output
        # By project, then by case: JSON, because the garbage collector does not walk through text.
        self._results: dict[str, dict[str, str]] = {}
        self._died: dict[str, str] = {}
        self._summaries: list[str] = []
        self._refused: list[str] = []
        self._has_binding = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a report carries."""
        if hasattr(report, "precreg"):
            for project, case, text in report.precreg:
                self._begin(project)
                self._results[project][case] = text
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
        with pause_gc():
            for project in self._results:
                try:
                    self._finish(Path(project))
                except UserError as mistake:
                    self._refused.append(str(self._projects.shown(Path(project), mistake)))
        if (self._refused or self._has_binding) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what the record says that pytest does not."""
        if self._summaries or self._refused:
            terminalreporter.section("precreg")
        for text in self._summaries:
            terminalreporter.write_line(text)
        for text in self._refused:
            terminalreporter.write_line(text, red=True)

    def _begin(self, project: str) -> None:
        """Begin the record of a project at its first result."""
        if project not in self._results:
            self._projects.session(Path(project)).begin({"pytest": self._arguments})
            self._results[project] = {}

    def _finish(self, project: Path) -> None:
        """Complete the record of a project, and write its reports and proposals."""
        from precreg.report import render_brief

        session = self._projects.session(project)
        texts = self._results[str(project)]
        results = {result.id: result for result in unpack_results(texts.values())}
        texts.clear()  # a large run need not be in memory twice
        cases, all_files = self._cases(project, results.values())
        results |= {result.id: result for result in self._crashed_results(project, cases)}
        complete = all_files and all(case.id in results for case in cases)
        if complete:  # pytest's arguments selected nothing, and only now all cases are known
            session.record = replace(session.record, selection={})
            session.add_cumulative_losses(cases)

        def summarize(record: RunRecord, written: list[Path]) -> None:
            self._has_binding |= any(finding.binding for finding in record.findings)
            self._summaries.append(render_brief(record, reports=written))

        session.finish(cases, results.values(), folder=self._folder(project), summarize=summarize, complete=complete)

    def _cases(self, project: Path, results: Iterable[CaseResult]) -> tuple[list[Case], bool]:
        """Return the cases of the suites that were run, and whether these were all of the project's.

        Under pytest-xdist this process has collected nothing, and reads them now.
        """
        from precreg.suite import suite_files

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

    def _crashed_results(self, project: Path, cases: Iterable[Case]) -> Iterable[CaseResult]:
        """Yield an error for each case that a worker process died of."""
        from precreg.types import Execution, Failure, Outcome

        named = {(project / case.source.file, case.name): case for case in cases} if self._died else {}
        for nodeid, message in self._died.items():
            found = self._suite_of(nodeid)
            case = named.get((found[1], nodeid.partition("::")[2])) if found else None
            if case is not None:
                failure = Failure(Reason.CRASHED, " ".join(message.split()))
                outcome = Outcome(case.id, case.definition, Execution(failure=failure))
                yield self._projects.session(project).judge.judge(case, outcome)

    def _folder(self, project: Path) -> Path:
        """Return the folder of the reports: the project's reports/, or --precreg-output, which projects share."""
        from precreg.report import reports_folder

        if self._output is None:
            return reports_folder(project)
        folder = Path(relpath(self._output))
        return folder if len(self._results) == 1 else folder / relpath(project, self._projects.root)
