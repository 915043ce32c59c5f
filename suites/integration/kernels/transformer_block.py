"""One step through a transformer block, forward and backward, with its causal mask and its heads."""

from __future__ import annotations

import numpy.typing as npt
from networks import block
from networks.attention import causal_mask
from networks.layers import Norm


def transformer_block(
    x: npt.NDArray, dy: npt.NDArray, *, heads: int, norm: Norm, **weights: npt.NDArray
) -> dict[str, npt.NDArray]:
    """Give y for x (batch, sequence, width), and for dy, the gradient by y, those by x and by each weight.

    Everything is in x's dtype; the weights are named as in networks.block.Weights.
    """
    stored = block.Weights(**weights)
    y, saved = block.forward(x, stored, heads=heads, mask=causal_mask(x.shape[1]), norm=norm)
    dx, gradients = block.backward(dy, stored, saved)
    return {"y": y, "dx": dx} | {f"d{name}": gradient for name, gradient in gradients._asdict().items()}
