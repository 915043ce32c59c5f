"""What a paired run says of itself: which version judged, after how many seeds, and where it could not."""

from __future__ import annotations

from collections.abc import Iterator

from precreg.types.records import CaseResult, RunRecord
from precreg.types.types import Status

MOST_IDS = 3


def judge_of(result: CaseResult) -> str:
    """Say what judged a case of a paired run, after how many seeds; nothing of any other run."""
    if result.paired is None:
        return ""
    if result.paired.problem or result.baseline is None:
        return f"what was accepted: {result.paired.problem}"
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
    by_problem: dict[str, list[str]] = {}
    for result in alone:
        by_problem.setdefault(result.paired.problem if result.paired else "", []).append(result.id)
    for problem, ids in by_problem.items():
        yield f"judged by what was accepted: {_some(ids)}: {problem}"


def _some(ids: list[str]) -> str:
    rest = f" and {len(ids) - MOST_IDS} more" if len(ids) > MOST_IDS else ""
    return ", ".join(ids[:MOST_IDS]) + rest


def _seeds(result: CaseResult) -> str:
    seeds = 0 if result.paired is None else result.paired.seeds
    return "1 seed" if seeds == 1 else f"{seeds} seeds"
