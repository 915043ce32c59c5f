"""What a test's cases came to, on the way from where it ran to the one process that writes the record.

It travels on the test's report, so a worker process of pytest-xdist that dies later loses nothing that was reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from precreg.report import report_describe as describe
from precreg.report.report_terminal import explanation
from precreg.types.records import CaseResult
from precreg.types.types import Reason, Status
from precreg.verdict.judge import KNOWN_BAD, inverted

RESULTS = pytest.StashKey[list[tuple[Path, CaseResult]]]()


_ENCODE = msgspec.json.Encoder().encode

_DECODE = msgspec.json.Decoder(CaseResult).decode


def keep(item: pytest.Item, project: Path, result: CaseResult) -> None:
    """Remember a result until the next report of its test is made."""
    item.stash.setdefault(RESULTS, []).append((project, result))


def hand_over(item: pytest.Item, report: pytest.TestReport) -> None:
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
        report.outcome, report.longrepr = "failed", "\n\n".join(map(told, failed or proposed))
        if not failed:
            report.precreg_proposed = True
    elif expected:
        report.outcome, report.wasxfail = "skipped", describe.plain(expected[0].verdict.message)


def _as_declared(result: CaseResult, why: str) -> CaseResult:
    """Judge a case of a test that is marked xfail as one of a suite that says `expect: fail`."""
    if result.verdict.reason not in KNOWN_BAD:
        return result
    return replace(result, verdict=inverted(result.verdict, why or "xfail"), acceptable=False)


def unpacked(texts: Iterable[str]) -> Iterator[CaseResult]:
    """Yield the results that reports carried as text."""
    return map(_DECODE, texts)


def told(result: CaseResult) -> str:
    """Say why a case is what it is; the first line is what pytest's short summary shows."""
    first, *others = explanation(result)
    return describe.plain("\n".join([f"{result.verdict.reason}: {first}", *others]))


def judged(result: CaseResult) -> None:
    """Fail the running test, or skip it, as the verdict says; what is proposed is told when the test has ended."""
    if result.verdict.status in (Status.FAILED, Status.ERROR):
        pytest.fail(told(result), pytrace=False)
    if result.verdict.status is Status.SKIPPED:
        options: dict[str, Any] = {"_use_item_location": True}
        raise pytest.skip.Exception(describe.plain(result.verdict.message), **options)
