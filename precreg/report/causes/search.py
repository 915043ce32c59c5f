"""How does a terminal show the worst inputs of a case, and which words tell their story in a suite?"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

import msgspec

from precreg.report.describe import strip_controls
from precreg.report.layout import format_columns
from precreg.types import Search, SearchedRange, SearchStrategy, WorstValue, format_number

_UNITS = {"max_ulp": " ULP", "max_rel_error": "", "max_abs_error": "", "tolerance": " of the tolerance"}
_NAMES = {
    "max_ulp": "error",
    "max_rel_error": "relative error",
    "max_abs_error": "absolute error",
    "tolerance": "error",
}

_STRATEGIES: dict[SearchStrategy, str] = {
    "drawn": "the inputs of the seed",
    "exhaustive": "all values of the ranges",
    "special_values": "special values",
    "exponents": "a sweep of all exponents",
    "structures": "structured sums",
    "cancellation": "terms that cancel",
    "roots": "bisection to zeros of the result",
    "ties": "results halfway between two numbers",
    "zoom": "zooming into intervals",
    "random": "random inputs",
    "climb": "hill-climbing on bits",
}

# A part of many elements shows its first ones.
_SHOWN_VALUES = 16


def render_search(search: Search) -> str:
    """Return the text of a search for a terminal."""
    facts = f"{search.case}  seed {search.seed}  {search.metric}"
    lines = [facts, "", describe_worst(search), *_values(search), "", *_table(search), "", *_notes(search)]
    return strip_controls("\n".join(lines))


def describe_worst(search: Search) -> str:
    """Write the largest error with its place, and the comparison with random inputs."""
    place = list(search.place) if search.place else "a scalar"
    where = f"{search.output} at {place}" if search.place else search.output
    return (
        f"worst {_NAMES.get(search.metric, 'error')}: {_error(search.error, search)} in {where}, found by"
        f" {_STRATEGIES[search.strategy]}; {_compared(search)}"
    )


def search_story(search: Search) -> str:
    """Return the sentence about the inputs of a written suite: their origin, and the error before and after."""
    ranges = ", ".join(_range(each) for each in search.ranges)
    return (
        f"Worst inputs of {search.case} within {ranges}: {search.metric} {_error(search.error, search)},"
        f" found by {_STRATEGIES[search.strategy]} in {search.trials:,} trials (precreg search, seed {search.seed});"
        f" as many random inputs reach {_error(search.random.error, search)}"
    )


def search_json(search: Search) -> bytes:
    """Return a search as one line of JSON with a newline; infinities are the text "inf", because JSON has none."""
    plain = msgspec.to_builtins(search) | {"ratio": search.ratio, "answer": describe_worst(search)}
    return msgspec.json.encode(_with_texts(plain)) + b"\n"


def _with_texts(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else repr(value)
    if isinstance(value, dict):
        return {name: _with_texts(each) for name, each in value.items()}
    return [_with_texts(each) for each in value] if isinstance(value, list | tuple) else value


def _error(error: float, search: Search) -> str:
    if not isfinite(error):
        return "infinite (one side alone is finite)"
    return f"{format_number(error)}{_UNITS[search.metric]}"


def _compared(search: Search) -> str:
    reached = f"{search.random.trials:,} random trials reach {_error(search.random.error, search)}"
    ratio = search.ratio
    return reached if ratio is None or not isfinite(ratio) else f"{reached} (ratio {format_number(ratio, 3)})"


def _values(search: Search) -> Iterator[str]:
    yield f"  actual {search.actual}, exact {search.exact}"
    for value in search.values[:_SHOWN_VALUES]:
        yield f"  {_value(value)}"
    if (others := search.value_count - len(search.values[:_SHOWN_VALUES])) > 0:
        yield f"  and {others} more values; --output FILE.yaml keeps all"


def _value(value: WorstValue) -> str:
    index = f"[{', '.join(map(str, value.index))}]" if value.index else ""
    return f"{value.input}{index} = {value.value} (0x{value.bits})"


def _range(range: SearchedRange) -> str:
    ends = f"{range.input} in [{format_number(range.low, 6)}, {format_number(range.high, 6)}]"
    gap = f" with |{range.input}| >= {format_number(range.least, 6)}" if range.least else ""
    special = f" with {', '.join(range.special)}" if range.special else ""
    return f"{ends}{gap}{special}"


def _table(search: Search) -> list[str]:
    names = ("strategy", "trials", f"largest {search.metric}", "")
    rows = [
        (_STRATEGIES[each.strategy], f"{each.trials:,}", _short(each.error), "raised" if each.raised else "")
        for each in search.strategies
    ]
    rows.append(("random inputs", f"{search.random.trials:,}", _short(search.random.error), ""))
    return format_columns(names, rows, len(rows))


def _short(error: float) -> str:
    return format_number(error) if isfinite(error) else "infinite"


def _notes(search: Search) -> Iterator[str]:
    for each in search.ranges:
        origin = {"declared": "declared", "suite": "from the suite"}.get(each.origin, f"from {each.origin}")
        yield f"range: {_range(each)} of {each.dtype}, {origin}"
    if search.held:
        yield f"held at seed {search.seed}: {', '.join(search.held)}"
    parts = f"{'x'.join(map(str, search.trial_shape))} independent ones" if search.trial_shape else "one, of all inputs"
    yield f"trials of one call: {parts}"
    if search.exhaustive:
        yield "exhaustive: the search tried every value of the ranges, so no input has a larger error"
    if not isfinite(search.error):
        yield f"largest finite error of a trial: {_error(search.finite_error, search)}"
    if search.failed_calls:
        yield f"{search.failed_calls} calls failed, the first: {search.failure}"
    yield f"largest |error| / tolerance: {_short(search.tolerances)}"
