"""Where does a case lose precision? `precreg trace`."""

from __future__ import annotations

from pathlib import Path

import click

from precreg.cli.options import config_option, project_of_option


@click.command("trace")
@click.argument("pattern", metavar="CASE")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Trace the inputs of this seed.")
@config_option
@click.pass_obj
def trace_command(given: Path | None, /, pattern: str, seed: int) -> None:
    """Show the operation where a case first loses precision, and the share of the error that each one explains."""
    from precreg.report import render_trace_terminal
    from precreg.shadow import Recorder, trace_case
    from precreg.suite import Selection, load_cases, select_cases

    project = project_of_option(given)
    case = select_cases(load_cases(project), Selection(patterns=(pattern,)))[0]
    click.echo(render_trace_terminal(trace_case(case, project, seed, Recorder())))
