"""How do changes of baselines read, one by one and by the hundred?

A reviewer sees totals, then a line for each suite, then the largest changes. A Markdown table for a merge request has
the same, and stays short. Losses come first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from precreg.baseline import CHANGE_KINDS, BaselineChange, ChangeKind
from precreg.report.describe import count_cases, strip_controls
from precreg.report.layout import format_columns
from precreg.report.summaries import escape_markdown, markdown_code
from precreg.types import format_distinct

# Cases and suites that a merge request shows: two screens. GitLab accepts a million characters in a note.
MAX_CHANGED_CASES = 20
MAX_CHANGED_SUITES = 20
# Reasons of one suite that fit into a cell.
_MAX_REASONS = 2

_KIND_WORDS: dict[ChangeKind, str] = {
    "worse": "worse",
    "removed": "removed",
    "redefined": "redefined",
    "new": "new",
    "better": "better",
    "bits": "with other bits alone",
}
_COLUMNS = ("case", "metric", "old", "new", "ratio", "reason")
_SUITE_COLUMNS = ("suite", "cases", "worse", "better", "other", "largest change", "reason")


class ChangeRow(NamedTuple):
    """Hold the cells of one changed case: its metric that changed most, with the figures before and after."""

    case: str
    metric: str
    old: str
    new: str
    ratio: str
    reason: str


def change_row(change: BaselineChange) -> ChangeRow:
    """Return the cells of a changed case."""
    main, kind = change.main, change.kind
    if main is None or kind in ("removed", "new", "redefined"):
        return ChangeRow(change.place.id, "", "", "", _KIND_WORDS[kind], change.reason)
    old, new = (figure or "undefined" for figure in format_distinct([main.old, main.new]))
    ratio = "" if main.ratio is None else f"{format_distinct([main.ratio, 1.0], 3)[0]}x"
    metric = f"{main.output}: {main.metric}"
    return ChangeRow(change.place.id, metric, old, new, " ".join(filter(None, (ratio, kind))), change.reason)


def count_changes(changes: Sequence[BaselineChange]) -> str:
    """Return the totals: "500 cases (412 worse, 88 better)"."""
    kinds = Counter(change.kind for change in changes)
    parts = [f"{kinds[kind]} {_KIND_WORDS[kind]}" for kind in CHANGE_KINDS if kinds[kind]]
    return count_cases(len(changes)) + (f" ({', '.join(parts)})" if parts else "")


def _suite_rows(changes: Sequence[BaselineChange]) -> list[list[str]]:
    """Return a row for each suite, in the order of their largest changes."""
    suites: dict[str, list[BaselineChange]] = {}
    for change in changes:
        suites.setdefault(change.place.suite, []).append(change)
    return [[*_suite_cells(suite, of_suite)] for suite, of_suite in suites.items()]


def _suite_cells(suite: str, changes: Sequence[BaselineChange]) -> Iterator[str]:
    kinds = Counter(change.kind for change in changes)
    counted = kinds["worse"], kinds["better"], len(changes) - kinds["worse"] - kinds["better"]
    largest = change_row(changes[0])
    name = largest.case.removeprefix(f"{suite}/")
    reasons = [reason for reason, _ in Counter(change.reason for change in changes).most_common()]
    more = f" and {len(reasons) - _MAX_REASONS} more" if len(reasons) > _MAX_REASONS else ""
    yield from (suite, str(len(changes)), *map(str, counted))
    yield f"{name}: {' '.join(filter(None, (largest.metric, largest.ratio)))}"
    yield "; ".join(filter(None, reasons[:_MAX_REASONS])) + more


def render_changes_terminal(
    changes: Sequence[BaselineChange],
    *,
    everything: bool = False,
    max_cases: int = MAX_CHANGED_CASES,
    width: int | None = None,
) -> list[str]:
    """Return the lines of changes, the largest first; `everything` leaves no case out. None as width wraps no cell."""
    shown = [[*map(strip_controls, change_row(change))] for change in (changes if everything else changes[:max_cases])]
    lines = format_columns(_COLUMNS, shown, len(shown), width) if shown else []
    if len(shown) < len(changes):
        suites = [[*map(strip_controls, row)] for row in _suite_rows(changes)]
        lines = [*format_columns(_SUITE_COLUMNS, suites, MAX_CHANGED_SUITES, width), "", "the largest changes:", *lines]
    return lines


def render_changes_markdown(
    changes: Sequence[BaselineChange], *, since: str = "", everything: bool = False, command: str = ""
) -> str:
    """Return the changes as Markdown for a merge request. `since` is a commit; `command` lists the cases left out."""
    place = f" since {markdown_code(since[:8])}" if since else ""
    title = f"### Baselines: {count_changes(changes) if changes else f'no figure changed{place}'}"
    if not changes:
        return f"{title}\n"
    shown = changes if everything else changes[:MAX_CHANGED_CASES]
    table = _markdown_table(_COLUMNS, [_markdown_row(change) for change in shown])
    if len(shown) == len(changes):
        return f"{title}{place}\n\n{table}\n"
    suites = _suite_rows(changes)
    by_suite = [[markdown_code(suite), *map(escape_markdown, cells)] for suite, *cells in suites[:MAX_CHANGED_SUITES]]
    parts = [f"{title}{place}", _markdown_table(_SUITE_COLUMNS, by_suite)]
    if len(suites) > MAX_CHANGED_SUITES:
        parts.append(f"And {len(suites) - MAX_CHANGED_SUITES} more suites.")
    # GitLab and GitHub render Markdown inside <details> only after an empty line.
    parts += [f"<details><summary>The {len(shown)} largest changes</summary>", table, "</details>"]
    rest = f"And {count_cases(len(changes) - len(shown))} more"
    parts.append(f"{rest}: {markdown_code(command)}" if command else rest)
    return "\n\n".join(parts) + "\n"


def _markdown_row(change: BaselineChange) -> list[str]:
    row = change_row(change)
    return [markdown_code(row.case), *map(escape_markdown, row[1:])]


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["|" + "".join(f" {cell} |" for cell in cells) for cells in (columns, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])
