"""`precreg calibrate`: how noisy cases are by themselves, what their bounds are worth, and which would fit."""

from __future__ import annotations

import sys
from math import isinf, isnan
from pathlib import Path

import click

from precreg.cli.options import Asked
from precreg.cli.selecting import find_project, selection_options


def _factor(_context: click.Context, _option: click.Parameter, value: float) -> float:
    """Refuse what no bound of a range refuses, and no limit is a multiple by."""
    if isnan(value) or isinf(value):
        raise click.BadParameter(f"{value} is no factor.")
    return value


@click.command("calibrate")
@selection_options
@click.option("--jobs", "-j", type=click.IntRange(0), help="Worker processes; 0 runs unprotected in this process.")
@click.option(
    "--replicates",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    metavar="N",
    help="Runs with other seeds, and as many with inputs moved in their last bits.",
)
@click.option(
    "--slack",
    type=click.FloatRange(1),
    default=2.0,
    show_default=True,
    callback=_factor,
    metavar="RATIO",
    help="A limit is proposed so many times above the noise.",
)
@click.option(
    "--vacuous",
    type=click.FloatRange(1),
    default=100.0,
    show_default=True,
    callback=_factor,
    metavar="RATIO",
    help="A limit is vacuous so many times above the largest noise.",
)
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Where this runs: a device's label.")
@click.option("--unsound", "unsound_alone", is_flag=True, help="In the table: the bounds alone that are not sound.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the proposals as tolerances of suites.")
@click.pass_obj
def command(
    given: Path | None,
    /,
    asked: Asked,
    jobs: int | None,
    replicates: int,
    slack: float,
    vacuous: float,
    environment: str | None,
    unsound_alone: bool,
    as_json: bool,
    as_yaml: bool,
) -> None:
    """Run replicates of the cases selected, and hold every bound against the noise that they show.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? []. Nothing is written.

    Exit codes: 1 a bound is broken or flaky; 2 nothing could be calibrated; 0 otherwise.
    """
    if as_json and as_yaml:
        raise click.UsageError("--json and --yaml exclude each other.")
    from precreg.cli.calibrating import calibrate
    from precreg.quality.quality import Margins
    from precreg.quality.summary import exit_code
    from precreg.report import calibration_terminal as terminal
    from precreg.report import fragment
    from precreg.report.calibration_document import document

    margins = Margins(slack, vacuous)
    found, left_out = calibrate(find_project(given), asked, jobs, replicates, margins, environment)
    if as_json:
        shown = document(found, left_out, replicates, margins) + "\n"
    elif as_yaml:
        shown = fragment.of_cases(found)
    else:
        shown = terminal.of_cases(found, left_out, all_shown=not unsound_alone)
    click.echo(shown, nl=False)
    sys.exit(exit_code(found))
