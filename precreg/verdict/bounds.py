"""Is it accurate enough? Findings on bounds of the tolerance pyramid that are broken at any seed."""

from __future__ import annotations

from collections.abc import Iterator

from precreg.measure.metrics import described
from precreg.types import Bound, Comparison, Finding, Reason, Tolerance


def broken_bounds(comparison: Comparison, tolerance: Tolerance) -> Iterator[Finding]:
    """Yield every bound that one output at one seed breaks; a bound on an undefined metric is broken."""
    for bound in tolerance.bounds:
        current = comparison.metrics.get(bound.metric)
        if current is None or not holds(bound, current):
            yield _finding(comparison, tolerance, bound, current)


def holds(bound: Bound, value: float) -> bool:
    """Tell whether a value keeps a bound: at most the limit, or at least where higher is better.

    A bias is held by its size. NaN never keeps a bound.
    """
    if described(bound.metric).better == "higher":
        return value >= bound.limit
    return (abs(value) if bound.metric == "bias" else value) <= bound.limit


def _finding(comparison: Comparison, tolerance: Tolerance, bound: Bound, current: float | None) -> Finding:
    relation = "at least" if described(bound.metric).better == "higher" else "at most"
    got = "is not defined on this data" if current is None else f"is {current:.7g}"
    message = f"{bound.metric} {got}, and must be {relation} {bound.limit:.7g} ({bound.layer}, {bound.source})"
    message += _closeness(bound, tolerance)
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
    )


def _closeness(bound: Bound, tolerance: Tolerance) -> str:
    if bound.metric != "match_ratio":
        return ""
    rtol, atol = tolerance.rtol, tolerance.atol
    return f" at rtol={rtol.limit:g} ({rtol.source}), atol={atol.limit:g} ({atol.source})"


def _severity(bound: Bound, current: float | None) -> float | None:
    if current is None or described(bound.metric).better == "higher" or bound.limit <= 0:
        return None
    return current / bound.limit
