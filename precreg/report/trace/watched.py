"""How do people see watched values, the operation at a breakpoint, and the texts that nothing matched?"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log10

from precreg.arithmetic import FORMATS
from precreg.report.describe import strip_controls
from precreg.types import Operation, Scalar, UnmatchedPattern, WatchedValue, format_number


def render_watched_value(value: WatchedValue) -> str:
    """Return the lines of one watched array: its place, its digest, and its elements beside the exact ones."""
    lines = [_place_line(value), _array_line(value)]
    if value.selected is None:
        lines.append(_misfit_line(value))
    elif value.indices:
        lines += _element_lines(value)
        if (more := value.selected - len(value.indices)) > 0:
            lines.append(f"  {more} more selected")
    return "".join(f"{strip_controls(line)}\n" for line in lines)


def _place_line(value: WatchedValue) -> str:
    number = f"#{value.number} {value.name}" if value.number else f"output {value.name}"
    parts = [value.watch, number] if value.watch != "*" else [number]
    parts += [part for part in (value.place, f"`{value.code}`" if value.code else "", value.module) if part]
    return "  ".join(parts + ([] if value.step is None else [f"step {value.step}"]))


def _misfit_line(value: WatchedValue) -> str:
    bracket = value.watch.find("[")
    selection = value.watch[bracket:] if bracket >= 0 else "the lanes"
    return f"  expected indices inside of the shape {_shape(value)} but got {selection}"


def _shape(value: WatchedValue) -> str:
    return "x".join(map(str, value.shape)) or "scalar"


def _array_line(value: WatchedValue) -> str:
    shape = _shape(value)
    total = "no shadow" if value.total is None else f"total error {format_number(value.total)}"
    return f"  {value.dtype} {shape}  sha256 {value.digest}  {total}"


def _element_lines(value: WatchedValue) -> list[str]:
    digits = _digits(value.dtype)
    columns = [
        ["index", *(f"[{', '.join(map(str, index))}]" for index in value.indices)],
        ["actual", *(_number(each, digits) for each in value.actual)],
    ]
    if value.exact:
        columns.append(["exact", *map(_exact, value.actual, value.exact, [digits] * len(value.exact))])
    if value.ulps:
        columns.append(["error in ULP", *(_number(each, 4) for each in value.ulps)])
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True)
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _digits(dtype: str) -> int:
    """Return the number of decimal digits that distinguishes all numbers of a dtype."""
    format = FORMATS.get(dtype)
    return 17 if format is None else 1 + ceil(format.precision * log10(2))


def _exact(actual: Scalar, exact: Scalar, digits: int) -> str:
    """Write an exact number with three digits more, and with all that it needs to differ from the actual."""
    text = _number(exact, digits + 3)
    return repr(exact) if actual != exact and text == _number(actual, digits) else text


def _number(value: Scalar, digits: int) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def render_breakpoint(text: str, operation: Operation, names: Sequence[str]) -> str:
    """Return the line that a debugger shows first."""
    errors = {"own": operation.own, "inherited": operation.inherited, "total": operation.total}
    sizes = ", ".join(
        f"{name} error {format_number(size.relative)}" for name, size in errors.items() if size is not None
    )
    facts = f"#{operation.number} {operation.name}" + (f", {sizes}" if sizes else "")
    return strip_controls(f"break at {text}: {facts}; names here: {', '.join(names)}")


def describe_unmatched(pattern: UnmatchedPattern) -> str:
    """Return the sentence about a watch or breakpoint that no operation matched."""
    near = f"; this computation has {', '.join(pattern.nearest)}" if pattern.nearest else ""
    return strip_controls(f"nothing matched {pattern.text}{near}")
