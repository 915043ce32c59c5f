"""How much does each quantized layer cost? `precreg quantization`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from precreg.cli.console import show_report, terminal_width
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.quantization import BitBudget, QuantizationOptions
    from precreg.report import QuantizationTable
    from precreg.types import QuantizationRecord, Quantizer

_PATH = click.Path(path_type=Path)
_STDOUT = Path("-")
# The names of precreg.quantization.codes, whose import would delay every command. A test compares them.
_GRANULARITIES = ("tensor", "channel", "group")
_METHODS = ("max", "p99.9", "p99.99", "mse", "entropy")
_ONNX = ".onnx"
_DEFAULT_FORMAT = "int8"


class _Given(NamedTuple):
    """Hold the options of the command that choose formats, data and outputs."""

    weights: str
    activations: str
    granularity: str | None
    group: int | None
    zero_point: bool
    activation_zero_point: bool
    weight_calibration: str
    calibration: str
    dynamic: bool
    layers: tuple[str, ...]
    data: str | None
    calibration_data: str | None
    batches: int
    twin: str | None
    metric: str | None
    sensitivity: bool
    max_bits: float | None
    max_error: float | None
    widths: tuple[str, ...]


@click.command("quantization")
@click.argument("model", metavar="[FOLDER/]MODULE:MAKE|FILE.onnx", required=False)
@click.option("--arrays", type=_PATH, metavar="FILE", help="Quantize the arrays of a file or folder instead.")
@click.option("--weights", default=_DEFAULT_FORMAT, show_default=True, metavar="FORMAT", help="int2 to int8, fp8 ...")
@click.option("--activations", default=_DEFAULT_FORMAT, show_default=True, metavar="FORMAT", help="The same; or float.")
@click.option(
    "--granularity",
    type=click.Choice(_GRANULARITIES),
    help="Which weights share a scale; by default those of a channel.",
)
@click.option("--group", type=click.IntRange(2), help="The elements of a group; by default 128.")
@click.option("--zero-point", is_flag=True, help="Weights have zero points.")
@click.option("--activation-zero-point", is_flag=True, help="Activations have zero points.")
@click.option("--weight-calibration", type=click.Choice(_METHODS), default="max", show_default=True, help="Of weights.")
@click.option("--calibration", type=click.Choice(_METHODS), default="max", show_default=True, help="Of activations.")
@click.option("--dynamic", is_flag=True, help="Scales of activations follow each call.")
@click.option("--layers", multiple=True, metavar="PATTERN", help="Layers by name; by default all Linear and Conv.")
@click.option("--data", metavar="FILE|MODULE:DATA", help="The inputs; by default those that MAKE returns.")
@click.option("--calibration-data", metavar="FILE|MODULE:DATA", help="Inputs that fix the scales; by default --data.")
@click.option("--batches", type=click.IntRange(1), default=32, show_default=True, help="Take at most so many batches.")
@click.option("--float", "twin", metavar="MODULE:MAKE|FILE.onnx", help="The float form of a quantized model.")
@click.option("--metric", metavar="MODULE:METRIC", help="A function of the list of results that returns a number.")
@click.option("--sensitivity", is_flag=True, help="Rank layers by first order, alone, and all but one quantized.")
@click.option("--max-bits", type=click.FloatRange(min=0, min_open=True), help="Propose formats: mean bits of weights.")
@click.option("--max-error", type=click.FloatRange(min=0, min_open=True), help="Propose formats: error of the results.")
@click.option("--width", "widths", multiple=True, metavar="FORMAT", help="Of proposals; default int4, int8, float32.")
@click.option(
    "--table",
    type=click.Choice(["cost", "granularity", "calibration"]),
    default="cost",
    show_default=True,
    help="The table to print.",
)
@click.option("--all", "-a", "every", is_flag=True, help="Show all layers.")
@click.option("--json", type=_PATH, metavar="FILE", help="Write the record as JSON; - writes it to stdout.")
@click.option("--report", type=_PATH, metavar="FILE", help="Write a page of HTML with pictures.")
@click.pass_obj
def quantization_command(
    project: Path | None,
    /,
    model: str | None,
    arrays: Path | None,
    table: QuantizationTable,
    every: bool,
    json: Path | None,
    report: Path | None,
    **options: Any,
) -> None:
    """Show what each quantized layer of a model costs, alone and accumulated.

    MAKE returns a model of torch, (model, data), (model, data, metric), or a dict with these keys. Data are batches of
    inputs. A model of torch.ao or an ONNX model that is quantized already is measured with its own scales. Nothing is
    judged: the exit code is 0.
    """
    from precreg.environment import limit_blas_threads
    from precreg.quantization import name_unused_options

    limit_blas_threads()
    given = _Given(**options)
    if (model is None) == (arrays is None):
        got = "neither" if model is None else "both"
        raise click.UsageError(f"expected MODULE:MAKE or --arrays FILE but got {got}")
    if arrays is not None:
        record = _of_arrays(arrays, given)
    elif model is not None and Path(model).suffix == _ONNX:
        record = _of_graph(Path(model), given, project or Path())
    else:
        assert model is not None
        record = _of_model(model, given, project or Path())
    _show(name_unused_options(record, _given_names()), table, json, report, every=every)


def _given_names() -> list[str]:
    """Return the names of the options that the command line has, without those with their defaults."""
    context = click.get_current_context()
    given = click.core.ParameterSource.COMMANDLINE
    return [name for name in context.params if context.get_parameter_source(name) is given]


def _of_arrays(path: Path, given: _Given) -> QuantizationRecord:
    from precreg.comparison import RawFormat, read_side
    from precreg.quantization import options_of, quantize_arrays

    side = read_side(path, RawFormat())
    weights = options_of(given._asdict()).weights
    if weights is None:
        raise click.UsageError("expected --weights FORMAT beside --arrays but got float")

    def loaded() -> Iterator[tuple[str, Any]]:
        for name, place in side.arrays.items():
            array = place.load()
            yield name, array.astype(array.dtype.newbyteorder("="), copy=False)

    return quantize_arrays(loaded(), weights, side.shown)


def _of_model(model: str, given: _Given, start: Path) -> QuantizationRecord:
    from precreg.quantization import quantize_module, read_given_model, require_torch

    options = _options(given)
    require_torch()
    made = read_given_model(_call(model, start), model)
    data = made.data if given.data is None else _data(given.data, start)
    if data is None:
        raise UserError(
            "bad-value",
            f"expected {'data beside the model' if made.model is not None else 'a model and data'}"
            f" but {model} returns none",
            hint="return it: def make(): return Net(), [torch.randn(8, 16)]; or write --data inputs.npz",
        )
    source = given.data or model
    measured = _batches(data, source, given.batches, with_targets=made.with_targets and given.data is None)
    other = made.calibration if given.calibration_data is None else _data(given.calibration_data, start)
    fixed = measured if other is None else _batches(other, given.calibration_data or model, given.batches)
    if given.twin is not None:
        made = made._replace(twin=read_given_model(_call(given.twin, start), given.twin).model)
    if given.metric is not None:
        made = made._replace(metric=lambda outputs: _call(given.metric or "", start, outputs))
    source = given.calibration_data or source
    return quantize_module(made, fixed, measured, options, model, source)


def _of_graph(path: Path, given: _Given, start: Path) -> QuantizationRecord:
    from precreg.quantization import GivenGraph, quantize_graph, require_onnx
    from precreg.quantization.onnx import load_graph

    require_onnx()
    if given.data is None:
        raise UserError(
            "bad-value",
            f"expected data for {path} but got none",
            hint=f"name a file with the inputs: precreg quantization {path} --data inputs.npz",
        )
    graph = load_graph(path)
    data = _feeds(given.data, graph, given.batches, start)
    other = given.calibration_data
    calibration = data if other is None else _feeds(other, graph, given.batches, start)
    metric = None if given.metric is None else lambda outputs: _call(given.metric or "", start, outputs)
    twin = None if given.twin is None else load_graph(Path(given.twin))
    return quantize_graph(GivenGraph(graph, twin, metric), calibration, data, _options(given), other or given.data)


def _feeds(data: str, graph: Any, most: int, start: Path) -> Any:
    from precreg.quantization.onnx import read_feeds, read_stored_feeds

    found = _data(data, start)
    return read_stored_feeds(found, graph, most) if isinstance(found, Path) else read_feeds(found, graph, data, most)


def _call(target: str, start: Path, *arguments: Any) -> Any:
    """Return the value of a user's function. Raises UserError: model-failed for its exceptions."""
    from precreg.quantization import call_seeded
    from precreg.run import find_model

    found = find_model(target, start)
    return call_seeded(found.target, found.directory, found.project, *arguments)


def _data(given: str, start: Path) -> Any:
    path = Path(given)
    return path if path.suffix and ":" not in path.name else _call(given, start)


def _batches(data: Any, source: str, most: int, *, with_targets: bool = False) -> Any:
    from precreg.quantization.torch import read_batches, read_stored_batches

    if isinstance(data, Path):
        return read_stored_batches(data, most)
    return read_batches(data, source, most, with_targets=with_targets)


def _options(given: _Given) -> QuantizationOptions:
    from precreg.quantization import options_of

    found = options_of(given._asdict())
    if found.weights is None and found.activations is None:
        raise click.UsageError("expected a format for --weights or --activations but got float for both")
    return found._replace(with_sensitivity=given.sensitivity, budget=_budget(given, found.weights))


def _budget(given: _Given, weights: Quantizer | None) -> BitBudget | None:
    from precreg.quantization import make_budget

    if given.max_bits is None and given.max_error is None:
        if given.widths:
            raise click.UsageError("expected --max-bits BITS or --max-error ERROR beside --width but got neither")
        return None
    if weights is None:
        raise click.UsageError("expected a format for --weights beside a proposal but got float")
    return make_budget(given.max_bits, given.max_error, weights, given.widths)


def _show(
    record: QuantizationRecord, table: QuantizationTable, json: Path | None, report: Path | None, *, every: bool
) -> None:
    """Write the files, and print the table; to stderr if the JSON goes to stdout."""
    from precreg.report import quantization_json, render_quantization_html, render_quantization_terminal
    from precreg.storage import replace_file, report_write_errors

    if report is not None:
        with report_write_errors(str(report)):
            replace_file(report, render_quantization_html(record).encode())
    to_stderr = json == _STDOUT
    if to_stderr:
        click.echo(quantization_json(record), nl=False)
    elif json is not None:
        with report_write_errors(str(json)):
            replace_file(json, quantization_json(record))
    width = terminal_width(sys.stderr if to_stderr else sys.stdout)
    text = render_quantization_terminal(record, table, every=every, width=width)
    written = [str(path) for path in (json, report) if path not in (None, _STDOUT)]
    pointers = f"\nwritten: {', '.join(written)}" if written else ""
    show_report(f"{text}{pointers}\n", err=to_stderr)
