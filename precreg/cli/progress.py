"""How far a run is: a bar on a terminal, a few plain lines in a log. Both go to stderr, reports to stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import click

from precreg.records import CaseResult
from precreg.types import Status

LINES_IN_A_LOG = 10


def shown(results: Iterable[CaseResult], total: int) -> Iterator[CaseResult]:
    """Pass results through, and show how far the run is."""
    return _with_bar(results, total) if sys.stderr.isatty() else _with_lines(results, total)


def _with_bar(results: Iterable[CaseResult], total: int) -> Iterator[CaseResult]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        for result in results:
            progress.update(task, advance=1, description=_line(result))
            yield result


def _with_lines(results: Iterable[CaseResult], total: int) -> Iterator[CaseResult]:
    step = max(1, total // LINES_IN_A_LOG)
    for done, result in enumerate(results, 1):
        if result.verdict.status in (Status.FAILED, Status.ERROR):
            click.echo(_line(result), err=True)
        if done % step == 0 or done == total:
            click.echo(f"{done} of {total} cases", err=True)
        yield result


def _line(result: CaseResult) -> str:
    return f"{result.verdict.status} {result.id} {result.verdict.reason}"
