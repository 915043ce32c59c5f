"""Which stored gradients does `precreg training` measure, and where does it write?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from precreg.cli.console import color_option, show_lines, terminal_width
from precreg.cli.gradient_losses import LossOptions, gradient_loss_options

_PATH = click.Path(path_type=Path)
_STDOUT = Path("-")


@click.command("training")
@click.option(
    "--gradients", type=_PATH, required=True, metavar="PATH", help="An archive of gradients, or a folder of archives."
)
@gradient_loss_options
@click.option("--json", type=_PATH, metavar="FILE", help="Write all figures as JSON; - writes it to stdout.")
@click.option("--html", type=_PATH, metavar="FILE", help="Write a page of HTML.")
@color_option
def training_command(gradients: Path, losses: LossOptions, json: Path | None, html: Path | None) -> None:
    """Measure what a training loses: loss scales, per-tensor scales and clipping, on stored gradients.

    A file is one step, or several if the names of its arrays are STEP/PARAMETER. A folder has one file for each step.

    Exit code: 0, or 2 for gradients that cannot be read.
    """
    from precreg.report import gradient_loss_lines, gradient_losses_json, render_gradient_losses_html
    from precreg.storage import replace_file, report_write_errors
    from precreg.training import read_gradients

    found = losses.measure(read_gradients(gradients))
    contents = {json: gradient_losses_json(found), html: render_gradient_losses_html(str(gradients), found).encode()}
    written = [path for path in contents if path not in (None, _STDOUT)]
    for path in written:
        if path is not None:
            with report_write_errors(str(path)):
                replace_file(path, contents[path])
    to_stderr = json == _STDOUT
    if to_stderr:
        click.echo(contents[json], nl=False)
    width = terminal_width(sys.stderr if to_stderr else sys.stdout)
    lines = [f"gradients {gradients}", "", *gradient_loss_lines(found, width)]
    show_lines([*lines, *([f"written: {', '.join(map(str, written))}"] if written else [])], err=to_stderr)
