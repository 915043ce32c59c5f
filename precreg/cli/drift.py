"""`precreg drift`: the options. What it does is in drifting.py, so that nothing is imported in vain.

What `precreg drift` does: reads the history, judges, reports. Apart from drift.py, so that help starts at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.history import history_option
from precreg.cli.options import DriftOptions, project_of_option
from precreg.errors import UserError
from precreg.report import render_drift_terminal

if TYPE_CHECKING:
    from precreg.history import History, HistoryRun
    from precreg.history.drift import Anchor, DriftRecord, DriftSettings


def _finite(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuse what no change is larger than: a monitor that can find nothing would be content."""
    if not isfinite(value):
        raise click.BadParameter(f"{value} is not finite.", context, parameter)
    return value


@click.command("drift")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@history_option
@click.option("--anchor", metavar="REVISION", help="A frozen point, such as a release tag, of which there is a run.")
@click.option("--window", type=click.IntRange(8, 400), default=60, show_default=True, help="Recent runs that count.")
@click.option(
    "--materiality",
    type=click.FloatRange(1, min_open=True),
    callback=_finite,
    default=1.02,
    show_default=True,
    help="The ratio beyond which a change matters.",
)
@click.option("--confirm", type=click.IntRange(1), default=2, show_default=True, help="Runs that a change must last.")
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Default: that of the newest run.")
@click.option("--output", type=click.Path(path_type=Path), help="The folder of the reports; reports/drift.")
@click.option(
    "--junit-dialect",
    type=click.Choice(["gitlab", "strict"]),
    default="gitlab",
    expose_value=False,
    help="As of precreg run; here both are the same.",
)
@click.pass_obj
def drift_command(given: Path | None, /, **options: object) -> None:
    """Tell whether metrics drift: against what was accepted, an anchor, and the recent runs of the history.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? []. Exit codes: 1 something drifts; 2 something
    could not be judged; 0 otherwise.
    """
    asked = DriftOptions(**options)  # type: ignore[arg-type]
    if 2 * asked.confirm > asked.window:
        got = f"window={asked.window}, confirm={asked.confirm}"
        raise click.UsageError(f"expected a window of at least twice the runs that confirm a change but got {got}")
    sys.exit(judge_and_report(project_of_option(given), asked))


WINDOWS_READ = 4
"""Windows of runs that are read: machines may take turns, and then only every second or third run is compared."""


def judge_and_report(project: Path, options: DriftOptions) -> int:
    """Judge the history of one environment, write reports, print the summary, and return the exit code."""
    from precreg.cli.history import open_project_history
    from precreg.cli.options import reports_folder
    from precreg.report import make_reports_folder, write_drift_reports

    folder = options.output or reports_folder(project) / "drift"
    make_reports_folder(folder)
    with open_project_history(project, options.place) as history, history.one_state():
        record = _record(project, history, options)
    written = write_drift_reports(record, folder)
    click.echo(render_drift_terminal(record, colour=sys.stdout.isatty(), reports=written), nl=False)
    return record.exit_code


def _record(project: Path, history: History, options: DriftOptions) -> DriftRecord:
    from precreg import __version__
    from precreg.history.drift import (
        DRIFT_SCHEMA,
        DriftRecord,
        DriftSettings,
        drift_exit_code,
        find_anchor,
        judge_series,
    )

    settings = DriftSettings(options.window, options.confirm, options.materiality)
    every = history.runs()
    environment = options.environment or (every[-1].environment if every else "")
    runs = [run for run in every if run.environment == environment]
    if not runs:
        labels = ", ".join(sorted({run.environment for run in every}))
        there = f"a run of environment {environment} in the history; there are runs of {labels}"
        raise UserError("empty-history", f"expected {there if every else 'a run in the history, which has none'}")
    anchor = None if options.anchor is None else find_anchor(options.anchor, _commit(project, options.anchor), runs)
    runs = _to_read(runs, anchor, settings)
    found = judge_series(
        history.series(environment, since=runs[0].number, cases=options.patterns), runs, anchor, settings
    )
    if not found.results and options.patterns:
        raise UserError("nothing-selected", f"expected a case of the history to match but got {options.patterns}")
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
    )


def _commit(project: Path, revision: str) -> str | None:
    """Return the commit of a revision; None where no repository knows it, and the name may be a run's."""
    from precreg.vcs import commit_of

    try:
        return commit_of(project, revision)
    except UserError as problem:
        if problem.slug not in ("no-git", "unknown-revision"):
            raise
        return None


def _to_read(runs: Sequence[HistoryRun], anchor: Anchor | None, settings: DriftSettings) -> list[HistoryRun]:
    """Leave out what is too old to matter, but for what came after the anchor."""
    first = max(0, len(runs) - WINDOWS_READ * settings.window)
    of_anchor = () if anchor is None else anchor.runs
    return list(runs[min([first, *(at for at, run in enumerate(runs) if run.number in of_anchor)]) :])


def _other_environments(every: Sequence[HistoryRun], environment: str, options: DriftOptions) -> tuple[str, ...]:
    """Return the labels of runs that are not judged; none where the user named the one to judge."""
    return () if options.environment is not None else tuple(sorted({run.environment for run in every} - {environment}))
