"""Which tolerances are suspicious: bounds that rounding alone can break, and bounds that let everything pass?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction

from precreg.arithmetic import exact_ulp, format_of
from precreg.errors import nearest
from precreg.measure import METRICS
from precreg.tolerance.layers import TOLERANCES_FILE
from precreg.tolerance.standards import find_standard
from precreg.types import Bound, Layer, Role, Tolerance


def tolerance_warnings(
    tolerance: Tolerance, dtype: str, magnitude: float | None = None, role: Role = "reference"
) -> list[str]:
    """Return a warning for each bound that is tighter than the dtype, or that lets everything pass.

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


def unmatched_outputs(layers: tuple[Layer, ...], outputs: Collection[str]) -> list[str]:
    """Return a warning for each layer of a suite that names an output that the case does not have."""
    # suites/tolerances.yaml applies to many suites, which have different outputs.
    return [
        f"no output is called {layer.output} ({layer.name}: {layer.source}){nearest(layer.output, outputs)}"
        for layer in layers
        if layer.output is not None and layer.output not in outputs and layer.source.file != TOLERANCES_FILE
    ]


def _unlisted_dtype(tolerance: Tolerance, dtype: str) -> Iterator[str]:
    if tolerance.standard and find_standard(tolerance.standard).limits(dtype) is None:
        yield f"standard {tolerance.standard} has no limits for {dtype}, so the bounds of the layers below it apply"


def _below_rounding(tolerance: Tolerance, dtype: str) -> Iterator[str]:
    number_format = format_of(dtype)
    if number_format is None or not any(bound.metric == "match_ratio" for bound in tolerance.bounds):
        return
    # The relative spacing of a format is twice its unit roundoff.
    rtol, ulp = tolerance.rtol, 2 * number_format.unit_roundoff
    if 0 < rtol.limit < ulp:
        yield f"rtol={rtol.limit:g} ({rtol.source}) is below 1 ULP of {dtype} ({ulp:g}): rounding alone can break it"


def _exact_match(tolerance: Tolerance, dtype: str, magnitude: float) -> Iterator[str]:
    number_format = format_of(dtype)
    # _below_rounding checks an rtol; here an atol alone must admit the rounding of each element.
    every = any(bound.metric == "match_ratio" and bound.limit == 1 for bound in tolerance.bounds)
    if number_format is None or not every or tolerance.rtol.limit > 0:
        return
    half_ulp = float(exact_ulp(Fraction(magnitude), number_format)) / 2
    if tolerance.atol.limit < half_ulp:
        limits = f"rtol=0, atol={tolerance.atol.limit:g} ({tolerance.atol.source})"
        where = f"{dtype} ({half_ulp:g}) where |r| is {magnitude:.3g} on average"
        yield f"{limits} is below half an ULP of {where}: only a result that needs no rounding passes"


def vacuous_bounds(tolerance: Tolerance, magnitude: float | None) -> Iterator[str]:
    """Yield a warning if twice the reference passes; `magnitude` is the mean |reference|, if it is known."""
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
        limits = ", ".join(f"{bound.metric}={bound.limit:g}" for bound in (*widest, *bounds))
        where = f" where |r| is {magnitude:.3g} on average" if drowned and matched else ""
        yield f"a result that is wrong by 100 % passes: {limits} ({(*widest, *bounds)[0].source}){where}"


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
