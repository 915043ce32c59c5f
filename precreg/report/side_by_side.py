"""What a paired run says of itself: which version judged, after how many seeds, and where it could not."""

from __future__ import annotations

from collections.abc import Iterator

from precreg.records import CaseResult, RunRecord
from precreg.types import Status


def judge_of(result: CaseResult) -> str:
    """Say what judged a case of a paired run, after how many seeds; nothing of any other run."""
    if result.paired is None:
        return ""
    if result.paired.problem or result.baseline is None:
        return f"what was accepted, because of the other version: {result.paired.problem}"
    commit = result.baseline.entry.commit[:8]
    return f"{result.baseline.file} at {commit}, side by side, after {_seeds(result)} of both"


def summary(record: RunRecord) -> Iterator[str]:
    """Yield how many cases the other version judged, which are not clear, and which it could not judge, and why."""
    if not record.pair:
        return
    passed = [result for result in record.results if result.verdict.status is Status.PASSED]
    alone = [result for result in record.results if result.paired is not None and result.paired.problem]
    judged = len(record.results) - len(alone)
    yield f"{judged} of {len(record.results)} cases judged by {record.pair[:8]}, run side by side"
    for result in passed:
        if result.paired is not None and not (result.paired.clear or result.paired.problem):
            yield f"not clear after {_seeds(result)}: {result.id}: {result.verdict.message}"
    for result in alone:
        if result.paired is not None:
            yield f"judged by what was accepted: {result.id}: {result.paired.problem}"


def _seeds(result: CaseResult) -> str:
    seeds = 0 if result.paired is None else result.paired.seeds
    return "1 seed" if seeds == 1 else f"{seeds} seeds"
