"""The precision of a torch network: a dtype for all of it, or 8-bit convolutions and linear layers.

Dynamic 8-bit layers quantize their weights once, with a step for each output channel, and their inputs at each call,
with one step. torch's own dynamic quantization is deprecated, has no convolution, and saturates on some CPUs. These
layers are simulated: codes are whole numbers, and float64 adds up their products without rounding (127 * 127 * fan-in
is far below 2^53). So the sums are those of int32 accumulators, on every CPU.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

LARGEST_CODE = 127


def in_precision(model: nn.Module, precision: str) -> nn.Module:
    """Return the model in a precision: the name of a float dtype, or int8."""
    return with_eight_bits(model) if precision == "int8" else model.to(getattr(torch, precision))


def with_eight_bits(model: nn.Module) -> nn.Module:
    """Replace the convolutions and linear layers of a copy of the model by 8-bit ones; the rest stays in float32."""
    model = copy.deepcopy(model)
    for path, part in list(model.named_modules()):
        if isinstance(part, nn.Linear | nn.Conv2d):
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, EightBit(part))
    return model


def restored(model: nn.Module) -> nn.Module:
    """Put the layers of which 8-bit ones were made back into the model, and return it."""
    for path, part in list(model.named_modules()):
        if isinstance(part, EightBit):
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, part.made_of[0])
    return model


class EightBit(nn.Module):
    """An 8-bit form of a convolution or a linear layer. Inputs and outputs are float32."""

    def __init__(self, layer: nn.Linear | nn.Conv2d) -> None:
        super().__init__()
        # In a list, so that the layer is no part of this one: it is not converted or counted.
        self.made_of = [layer]
        self.convolution = (layer.stride, layer.padding) if isinstance(layer, nn.Conv2d) else None
        weight = layer.weight.detach()
        step = (weight.abs().flatten(1).amax(1) / LARGEST_CODE).clamp_min(torch.finfo(weight.dtype).tiny)
        self.register_buffer("step", step)
        self.register_buffer("codes", codes(weight, step.view(-1, *[1] * (weight.ndim - 1))))
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach())
        # float64 copies of the codes are made once: they are the operands of the exact sums.
        self.register_buffer("operands", self.codes.double())

    @property
    def weight(self) -> Tensor:
        """Return the steps of the weights, which have the dtype of the layer's inputs and outputs."""
        return self.step

    def forward(self, x: Tensor) -> Tensor:
        """Quantize the inputs with one step, add up products of codes exactly, and scale the sums back."""
        step = dynamic_step(x)
        sums = self.sums(codes(x, step).double())
        return self.scaled(sums, step)

    def sums(self, inputs: Tensor) -> Tensor:
        """Return the exact sums of products of codes, as float64."""
        if self.convolution is None:
            return functional.linear(inputs, self.operands)
        return functional.conv2d(inputs, self.operands, None, *self.convolution)

    def scaled(self, sums: Tensor, step: Tensor) -> Tensor:
        """Turn sums into float32 outputs: times both steps, plus the bias."""
        shape = (-1,) if self.convolution is None else (-1, 1, 1)
        outputs = sums.to(self.step.dtype) * (self.step * step).view(shape)
        return outputs if self.bias is None else outputs + self.bias.view(shape)


def dynamic_step(x: Tensor) -> Tensor:
    """Return the step with which the largest magnitude of x has the largest code."""
    return (x.abs().amax() / LARGEST_CODE).clamp_min(torch.finfo(x.dtype).tiny)


def codes(x: Tensor, step: Tensor) -> Tensor:
    """Return x in steps, rounded to nearest even, at most 127 on either side, as int8."""
    return (x / step).round().clamp(-LARGEST_CODE, LARGEST_CODE).to(torch.int8)
