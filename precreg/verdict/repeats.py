"""Repeats that differ, in words: from which element on, how many, by how much, and in which runs."""

from __future__ import annotations

from precreg.types import RepeatDifference


def differs(difference: RepeatDifference | None) -> str:
    """Say where an output of a later run differs from the first run's; nothing of a record that does not know."""
    if difference is None:
        return ""
    runs = f"between run 1 and {difference.repeat} of seed {difference.seed}"
    if difference.place is None:
        return f": not there in both, or of another shape or dtype, {runs}"
    place = f" at {list(difference.place)}" if difference.place else ""
    verb = "differs" if difference.differing == 1 else "differ"
    elements = f"{difference.differing} of {difference.size} elements {verb}"
    return f"{place}: {elements}, {_extent(difference)}, {runs}"


def _extent(difference: RepeatDifference) -> str:
    """Say by how much elements differ, and how many of them cannot say."""
    strange = f"{difference.non_finite} of them NaN or infinite" if difference.non_finite else ""
    if difference.largest is None:
        return strange or "by more than float64 holds"
    distance = f"by at most {difference.largest:.3g}" if difference.largest else "in their bits alone"
    return f"{strange}, {distance}" if strange else distance
