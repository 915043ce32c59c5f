"""What the runs of a series say beside its figures: which can be compared, whether it repeats, what changed when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise

from precreg.history.drift.record import Change
from precreg.history.series import Point, Run, changed_facts

FLICKERS = 3
"""So often a value that was left must have come back for a series to count as unsteady, not as changed and reverted."""


DIGITS = 8
"""Of a commit, as every report shows it."""


def comparable(points: Sequence[Point], runs: Mapping[int, Run]) -> Sequence[Point]:
    """Return the points to compare the last with: all, or where machines take turns those of its own fingerprint.

    Machines take turns where the last fingerprint was left and came back. A fingerprint that is new is a change of
    the environment, and what came before it counts.
    """
    prints = [runs[point.run].fingerprint for point in points]
    blocks = [fingerprint for fingerprint, _ in groupby(prints)]
    if blocks.count(prints[-1]) == 1:
        return points
    return [point for point, fingerprint in zip(points, prints, strict=True) if fingerprint == prints[-1]]


def repeats(points: Sequence[Point], runs: Mapping[int, Run]) -> bool:
    """Tell whether a series is deterministic: at least half of all successive runs on one fingerprint agree exactly.

    A series that keeps returning to values that it had left agrees by chance, and is not.
    """
    pairs = [
        (earlier.value, later.value)
        for earlier, later in pairwise(points)
        if runs[earlier.run].fingerprint == runs[later.run].fingerprint
    ]
    agree = sum(earlier == later for earlier, later in pairs)
    return bool(pairs) and 2 * agree >= len(pairs) and not _flickers([point.value for point in points])


def _flickers(values: Sequence[float | None]) -> bool:
    changes = returns = 0
    seen: set[float | None] = {values[0]}
    for earlier, later in pairwise(values):
        changes += earlier != later
        returns += earlier != later and later in seen
        seen.add(later)
    return returns >= FLICKERS and 2 * returns >= changes


def change_at(place: int, points: Sequence[Point], runs: Mapping[int, Run]) -> Change:
    """Describe the change between the point before a place and the one at it."""
    bad = runs[points[place].run]
    if place == 0:
        return Change(None, bad.number, bad.commit[:DIGITS])
    good = runs[points[place - 1].run]
    return Change(good.number, bad.number, _commits(good, bad), _facts_changed(good, bad))


def _commits(good: Run, bad: Run) -> str:
    """Name the range to look through, as git takes it; one commit where both runs ran it."""
    ends = [good.commit[:DIGITS], bad.commit[:DIGITS]]
    return ends[0] if ends[0] == ends[1] else "..".join(ends)


def _facts_changed(good: Run, bad: Run) -> tuple[str, ...]:
    """List the facts of the environment that differ, where its fingerprint does."""
    if good.fingerprint == bad.fingerprint:
        return ()
    return tuple(f"{name} {was} -> {now}" for name, was, now in changed_facts(good, bad))
