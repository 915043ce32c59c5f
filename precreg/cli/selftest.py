"""`precreg selftest`: how many planted faults the gate catches, and how many harmless changes it flags."""

from __future__ import annotations

import sys
from math import isnan
from pathlib import Path

import click

from precreg.cli.options import Asked
from precreg.cli.selecting import find_project, selection_options


def _share(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    """Refuse nan, which no bound of a range refuses, and which no rate would ever break."""
    if value is not None and isnan(value):
        raise click.BadParameter("nan is no share.")
    return value


@click.command("selftest")
@selection_options
@click.option("--jobs", "-j", type=click.IntRange(0), help="Worker processes; 0 runs unprotected in this process.")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="No more than the first N seeds of a case.")
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Where this runs: a device's label.")
@click.option(
    "--at-least",
    type=click.FloatRange(0, 1),
    callback=_share,
    metavar="SHARE",
    help="Of the faults that make worse, so many are caught.",
)
@click.option(
    "--at-most",
    type=click.FloatRange(0, 1),
    callback=_share,
    metavar="SHARE",
    help="Of the harmless changes, no more are flagged.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.pass_obj
def command(
    given: Path | None,
    /,
    asked: Asked,
    jobs: int | None,
    seeds: int | None,
    environment: str | None,
    at_least: float | None,
    at_most: float | None,
    as_json: bool,
) -> None:
    """Plant every fault and every harmless change in every case selected, and print detection and false-alarm rates.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? []. Nothing is written.

    Exit codes: 1 a rate breaks --at-least or --at-most; 2 nothing could be judged; 0 otherwise.
    """
    from precreg.arithmetic.faults.table import CHANGES, FAULTS
    from precreg.cli.scoring import planted
    from precreg.quality.tally import any_judged, broken, tally
    from precreg.report import scoring_terminal as terminal
    from precreg.report.scoring_document import document

    scores, unplanted = planted(
        find_project(given), asked, [*FAULTS.values(), *CHANGES.values()], jobs, seeds, environment
    )
    click.echo(document(scores, unplanted) if as_json else terminal.of_all(scores, unplanted), nl=as_json)
    problems = broken(tally("all", scores), at_least, at_most)
    for problem in problems:
        click.echo(problem, err=True)
    sys.exit(2 if not any_judged(scores) else 1 if problems else 0)
