"""Which cases of a run have one message together?

Equal errors of a suite have one cause, such as an exception of its subject. A missing requirement skips cases of any
suite. One message with the number of its cases says more than 40 copies, which would fill the list of a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from precreg.report.describe import STATUS_LABELS, count_cases, list_some
from precreg.types import CaseResult, Reason, Status

# The names of cases in one line of the terminal, which has 80 columns or more.
MAX_NAMES_WIDTH = 80
# Enough suites to see which requirement is meant.
MAX_SKIPPED_SUITES = 8


def equal_errors(results: Sequence[CaseResult]) -> dict[str, list[CaseResult]]:
    """Return the cases with an equal error, each group by the id of its first case; a case alone is no group.

    Errors are equal if suite, reason and message are. Cases keep their order.
    """
    groups: dict[tuple[str, str, Reason, str], list[CaseResult]] = {}
    for result in results:
        if result.verdict.status is Status.ERROR:
            key = (result.tier, result.suite, result.verdict.reason, result.verdict.message)
            groups.setdefault(key, []).append(result)
    return {group[0].id: group for group in groups.values() if len(group) > 1}


def represented(results: Sequence[CaseResult], groups: Mapping[str, Sequence[CaseResult]]) -> list[CaseResult]:
    """Return the results without those that the first case of their group represents."""
    others = {result.id for group in groups.values() for result in group[1:]}
    return [result for result in results if result.id not in others]


def describe_group(group: Sequence[CaseResult]) -> str:
    """Write the number of cases of a group, their suite and their reason."""
    first = group[0]
    return f"{count_cases(len(group))} of {first.tier}/{first.suite}   {first.verdict.reason}"


def names_line(group: Sequence[CaseResult], width: int = MAX_NAMES_WIDTH) -> str:
    """Return the names of a group's cases as far as they fit, and the number of the others."""
    names = [result.id.removeprefix(f"{result.tier}/{result.suite}/") for result in group]
    return list_some(names, sum(_fitting(names, width)))


def _fitting(names: Sequence[str], width: int) -> Iterator[int]:
    """Yield 1 for each name that fits, at least for the first."""
    used = 0
    for place, name in enumerate(names):
        used += len(name) + 2
        if place and used > width:
            return
        yield 1


def unavailable_together(results: Sequence[CaseResult]) -> dict[str, list[CaseResult]]:
    """Group the cases that are skipped for the same missing requirement; a case alone is no group."""
    groups: dict[str, list[CaseResult]] = {}
    for result in results:
        if result.verdict.status is Status.SKIPPED and result.verdict.reason is Reason.UNAVAILABLE:
            groups.setdefault(result.verdict.message, []).append(result)
    return {message: group for message, group in groups.items() if len(group) > 1}


def unavailable_line(message: str, group: Sequence[CaseResult]) -> str:
    """Write a missing requirement with the number of its cases, and their suites."""
    suites = sorted({f"{result.tier}/{result.suite}" for result in group})
    label = STATUS_LABELS[Status.SKIPPED]
    return f"{label:8} {count_cases(len(group))} of {list_some(suites, MAX_SKIPPED_SUITES)}   {message}"
