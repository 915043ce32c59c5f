"""Which figures does a row of a table record?

The kind "table" computes nothing: another program, mostly on hardware, measured every variant of a sweep and wrote one
table. A row is a case, and its figures are the metrics of a comparison whose arrays nobody kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from precreg.errors import UserError
from precreg.storage import Table, TableRow, parse_figure, read_table, resolve_inside
from precreg.subject.kind import Kind, SpecPlace
from precreg.types import MetricDescription, RecordedFigures

# The suffix of tables that pyarrow reads; all others are texts.
PARQUET = ".parquet"


class RowFigures(NamedTuple):
    """Hold the figures of one row by metric, the number of elements behind them, and the place of the row."""

    values: dict[str, float]
    elements: int | None
    source: RecordedFigures
    described: tuple[MetricDescription, ...]


def read_rows(spec: Mapping[str, Any], project: Path) -> Table:
    """Return the table of a specification. Raises UserError: missing-file, outside-project, bad-table."""
    path = resolve_inside(project, spec["file"])
    return _read_once(path, spec["file"], spec.get("delimiter"), _signature(path))


def _signature(path: Path) -> tuple[int, ...]:
    """Return numbers that change if the job that measures writes another table; none without a table."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


# The cases of a suite share their table.
@lru_cache(maxsize=8)
def _read_once(path: Path, shown: str, delimiter: str | None, signature: tuple[int, ...]) -> Table:
    if path.suffix != PARQUET:
        return read_table(path, shown, delimiter)
    # Late, because suites read tables when they load, and most of them are texts.
    from precreg.subject.health import KIND_IMPORT, watch_import

    with watch_import((KIND_IMPORT, "table")):
        return read_table(path, shown, delimiter)


@lru_cache(maxsize=8)
def _rows_by_name(
    path: Path, shown: str, delimiter: str | None, signature: tuple[int, ...], columns: tuple[str, ...]
) -> dict[tuple[str, ...], TableRow]:
    table = _read_once(path, shown, delimiter, signature)
    for column in columns:
        table.require_column(column, "a column of name")
    return {tuple(row.cells[column] for column in columns): row for row in table.rows}


def find_row(spec: Mapping[str, Any], project: Path) -> RowFigures:
    """Return the figures of the row that a specification names; of a row that is gone the line is 0.

    Raises UserError as `read_rows` and `row_figures` do.
    """
    from precreg.subject.health import KIND_IMPORT, note_use

    table, path = read_rows(spec, project), resolve_inside(project, spec["file"])
    if path.suffix == PARQUET:
        note_use((KIND_IMPORT, "table"))
    columns = () if "vanished" in spec else tuple(spec["row"])
    named = _rows_by_name(path, spec["file"], spec.get("delimiter"), _signature(path), columns)
    row = None if "vanished" in spec else named.get(tuple(spec["row"].values()))
    if row is None:
        metrics = tuple(spec["metrics"])
        return RowFigures({}, None, RecordedFigures(spec["file"], 0, metrics, metrics), tuple(_described(spec)))
    return row_figures(table, row, spec)


def row_figures(table: Table, row: TableRow, spec: Mapping[str, Any]) -> RowFigures:
    """Return the figures of a row.

    Raises UserError: unknown-column, bad-table for a cell that is not a number.
    """
    values: dict[str, float] = {}
    empty, non_finite = [], {}
    for metric, given in spec["metrics"].items():
        value, text = _figure(table, row, given)
        if value is None:
            empty.append(metric)
        elif isfinite(value):
            values[metric] = value
        else:
            non_finite[metric] = text
    source = RecordedFigures(table.shown, row.line, tuple(spec["metrics"]), tuple(empty), non_finite)
    return RowFigures(values, _elements(table, row, spec.get("count")), source, tuple(_described(spec)))


def _figure(table: Table, row: TableRow, given: Mapping[str, Any]) -> tuple[float | None, str]:
    """Return a figure and its text: a cell, or a cell as a share of another one."""
    value, text = _number(table, row, given["column"]), row.cells[given["column"]]
    if value is None or "of" not in given:
        return value, text
    whole = _number(table, row, given["of"])
    if whole is None:
        return None, text
    if whole <= 0:
        raise table.error(row, f"expected a positive number in {given['of']} but got {row.cells[given['of']]}")
    return value / whole, text


def _number(table: Table, row: TableRow, column: str) -> float | None:
    table.require_column(column, "a column of figures")
    cell = row.cells[column]
    try:
        return parse_figure(cell)
    except ValueError as expected:
        raise table.error(row, f"expected {expected} in {column} but got {cell[:60]!a}") from None


def _elements(table: Table, row: TableRow, column: str | None) -> int | None:
    """Return the number of elements in the column of counts."""
    if column is None:
        return None
    value = _number(table, row, column)
    if value is None or not isfinite(value) or value < 1 or value != int(value):
        raise table.error(row, f"expected a number of elements in {column} but got {row.cells[column][:60]!a}")
    return int(value)


def _described(spec: Mapping[str, Any]) -> Iterator[MetricDescription]:
    """Yield the descriptions of metrics that are the table's own."""
    for metric, given in spec["metrics"].items():
        if "better" in given:
            formula = f"column {given['column']}" + (f" / {given['of']}" if "of" in given else "")
            unit = given.get("unit", "1" if "of" in given else "")
            yield MetricDescription(
                metric, unit, formula, "higher" if given["better"] == "higher" else "lower", "table"
            )


def _read_spec(value: Any, options: Mapping[str, Any], place: SpecPlace) -> Any:
    message = "expected table: as a key of the suite, in place of subject: and reference:"
    raise place.error(
        "bad-value",
        f"{message}, but got it as a kind of subject",
        hint="write table: in place of subject:, such as table: {file: sweep.csv, name: [op], metrics: {max_ulp: ulp}}",
    )


def _refuse_run(spec: Any, call: Any) -> Any:
    raise UserError(
        "bad-value",
        "expected a subject that computes arrays but got rows of a table",
        hint="name a case of a suite with subject: module:function",
    )


def _requirements(spec: Mapping[str, Any]) -> tuple[str, ...]:
    return ("pyarrow",) if str(spec.get("file", "")).endswith(PARQUET) else ()


TABLE = Kind(run=_refuse_run, read=_read_spec, requirements=_requirements)
