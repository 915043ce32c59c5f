"""`precreg faults`: what each fault does to some cases, and what the gate makes of it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from precreg.cli.options import Asked
from precreg.cli.selecting import find_project, selection_options


@click.command("faults")
@selection_options
@click.option("--fault", "names", multiple=True, metavar="NAME", help="Only this fault or harmless change.")
@click.option("--list", "listed", is_flag=True, help="Say what can be planted, and plant nothing.")
@click.option("--jobs", "-j", type=click.IntRange(0), help="Worker processes; 0 runs unprotected in this process.")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="No more than the first N seeds of a case.")
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Where this runs: a device's label.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--verbose", "-v", is_flag=True, help="Show the faults without effect, too.")
@click.pass_obj
def command(
    given: Path | None,
    /,
    asked: Asked,
    names: tuple[str, ...],
    listed: bool,
    jobs: int | None,
    seeds: int | None,
    environment: str | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Plant faults in the cases selected, judge each by the case's own baseline, and say which are caught.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? []. Nothing is written.

    Exit codes: 2 nothing could be judged; 0 otherwise.
    """
    from precreg.arithmetic.faults.table import CHANGES, FAULTS, fault_named
    from precreg.report import scoring_terminal as terminal

    faults = [fault_named(name) for name in dict.fromkeys(names)] or [*FAULTS.values(), *CHANGES.values()]
    if listed:
        from msgspec import json

        shown = json.format(json.encode(faults), indent=2).decode() + "\n" if as_json else terminal.of_faults(faults)
        click.echo(shown, nl=False)
        return
    from precreg.cli.scoring import planted
    from precreg.quality.tally import any_judged
    from precreg.report.scoring_document import document

    scores, unplanted = planted(find_project(given), asked, faults, jobs, seeds, environment)
    shown = document(scores, unplanted) + "\n" if as_json else terminal.of_cases(scores, unplanted, all_shown=verbose)
    click.echo(shown, nl=False)
    sys.exit(0 if any_judged(scores) else 2)
