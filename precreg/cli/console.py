"""Which colour, width and progress does the terminal get?

A terminal gets a bar, a log a few plain lines. Both go to stderr, because reports go to stdout.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from shutil import get_terminal_size
from time import perf_counter
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from precreg.errors import UserError

if TYPE_CHECKING:
    from rich.progress import Progress, Task
    from rich.text import Text

    from precreg.quality import CaseCalibration, Score, Uncalibrated, Unplanted
    from precreg.report import Verbosity
    from precreg.types import CaseResult, ComparedPair, RunRecord

# A log shows at most about so many lines of progress, however many cases run.
LINES_IN_A_LOG = 10
# A log shows no progress of fewer pairs: these are soon compared.
MIN_PAIRS_IN_A_LOG = 64
# A window of fewer columns wraps as one of so many: a table of one word a line helps nobody.
MIN_WIDTH = 40
_STARTED = "precreg.started"
_QUIET = "precreg.quiet"

_T = TypeVar("_T")


def colour_of_variables() -> bool | None:
    """Return the colour that NO_COLOR and FORCE_COLOR choose; None without them, where the stream decides."""
    # https://no-color.org and https://force-color.org: an empty variable does not count.
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR", "0") not in ("", "0") else None


def _choose_colour(context: click.Context, _option: click.Parameter, choice: str | None) -> None:
    # click removes the colours from the output of a pipe unless the context has colour. Commands inherit it.
    if choice is not None:
        context.color = colour_of_variables() if choice == "auto" else choice == "always"


color_option = click.option(
    "--color",
    "--colour",
    type=click.Choice(["auto", "always", "never"]),
    expose_value=False,
    callback=_choose_colour,
    help="Default: auto, colours on a terminal, unless the variables NO_COLOR or FORCE_COLOR decide.",
)


def _note_quiet(context: click.Context, _option: click.Parameter, quiet: bool) -> None:
    context.meta[_QUIET] = quiet


def quiet_option(shown: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option --quiet, which turns progress off; `shown` is the rest of its help."""
    return click.option(
        "--quiet", "-q", is_flag=True, expose_value=False, callback=_note_quiet, help=f"No progress{shown}."
    )


def verbosity_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --verbose and --quiet; the command gets `verbosity`. Raises UserError (bad-value) for both."""

    @wraps(command)
    def with_verbosity(*given: Any, verbose: bool, **others: Any) -> None:
        if verbose and is_quiet():
            message = "expected --verbose or --quiet but got both"
            raise UserError("bad-value", message, hint="leave one of them out: precreg run --quiet")
        command(*given, verbosity="verbose" if verbose else "quiet" if is_quiet() else "normal", **others)

    shown = "Show every case on its own, and those that passed, too."
    with_quiet = quiet_option(", and a line for each group of failures before the exit line")(with_verbosity)
    return click.option("--verbose", "-v", is_flag=True, help=shown)(with_quiet)


def is_quiet() -> bool:
    """Return whether the command has --quiet."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(_QUIET, False)


def start_clock(context: click.Context) -> None:
    """Start the time that `seconds_taken` returns."""
    context.meta[_STARTED] = perf_counter()


def seconds_taken() -> float:
    """Return the seconds since the command began, with its loading."""
    began: float = click.get_current_context().meta[_STARTED]
    return perf_counter() - began


def has_colour(stream: IO[Any]) -> bool:
    """Return whether a stream gets colours."""
    chosen = click.get_current_context().color
    return _is_smart(stream) if chosen is None else chosen


def _is_smart(stream: IO[Any]) -> bool:
    """Return whether a stream is a terminal that obeys control sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def terminal_width(stream: IO[Any]) -> int | None:
    """Return the columns of a terminal; None for a pipe or a file, whose lines do not wrap."""
    return max(MIN_WIDTH, get_terminal_size().columns) if stream.isatty() else None


def show_report(text: str, *, err: bool = False) -> None:
    """Print a report whose lines may be wider than the terminal: they wrap between words."""
    width = terminal_width(sys.stderr if err else sys.stdout)
    if width is not None:
        from precreg.report import wrap_lines

        text = "\n".join(wrap_lines(text.split("\n"), width))
    click.echo(text, err=err, nl=False)


def show_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines as `show_report` does; none of them prints nothing."""
    show_report("".join(f"{line}\n" for line in lines), err=err)


def show_stage(text: str) -> None:
    """Show a step that has no count on a terminal, until `clear_stage`."""
    if _is_smart(sys.stderr) and not is_quiet():
        # No thread moves it: workers may be forked meanwhile, and a case may not find threads of ours.
        click.echo(f"{text} ...\r", nl=False, err=True, color=True)


def clear_stage() -> None:
    """Wipe out the line of `show_stage`."""
    if _is_smart(sys.stderr) and not is_quiet():
        click.echo("\x1b[2K\r", nl=False, err=True, color=True)


def show_progress(results: Iterable[CaseResult], total: int) -> Iterator[CaseResult]:
    """Pass results through, and show the progress of the run; then its reports are written."""
    clear_stage()
    yield from _shown(results, total, "cases", _line, _failure)
    show_stage("judging the run and writing its reports")


def show_pair_progress(pairs: Iterable[ComparedPair], total: int) -> Iterator[ComparedPair]:
    """Pass compared pairs through, and show the progress of a comparison that takes longer."""
    if total < (2 if _is_smart(sys.stderr) else MIN_PAIRS_IN_A_LOG):
        return iter(pairs)
    return _shown(pairs, total, "pairs", lambda pair: pair.name)


def show_score_progress(scores: Iterable[Score | Unplanted], total: int) -> Iterator[Score | Unplanted]:
    """Pass scores through, and show the progress of planting; at most `total` scores come."""
    return _shown(scores, total, "faults", lambda score: score.case)


def show_calibration_progress(
    found: Iterable[CaseCalibration | Uncalibrated], total: int
) -> Iterator[CaseCalibration | Uncalibrated]:
    """Pass calibrations through, and show their progress."""
    return _shown(found, total, "cases", lambda each: each.case)


def _nothing(_item: object) -> str:
    return ""


def _shown(
    items: Iterable[_T],
    total: int,
    noun: str,
    line: Callable[[_T], str],
    failure: Callable[[_T], str] = _nothing,
) -> Iterator[_T]:
    if is_quiet():
        return iter(items)
    # stderr decides and not stdout: `precreg run > log` still has a person at the terminal.
    if _is_smart(sys.stderr):
        return _with_bar(items, total, line)
    return _with_lines(items, total, noun, failure)


def _with_bar(items: Iterable[_T], total: int, line: Callable[[_T], str]) -> Iterator[_T]:
    # The bar disappears at the end, so the terminal has the summary alone.
    with _progress() as progress:
        task = progress.add_task("", total=total)
        for item in items:
            progress.update(task, advance=1, description=line(item))
            yield item


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class RateColumn(ProgressColumn):
        """Show the items a second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:.3g}/s", style="progress.data.speed")

    # Case ids may have brackets, which rich would read as markup. One that is too long is cut, and never wrapped.
    text = TextColumn(
        "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    bar = BarColumn(bar_width=20)
    columns = (bar, MofNCompleteColumn(), RateColumn(), TimeRemainingColumn(), text)
    console = Console(stderr=True, no_color=click.get_current_context().color is False)
    return Progress(*columns, console=console, transient=True, expand=True)


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


format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "github"]),
    default="text",
    help="Of the output. github adds annotations, and appends summary.md to GITHUB_STEP_SUMMARY.",
)


def print_summary(
    record: RunRecord,
    written: Sequence[Path],
    *,
    verbosity: Verbosity,
    output_format: str,
    took_s: float | None = None,
) -> None:
    """Print the summary of a run, in a format of `format_option`."""
    from precreg.report import append_step_summary, render_github, render_run_terminal

    text = render_run_terminal(
        record,
        colour=has_colour(sys.stdout),
        verbosity=verbosity,
        reports=written,
        width=terminal_width(sys.stdout),
        took_s=took_s,
    )
    clear_stage()
    if output_format == "github":
        append_step_summary(record, os.environ)
        text = render_github(record, text)
    click.echo(text, nl=False)
