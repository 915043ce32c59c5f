"""What does `precreg training MODULE:make --advise` print and write?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from precreg.cli.console import show_report

if TYPE_CHECKING:
    from precreg.types import TrainingReport

_STDOUT = Path("-")


class AdviceFiles(NamedTuple):
    """Hold the files to write, and the function that observes the training for the page."""

    json: Path | None
    html: Path | None
    observe: Callable[[], TrainingReport]


def show_advice(target: str, start: Path, files: AdviceFiles, *, steps: int, seeds: int) -> None:
    """Measure the remedies of a training on short reruns, print them, and write the JSON and the page.

    Raises UserError: not-writable, and as `advise_target` does.
    """
    from precreg.report import advice_json, advice_sections, render_advice_terminal, render_training_html
    from precreg.run import find_model
    from precreg.storage import replace_file, report_write_errors
    from precreg.training import advise_target

    found = find_model(target, start)
    # First, because it takes one run, and its errors need not wait for the others.
    report = None if files.html is None else files.observe()
    advice = advise_target(found.target, found.directory, found.project, steps=steps, seeds=seeds)
    contents = {files.json: advice_json(advice)}
    if report is not None:
        contents[files.html] = render_training_html(report.record, report.losses, advice_sections(advice)).encode()
    written = [path for path in contents if path is not None and path != _STDOUT]
    for path in written:
        with report_write_errors(str(path)):
            replace_file(path, contents[path])
    to_stderr = files.json == _STDOUT
    if to_stderr:
        click.echo(contents[files.json], nl=False)
    last = f"written: {', '.join(map(str, written))}\n" if written else ""
    show_report(render_advice_terminal(advice) + "\n" + last, err=to_stderr)
