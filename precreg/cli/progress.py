"""Which progress does a run show?

A terminal gets a bar, a log a few plain lines. Both go to stderr, because reports go to stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from precreg.quality import CaseCalibration, Score, Uncalibrated, Unplanted
    from precreg.types import CaseResult, ComparedPair


# A log shows at most about so many lines of progress, however many cases run.
LINES_IN_A_LOG = 10
# A log shows no progress of fewer pairs: these are soon compared.
MIN_PAIRS_IN_A_LOG = 64

_T = TypeVar("_T")


def show_progress(results: Iterable[CaseResult], total: int) -> Iterator[CaseResult]:
    """Pass results through, and show the progress of the run."""
    if sys.stderr.isatty():
        # stderr decides and not stdout: `precreg run > log` still has a person at the terminal.
        return _with_bar(results, total, _line)
    return _with_lines(results, total, "cases", _failure)


def show_pair_progress(pairs: Iterable[ComparedPair], total: int) -> Iterator[ComparedPair]:
    """Pass compared pairs through, and show the progress of a comparison that takes longer."""
    if sys.stderr.isatty() and total > 1:
        return _with_bar(pairs, total, lambda pair: pair.name)
    if not sys.stderr.isatty() and total >= MIN_PAIRS_IN_A_LOG:
        return _with_lines(pairs, total, "pairs", lambda pair: "")
    return iter(pairs)


def show_score_progress(scores: Iterable[Score | Unplanted], total: int) -> Iterator[Score | Unplanted]:
    """Pass scores through, and show the progress of planting; at most `total` scores come."""
    if sys.stderr.isatty():
        return _with_bar(scores, total, lambda score: score.case)
    return _with_lines(scores, total, "faults", lambda score: "")


def show_calibration_progress(
    found: Iterable[CaseCalibration | Uncalibrated], total: int
) -> Iterator[CaseCalibration | Uncalibrated]:
    """Pass calibrations through, and show their progress."""
    if sys.stderr.isatty():
        return _with_bar(found, total, lambda each: each.case)
    return _with_lines(found, total, "cases", lambda each: "")


def _with_bar(items: Iterable[_T], total: int, line: Callable[[_T], str]) -> Iterator[_T]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # Case ids may have brackets, which rich would read as markup.
    text = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), text)
    # The bar disappears at the end, so the terminal has the summary alone.
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        for item in items:
            progress.update(task, advance=1, description=line(item))
            yield item


def _with_lines(items: Iterable[_T], total: int, noun: str, failure: Callable[[_T], str]) -> Iterator[_T]:
    """Print every failure at once, if `failure` gives a text, and a few times the number of items so far."""
    step = max(1, total // LINES_IN_A_LOG)
    for done, item in enumerate(items, 1):
        if text := failure(item):
            click.echo(text, err=True)
        # The last line always comes, because a job that was killed lacks it.
        if done % step == 0 or done == total:
            click.echo(f"{done} of {total} {noun}", err=True)
        yield item


def _failure(result: CaseResult) -> str:
    from precreg.types import Status

    return _line(result) if result.verdict.status in (Status.FAILED, Status.ERROR) else ""


def _line(result: CaseResult) -> str:
    return f"{result.verdict.status} {result.id} {result.verdict.reason}"
