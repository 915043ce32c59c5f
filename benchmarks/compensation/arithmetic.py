"""Which numbers does a layer of few bits compute with, and what does it carry from frame to frame?

A layer reads u = x - c, computes with q(u), and carries c = alpha c + beta (q(u) - u), from zeros again with each
stream: suites/networks/compensation.py has the rule, and why the error is subtracted. Weights are rounded once.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from precreg.arithmetic import Rounding, format_named, round_to

Kind = Literal["int8", "int16", "20 bits"]
BITS = {"int8": 8, "int16": 16}

# The largest code covers so many times the largest magnitude of the calibration.
HEADROOM = 1.25

# Published coefficients: convolutions, and linear layers.
SHARES = {nn.Conv2d: (0.2, 0.8), nn.Linear: (0.1, 0.9)}


class Arithmetic(NamedTuple):
    """The numbers of the layers, and whether they carry their errors."""

    kind: Kind
    is_compensated: bool


class FewBits(nn.Module):
    """A convolution or a linear layer that reads numbers of few bits. Sums of int8 are exact, others are in float32."""

    def __init__(self, layer: nn.Conv2d | nn.Linear, arithmetic: Arithmetic) -> None:
        super().__init__()
        self.kind = arithmetic.kind
        self.alpha, self.beta = SHARES[type(layer)] if arithmetic.is_compensated else (0.0, 0.0)
        self.bias = None if layer.bias is None else layer.bias.detach()
        self.convolution = (layer.stride, layer.padding) if isinstance(layer, nn.Conv2d) else None
        self.weight_step, self.weight = _rounded_weights(layer.weight.detach(), self.kind)
        self.step: Tensor | None = None
        self.carried: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Round the inputs minus the carried error, and multiply. The first call calibrates the step of the codes."""
        if self.step is None and self.kind in BITS:
            self.step = x.abs().amax() * (HEADROOM / _largest_code(self.kind))
        wanted = x if self.carried is None else x - self.carried
        codes = self._codes(wanted)
        if self.beta:
            newest = self.beta * ((codes if self.step is None else codes * self.step) - wanted)
            self.carried = newest if self.carried is None else self.alpha * self.carried + newest
        return self._product(codes)

    def _codes(self, x: Tensor) -> Tensor:
        if self.step is None:
            return truncated(x)
        largest = _largest_code(self.kind)
        return (x / self.step).round_().clamp_(-largest, largest)

    def _product(self, codes: Tensor) -> Tensor:
        sums = _exact_int8_sums(codes, self._multiply) if self.kind == "int8" else self._multiply(codes)
        if self.step is None:
            return truncated(sums if self.bias is None else sums + self._by_channel(self.bias))
        outputs = sums * self._by_channel(self.weight_step * self.step)
        return outputs if self.bias is None else outputs + self._by_channel(self.bias)

    def _multiply(self, x: Tensor) -> Tensor:
        if self.convolution is None:
            return functional.linear(x, self.weight)
        return functional.conv2d(x, self.weight, None, *self.convolution)

    def _by_channel(self, values: Tensor) -> Tensor:
        return values if self.convolution is None else values.view(-1, 1, 1)


def _exact_int8_sums(codes: Tensor, multiply: object) -> Tensor:
    """Add products of codes without rounding: float32 holds the sums of the high and of the low four bits.

    The largest sum of low parts is 127 * 15 * K, below 2**24 for K < 8,807; here K is at most 4,608.
    """
    high = torch.floor(codes / 16)
    return (multiply(high).double() * 16 + multiply(codes - high * 16).double()).float()


def truncated(x: Tensor) -> Tensor:
    """Round toward zero to 20 bits of mantissa, without subnormal numbers."""
    return torch.from_numpy(round_to(x.contiguous().numpy(), format_named("float32_m20"), Rounding.TOWARD_ZERO))


def _largest_code(kind: Kind) -> int:
    return 2 ** (BITS[kind] - 1) - 1


def _rounded_weights(weight: Tensor, kind: Kind) -> tuple[Tensor, Tensor]:
    """Return the step of each output channel and the codes of the weights; a step of 1 and truncated weights."""
    if kind not in BITS:
        return torch.ones(len(weight)), truncated(weight)
    step = (weight.abs().flatten(1).amax(1) / _largest_code(kind)).clamp_min(torch.finfo(weight.dtype).tiny)
    return step, (weight / step.view(-1, *[1] * (weight.ndim - 1))).round()


def with_few_bits(model: nn.Module, arithmetic: Arithmetic) -> nn.Module:
    """Return the model with FewBits in place of its convolutions and linear layers; other modules are shared."""
    model = _shallow(model)
    for name, part in model.named_children():
        is_layer = type(part) in SHARES
        model._modules[name] = FewBits(part, arithmetic) if is_layer else with_few_bits(part, arithmetic)
    return model


def _shallow(module: nn.Module) -> nn.Module:
    copied = module.__class__.__new__(module.__class__)
    copied.__dict__.update(module.__dict__)
    copied._modules = dict(module._modules)
    return copied


def begin_stream(model: nn.Module) -> None:
    """Forget the carried errors: other images follow."""
    for part in model.modules():
        if isinstance(part, FewBits):
            part.carried = None
