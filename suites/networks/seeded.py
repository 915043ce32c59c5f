"""Weights of torch networks from numpy's raw Philox words, so that they have the same bits on every platform.

torch.randn depends on the vector units of the CPU, and its sequence on the release of torch. numpy promises the raw
words of its bit generators for every release. Weights are uniform, as torch initializes them, and made of 24 bits.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import torch
from torch import nn


def uniform(name: str, shape: tuple[int, ...], half_width: float) -> npt.NDArray[np.float32]:
    """Draw numbers of [-half_width, half_width) for the parameter of that name. Each name has numbers of its own."""
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=16).digest(), "little")
    count = int(np.prod(shape))
    words = np.random.Philox(key=key).random_raw((count + 1) // 2).astype("<u8", copy=False).view("<u4")[:count]
    # 24 bits and a power of two are exact in float32; the product rounds once.
    centred = (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
    return (centred * np.float32(half_width)).reshape(shape)


def initialized(module: nn.Module) -> nn.Module:
    """Give every parameter and buffer of a module on the meta device its numbers, and return it in evaluation mode."""
    module = module.to_empty(device="cpu")
    with torch.no_grad():
        for path, part in module.named_modules():
            for name, values in [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]:
                full = f"{path}.{name}"
                values.copy_(torch.from_numpy(np.array(_numbers(part, name, full, tuple(values.shape)))))
    return module.eval().requires_grad_(False)


def _numbers(part: nn.Module, name: str, full: str, shape: tuple[int, ...]) -> npt.NDArray:
    """Draw the numbers of one parameter by its role: near 1 for scales, near 0 for shifts, by fan-in for products.

    A module may have a `gain`, a factor on its weights.
    """
    if name == "num_batches_tracked":
        return np.zeros(shape, np.int64)
    gain = float(getattr(part, "gain", 1.0))
    if name == "running_var":
        return np.float32(1) + uniform(full, shape, 0.125)
    if name == "weight" and len(shape) == 1:
        return np.float32(gain) + uniform(full, shape, 0.125)
    if len(shape) < 2:
        return uniform(full, shape, 0.125)
    if isinstance(part, nn.Embedding):
        return uniform(full, shape, gain)
    weights = uniform(full, shape, gain * float(np.sqrt(6.0 / np.prod(shape[1:]))))
    return _without_mean(weights) if isinstance(part, nn.Conv2d) or hasattr(part, "centred") else weights


def _without_mean(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Take each filter's mean away: the mean of a ReLU's outputs would drown the differences between images.

    Brock et al., "Characterizing signal propagation to close the performance gap in unnormalized ResNets", 2021. The
    means are sums of multiples of 2^-24 times one number, in float64: exact but for a last rounding.
    """
    axes = tuple(range(1, weights.ndim))
    return (weights - weights.astype(np.float64).mean(axes, keepdims=True)).astype(np.float32)
