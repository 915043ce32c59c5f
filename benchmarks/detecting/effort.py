"""How many fresh seeds and seconds does a changed case take, and how often is the end not clear?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from detecting.pairs import Paired
from detecting.rules import DEFAULT, DEFAULT_ELSEWHERE
from detecting.table import Labels, column, in_markdown, parts, share
from detecting.trials import Told

HEADER = (
    "",
    "cases",
    "on own seeds",
    "seeds: median",
    "90 %",
    "mean",
    "seconds: median",
    "90 %",
    "not clear",
)
ROWS = {"harmful": "all", "below 1.5": "<1.5", "worse in tails": "tails", "not worse": "alarms, other bits"}


def tables(rows: Sequence[Told], labels: Labels, show: Callable[[Sequence[str]], str]) -> Iterator[str]:
    """Yield a table for each rule that draws fresh seeds, of changed cases by label, for each group of operators."""
    for rule in (DEFAULT, DEFAULT_ELSEWHERE):
        drawn = [one for one in rows if rule in one.pairs and not one.same_bits]
        if not drawn:
            continue
        yield f"\nfresh seeds of {rule}, and seconds of one core for both versions and the reference, by changed case"
        for title, found in parts(drawn):
            yield f"\n{title}\n" if show is in_markdown else f"\n{title}"
            yield from map(_line if show is not in_markdown else show, _table(rule, found, labels))


def _table(rule: str, rows: Sequence[Told], labels: Labels) -> Iterator[Sequence[str]]:
    yield HEADER
    for title, name in ROWS.items():
        yield [title, *cells([one.pairs[rule] for one in rows if column(name, labels)(one)])]
    yield ["every change", *cells([one.pairs[rule] for one in rows])]


def _line(cells: Sequence[str]) -> str:
    widths = [max(len(name), 7) + 2 for name in HEADER[1:]]
    return f"{cells[0]:16}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells[1:], widths, strict=True))


def cells(ends: Sequence[Paired]) -> list[str]:
    """Return the cells of some changed cases; a case that ends on its own seeds takes no fresh seed."""
    if not ends:
        return ["0", *["-"] * (len(HEADER) - 2)]
    seeds, seconds = sorted(end.seeds for end in ends), sorted(end.seconds for end in ends)
    middle, most = len(ends) // 2, len(ends) * 9 // 10
    return [
        str(len(ends)),
        share([not end.seeds for end in ends]),
        str(seeds[middle]),
        str(seeds[most]),
        f"{fmean(seeds):.0f}",
        f"{seconds[middle]:.2g}",
        f"{seconds[most]:.2g}",
        share([end.end == "not_clear" for end in ends]),
    ]
