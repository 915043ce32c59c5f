"""Which record does a pytest session write of its cases?

A test's results travel on its report, from the process that ran it to the one process that writes the record. So a
worker process of pytest-xdist that dies later loses nothing that it reported. Every pytest session imports this module:
it imports rooms of precreg only inside functions, when the first case or check arrives.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from precreg.errors import UserError
from precreg.pytest_plugin.projects import SessionProjects

if TYPE_CHECKING:
    from precreg.types import Case, CaseResult, RunRecord

# The phase in which pytest-xdist reports the test that a worker process died of.
CRASH_PHASE = "???"

RESULTS: pytest.StashKey[list[tuple[Path, CaseResult]]] = pytest.StashKey()


def keep_result(item: pytest.Item, project: Path, result: CaseResult) -> None:
    """Store a result until pytest makes the next report of its test."""
    item.stash.setdefault(RESULTS, []).append((project, result))


def attach_results(item: pytest.Item, report: pytest.TestReport) -> None:
    """Move the stored results to a report, and set the outcomes that pytest has no exception for.

    A test that raised nothing did not pass if a case failed or waits for acceptance. A case that fails as its suite
    declares makes the test xfailed, and the cases of an xfailed test fail as declared.
    """
    import msgspec

    # Checks of a fixture go with the test itself: a failed report of the set-up would keep the test from running.
    kept = item.stash.get(RESULTS, [])
    if not kept or (report.when == "setup" and report.passed):
        return
    item.stash[RESULTS] = []
    carrying: Any = report
    if report.skipped and hasattr(report, "wasxfail"):
        kept = [(project, _as_declared(result, report.wasxfail)) for project, result in kept]
    carrying.precreg = [(str(project), result.id, msgspec.json.encode(result).decode()) for project, result in kept]
    if report.passed and not hasattr(report, "wasxfail"):
        _report_outcome([result for _, result in kept], carrying)


def _report_outcome(results: Sequence[CaseResult], report: Any) -> None:
    """Set the outcome of a test that raised nothing to the worst outcome of its cases."""
    from precreg.report import strip_controls
    from precreg.types import Reason, Status

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
    """Judge a case of a test marked xfail like a case of a suite with `expect: fail`."""
    from msgspec.structs import replace

    from precreg.report import add_verdict_messages
    from precreg.verdict import EXPECTED_FAILURE_REASONS, invert_verdict

    # xfail excuses a failed figure, and not a case that could not be judged.
    if result.verdict.reason not in EXPECTED_FAILURE_REASONS:
        return result
    verdict = add_verdict_messages(invert_verdict(result.verdict, why or "xfail"))
    return replace(result, verdict=verdict, acceptable=False, wrong_state=None)


def unpack_results(texts: Iterable[str]) -> Iterator[CaseResult]:
    """Yield the results that reports carried as JSON."""
    return map(_decoder().decode, texts)


@cache
def _decoder() -> Any:
    from msgspec.json import Decoder

    from precreg.types import CaseResult

    return Decoder(CaseResult)


def describe_outcome(result: CaseResult) -> str:
    """Describe the outcome of a case; pytest's short summary shows the first line."""
    from precreg.report import explain_result, strip_controls

    first, *others = explain_result(result)
    return strip_controls("\n".join([f"{result.verdict.reason}: {first}", *others]))


def apply_verdict(result: CaseResult) -> None:
    """Fail or skip the running test by its verdict. The report of its end marks a proposed case."""
    from precreg.report import strip_controls
    from precreg.types import Status

    if result.verdict.status in (Status.FAILED, Status.ERROR):
        pytest.fail(describe_outcome(result), pytrace=False)
    if result.verdict.status is Status.SKIPPED:
        options: dict[str, Any] = {"_use_item_location": True}
        # pytest.skip() would report this file as the place of the skip.
        raise pytest.skip.Exception(strip_controls(result.verdict.message), **options)


class SessionRecorder:
    """Collect results as tests report them, and write reports and proposals at the end of the session.

    If a case ran again, its last result counts.
    """

    def __init__(self, config: pytest.Config, projects: SessionProjects) -> None:
        self._projects = projects
        # The record stores them as its selection, ready to be pasted.
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
        """Store the results that a report carries."""
        if hasattr(report, "precreg"):
            for project, case, text in report.precreg:
                self._begin(project)
                self._results[project][case] = text
            # pytest's terminal reporter keeps reports until the end, and with them the JSON of every case.
            del report.precreg
        elif report.when == CRASH_PHASE:
            self._died[report.nodeid] = str(report.longrepr)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write reports and proposals. Fail a session that could not write them, or whose findings fail the run."""
        from precreg.storage import pause_gc

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
        # pytest and Python search all living objects for garbage several times from here on.
        self._projects.forget()
        # A session that failed already keeps its exit status.
        if (self._refused or self._has_binding) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the summaries of the records, and errors of writing them."""
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
        from msgspec.structs import replace

        from precreg.report import render_brief

        session = self._projects.session(project)
        texts = self._results[str(project)]
        results = {result.id: result for result in unpack_results(texts.values())}
        texts.clear()  # a large run need not be in memory twice
        cases, all_files = self._cases(project, results.values())
        results |= {result.id: result for result in self._crashed_results(project, cases)}
        complete = all_files and all(case.id in results for case in cases)
        # Only now all cases are known, and that pytest's arguments left none out.
        if complete:
            session.record = replace(session.record, selection={})
            session.add_cumulative_losses(cases)

        def summarize(record: RunRecord, written: list[Path]) -> None:
            self._has_binding |= any(finding.binding for finding in record.findings)
            self._summaries.append(render_brief(record, reports=written))

        session.finish(cases, results.values(), folder=self._folder(project), summarize=summarize, complete=complete)

    def _cases(self, project: Path, results: Iterable[CaseResult]) -> tuple[list[Case], bool]:
        """Return the cases of the suites that ran, and True if these are all suites of the project."""
        # Under pytest-xdist this process has collected nothing, and reads the suites now.
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
        from precreg.types import Execution, Failure, Outcome, Reason

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
        # Reports of several projects would overwrite each other in one folder.
        folder = Path(relpath(self._output))
        return folder if len(self._results) == 1 else folder / relpath(project, self._projects.root)
