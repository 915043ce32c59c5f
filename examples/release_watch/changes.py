"""Which releases changed the precision of a function? This module reads figures/ alone."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from packaging.version import Version

from functions import watched_functions

FIGURES = Path(__file__).parent / "figures"
PACKAGES = ("numpy", "scipy", "onnxruntime")
# Smaller changes of a mean error hardly matter. This is also the ratio by which precreg judges recorded figures.
MIN_RATIO = 1.1
# A ratio must lie so many standard errors from 1. These are approximate: elements of `cumsum`, for one, correlate.
STANDARD_ERRORS = 4
Row = dict[str, str]


@dataclass(frozen=True)
class Change:
    """Hold one change of precision: the rows before and after, and the figure that is compared."""

    package: str
    before: Row
    after: Row
    figure: str

    @property
    def ratio(self) -> float:
        """Return the error after, divided by the error before."""
        before, after = float(self.before[self.figure]), float(self.after[self.figure])
        return math.inf if before == 0 else after / before

    @property
    def is_loss(self) -> bool:
        """Return whether the errors grew."""
        return self.ratio > 1


@cache
def stored_rows(package: str) -> tuple[Row, ...]:
    """Return the rows of figures/PACKAGE.csv."""
    with (FIGURES / f"{package}.csv").open(newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def described_releases() -> dict[str, Any]:
    """Return the content of figures/releases.json."""
    described: dict[str, Any] = json.loads((FIGURES / "releases.json").read_text())
    return described


def releases_of(package: str) -> list[str]:
    """Return the watched releases of a package, oldest first."""
    releases: list[str] = described_releases()["packages"][package]["releases"]
    return releases


def rows_at(package: str, release: str, dispatch: str = "all") -> dict[tuple[str, str], Row]:
    """Return the row that applies to each function and dtype at a release; a release that lacks one has no row."""
    found = {}
    for row in stored_rows(package):
        if row["dispatch"] == dispatch and Version(row["release"]) <= Version(release):
            found[row["function"], row["dtype"]] = row
    return {key: row for key, row in found.items() if row["output"] != "missing"}


def series_of(package: str, dispatch: str) -> Iterator[list[Row]]:
    """Yield the rows of each function and dtype, oldest first."""
    series: dict[tuple[str, str], list[Row]] = {}
    for row in stored_rows(package):
        if row["dispatch"] == dispatch:
            series.setdefault((row["function"], row["dtype"]), []).append(row)
    yield from series.values()


def standard_error(row: Row, figure: str) -> float:
    """Return the relative standard error of a figure: of a mean by its spread, of an RMS for Gaussian errors."""
    if figure == "rms_error":
        return 1 / math.sqrt(2 * int(row["n"]))
    mean, rms = float(row["mean_ulp"]), float(row["rms_ulp"])
    return 0.0 if mean == 0 else math.sqrt(max(rms**2 - mean**2, 0.0)) / mean / math.sqrt(int(row["n"]))


def is_change(before: Row, after: Row, figure: str) -> bool:
    """Return whether the figure changed by more than MIN_RATIO and more than its standard errors explain."""
    values = sorted(float(row[figure]) for row in (before, after))
    if values[0] == 0:
        return values[1] > 0
    noise = math.hypot(*(standard_error(row, figure) for row in (before, after)))
    return values[1] / values[0] > max(MIN_RATIO, 1 + STANDARD_ERRORS * noise)


def compared_figure(scales: Mapping[str, str], before: Row, after: Row) -> str:
    """Return the figure by which two rows are compared. ULPs of two dtypes are different units."""
    if before["output"] != after["output"]:
        return "rms_error"
    return "mean_ulp" if scales[after["function"]] == "elements" else "rms_error"


def changes_of(package: str, dispatch: str = "all") -> list[Change]:
    """Return the changes of precision of a package, by release, function and dtype.

    `dispatch` is "all", or "baseline" for numpy without the loops that it chooses by the CPU.
    """
    scales = {function.name: function.scale for function in watched_functions(package)}
    found = []
    for rows in series_of(package, dispatch):
        for before, after in pairwise(rows):
            if "missing" in (before["output"], after["output"]):
                continue
            figure = compared_figure(scales, before, after)
            if is_change(before, after, figure):
                found.append(Change(package, before, after, figure))
    return sorted(found, key=lambda change: Version(change.after["release"]))
