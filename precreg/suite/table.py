"""Which cases does a table of recorded figures make?

A sweep measures many variants on hardware and writes one table. `table:` of a suite names the columns that name a row,
and the columns that are figures. Every row is a case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from precreg.arithmetic import DTYPE_NAMES
from precreg.errors import UserError, key_hint, nearest
from precreg.measure import METRICS, baseline_metrics
from precreg.storage import (
    DELIMITERS,
    KeyPath,
    Table,
    TableRow,
    expect_mapping,
    format_value,
    note_package,
    path_beside_suite,
)
from precreg.subject import PARQUET, read_rows, row_figures
from precreg.suite.figure_layers import recorded_metrics
from precreg.suite.load import Suite
from precreg.suite.matrix import Parameters, case_name
from precreg.suite.recorded import RecordedPoint
from precreg.types import Case, Computation

_OWN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,17}")
_FIGURE_KEYS = ("column", "of", "better", "unit")


def table_points(suite: Suite, project: Path) -> list[RecordedPoint]:
    """Return a point for each row of the table, in its order.

    A Parquet file without pyarrow gives one point, whose case is skipped by name: its rows are unknown. Raises
    UserError: missing-file, outside-project, bad-value, unknown-metric, unknown-column, bad-table, unknown-dtype,
    duplicate-case.
    """
    spec = _read_spec(suite, project)
    # No reference: another program measured the figures against one.
    oracle = Computation("table", {})
    if spec["file"].endswith(PARQUET):
        note_package("pyarrow")
    if spec["file"].endswith(PARQUET) and find_spec("pyarrow") is None:
        return [RecordedPoint({}, Computation("table", {**spec, "row": {}}), oracle)]
    table = read_rows(spec, project)
    _require_columns(suite, table, spec)
    first: dict[tuple[str, ...], TableRow] = {}
    points = []
    for row in table.rows:
        _require_new_row(suite, table, row, first)
        named = {**spec, "row": {column: row.cells[column] for column in _entry(suite).name}}
        named["dtype"] = _dtype_of_row(suite, table, row)
        _check_figures(table, row, named)
        points.append(RecordedPoint(_parameters(table, row, named["row"]), Computation("table", named), oracle))
    return points


def is_unread(case: Case) -> bool:
    """Return whether a case represents all rows of a table, because the package that reads it is not installed."""
    return case.subject.kind == "table" and case.subject.spec["row"] == {}


def _entry(suite: Suite) -> Any:
    assert suite.file.table is not None
    return suite.file.table


def _read_spec(suite: Suite, project: Path) -> dict[str, Any]:
    """Return what all rows share. Keys at their default are left out, so that digests stay when keys are added."""
    entry, source = _entry(suite), suite.source
    spec: dict[str, Any] = {
        "file": path_beside_suite(project, suite.directory, entry.file, source.where("table", "file")),
        "metrics": dict(_read_metrics(suite)),
    }
    if len(set(entry.name)) < len(entry.name):
        raise source.error(
            "bad-value",
            f"expected each column once but got name={list(entry.name)}",
            "table",
            "name",
            hint=f"write each column once: name: [{', '.join(dict.fromkeys(entry.name))}]",
        )
    if entry.count is not None:
        spec["count"] = entry.count
    if entry.delimiter is not None:
        spec["delimiter"] = DELIMITERS[entry.delimiter]
    return spec


def _read_metrics(suite: Suite) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the metrics with their columns; a metric that precreg does not know is the table's own."""
    given = _entry(suite).metrics
    expect_mapping(suite.source, given, "table", "metrics")
    if not given:
        raise suite.source.error(
            "bad-value",
            "expected at least one metric but got metrics={}",
            "table",
            "metrics",
            hint="name a metric and its column: metrics: {max_ulp: COLUMN}",
        )
    for name, value in given.items():
        path = ("table", "metrics", name)
        options = {"column": value} if isinstance(value, str) else value
        expect_mapping(suite.source, options, *path)
        for key, text in options.items():
            if key not in _FIGURE_KEYS:
                message = f"expected one of {', '.join(_FIGURE_KEYS)} but got {key}{nearest(key, _FIGURE_KEYS)}"
                raise suite.source.error("unknown-key", message, *path, key, hint=key_hint(key, _FIGURE_KEYS))
            if not isinstance(text, str) or not text.strip():
                raise suite.source.error(
                    "bad-value",
                    f"expected text but got {key}={format_value(text)}",
                    *path,
                    key,
                    hint=f"write text, in quotes if it looks like a number: {key}: '{text}'",
                )
        yield _metric_name(suite, name, options), {"column": name, **options}


def _metric_name(suite: Suite, name: str, options: Mapping[str, str]) -> str:
    """Return the name of a metric: precreg's own, or the table's."""
    path, kept = ("table", "metrics", name), baseline_metrics()
    if name in kept:
        if "better" in options or "unit" in options:
            message = f"expected no better: and no unit: for {name}, which precreg defines"
            raise suite.source.error(
                "bad-value", message, *path, hint=f"write the column alone: {name}: {options.get('column', 'COLUMN')}"
            )
        return name
    if options.get("better") not in ("lower", "higher"):
        known = nearest(name, kept) or f" (baselines keep {', '.join(kept)})"
        got = f"better={options['better']}" if "better" in options else "none"
        message = f"expected better: lower or higher for {name}, which is no metric of baselines, but got {got}{known}"
        raise suite.source.error("unknown-metric", message, *path)
    if _OWN_NAME.fullmatch(name) is None:
        message = f"expected a name of letters, digits and _ . - but got {name!r}; its column stands in column:"
        raise suite.source.error(
            "bad-value",
            message,
            *path,
            hint=f"name the metric, and its column beside it: my_error: {{column: {name!r}, better: lower}}",
        )
    return f"{options['better']}.{name}"


def _require_columns(suite: Suite, table: Table, spec: Mapping[str, Any]) -> None:
    """Require every column that the suite names, with the line of the suite in the message."""
    entry, known = _entry(suite), recorded_metrics(_entry(suite))
    wanted: list[tuple[KeyPath, str]] = [(("table", "name", at), column) for at, column in enumerate(entry.name)]
    wanted += [(("table", "count"), entry.count)] if entry.count is not None else []
    for name, options in spec["metrics"].items():
        path: KeyPath = ("table", "metrics", known[name])
        wanted += [(path, options[key]) for key in ("column", "of") if key in options]
    for path, column in wanted:
        if column not in table.columns:
            listed = ", ".join(table.columns)
            message = f"expected a column of {table.shown} ({listed}) but got {column}{nearest(column, table.columns)}"
            raise suite.source.error("unknown-column", message, *path)


def _require_new_row(suite: Suite, table: Table, row: TableRow, first: dict[tuple[str, ...], TableRow]) -> None:
    """Require a name for each row, unlike the names of all rows before."""
    columns = _entry(suite).name
    cells = tuple(row.cells[column] for column in columns)
    for column, cell in zip(columns, cells, strict=True):
        if not cell or not cell.isprintable() or "/" in cell or len(cell) > 100:
            expected = "a name of printable characters without /"
            raise table.error(row, f"expected {expected} in {column} but got {cell[:100]!a}")
    other = first.setdefault(cells, row)
    if other is not row:
        named = ", ".join(f"{column}={cell}" for column, cell in zip(columns, cells, strict=True))
        message = f"expected one row of {named} but line {other.line} has it, too; name another column in table: name:"
        raise UserError("duplicate-case", message, file=table.shown, line=row.line)


def _parameters(table: Table, row: TableRow, cells: Mapping[str, str]) -> Parameters:
    """Return the parameters of a row; whole numbers are numbers, so that names of cases show their column."""
    found = {column: int(cell) if _WHOLE.fullmatch(cell) else cell for column, cell in cells.items()}
    if len(case_name(found).encode()) > 200:
        raise table.error(row, f"expected a name of at most 200 bytes but got {case_name(found)[:60]}...")
    return found


def _dtype_of_row(suite: Suite, table: Table, row: TableRow) -> str:
    """Return the dtype whose ULP the figures are in: a word for all rows, or a column and its spellings."""
    entry = _entry(suite)
    given = entry.dtype if entry.dtype is not None else "dtype" if "dtype" in table.columns else None
    if given is None:
        message = "expected dtype: with the name of a dtype or of a column but there is none"
        raise suite.source.error("missing-key", message, "table", hint="write the dtype of the figures: dtype: float16")
    is_column = given in table.columns
    word = row.cells[given] if is_column else given
    expect_mapping(suite.source, entry.dtypes, "table", "dtypes")
    dtype = entry.dtypes.get(word, word)
    if dtype in DTYPE_NAMES:
        return str(dtype)
    if word in entry.dtypes:
        message = f"expected the name of a dtype but got {word}={format_value(dtype)}{nearest(str(dtype), DTYPE_NAMES)}"
        raise suite.source.error("unknown-dtype", message, "table", "dtypes", word)
    remedy = f"add it to table: dtypes: {{{word or 'NAME'}: DTYPE}}"
    name = given if is_column else "dtype"
    message = f"expected the name of a dtype but got {name}={word}{nearest(word, DTYPE_NAMES)}; {remedy}"
    if is_column:
        raise UserError("unknown-dtype", message, file=table.shown, line=row.line)
    raise suite.source.error("unknown-dtype", message, "table", "dtype")


def _check_figures(table: Table, row: TableRow, spec: Mapping[str, Any]) -> None:
    """Refuse cells that are no numbers, and figures outside the range of their metric."""
    for name, value in row_figures(table, row, spec).values.items():
        allowed = METRICS[name].range if name in METRICS else None
        if allowed is not None and not allowed.least <= value <= allowed.greatest:
            column = spec["metrics"][name]["column"]
            advice = "; a percentage is {column: ..., of: ...}, or a share from 0 to 1" if allowed.greatest == 1 else ""
            raise table.error(row, f"expected {allowed.words} in {column} ({name}) but got {value:g}{advice}")
