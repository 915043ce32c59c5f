"""Which tolerances are suspicious: bounds that rounding alone can break, and bounds that let everything pass?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction

from precreg.arithmetic import exact_ulp, format_of
from precreg.measure import METRICS
from precreg.tolerance.layers import TOLERANCES_FILE
from precreg.tolerance.pyramid import names_output
from precreg.tolerance.standards import NO_BOUNDS, find_standard
from precreg.types import (
    AtolBelowHalfUlp,
    Bound,
    Layer,
    Role,
    RtolBelowUlp,
    Tolerance,
    ToleranceFact,
    UnlistedDtype,
    UnmatchedOutput,
    VacuousTolerance,
)


def tolerance_warnings(
    tolerance: Tolerance, dtype: str, magnitude: float | None = None, role: Role = "reference"
) -> list[ToleranceFact]:
    """Return the bounds that rounding alone can break, and the tolerances that admit a result wrong by 100 %.

    `magnitude` is the mean |reference| of the output, if it was measured. Without it no atol is too wide or too narrow.
    """
    # A golden is in the output's own dtype, so the output may have its very bits.
    exact = _exact_match(tolerance, dtype, magnitude) if role == "reference" and magnitude else ()
    return [
        *_unlisted_dtype(tolerance, dtype),
        *_below_rounding(tolerance, dtype),
        *exact,
        *vacuous_bounds(tolerance, magnitude),
    ]


def unmatched_outputs(layers: tuple[Layer, ...], outputs: Collection[str]) -> list[UnmatchedOutput]:
    """Return the layers of a suite that name an output its case does not have."""
    # Only a run knows the outputs. Layers of suites/tolerances.yaml apply to many suites, so they are left out.
    known = tuple(sorted(outputs))
    return [
        UnmatchedOutput(layer.output, layer.name, layer.source, known)
        for layer in layers
        if layer.output is not None and layer.source.file != TOLERANCES_FILE
        if not any(names_output(layer.output, output) for output in outputs)
    ]


def _unlisted_dtype(tolerance: Tolerance, dtype: str) -> Iterator[UnlistedDtype]:
    if tolerance.standard and find_standard(tolerance.standard).limits(dtype) is None:
        yield UnlistedDtype(tolerance.standard, dtype)


def _below_rounding(tolerance: Tolerance, dtype: str) -> Iterator[RtolBelowUlp]:
    number_format = format_of(dtype)
    if number_format is None or not any(bound.metric == "match_ratio" for bound in tolerance.bounds):
        return
    # The relative spacing of a format is twice its unit roundoff.
    rtol, ulp = tolerance.rtol, 2 * number_format.unit_roundoff
    if 0 < rtol.limit < ulp:
        yield RtolBelowUlp(rtol.limit, rtol.source, dtype, ulp)


def _exact_match(tolerance: Tolerance, dtype: str, magnitude: float) -> Iterator[AtolBelowHalfUlp]:
    number_format = format_of(dtype)
    every = any(bound.metric == "match_ratio" and bound.limit == 1 for bound in tolerance.bounds)
    if number_format is None or not every or tolerance.rtol.limit > 0:
        return
    half_ulp = float(exact_ulp(Fraction(magnitude), number_format)) / 2
    atol = tolerance.atol
    if atol.limit < half_ulp:
        yield AtolBelowHalfUlp(atol.limit, atol.source, dtype, half_ulp, _rounded(magnitude))


def vacuous_bounds(tolerance: Tolerance, magnitude: float | None) -> Iterator[VacuousTolerance]:
    """Yield the limits that admit twice the reference; `magnitude` is the mean |reference|, if it is known.

    A tolerance that is declared to have no bounds is no mistake while its baseline judges.
    """
    declared = tolerance.standard == NO_BOUNDS.name and not (tolerance.bounds or tolerance.alternatives)
    if declared and tolerance.regression:
        return
    # An atol as large as the values themselves admits any of them.
    drowned = magnitude is not None and 0 < magnitude <= tolerance.atol.limit
    matching = drowned or tolerance.rtol.limit >= 1

    def admits(bounds: tuple[Bound, ...]) -> bool:
        return all(_admits_wrong(bound, matching, tolerance.regions) for bound in bounds)

    blind = next(filter(admits, tolerance.alternatives), None) if tolerance.alternatives else ()
    if admits(tolerance.bounds) and blind is not None:
        bounds = (*tolerance.bounds, *blind)
        matched = not bounds or any(bound.metric == "match_ratio" for bound in bounds)
        widest = (tolerance.atol if drowned else tolerance.rtol,) if matched else ()
        limits = (*widest, *bounds)
        yield VacuousTolerance(
            tuple((bound.metric, bound.limit) for bound in limits),
            limits[0].source,
            _rounded(magnitude) if drowned and matched and magnitude is not None else None,
        )


def _rounded(magnitude: float) -> float:
    """Round a mean to 3 digits, as it is printed: cases that differ only beyond them share one warning."""
    return float(f"{magnitude:.3g}")


def _admits_wrong(bound: Bound, matching: bool, regions: Mapping[str, float]) -> bool:
    """Return whether a bound admits 2r in place of r for all elements, which match if `matching`.

    Bounds in the output's own unit, on multiples of a benchmark's errors, and on metrics of analyzers may reject it.
    """
    # |2r - r| = |r|, so 2r has a relative error of 1 and matches from rtol = 1 on.
    if bound.metric == "match_ratio":
        return matching or bound.limit <= 0
    metric = METRICS.get(bound.metric)
    if metric is None:
        return False
    if metric.blind:
        return True
    if bound.metric == "relative_violation_share":
        return bound.limit >= 1 or regions.get("threshold_rtol", 0.0) >= 1
    if metric.better == "higher":
        return bound.limit <= 0
    return bound.limit >= (1 if metric.unit == "1" else float("inf"))
