"""Is it accurate enough? Findings on bounds of the tolerance pyramid that are broken at any seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from precreg.measure.metrics import AGAINST_BENCHMARK, described
from precreg.types.types import Bound, Comparison, Finding, Reason, Tolerance


def broken_bounds(comparison: Comparison, tolerance: Tolerance) -> Iterator[Finding]:
    """Yield every bound that one output at one seed breaks; a bound on an undefined metric is broken.

    Where a tolerance has alternatives and each has a broken bound, they are one finding that names them all.
    """
    for bound in _broken(comparison, tolerance.bounds):
        message = f"{_fact(comparison, bound)} ({_place(bound)}){_closeness([bound], tolerance)}"
        yield _finding(comparison, bound, message)
    branches = [[*_broken(comparison, alternative)] for alternative in tolerance.alternatives]
    if branches and all(branches):
        yield _none_holds(comparison, tolerance, branches)


def holds(bound: Bound, value: float) -> bool:
    """Tell whether a value keeps a bound: at most the limit, or at least where higher is better.

    A bias is held by its size. NaN never keeps a bound.
    """
    if described(bound.metric).better == "higher":
        return value >= bound.limit
    return (abs(value) if bound.metric == "bias" else value) <= bound.limit


def _broken(comparison: Comparison, bounds: Sequence[Bound]) -> Iterator[Bound]:
    for bound in bounds:
        current = comparison.metrics.get(bound.metric)
        if current is None or not holds(bound, current):
            yield bound


def _none_holds(comparison: Comparison, tolerance: Tolerance, branches: list[list[Bound]]) -> Finding:
    """Say what breaks each alternative; the finding's own numbers are those of the first."""
    facts = "; or ".join(", and ".join(_fact(comparison, bound) for bound in branch) for branch in branches)
    first = branches[0][0]
    closeness = _closeness([bound for branch in branches for bound in branch], tolerance)
    message = f"none of {len(branches)} alternatives holds: {facts} ({_place(first)}){closeness}"
    return _finding(comparison, first, message)


def _finding(comparison: Comparison, bound: Bound, message: str) -> Finding:
    current = comparison.metrics.get(bound.metric)
    return Finding(
        Reason.OUT_OF_TOLERANCE,
        message,
        comparison.output,
        bound.metric,
        comparison.seed,
        current=current,
        limit=bound.limit,
        ratio=_severity(bound, current),
        source=bound.source,
        rule="bound",
    )


def _fact(comparison: Comparison, bound: Bound) -> str:
    current = comparison.metrics.get(bound.metric)
    unknown = "needs a benchmark" if bound.metric in AGAINST_BENCHMARK else "is not defined on this data"
    got = unknown if current is None else f"is {current:.7g}"
    relation = "at least" if described(bound.metric).better == "higher" else "at most"
    return f"{bound.metric} {got}, and must be {relation} {bound.limit:.7g}"


def _place(bound: Bound) -> str:
    return f"{bound.layer}, {bound.source}"


def _closeness(bounds: Sequence[Bound], tolerance: Tolerance) -> str:
    if all(bound.metric != "match_ratio" for bound in bounds):
        return ""
    rtol, atol = tolerance.rtol, tolerance.atol
    return f" at rtol={rtol.limit:g} ({rtol.source}), atol={atol.limit:g} ({atol.source})"


def _severity(bound: Bound, current: float | None) -> float | None:
    if current is None or described(bound.metric).better == "higher" or bound.limit <= 0:
        return None
    return current / bound.limit
