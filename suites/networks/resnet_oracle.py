"""What ResNet-50 is compared with: its formulas in float64, layer by layer from the weights by name.

Only the weights and torch's convolution are shared with networks/resnet.py.
"""

from __future__ import annotations

import torch
from networks.resnet import resnet50
from torch import Tensor
from torch.nn import functional

Weights = dict[str, Tensor]


def classify(x: Tensor, optimization: str = "") -> dict[str, Tensor]:
    """Return the logits of images (images, 3, height, width), and the best classes, whatever an exporter optimizes."""
    logits = logits_of(x, resnet50("float64").state_dict())
    return {"logits": logits, "top1": logits.argmax(-1)}


def logits_of(x: Tensor, weights: Weights) -> Tensor:
    """Return the logits, in float64."""
    x = functional.conv2d(x, weights["conv1.weight"], stride=2, padding=3)
    x = functional.max_pool2d(normalized(x, weights, "bn1").clamp(min=0), 3, 2, 1)
    for stage, count in enumerate((3, 4, 6, 3), start=1):
        for index in range(count):
            x = block(x, weights, f"layer{stage}.{index}", 2 if stage > 1 and index == 0 else 1)
    return x.sum((2, 3)) / (x.shape[2] * x.shape[3]) @ weights["fc.weight"].T + weights["fc.bias"]


def block(x: Tensor, weights: Weights, name: str, stride: int) -> Tensor:
    """Return relu(three convolutions of x + x or its projection); the stride is that of the 3x3 convolution."""
    inner = functional.conv2d(x, weights[f"{name}.conv1.weight"])
    inner = normalized(inner, weights, f"{name}.bn1").clamp(min=0)
    inner = functional.conv2d(inner, weights[f"{name}.conv2.weight"], stride=stride, padding=1)
    inner = normalized(inner, weights, f"{name}.bn2").clamp(min=0)
    inner = normalized(functional.conv2d(inner, weights[f"{name}.conv3.weight"]), weights, f"{name}.bn3")
    if f"{name}.downsample.0.weight" in weights:
        projected = functional.conv2d(x, weights[f"{name}.downsample.0.weight"], stride=stride)
        x = normalized(projected, weights, f"{name}.downsample.1")
    return (inner + x).clamp(min=0)


def normalized(x: Tensor, weights: Weights, name: str) -> Tensor:
    """Return (x - mean) / sqrt(variance + 1e-5) * gain + shift for each channel."""
    gain, shift, mean, variance = (
        weights[f"{name}.{part}"][:, None, None] for part in ("weight", "bias", "running_mean", "running_var")
    )
    return (x - mean) * (gain / torch.sqrt(variance + 1e-5)) + shift
