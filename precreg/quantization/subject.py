"""Which outputs does a case of the kind "quantization" have: the errors of a model with each layer quantized?

The errors are those of the model's results, over the root mean square of the float results. So the metric `rms_error`
of an output is the relative error that `precreg quantization` prints.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import numpy as np

from precreg.errors import UserError
from precreg.quantization.codes import make_quantizer
from precreg.quantization.kind import EXACT, FLOAT, OPTIONS
from precreg.quantization.model import QuantizableModel
from precreg.quantization.session import QuantizationOptions, has_own_scales, open_model, read_given_model
from precreg.quantization.user_code import call_seeded
from precreg.storage import format_value
from precreg.subject import KIND_IMPORT, Call, Outputs, SurroundingsRestored, array_to_tensor, note_use, watch_import
from precreg.types import Quantizer

# The prefixes of the outputs: one layer quantized, all others float; and all layers up to this one.
ALONE, ACCUMULATED = "quantized.", "accumulated."
_IMPORT = (KIND_IMPORT, "quantization")


def options_of(spec: dict[str, Any]) -> QuantizationOptions:
    """Return the quantizers of a specification, or of the options of the command. Raises UserError: bad-value."""
    return QuantizationOptions(_weights(spec), _activations(spec), tuple(spec.get("layers", ())))


def _weights(spec: dict[str, Any]) -> Quantizer | None:
    name = spec.get("weights", "int8")
    if name == FLOAT:
        return None
    group = spec.get("group")
    return make_quantizer(
        name,
        zero_point=spec.get("zero_point", False),
        granularity=spec.get("granularity") or ("channel" if group is None else "group"),
        group=group,
        calibration=spec.get("weight_calibration", "max"),
    )


def _activations(spec: dict[str, Any]) -> Quantizer | None:
    name = spec.get("activations", "int8")
    if name == FLOAT:
        return None
    return make_quantizer(
        name,
        zero_point=spec.get("activation_zero_point", False),
        calibration=spec.get("calibration", "max"),
        dynamic=spec.get("dynamic", False),
    )


def run_quantization(spec: dict[str, Any], call: Call) -> Outputs:
    """Return the errors of a model's results by layer, as float32; those of a reference are zeros in float64.

    The inputs of the case are the model's. The data that `make` returns calibrate; without data the inputs do.

    Raises UserError: bad-value, bad-outputs, unknown-node, model-failed.
    """
    with watch_import(_IMPORT):
        from precreg.subject.torch import settings_of
    note_use(_IMPORT)
    with SurroundingsRestored(), settings_of({}):
        started = perf_counter_ns()
        model = _model(spec, call)
        found = _zeros(model) if spec.get(EXACT) else _errors(model)
        return Outputs(found, (perf_counter_ns() - started) / 1e9)


def _model(spec: dict[str, Any], call: Call) -> QuantizableModel:
    from precreg.quantization.torch import as_model_dtype, read_batches

    given = read_given_model(call_seeded(spec["quantization"], call.directory, call.project), spec["quantization"])
    if has_own_scales(given.model):
        _require_no_options(spec)
    inputs = {name: array_to_tensor(array, f"input {name}") for name, array in call.inputs.items()}
    if spec.get(EXACT):
        # A reference gets float64, and its zeros need no more than the shape of the results.
        inputs = {name: as_model_dtype(given.model, each) for name, each in inputs.items()}
    if not inputs and given.data is None:
        message = f"expected inputs, or data of {spec['quantization']}, but there are neither"
        raise UserError("bad-value", message, hint="return them: def make(): return Net(), [torch.randn(8, 16)]")
    data = read_batches(given.data, "data", with_targets=given.with_targets) if given.data is not None else None
    # One input may have any name: most models call theirs x or input.
    batch: Any = next(iter(inputs.values())) if len(inputs) == 1 else inputs
    measured = data.batches if not inputs and data is not None else [batch]
    calibration = measured if data is None else data.batches
    return open_model(given, calibration, measured, options_of(spec))


def _require_no_options(spec: dict[str, Any]) -> None:
    """Refuse the options of a simulation for a model with scales of its own. Raises UserError: bad-value."""
    given = [name for name in OPTIONS if spec.get(name, False) is not False]
    if given:
        shown = ", ".join(f"{name}={format_value(spec[name])}" for name in given)
        source = spec["quantization"]
        raise UserError(
            "bad-value",
            f"expected no options beside {source}, which returns a model with scales of its own, but got {shown}",
            hint=f"write subject: {{quantization: {source!r}}}, or return the float model from make",
        )


def _zeros(model: QuantizableModel) -> dict[str, Any]:
    exact = _joined(model.run(frozenset(), frozenset()).outputs)
    return {f"{prefix}{layer.name}": np.zeros_like(exact) for prefix in (ALONE, ACCUMULATED) for layer in model.layers}


def _errors(model: QuantizableModel) -> dict[str, Any]:
    exact = _joined(model.run(frozenset(), frozenset()).outputs)
    scale = float(np.sqrt(np.mean(np.square(exact)))) or 1.0

    def errors(names: frozenset[str]) -> Any:
        return ((_joined(model.run(names, names).outputs) - exact) / scale).astype(np.float32)

    alone = {f"{ALONE}{layer.name}": errors(frozenset({layer.name})) for layer in model.layers}
    names: list[str] = []
    accumulated = {}
    for layer in model.layers:
        names.append(layer.name)
        accumulated[f"{ACCUMULATED}{layer.name}"] = errors(frozenset(names))
    return alone | accumulated


def _joined(outputs: tuple[Any, ...]) -> Any:
    return np.concatenate([each.reshape(-1) for each in outputs])
