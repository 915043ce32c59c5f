"""Which loss does a value of a metric, or a limit on it, mean?

A loss is a size of error of at least 0: less is better, and twice the loss is twice as bad. Ratios of a limit to the
noise are ratios of losses (docs/calibrate.md has the table).
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from math import ceil, floor, inf, log2, log10, prod

from msgspec import Struct

from precreg.arithmetic import exact_ulp, format_of
from precreg.measure import METRICS
from precreg.types import Comparison, Metric

# The bound that every element matches; its loss is the largest |d| / (atol + rtol |r|).
ELEMENTS_BOUND = "elements"

# Significant digits of a proposed limit: noise of some twenty runs supports no third one, and people read two.
LIMIT_DIGITS = 2


def metric_loss(metric: Metric, value: float) -> float | None:
    """Return the loss of a metric's value, or of a limit on it; None if the metric has no scale of losses.

    The loss of a bias is its size, and the loss of a share or a cosine that should be 1 is the difference from 1.
    Decibels give 10^(-dB / 20), bits 2^-bits, digits 10^-digits, and a mean log2 ULP 2^value.
    """
    # Beyond the limits below, powers overflow float64, which has about 308 decades and 1023 doublings.
    if metric.scale == "log2":
        return float(2.0**value) if value < 1000 else inf
    if metric.scale == "dB":
        return float(10 ** (-value / 20)) if value > -6000 else inf
    if metric.scale == "bit":
        return float(2.0**-value) if value > -1000 else inf
    if metric.scale == "digit":
        return float(10**-value)
    # Analyzers do not declare the best value of a metric.
    if metric.name not in METRICS or metric.sizeless:
        return None
    return max(1 - value, 0.0) if metric.better == "higher" else abs(value)


def limit_for_loss(metric: Metric, size: float) -> float | None:
    """Return the limit on a metric that admits a loss, rounded to LIMIT_DIGITS digits, or logarithms to a tenth.

    None if it would admit everything: a share of 1 and an infinite limit.
    """
    # Rounding is towards the looser limit, or the loss itself would break the proposal.
    if metric.scale == "log2":
        return ceil(10 * log2(size)) / 10
    if metric.scale == "dB":
        return floor(-200 * log10(size)) / 10
    if metric.scale == "bit":
        return floor(-10 * log2(size)) / 10
    if metric.scale == "digit":
        return max(floor(-10 * log10(size)) / 10, 0.0)
    upward = round_limit(size, up=True)
    if metric.better == "higher":
        return float(1 - Decimal(repr(upward))) if upward < 1 else None
    bounded = metric.unit == "1" and metric.family != "relative"
    return None if upward == inf or (bounded and upward >= 1) else upward


def round_limit(value: float, *, up: bool) -> float:
    """Round a number up or down to LIMIT_DIGITS significant digits; 0, NaN and infinities stay."""
    if value in (inf, -inf, 0) or value != value:
        return value
    # 13 digits drop the rounding error of a product: 3 * 0.1 must give 0.3 and not 0.31.
    exact = Decimal(f"{value:.13g}")
    quantum = Decimal(1).scaleb(exact.adjusted() - LIMIT_DIGITS + 1)
    return float(exact.quantize(quantum, ROUND_CEILING if up else ROUND_FLOOR))


class RoundingFloor(Struct, frozen=True):
    """Hold the losses of a result whose only error is the rounding to its dtype."""

    # Half an ULP at the largest |r|, and on average. Integers and booleans have an ULP of 1.
    largest: float
    mean: float
    # 0 for integers and booleans.
    unit_roundoff: float
    # The share of one element among all.
    element: float

    def loss(self, metric: Metric) -> float:
        """Return the loss by a metric from rounding alone, or from one element by a share of elements.

        0 for metrics whose rounding is not known beforehand.
        """
        if metric.scale == "signed" or metric.name not in METRICS:
            return 0.0
        if metric.name in ("cosine", "cosine_distance"):
            # A relative error e turns a vector by an angle of at most e, whose cosine is 1 - e^2 / 2.
            return self.unit_roundoff**2
        if metric.family == "relative":
            return self.unit_roundoff
        if metric.unit == "value":
            return self.largest if metric.aggregate in ("maximum", "percentile") else self.mean
        if metric.family == "share":
            return self.element
        # Rounding to nearest has at most 0.5 ULP; a mean of log2(U + 1/4) then has a loss of at most 0.5 + 1/4.
        return {"value^2": self.mean**2, "ULP": 0.5, "log2 ULP": 0.75}.get(metric.unit, 0.0)

    def share(self, rtol: float, atol: float, magnitude: float) -> float:
        """Return the largest share of a tolerance that rounding takes: u |r| / (atol + rtol |r|), or half a unit.

        `magnitude` is the largest |r|, at which the share of normal elements is largest. Integers take half a unit.
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
