"""Which rows does a table of figures have, and which number does a cell hold?

A table is a CSV file (RFC 4180; comma, semicolon or tab; UTF-8 with or without a byte order mark) or a Parquet file.
Cells stay texts until a suite says which of them are figures. So a table of either format reads in the same way, and a
message quotes a cell as its file has it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple

from precreg.errors import UserError, nearest
from precreg.storage.files import read_regular_file

# A sweep has some thousand rows. A larger file is a mistake, such as a log in place of its table.
MAX_TABLE_BYTES = 1 << 27
MAX_TABLE_ROWS = 100_000

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t"}

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)+([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = {"nan": nan, "inf": inf, "infinity": inf}
# Spellings of an absent value by numpy, pandas, R and spreadsheets.
_EMPTY = frozenset({"", "na", "n/a", "<na>", "null", "none", "-"})


class TableRow(NamedTuple):
    """Hold the cells of a row by column, and the line of the file where it begins; a row's number in a Parquet file."""

    line: int
    cells: Mapping[str, str]


class Table(NamedTuple):
    """Hold the columns and the rows of a table; messages name the file as `shown`."""

    shown: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]

    def require_column(self, name: str, role: str) -> None:
        """Check that the header has a column. Raises UserError: unknown-column."""
        if name not in self.columns:
            listed = ", ".join(self.columns)
            message = f"expected the column {name} ({role}) but the header has {listed}{nearest(name, self.columns)}"
            raise UserError("unknown-column", message, file=self.shown, line=1)

    def error(self, row: TableRow, message: str) -> UserError:
        """Make the error for a row."""
        return UserError("bad-table", message, file=self.shown, line=row.line)


def read_table(path: Path, shown: str, delimiter: str | None = None) -> Table:
    """Return the rows of a .csv, .tsv or .parquet file. `delimiter` applies to texts; None detects it.

    Raises:
        UserError: missing-file; bad-table, for anything but a table of named columns.
    """
    try:
        content = read_regular_file(path)
    except FileNotFoundError:
        message = "expected a table but there is none; the job that measures must write it before the run"
        raise UserError("missing-file", message, file=shown) from None
    except OSError as error:
        raise UserError("bad-table", f"expected a file that can be read but: {error.strerror}", file=shown) from error
    if len(content) > MAX_TABLE_BYTES:
        message = f"expected at most {MAX_TABLE_BYTES} bytes but the table has {len(content)}"
        raise UserError("bad-table", message, file=shown)
    table = _read_parquet(content, shown) if path.suffix == ".parquet" else _read_csv(content, shown, delimiter)
    _check_columns(table)
    if not table.rows:
        raise UserError("bad-table", "expected at least one row below the header but there is none", file=shown)
    return table


def _check_columns(table: Table) -> None:
    for number, name in enumerate(table.columns, 1):
        first = table.columns.index(name) + 1
        # pandas leaves the name of its index empty, and no suite can name such a column.
        if name and first < number:
            message = f"expected each column once but {name} is column {first} and column {number}"
            raise UserError("bad-table", message, file=table.shown, line=1)


def _read_csv(content: bytes, shown: str, delimiter: str | None) -> Table:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        message = f"expected a table in UTF-8 but got byte 0x{content[error.start]:02x}; save it as CSV UTF-8"
        raise UserError("bad-table", message, file=shown, line=line) from None
    records = _records(text, delimiter or _detect_delimiter(text), shown)
    header = next(records, None)
    if header is None:
        raise UserError("bad-table", "expected a header with the names of columns but the file is empty", file=shown)
    columns = tuple(header[1])
    rows = []
    for line, cells in records:
        if len(cells) != len(columns):
            message = f"expected {len(columns)} cells, as in the header, but got {len(cells)}{_comma_advice(cells)}"
            raise UserError("bad-table", message, file=shown, line=line)
        rows.append(TableRow(line, dict(zip(columns, cells, strict=True))))
        if len(rows) > MAX_TABLE_ROWS:
            raise UserError("bad-table", f"expected at most {MAX_TABLE_ROWS} rows but got more", file=shown, line=line)
    return Table(shown, columns, tuple(rows))


def _comma_advice(cells: Sequence[str]) -> str:
    """Return the advice for a row with more cells than columns, which decimal commas make."""
    numbers = sum(cell.lstrip("+-").isdigit() for cell in cells)
    return "; a number such as 1,5 is two cells: write 1.5" if numbers > 1 else ""


def _records(text: str, delimiter: str, shown: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a text with the lines where they begin; empty lines are left out."""
    # newline="" leaves line ends inside quotes as they are.
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            message = f"expected a table of RFC 4180 but: {error}"
            raise UserError("bad-table", message, file=shown, line=line) from None
        if cells is None:
            return
        if any(cells):
            yield line, [cell.strip() for cell in cells]


def _detect_delimiter(text: str) -> str:
    """Return the delimiter that gives the first line of a text the most cells; a comma for a single column."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    cells = {each: sum(1 for _ in next(csv.reader([first], delimiter=each))) for each in DELIMITERS.values()}
    return max(cells, key=lambda each: cells[each])


def _read_parquet(content: bytes, shown: str) -> Table:
    from io import BytesIO

    from pyarrow import ArrowException, parquet

    try:
        file = parquet.ParquetFile(BytesIO(content))
        groups = range(file.metadata.num_row_groups)
        # The sizes that the footer claims, before anything is unpacked.
        claimed = sum(file.metadata.row_group(index).total_byte_size for index in groups)
        if file.metadata.num_rows > MAX_TABLE_ROWS or claimed > MAX_TABLE_BYTES:
            limits = f"at most {MAX_TABLE_ROWS} rows and {MAX_TABLE_BYTES} bytes"
            message = f"expected {limits} but got {file.metadata.num_rows} rows and {claimed} bytes"
            raise UserError("bad-table", message, file=shown)
        data = file.read(use_threads=False)
    except (ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:200]
        raise UserError("bad-table", f"expected a Parquet file but: {reason}", file=shown) from None
    names = tuple(str(name).strip() for name in data.column_names)
    columns = [[_as_text(value) for value in column.to_pylist()] for column in data.columns]
    cells = zip(*columns, strict=True)
    return Table(
        shown, names, tuple(TableRow(at, dict(zip(names, row, strict=True))) for at, row in enumerate(cells, 1))
    )


def _as_text(value: Any) -> str:
    """Return a cell of a Parquet file as a CSV file would have it."""
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value).strip()


def parse_figure(cell: str) -> float | None:
    """Return the number in a cell, which may be NaN or infinite; None for an empty cell.

    Raises ValueError with the number that is expected: a decimal comma, other text.
    """
    word = cell.lower()
    if word in _EMPTY:
        return None
    if _NUMBER.fullmatch(cell):
        return float(cell)
    sign, name = (-1.0, word[1:]) if word.startswith("-") else (1.0, word.removeprefix("+"))
    if name in _NOT_FINITE:
        return sign * _NOT_FINITE[name]
    if _DECIMAL_COMMA.fullmatch(cell):
        raise ValueError(f"a number with a decimal point, {cell.replace(',', '.', 1)},")
    raise ValueError("a number")
