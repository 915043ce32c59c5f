"""How do all reports show the significant digits of stochastic cases?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from msgspec import UNSET

from precreg.types import (
    CaseResult,
    Comparison,
    ElementDigits,
    SignificantDigits,
    Stochastic,
    format_number,
    unravel_index,
)

COLUMNS = ("case", "output", "fewest digits", "median", "fewer than 1", "samples", "noise")

# Of the name of a property in JUnit XML.
_MIN, _MEDIAN = "min_significant_digits", "median_significant_digits"


class OutputDigits(NamedTuple):
    """The digits of one output over all seeds: fewest, median over the seeds, and the element with the fewest."""

    output: str
    settings: Stochastic
    fewest: float | None
    median: float | None
    # Elements of all seeds with less than one digit, elements with digits, and elements that are not finite.
    without: int
    elements: int
    non_finite: int
    worst: ElementDigits | None
    seed: int
    shape: tuple[int, ...]


def output_digits(result: CaseResult) -> list[OutputDigits]:
    """Return the digits of each output that has some, in the order of the subject's outputs."""
    if not any(outline.has_digits for outline in result.outcome.outlines):
        return []
    by_output: dict[str, list[tuple[Comparison, SignificantDigits]]] = {}
    for comparison in result.outcome.comparisons:
        if comparison.digits is not UNSET:
            by_output.setdefault(comparison.output, []).append((comparison, comparison.digits))
    return [_joined(name, found) for name, found in by_output.items()]


def _joined(name: str, found: Sequence[tuple[Comparison, SignificantDigits]]) -> OutputDigits:
    named = [(each.worst[0], comparison.seed) for comparison, each in found if each.worst]
    worst, seed = min(named, key=lambda pair: pair[0].digits, default=(None, 0))
    medians = [comparison.metrics[_MEDIAN] for comparison, _ in found if _MEDIAN in comparison.metrics]
    fewest = [comparison.metrics[_MIN] for comparison, _ in found if _MIN in comparison.metrics]
    return OutputDigits(
        name,
        found[0][1].settings,
        min(fewest, default=None),
        median(medians) if medians else None,
        sum(each.counts[0] for _, each in found if each.counts),
        sum(sum(each.counts) for _, each in found),
        sum(each.non_finite for _, each in found),
        worst,
        seed,
        found[0][0].shape,
    )


def describe_digits(result: CaseResult) -> list[str]:
    """Return the lines for each output with digits: the digits, their statement, and the worst element."""
    return [line for each in output_digits(result) for line in _describe(each)]


def _describe(each: OutputDigits) -> Iterator[str]:
    if each.fewest is None or each.median is None:
        yield f"digits    {each.output}: no element is finite in all samples"
    else:
        digits = f"at least {format_number(each.fewest, 3)} significant digits, median {format_number(each.median, 3)}"
        yield f"digits    {each.output}: {digits}"
    yield f"          {describe_settings(each.settings)}"
    if each.worst is not None:
        place = f" at {unravel_index(each.worst.index, each.shape)}" if each.shape else ""
        yield f"          fewest{place}, seed {each.seed}: {_format_range(each.worst)}"
    if each.non_finite:
        yield f"          NaN or infinity in some sample: {each.non_finite} elements"


def _format_range(worst: ElementDigits) -> str:
    return "no sample is finite" if worst.least is None else f"samples from {worst.least!r} to {worst.largest!r}"


def describe_settings(settings: Stochastic) -> str:
    """Write the statement that the digits make: probability, confidence, samples, noise and formula."""
    noise = "random rounding" if settings.noise == "rounding" else "moved last bits of the inputs"
    errors = "normal errors" if settings.method == "normal" else "errors of any distribution"
    centre = "their mean" if settings.against == "mean" else "the oracle"
    unit = "" if settings.error == "relative" else ", absolute"
    chance = f"probability {settings.probability:g}, confidence {settings.confidence:g}"
    return f"{chance}; {settings.samples} samples of {noise}; {errors} around {centre}{unit}"


def chinese_digits(result: CaseResult) -> list[str]:
    """Return the lines of `describe_digits` in Chinese."""
    return [line for each in output_digits(result) for line in _describe_in_chinese(each)]


def _describe_in_chinese(each: OutputDigits) -> Iterator[str]:
    if each.fewest is None or each.median is None:
        yield f"{each.output}：没有元素在全部样本中都有限"
    else:
        digits = f"至少 {format_number(each.fewest, 3)} 位有效数字，中位数 {format_number(each.median, 3)}"
        yield f"{each.output}：{digits}"
    settings = each.settings
    noise = "随机舍入" if settings.noise == "rounding" else "移动输入的末位"
    errors = "正态误差" if settings.method == "normal" else "任意分布的误差"
    centre = "样本均值" if settings.against == "mean" else "参考值"
    unit = "" if settings.error == "relative" else "，绝对误差"
    chance = f"概率 {settings.probability:g}，置信度 {settings.confidence:g}"
    yield f"{chance}；{settings.samples} 个样本，{noise}；{errors}，以{centre}为中心{unit}"
    if each.worst is not None:
        worst = each.worst
        place = f"，位于 {unravel_index(worst.index, each.shape)}" if each.shape else ""
        values = "没有有限的样本" if worst.least is None else f"样本从 {worst.least!r} 到 {worst.largest!r}"
        yield f"位数最少{place}，种子 {each.seed}：{values}"
    if each.non_finite:
        yield f"某些样本中为 NaN 或无穷大：{each.non_finite} 个元素"


def digits_rows(results: Sequence[CaseResult]) -> list[list[str]]:
    """Return a row of COLUMNS for each output with digits, those with the fewest digits first."""
    found = [(result.id, each) for result in results for each in output_digits(result)]
    found.sort(key=lambda pair: -1.0 if pair[1].fewest is None else pair[1].fewest)
    return [
        [
            case,
            each.output,
            "" if each.fewest is None else format_number(each.fewest, 3),
            "" if each.median is None else format_number(each.median, 3),
            f"{each.without} of {each.elements}",
            str(each.settings.samples),
            each.settings.noise,
        ]
        for case, each in found
    ]


def digits_properties(result: CaseResult) -> list[tuple[str, str]]:
    """Return the digits of a case as names and values of properties."""
    return [
        (f"precreg.{name}.{each.output}", format_number(value, 6))
        for each in output_digits(result)
        for name, value in ((_MIN, each.fewest), (_MEDIAN, each.median))
        if value is not None
    ]
