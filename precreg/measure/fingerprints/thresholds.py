"""Which numbers decide that an error has a shape, and why these?"""

from __future__ import annotations

from typing import NamedTuple


class Threshold(NamedTuple):
    """Hold a number that a detector compares a figure with, and the reason for that number."""

    value: float
    why: str


# All thresholds in one table, which docs/compare-advice.md shows; a test compares both.
FINGERPRINT_THRESHOLDS: dict[str, Threshold] = {
    "sample": Threshold(2**18, "elements beyond which an even sample is taken, so that no output takes a second"),
    "elements": Threshold(16, "elements below which a share is not evidence"),
    "few": Threshold(4, "equal elements, such as ties or saturated ones, that are no coincidence"),
    "share": Threshold(0.9, "share of the squared errors that a shape explains; truncation explains 0.75 as a factor"),
    "part": Threshold(0.5, "share of the squared errors that lie at a place or at a value"),
    "ulps": Threshold(2, "a factor or offset below it is hidden by the rounding of the output"),
    "spread": Threshold(0.25, "relative distance from a common factor or offset within which an error has it"),
    "per_group": Threshold(8, "elements a group below which a factor for each row explains noise as well"),
    "times": Threshold(8, "error of a place over the median place, absolute and relative: noise gives up to 3"),
    "filled": Threshold(0.5, "share of the elements of a place that are wrong: a single outlier is not a place"),
    "one_sign": Threshold(0.9, "share of errors with one sign, of 32 or more: 29 of 32 by coin is 1 in 780,000"),
    "one_sign_elements": Threshold(32, "errors below which one sign is random"),
    "correlation": Threshold(0.5, "correlation of neighbouring errors beyond which a common sign is one event"),
    "growth": Threshold(2, "error of the last quarter of an axis over the first quarter's, absolute and relative"),
    "rank_correlation": Threshold(0.9, "Spearman's, over 16 parts of an axis: p is below 1e-5"),
    "on_grid": Threshold(0.99, "share of the elements on a grid: a quarter lies on a grid with 2 bits less by chance"),
    "lost_bits": Threshold(2, "bits that a grid has less than the dtype"),
    "double_rounding": Threshold(8, "bits beyond the output's, above which a second rounding is usual and harmless"),
    "p50_least": Threshold(0.3, "p50 of the relative error / unit roundoff: rounding to nearest gives about 0.35"),
    "p50_most": Threshold(0.4, "with p99_least, errors spread evenly up to the roundoff are no conversion"),
    "p99_least": Threshold(0.8, "p99 of the relative error / unit roundoff: rounding to nearest gives about 0.88"),
    "p999_most": Threshold(1.02, "p99.9 of the relative error / unit roundoff: no rounding to nearest is beyond 1"),
}


def threshold(name: str) -> float:
    """Return the value of a threshold."""
    return FINGERPRINT_THRESHOLDS[name].value
