"""Which options does `precreg run` have, and is there anything to run?

Most runs before a push find that nothing changed. So the module imports at its top only modules that this answer needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Set
from functools import partial
from math import isnan
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from precreg.cli.console import (
    clear_stage,
    color_option,
    format_option,
    is_quiet,
    print_summary,
    seconds_taken,
    show_progress,
    show_stage,
    verbosity_options,
)
from precreg.cli.options import (
    CaseOptions,
    dask_options,
    parse_shard,
    project_of_option,
    select_by_options,
    selection_options,
    warn_of_unclaimed,
)
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.report import Language, Verbosity
    from precreg.run import Announcement, DiagnosisAnnouncement, OracleAnnouncement, PairProgress, RunRequest
    from precreg.types import Case, RunRecord


# Between two lines of progress while two versions run side by side. A log is read later.
TERMINAL_SECONDS = 10.0
LOG_SECONDS = 30.0


def _seconds(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    """Refuse NaN, which no bound of a range refuses. Raises click.BadParameter."""
    if value is not None and isnan(value):
        raise click.BadParameter(f"{value} is not a time.")
    return value


@click.command("run")
@selection_options
@click.option("--shard", metavar="I/N", callback=parse_shard, help="Part I of N; or CI_NODE_INDEX/CI_NODE_TOTAL.")
@click.option("--jobs", "-j", type=click.IntRange(0), help="Worker processes; 0 runs unprotected in this process.")
@dask_options
@click.option("--resume", is_flag=True, help="Go on with the run that was interrupted.")
@click.option("--no-cache", is_flag=True, help="Run each case, also those that no change since an earlier run touches.")
@click.option(
    "--last-failed", "--lf", is_flag=True, help="Only cases that failed or had an error in the last run's record.json."
)
@click.option(
    "--failed-first",
    "--ff",
    is_flag=True,
    help="All selected cases, those that failed in the last run before the others.",
)
@click.option("--ci/--no-ci", default=None, help="In CI a case without a baseline fails. Default: the variable CI.")
@click.option("--require", is_flag=True, help="A case whose requirements are missing is an error, not skipped.")
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Where this runs: a device's label.")
@click.option("--output", type=click.Path(path_type=Path), help="The folder of the reports; reports/ in the project.")
@click.option("--junit-dialect", type=click.Choice(["gitlab", "strict"]), default="gitlab", help="Of junit.xml.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="The language of report.html.")
@click.option(
    "--against",
    metavar="REVISION",
    default="auto",
    help="Judge by the baselines and bounds of this commit. A branch, and REVISION..., mean the merge base with HEAD."
    " Or off. Default: auto, the base of the merge request in its pipeline, and off in any other place.",
)
@click.option(
    "--pair",
    metavar="REVISION",
    default="auto",
    help="Run that version, too, side by side, and judge by it; of a branch, the merge base with HEAD; or off. Default:"
    " auto, the accepted version, for cases whose bits changed; in CI in merge requests alone.",
)
# The defaults are constants of the room run, which costs more to import than a run with nothing to do. A test compares
# the texts with them.
@click.option("--max-seeds", type=click.IntRange(0), help="In a pair: the most seeds of a case. Default: 10240.")
@click.option(
    "--pair-seconds", type=click.FloatRange(0), callback=_seconds, help="In a pair: seconds a case. Default: 20."
)
@click.option(
    "--pair-run-seconds", type=click.FloatRange(0), callback=_seconds, help="In pairs: seconds in all. Default: 300."
)
@click.option(
    "--diagnose",
    metavar="SECONDS",
    type=click.FloatRange(0, 1e6),
    callback=_seconds,
    envvar="PRECREG_DIAGNOSE",
    default=30.0,
    help="Search for the causes of failed cases, for so many seconds in all; 0 for none. Default: 30.",
)
@click.option("--strict", is_flag=True, help="Exit with 2 for a case that is not clear, or a changed file of no case.")
@color_option
@verbosity_options
@format_option
@click.pass_obj
def run_command(
    given: Path | None,
    /,
    case_options: CaseOptions,
    ci: bool | None,
    against: str,
    verbosity: Verbosity,
    output_format: str,
    **others: Any,
) -> None:
    """Run the cases, judge them against tolerances and baselines, and write reports.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? [].
    """
    from precreg.environment import in_ci, limit_blas_threads
    from precreg.vcs import base_commit, changed_files

    project = project_of_option(given)
    failed = _last_failed(project, others["output"]) if others.pop("last_failed") else None
    if failed == frozenset():
        click.echo("no case failed in the last run: no case to run")
        return
    since = case_options.changed_since
    changed = None if since is None else frozenset(changed_files(project, since))
    ci, base = in_ci(os.environ) if ci is None else ci, base_commit(project, against)
    every = None
    # A shard or a base needs all cases: HEAD may have removed one, or judge it by less.
    if changed is not None and others["shard"] is None and base is None:
        # Before suites are read: before many pushes no file of the project changed.
        if not changed:
            click.echo(f"nothing changed since {since}: no case to run")
            return
        every, unclaimed = _read_affected(project, case_options, changed)
        if every is None:
            click.echo(f"no case depends on what changed since {since}")
            if warn_of_unclaimed(unclaimed) and others["strict"]:
                sys.exit(2)
            return

    limit_blas_threads()  # before anything imports numpy, which reads the number of threads once
    language = others.pop("lang")
    pair, pair_base = _pair(project, others.pop("pair"), ci)
    chosen = {"ci": ci, "base": base, "changed": changed, "pair": pair, "pair_base": pair_base, **others}
    request = _request(project, case_options, last_failed=failed, **chosen)
    sys.exit(run_and_report(request, every, verbosity=verbosity, language=language, output_format=output_format))


def _last_failed(project: Path, output: Path | None) -> frozenset[str]:
    """Return the ids of the cases that failed in the last run. Raises UserError as `read_merged_run` does."""
    from precreg.environment import limit_blas_threads

    limit_blas_threads()  # before anything imports numpy, which reads the number of threads once
    from precreg.report import read_merged_run, reports_folder
    from precreg.types import Status

    record = read_merged_run([output or reports_folder(project)])
    failed = (Status.FAILED, Status.ERROR)
    return frozenset(result.id for result in record.results if result.verdict.status in failed)


def _failed_before(project: Path, output: Path | None) -> frozenset[str]:
    """Return the ids of the cases that failed in the last run; none before the first run, as in pytest."""
    from precreg.report import find_record, reports_folder

    # Any other problem of the record is an error, because the order would not be the requested one.
    is_recorded = find_record(output or reports_folder(project)).is_file()
    return _last_failed(project, output) if is_recorded else frozenset()


def _pair(project: Path, pair: str, ci: bool) -> tuple[str | None, str | None]:
    """Return the pair of a request, and the commit that a merge request compares with.

    Outside a merge request a job of CI has no change of its own to judge, so `auto` is off there.
    """
    from precreg.run import PAIR_AUTO, PAIR_OFF
    from precreg.vcs import base_commit

    if pair != PAIR_AUTO:
        return None if pair == PAIR_OFF else pair, None
    try:
        named = base_commit(project, PAIR_AUTO)
    except UserError as problem:
        # Only with `--against off`: otherwise the base judges, too, and its absence has ended the run.
        click.echo(f"precreg: no merge base: {problem.message}; pairing with the commits of the baselines", err=True)
        return PAIR_AUTO, None
    if named is None:
        return (None, None) if ci else (PAIR_AUTO, None)
    return PAIR_AUTO, named.commit


def _read_affected(project: Path, case_options: CaseOptions, changed: Set[str]) -> tuple[list[Case] | None, list[str]]:
    """Return all cases of the project, or None if no selected case depends on a changed file.

    In that case the changed files that belong to no case follow.
    """
    from precreg.vcs import can_be_claimed, no_case_affected

    # Names of suites, tags and cases may be misspelled, which only reading the suites shows.
    named = case_options.suites or case_options.tags or case_options.patterns
    if not named and no_case_affected(project, changed):
        return None, list(filter(can_be_claimed, changed))
    # late: they read suites, which most pushes do not need
    from precreg.vcs import load_cases_and_index, unclaimed_files

    every = load_cases_and_index(project)
    # All cases and not the selected ones: orphans and duplicate names need the whole project.
    if select_by_options(project, every, case_options, changed):
        return every, []
    return None, unclaimed_files(every, changed, project)


def _request(
    project: Path,
    case_options: CaseOptions,
    *,
    last_failed: frozenset[str] | None,
    failed_first: bool,
    output: Path | None,
    **others: Any,
) -> RunRequest:
    """Return the request of a command. Raises UserError (bad-pair) for options that exclude each other."""
    from precreg.report import reports_folder
    from precreg.run import RunRequest
    from precreg.suite import Selection

    _require_pairable(**others)
    tiers, suites, patterns, tags = case_options.tiers, case_options.suites, case_options.patterns, case_options.tags
    return RunRequest(
        project=project,
        selection=Selection(tiers, suites, patterns, tags, last_failed),
        changed_since=case_options.changed_since,
        failed_first=_failed_before(project, output) if failed_first else frozenset(),
        output=output or reports_folder(project),
        needs_journal=output is None,
        **others,
    )


def _require_pairable(*, pair: str | None, jobs: int | None, resume: bool, **others: Any) -> None:
    """Refuse options that a paired run cannot have, and options that only a paired run has."""
    from precreg.run import IN_PROCESS, PAIR_AUTO

    if pair is None:
        for name in ("max_seeds", "pair_seconds", "pair_run_seconds"):
            if others[name] is not None:
                option = f"--{name.replace('_', '-')}"
                raise UserError("bad-pair", f"expected --pair auto or --pair REVISION beside {option}")
    if pair in (None, PAIR_AUTO):
        return
    # One process can import one version of the user's module only.
    if jobs == IN_PROCESS:
        raise UserError("bad-pair", "expected worker processes, of each version its own, but got --jobs 0")
    if resume:
        raise UserError("bad-pair", "expected to run both versions side by side but got --resume: one ran before")


def run_and_report(
    request: RunRequest,
    every: list[Case] | None = None,
    *,
    verbosity: Verbosity = "normal",
    language: Language = "en",
    output_format: str = "text",
) -> int:
    """Run the selected cases, print progress and the summary, and return the exit code.

    `every` are all cases of the project, if the caller has read them already. report.html opens in `language`.
    """
    from precreg.report import RUN_OUTPUTS, write_reports
    from precreg.run import run_session

    def summarize(record: RunRecord, written: list[Path]) -> None:
        print_summary(record, written, verbosity=verbosity, output_format=output_format, took_s=seconds_taken())

    outputs = RUN_OUTPUTS._replace(write=partial(write_reports, language=language))
    show_stage("reading the suites")
    try:
        record = run_session(
            request, outputs, progress=show_progress, summarize=summarize, announce=_PairMessages(), every=every
        )
    finally:
        # Otherwise an error would begin behind the text of a stage.
        clear_stage()
    return record.exit_code


class _PairMessages:
    """Print the budgets of a pair and of diagnoses to stderr, and a pair's progress every few seconds."""

    def __init__(self) -> None:
        self._printed = monotonic()

    def __call__(self, event: Announcement | PairProgress | OracleAnnouncement | DiagnosisAnnouncement) -> None:
        """Print an announcement at once, and progress if the last line is old enough."""
        from precreg.run import Announcement, DiagnosisAnnouncement, OracleAnnouncement

        if is_quiet():
            return
        seconds = TERMINAL_SECONDS if sys.stderr.isatty() else LOG_SECONDS
        if isinstance(event, Announcement):
            text = _announced(event)
        elif isinstance(event, OracleAnnouncement):
            number = "1 case" if event.cases == 1 else f"{event.cases} cases"
            text = (
                f"comparing references of {number} with references of {event.commit[:8]}, at most {event.seconds:g} s"
            )
        elif isinstance(event, DiagnosisAnnouncement):
            number = "1 failed case" if event.cases == 1 else f"{event.cases} failed cases"
            text = f"searching for the causes of {number}, at most {event.seconds:g} s"
        elif monotonic() - self._printed >= seconds:
            text = _progressed(event)
        else:
            return
        self._printed = monotonic()
        clear_stage()
        click.echo(f"precreg: {text}", err=True)


def _announced(announcement: Announcement) -> str:
    """Write which cases run by the accepted version, and the limits of their time."""
    cases, commit, budget = announcement
    number = "1 case" if cases == 1 else f"{cases} cases"
    return (
        f"{number} with other bits: running {commit[:8]} side by side, at most {budget.seeds} seeds and"
        f" {budget.case_seconds:g} s a case, {budget.run_seconds:.3g} s in all"
    )


def _progressed(progress: PairProgress) -> str:
    done, cases, look, seconds, limit = progress
    time = f"{seconds:.0f} s of at most {limit:.0f} s"
    if not look:
        return f"{done} of {cases} cases ran by the other version on their own seeds; {time}"
    return f"{done} of {cases} cases judged side by side, the others on {look} fresh seeds; {time}"
