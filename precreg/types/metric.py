"""Which facts about a metric do rules, reports and baselines read, and how are numbers written?

`Metric` has all of them. Records and baselines store five of its fields for each metric of an analyzer, as a
`MetricDescription`; `described_metric` derives the others, so that a reader needs no analyzer. Numbers are short, and
two different numbers never become the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from sys import float_info
from typing import Literal, NamedTuple

from msgspec import Struct

# 17 significant digits distinguish any two float64 numbers.
MAX_DIGITS = 17
# Match ratios and other shares near 1 lose in their last digits: one of a million elements is 1e-6.
SHARE_DIGITS = 7


def format_number(value: float, digits: int = 4) -> str:
    """Write a number with `digits` significant digits, or more if its integer part below a million has more."""
    size = abs(value)
    if 1 <= size < 1e6:
        digits = max(digits, len(str(round(size))))
    return f"{value:.{digits}g}"


def format_distinct(values: Sequence[float | None], digits: int = 4) -> list[str]:
    """Write numbers with as many digits as make different numbers different texts; None as an empty text."""
    distinct = {value for value in values if value is not None}
    while len(distinct) > 1 and digits < MAX_DIGITS:
        if len({format_number(value, digits) for value in distinct}) == len(distinct):
            break
        digits += 1
    return ["" if value is None else format_number(value, digits) for value in values]


def format_duration(seconds: float) -> str:
    """Write a time in minutes, seconds, milliseconds or microseconds, whichever suits its size."""
    if seconds >= 120:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    if seconds >= 0.1 or seconds == 0:
        return f"{format_number(seconds, 3)} s"
    if seconds >= 1e-4:
        return f"{format_number(seconds * 1e3, 3)} ms"
    return f"{format_number(seconds * 1e6, 3)} µs"


Direction = Literal["lower", "higher"]

# Errors in the output's unit, errors relative to the reference, errors in ULP, shares of the elements, and the others.
Family = Literal["absolute", "relative", "ulp", "share", "statistic"]

# "signed mean" is a difference of large sums. "maximum" is the error of one element, which a comparison names.
Aggregate = Literal["mean", "signed mean", "maximum", "percentile", "other"]

# How a value maps to a size of error: as it is, by its absolute value, as 2^value, 10^(-value / 20), 2^-value or
# 10^-value.
Scale = Literal["linear", "signed", "log2", "dB", "bit", "digit"]

# The sums of AxisGroups; "" where groups have no sum for a metric.
GroupSum = Literal["", "absolute", "signed", "outward", "squared", "ulps", "squared_ulps", "logs"]

# Reports that show a few metrics only: bars of errors, the page of a picture, the table of pairs, and the terminal.
View = Literal["bars", "picture", "pairs", "terminal"]


class MetricRange(NamedTuple):
    """The limits that a bound on a metric may have, and the words of the message for any other limit."""

    least: float
    greatest: float
    words: str


ANY_FINITE = MetricRange(-float_info.max, float_info.max, "a finite number")
NOT_NEGATIVE = MetricRange(0.0, float_info.max, "a finite number that is not negative")
SHARE_RANGE = MetricRange(0.0, 1.0, "a share from 0 to 1")


class MetricDescription(NamedTuple):
    """The stored description of an analyzer's metric; records and baselines hold it as an array of five texts."""

    name: str
    unit: str
    formula: str
    better: Direction
    source: str


class Metric(Struct, frozen=True):
    """One figure of a Comparison. In formulas a is the actual value and r the reference.

    An analyzer declares the first five fields and leaves the others at their defaults.
    """

    # Letters, digits and _ - .
    name: str
    # "value" (the output's own unit), "value^2", "ULP", "log2 ULP", "dB", "bit", "digit" (decimal), "1" (a ratio), or
    # "benchmark" (a multiple of a benchmark's figure). Analyzers may have other units.
    unit: str
    formula: str
    better: Direction
    source: str
    family: Family = "statistic"
    aggregate: Aggregate = "other"
    range: MetricRange = NOT_NEGATIVE
    # Growth against the baseline that the shipped tolerances allow (3.0: up to 4 times); None where they judge none.
    default_growth: float | None = None
    # Baselines and histories keep the metric, so that a tolerance may judge its growth.
    kept: bool = False
    # The drift monitor judges the metric.
    judged: bool = False
    # The group sums of the average, and the power of their ratio: statistics judge an average that has sums.
    sums: GroupSum = ""
    power: float = 1.0
    # No few elements make the average, so that the baseline's own errors show how much fresh inputs move it.
    stable: bool = False
    # So few elements make the average that statistics judge it by the ratio of a typical group.
    by_groups: bool = False
    # How many times the usual growth in ULP another environment explains in a wide format.
    environment_factor: int = 1
    # Absent unless a second implementation, the benchmark, was compared with the same reference.
    needs_benchmark: bool = False
    # Absent unless the case has samples under random noise.
    needs_samples: bool = False
    # The metric whose ratio to the benchmark's this is; a floored one divides by at least a floor.
    ratio_of: str = ""
    floored: bool = False
    # The formula has constants of Regions, so that the meaning depends on the output dtype.
    by_region: bool = False
    # The metric may have its best value for 2r in place of r, so that a bound on it alone admits wrong results.
    blind: bool = False
    # Calibration has no size of error for the metric, and proposes no limit.
    sizeless: bool = False
    views: tuple[View, ...] = ()
    # The value from the other metrics of a comparison, by name; None where it is not defined. A metric without a
    # function is measured. Derived metrics are computed in the order of the table.
    derive: Callable[[Mapping[str, float]], float | None] | None = None

    @property
    def maximum(self) -> bool:
        """Return True if one element, the worst, decides the metric."""
        return self.aggregate == "maximum"

    @property
    def is_relative_ratio(self) -> bool:
        """Return True if the metric is |error| / |reference| for every dtype, and not in decibels or bits."""
        return self.family == "relative" and self.scale == "linear" and not self.by_region

    @property
    def scale(self) -> Scale:
        """Return how a value maps to a size of error."""
        return "signed" if self.aggregate == "signed mean" else _SCALES.get(self.unit, "linear")

    @property
    def description(self) -> MetricDescription:
        """Return the fields that records and baselines store."""
        return MetricDescription(self.name, self.unit, self.formula, self.better, self.source)


_SCALES: dict[str, Scale] = {"log2 ULP": "log2", "dB": "dB", "bit": "bit", "digit": "digit"}


def described_metric(description: MetricDescription) -> Metric:
    """Return an analyzer's metric with the facts that follow from its description."""
    return Metric(
        *description,
        # Analyzers declare no family. Growth of a relative error has the rounding floor of one, so the name decides.
        family="relative" if "rel_error" in description.name else "statistic",
        range=ANY_FINITE,
        kept=True,
        # Drift needs the best value: 0 where less is better, 1 for a share. A gain in decibels has none.
        judged=description.better == "lower" or description.unit == "1",
    )


def find_description(name: str, described: Iterable[MetricDescription]) -> MetricDescription:
    """Return the description of a metric by its name; an undescribed metric is better where it is lower."""
    found = (description for description in described if description.name == name)
    return next(found, None) or MetricDescription(name, "1", "not described", "lower", "")
