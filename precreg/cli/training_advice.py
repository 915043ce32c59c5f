"""What does `precreg training MODULE:make --advise` print and write?"""

from __future__ import annotations

from pathlib import Path

import click

from precreg.cli.console import show_report
from precreg.errors import UserError

_STDOUT = Path("-")


def show_advice(target: str | None, start: Path, *, steps: int, seeds: int, json: Path | None) -> None:
    """Measure the remedies of a training on short reruns, print them, and write the JSON.

    Raises UserError: bad-value without a training, not-writable, and as `advise_target` does.
    """
    if target is None:
        raise UserError(
            "bad-value",
            "expected a training to rerun beside --advise but got stored gradients or none",
            hint="name its function: precreg training train:make --advise",
        )
    from precreg.report import advice_json, render_advice_terminal
    from precreg.run import find_model
    from precreg.storage import replace_file, report_write_errors
    from precreg.training import advise_target

    found = find_model(target, start)
    advice = advise_target(found.target, found.directory, found.project, steps=steps, seeds=seeds)
    to_stderr = json == _STDOUT
    if to_stderr:
        click.echo(advice_json(advice), nl=False)
    elif json is not None:
        with report_write_errors(str(json)):
            replace_file(json, advice_json(advice))
    show_report(render_advice_terminal(advice) + "\n", err=to_stderr)
