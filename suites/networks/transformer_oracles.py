"""What BERT and GPT are compared with: plain numpy in float64, one text at a time, and nothing of the networks' code.

The weights are the networks'. Attention goes place by place, so that it needs no mask. The cache has no counterpart.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

HEADS, BLOCKS = 4, 4
WORDS = 2**30

Array = npt.NDArray[np.float64]
Tokens = npt.NDArray[np.int64]
Weights = dict[str, Array]


def read_bert(words: Tensor, lengths: Tensor) -> dict[str, npt.NDArray]:
    """Return what the encoder returns, for random words (texts, places) and the lengths of the texts."""
    from networks.bert import bert as make

    weights = weights_of(make("float64"))
    read = [
        bert(*one, weights)
        for one in zip(zipf(words.numpy(), len(weights["words_bias"])), lengths.tolist(), strict=True)
    ]
    logits = {"words": np.stack([one for one, _ in read]), "logits": np.stack([one for _, one in read])}
    return {**logits, "top1": logits["logits"].argmax(-1), "top1_words": logits["words"].argmax(-1)}


def read_gpt(words: Tensor) -> dict[str, npt.NDArray]:
    """Return what the decoder returns, for random words (texts, places)."""
    from networks.gpt import gpt as make

    weights = weights_of(make("float64"))
    tokens = zipf(words.numpy(), len(weights["tokens.weight"]))
    logits = np.stack([gpt(one, weights) for one in tokens])
    chances = np.exp(logits[:, :-1] - logits[:, :-1].max(-1, keepdims=True))
    chances = np.take_along_axis(chances / chances.sum(-1, keepdims=True), tokens[:, 1:, None], -1)
    best = logits.argmax(-1)
    perplexity = np.exp(-np.log(chances).mean())
    return {"logits": logits, "cached": logits, "top1": best, "cached_top1": best, "perplexity": perplexity}


def weights_of(model: nn.Module) -> Weights:
    """Return the weights of a model in float64 by name."""
    return {name: values.double().numpy() for name, values in model.state_dict().items()}


def zipf(words: Tokens, vocabulary: int) -> Tokens:
    """Turn words of [0, 2^30) into tokens: token k for the share 1 / (k + 1) of them, by exact rationals."""
    shares = [WORDS * 2**30 // rank for rank in range(1, vocabulary + 1)]
    limits = [math.floor(Fraction(WORDS * reached, sum(shares))) for reached in accumulate(shares)]
    return np.vectorize(lambda word: bisect_right(limits, word), otypes=[np.int64])(words)


def linear(x: Array, weights: Weights, name: str) -> Array:
    """Multiply by the weights of a layer and add its bias."""
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def layer_norm(x: Array, weights: Weights, name: str, eps: float) -> Array:
    """Return (x - mean) / sqrt(variance + eps) over the last axis, times the gain, plus the shift."""
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def attention(x: Array, weights: Weights, name: str, visible: npt.NDArray[np.bool_]) -> Array:
    """Attend within one text x (places, width); `visible` (places, places) marks what a place (row) sees."""
    q, k, v = (linear(x, weights, f"{name}.{part}") for part in ("query", "key", "value"))
    depth = x.shape[1] // HEADS
    context = np.empty_like(x)
    for head in range(HEADS):
        part = slice(head * depth, (head + 1) * depth)
        for place in range(len(x)):
            seen = np.flatnonzero(visible[place])
            chances = np.exp(k[seen, part] @ q[place, part] / math.sqrt(depth))
            context[place, part] = chances @ v[seen, part] / chances.sum()
    return linear(context, weights, f"{name}.output")


def erf_gelu(x: Array) -> Array:
    """Return x Phi(x)."""
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def tanh_gelu(x: Array) -> Array:
    """Return the approximation by tanh: Hendrycks and Gimpel, 2016, section 2."""
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def bert(tokens: Tokens, length: int, weights: Weights) -> tuple[Array, Array]:
    """Return the logits of the words and of the text, for one text whose first `length` tokens are no padding."""
    places = np.arange(len(tokens))
    x = weights["tokens.weight"][tokens] + weights["places.weight"][places]
    x = layer_norm(x + weights["segments.weight"][np.where(places >= length / 2, 1, 0)], weights, "norm", 1e-12)
    visible = np.tile(places < length, (len(tokens), 1))
    for block in range(BLOCKS):
        name = f"blocks.{block}"
        x = layer_norm(
            x + attention(x, weights, f"{name}.attention", visible), weights, f"{name}.attention_norm", 1e-12
        )
        up = erf_gelu(linear(x, weights, f"{name}.up"))
        x = layer_norm(x + linear(up, weights, f"{name}.down"), weights, f"{name}.output_norm", 1e-12)
    hidden = layer_norm(erf_gelu(linear(x, weights, "words.0")), weights, "words.2", 1e-12)
    words = hidden @ weights["tokens.weight"].T + weights["words_bias"]
    return words, linear(np.tanh(linear(x[0], weights, "pooler")), weights, "classifier")


def gpt(tokens: Tokens, weights: Weights) -> Array:
    """Return the logits of the tokens that follow each place of one text."""
    places = np.arange(len(tokens))
    x = weights["tokens.weight"][tokens] + weights["places.weight"][places]
    visible = places <= places[:, None]
    for block in range(BLOCKS):
        name = f"blocks.{block}"
        normal = layer_norm(x, weights, f"{name}.attention_norm", 1e-5)
        x = x + attention(normal, weights, f"{name}.attention", visible)
        up = tanh_gelu(linear(layer_norm(x, weights, f"{name}.norm", 1e-5), weights, f"{name}.up"))
        x = x + linear(up, weights, f"{name}.down")
    return layer_norm(x, weights, "norm", 1e-5) @ weights["tokens.weight"].T
