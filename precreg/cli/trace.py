"""Where does a case lose precision? `precreg trace`."""

from __future__ import annotations

from pathlib import Path

import click

from precreg.cli.options import config_option, project_of_option
from precreg.cli.watch import TraceOrShow, WatchOptions, watch_options


@click.command("trace", cls=TraceOrShow)
@click.argument("pattern", metavar="CASE")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Trace the inputs of this seed.")
@watch_options
@config_option
@click.pass_obj
def trace_command(given: Path | None, /, pattern: str, seed: int, watching: WatchOptions) -> None:
    """Show the operation where a case first loses precision, and the share of the error that each one explains.

    precreg trace show FILE shows a trace that --save stored. A case called show is unit/show.
    """
    from precreg.report import describe_unmatched, render_trace_terminal
    from precreg.shadow import trace_case
    from precreg.suite import Selection, load_cases, select_cases

    project = project_of_option(given)
    case = select_cases(load_cases(project), Selection(patterns=(pattern,)))[0]
    trace = watching.finish(trace_case(case, project, seed, watching.recorder))
    click.echo(render_trace_terminal(trace))
    for unmatched in trace.unmatched:
        click.echo(describe_unmatched(unmatched))
