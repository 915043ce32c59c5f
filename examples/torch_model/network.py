"""A block of a transformer that trains and predicts in bfloat16, and normalizes in float32."""

import torch
from torch import nn


class RMSNorm(nn.Module):
    """Divide each row by its root mean square."""

    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (wide * scale).to(x.dtype) * self.weight


class Block(nn.Module):
    """Attention and a feed-forward network, each behind a norm, each with a residual connection."""

    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.feed_norm = RMSNorm(width), RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def attention(self, x):
        """Mix the rows of each sequence."""
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed(self.feed_norm(x))
