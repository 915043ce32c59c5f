"""Which record does a quantization of a module, or of stored arrays, give?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.arithmetic.devices import is_floating
from precreg.errors import UserError
from precreg.quantization.arrays import measure_array
from precreg.quantization.codes import short_group_events
from precreg.quantization.kind import FLOAT, OPTIONS, find_unused
from precreg.quantization.model import MetricFunction, ModelCost, QuantizableModel, compare_outputs, measure_model
from precreg.quantization.proposal import BitBudget, ModelBuilder, propose_widths
from precreg.quantization.sensitivity import measure_sensitivity
from precreg.types import (
    CalibrationData,
    LayerQuantization,
    OutputError,
    QuantizationEvent,
    QuantizationRecord,
    Quantizer,
    Sensitivity,
    UnusedReason,
)

# The simulation and the quantized model differ in the last bits of sums. A difference of this part of the error of the
# quantization means that the model quantizes something else, too.
_SAME_SIMULATION = 0.1


UNUSED_FLOAT_FORM = QuantizationEvent("unused_option", "--float", detail="own_float_form")


class GivenModel(NamedTuple):
    """Hold what a user's function returned: a model, and its data, metric and float form if there are any."""

    model: Any
    data: Any = None
    calibration: Any = None
    metric: MetricFunction | None = None
    twin: Any = None
    # The batches are pairs (inputs, target), as those of a training are.
    with_targets: bool = False


# The options of the command that have no effect on arrays.
_OF_MODELS = (
    *(
        "activations",
        "activation_zero_point",
        "calibration",
        "dynamic",
        "layers",
        "data",
        "calibration_data",
        "batches",
    ),
    *("twin", "metric", "sensitivity", "max_bits", "max_error", "widths"),
)
_OPTION_NAMES = {"twin": "float", "widths": "width"}
_MEMBERS = ("model", "data", "calibration", "metric", "float")


def read_given_model(returned: Any, source: str) -> GivenModel:
    """Return the parts of what `make()` returned.

    It returns a model; (model, data); (model, data, metric); the (model, optimizer, data, loss) of a training; or a
    dict with the keys model, data, calibration, metric and float.

    Raises UserError: bad-outputs for anything else.
    """
    if isinstance(returned, Mapping):
        unknown = [str(key) for key in returned if key not in (*_MEMBERS, "optimizer", "loss", "scaler", "step")]
        if "model" in returned and not unknown:
            float_model, is_training = returned.get("float"), "optimizer" in returned
            model, data, calibration, metric = (returned.get(name) for name in _MEMBERS[:4])
            return GivenModel(model, data, calibration, metric, float_model, is_training)
        got = f"a dict with {', '.join(unknown) or 'no model'}"
    elif isinstance(returned, tuple):
        if 1 <= len(returned) <= 3:
            data, metric = (*returned[1:], None, None)[:2]
            return GivenModel(returned[0], data, metric=metric)
        if len(returned) == 4:
            return GivenModel(returned[0], returned[2], with_targets=True)
        got = f"a tuple of {len(returned)}"
    else:
        return GivenModel(returned)
    raise UserError(
        "bad-outputs",
        f"expected {source} to return a model, (model, data), (model, data, metric) or a dict but got {got}",
        hint="return the model and its batches: def make(): return Net(), [torch.randn(8, 16)]",
    )


class QuantizationOptions(NamedTuple):
    """Hold the chosen quantization, and what to measure. None leaves weights or activations float."""

    weights: Quantizer | None
    activations: Quantizer | None
    layers: tuple[str, ...] = ()
    with_sensitivity: bool = False
    budget: BitBudget | None = None


def quantize_module(
    given: GivenModel, calibration: Any, data: Any, options: QuantizationOptions, name: str, source: str
) -> QuantizationRecord:
    """Return the record of a module of torch: simulated by options, or with the scales that it has itself.

    `calibration` and `data` are the batches of torch.batches: one fixes the scales, the other measures the errors.

    Raises UserError: bad-value, unknown-node, bad-input, bad-outputs.
    """
    model = open_model(given, calibration.batches, data.batches, options)
    cost = measure_model(model, given.metric)
    is_own = has_own_scales(given.model)
    if is_own and options.budget is not None:
        raise UserError(
            "bad-value",
            f"expected a float model beside a budget of bits but got {name}, which is quantized already",
            hint="name the function that makes the float model: precreg quantization MODULE:MAKE --max-bits 6",
        )
    executed, events = _execute(given, model, data.batches) if is_own else (None, [])
    record = record_of(model, cost, name, source)
    sensitivity, without = _sensitivity(model, cost) if options.with_sensitivity else (None, [])
    proposal = None
    if options.budget is not None:
        proposal = propose_widths(_builder(given, calibration.batches, data.batches, options), options.budget)
    return replace(
        record,
        source="torch" if is_own else "simulated",
        weights=None if is_own else options.weights,
        activations=None if is_own else options.activations,
        calibration=CalibrationData(source, len(calibration.batches), calibration.inputs, data.inputs, data.has_more),
        executed=executed,
        sensitivity=sensitivity,
        proposal=proposal,
        events=(*record.events, *events, *without, *_unused_float_form(given)),
    )


def _sensitivity(model: Any, cost: ModelCost) -> tuple[Sensitivity, list[QuantizationEvent]]:
    """Return the sensitivity of a module's layers, and the events of layers without a gradient."""
    from precreg.quantization.torch import PROBES, estimate_first_order

    estimates = estimate_first_order(model)
    found = measure_sensitivity(model, cost, estimates, probes=PROBES)
    return found, [QuantizationEvent("no_gradient", each.layer) for each in found.layers if each.first_order is None]


def _unused_float_form(given: GivenModel) -> list[QuantizationEvent]:
    """Return an event if a float form is given that nothing reads: a float model, or one in training, has its own."""
    from precreg.quantization.torch import is_quantized_module

    is_read = given.twin is None or is_quantized_module(given.model)
    return [] if is_read else [UNUSED_FLOAT_FORM]


def _builder(
    given: GivenModel, calibration: Sequence[Any], batches: Sequence[Any], options: QuantizationOptions
) -> ModelBuilder:
    from precreg.quantization.torch import simulate_module

    def build(format_of: Callable[[str], str | None]) -> QuantizableModel:
        chosen = (options.weights, options.activations, options.layers)
        return simulate_module(given.model, calibration, batches, *chosen, format_of=format_of, details=False)

    return build


def record_of(model: QuantizableModel, cost: ModelCost, name: str, source: str) -> QuantizationRecord:
    """Return the record of a measured model, without its calibration data."""
    from precreg import __version__

    return QuantizationRecord(
        precreg=__version__,
        model=name,
        source="simulated",
        weights=None,
        activations=None,
        calibration=CalibrationData(source, 0, 0, 0),
        rows=cost.rows,
        total=cost.total,
        float_metric=cost.float_metric,
        events=tuple(model.events),
    )


def has_own_scales(module: Any) -> bool:
    """Return whether a module is quantized already, or has fake quantizers."""
    from precreg.quantization.torch import is_fake_quantized, is_quantized_module

    return hasattr(module, "modules") and (is_quantized_module(module) or is_fake_quantized(module))


def open_model(
    given: GivenModel, calibration: Sequence[Any], batches: Sequence[Any], options: QuantizationOptions
) -> QuantizableModel:
    """Return the model of a module: simulated, or with scales of its own. Raises UserError: as its readers do."""
    from precreg.quantization.torch import (
        is_quantized_module,
        own_copy,
        read_fake_quantized,
        read_quantized_module,
        simulate_module,
    )

    if not has_own_scales(given.model):
        return simulate_module(given.model, calibration, batches, *options[:3])
    if is_quantized_module(given.model):
        twin = None if given.twin is None else own_copy(given.twin)
        return read_quantized_module(given.model, calibration, batches, twin)
    return read_fake_quantized(given.model, calibration, batches)


def _execute(
    given: GivenModel, model: QuantizableModel, batches: Sequence[Any]
) -> tuple[OutputError, list[QuantizationEvent]]:
    """Return the error of the quantized model itself, and the event that the simulation differs from it."""
    from precreg.quantization.torch import run_quantized

    names = frozenset(layer.name for layer in model.layers)
    exact = model.run(frozenset(), frozenset()).outputs
    executed = run_quantized(given.model, batches)
    error = compare_outputs(exact, executed, given.metric)
    differs = compare_outputs(executed, model.run(names, names).outputs, None).relative
    if differs <= _SAME_SIMULATION * error.relative:
        return error, []
    return error, [QuantizationEvent("simulation_differs", "", detail=repr(differs))]


def quantize_arrays(arrays: Iterable[tuple[str, NDArray[Any]]], quantizer: Quantizer, name: str) -> QuantizationRecord:
    """Return the record of named arrays, one at a time. Others than finite floating arrays are events.

    Raises UserError: bad-value if no array can be quantized.
    """
    from precreg import __version__

    rows: list[LayerQuantization] = []
    events: list[QuantizationEvent] = []
    for key, array in arrays:
        problem = _unfit(key, array)
        if problem is not None:
            events.append(problem)
            continue
        # A bias has one axis, and so one scale.
        is_plain = array.ndim < 2 and quantizer.calibration != "block"
        has_groups = quantizer.granularity != "tensor"
        fits = replace(quantizer, granularity="tensor", group=None) if is_plain and has_groups else quantizer
        found = measure_array(array, fits)
        events += [QuantizationEvent("all_zero", key)] if found.figures.relative_error is None else []
        events += [QuantizationEvent("one_axis", key)] if fits is not quantizer else []
        events += short_group_events(key, array.shape, fits)
        rows.append(LayerQuantization(layer=key, kind="array", parameters=array.size, weight=found))
    if not rows:
        found_kinds = ", ".join(sorted({each.kind for each in events})) or "no arrays"
        raise UserError(
            "bad-value",
            f"expected finite floating-point arrays in {name} but got {found_kinds}",
            hint="store the weights of a model: safetensors.torch.save_file(model.state_dict(), 'weights.safetensors')",
        )
    return QuantizationRecord(
        precreg=__version__,
        model=name,
        source="arrays",
        weights=quantizer,
        activations=None,
        calibration=None,
        rows=tuple(rows),
        events=tuple(events),
    )


def name_unused_options(record: QuantizationRecord, given: Collection[str]) -> QuantizationRecord:
    """Return a record with an event for each option of the command that has no effect. `given` has their names."""
    found: dict[str, UnusedReason] = {}
    if record.source in ("torch", "onnx"):
        found |= dict.fromkeys((name for name in OPTIONS if name in given), "own_scales")
    else:
        weights, activations = (FLOAT if each is None else each.format for each in (record.weights, record.activations))
        found |= find_unused(given, weights, activations)
    if record.source == "arrays":
        found |= dict.fromkeys((name for name in _OF_MODELS if name in given), "arrays")
    events = [
        QuantizationEvent("unused_option", f"--{_OPTION_NAMES.get(name, name.replace('_', '-'))}", detail=reason)
        for name, reason in found.items()
    ]
    return replace(record, events=(*record.events, *events))


def _unfit(name: str, array: NDArray[Any]) -> QuantizationEvent | None:
    if not is_floating(array.dtype):
        return QuantizationEvent("not_floating", name, array.size, str(array.dtype))
    if not array.size:
        return QuantizationEvent("empty", name)
    bad = int(array.size - np.isfinite(array).sum())
    return QuantizationEvent("non_finite", name, bad) if bad else None
