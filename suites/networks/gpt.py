"""A decoder in the style of GPT-2, Radford et al., 2019: pre-norm blocks, tanh-GELU, tied embeddings, a KV cache.

It reads a text at once, and again token by token with the cache. Exact arithmetic gives the same logits for both.
Weights come from networks/seeded.py.
"""

from __future__ import annotations

import torch
from networks.precision import in_precision
from networks.scores import perplexity, zipf_tokens
from networks.seeded import initialized
from networks.transformer import Attention, Sizes, hidden
from torch import Tensor, nn
from torch.nn import functional

EPS = 1e-5
Past = list[tuple[Tensor, Tensor]]


class Block(nn.Module):
    """x = x + attention(norm(x)); x = x + down(gelu(up(norm(x))))."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(sizes.width, eps=EPS)
        self.attention = Attention(sizes)
        self.norm = nn.LayerNorm(sizes.width, eps=EPS)
        self.up = nn.Linear(sizes.width, 4 * sizes.width)
        self.down = nn.Linear(4 * sizes.width, sizes.width)

    def forward(self, x: Tensor, mask: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple]:
        """Return x (texts, places, width) after attention and two layers, and the keys and values so far."""
        attended, present = self.attention(self.attention_norm(x), mask, past)
        x = x + attended
        return x + self.down(functional.gelu(self.up(self.norm(x)), approximate="tanh")), present


class Gpt(nn.Module):
    """Embeddings of tokens and places, blocks, a norm, and the token embeddings again as the last layer."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        # Logits are products of embeddings of this size, so they stay near 1.
        self.tokens.gain = 0.125
        self.places = nn.Embedding(sizes.positions, sizes.width)
        self.places.gain = 0.125
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.blocks))
        self.norm = nn.LayerNorm(sizes.width, eps=EPS)

    def logits(self, tokens: Tensor, past: Past | None = None) -> tuple[Tensor, Past]:
        """Return the logits of the next tokens after the past and `tokens` (texts, places), and what to remember."""
        done = past[0][0].shape[2] if past else 0
        every = torch.arange(done + tokens.shape[1], device=tokens.device)
        at = every[done:]
        x = self.tokens(tokens) + self.places(at)
        mask = hidden(every <= at[:, None], x.dtype)
        present = []
        for index, block in enumerate(self.blocks):
            x, kept = block(x, mask, past[index] if past else None)
            present.append(kept)
        return functional.linear(self.norm(x), self.tokens.weight), present

    def incremental(self, tokens: Tensor, prompt: int) -> Tensor:
        """Return the same logits, read as a prompt of that length and then token by token with the cache."""
        logits, past = self.logits(tokens[:, :prompt])
        steps = [logits]
        for place in range(prompt, tokens.shape[1]):
            logits, past = self.logits(tokens[:, place : place + 1], past)
            steps.append(logits)
        return torch.cat(steps, 1)

    def forward(self, words: Tensor) -> dict[str, Tensor]:
        """Read texts of random `words` (texts, places) both ways; the tokens that follow most likely; perplexity."""
        tokens = zipf_tokens(words, self.tokens.num_embeddings)
        full = self.logits(tokens)[0]
        cached = self.incremental(tokens, words.shape[1] // 2)
        return {
            "logits": full,
            "cached": cached,
            "top1": full.argmax(-1),
            "cached_top1": cached.argmax(-1),
            "perplexity": perplexity(full[:, :-1], tokens[:, 1:]),
        }


def gpt(precision: str = "float32") -> nn.Module:
    """Make the decoder in a precision: float64, float32, bfloat16, float16 or int8 (dynamic)."""
    with torch.device("meta"):
        model = Gpt(Sizes())
    return in_precision(initialized(model), precision)
