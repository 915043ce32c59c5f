"""What happens in a training? `precreg training`."""

from __future__ import annotations

from pathlib import Path

import click

_PATH = click.Path(path_type=Path)


@click.command("training")
@click.argument("recipe", metavar="[FOLDER/]MODULE:MAKE")
@click.option("--advise", is_flag=True, help="Measure remedies on short reruns.")
@click.option("--steps", type=click.IntRange(1), default=50, show_default=True, help="The steps of each run.")
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="The seeds of --advise.")
@click.option("--json", type=_PATH, metavar="FILE", help="Write the result as JSON; - writes it to stdout.")
@click.pass_obj
def training_command(
    project: Path | None, /, recipe: str, advise: bool, steps: int, seeds: int, json: Path | None
) -> None:
    """Show which faults a training has, and which remedies help."""
    from precreg.cli.training_advice import show_advice
    from precreg.environment import limit_blas_threads

    limit_blas_threads()
    if advise:
        show_advice(recipe, project or Path(), steps=steps, seeds=seeds, json=json)
