"""Which record does a quantization of an ONNX model give?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from precreg.errors import UserError
from precreg.quantization.model import MetricFunction, ModelCost, QuantizableModel, compare_outputs, measure_model
from precreg.quantization.proposal import propose_widths
from precreg.quantization.sensitivity import measure_sensitivity
from precreg.quantization.session import UNUSED_FLOAT_FORM, QuantizationOptions, record_of
from precreg.types import CalibrationData, QuantizationEvent, QuantizationRecord, Sensitivity


class GivenGraph(NamedTuple):
    """Hold an ONNX model, its float form if it is quantized, and the user's metric."""

    graph: Any
    twin: Any = None
    metric: MetricFunction | None = None


def quantize_graph(
    given: GivenGraph, calibration: Any, data: Any, options: QuantizationOptions, source: str
) -> QuantizationRecord:
    """Return the record of an ONNX model: with the scales that it has, or a float one simulated by options.

    `calibration` and `data` are the batches of onnx.feeds.

    Raises UserError: bad-value, unknown-node, bad-input, bad-outputs, bad-model, unsupported-model.
    """
    from precreg.quantization.onnx import has_qdq, read_qdq, run_whole, simulate_graph

    is_own = has_qdq(given.graph)
    name = given.graph.name
    if is_own and options.budget is not None:
        raise UserError(
            "bad-value",
            f"expected a float model beside a budget of bits but got {name}, which is quantized already",
            hint="give the float model: precreg quantization float.onnx --data inputs.npz --max-bits 6",
        )
    if is_own:
        model = read_qdq(given.graph, calibration.batches, data.batches, given.twin)
    else:
        model = simulate_graph(given.graph, calibration.batches, data.batches, *options[:3])
    cost = measure_model(model, given.metric)
    exact = model.run(frozenset(), frozenset()).outputs
    executed = compare_outputs(exact, run_whole(given.graph, data.batches), given.metric) if is_own else None
    sensitivity, more = _sensitivity(model, cost) if options.with_sensitivity else (None, [])
    more += [UNUSED_FLOAT_FORM] if given.twin is not None and not is_own else []
    proposal = None
    if options.budget is not None:
        proposal = propose_widths(_graph_builder(given, calibration.batches, data.batches, options), options.budget)
    record = record_of(model, cost, name, source)
    return replace(
        record,
        source="onnx" if is_own else "simulated",
        weights=None if is_own else options.weights,
        activations=None if is_own else options.activations,
        calibration=CalibrationData(source, len(calibration.batches), calibration.inputs, data.inputs, data.has_more),
        executed=executed,
        sensitivity=sensitivity,
        proposal=proposal,
        events=(*record.events, *more),
    )


def _sensitivity(model: Any, cost: ModelCost) -> tuple[Sensitivity, list[QuantizationEvent]]:
    """Return the sensitivity of a graph's layers, and the events of layers without a derivative."""
    from precreg.quantization.onnx import STEP

    weights = frozenset(row.layer for row in cost.rows if row.weight_alone is not None)
    activations = frozenset(row.layer for row in cost.rows if row.activation_alone is not None)
    estimates = {name: model.first_order(name, weights, activations) for name in sorted(weights | activations)}
    known = {name: value for name, value in estimates.items() if value is not None}
    found = measure_sensitivity(model, cost, known, step=STEP)
    return found, [QuantizationEvent("no_derivative", name) for name in estimates if name not in known]


def _graph_builder(
    given: GivenGraph, calibration: Sequence[Any], batches: Sequence[Any], options: QuantizationOptions
) -> Callable[[Callable[[str], str | None]], QuantizableModel]:
    from precreg.quantization.onnx import simulate_graph

    def build(format_of: Callable[[str], str | None]) -> QuantizableModel:
        chosen = (options.weights, options.activations, options.layers)
        return simulate_graph(given.graph, calibration, batches, *chosen, format_of=format_of, details=False)

    return build
