"""A transformer of 12 blocks and ResNet-50, with one fault in one layer.

The module runs in a project that has a copy of suites/networks, as `networks.faulty`.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from networks.gpt import Gpt
from networks.resnet import ResNet
from networks.seeded import initialized
from networks.transformer import Attention, Sizes
from torch import nn
from torch.nn import functional

# The block of each network that has the fault.
BLOCK = {"transformer": "blocks.7", "resnet50": "layer3.2"}
# Inputs of a norm that are so small that its epsilon counts, in the network with the fault and without.
QUIET = 2.0**-10
# A format that is narrower than the model's.
NARROWER = {torch.float32: torch.bfloat16, torch.bfloat16: torch.float8_e4m3fn}


class NarrowNorm(nn.Module):
    """Normalize in a narrower format."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Round the inputs, and normalize them; torch has no norm in 8 bits."""
        low = x.to(NARROWER[x.dtype])
        if x.dtype == torch.bfloat16:
            return self.norm(low.to(x.dtype))
        return deepcopy(self.norm).to(low.dtype)(low).to(x.dtype)


class NarrowSum(nn.Module):
    """Multiply matrices with a sum in float16, or in the model's own format if that is bfloat16."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add up products of two terms each."""
        low = torch.float16 if x.dtype == torch.float32 else x.dtype
        is_image = isinstance(self.layer, nn.Conv2d)
        values = x.movedim(1, -1) if is_image else x
        weight = self.layer.weight.flatten(1)
        total = torch.zeros(*values.shape[:-1], len(weight), dtype=low)
        for at in range(0, weight.shape[1], 2):
            total += functional.linear(values[..., at : at + 2], weight[:, at : at + 2]).to(low)
        result = total.to(x.dtype)
        return result.movedim(-1, 1) if is_image else result + self.layer.bias


class Quiet(nn.Module):
    """Normalize small inputs, with an epsilon or without."""

    def __init__(self, norm: nn.Module, eps: float) -> None:
        super().__init__()
        self.norm, self.eps = norm, eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize the last axis, or the channels of images by the statistics of the norm."""
        x = x * QUIET
        if isinstance(self.norm, nn.LayerNorm):
            centred = x - x.mean(-1, keepdim=True)
            variance = centred.square().mean(-1, keepdim=True)
            scale, shift = self.norm.weight, self.norm.bias
        else:
            shape = (1, -1, 1, 1)
            centred = x - (self.norm.running_mean * QUIET).view(shape)
            variance = (self.norm.running_var * QUIET * QUIET).view(shape)
            scale, shift = self.norm.weight.view(shape), self.norm.bias.view(shape)
        return centred / torch.sqrt(variance + self.eps) * scale + shift


class Hop(nn.Module):
    """Hand the inputs over in a narrower format."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Cast there and back."""
        return self.layer(x.to(NARROWER[x.dtype]).to(x.dtype))


class Stale(nn.Module):
    """Add up in a buffer that still has the numbers of an earlier call."""

    def __init__(self, layer: nn.Module, left: float) -> None:
        super().__init__()
        self.layer, self.left = layer, left

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Fill the buffer, and add the result to it."""
        result = self.layer(x)
        # No constant: the next norm would take it away.
        buffer = (torch.arange(result.numel()) % 7).view_as(result).to(result.dtype) * self.left
        buffer += result
        return buffer


class WrongScale(Attention):
    """Divide scores by the width of a head instead of its square root."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor, past: object = None) -> tuple:
        """Attend without a past, as `Attention` does apart from the scale."""
        q, k, v = (self.split(part(x)) for part in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / q.shape[-1]
        context = torch.softmax(scores + mask, -1) @ v
        return self.output(context.transpose(1, 2).flatten(2)), (k, v)


class Scaled(nn.Module):
    """Scale the result of a layer."""

    def __init__(self, layer: nn.Module, factor: float) -> None:
        super().__init__()
        self.layer, self.factor = layer, factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply."""
        return self.layer(x) * self.factor


class Logits(nn.Module):
    """Read each text at once."""

    def __init__(self, model: Gpt) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next tokens."""
        return self.model.logits(tokens)[0]


class Classes(nn.Module):
    """Classify images."""

    def __init__(self, model: ResNet) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.model(images)["logits"]


def make(network: str, precision: str, fault: str, of: str, width: int = 256, places: int = 32) -> nn.Module:
    """Return a network in a precision; with `fault` "none" it is the exact counterpart of the one with fault `of`."""
    is_text = network == "transformer"
    with torch.device("meta"):
        model = Gpt(Sizes(512, places, width, 4, 12)) if is_text else ResNet(100)
    model = initialized(model).to(getattr(torch, precision))
    block = model.get_submodule(BLOCK[network])
    norm, layer = ("norm", "down") if is_text else ("bn2", "conv3")
    is_faulty = fault == of
    if of == "narrow norm" and is_faulty:
        setattr(block, norm, NarrowNorm(getattr(block, norm)))
    if of == "narrow accumulator" and is_faulty:
        setattr(block, layer, NarrowSum(getattr(block, layer)))
    if of == "epsilon dropped":
        setattr(block, norm, Quiet(getattr(block, norm), 0.0 if is_faulty else 1e-5))
    if of == "wrong scale" and is_text and is_faulty:
        block.attention.__class__ = WrongScale
    if of == "wrong scale" and not is_text:
        setattr(block, layer, Scaled(getattr(block, layer), 0.5 if is_faulty else 0.25))
    if of == "cast hop" and is_faulty:
        setattr(block, layer, Hop(getattr(block, layer)))
    if of == "stale buffer":
        setattr(block, layer, Stale(getattr(block, layer), 0.125 if is_faulty else 0.0))
    return Logits(model) if is_text else Classes(model)
