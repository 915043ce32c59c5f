"""How is a float module quantized in simulation, by options?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from msgspec.structs import replace
from torch import nn
from torch.nn.parameter import UninitializedParameter

from precreg.errors import UserError, nearest
from precreg.quantization.arrays import (
    channel_rows,
    measure_array,
    quantize_values,
    require_finite_values,
    row_rounding,
)
from precreg.quantization.codes import change_format, short_group_events
from precreg.quantization.model import LayerFacts
from precreg.quantization.torch.layers import QuantizedLayer, TorchModel, to_array
from precreg.quantization.torch.observed import Observation, ObservedLayer, observe_layers
from precreg.types import ArrayQuantization, QuantizationEvent, Quantizer

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_KINDS = (nn.Linear, *_CONVOLUTIONS, *_TRANSPOSED, nn.MultiheadAttention)


def simulate_module(
    module: Any,
    calibration: Sequence[Any],
    batches: Sequence[Any],
    weights: Quantizer | None,
    activations: Quantizer | None,
    patterns: Sequence[str] = (),
    *,
    format_of: Callable[[str], str | None] | None = None,
    details: bool = True,
) -> TorchModel:
    """Return a model whose layers can be quantized: Linear, Conv and attention, or those that patterns name.

    `format_of` gives the weights of each layer a format of their own, or None: then the whole layer stays float.
    `details` False leaves out the figures of other granularities and calibrations.

    Raises UserError: unknown-node for a pattern without a layer; bad-value for a module without such layers, and for
    weights without a shape, of tensors of other libraries, or with NaN.
    """
    own = own_copy(module)
    _require_shapes(own)
    chosen = choose_layers(own, patterns)
    for name, each in chosen:
        for of_layer in weight_names(each):
            weight = getattr(each, of_layer)
            _require_plain(weight, f"{name}.{of_layer}")
            require_finite_values(to_array(weight), f"{name}.{of_layer}")
    events: list[QuantizationEvent] = []
    observed = [ObservedLayer(name, each, input_axis(each)) for name, each in chosen]
    order = observe_layers(own, observed, calibration)
    known = dict(chosen)
    order = _with_inner_weights(order, known)
    events += [QuantizationEvent("not_run", name) for name, _ in chosen if name not in order]
    layers = []
    for name, observation in order.items():
        quantizers = (weights, activations)
        if format_of is not None:
            own_format = format_of(name)
            if own_format is None or weights is None:
                continue
            quantizers = (change_format(weights, own_format), activations)
        layers.append(_simulated_layer(name, known[name], observation, quantizers, events, details=details))
    return TorchModel(own, [each for each in layers if each is not None], batches, events)


def _with_inner_weights(order: dict[str, Observation], known: dict[str, Any]) -> dict[str, Observation]:
    """Return the observations with the last layer of each attention after it: attention uses its weights directly."""
    found = {}
    for name, observation in order.items():
        found[name] = observation
        inner = f"{name}.out_proj"
        if isinstance(known[name], nn.MultiheadAttention) and inner in known:
            found[inner] = Observation(-1, 1)
    return found


def own_copy(module: Any) -> Any:
    """Return a copy of a module in evaluation mode. Raises UserError: bad-value for what is no module."""
    if not isinstance(module, nn.Module):
        raise UserError(
            "bad-value",
            f"expected a torch.nn.Module but got {type(module).__name__}",
            hint="return the model from make: def make(): return Net(), data",
        )
    try:
        return deepcopy(module).eval()
    # Modules keep anything in their attributes, and torch copies no tensor that an operation made.
    except Exception as problem:
        raise UserError(
            "bad-value",
            f"expected a module that copy.deepcopy copies but got {type(problem).__name__}: {problem}",
            hint="detach the tensors that the module keeps: self.cache = x.detach()",
        ) from problem


def _require_shapes(module: Any) -> None:
    """Refuse lazy layers, which would get their weights after the choice, and stay float. Raises UserError."""
    for name, each in module.named_modules():
        if any(isinstance(parameter, UninitializedParameter) for parameter in each._parameters.values()):
            raise UserError(
                "bad-value",
                f"expected layers with shapes but got {name}: {type(each).__name__} without one",
                hint="call the model once in make: net(torch.randn(8, 3, 32, 32))",
            )


def _require_plain(weight: Any, name: str) -> None:
    """Refuse weights that another library, such as torchao, has quantized already. Raises UserError."""
    if type(weight.data) is not torch.Tensor:
        raise UserError(
            "bad-value",
            f"expected plain tensors as weights but got {name} of type {type(weight.data).__name__}",
            hint="return the float model from make, as it is before torchao.quantization.quantize_",
        )


def choose_layers(module: Any, patterns: Sequence[str]) -> list[tuple[str, Any]]:
    """Return names and modules of the layers to quantize. Raises UserError: unknown-node, bad-value."""
    named = [(name, each) for name, each in module.named_modules() if weight_names(each)]
    if not patterns:
        chosen = [(name, each) for name, each in named if isinstance(each, _KINDS)]
        if chosen:
            return chosen
        message = f"expected Linear or Conv layers but {type(module).__name__} has none"
        raise UserError("bad-value", message, hint="name layers that have weights: --layers 'blocks.*'")
    known = [name for name, _ in named]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            message = f"expected a layer with weights but got layers={pattern}{nearest(pattern, known)}"
            raise UserError("unknown-node", message, hint=f"write --layers {next(iter(known), '*')}")
    return [(name, each) for name, each in named if any(fnmatchcase(name, pattern) for pattern in patterns)]


def weight_names(module: Any) -> list[str]:
    """Return the names of a module's own matrices: parameters of 2 or more axes, or those of a parametrization."""
    own = [name for name, each in module.named_parameters(recurse=False) if each.ndim >= 2]
    return [*own, *getattr(module, "parametrizations", {})]


def input_axis(module: Any) -> int:
    """Return the axis of the channels of a layer's inputs."""
    return 1 if isinstance(module, (*_CONVOLUTIONS, *_TRANSPOSED)) else -1


def weight_axis(module: Any) -> int:
    """Return the axis of the channels of a layer's weights, for which it has a scale each."""
    return 1 if isinstance(module, _TRANSPOSED) else 0


def _simulated_layer(
    name: str,
    module: Any,
    observation: Observation,
    quantizers: tuple[Quantizer | None, Quantizer | None],
    events: list[QuantizationEvent],
    *,
    details: bool,
) -> QuantizedLayer | None:
    weights, activations = quantizers
    if observation.left_out:
        events.append(QuantizationEvent("sampled", name, observation.left_out))
    if hasattr(module, "parametrizations"):
        events.append(QuantizationEvent("computed_weight", name))
        weights = None
    names = weight_names(module)
    weight, exchange = (None, Exchange(module, {}))
    if weights is not None and names:
        weight, exchange = _quantized_weights(
            module, names, replace(weights, axis=weight_axis(module)), details=details
        )
        events += short_group_events(name, weight.shape, weight.quantizer)
    activation = None
    function = None
    if activations is not None and observation.calls:
        activation, function = activation_function(
            observation.values, activations, input_axis(module), name, events, details=details
        )
    if weight is None and activation is None:
        return None
    count = sum(each.numel() for each in module.parameters(recurse=False))
    facts = LayerFacts(name, type(module).__name__, count, weight, activation)
    return QuantizedLayer(facts, module, exchange.quantize, exchange.restore, function)


class Exchange:
    """Exchange parameters of one module for quantized ones, and back; other modules with the same ones keep theirs."""

    def __init__(self, module: Any, tensors: dict[str, Any]) -> None:
        self._module, self._tensors = module, tensors
        self._own = {name: module._parameters[name] for name in tensors}

    def quantize(self) -> None:
        """Give the module the quantized parameters."""
        self._module._parameters.update(self._tensors)

    def restore(self) -> None:
        """Give the module its own parameters."""
        self._module._parameters.update(self._own)


def _quantized_weights(
    module: Any, names: Sequence[str], quantizer: Quantizer, *, details: bool
) -> tuple[ArrayQuantization, Exchange]:
    """Return the figures of a layer's weights, and their exchange. The figures are those of the largest matrix."""
    tensors = {}
    figures: list[ArrayQuantization] = []
    for name in sorted(names, key=lambda each: -getattr(module, each).numel()):
        parameter = getattr(module, name)
        array = to_array(parameter)
        figures.append(measure_array(array, quantizer, details=details))
        quantized = torch.from_numpy(quantize_values(array, quantizer).values.copy())
        tensors[name] = nn.Parameter(quantized.to(parameter.device, parameter.dtype), requires_grad=False)
    return figures[0], Exchange(module, tensors)


def activation_function(
    values: Any,
    quantizer: Quantizer,
    axis: int,
    name: str,
    events: list[QuantizationEvent],
    *,
    details: bool = True,
) -> tuple[ArrayQuantization | None, Callable[[Any], Any] | None]:
    """Return the figures of observed activations, and the function that quantizes those of a call."""
    if not np.any(values):
        events.append(QuantizationEvent("all_zero", name))
        return None, None
    # The observed rows have their channels last. Blocks run along the channels of each row.
    of_rows = replace(quantizer, axis=0 if quantizer.calibration == "block" else 1)
    try:
        figures = measure_array(values, of_rows, details=details, channel_axis=1)
    except UserError as problem:
        raise UserError(problem.slug, f"inputs of {name}: {problem.message}", hint=problem.hint) from None
    change = row_rounding(values, of_rows)

    def apply(tensor: Any) -> Any:
        return like(tensor, change(channel_rows(to_array(tensor), axis)), axis)

    return figures, apply


def like(tensor: Any, rows: Any, axis: int) -> Any:
    """Return rows of channels as a tensor of another's shape, dtype and device."""
    shape = tuple(tensor.shape)
    if len(shape) >= 2:
        axis %= len(shape)
        moved = (*shape[:axis], *shape[axis + 1 :], shape[axis])
        rows = np.moveaxis(rows.reshape(moved), -1, axis)
    return torch.from_numpy(np.ascontiguousarray(rows)).reshape(shape).to(tensor.device, tensor.dtype)
