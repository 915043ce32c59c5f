"""What a test's cases came to, on the way from where it ran to the one process that writes the record.

It travels on the test's report, so a worker process of pytest-xdist that dies later loses nothing that was reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from precreg.records import CaseResult
from precreg.report import describe
from precreg.report.terminal import explanation
from precreg.types import Reason, Status

RESULTS = pytest.StashKey[list[tuple[Path, CaseResult]]]()

_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder(CaseResult).decode


def keep(item: pytest.Item, project: Path, result: CaseResult) -> None:
    """Remember a result until the next report of its test is made."""
    item.stash.setdefault(RESULTS, []).append((project, result))


def hand_over(item: pytest.Item, report: pytest.TestReport) -> None:
    """Move what is remembered to a report, which then says what pytest has no exception for.

    A test that passed, and has cases nobody accepted, has not passed: it waits for a person. One whose case fails as
    its suite declares is what pytest calls xfailed.
    """
    kept = item.stash.get(RESULTS, [])
    if not kept:
        return
    item.stash[RESULTS] = []
    carrying: Any = report
    carrying.precreg = [(str(project), result.id, _ENCODE(result).decode()) for project, result in kept]
    if not report.passed or hasattr(report, "wasxfail"):
        return
    proposed = [result for _, result in kept if result.verdict.status is Status.PROPOSED]
    expected = [result for _, result in kept if result.verdict.reason is Reason.EXPECTED_FAILURE]
    if proposed:
        carrying.outcome, carrying.precreg_proposed = "failed", True
        carrying.longrepr = "\n\n".join(map(told, proposed))
    elif expected:
        carrying.outcome, carrying.wasxfail = "skipped", describe.plain(expected[0].verdict.message)


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
