"""`precreg drift`: the options. What it does is in drifting.py, so that nothing is imported in vain."""

from __future__ import annotations

import sys
from math import isfinite
from pathlib import Path

import click

from precreg.cli.history_place import history_option
from precreg.cli.options import DriftOptions
from precreg.cli.selecting import find_project


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
def command(given: Path | None, /, **options: object) -> None:
    """Tell whether metrics drift: against what was accepted, an anchor, and the recent runs of the history.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? []. Exit codes: 1 something drifts; 2 something
    could not be judged; 0 otherwise.
    """
    from precreg.cli.drifting import judge_and_report

    asked = DriftOptions(**options)  # type: ignore[arg-type]
    if 2 * asked.confirm > asked.window:
        got = f"window={asked.window}, confirm={asked.confirm}"
        raise click.UsageError(f"expected a window of at least twice the runs that confirm a change but got {got}")
    sys.exit(judge_and_report(find_project(given), asked))
