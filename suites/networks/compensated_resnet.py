"""ResNet-50 in 8 bits on a stream of images, with the errors of quantization carried from step to step, and without.

Each layer quantizes its inputs. The rule of what it carries is that of networks/compensation.py, with the shares of a
convolution (0.2 and 0.8) and of a linear layer (0.1 and 0.9). Steps are calibrated on the first images and frozen. The
scores of ten steps are averaged: a carried error pays for what is averaged, and only for that.
"""

from __future__ import annotations

import torch
from networks.precision import LARGEST_CODE, EightBit, codes, with_eight_bits
from networks.resnet import resnet50
from torch import Tensor, nn

HEADROOM = 1.25
"""Inputs may be so many times as large as the largest of the first step, before they are clipped."""
SHARES = {"convolution": (0.2, 0.8), "linear": (0.1, 0.9), "none": (0.0, 0.0)}


class Carrying(EightBit):
    """An 8-bit layer that subtracts from its inputs what it carries of the errors of earlier steps."""

    def __init__(self, layer: EightBit, *, compensated: bool) -> None:
        super().__init__(layer.made_of[0])
        kind = "linear" if self.convolution is None else "convolution"
        self.alpha, self.beta = SHARES[kind if compensated else "none"]
        self.input_step: Tensor | None = None
        self.carried: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Quantize the inputs minus the carried error; carry alpha of the carried and beta of the newest error."""
        if self.input_step is None or self.carried is None:
            self.input_step = x.abs().amax() * (HEADROOM / LARGEST_CODE)
            self.carried = torch.zeros_like(x)
        wanted = x - self.carried
        given = codes(wanted, self.input_step)
        if self.beta:
            self.carried = self.alpha * self.carried + self.beta * (given * self.input_step - wanted)
        return self.scaled(self.sums(given.double()), self.input_step)


class Streamed(nn.Module):
    """A classifier of images that are seen several times, with noise, and whose scores are averaged."""

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, base: Tensor, noise: Tensor) -> dict[str, Tensor]:
        """Classify base (images, 3, height, width) plus each noise (steps, images, ...): mean logits, best class."""
        logits = [self.classifier(base + step)["logits"] for step in noise]
        scores = torch.stack(logits).double().mean(0).to(logits[0].dtype)
        return {"scores": scores, "top1": scores.argmax(-1)}


def streamed(arithmetic: str = "float32") -> nn.Module:
    """Make the classifier in float64, float32, int8, or int8 with carried errors ("compensated")."""
    if arithmetic not in ("int8", "compensated"):
        return Streamed(resnet50(arithmetic))
    classifier = with_eight_bits(resnet50())
    for path, part in list(classifier.named_modules()):
        if isinstance(part, EightBit):
            parent, _, name = path.rpartition(".")
            carrying = Carrying(part, compensated=arithmetic == "compensated")
            setattr(classifier.get_submodule(parent), name, carrying)
    return Streamed(classifier)
