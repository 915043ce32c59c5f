"""The parts that BERT and GPT share in torch: multi-head attention with a cache, and the block's two layers.

Vaswani et al., "Attention Is All You Need", 2017. Scores, softmax and sums run in the dtype of the inputs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Sizes(NamedTuple):
    """The sizes of a transformer: tokens it knows, longest text, width, heads, blocks."""

    vocabulary: int = 2048
    positions: int = 64
    width: int = 256
    heads: int = 4
    blocks: int = 4


class Attention(nn.Module):
    """softmax(q k' / sqrt(d) + mask) v over heads, with projections of the inputs and of the result."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.query = nn.Linear(sizes.width, sizes.width)
        self.key = nn.Linear(sizes.width, sizes.width)
        self.value = nn.Linear(sizes.width, sizes.width)
        self.output = nn.Linear(sizes.width, sizes.width)

    def forward(self, x: Tensor, mask: Tensor, past: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple]:
        """Attend from x (texts, places, width) to the past and x; returns the result, and all keys and values.

        `mask` is 0 where a place (row) sees a place (column), and very negative elsewhere.
        """
        q, k, v = (self.split(part(x)) for part in (self.query, self.key, self.value))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        context = torch.softmax(scores + mask, -1) @ v
        return self.output(context.transpose(1, 2).flatten(2)), (k, v)

    def split(self, x: Tensor) -> Tensor:
        """Turn (texts, places, width) into (texts, heads, places, width / heads)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def hidden(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the mask to add to scores: 0 where visible, else the most negative finite number of the dtype."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(~visible, torch.finfo(dtype).min)
