"""`precreg run`: the options, and the answer to the question asked most often, whether there is anything to run."""

from __future__ import annotations

import os
import sys
from collections.abc import Set
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from precreg.cli.options import Asked, RunOptions
from precreg.cli.selecting import find_project, parse_shard, selected, selection_options
from precreg.environment.ci import in_ci
from precreg.vcs.base import base_commit
from precreg.vcs.remembered import nothing_touched
from precreg.vcs.repository import changed_files

if TYPE_CHECKING:
    from precreg.types.types import Case


def _seconds(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    """Refuse what no bound of a range refuses. Raises click.BadParameter."""
    if value is not None and isnan(value):
        raise click.BadParameter(f"{value} is no time.")
    return value


@click.command("run")
@selection_options
@click.option("--shard", metavar="I/N", callback=parse_shard, help="Part I of N; or CI_NODE_INDEX/CI_NODE_TOTAL.")
@click.option("--jobs", "-j", type=click.IntRange(0), help="Worker processes; 0 runs unprotected in this process.")
@click.option("--resume", is_flag=True, help="Go on with the run that was interrupted.")
@click.option("--ci/--no-ci", default=None, help="In CI a case without a baseline fails. Default: the variable CI.")
@click.option("--require", is_flag=True, help="A case whose requirements are missing is an error, not skipped.")
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Where this runs: a device's label.")
@click.option("--output", type=click.Path(path_type=Path), help="The folder of the reports; reports/ in the project.")
@click.option("--junit-dialect", type=click.Choice(["gitlab", "strict"]), default="gitlab", help="Of junit.xml.")
@click.option(
    "--against",
    metavar="REVISION",
    default="auto",
    help="Judge by the baselines and bounds of this commit, or of its merge base: REVISION...; or off. Default: auto,"
    " the base of the merge request in its pipeline, and off elsewhere.",
)
@click.option("--pair", metavar="REVISION", help="Run that version, too, side by side, and judge by what it gives.")
@click.option("--max-seeds", type=click.IntRange(1), help="In a pair: so many at most, until it is clear. Default: 32.")
@click.option(
    "--pair-seconds",
    type=click.FloatRange(0),
    callback=_seconds,
    help="In a pair: so long at most, for a case. Default: 2.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show the cases that passed, too.")
@click.pass_obj
def command(given: Path | None, /, asked: Asked, ci: bool | None, against: str, **others: Any) -> None:
    """Run the cases, judge them against tolerances and baselines, and write reports.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? [].
    """
    project = find_project(given)
    since = asked.changed_since
    changed = None if since is None else frozenset(changed_files(project, since))
    ci, base = in_ci(os.environ) if ci is None else ci, base_commit(project, against)
    options = RunOptions(asked, ci=ci, changed=changed, base=base, **others)
    read = None
    if changed is not None and options.shard is None and base is None:  # a case may be gone, or ask for less
        if not changed:
            click.echo(f"nothing changed since {since}: no case to run")
            return
        read = _read(project, asked, changed)
        if read is None:
            click.echo(f"no case depends on what changed since {since}")
            return
    from precreg.cli.running import run_and_report

    sys.exit(run_and_report(project, options, read))


def _read(project: Path, asked: Asked, changed: Set[str]) -> list[Case] | None:
    """Return all cases of the project, or None where none that is asked for depends on what changed."""
    if not asked.suites and not asked.tags and nothing_touched(project, changed):  # the names may be misspelled
        return None
    from precreg.vcs.remembering import load_and_remember

    every = load_and_remember(project)
    return every if selected(project, every, asked, changed) else None
