"""Which cells does a table of operations have, and in which unit are their errors?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from msgspec.structs import replace

from precreg.shadow import unit_of
from precreg.types import ErrorSize, Operation, Site, Trace, TracedOutput, format_number

# ulp: the relative error over eps of the trace's dtype. One dtype for all rows, because rows are compared: the error of
# a cast to bfloat16 is half a ULP of bfloat16, and thousands of ULP of a model in float32.
# tolerance: the part of an output's tolerance that an operation uses up.
ErrorUnit = Literal["ulp", "relative", "tolerance"]
UNKNOWN = "-"


class Cell(NamedTuple):
    """Hold a cell of a table: its text, and the number that sorts the column; None sorts last."""

    text: str
    number: float | None = None


class TraceColumn(NamedTuple):
    """Hold a column of a table of operations: its name, the cell of a row, and whether it has numbers."""

    name: str
    cell: Callable[[Operation], Cell]
    is_number: bool = True


def main_output(trace: Trace) -> TracedOutput | None:
    """Return the output that uses up most of its tolerance, or has the largest error; None without outputs.

    Outputs whose rounding is known come first: integers, and values that the trace lost, have no shares.
    """

    def badness(output: TracedOutput) -> tuple[bool, float, float]:
        rounding = output.rounding.relative if output.rounding is not None else -1.0
        # A tolerance of 0 that an error meets is used up, and has no measure beyond.
        used = -1.0 if output.tolerances is None else output.tolerances if isfinite(output.tolerances) else 1.0
        return output.rounding is not None, used, rounding

    return max(trace.outputs, key=badness, default=None)


def error_text(relative: float | None, trace: Trace, unit: ErrorUnit) -> str:
    """Write a relative error as a number of a column in this unit; tolerances count shares only, so it is relative."""
    if relative is None:
        return UNKNOWN
    return format_number(relative / unit_of(trace.dtype) if unit == "ulp" else relative, 3)


def error_words(relative: float, trace: Trace, unit: ErrorUnit) -> str:
    """Write a relative error with its unit, for a sentence."""
    if not isfinite(relative):
        return "infinite"
    number = error_text(relative, trace, unit)
    return f"{number} ULP of {trace.dtype}" if unit == "ulp" else number


def unit_name(trace: Trace, unit: ErrorUnit) -> str:
    """Name the unit of the columns of errors."""
    return f"ULP of {trace.dtype}" if unit == "ulp" else "relative"


def share_text(share: float | None) -> str:
    """Write a share in percent; shares below a tenth of a percent differ only by noise."""
    if share is None:
        return UNKNOWN
    percent = 100 * share
    return f"{percent:.0f} %" if abs(percent) >= 10 else f"{percent:.1f} %".replace("-0.0 %", "0.0 %")


def used_tolerance(share: float | None, output: TracedOutput) -> float | None:
    """Return the part of the output's tolerance that a share of its rounding error uses up.

    The tolerance limits the whole error, and shares explain its part from rounding.
    """
    # A tolerance without an elementwise bound, such as a match ratio, has no parts.
    if share is None or output.tolerances is None or not isfinite(output.tolerances):
        return None
    whole, rounding = output.whole, output.rounding
    part = rounding.relative / whole.relative if whole and rounding and whole.relative > 0 else 1.0
    return share * output.tolerances * min(part, 1.0)


def format_site(site: Site) -> str:
    """Write the place of an operation: module or node, file, line, and the code of the line."""
    where = f"{site.file}:{site.line}" if site.file else ""
    parts = [site.module, where, f"`{site.code}`" if site.code else ""]
    return " ".join(filter(None, parts)) or "unknown place"


def short_files(trace: Trace) -> dict[str, str]:
    """Return, by file, the end of its path that no other file of the trace has: paths take the room of the code."""
    files = {each.site.file for each in trace.operations} | {each.site.file for each in trace.left_out_sites}
    return {file: _shortest_end(file, files) for file in files}


def _shortest_end(file: str, files: Collection[str]) -> str:
    parts = PurePosixPath(file).parts
    for count in range(1, len(parts)):
        end = "/".join(parts[-count:])
        if sum(f"/{other}".endswith(f"/{end}") for other in files) == 1:
            return end
    return file


def short_site(site: Site, files: Mapping[str, str]) -> str:
    """Write a place for a table."""
    return format_site(replace(site, file=files[site.file]))


def operation_columns(trace: Trace, operations: Sequence[Operation], unit: ErrorUnit) -> list[TraceColumn]:
    """Return the columns of a table of operations, without those in which no operation has anything."""
    files = short_files(trace)
    columns = [
        TraceColumn("no.", lambda each: Cell(str(each.number), each.number)),
        *_share_columns(trace, unit),
        *_error_columns(trace, unit),
        *_range_columns(),
        *_order_columns(),
        TraceColumn("operation", lambda each: Cell(each.name), False),
        TraceColumn("dtype", lambda each: Cell(each.dtype), False),
        TraceColumn("shape", lambda each: Cell("×".join(map(str, each.shape)) or "scalar"), False),
        TraceColumn("note", lambda each: Cell(each.note.replace("_", " ")), False),
        TraceColumn("place", lambda each: Cell(short_site(each.site, files)), False),
    ]
    return [column for column in columns if _has_content(column, operations)]


def _has_content(column: TraceColumn, operations: Sequence[Operation]) -> bool:
    # A column of range counts in which nothing occurred has only empty texts.
    return column.name in ("no.", "own", "total") or any(
        column.cell(each).text not in ("", UNKNOWN) for each in operations
    )


def _share_columns(trace: Trace, unit: ErrorUnit) -> Iterator[TraceColumn]:
    many = len(trace.outputs) > 1
    for output in trace.outputs:
        suffix = f" of {output.name}" if many else ""

        def share(operation: Operation, output: TracedOutput = output) -> Cell:
            found = operation.shares.get(output.name)
            return Cell(share_text(found), found)

        def used(operation: Operation, output: TracedOutput = output) -> Cell:
            found = used_tolerance(operation.shares.get(output.name), output)
            return Cell(UNKNOWN if found is None else format_number(found, 3), found)

        if unit == "tolerance":
            yield TraceColumn(f"tolerance{suffix}", used)
        yield TraceColumn(f"share{suffix}", share)


def _error_columns(trace: Trace, unit: ErrorUnit) -> Iterator[TraceColumn]:
    def size_of(pick: Callable[[Operation], ErrorSize | None]) -> Callable[[Operation], Cell]:
        def cell(operation: Operation) -> Cell:
            size = pick(operation)
            found = None if size is None else size.relative
            return Cell(error_text(found, trace, unit), found)

        return cell

    yield TraceColumn("own", size_of(lambda each: each.own))
    yield TraceColumn("bound", lambda each: Cell(error_text(each.bound, trace, unit), each.bound))
    yield TraceColumn("inherited", size_of(lambda each: each.inherited))
    yield TraceColumn("total", size_of(lambda each: each.total))
    yield TraceColumn("amplified", lambda each: _number(each.amplification))
    # In ULP of the operation's own dtype, as its elements were measured.
    yield TraceColumn("max ULP", lambda each: _number(each.own.max_ulp if each.own is not None else None))


def _range_columns() -> Iterator[TraceColumn]:
    yield TraceColumn("lost bits", lambda each: _occurred(each.lost_bits))
    for name, field in (
        ("NaN", "nan"),
        ("Inf", "inf"),
        ("subnormal", "subnormal"),
        ("saturated", "saturated"),
    ):

        def cell(operation: Operation, field: str = field) -> Cell:
            found = None if operation.range is None else getattr(operation.range, field)
            return _occurred(found)

        yield TraceColumn(name, cell)
    yield TraceColumn("largest", lambda each: _number(None if each.range is None else each.range.largest))


def _order_columns() -> Iterator[TraceColumn]:
    yield TraceColumn("step", lambda each: Cell("" if each.step is None else str(each.step), each.step))
    yield TraceColumn("phase", lambda each: Cell("" if each.phase == "forward" else each.phase), False)


def _number(value: float | None) -> Cell:
    return Cell(UNKNOWN if value is None else format_number(value, 3), value)


def _occurred(value: float | None) -> Cell:
    """Return a cell that is empty unless there is something: 0 NaN are not worth a column."""
    return Cell(format_number(value, 3) if value is not None and value > 0 else "", value)
