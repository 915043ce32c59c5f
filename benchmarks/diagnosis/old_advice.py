"""Which advice did `precreg compare` print before fingerprints: at most three likely causes, by averages alone?

These are the rules of that version, unchanged, so that its score can be measured again beside a diagnosis.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf, isnan
from typing import NamedTuple

from precreg.arithmetic import format_of
from precreg.types import AxisGroups, Comparison, Positions, Scalar, format_number

# More causes than this are guesses.
MAX_ADVICE = 3


class Threshold(NamedTuple):
    """Hold a number that a rule compares a fact with, and the reason for that number."""

    value: float
    why: str


# All thresholds in one table.
ADVICE_THRESHOLDS: dict[str, Threshold] = {
    "rounded": Threshold(0.5, "max_ulp up to here: every element is correctly rounded, and there is nothing to advise"),
    "enough": Threshold(100, "finite pairs below which no share, percentile or correlation is taken for a cause"),
    "named": Threshold(32, "worst positions below which their direction is random: 29 of 32 by coin is 1 in 780,000"),
    "zeros": Threshold(0.5, "share of the worst positions with actual 0: rounding gives 0 to small references alone"),
    "zeros_least": Threshold(2, "a single zero may be random"),
    "tail": Threshold(10, "mean error from an index on to the end, against any group before: a jump, not a slope"),
    "tail_elements": Threshold(16, "(sum of errors)^2 / sum of squares: a single outlier counts as 1"),
    "factor": Threshold(0.9, "mean_rel_error / max_rel_error: rounding errors give about 0.35"),
    "hop_least_p50": Threshold(0.3, "p50_rel_error / unit roundoff: rounding to nearest gives about 0.35"),
    "hop_most_p50": Threshold(0.4, "with hop_least_p99, errors spread evenly up to the roundoff are no conversion"),
    "hop_least_p99": Threshold(0.8, "p99_rel_error / unit roundoff: rounding to nearest gives about 0.88"),
    "hop_most_p99.9": Threshold(1.02, "no rounding to nearest is beyond 1; percentiles are rounded up by 1/128"),
    "one_way": Threshold(0.9, "share of the worst positions nearer to 0 than the reference, and one_sidedness"),
    "correlation": Threshold(0.7, "the published rule for error_magnitude_correlation, which is not always right"),
    "accumulated": Threshold(1, "mean_ulp below which the output's own rounding explains errors that grow with it"),
    "near_zero": Threshold(100, "max_rel_error, times p50_rel_error and times max_abs_error / mean_magnitude"),
    "small_error": Threshold(0.01, "max_abs_error / mean_magnitude beyond which errors are large wherever they are"),
}
# Formats that a copy may pass through, widest first, with their names; tf32 has the precision of float16.
_NARROW_FORMATS = (
    ("float32", "float32"),
    ("float16", "float16 or tf32"),
    ("bfloat16", "bfloat16"),
    ("float8_e4m3fn", "float8_e4m3"),
    ("float8_e5m2", "float8_e5m2"),
)


def advise_comparison(comparison: Comparison) -> list[str]:
    """Return at most three likely causes, the surest first; none if every element is correctly rounded."""
    return list(_sentences(comparison))[:MAX_ADVICE]


def _sentences(comparison: Comparison) -> Iterator[str]:
    """Yield the sentence of every rule that applies; a rule that explains all errors silences the weaker ones."""
    # A boolean is equal or not: no rule on sizes of errors applies.
    if comparison.dtype == "bool":
        return
    counts = comparison.counts
    if counts.get("nan_mismatched") or counts.get("inf_mismatched"):
        yield from filter(None, (_nan(comparison), _overflow(comparison), _saturation(comparison)))
    # Every element is correctly rounded, so rounding explains any pattern in the errors.
    if comparison.metrics.get("max_ulp", 0.0) <= _value("rounded"):
        return
    yield from filter(None, (_flush(comparison), tail := _tail(comparison)))
    # In order of certainty: a rule that explains the size of all errors silences the later ones.
    cause = _zeros(comparison) or _factor(comparison) or _narrow_format(comparison)
    if cause:
        yield cause
    elif not tail:
        leaning = [text for text in (_one_way(comparison), _growth(comparison)) if text]
        yield from leaning or filter(None, [_near_zero(comparison)])


def _value(name: str) -> float:
    return ADVICE_THRESHOLDS[name].value


def _nan(comparison: Comparison) -> str:
    # The named positions alone: counts have no sides, and only named positions show which side is NaN.
    pairs = [(a, r) for a, r in _pairs(comparison.non_finite) if isnan(a) != isnan(r)]
    ours = sum(isnan(a) for a, _ in pairs)
    if not pairs:
        return ""
    facts = f"{comparison.counts.get('nan_mismatched', 0):,} elements are NaN on one side"
    if ours:
        return f"{facts}, in the actual at {_of(ours, pairs)}: look for 0/0, inf - inf, or memory that nobody wrote"
    return f"{facts}, in the reference at {_of(len(pairs), pairs)}: look for a maximum, minimum or sum that skips NaN"


def _of(number: int, pairs: list[tuple[float, float]]) -> str:
    return f"{number:,} of {len(pairs):,} that are named"


def _overflow(comparison: Comparison) -> str:
    pairs = _infinite(comparison)
    number = sum(isinf(a) for a, _ in pairs)
    if not number:
        return ""
    facts = f"the actual alone is infinite, or with the wrong sign, at {_of(number, pairs)}"
    return f"{facts}: look for a partial result beyond the largest {comparison.dtype}; scale, or widen the accumulator"


def _saturation(comparison: Comparison) -> str:
    format = format_of(comparison.dtype)
    if format is None:
        return ""
    pairs = _infinite(comparison)
    number = sum(abs(a) == format.largest for a, _ in pairs)
    if not number:
        return ""
    facts = f"the actual is {format_number(format.largest)}, the largest {comparison.dtype}, at {_of(number, pairs)}"
    return f"{facts} where the reference is beyond it: look for arithmetic that saturates in place of infinity"


def _infinite(comparison: Comparison) -> list[tuple[float, float]]:
    """Return the named pairs without NaN that have an infinity on one side, or infinities of different sign."""
    return [(a, r) for a, r in _pairs(comparison.non_finite) if not isnan(a) and not isnan(r)]


def _flush(comparison: Comparison) -> str:
    flushed, kept = (comparison.counts.get(name, 0) for name in ("flushed_subnormals", "actual_subnormals"))
    # A device without subnormals keeps none; some zeros alone may be correct rounding.
    if flushed <= kept:
        return ""
    facts = f"{flushed:,} results are 0 where the reference is subnormal in {comparison.dtype}, and {kept:,} are not"
    return f"{facts}: look for flush to zero"


def _zeros(comparison: Comparison) -> str:
    """Find results of 0 among the worst positions, because no count has them.

    A reference that is subnormal may have been flushed, which is the rule of `_flush`.
    """
    format = format_of(comparison.dtype)
    # Integers have no subnormals, and their smallest magnitude above 0 is 1.
    least = format.smallest_normal if format else 1.0
    pairs = _pairs(comparison.worst)
    number = sum(a == 0 and abs(r) >= least for a, r in pairs)
    if number < _value("zeros_least") or number < _value("zeros") * len(pairs):
        return ""
    facts = f"{number:,} of the {len(pairs):,} worst positions are 0 where the reference is not"
    return f"{facts}: look for results that were never written"


def _tail(comparison: Comparison) -> str:
    for axis, groups in enumerate(comparison.groups):
        length = comparison.shape[axis]
        start, times = _tail_of(groups)
        if start:
            index = start * length // len(groups.n)
            facts = f"errors along axis {axis} are {times} from index {index:,} to the end ({length:,})"
            return f"{facts}: look at how the last block, which may not be full, is read and written"
    return ""


def _tail_of(groups: AxisGroups) -> tuple[int, str]:
    """Return the group where the tail begins, 0 for none, and the growth of its errors over those before.

    An axis of less than 16 elements has no blocks, and a tail is at most its second half.
    """
    count = len(groups.n)
    absolute, squared = _known(groups.absolute), _known(groups.squared)
    # Groups without a finite pair, or with a sum beyond float64, have no mean to compare.
    if count < 16 or len(absolute) < count or len(squared) < count or 0 in groups.n:
        return 0, ""
    means = [total / n for total, n in zip(absolute, groups.n, strict=True)]
    # From the shortest tail: the last block is what may be partly filled.
    for start in range(count - 1, count // 2 - 1, -1):
        before, after = max(means[:start]), min(means[start:])
        elements = _elements(sum(absolute[start:]), sum(squared[start:]))
        if after > 0 and after >= _value("tail") * before and elements >= _value("tail_elements"):
            return start, f"{format_number(after / before, 3)} times those before" if before else "the only ones"
    return 0, ""


def _elements(total: float, squares: float) -> float:
    """Return the number of equal errors that have this sum and this sum of squares."""
    # Dividing first: the square of a large sum may overflow.
    return total * (total / squares) if squares > 0 else 0.0


def _known(sums: list[float | None]) -> list[float]:
    return [number for number in sums if number is not None]


def _factor(comparison: Comparison) -> str:
    mean, most = (comparison.metrics.get(name) for name in ("mean_rel_error", "max_rel_error"))
    if mean is None or not most or mean < _value("factor") * most or not _enough(comparison):
        return ""
    facts = f"nearly all relative errors are the same, mean {format_number(mean)} of at most {format_number(most)}"
    return f"{facts}: look for a wrong factor or constant"


def _narrow_format(comparison: Comparison) -> str:
    """Find a narrower format that the values passed through, by percentiles of the relative errors.

    Subnormals of the narrower format would distort a mean, and its overflow a maximum.
    """
    format = format_of(comparison.dtype)
    names = ("p50_rel_error", "p99_rel_error", "p99.9_rel_error")
    found = [comparison.metrics[name] for name in names if name in comparison.metrics]
    if format is None or len(found) < len(names) or not _enough(comparison):
        return ""
    for name, called in _NARROW_FORMATS:
        narrow = format_of(name)
        # A format of the same or a higher precision cannot have added the error.
        if narrow and narrow.precision < format.precision and _is_rounding(found, narrow.unit_roundoff):
            quantiles = f"p50 {format_number(found[0])}, p99 {format_number(found[1])}"
            facts = f"relative errors are those of rounding to {called}: {quantiles}"
            return f"{facts}, unit roundoff 2^-{narrow.precision}: look for a copy or a conversion through it"
    return ""


def _is_rounding(found: list[float], unit: float) -> bool:
    p50, p99, p999 = (error / unit for error in found)
    median = _value("hop_least_p50") <= p50 <= _value("hop_most_p50")
    return median and p99 >= _value("hop_least_p99") and p999 <= _value("hop_most_p99.9")


def _one_way(comparison: Comparison) -> str:
    # No value is nearer to 0 than 0, so references of 0 would count against the rule.
    pairs = [(a, r) for a, r in _pairs(comparison.worst) if r]
    smaller = sum(abs(a) < abs(r) for a, r in pairs)
    look = "look for truncation in place of rounding, or for terms that are lost"
    if len(pairs) >= _value("named") and smaller >= _value("one_way") * len(pairs):
        return f"{smaller:,} of the {len(pairs):,} worst positions are nearer to 0 than the reference: {look}"
    if comparison.metrics.get("one_sidedness", 0.0) < _value("one_way"):
        return ""
    above, below = comparison.counts.get("above", 0), comparison.counts.get("below", 0)
    bias = format_number(comparison.metrics.get("bias", 0.0))
    facts = f"errors have one sign, {above:,} above the reference and {below:,} below, bias {bias}"
    return f"{facts}: look for a rounding to one side, or for a wrong constant"


def _growth(comparison: Comparison) -> str:
    correlation = comparison.metrics.get("error_magnitude_correlation", 0.0)
    mean = comparison.metrics.get("mean_ulp", 0.0)
    # Below the threshold on mean_ulp the output's own rounding grows with |value|, so every correct result would
    # correlate.
    if correlation <= _value("correlation") or mean < _value("accumulated") or not _enough(comparison):
        return ""
    facts = f"errors grow with |value|, correlation {format_number(correlation, 3)}, mean {format_number(mean, 3)} ULP"
    rule = "a published rule, which is only a rule, says accumulated rounding"
    return f"{facts}: {rule}; change the order, or widen the accumulator"


def _near_zero(comparison: Comparison) -> str:
    """Find relative errors that are large only because the reference is near 0.

    At the largest relative error, |r| is at most max_abs_error / max_rel_error.
    """
    names = ("max_rel_error", "p50_rel_error", "max_abs_error", "mean_magnitude")
    most, median, absolute, magnitude = (comparison.metrics.get(name, 0.0) for name in names)
    # Errors that are large everywhere are no matter of small references.
    if not all((most, absolute, magnitude)) or absolute > _value("small_error") * magnitude or not _enough(comparison):
        return ""
    if most < _value("near_zero") * max(median, absolute / magnitude):
        return ""
    facts = f"max_rel_error {format_number(most)} is at a reference of at most {format_number(absolute / most)}"
    context = f"beside a mean_magnitude of {format_number(magnitude)} and a p50_rel_error of {format_number(median)}"
    return f"{facts}, {context}: judge values near 0 with atol (max_abs_error is {format_number(absolute)})"


def _enough(comparison: Comparison) -> bool:
    return comparison.counts.get("finite", 0) >= _value("enough")


def _pairs(positions: Positions | None) -> list[tuple[float, float]]:
    """Return actual and reference of the named positions that are real numbers, NaN and infinities included."""
    if positions is None:
        return []
    pairs = ((_number(a), _number(r)) for a, r in zip(positions.actual, positions.reference, strict=True))
    return [(a, r) for a, r in pairs if a is not None and r is not None]


def _number(scalar: Scalar) -> float | None:
    """Return a scalar as float64; None for a complex number or a long double, which a record stores as text."""
    try:
        return float(scalar)
    except (ValueError, OverflowError):
        return None
