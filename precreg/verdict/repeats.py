"""Repeats that differ, in words: from which element on, how many, by how much, in which runs; and whether they may."""

from __future__ import annotations

from collections.abc import Iterator

from precreg.types.types import Case, Execution, RepeatDifference


def unforeseen(case: Case, execution: Execution) -> Iterator[tuple[str, str]]:
    """Yield each output whose repeats differ as was not declared, and where: a declaration is of bits alone."""
    differences = {difference.output: difference for difference in execution.differences}
    for name in execution.unsteady:
        difference = differences.get(name)
        if case.deterministic or (difference is not None and difference.place is None):
            yield name, differs(difference)


def bits(case: Case, execution: Execution) -> str:
    """Say what became of the bits of a case whose bits are not the baseline's."""
    if case.deterministic or (case.repeats > 1 and not execution.unsteady):
        return "bits changed"
    if not execution.unsteady:
        return "bits may change from run to run, as declared"
    first = next((each for each in execution.differences if each.output == execution.unsteady[0]), None)
    return f"repeats differ as declared, starting in output {execution.unsteady[0]!r}{differs(first)}"


def unneeded(case: Case, execution: Execution) -> str:
    """Say that runs need not have agreed, where all of them did."""
    if case.deterministic or case.repeats == 1 or execution.unsteady:
        return ""
    return f"; all {case.repeats} runs of each seed agree, so `deterministic: false` may not be needed"


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
