"""Which options does `precreg divergence` have, and which runs does it compare?"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from precreg.cli.console import show_report, terminal_width
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.training.divergence import StoredTrajectory, TrainingSource
    from precreg.types import DivergenceRecord

_PATH = click.Path(path_type=Path)
_STDOUT = Path("-")
_SIDES = ("A", "B")
# Nothing is worse: chaos and equal bits. A loss fails, and missing evidence is apart.
_EXIT_CODES = {"identical": 0, "chaos": 0, "loss": 1, "unclear": 2}


@click.command("divergence")
@click.argument("a", metavar="A")
@click.argument("b", metavar="[B]", required=False)
@click.option("--twin", "recorded", multiple=True, metavar="RUN", help="A stored run like A with a last-bit change.")
@click.option("--twins", type=click.IntRange(0, 1000), default=8, show_default=True, help="Twins of A to run.")
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Stop after step N.")
@click.option("--every", type=click.IntRange(1), default=1, show_default=True, help="Compare every Nth step.")
@click.option("--param", "params", multiple=True, metavar="[A:|B:]NAME=VALUE", help="An argument of the training.")
@click.option("--dtype", "dtypes", multiple=True, metavar="[A:|B:]DTYPE", help="The dtype of the weights; of B.")
@click.option("--device", "devices", multiple=True, metavar="[A:|B:]NAME", help="Simulate a device; for B.")
@click.option("--revision", metavar="REV", help="Run B from this commit.")
@click.option("--epoch", type=click.IntRange(1), metavar="N", help="Compare the mean losses of epochs of N steps, too.")
@click.option("--record", type=_PATH, metavar="FOLDER", help="Run A alone, and store its weights by step.")
@click.option("--json", "json_file", type=_PATH, metavar="FILE", help="Write the facts as JSON; - writes to stdout.")
@click.option("--report", type=_PATH, metavar="FILE", help="Write a page of HTML with pictures.")
def divergence_command(a: str, b: str | None, **options: Any) -> None:
    """Line up two runs of one training step by step: is their divergence chaos, or a loss of precision?

    A and B are stored runs (a folder with an archive for each step, or one archive), or trainings, MODULE:FUNCTION.
    Without B, a training runs twice, with the settings of each side. Exit codes: 0 the runs are identical, or part as
    twins with a last-bit change do; 1 a loss; 2 unclear.
    """
    from precreg.environment import limit_blas_threads

    limit_blas_threads()
    if options["record"] is not None:
        _record(a, options)
        return
    # A report that cannot be written must not cost the runs behind it.
    from precreg.storage import require_writable

    files = (options["json_file"], options["report"])
    require_writable(*(file for file in files if file is not None and file != _STDOUT))
    record = _compare(a, b, options)
    _show(record, options["json_file"], options["report"])
    sys.exit(_EXIT_CODES[record.verdict])


def _record(a: str, options: Mapping[str, Any]) -> None:
    """Run A alone and store its steps. Raises UserError as the run does."""
    from precreg.training.divergence import TrainingSource, record_run

    source = _run("A", a, options)
    if not isinstance(source, TrainingSource):
        message = f"expected a training to record but got the stored run {a}"
        raise UserError("bad-value", message, hint="name a function: precreg divergence trainings:train --record run-a")
    stored = record_run(source, options["record"], every=options["every"], last=options["steps"])
    last = stored.numbers[-1] if stored.numbers else 0
    show_report(f"recorded {len(stored.numbers):,} steps of {a}, 0 to {last:,}: {options['record']}\n")


def _compare(a: str, b: str | None, options: Mapping[str, Any]) -> DivergenceRecord:
    from contextlib import ExitStack

    from precreg import __version__
    from precreg.training.divergence import DivergenceRequest, TrainingSource, compare_trainings, read_trajectory

    first = _run("A", a, options)
    if b is None and not isinstance(first, TrainingSource):
        message = f"expected a second run to compare with {a} but got none"
        raise UserError("bad-value", message, hint=f"name it: precreg divergence {a} run-b")
    twins = [read_trajectory(Path(each), each) for each in options["recorded"]]
    with ExitStack() as open_versions:
        second: TrainingSource | StoredTrajectory
        if options["revision"] is None:
            second = _run("B", b or a, options)
        else:
            second = open_versions.enter_context(_from_commit(b or a, options))
        request = DivergenceRequest(
            first, second, twins, options["twins"], options["every"], options["steps"], options["epoch"]
        )
        return compare_trainings(request, __version__, _progress)


def _progress(name: str) -> None:
    # stderr may be a log, where a line for each run is too much.
    if sys.stderr.isatty():
        click.echo(f"\rrunning {name:40.40}\r", nl=False, err=True)


def _run(side: str, text: str, options: Mapping[str, Any]) -> TrainingSource | StoredTrajectory:
    """Return a stored run, or a training with the settings of a side. Raises UserError."""
    from precreg.training.divergence import TrainingSource, read_trajectory

    path = Path(text)
    if path.exists() or ":" not in text:
        return read_trajectory(path, text)
    from precreg.run import find_model

    found = find_model(text, Path.cwd())
    params = _params(side, options["params"])
    device, dtype = (_setting(side, options[key], key) for key in ("devices", "dtypes"))
    shown = [*(f"{name}={value}" for name, value in params.items()), *filter(None, (device, dtype))]
    name = " ".join([text, *shown])
    return TrainingSource(name, found.target, found.directory, found.project, params, device, dtype)


def _from_commit(text: str, options: Mapping[str, Any]) -> Any:
    """Record the run of another commit for the time of a block. Raises UserError: no-git, unknown-revision."""
    from precreg.training.divergence import TrainingSource, recorded_at_commit

    source = _run("B", text, options)
    if not isinstance(source, TrainingSource):
        message = f"expected a training to run from revision={options['revision']} but got the stored run {text}"
        raise UserError(
            "bad-value", message, hint="name a function: precreg divergence trainings:train --revision main"
        )
    return recorded_at_commit(source, options["revision"], every=options["every"], last=options["steps"])


def _sided(given: str) -> tuple[str | None, str]:
    side, colon, rest = given.partition(":")
    return (side, rest) if colon and side in _SIDES else (None, given)


def _setting(side: str, given: Sequence[str], option: str) -> str | None:
    """Return the setting of one side; without a prefix it is B's, because the runs would not differ otherwise."""
    found = [text for where, text in map(_sided, given) if (where or "B") == side]
    if len(found) > 1:
        name = option.removesuffix("s")
        message = f"expected one --{name} for run {side} but got {', '.join(found)}"
        raise UserError("bad-value", message, hint=f"name the run: --{name} {side}:{found[0]}")
    return found[0] if found else None


def _params(side: str, given: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of one side, read as YAML does; without a prefix, of both sides."""
    import yaml

    found: dict[str, Any] = {}
    for text in given:
        where, pair = _sided(text)
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            message = f"expected NAME=VALUE but got param={text}"
            raise UserError("bad-value", message, hint="write --param B:order=swapped")
        if where in (None, side):
            try:
                found[name] = yaml.safe_load(value)
            except yaml.YAMLError as error:
                message = f"expected a value of YAML but got param={text}: {' '.join(str(error).split())[:100]}"
                raise UserError("bad-value", message, hint="write --param B:order=swapped") from error
    return found


def _show(record: DivergenceRecord, json_file: Path | None, report: Path | None) -> None:
    """Write the requested files, and print the summary; to stderr if JSON goes to stdout."""
    from precreg.report import render_divergence_html, render_divergence_terminal
    from precreg.storage import encode_record, replace_file, report_write_errors

    if report is not None:
        with report_write_errors(str(report)):
            replace_file(report, render_divergence_html(record).encode())
    if json_file == _STDOUT:
        click.echo(encode_record(record), nl=False)
    elif json_file is not None:
        with report_write_errors(str(json_file)):
            replace_file(json_file, encode_record(record))
    to_stderr = json_file == _STDOUT
    width = terminal_width(sys.stderr if to_stderr else sys.stdout)
    written = [str(path) for path in (json_file, report) if path not in (None, _STDOUT)]
    pointers = f"written: {', '.join(written)}\n" if written else ""
    show_report(render_divergence_terminal(record, width=width) + pointers, err=to_stderr)
