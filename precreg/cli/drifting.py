"""What `precreg drift` does: reads the history, judges, reports. Apart from drift.py, so that help starts at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg import __version__
from precreg.cli.history_place import open_project_history
from precreg.cli.options import DriftOptions
from precreg.cli.selecting import reports_folder
from precreg.errors import UserError
from precreg.history.drift.monitor import find_anchor, judge
from precreg.history.drift.record import DRIFT_SCHEMA, Anchor, DriftRecord, Settings, exit_code
from precreg.report import report_drift_terminal as terminal
from precreg.report.report_drift_files import write_drift_reports
from precreg.report.report_files import make_folder
from precreg.vcs.command import commit_of

if TYPE_CHECKING:
    from precreg.history.series import Run
    from precreg.history.store import History


WINDOWS_READ = 4
"""Windows of runs that are read: machines may take turns, and then only every second or third run is compared."""


def judge_and_report(project: Path, options: DriftOptions) -> int:
    """Judge the history of one environment, write reports, print the summary, and return the exit code."""
    folder = options.output or reports_folder(project) / "drift"
    make_folder(folder)
    with open_project_history(project, options.place) as history, history.one_state():
        record = _record(project, history, options)
    written = write_drift_reports(record, folder)
    click.echo(terminal.render(record, colour=sys.stdout.isatty(), reports=written), nl=False)
    return record.exit_code


def _record(project: Path, history: History, options: DriftOptions) -> DriftRecord:
    settings = Settings(options.window, options.confirm, options.materiality)
    every = history.runs()
    environment = options.environment or (every[-1].environment if every else "")
    runs = [run for run in every if run.environment == environment]
    if not runs:
        labels = ", ".join(sorted({run.environment for run in every}))
        there = f"a run of environment {environment} in the history; there are runs of {labels}"
        raise UserError("empty-history", f"expected {there if every else 'a run in the history, which has none'}")
    anchor = None if options.anchor is None else find_anchor(options.anchor, _commit(project, options.anchor), runs)
    runs = _to_read(runs, anchor, settings)
    found = judge(history.series(environment, since=runs[0].number, cases=options.patterns), runs, anchor, settings)
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
        warnings=_warnings(every, environment, options),
        exit_code=exit_code(result.state for result in found.results),
    )


def _commit(project: Path, revision: str) -> str | None:
    """Return the commit of a revision; None where no repository knows it, and the name may be a run's."""
    try:
        return commit_of(project, revision)
    except UserError as problem:
        if problem.slug not in ("no-git", "unknown-revision"):
            raise
        return None


def _to_read(runs: Sequence[Run], anchor: Anchor | None, settings: Settings) -> list[Run]:
    """Leave out what is too old to matter, but for what came after the anchor."""
    first = max(0, len(runs) - WINDOWS_READ * settings.window)
    of_anchor = () if anchor is None else anchor.runs
    return list(runs[min([first, *(at for at, run in enumerate(runs) if run.number in of_anchor)]) :])


def _warnings(every: Sequence[Run], environment: str, options: DriftOptions) -> tuple[str, ...]:
    others = sorted({run.environment for run in every} - {environment})
    if not others or options.environment is not None:
        return ()
    return (f"runs of other environments were not judged: {', '.join(others)}; name one with --environment",)
