"""Which sentences describe the shape of an output's errors, each with what to check next?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from precreg.types import Comparison, Fingerprint, FingerprintKind, format_number

# More shapes than this are guesses.
MAX_FINGERPRINTS = 3
# A relative error this many times the median one, and the largest error over the mean size, is one near 0.
NEAR_ZERO_TIMES = 100
# Beyond this share of the mean size, errors are large wherever they are.
SMALL_ERROR = 0.01
# Finite pairs below which a percentile is not evidence.
MIN_PAIRS = 100

_ROUNDED = {
    "nearest_even": "rounded to nearest",
    "nearest_away": "rounded to nearest with ties away from zero",
    "toward_zero": "rounded toward zero",
    "away": "rounded away from zero",
    "up": "rounded up",
    "down": "rounded down",
}


def describe_fingerprints(fingerprints: Iterable[Fingerprint]) -> list[str]:
    """Return a sentence for each of the surest fingerprints: the facts with figures, and what to look for."""
    return [describe_fingerprint(one) for one in [*fingerprints][:MAX_FINGERPRINTS]]


def describe_fingerprint(fingerprint: Fingerprint) -> str:
    """Return the facts of a fingerprint with their figures, and what to look for."""
    facts, check = _WORDS[fingerprint.kind](_Figures(fingerprint))
    return f"{facts}: {check}"


class _Figures:
    """The figures of a fingerprint as words."""

    def __init__(self, fingerprint: Fingerprint) -> None:
        self.values = fingerprint.values
        # 100 % is kept for all of the errors.
        self.share = format_number(min(100 * fingerprint.certainty, 100.0), 3) + " %"

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def __getitem__(self, name: str) -> str:
        """Return a text as it is, a whole number with its thousands, and any other number in four digits."""
        value = self.values.get(name, 0.0)
        if isinstance(value, str):
            return value
        return f"{int(value):,}" if float(value).is_integer() and abs(value) < 1e9 else format_number(value, 4)

    def precise(self, name: str) -> str:
        value = self.values.get(name, 0.0)
        return value if isinstance(value, str) else format_number(value, 9)

    def number(self, name: str) -> float:
        value = self.values.get(name, 0.0)
        return 0.0 if isinstance(value, str) else float(value)

    @property
    def axis(self) -> str:
        return "the flat array" if self.number("axis") < 0 else f"axis {self['axis']}"


def _factor(f: _Figures) -> tuple[str, str]:
    if "axis" in f:
        facts = f"each row along {f.axis} has its own factor, from {f.precise('least')} to {f.precise('most')}"
        return facts, "look for a wrong variance, epsilon or scale of the rows"
    facts = f"nearly all results are {f.precise('factor')} times the exact ones"
    if "count" in f:
        count = int(f.number("count"))
        ratio = f"{count} / {count - 1}" if count > 0 else f"{-count - 1} / {-count}"
        return f"{facts}, which is {ratio}", "look for a count n in place of n - 1, or the reverse"
    return facts, "look for a wrong constant, an epsilon, or a scale that is applied twice or not at all"


def _offset(f: _Figures) -> tuple[str, str]:
    if "axis" in f:
        facts = f"each row along {f.axis} has its own offset, from {f['least']} to {f['most']}"
        return facts, "look for a wrong mean or maximum of the rows"
    offset = f.number("offset")
    facts = (
        f"nearly all results are {format_number(abs(offset), 4)} {'above' if offset > 0 else 'below'} the exact ones"
    )
    return facts, "look for a bias or zero point that is added twice or not at all"


def _channel(f: _Figures) -> tuple[str, str]:
    if "region" in f:
        place = f["region"]
    elif "indices" in f:
        place = f"the indices {f['indices']} of {f.axis}"
    elif "start" in f:
        place = f"the indices {f['start']} to {int(f.number('stop')) - 1:,} of {f.axis}"
    else:
        place = f"index {f['index']} of {f.axis}"
    return (
        f"{f.share} of the squared error is at {place}{_times(f)}",
        "look for data or code that this place alone uses",
    )


def _times(f: _Figures) -> str:
    return f", {format_number(f.number('ratio'), 3)} times the error of the other places" if "ratio" in f else ""


def _last_block(f: _Figures) -> tuple[str, str]:
    facts = f"{f.share} of the squared error is from index {f['start']} of {f.axis} to the end ({f['length']})"
    blocks = f", where the last block of {f['blocks']} begins" if "blocks" in f else ""
    return facts + blocks, "look at how the last block, which may not be full, is read and written"


def _checkerboard(f: _Figures) -> tuple[str, str]:
    if "axes" in f:
        place = f"every other element of the axes {f['axes']} together, where the sum of indices is odd"
        place = place if f.number("remainder") else place.replace("odd", "even")
        return f"{f.share} of the squared error, in {f['period']} parities, is at {place}", _LANES
    facts = f"{f.share} of the squared error is at every index {f['period']} k + {f['remainder']} of {f.axis}"
    return facts, _LANES


_LANES = "look for lanes, unrolled steps or buffers that take turns"


def _grid(f: _Figures) -> tuple[str, str]:
    formats = f["formats"].replace(", ", " or ") if "formats" in f else f["format"]
    rounded = _ROUNDED.get(f["rounding"], "but are not the exact ones rounded to it")
    if f["rounding"] == "of_a_factor":
        facts = f"the relative errors of {f.share} of the results fit rounding to {formats}"
        return facts, f"look for an input or a factor that passes through {formats}"
    if "step" in f and "fraction_bits" in f:
        facts = f"{f.share} of the results are multiples of {f['step']}, {rounded}"
        return facts, f"look for a fixed-point format with {f['fraction_bits']} fraction bits"
    if "step" in f:
        facts = f"{f.share} of the results are multiples of {f['step']}, at most {f['levels']} of them, {rounded}"
        return facts, "look for the scale of a quantization"
    if "precision" not in f:
        return (
            f"{f.share} of the results are the exact ones {rounded} ({f['format']})",
            "look for another rounding mode",
        )
    name = f"the grid of {formats}" if "format" in f else "a grid"
    facts = f"{f.share} of the results lie on {name} with {f['precision']} significant bits, {rounded}"
    if f["rounding"] == "unknown":
        return facts, "look for a computation that runs in this format"
    return facts, "look for a copy or a conversion through it"


def _one_sign(f: _Figures) -> tuple[str, str]:
    direction = f["direction"].replace("_", " ")
    facts = f"{f.share} of the {f['elements']} errors go {direction}, mean {f['mean_ulp']} ULP"
    return facts, "look for truncation in place of rounding, for terms that are lost, or for a wrong constant"


def _growth(f: _Figures) -> tuple[str, str]:
    laws = {"sqrt": "like the square root of the index", "linear": "like the index"}
    law = laws.get(f["law"], f"like the index to the power {f['exponent']}")
    end = "" if f["direction"] == "forward" else ", counted from its end"
    facts = f"errors grow along {f.axis}{end}, {law}, {f['ratio']} times from its first quarter to its last"
    return facts, "look for a running sum or a recurrence along it, and widen its accumulator"


def _at_zeros(f: _Figures) -> tuple[str, str]:
    if f["at"] == "zero":
        facts = f"{f.share} of the wrong results are where the exact one is 0, {f['elements']} elements"
        return facts, "look for an epsilon, a mask, or a special case of 0"
    facts = f"{f.share} of the squared error is below an exact size of {f['limit']}, {f['ratio']} times that elsewhere"
    return facts, "look for an epsilon, or for a division by small values"


def _at_large_values(f: _Figures) -> tuple[str, str]:
    facts = f"errors in ULP grow with the result, {f['ratio']} times from an exact size of {f['limit']} on"
    return facts, "look for a reduction of large arguments, or for an intermediate result with a small range"


def _at_ties(f: _Figures) -> tuple[str, str]:
    if "through" in f:
        facts = f"{f.share} of the wrong results, {f['elements']} elements, equal a result rounded twice"
        return facts, f"look for a conversion through {f['through']} before the last one"
    rule = f["rule"].replace("nearest_away", "away from zero").replace("_", " ")
    rounded = "" if rule == "unknown" else f", which went {rule}"
    facts = f"{f.share} of the wrong results, {f['elements']} elements, are ties between two numbers{rounded}"
    return facts, "look for a rounding of halves that is not to even"


def _saturated(f: _Figures) -> tuple[str, str]:
    largest = f", the largest {f['format']}," if "format" in f else ""
    limits = f"{f['least']} or {f['most']}" if "least" in f and "most" in f else f"{f['limit']}{largest}"
    facts = f"results are {limits} at {f['elements']} elements whose exact result is beyond it"
    return facts, "look for arithmetic that saturates, or for the bounds of a clip"


def _wrapped(f: _Figures) -> tuple[str, str]:
    facts = f"the errors of {f['elements']} elements are multiples of {f['modulus']}"
    return facts, "look for an integer that overflows, and widen or clip it"


def _flushed(f: _Figures) -> tuple[str, str]:
    parts = {"subnormals": "subnormal in", "underflow": "below the smallest"}
    named = f", {parts[f['part']]} {f['format']}" if "format" in f else ""
    facts = f"{f['elements']} results are 0 where the exact ones are below {f['limit']}{named}"
    return facts, "look for flush to zero"


def _never_written(f: _Figures) -> tuple[str, str]:
    facts = f"{f['elements']} results are {f['fill']} where the exact ones have many values, {f.share} of the error"
    return facts, "look for results that were never written"


def _moved(f: _Figures) -> tuple[str, str]:
    elements, what = f["elements"], f["what"]
    shift = int(f.number("shift"))
    steps = f"{abs(shift):,} {'before' if shift > 0 else 'after'}"
    round_ends = " (around its ends)" if what == "rotation" else ""
    facts = {
        "flip": f"{elements} results equal the reference with {f.axis} reversed",
        "transposition": f"{elements} results are those with the axes {f['axes']} swapped",
        "layout": f"{elements} results were written with the axes {f['axes']} swapped, and read without",
        "permutation": f"{elements} results are the right ones in another order",
    }.get(what, f"{elements} results, from index {f['start']} of {f.axis} on, are those {steps}{round_ends}")
    check = (
        "look for an index that is off, or for a stale block"
        if "shift" in f
        else "look for the order of axes or indices"
    )
    return facts, check


def _non_finite(f: _Figures) -> tuple[str, str]:
    facts = {
        "nan_of_actual": "results are NaN where the exact ones are not",
        "nan_of_exact": "results are numbers where the exact ones are NaN",
        "inf_of_actual": "results are infinite where the exact ones are not, or have another sign",
        "inf_of_exact": "results are finite where the exact ones are infinite",
    }[f["what"]]
    checks = {
        "nan_of_actual": "look for 0/0, inf - inf, or memory that nobody wrote",
        "nan_of_exact": "look for a maximum, minimum or sum that skips NaN",
        "inf_of_actual": "look for a partial result that overflows; scale, or widen the accumulator",
        "inf_of_exact": "look for a clip, or for a special case of infinity",
    }
    return f"{f['elements']} {facts}", checks[f["what"]]


_WORDS: dict[FingerprintKind, Callable[[_Figures], tuple[str, str]]] = {
    "constant_factor": _factor,
    "constant_offset": _offset,
    "one_channel": _channel,
    "last_block": _last_block,
    "checkerboard": _checkerboard,
    "grid": _grid,
    "one_sign": _one_sign,
    "growth": _growth,
    "at_zeros": _at_zeros,
    "at_large_values": _at_large_values,
    "at_ties": _at_ties,
    "saturated": _saturated,
    "wrapped": _wrapped,
    "flushed": _flushed,
    "never_written": _never_written,
    "moved_elements": _moved,
    "non_finite": _non_finite,
}


def describe_near_zero(comparison: Comparison) -> str:
    """Return a sentence if relative errors are large only because the reference is near 0; nothing otherwise.

    At the largest relative error, |r| is at most max_abs_error / max_rel_error.
    """
    names = ("max_rel_error", "p50_rel_error", "max_abs_error", "mean_magnitude")
    most, median, absolute, magnitude = (comparison.metrics.get(name, 0.0) for name in names)
    # Errors that are large everywhere are no matter of small references.
    is_small = all((most, absolute, magnitude)) and absolute <= SMALL_ERROR * magnitude
    # Every element is correctly rounded, so that only the format is to blame.
    is_rounded = comparison.metrics.get("max_ulp", 0.0) <= 0.5
    if not is_small or is_rounded or comparison.counts.get("finite", 0) < MIN_PAIRS:
        return ""
    if most < NEAR_ZERO_TIMES * max(median, absolute / magnitude):
        return ""
    facts = f"max_rel_error {format_number(most)} is at a reference of at most {format_number(absolute / most)}"
    context = f"beside a mean_magnitude of {format_number(magnitude)} and a p50_rel_error of {format_number(median)}"
    return f"{facts}, {context}: judge values near 0 with atol (max_abs_error is {format_number(absolute)})"
