"""Which failures of a comparison have one cause?

Pairs of one cause are one group. Causes are arrays that one side lacks, files that fail to load in the same way, shapes
that differ along the same axes, and one metric beyond its limit. A broken file of many arrays is one cause, not many.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from precreg.comparison.course import is_bad
from precreg.types import AbsentArray, ComparedPair, Finding, OtherShape, Reason

_NUMBERS = re.compile(r"\d+")


class FailureGroup(NamedTuple):
    """Hold pairs that fail for one cause, in order."""

    reason: Reason
    pairs: list[ComparedPair]

    @property
    def is_measured(self) -> bool:
        """Return whether elements were compared; an array that is absent or unreadable has none."""
        comparison = self.pairs[0].comparison
        return comparison is not None and bool(comparison.metrics)


def group_failed_pairs(pairs: Iterable[ComparedPair]) -> list[FailureGroup]:
    """Return the failing pairs by cause: those without measured elements first, then by number, then in order."""
    found: dict[Hashable, FailureGroup] = {}
    for pair in filter(is_bad, pairs):
        found.setdefault(_cause(pair), FailureGroup(pair.verdict.reason, [])).pairs.append(pair)
    # One missing folder hides behind hundreds of large errors, and mostly explains them.
    return sorted(found.values(), key=lambda group: (group.is_measured, -len(group.pairs)))


def _cause(pair: ComparedPair) -> Hashable:
    finding = pair.verdict.findings[0] if pair.verdict.findings else Finding(pair.verdict.reason, pair.verdict.message)
    reason, fact = pair.verdict.reason, finding.fact
    if isinstance(fact, AbsentArray):
        return reason, fact.side
    if isinstance(fact, OtherShape):
        return reason, differing_axes(fact.actual, fact.expected) or (fact.actual, fact.expected)
    if finding.metric:
        return reason, finding.metric
    return (reason,) if fact is not None else (reason, _NUMBERS.sub("#", failure_text(pair)))


def failure_text(pair: ComparedPair) -> str:
    """Return the message of a verdict without the path of the pair's own file."""
    message = pair.verdict.message
    for path in filter(None, (pair.actual, pair.reference, pair.benchmark_path)):
        # The message may name the file of an array that the pair calls FILE:NAME.
        for named in (path, path.rpartition(":")[0]):
            if named and message.startswith(f"{named}: "):
                return message[len(named) + 2 :]
    return message


def differing_axes(actual: tuple[int, ...], expected: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """Return axis, actual and expected length where shapes of equal rank differ; empty if the ranks differ."""
    if len(actual) != len(expected):
        return ()
    lengths = enumerate(zip(actual, expected, strict=True))
    return tuple((axis, ours, theirs) for axis, (ours, theirs) in lengths if ours != theirs)
