"""By how many times do the errors of some outputs exceed what a case allows?

A case allows errors by the bounds of its tolerance. The factor of a result is the smallest number by which all of its
errors must be divided so that each bound holds. A case that keeps its bounds may have regressed: its errors then exceed
what its baseline accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, sqrt
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.arithmetic import dtype_name
from precreg.measure import compare_arrays
from precreg.tolerance import resolve_tolerance
from precreg.types import Case, Comparison, Tolerance
from precreg.verdict import broken_bounds, unmeasurable_findings

Arrays = Mapping[str, NDArray[Any]]

# Errors that grow or shrink by more are unbounded.
_LARGEST = 1e8
# A mean error that grew by less than a tenth is not worth a search.
_GROWTH = 1.1
# The factor is printed with 3 digits.
_PRECISION = 1.001


class ErrorAllowance:
    """The bounds of a case's outputs. `dtypes` belong to the subject's outputs and judge errors."""

    def __init__(self, case: Case, chain: tuple[str, ...], dtypes: Mapping[str, np.dtype[Any]]) -> None:
        self._case, self._chain, self._dtypes = case, chain, dtypes

    def broken_outputs(self, actual: Arrays, expected: Arrays) -> list[str]:
        """Return the outputs that break a bound, the one with the largest factor first."""
        broken = [name for name in actual if name in expected and self._breaks(name, actual[name], expected[name])]
        pairs = {name: self.factor({name: actual[name]}, {name: expected[name]}) for name in broken}
        return sorted(broken, key=lambda name: -pairs[name])

    def breaks(self, actual: Arrays, expected: Arrays) -> bool:
        """Return whether a result breaks a bound, or cannot be measured."""
        return any(self._breaks(name, actual[name], expected[name]) for name in expected if name in actual)

    def _breaks(self, name: str, actual: NDArray[Any], expected: NDArray[Any]) -> bool:
        dtype = self._dtypes[name]
        tolerance = resolve_tolerance(self._case.layers, name, dtype_name(dtype), self._chain)
        with np.errstate(all="ignore"):
            # The rounding of an output is the error of the operation that made it, which may be exact here.
            rounded = actual.astype(dtype) if _counts_last_places(tolerance) else actual
        measured = compare_arrays(
            rounded,
            expected,
            output=name,
            rtol=tolerance.rtol.limit,
            atol=tolerance.atol.limit,
            regions=tolerance.regions,
        )
        # As for a reference: exact values have a wider dtype than a golden.
        if any(True for _ in unmeasurable_findings(measured, "reference")):
            return True
        return any(True for _ in broken_bounds(measured, _measured_bounds(tolerance, measured)))

    def factor(self, actual: Arrays, expected: Arrays, precision: float = _PRECISION) -> float:
        """Return the smallest number that the errors must be divided by, so that no bound is broken; 0 for none."""
        if all(_are_equal(actual[name], expected[name]) for name in expected if name in actual):
            return 0.0
        low, high = (1.0, _LARGEST) if self.breaks(actual, expected) else (1 / _LARGEST, 1.0)
        if high > 1 and self._breaks_divided(actual, expected, high):
            return inf
        if low < 1 and not self._breaks_divided(actual, expected, low):
            return 0.0
        while high / low > precision:
            middle = sqrt(low * high)
            if self._breaks_divided(actual, expected, middle):
                low = middle
            else:
                high = middle
        return high

    def _breaks_divided(self, actual: Arrays, expected: Arrays, by: float) -> bool:
        return self.breaks({name: _divided(actual[name], expected[name], by) for name in actual}, expected)


def _counts_last_places(tolerance: Tolerance) -> bool:
    """Return whether a bound counts errors in units of the output's dtype."""
    every = (*tolerance.bounds, *(bound for bounds in tolerance.alternatives for bound in bounds))
    return any("ulp" in bound.metric for bound in every)


def _measured_bounds(tolerance: Tolerance, measured: Comparison) -> Tolerance:
    """Return a tolerance without bounds on metrics of analyzers and benchmarks, which only a run computes."""
    known = [[each for each in bounds if each.metric in measured.metrics] for bounds in tolerance.alternatives]
    return replace(
        tolerance,
        bounds=tuple(each for each in tolerance.bounds if each.metric in measured.metrics),
        alternatives=tuple(tuple(each) for each in known if each),
    )


class AcceptedAllowance:
    """The mean absolute errors that a case's baseline accepted, by output: a regressed case exceeds them."""

    def __init__(self, accepted: Mapping[str, float]) -> None:
        self._limits = {name: error * _GROWTH for name, error in accepted.items()}

    def broken_outputs(self, actual: Arrays, expected: Arrays) -> list[str]:
        """Return the outputs whose errors grew, the one that grew most first."""
        ratios = self._ratios(actual, expected)
        return sorted((name for name in ratios if ratios[name] > 1), key=lambda name: -ratios[name])

    def breaks(self, actual: Arrays, expected: Arrays) -> bool:
        """Return whether the error of an output grew."""
        return bool(self.broken_outputs(actual, expected))

    def factor(self, actual: Arrays, expected: Arrays, _precision: float = _PRECISION) -> float:
        """Return the largest growth over the limit of the baseline."""
        return max(self._ratios(actual, expected).values(), default=0.0)

    def _ratios(self, actual: Arrays, expected: Arrays) -> dict[str, float]:
        return {
            name: _ratio(_mean_error(actual[name], expected[name]), limit)
            for name, limit in self._limits.items()
            if name in actual and name in expected
        }


def _ratio(error: float, limit: float) -> float:
    return error / limit if limit > 0 else (inf if error > 0 else 0.0)


def _mean_error(actual: NDArray[Any], expected: NDArray[Any]) -> float:
    if actual.shape != expected.shape:
        return inf
    # As a comparison measures it: pairs that are not finite do not count.
    return compare_arrays(actual, expected, rtol=0.0, atol=0.0).metrics.get("mean_abs_error", inf)


def _divided(actual: NDArray[Any], expected: NDArray[Any], by: float) -> NDArray[Any]:
    if actual.dtype.kind in "biu" or actual.shape != expected.shape:
        return actual
    wide = np.result_type(expected.dtype, np.float64)
    with np.errstate(all="ignore"):
        shrunk = expected + (actual.astype(wide) - expected) / by
        return np.where(np.isfinite(shrunk), shrunk, actual.astype(wide))


def _are_equal(actual: NDArray[Any], expected: NDArray[Any]) -> bool:
    return actual.shape == expected.shape and bool(
        np.all((actual == expected) | ((actual != actual) & (expected != expected)))
    )
