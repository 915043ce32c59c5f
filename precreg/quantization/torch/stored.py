"""Which float module belongs to a quantized one, and which scales does the quantized one have?

Modules of torch.ao that are quantized, dynamically or statically, keep their weights as integers with scales. Their
float form has the dequantized weights. Its results are quantized with the scales that the module has for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.ao.nn import quantized as nnq
from torch.ao.nn.intrinsic import quantized as nniq
from torch.ao.nn.quantized import dynamic as nnqd

from precreg.errors import UserError
from precreg.quantization.arrays import StoredScales, measure_array
from precreg.quantization.codes import Codes, Scales, decode, encode
from precreg.quantization.model import LayerFacts
from precreg.quantization.torch.layers import QuantizedLayer, TorchModel, to_array
from precreg.quantization.torch.observed import Observation, ObservedLayer, observe_layers
from precreg.quantization.torch.simulated import Exchange, activation_function, input_axis, own_copy
from precreg.types import ArrayQuantization, QuantizationEvent, QuantizedRole, Quantizer

_FLOAT_OF = {
    nnqd.Linear: nn.Linear,
    nnq.Linear: nn.Linear,
    nniq.LinearReLU: nn.Linear,
    nnq.Conv1d: nn.Conv1d,
    nnq.Conv2d: nn.Conv2d,
    nnq.Conv3d: nn.Conv3d,
    nniq.ConvReLU1d: nn.Conv1d,
    nniq.ConvReLU2d: nn.Conv2d,
    nniq.ConvReLU3d: nn.Conv3d,
}
_WITH_RELU = (nniq.LinearReLU, nniq.ConvReLU1d, nniq.ConvReLU2d, nniq.ConvReLU3d)
_CONVOLUTION = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups")
_PLAIN = {nnq.ReLU6: nn.ReLU6, nnq.DeQuantize: nn.Identity, nnq.Dropout: nn.Identity, nnq.Quantize: nn.Identity}
# These take and return floats, so that they run in the float module as they are.
_RECURRENT = (nnqd.LSTM, nnqd.GRU, nnqd.LSTMCell, nnqd.GRUCell, nnqd.RNNCell)
_QUANTIZED = (nnq, nniq, nnqd)
# The codes of the dtypes of torch. quint8 of a static module has all 8 bits.
_CODES = {
    torch.qint8: Codes("int8", -128, 127),
    torch.quint8: Codes("uint8", 0, 255),
    torch.qint32: Codes("int32", -(2**31), 2**31 - 1),
}


class _Part(NamedTuple):
    """Hold a quantized module, the float one in its place, and the module whose call is quantized."""

    name: str
    quantized: Any
    twin: Any

    @property
    def called(self) -> Any:
        return self.twin.activation_post_process if isinstance(self.twin, nnq.FloatFunctional) else self.twin

    @property
    def role(self) -> QuantizedRole:
        return "input" if isinstance(self.quantized, nnqd.Linear) else "output"


def is_quantized_module(module: Any) -> bool:
    """Return whether a module has quantized modules of torch.ao inside."""
    return any(_is_of_torch(each) for each in module.modules())


def _is_of_torch(module: Any) -> bool:
    # A float module in the same package, for models before their conversion.
    if isinstance(module, nnq.FloatFunctional):
        return False
    return any(type(module).__module__.startswith(package.__name__) for package in _QUANTIZED)


def read_quantized_module(
    module: Any, calibration: Sequence[Any], batches: Sequence[Any], twin: Any | None
) -> TorchModel:
    """Return a model that quantizes the layers of a float module as a quantized one has them.

    `twin` is the float module before its quantization. Without it the weights are the dequantized ones, and no error of
    weights is known.

    Raises UserError: bad-value for a quantized module without a float form here, or a twin of other layers.
    """
    events: list[QuantizationEvent] = []
    own = own_copy(module) if twin is None else own_copy(twin)
    parts = list(_parts(module, own, events, is_given=twin is not None))
    if twin is None:
        events += [QuantizationEvent("no_float_twin", part.name) for part in parts if _has_weight(part.quantized)]
    observed = [ObservedLayer(part.name, part.called, _axis(part.called), part.role) for part in parts]
    order = observe_layers(own, observed, calibration)
    events += [QuantizationEvent("not_run", part.name) for part in parts if part.name not in order]
    known = {part.name: part for part in parts}
    layers = [_layer(known[name], observation, events, twin is not None) for name, observation in order.items()]
    return TorchModel(own, [each for each in layers if each is not None], batches, events)


def _parts(module: Any, own: Any, events: list[QuantizationEvent], *, is_given: bool) -> Sequence[_Part]:
    found = []
    inside: tuple[str, ...] = ()
    for name, each in module.named_modules():
        # The packed weights of a quantized module are modules, too.
        if not _is_of_torch(each) or (inside and name.startswith(inside)):
            continue
        inside = (*inside, f"{name}.")
        if isinstance(each, _RECURRENT):
            events.append(QuantizationEvent("not_covered", name, detail=type(each).__name__))
            continue
        if is_given:
            twin = _given_twin(own, name, each)
        else:
            twin = _float_form(name, each)
            _replace_module(own, name, twin)
        if twin is not None and not isinstance(each, nnq.DeQuantize | nnq.Dropout | nnq.ReLU6):
            found.append(_Part(name, each, twin))
    return found


def _float_form(name: str, module: Any) -> Any:
    """Return the float module of a quantized one. Raises UserError: bad-value."""
    kind = type(module)
    if isinstance(module, nnq.QFunctional):
        return nnq.FloatFunctional()
    if kind in _PLAIN:
        return _PLAIN[kind]()
    if kind not in _FLOAT_OF:
        raise UserError(
            "bad-value",
            f"expected quantized Linear, Conv, stubs or functionals but got {name}: {kind.__name__}",
            hint="give the float model, whose layers have the same names: --float MODULE:make_float",
        )
    twin = _empty_layer(_FLOAT_OF[kind], module)
    with torch.no_grad():
        twin.weight.copy_(_dequantized(module))
        if twin.bias is not None:
            twin.bias.copy_(module.bias())
    return nn.Sequential(twin, nn.ReLU()).eval() if isinstance(module, _WITH_RELU) else twin


def _empty_layer(kind: Any, module: Any) -> Any:
    has_bias = module.bias() is not None
    if kind is nn.Linear:
        return nn.Linear(module.in_features, module.out_features, bias=has_bias)
    options = {name: getattr(module, name) for name in _CONVOLUTION}
    return kind(**options, bias=has_bias, padding_mode=module.padding_mode)


def _given_twin(own: Any, name: str, module: Any) -> Any:
    """Return the layer of the given float module by name. Raises UserError: bad-value for another shape or none."""
    modules = dict(own.named_modules())
    if isinstance(module, nnq.DeQuantize):
        return None
    twin = modules.get(name)
    if not _has_weight(module):
        return twin
    layer = _inner(twin)
    shape, expected = getattr(getattr(layer, "weight", None), "shape", None), tuple(_weight(module).shape)
    if shape is None or tuple(shape) != expected:
        got = "none" if shape is None else str(tuple(shape))
        raise UserError(
            "bad-value",
            f"expected a float layer {name} with weights of {expected} but got {got}",
            hint="give the model as it was before convert, with its norms fused: torch.ao.quantization.fuse_modules",
        )
    return twin


def _inner(twin: Any) -> Any:
    """Return the module with the weights: a fused module has it first."""
    return twin[0] if isinstance(twin, nn.Sequential) else twin


def _replace_module(root: Any, name: str, new: Any) -> None:
    parent, _, last = name.rpartition(".")
    setattr(root.get_submodule(parent), last, new)


def _has_weight(module: Any) -> bool:
    return type(module) in _FLOAT_OF


def _weight(module: Any) -> Any:
    return module.weight()


def _dequantized(module: Any) -> Any:
    weight = _weight(module)
    return weight.dequantize() if weight.is_quantized else weight.float()


def _axis(module: Any) -> int:
    # Of a result the channels are where those of the input are.
    return input_axis(_inner(module))


def _layer(
    part: _Part, observation: Observation, events: list[QuantizationEvent], has_twin: bool
) -> QuantizedLayer | None:
    if observation.left_out:
        events.append(QuantizationEvent("sampled", part.name, observation.left_out))
    weight, exchange = None, Exchange(part.twin, {})
    if _has_weight(part.quantized):
        weight, exchange = _stored_weights(part, has_twin)
    activation, function = _activation(part, observation, events)
    if weight is None and activation is None:
        return None
    count = sum(each.numel() for each in part.twin.parameters())
    facts = LayerFacts(part.name, type(part.quantized).__name__, count, weight, activation, part.role)
    return QuantizedLayer(facts, part.called, exchange.quantize, exchange.restore, function)


def _stored_weights(part: _Part, has_twin: bool) -> tuple[ArrayQuantization | None, Exchange]:
    """Return the figures of stored weights, and their exchange for the float ones."""
    layer, stored = _inner(part.twin), _weight(part.quantized)
    if not stored.is_quantized:
        return None, Exchange(layer, {"weight": nn.Parameter(stored.float(), requires_grad=False)})
    exchange = Exchange(layer, {"weight": nn.Parameter(stored.dequantize(), requires_grad=False)})
    is_channel = stored.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric)
    scale = stored.q_per_channel_scales() if is_channel else torch.tensor([stored.q_scale()])
    zero = stored.q_per_channel_zero_points() if is_channel else torch.tensor([stored.q_zero_point()])
    quantizer = Quantizer("int8", granularity="channel" if is_channel else "tensor", calibration="stored")
    scales = StoredScales(_CODES[stored.dtype], Scales(_doubles(scale), _doubles(zero)))
    found = measure_array(to_array(layer.weight), quantizer, stored=scales, details=has_twin)
    if not has_twin:
        # The dequantized weights have no error against themselves.
        found = _without_error(found)
    return found, exchange


def _without_error(found: ArrayQuantization) -> ArrayQuantization:
    from msgspec.structs import replace

    return replace(found, figures=replace(found.figures, relative_error=None, sqnr_db=None))


def _doubles(tensor: Any) -> Any:
    return tensor.detach().cpu().double().numpy().reshape(-1)


def _activation(
    part: _Part, observation: Observation, events: list[QuantizationEvent]
) -> tuple[ArrayQuantization | None, Callable[[Any], Any] | None]:
    module = part.quantized
    if isinstance(module, nnqd.Linear):
        if not _weight(module).is_quantized:
            return None, None  # weights in float16, and inputs as they are
        # torch.ops.quantized.linear_dynamic gets reduce_range=True: 7 bits, so that sums in int16 do not overflow.
        quantizer = Quantizer("int7", zero_point=True, dynamic=True)
        return activation_function(observation.values, quantizer, -1, part.name, events)
    dtype = getattr(module, "dtype", torch.quint8)
    codes = _CODES.get(dtype, _CODES[torch.quint8])
    scales = Scales(_doubles(torch.as_tensor(module.scale)), _doubles(torch.as_tensor(module.zero_point)))
    return stored_activation(part.name, observation, StoredScales(codes, scales), events)


def stored_activation(
    name: str, observation: Observation, stored: StoredScales, events: list[QuantizationEvent]
) -> tuple[ArrayQuantization | None, Callable[[Any], Any] | None]:
    """Return the figures of observed values with a model's own scale, and the function that quantizes a tensor."""
    values = observation.values
    if not np.any(values):
        events.append(QuantizationEvent("all_zero", name))
        return None, None
    bits = stored.codes.bits
    quantizer = Quantizer(f"int{bits}", zero_point=True, axis=1, calibration="stored")

    def apply(tensor: Any) -> Any:
        rows = to_array(tensor).astype(np.float64).reshape(1, -1)
        changed = decode(encode(stored.codes, rows, stored.scales).codes, stored.scales)
        return torch.from_numpy(changed).reshape(tensor.shape).to(tensor.device, tensor.dtype)

    return measure_array(values, quantizer, stored=stored), apply
