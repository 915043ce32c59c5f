"""Which training does `precreg training` run or read, and where does it write?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from precreg.cli.console import color_option, show_lines, terminal_width
from precreg.cli.gradient_losses import LossOptions, gradient_loss_options
from precreg.cli.training_advice import AdviceFiles, show_advice
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.training import StepGradients
    from precreg.types import TrainingReport

_PATH = click.Path(path_type=Path)
_STDOUT = Path("-")
# The reruns of --advise.
_SEEDS = 3


class _Sampling(NamedTuple):
    """Hold how many steps run, which of them are sampled, and how many elements are measured."""

    steps: int
    every: int
    elements: int | None


@click.command("training")
@click.argument("target", metavar="[FOLDER/]MODULE:FUNCTION", required=False)
@click.option("--gradients", type=_PATH, metavar="PATH", help="Stored gradients: an archive, or a folder of archives.")
@click.option("--steps", type=click.IntRange(1), default=100, show_default=True, help="Updates to run.")
@click.option(
    "--every", type=click.IntRange(1), metavar="N", help="Sample every Nth step; by default 10, or 1 if stored."
)
@click.option("--elements", type=click.IntRange(0), metavar="N", help="Measure N elements of a tensor at most; 0 all.")
@gradient_loss_options
@click.option("--advise", is_flag=True, help="Find faults, and measure each remedy on short reruns.")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="The seeds of --advise; by default 3.")
@click.option("--json", type=_PATH, metavar="FILE", help="Write all figures as JSON; - writes it to stdout.")
@click.option("--report", "page", type=_PATH, metavar="FILE", help="Write a page of HTML with pictures.")
@color_option
@click.pass_obj
def training_command(
    project: Path | None,
    /,
    target: str | None,
    gradients: Path | None,
    steps: int,
    every: int | None,
    elements: int | None,
    losses: LossOptions,
    advise: bool,
    seeds: int | None,
    json: Path | None,
    page: Path | None,
) -> None:
    """Measure the losses of a training: gradients, updates, loss scales and clipping.

    FUNCTION returns model, optimizer, data and loss, as a tuple or as a dict, which may also have scaler, clip,
    autocast, accumulate and step. precreg runs the loop.

    A file of stored gradients is one step, or several if the names of its arrays are STEP/PARAMETER. A folder has one
    file for each step.

    Exit code: 0, or 2 for a training that cannot be run or gradients that cannot be read.
    """
    _require_files(json, page)
    _refuse_idle(advise, gradients, seeds)
    _require_one(target, gradients)
    if gradients is not None:
        _show(_read(gradients, every or 1, elements or None, losses), json, page)
        return
    assert target is not None
    start = project or Path()

    def observed() -> TrainingReport:
        return _run(target, start, _Sampling(steps, every or 10, elements), losses)

    if advise:
        _require_page(page, every, elements, losses)
        show_advice(target, start, AdviceFiles(json, page, observed), steps=steps, seeds=seeds or _SEEDS)
    else:
        _show(observed(), json, page)


def _require_one(target: str | None, gradients: Path | None) -> None:
    """Require a training or stored gradients, and not both. Raises UserError: bad-value."""
    if (target is None) == (gradients is None):
        got = "none" if target is None else f"{target} and --gradients {gradients}"
        raise UserError(
            "bad-value",
            f"expected a training or stored gradients but got {got}",
            hint="name one: precreg training train:make, or precreg training --gradients gradients/",
        )


def _refuse_idle(advise: bool, gradients: Path | None, seeds: int | None) -> None:
    """Refuse options that cannot have an effect together. Raises UserError: bad-value."""
    if advise and gradients is not None:
        raise UserError(
            "bad-value",
            f"expected a training to rerun beside --advise but got --gradients {gradients}",
            hint="name its function: precreg training train:make --advise",
        )
    if seeds is not None and not advise:
        raise UserError(
            "bad-value",
            f"expected --advise beside --seeds {seeds} but an observed training has one seed",
            hint=f"add it: precreg training train:make --advise --seeds {seeds}",
        )


def _require_page(page: Path | None, every: int | None, elements: int | None, losses: LossOptions) -> None:
    """Refuse options of the observed steps if no page shows these. Raises UserError: bad-value."""
    if page is None and ((every, elements) != (None, None) or losses.is_chosen):
        raise UserError(
            "bad-value",
            "expected --report beside --advise and an option of the observed steps (--every, --elements, --scales, "
            "--format, --tensor-format, --clip)",
            hint="write the page: precreg training train:make --advise --report training.html",
        )


def _require_files(*files: Path | None) -> None:
    # A report that cannot be written must not cost the run behind it.
    from precreg.storage import require_writable

    require_writable(*(file for file in files if file is not None and file != _STDOUT))


def _read(path: Path, every: int, elements: int | None, losses: LossOptions) -> TrainingReport:
    """Measure stored gradients in one pass. Raises UserError as their reader does."""
    from precreg.training import losses_of, read_gradients, record_of_gradients
    from precreg.types import TrainingReport

    gauges = losses.gauges()

    def measured() -> Iterator[StepGradients]:
        for step in read_gradients(path):
            if gauges is not None:
                gauges.add(step)
            yield step

    record = record_of_gradients(str(path), measured(), every=every, elements=elements)
    return TrainingReport(record=record, losses=losses_of(gauges, record.scales, record.clips))


def _run(target: str, start: Path, sampling: _Sampling, losses: LossOptions) -> TrainingReport:
    """Run a training and observe it.

    Raises:
        UserError: bad-value, missing-module, missing-function, bad-outputs, no-gradients, model-failed.
    """
    from precreg.environment import limit_blas_threads

    limit_blas_threads()
    from precreg.run import find_model
    from precreg.training import losses_of, observe_target
    from precreg.types import TrainingReport

    gauges, found = losses.gauges(), find_model(target, start)
    elements = {} if sampling.elements is None else {"elements": sampling.elements or None}
    listener = None if gauges is None else gauges.add
    record = observe_target(
        found.target, found.directory, found.project, listener, steps=sampling.steps, every=sampling.every, **elements
    )
    return TrainingReport(record=record, losses=losses_of(gauges, record.scales, record.clips))


def _show(report: TrainingReport, json: Path | None, page: Path | None) -> None:
    from precreg.report import render_training_html, training_report_json, training_report_lines
    from precreg.storage import replace_file, report_write_errors

    contents = {json: training_report_json(report)}
    if page is not None:
        contents[page] = render_training_html(report.record, report.losses).encode()
    written = [path for path in contents if path is not None and path != _STDOUT]
    for path in written:
        with report_write_errors(str(path)):
            replace_file(path, contents[path])
    to_stderr = json == _STDOUT
    if to_stderr:
        click.echo(contents[json], nl=False)
    lines = training_report_lines(report, terminal_width(sys.stderr if to_stderr else sys.stdout))
    show_lines([*lines, *([f"written: {', '.join(map(str, written))}"] if written else [])], err=to_stderr)
