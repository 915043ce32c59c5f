"""Write the tables of docs/release_watch.md from figures/: python page.py."""

from __future__ import annotations

import csv
import sys
from functools import cache
from pathlib import Path

from changes import FIGURES, PACKAGES, Change, Row, changes_of, described_releases, releases_of, series_of
from threads import threads_of

PAGE = Path(__file__).parents[2] / "docs" / "release_watch.md"
BEGIN, END = "<!-- tables of examples/release_watch/page.py -->\n", "<!-- end of the tables -->\n"
TITLES = {"numpy": "numpy", "scipy": "scipy", "onnxruntime": "ONNX Runtime"}
FIGURE_NAMES = {"mean_ulp": "mean ULP", "rms_error": "RMS error"}


@cache
def hindsight_points(package: str) -> frozenset[tuple[str, str, str]]:
    """Return release, function and dtype of the change points that `precreg drift --hindsight` found."""
    with (FIGURES / f"{package}.changes.csv").open(newline="") as file:
        return frozenset((row["release"], row["function"], row["dtype"]) for row in csv.DictReader(file))


def place_of(row: Row) -> tuple[str, str, str]:
    """Return where a change is: release, function and dtype."""
    return row["release"], row["function"], row["dtype"]


def short(text: str) -> str:
    """Return a stored figure with 3 significant digits."""
    return f"{float(text):.3g}"


def change_line(change: Change) -> str:
    """Write a change as a line of the table."""
    before, after = change.before, change.after
    dtype = after["dtype"]
    if before["output"] != after["output"]:
        dtype += f" ({before['output']} → {after['output']})"
    cells = [
        f"`{after['function'].removeprefix(change.package + '.')}`",
        dtype,
        FIGURE_NAMES[change.figure],
        f"{short(before[change.figure])} → {short(after[change.figure])}",
        f"{change.ratio:.3g}",
        f"{short(before['max_ulp'])} → {short(after['max_ulp'])}",
        f"{after['changed']} of {after['n']}",
        " ".join(threads_of(change)) or "none found",
    ]
    return f"| {' | '.join(cells)} |"


def release_lines(title: str, changes: list[Change]) -> list[str]:
    """Write the table of one release, losses first, largest first."""
    losses = sum(change.is_loss for change in changes)
    numbers = ((losses, "lost"), (len(changes) - losses, "gained"))
    counted = " and ".join(f"{count} {word}" for count, word in numbers if count)
    return [
        f"### {title}: {counted}",
        "",
        "| function | dtype | figure | before → after | ratio | max ULP | changed bits | thread |",
        "|---|---|---|---|---|---|---|---|",
        *map(change_line, sorted(changes, key=lambda change: -change.ratio)),
        "",
    ]


def package_lines(package: str, dispatch: str, note: str) -> list[str]:
    """Write the tables of the releases of a package."""
    changes = changes_of(package, dispatch)
    return [
        line
        for release in dict.fromkeys(change.after["release"] for change in changes)
        for line in release_lines(
            f"{TITLES[package]} {release}{note}", [change for change in changes if change.after["release"] == release]
        )
    ]


def summary_line(package: str) -> str:
    """Write a package's line of the first table."""
    releases, changes = releases_of(package), changes_of(package)
    series = list(series_of(package, "all"))
    bits = sum(bool(row["changed"]) for rows in series for row in rows)
    losses = sum(change.is_loss for change in changes)
    found = sum(place_of(change.after) in hindsight_points(package) for change in changes)
    cells = [
        f"{TITLES[package]} {releases[0]} to {releases[-1]}",
        str(len(releases)),
        str(len({rows[0]["function"].split(" ")[0] for rows in series})),
        str(len(series)),
        str(bits),
        str(losses),
        str(len(changes) - losses),
        f"{found} of {len(changes)}",
    ]
    return f"| {' | '.join(cells)} |"


def page_tables() -> str:
    """Return the tables of the page, from the stored figures alone."""
    lines = [
        f"The machine: {described_releases()['cpu']}.",
        "",
        "| releases | watched | functions | with dtypes | bits changed | losses | gains | found by `precreg drift` |",
        "|---|---|---|---|---|---|---|---|",
        *map(summary_line, PACKAGES),
        "",
    ]
    for package in PACKAGES:
        lines += package_lines(package, "all", "")
    lines += package_lines("numpy", "baseline", " without loops chosen by the CPU")
    return "\n".join(lines)


def main() -> None:
    """Replace the tables of the page, or of another page that is named."""
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    text = page.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    page.write_text(head + BEGIN + "\n" + page_tables() + "\n" + END + tail)


if __name__ == "__main__":
    main()
