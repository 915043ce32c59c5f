"""A small transformer that learns to say a sequence of tokens backwards, trained in several precisions.

It reads t1 ... tn and a separator, and predicts tn ... t1, each from the true tokens before it: the same model that
writes text, with one causal block, at a size that trains in half a second. Adam, clipped gradients, loss scaling.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt
from networks import block, optimizers
from networks.attention import causal_mask
from networks.formats import EXACT, FORMATS, Formats, wide
from networks.layers import Normalized, dense, dense_back, normalize, normalize_back
from networks.optimizers import LossScale, Rule

Precision = Literal["float32", "float16", "bfloat16", "bfloat16_weights"]

PRECISIONS = FORMATS | {"bfloat16_weights": Formats(ml_dtypes.bfloat16, ml_dtypes.bfloat16)}
"""Mixed precisions have float32 weights and moments; the last keeps these in bfloat16 too, and is known to be bad."""

SCALES = {"float32": 1.0, "float16": 2.0**15, "bfloat16": 1.0, "bfloat16_weights": 1.0}
HEADS = 2
NORM: Literal["rms_norm"] = "rms_norm"


class Model(NamedTuple):
    """A row for each token and for each place, the block's weights, the last norm's gain, and a score a token."""

    tokens: npt.NDArray
    places: npt.NDArray
    block: block.Weights
    gain: npt.NDArray
    head: npt.NDArray


class Saved(NamedTuple):
    """What the backward needs of the forward; `normal` only at the places where something is predicted."""

    tokens: npt.NDArray
    block: block.Saved
    norm: Normalized
    normal: npt.NDArray


def train(
    sequences: npt.NDArray, held_out: npt.NDArray, *, lr: float, precision: Precision, **initial: npt.NDArray
) -> dict[str, npt.NDArray]:
    """Do a step for each batch of sequences (steps, batch, n), tokens 1, 2, ..., and judge on held_out (m, n).

    `initial` has the weights to begin with, by the names of Model and of block.Weights. Gives losses (steps,), the
    mean cross-entropy a token before each step, and on held_out that loss and the share of right tokens; float32.
    """
    scale = LossScale(SCALES[precision])
    outputs = fit(sequences, held_out, ordered(**initial), lr, PRECISIONS[precision], scale)
    return {name: value.astype(np.float32) for name, value in outputs.items()}


def exact(
    sequences: npt.NDArray, held_out: npt.NDArray, *, lr: float, precision: Precision, **initial: npt.NDArray
) -> dict[str, npt.NDArray]:
    """Train in float64, unscaled; `precision` is the subject's and means nothing here.

    The code is the subject's, so this case sees what formats do, and not a wrong formula: the suites transformer_block
    and training_steps hold the same block and the same optimizers against others.
    """
    return fit(sequences, held_out, ordered(**initial), lr, EXACT, LossScale(1.0))


def ordered(
    *, tokens: npt.NDArray, places: npt.NDArray, gain: npt.NDArray, head: npt.NDArray, **of_block: npt.NDArray
) -> list[npt.NDArray]:
    """List the weights in the order of `as_model`."""
    return [tokens, places, *block.Weights(**of_block), gain, head]


def as_model(weights: list[npt.NDArray], dtype: npt.DTypeLike) -> Model:
    """Copy the weights into the dtype that the network computes in."""
    tokens, places, *of_block, gain, head = (weight.astype(dtype) for weight in weights)
    return Model(tokens, places, block.Weights(*of_block), gain, head)


def fit(
    sequences: npt.NDArray,
    held_out: npt.NDArray,
    initial: list[npt.NDArray],
    lr: float,
    formats: Formats,
    scale: LossScale,
) -> dict[str, npt.NDArray]:
    """Train and judge in some formats."""
    rule = Rule("adam", lr, max_norm=1.0)
    state = optimizers.start([weight.astype(formats.weights) for weight in initial], scale, rule.optimizer)
    losses = []
    for batch in sequences:
        model = as_model(state.weights, formats.values)
        scores, saved = forward(model, written(batch))
        loss, slope = cross_entropy(scores, reversed_tokens(batch))
        scaled = (slope * slope.dtype.type(state.scale.value)).astype(formats.values)
        state = optimizers.step(state, backward(scaled, model, saved), rule)
        losses.append(loss)
    scores, _ = forward(as_model(state.weights, formats.values), written(held_out))
    held_out_loss, _ = cross_entropy(scores, reversed_tokens(held_out))
    accuracy = np.mean(wide(scores).argmax(-1) == reversed_tokens(held_out))
    return {"losses": np.array(losses), "held_out_loss": held_out_loss, "accuracy": accuracy}


def reversed_tokens(sequences: npt.NDArray) -> npt.NDArray:
    """Give what is to be predicted, (batch, n)."""
    return sequences[:, ::-1]


def written(sequences: npt.NDArray) -> npt.NDArray:
    """Give what the model reads, (batch, 2 n): the sequence, token 0 as a separator, the answer but its last token."""
    separator = np.zeros_like(sequences[:, :1])
    return np.concatenate([sequences, separator, reversed_tokens(sequences)[:, :-1]], axis=1)


def forward(model: Model, tokens: npt.NDArray) -> tuple[npt.NDArray, Saved]:
    """Give a score for each token that may come next, (batch, n, tokens), from the separator on."""
    x = model.tokens[tokens] + model.places
    y, of_block = block.forward(x, model.block, heads=HEADS, mask=causal_mask(tokens.shape[1]), norm=NORM)
    normal, norm = normalize(y, model.gain, NORM)
    normal = normal[:, tokens.shape[1] // 2 :]
    return dense(normal, model.head), Saved(tokens, of_block, norm, normal)


def cross_entropy(scores: npt.NDArray, targets: npt.NDArray) -> tuple[np.floating, npt.NDArray]:
    """Give the mean of -log(softmax(scores)[target]) and its gradient by the scores, both in the accumulator."""
    shifted = wide(scores) - wide(scores).max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    right = targets[..., None] == np.arange(scores.shape[-1])
    return -log_p[right].mean(), (np.exp(log_p) - right) / log_p.dtype.type(targets.size)


def backward(dscores: npt.NDArray, model: Model, saved: Saved) -> list[npt.NDArray]:
    """Give the gradients by the weights, in their order, in the dtype of dscores."""
    dnormal, dhead = dense_back(dscores, saved.normal, model.head)
    dnormal = np.concatenate([np.zeros_like(dnormal), dnormal], axis=1)  # nothing is predicted before the separator
    dy, dgain = normalize_back(dnormal, model.gain, saved.norm)
    dx, of_block = block.backward(dy, model.block, saved.block)
    dtokens = np.zeros(model.tokens.shape, wide(dx).dtype)
    np.add.at(dtokens, saved.tokens, wide(dx))
    return [dtokens.astype(dx.dtype), wide(dx).sum(0).astype(dx.dtype), *of_block, dgain, dhead]
