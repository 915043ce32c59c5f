"""Which options do several commands share, which cases do they select, and which progress do they show?

Every command imports this module first, so it imports almost nothing at its top. A terminal gets a bar, a log a few
plain lines. Both go to stderr, because reports go to stdout.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import click

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.quality import CaseCalibration, Score, Uncalibrated, Unplanted
    from precreg.types import Case, CaseResult, ComparedPair, RunRecord


class CaseOptions(NamedTuple):
    """Hold the selection of cases. Each kind of option narrows it."""

    patterns: tuple[str, ...]
    tiers: tuple[str, ...]
    suites: tuple[str, ...]
    tags: tuple[str, ...]
    changed_since: str | None


class DriftOptions(NamedTuple):
    """Hold the options of `precreg drift`. `place` names the history; None means the project's own."""

    patterns: tuple[str, ...]
    place: str | None
    anchor: str | None
    window: int
    materiality: float
    confirm: int
    environment: str | None
    output: Path | None
    hindsight: bool


class CompareSides(NamedTuple):
    """Hold the paths of two sides; with `golden` the reference has the dtype of the actual."""

    actual: Path
    reference: Path
    golden: bool


class RawOptions(NamedTuple):
    """Hold the layout of raw files, which have no header; None without the option."""

    dtype: str | None
    reference_dtype: str | None
    shape: tuple[int, ...] | None
    byte_order: Literal["little", "big"]


class CompareOutputs(NamedTuple):
    """Hold the files of the record and the page, None without one; `-` is stdout."""

    json: Path | None
    report: Path | None


# The values of types.TIERS, whose import would delay a run with nothing to do. A test compares them.
TIER_CHOICES = ("unit", "integration", "model")


def _take_thresholds(context: click.Context, _option: click.Parameter, file: Path | None) -> None:
    """Give the file to the variable PRECISION_THRESHOLDS, which all reading of suites takes, until the command ends.

    Raises UserError: bad-thresholds, if the variable has thresholds already.
    """
    if file is None:
        return
    if os.environ.get(_THRESHOLDS, "").strip():
        message = f"expected --config or the variable {_THRESHOLDS} but got both"
        raise UserError("bad-thresholds", message)
    # The file alone, so that an error names it with its line. It is absolute, for a command that changes its folder.
    os.environ[_THRESHOLDS] = f"@{file.absolute()}"
    context.call_on_close(lambda: os.environ.pop(_THRESHOLDS, None))


# tolerance.THRESHOLDS_VARIABLE, whose import would delay a run with nothing to do. A test compares them.
_THRESHOLDS = "PRECISION_THRESHOLDS"
config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    expose_value=False,
    callback=_take_thresholds,
    help=f"Thresholds in YAML or JSON, as the variable {_THRESHOLDS} has them.",
)

_OPTIONS = (
    click.argument("patterns", nargs=-1, metavar="[PATTERN]..."),
    click.option("--tier", "--level", "tiers", multiple=True, type=click.Choice(TIER_CHOICES), help="Only this tier."),
    click.option("--suite", "--model", "suites", multiple=True, metavar="NAME", help="Only this suite, or model."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only cases with this tag."),
    click.option("--changed-since", metavar="REVISION", help="Only cases whose files differ from a git revision."),
    config_option,
)


def selection_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add PATTERN..., --tier, --suite, --tag, --changed-since and --config; the command gets `case_options`."""

    @wraps(command)
    def with_case_options(
        *given: Any,
        patterns: tuple[str, ...],
        tiers: tuple[str, ...],
        suites: tuple[str, ...],
        tags: tuple[str, ...],
        changed_since: str | None,
        **others: Any,
    ) -> None:
        command(*given, case_options=CaseOptions(patterns, tiers, suites, tags, changed_since), **others)

    # click applies decorators from the inside out: the last one comes first in --help.
    for option in reversed(_OPTIONS):
        with_case_options = option(with_case_options)
    return with_case_options


def project_of_option(given: Path | None) -> Path:
    """Return the folder of --project, or the nearest folder from here upward that has suites/."""
    from precreg.storage import find_project

    # A folder above counts as well, so that a command works in any folder of the project, as git does.
    return find_project(given or Path.cwd())


def select_by_options(
    project: Path, every: list[Case], case_options: CaseOptions, changed: Set[str] | None = None
) -> list[Case]:
    """Return the selected cases in their order. Raises UserError for a name that no case has.

    `changed` are the files that changed since the revision of --changed-since; by default git lists them.
    """
    from precreg.suite import Selection, select_cases
    from precreg.vcs import affected_cases, changed_files, unclaimed_files

    since = case_options.changed_since
    selection = Selection(case_options.tiers, case_options.suites, case_options.patterns, case_options.tags)
    # The selection first: a name that no case has is an error, even if nothing changed.
    cases = select_cases(every, selection)
    if since is None:
        return cases
    if changed is None:
        changed = changed_files(project, since)
        warn_of_unclaimed(unclaimed_files(every, changed, project))
    return affected_cases(cases, changed, project)


def warn_of_unclaimed(files: Iterable[str]) -> bool:
    """Print the changed files that belong to no case to stderr, and return whether there are any."""
    from precreg.report import describe_unclaimed_files
    from precreg.vcs import MAX_UNCLAIMED

    names = sorted(files)
    if names:
        shown = names[:MAX_UNCLAIMED]
        click.echo(f"precreg: warning: {describe_unclaimed_files(shown, len(names) - len(shown))}", err=True)
    return bool(names)


format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "github"]),
    default="text",
    help="Of the output. github adds annotations, and appends summary.md to GITHUB_STEP_SUMMARY.",
)


def print_summary(record: RunRecord, written: Sequence[Path], *, verbose: bool, output_format: str) -> None:
    """Print the summary of a run, in a format of `format_option`."""
    from precreg.report import append_step_summary, render_github, render_run_terminal

    text = render_run_terminal(record, colour=sys.stdout.isatty(), verbose=verbose, reports=written)
    if output_format == "github":
        append_step_summary(record, os.environ)
        text = render_github(record, text)
    click.echo(text, nl=False)


def parse_shard(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """Return (i, n) of `i/n`, or of GitLab's variables without a text. Raises UserError (bad-shard)."""
    if text is None:
        return shard_of_job(os.environ)
    return _read_shard(text, f"shard={text}")


def shard_of_job(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return (i, n) of a job's CI_NODE_INDEX and CI_NODE_TOTAL; None if the job is the only one.

    Raises UserError (bad-shard).
    """
    index, count = environ.get("CI_NODE_INDEX", ""), environ.get("CI_NODE_TOTAL", "")
    # GitLab sets CI_NODE_TOTAL=1, and no index, in jobs without `parallel`.
    if not index and count in ("", "1"):
        return None
    shard = _read_shard(f"{index}/{count}", f"CI_NODE_INDEX={index} and CI_NODE_TOTAL={count}")
    # A whole run reports unused baselines, which a shard cannot know. So 1/1 counts as a whole run.
    return None if shard == (1, 1) else shard


def _read_shard(text: str, received: str) -> tuple[int, int]:
    # Nine digits keep int() fast for any text; no run has more shards.
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UserError("bad-shard", f"expected i/n with 1 <= i <= n but got {received}")
    return int(found[1]), int(found[2])


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
