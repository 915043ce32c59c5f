"""A BERT encoder, Devlin et al., 2018: post-norm blocks, erf-GELU, and its two heads, for words and for texts.

It has the structure and the eps of BERT-Base with 4 blocks of width 256. Weights come from networks/seeded.py.
"""

from __future__ import annotations

import torch
from networks.precision import in_precision
from networks.scores import zipf_tokens
from networks.seeded import initialized
from networks.transformer import Attention, Sizes, hidden
from torch import Tensor, nn
from torch.nn import functional

EPS = 1e-12
CLASSES = 16


class Block(nn.Module):
    """x = norm(x + attention(x)); x = norm(x + down(gelu(up(x))))."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.attention = Attention(sizes)
        self.attention_norm = nn.LayerNorm(sizes.width, eps=EPS)
        self.up = nn.Linear(sizes.width, 4 * sizes.width)
        self.down = nn.Linear(4 * sizes.width, sizes.width)
        self.output_norm = nn.LayerNorm(sizes.width, eps=EPS)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return x (texts, places, width) after attention and two layers."""
        x = self.attention_norm(x + self.attention(x, mask)[0])
        return self.output_norm(x + self.down(functional.gelu(self.up(x))))


class Bert(nn.Module):
    """Embeddings of tokens, places and segments, blocks, a head for words, and a classifier on the first place."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        # The head for words multiplies by these embeddings again: so large, they give logits near 1.
        self.tokens.gain = 0.125
        self.places = nn.Embedding(sizes.positions, sizes.width)
        self.segments = nn.Embedding(2, sizes.width)
        self.norm = nn.LayerNorm(sizes.width, eps=EPS)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.blocks))
        self.words = nn.Sequential(nn.Linear(sizes.width, sizes.width), nn.GELU(), nn.LayerNorm(sizes.width, eps=EPS))
        self.words_bias = nn.Parameter(torch.empty(sizes.vocabulary))
        self.pooler = nn.Linear(sizes.width, sizes.width)
        self.classifier = nn.Linear(sizes.width, CLASSES)

    def encode(self, tokens: Tensor, segments: Tensor, visible: Tensor) -> Tensor:
        """Return the last hidden states (texts, places, width); `visible` (texts, places) marks tokens, not padding."""
        x = (
            self.tokens(tokens)
            + self.places(torch.arange(tokens.shape[1], device=tokens.device))
            + self.segments(segments)
        )
        mask = hidden(visible[:, None, None, :], x.dtype)
        x = self.norm(x)
        for block in self.blocks:
            x = block(x, mask)
        return x

    def forward(self, words: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        """Read texts of random `words` (texts, places), of which the first `lengths` (texts,) are no padding.

        Returns the logits of the words at all places, the logits of the texts, and the best classes of texts.
        """
        tokens = zipf_tokens(words, self.tokens.num_embeddings)
        places = torch.arange(words.shape[1], device=words.device)
        states = self.encode(tokens, (places * 2 >= lengths[:, None]).long(), places < lengths[:, None])
        logits = self.classifier(torch.tanh(self.pooler(states[:, 0])))
        words = functional.linear(self.words(states), self.tokens.weight, self.words_bias)
        return {"words": words, "logits": logits, "top1": logits.argmax(-1), "top1_words": words.argmax(-1)}


def bert(precision: str = "float32") -> nn.Module:
    """Make the encoder in a precision: float64, float32, bfloat16, float16 or int8 (dynamic)."""
    with torch.device("meta"):
        model = Bert(Sizes())
    return in_precision(initialized(model), precision)
