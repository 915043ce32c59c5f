"""Which options does `precreg drift` have, and which runs of the history does it judge?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.console import color_option, has_colour, show_report, terminal_width
from precreg.cli.history import history_option
from precreg.cli.options import DriftOptions, project_of_option, require_finite
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.history import History, HistoryRun
    from precreg.history.drift import Anchor, DriftRecord, DriftSettings, HindsightRecord

# So many windows of runs are read: machines may take turns, and then only every second or third run is comparable.
WINDOWS_READ = 4


@click.command("drift")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@history_option
@click.option("--anchor", metavar="REVISION", help="A fixed commit, such as a release tag, with a run in the history.")
@click.option("--window", type=click.IntRange(8, 400), default=60, show_default=True, help="Recent runs to judge.")
@click.option(
    "--materiality",
    type=click.FloatRange(1, min_open=True),
    callback=require_finite,
    default=1.02,
    show_default=True,
    help="The smallest ratio that is relevant.",
)
@click.option("--confirm", type=click.IntRange(1), default=2, show_default=True, help="Runs that confirm a change.")
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Default: the newest run's.")
@click.option("--output", type=click.Path(path_type=Path), help="The folder of the reports; reports/drift.")
@click.option("--hindsight", is_flag=True, help="Find the changes of the whole history instead.")
@click.option(
    "--junit-dialect",
    type=click.Choice(["gitlab", "strict"]),
    default="gitlab",
    expose_value=False,
    help="As in precreg run; both give the same here.",
)
@color_option
@click.pass_obj
def drift_command(given: Path | None, /, **options: object) -> None:
    """Find metrics that drift from their baselines, from an anchor, or over the recent runs of the history.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? []. Exit codes: 1 a metric drifts; 2 a metric
    could not be judged; 0 otherwise. --hindsight lists the changes of all runs, and exits with 0.
    """
    drift_options = DriftOptions(**options)  # type: ignore[arg-type]
    if drift_options.hindsight:
        if drift_options.anchor is not None:
            raise click.UsageError(f"expected --hindsight without --anchor but got anchor={drift_options.anchor}")
        look_back_and_report(project_of_option(given), drift_options)
        return
    # Runs before and after a change both need as many runs as confirm it.
    if 2 * drift_options.confirm > drift_options.window:
        got = f"window={drift_options.window}, confirm={drift_options.confirm}"
        raise click.UsageError(f"expected a window of at least twice the runs that confirm a change but got {got}")
    sys.exit(judge_and_report(project_of_option(given), drift_options))


def judge_and_report(project: Path, options: DriftOptions) -> int:
    """Judge the history of one environment, write reports, print the summary, and return the exit code."""
    from precreg.cli.history import open_project_history
    from precreg.report import make_reports_folder, render_drift_terminal, reports_folder, write_drift_reports

    folder = options.output or reports_folder(project) / "drift"
    make_reports_folder(folder)  # first: a folder that cannot be made stops the command before the work
    # One state: a run that is added meanwhile would be in some series and not in others.
    with open_project_history(project, options.place) as history, history.one_state():
        record = _record(project, history, options)
    written = write_drift_reports(record, folder)
    colour, width = has_colour(sys.stdout), terminal_width(sys.stdout)
    click.echo(render_drift_terminal(record, colour=colour, reports=written, width=width), nl=False)
    return record.exit_code


def look_back_and_report(project: Path, options: DriftOptions) -> None:
    """Find the changes of all runs of one environment, write hindsight.json, and print the changes."""
    from precreg.cli.history import open_project_history
    from precreg.report import make_reports_folder, render_hindsight, reports_folder, write_hindsight

    folder = options.output or reports_folder(project) / "drift"
    make_reports_folder(folder)
    with open_project_history(project, options.place) as history, history.one_state():
        record = _hindsight(history, options)
    written = write_hindsight(record, folder)
    show_report(render_hindsight(record, written, terminal_width(sys.stdout)))


def _hindsight(history: History, options: DriftOptions) -> HindsightRecord:
    """Look back on every series of one environment. Raises UserError: empty-history, nothing-selected."""
    from precreg import __version__
    from precreg.history.drift import HINDSIGHT_SCHEMA, HindsightRecord, look_back

    environment, runs = _runs_of_environment(history.runs(), options)
    _require_matches(history, environment, options.patterns)
    results, series = look_back(history.series(environment, cases=options.patterns), runs, options.materiality)
    return HindsightRecord(
        schema=HINDSIGHT_SCHEMA,
        precreg=__version__,
        project=history.project,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=environment,
        materiality=options.materiality,
        runs=tuple(runs),
        series=series,
        results=results,
    )


def _require_matches(history: History, environment: str, patterns: Sequence[str]) -> None:
    """Refuse a pattern without a case, which would pass in silence. Raises UserError: nothing-selected."""
    from precreg.suite import select_names

    if patterns:
        select_names(history.cases(environment), patterns, noun=f"case of environment {environment}")


def _runs_of_environment(every: Sequence[HistoryRun], options: DriftOptions) -> tuple[str, list[HistoryRun]]:
    """Return the label to judge, and its runs. Raises UserError: empty-history."""
    # A scheduled job has just added a run, so the newest run is from its own machine.
    environment = options.environment or (every[-1].environment if every else "")
    runs = [run for run in every if run.environment == environment]
    if not runs:
        labels = ", ".join(sorted({run.environment for run in every}))
        there = f"a run of environment {environment} in the history; there are runs of {labels}"
        raise UserError("empty-history", f"expected {there if every else 'a run in the history, which has none'}")
    return environment, runs


def _record(project: Path, history: History, options: DriftOptions) -> DriftRecord:
    """Judge every series of one environment. Raises UserError: empty-history, nothing-selected."""
    from precreg import __version__
    from precreg.history.drift import (
        DRIFT_SCHEMA,
        DriftRecord,
        DriftSettings,
        drift_exit_code,
        find_anchor,
        judge_history,
    )

    settings = DriftSettings(options.window, options.confirm, options.materiality)
    every = history.runs()
    environment, runs = _runs_of_environment(every, options)
    _require_matches(history, environment, options.patterns)
    anchor = None if options.anchor is None else find_anchor(options.anchor, _commit(project, options.anchor), runs)
    # After the anchor is known: its runs may be older than the windows.
    runs = _runs_to_read(runs, anchor, settings)
    found = judge_history(history, environment, runs, anchor, settings, cases=options.patterns)
    return DriftRecord(
        schema=DRIFT_SCHEMA,
        precreg=__version__,
        project=history.project,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=environment,
        settings=settings,
        runs=tuple(runs),
        anchor=anchor,
        results=found.results,
        modes=found.modes,
        other_environments=_other_environments(every, environment, options),
        exit_code=drift_exit_code(result.state for result in found.results),
        without_points=found.without_points,
    )


def _commit(project: Path, revision: str) -> str | None:
    """Return the commit of a revision; None if no repository knows it, because it may name a run."""
    from precreg.vcs import commit_of

    try:
        return commit_of(project, revision)
    except UserError as problem:
        # Other errors, such as a damaged repository, must not turn a release tag into the number of a run.
        if problem.slug not in ("no-git", "unknown-revision"):
            raise
        return None


def _runs_to_read(runs: Sequence[HistoryRun], anchor: Anchor | None, settings: DriftSettings) -> list[HistoryRun]:
    """Return the runs of the last windows, and all runs since the anchor."""
    first = max(0, len(runs) - WINDOWS_READ * settings.window)
    of_anchor = () if anchor is None else anchor.runs
    return list(runs[min([first, *(at for at, run in enumerate(runs) if run.number in of_anchor)]) :])


def _other_environments(every: Sequence[HistoryRun], environment: str, options: DriftOptions) -> tuple[str, ...]:
    """Return the labels of the environments that are not judged, if the user did not choose one."""
    # Without the option the newest run chooses the environment, which a person may not expect.
    return () if options.environment is not None else tuple(sorted({run.environment for run in every} - {environment}))
