"""In which formats does a training compute? Values between operators, gradients between them, and what is updated.

Products add up in float32, as in a matrix unit with a float32 accumulator; torch computes them. Their results, and
those of every other operator, are rounded here by precreg's own roundings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from precreg.arithmetic import Rounding, format_named, round_to


class Storage(NamedTuple):
    """A format in which tensors rest. `is_scaled` gives each tensor a power of two that brings it below the largest."""

    format: str = "float32"
    rounding: Rounding = Rounding.NEAREST_EVEN
    is_scaled: bool = False

    def round(self, x: Tensor) -> Tensor:
        """Round float32 elements to the format."""
        if self.format == "float32":
            return x
        format, values = format_named(self.format), x.detach().contiguous().numpy()
        if not self.is_scaled:
            return torch.from_numpy(round_to(values, format, self.rounding))
        scale = _power_of_two(float(np.abs(values).max(initial=0.0)), format.largest)
        return torch.from_numpy(round_to(values * scale, format, self.rounding) / scale)


def _power_of_two(greatest: float, largest: float) -> np.float32:
    """Return the largest power of two that keeps `greatest` within `largest`; 1 for zeros, infinities and NaN."""
    if not 0 < greatest < np.inf:
        return np.float32(1)
    # Beyond 2**100 the scaled values of subnormal gradients would leave float32.
    return np.float32(2.0 ** min(100, int(np.floor(np.log2(largest / greatest)))))


class Arithmetic(NamedTuple):
    """The formats of one training."""

    name: str
    # What operators read and write, and the gradients that flow back between them.
    values: Storage = Storage()
    gradients: Storage = Storage()
    # The operands of products alone, where they are narrower than the values: forward and backward.
    operands: Storage | None = None
    operand_gradients: Storage | None = None
    # Weights, and the state of the optimizer. float32 here is a master copy.
    weights: Storage = Storage()
    # The first scale of the loss. It halves at an overflow, and doubles after GROWTH_INTERVAL good steps.
    loss_scale: float | None = None

    def keep(self, x: Tensor) -> Tensor:
        """Let the result of an operator rest: it is rounded, and so is the gradient that comes back to it."""
        return _rounded(x, self.values, self.gradients)

    def operand(self, x: Tensor) -> Tensor:
        """Round an operand of a product; its gradient is rounded like any other."""
        return _rounded(x, self.operands or self.values, self.gradients)

    def product(self, x: Tensor) -> Tensor:
        """Round the result of a product; the gradient that comes back to it is an operand of the next products."""
        return _rounded(x, self.values, self.operand_gradients or self.gradients)


HALF = Storage("float16")
BRAIN = Storage("bfloat16")
# The 20-bit device truncates, and flushes subnormal numbers.
M20 = Storage("float32_m20", Rounding.TOWARD_ZERO)

ARITHMETICS = {
    each.name: each
    for each in (
        Arithmetic("float32"),
        Arithmetic("bfloat16", BRAIN, BRAIN),
        Arithmetic("bfloat16 weights", BRAIN, BRAIN, weights=BRAIN),
        Arithmetic("float16", HALF, HALF),
        Arithmetic("float16 scaled", HALF, HALF, loss_scale=2.0**15),
        Arithmetic(
            "float8",
            BRAIN,
            BRAIN,
            operands=Storage("float8_e4m3fn", is_scaled=True),
            operand_gradients=Storage("float8_e5m2", is_scaled=True),
        ),
        Arithmetic("20 bits", M20, M20, weights=M20),
    )
}


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, values: Storage, gradients: Storage) -> Tensor:
        context.gradients = gradients
        return values.round(x)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return context.gradients.round(gradient), None, None


def _rounded(x: Tensor, values: Storage, gradients: Storage) -> Tensor:
    if values.format == gradients.format == "float32":
        return x
    return _Rounded.apply(x, values, gradients)
