"""Bounds on one scale: a loss is a size of error, at least 0, of which less is better and twice is twice as bad."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from math import ceil, floor, inf, log2, log10, prod

from msgspec import Struct

from precreg.arithmetic import exact_ulp, format_of
from precreg.measure import METRICS
from precreg.types import Comparison, Metric

ELEMENTS_BOUND = "elements"
"""The bound that every element matches; its loss is the largest |d| / (atol + rtol |r|)."""


LIMIT_DIGITS = 2
"""Significant digits of what is proposed."""


def metric_loss(metric: Metric, value: float) -> float | None:
    """Return the loss that a metric's value, or a limit on it, stands for; None for one that has no such scale.

    A bias counts by its size, a share or a cosine that should be 1 by what it lacks, decibels as 10^(-dB / 20), bits
    as 2^-bits, a mean log2 ULP as 2^value.
    """
    if metric.scale == "log2":
        return float(2.0**value) if value < 1000 else inf
    if metric.scale == "dB":
        return float(10 ** (-value / 20)) if value > -6000 else inf
    if metric.scale == "bit":
        return float(2.0**-value) if value > -1000 else inf
    # Analyzers do not declare the best value of a metric.
    if metric.name not in METRICS or metric.sizeless:
        return None
    return max(1 - value, 0.0) if metric.better == "higher" else abs(value)


def limit_for_loss(metric: Metric, size: float) -> float | None:
    """Return the limit on a metric that stands for a loss, rounded so that it admits that loss: logarithms to a tenth.

    None where it would admit everything: a share of 1, and what is not finite.
    """
    if metric.scale == "log2":
        return ceil(10 * log2(size)) / 10
    if metric.scale == "dB":
        return floor(-200 * log10(size)) / 10
    if metric.scale == "bit":
        return floor(-10 * log2(size)) / 10
    upward = round_limit(size, up=True)
    if metric.better == "higher":
        return float(1 - Decimal(repr(upward))) if upward < 1 else None
    bounded = metric.unit == "1" and metric.family != "relative"
    return None if upward == inf or (bounded and upward >= 1) else upward


def round_limit(value: float, *, up: bool) -> float:
    """Round a number up or down to DIGITS significant digits; what is not finite, and 0, stay.

    What is so short but for the rounding of a product stays as short.
    """
    if value in (inf, -inf, 0) or value != value:
        return value
    exact = Decimal(f"{value:.13g}")
    quantum = Decimal(1).scaleb(exact.adjusted() - LIMIT_DIGITS + 1)
    return float(exact.quantize(quantum, ROUND_CEILING if up else ROUND_FLOOR))


class RoundingFloor(Struct, frozen=True):
    """What rounding to the output dtype alone costs: half an ULP at the largest |r| and on average, and the roundoff.

    Integers and truth values have none of the last, and an ULP of 1. `element` is the share that one element is.
    """

    largest: float
    mean: float
    unit_roundoff: float
    element: float

    def loss(self, metric: Metric) -> float:
        """Return the loss that rounding alone may have by a metric, one element by a share of them.

        0 by metrics of which nothing is known beforehand.
        """
        if metric.scale == "signed" or metric.name not in METRICS:
            return 0.0
        if metric.name in ("cosine", "cosine_distance"):
            return self.unit_roundoff**2
        if metric.family == "relative":
            return self.unit_roundoff
        if metric.unit == "value":
            return self.largest if metric.aggregate in ("maximum", "percentile") else self.mean
        if metric.family == "share":
            return self.element
        return {"value^2": self.mean**2, "ULP": 0.5, "log2 ULP": 0.75}.get(metric.unit, 0.0)

    def share(self, rtol: float, atol: float, magnitude: float) -> float:
        """Return the share of a tolerance that rounding takes at most, of elements up to `magnitude` that are normal.

        That is u |r| / (atol + rtol |r|) at the largest of them; of integers half a unit.
        """
        allowed = atol + rtol * magnitude
        rounding = self.unit_roundoff * magnitude if self.unit_roundoff else self.largest
        return rounding / allowed if allowed else 0.0


def output_rounding_floor(comparison: Comparison) -> RoundingFloor:
    """Return the floor of one output at one seed."""
    number_format, element = format_of(comparison.dtype), 1 / max(prod(comparison.shape), 1)
    if number_format is None:
        return RoundingFloor(0.5, 0.5, 0.0, element)
    largest = comparison.metrics.get("max_magnitude", 0.0)
    half = float(exact_ulp(Fraction(largest), number_format)) / 2
    return RoundingFloor(half, comparison.metrics.get("ulp_scale", 0.0) / 2, number_format.unit_roundoff, element)
