"""Which layers of a module in quantization-aware training are fake-quantized, and with which scales?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.ao.quantization import FakeQuantizeBase, disable_fake_quant, disable_observer

from precreg.quantization.arrays import StoredScales, measure_array
from precreg.quantization.codes import Codes, Scales
from precreg.quantization.model import LayerFacts
from precreg.quantization.torch.layers import QuantizedLayer, TorchModel, to_array
from precreg.quantization.torch.observed import Observation, ObservedLayer, observe_layers
from precreg.quantization.torch.simulated import input_axis, own_copy
from precreg.quantization.torch.stored import stored_activation
from precreg.types import ArrayQuantization, QuantizationEvent, Quantizer

_WEIGHT, _RESULT = "weight_fake_quant", "activation_post_process"


def is_fake_quantized(module: Any) -> bool:
    """Return whether a module has fake quantizations inside."""
    return any(isinstance(each, FakeQuantizeBase) for each in module.modules())


def read_fake_quantized(module: Any, calibration: Sequence[Any], batches: Sequence[Any]) -> TorchModel:
    """Return a model whose float form is the module without its fake quantizations, and which switches each on."""
    own = own_copy(module)
    own.apply(disable_observer)
    own.apply(disable_fake_quant)
    events: list[QuantizationEvent] = []
    chosen = [(name, each) for name, each in own.named_modules() if _own(each, _WEIGHT) or _own(each, _RESULT)]
    known = dict(chosen)
    observed = [ObservedLayer(name, _called(each), input_axis(each), "output") for name, each in chosen]
    order = observe_layers(own, observed, calibration)
    events += [QuantizationEvent("not_run", name) for name, _ in chosen if name not in order]
    layers = [_layer(name, known[name], observation, events) for name, observation in order.items()]
    return TorchModel(own, [each for each in layers if each is not None], batches, events)


def _own(module: Any, name: str) -> Any:
    found = module._modules.get(name)
    return found if isinstance(found, FakeQuantizeBase) else None


def _called(module: Any) -> Any:
    """Return the module whose call gives the layer's result: a functional has no call of its own."""
    return module.activation_post_process if type(module).__name__ == "FloatFunctional" else module


def _layer(name: str, module: Any, observation: Observation, events: list[QuantizationEvent]) -> QuantizedLayer | None:
    if observation.left_out:
        events.append(QuantizationEvent("sampled", name, observation.left_out))
    fake_weight, fake_result = _own(module, _WEIGHT), _own(module, _RESULT)
    weight = None if fake_weight is None else _weight_figures(module, fake_weight)
    activation: ArrayQuantization | None = None
    function: Callable[[Any], Any] | None = None
    if fake_result is not None:
        activation, function = stored_activation(name, observation, _stored(fake_result), events)
    if weight is None and activation is None:
        return None
    count = sum(each.numel() for each in module.parameters(recurse=False))
    facts = LayerFacts(name, type(module).__name__, count, weight, activation, "output")
    return QuantizedLayer(facts, _called(module), _switch(fake_weight, 1), _switch(fake_weight, 0), function)


def _switch(fake: Any, state: int) -> Callable[[], None]:
    def switch() -> None:
        if fake is not None:
            fake.fake_quant_enabled[0] = state

    return switch


def _stored(fake: Any) -> StoredScales:
    scale, zero = (each.detach().cpu().double().numpy().reshape(-1) for each in (fake.scale, fake.zero_point))
    least, most = int(fake.activation_post_process.quant_min), int(fake.activation_post_process.quant_max)
    return StoredScales(Codes(f"int{(most - least).bit_length()}", least, most), Scales(scale, zero))


def _weight_figures(module: Any, fake: Any) -> ArrayQuantization:
    stored = _stored(fake)
    granularity: Any = "channel" if len(stored.scales.scale) > 1 else "tensor"
    quantizer = Quantizer(stored.codes.name, granularity=granularity, calibration="stored")
    return measure_array(to_array(_scaled_weight(module)), quantizer, stored=stored)


def _scaled_weight(module: Any) -> Any:
    """Return the weights that are fake-quantized: with a fused norm, those that its scale has multiplied."""
    norm = getattr(module, "bn", None)
    if norm is None:
        return module.weight
    factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return module.weight * factor.reshape(-1, *[1] * (module.weight.ndim - 1))
