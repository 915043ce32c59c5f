"""Weights of torch networks from numpy's raw Philox words, so that they have the same bits on every platform.

torch.randn depends on the vector units of the CPU, and its sequence on the release of torch. numpy promises the raw
words of its bit generators for every release. Weights are uniform, as torch initializes them, and made of 24 bits.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import numpy.typing as npt
import torch
from torch import nn


def uniform(name: str, shape: tuple[int, ...], half_width: float) -> npt.NDArray[np.float32]:
    """Draw numbers of [-half_width, half_width) for the parameter of that name. Each name has numbers of its own."""
    return scaled(_whole_numbers(name, shape) - 2**23, half_width)


def filters(name: str, shape: tuple[int, ...], half_width: float) -> npt.NDArray[np.float32]:
    """Draw numbers as `uniform` does, and take the mean of each filter, or row, away.

    The mean of a ReLU's outputs is positive. Filters with a mean would turn it into scores that are the same for all
    images: Brock et al., "Characterizing signal propagation to close the performance gap in unnormalized ResNets".
    The means are those of whole numbers, rounded down, so they are exact.
    """
    numbers = _whole_numbers(name, shape)
    axes = tuple(range(1, numbers.ndim))
    return scaled(numbers - numbers.sum(axes, keepdims=True) // (numbers.size // len(numbers)), half_width)


def scaled(numbers: npt.NDArray[np.int64], half_width: float) -> npt.NDArray[np.float32]:
    """Turn whole numbers of (-2^24, 2^24), which are exact in float32, into float32 with one rounding."""
    return numbers.astype(np.float32) * np.float32(half_width * 2.0**-23)


def _whole_numbers(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Draw whole numbers of [0, 2^24), two from each word of 64 bits."""
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=16).digest(), "little")
    count = math.prod(shape)
    words = np.random.Philox(key=key).random_raw((count + 1) // 2).astype("<u8", copy=False).view("<u4")[:count]
    return (words >> np.uint32(8)).astype(np.int64).reshape(shape)


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
    draw = filters if isinstance(part, nn.Conv2d) or hasattr(part, "centred") else uniform
    return draw(full, shape, gain * math.sqrt(6.0 / math.prod(shape[1:])))
