"""Is there something to judge? Findings on missing, empty, misshapen or wrongly non-finite outputs.

Is it accurate enough? Findings on bounds of the tolerance pyramid that are broken at any seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from precreg.measure import metric_named
from precreg.types import (
    BaselineEntry,
    Bound,
    Comparison,
    Finding,
    MetricDescription,
    Outcome,
    Positions,
    Reason,
    Role,
    Tolerance,
)


def structural_findings(outcome: Outcome, role: Role, entry: BaselineEntry | None) -> Iterator[Finding]:
    """Yield what makes measurements meaningless, whatever the tolerance: absence never passes."""
    for name in outcome.missing:
        yield _hard(Reason.MISSING_OUTPUT, f"the subject gave no output {name!r}, which the {role} has", name)
    if not outcome.comparisons and not outcome.missing:
        yield _hard(Reason.MISSING_OUTPUT, "nothing was compared: neither side gave an output")
    for comparison in outcome.comparisons:
        yield from unmeasurable_findings(comparison, role)
    if entry is not None:
        yield from _against_baseline(outcome, entry)


def unmeasurable_findings(comparison: Comparison, role: Role) -> Iterator[Finding]:
    """Yield what makes the measurements of one pair meaningless: shape, dtype, NaN and infinities, nothing at all."""
    name, seed, counts = comparison.output, comparison.seed, comparison.counts
    if comparison.shape != comparison.reference_shape:
        message = f"expected shape {_shape(comparison.reference_shape)} but got shape={_shape(comparison.shape)}"
        yield _hard(Reason.SHAPE_MISMATCH, message, name, seed=seed)
        return
    if role == "golden" and comparison.dtype != comparison.reference_dtype:
        message = f"expected the golden's dtype {comparison.reference_dtype} but got dtype={comparison.dtype}"
        yield _hard(Reason.DTYPE_MISMATCH, message, name, seed=seed)
    mismatched = counts.get("nan_mismatched", 0) + counts.get("inf_mismatched", 0)
    if mismatched:
        message = f"{mismatched} of {counts['n']} elements differ in NaN or infinity{_first(comparison.non_finite)}"
        found = _hard(Reason.NON_FINITE_MISMATCH, message, name, seed=seed)
        yield replace(found, current=mismatched, limit=0)
    elif not counts.get("n", 0):
        yield _hard(Reason.EMPTY, f"shape {_shape(comparison.shape)} has no element", name, seed=seed)
    elif not counts.get("finite", 0):
        yield _hard(Reason.EMPTY, "not one pair of elements is finite, so nothing was measured", name, seed=seed)


def _against_baseline(outcome: Outcome, entry: BaselineEntry) -> Iterator[Finding]:
    current = {comparison.output: comparison for comparison in outcome.comparisons}
    for name, accepted in entry.outputs.items():
        if name not in current and name not in outcome.missing:
            yield _hard(Reason.MISSING_OUTPUT, f"the baseline has an output {name!r} that is gone", name)
        elif name in current and current[name].dtype != accepted.dtype:
            message = f"expected the baseline's dtype {accepted.dtype} but got dtype={current[name].dtype}"
            yield _hard(Reason.DTYPE_MISMATCH, message, name)
        elif name in current and current[name].shape != accepted.shape:
            message = f"expected the baseline's shape {_shape(accepted.shape)} but got {_shape(current[name].shape)}"
            yield _hard(Reason.SHAPE_MISMATCH, message, name)


def _hard(reason: Reason, message: str, output: str = "", *, seed: int | None = None) -> Finding:
    """Return a finding that no measure can make up for."""
    return Finding(reason, message, output, seed=seed, rule="hard")


def _first(positions: Positions | None) -> str:
    if positions is None or not positions.index:
        return ""
    return f", first at {positions.index[0]}: actual {positions.actual[0]}, reference {positions.reference[0]}"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


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


def satisfies_bound(bound: Bound, value: float, described: Iterable[MetricDescription]) -> bool:
    """Tell whether a value keeps a bound: at most the limit, or at least where higher is better.

    The size of a bias counts. NaN never keeps a bound. `described` are the analyzers' metrics of the comparison.
    """
    metric = metric_named(bound.metric, described)
    if metric.better == "higher":
        return value >= bound.limit
    return (abs(value) if metric.scale == "signed" else value) <= bound.limit


def _broken(comparison: Comparison, bounds: Sequence[Bound]) -> Iterator[Bound]:
    for bound in bounds:
        current = comparison.metrics.get(bound.metric)
        if current is None or not satisfies_bound(bound, current, comparison.described):
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
        ratio=_severity(comparison, bound),
        source=bound.source,
        rule="bound",
    )


def _fact(comparison: Comparison, bound: Bound) -> str:
    current = comparison.metrics.get(bound.metric)
    metric = metric_named(bound.metric, comparison.described)
    unknown = "needs a benchmark" if metric.needs_benchmark else "is not defined on this data"
    got = unknown if current is None else f"is {current:.7g}"
    relation = "at least" if metric.better == "higher" else "at most"
    return f"{bound.metric} {got}, and must be {relation} {bound.limit:.7g}"


def _place(bound: Bound) -> str:
    return f"{bound.layer}, {bound.source}"


def _closeness(bounds: Sequence[Bound], tolerance: Tolerance) -> str:
    if all(bound.metric != "match_ratio" for bound in bounds):
        return ""
    rtol, atol = tolerance.rtol, tolerance.atol
    return f" at rtol={rtol.limit:g} ({rtol.source}), atol={atol.limit:g} ({atol.source})"


def _severity(comparison: Comparison, bound: Bound) -> float | None:
    current = comparison.metrics.get(bound.metric)
    higher = metric_named(bound.metric, comparison.described).better == "higher"
    if current is None or higher or bound.limit <= 0:
        return None
    return current / bound.limit
