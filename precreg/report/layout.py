"""How do tables and sentences fit the width of a terminal?

A pipe and a log have no width, so nothing is wrapped there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import NamedTuple

_GAP = "  "
# Only cells of texts wrap. A figure such as "3.15 to 30.9" is read in one piece.
_MIN_WRAPPED = 20
# Wrapped lines begin below the text after the indentation and a label: "reports   ", "FAILED   ", "suite     ".
_LABEL = re.compile(r" *(?:\S+(?: \S+)? {2,})?")
# A wrapped line keeps so many columns for its text, however wide its label is.
_MIN_TEXT = 30
# A code point that Unicode keeps free of characters for good, so no text holds it.
_FILLER = "\ufdd0"


class _Column(NamedTuple):
    name: str
    cells: list[str]

    @property
    def width(self) -> int:
        return max(map(columns_of, (self.name, *self.cells)))

    @property
    def min_width(self) -> int:
        """The width of the longest word, for a column of texts."""
        if self.width <= _MIN_WRAPPED:
            return self.width
        words = (word for text in (self.name, *self.cells) for word in text.split(" "))
        return max(_MIN_WRAPPED, *map(columns_of, words))


def format_columns(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    max_rows: int,
    width: int | None = None,
    *,
    spare: Sequence[str] = (),
) -> list[str]:
    """Arrange rows of cells in columns under their names; count rows beyond `max_rows`.

    A table that is wider than `width` first loses the columns that `spare` names, one by one. Then texts in cells wrap
    between words. A table that is still too wide becomes a list: each cell is on a line of its own, after its name.
    """
    cells = zip(*rows[:max_rows], strict=True) if rows[:max_rows] else ([] for _ in names)
    columns = [_Column(name, [*column]) for name, column in zip(names, cells, strict=True)]
    kept = columns if width is None else _without_spare(columns, width, spare)
    lines = _table(kept, None) if width is None or _total(kept) <= width else _narrow(kept, width)
    if left_out := [column.name for column in columns if column not in kept]:
        lines.append(f"not shown at this width: {', '.join(left_out)}")
    return lines if len(rows) <= max_rows else [*lines, f"and {len(rows) - max_rows} more"]


def _total(columns: Sequence[_Column]) -> int:
    return sum(column.width for column in columns) + len(_GAP) * (len(columns) - 1)


def _without_spare(columns: Sequence[_Column], width: int, spare: Sequence[str]) -> list[_Column]:
    kept = [*columns]
    for name in spare:
        if _total(kept) <= width:
            break
        kept = [column for column in kept if column.name != name]
    return kept


def _narrow(columns: Sequence[_Column], width: int) -> list[str]:
    """Wrap the texts of a table, the widest column first, or list its cells."""
    room = width - len(_GAP) * (len(columns) - 1)
    widths, least = [column.width for column in columns], [column.min_width for column in columns]
    if sum(least) > room:
        return _list(columns, width)
    while sum(widths) > room:
        widest = max((at for at in range(len(widths)) if widths[at] > least[at]), key=widths.__getitem__)
        widths[widest] -= 1
    return _table(columns, widths)


def _table(columns: Sequence[_Column], narrow: Sequence[int] | None) -> list[str]:
    """Write a line for each row, or several where texts wrap."""
    widths = narrow or [column.width for column in columns]
    rows = zip(*([column.name, *column.cells] for column in columns), strict=True)
    return [
        _GAP.join(map(_pad, line, widths)).rstrip()
        for row in rows
        for line in ([row] if narrow is None else _wrapped_row(row, widths))
    ]


def _wrapped_row(row: Sequence[str], widths: Sequence[int]) -> Iterator[tuple[str, ...]]:
    parts = [_wrap(text, width) or [""] for text, width in zip(row, widths, strict=True)]
    return zip_longest(*parts, fillvalue="")


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes. A Chinese character takes two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - columns_of(text))


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Wrap a text between words. `textwrap` counts characters, so a filler follows each one of two columns."""
    spread = text if text.isascii() else "".join(each + _FILLER * (columns_of(each) - 1) for each in text)
    lines = wrap(spread, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_FILLER, "") for line in lines]


def _list(columns: Sequence[_Column], width: int) -> list[str]:
    """Write each cell after the name of its column, and an empty line between two rows."""
    longest = max(columns_of(column.name) for column in columns)
    names = [_pad(column.name, longest) + _GAP for column in columns]
    lines: list[str] = []
    for row in zip(*(column.cells for column in columns), strict=True):
        lines += [""] if lines else []
        for name, cell in zip(names, row, strict=True):
            lines += wrap_line(name + cell, width) if cell else []
    return lines


def wrap_lines(lines: Sequence[str], width: int | None) -> list[str]:
    """Wrap each line that is wider than `width`, as `wrap_line` does; None wraps none."""
    return [*lines] if width is None else [part for line in lines for part in wrap_line(line, width)]


def wrap_line(line: str, width: int) -> list[str]:
    """Wrap a line between words; further parts begin below its text, after indentation and label.

    A word that is wider than the width stays in one piece, because it is a path or an id that is copied.
    """
    if columns_of(line) <= width:
        return [line]
    found = _LABEL.match(line)
    label = found.end() if found else 0
    if width - label < _MIN_TEXT:
        label = len(line) - len(line.lstrip())
    return _wrap(line, width, " " * label)
