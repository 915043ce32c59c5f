"""Attention, softmax(q k' / sqrt(d)) v, over heads, forward and backward: Vaswani et al., 2017, section 3.2.

Scores and weights are computed in the accumulator. Both products take the storage format, as a matrix unit does, so
the weights are rounded on their way into the second one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from networks.formats import product, transposed
from networks.layers import dense, dense_back


class Attended(NamedTuple):
    """What the backward of attention needs: its inputs, and the weights in the accumulator's dtype."""

    q: npt.NDArray
    k: npt.NDArray
    v: npt.NDArray
    weights: npt.NDArray


class Projected(NamedTuple):
    """What the backward of multi-head attention needs."""

    x: npt.NDArray
    context: npt.NDArray
    attended: Attended


def causal_mask(length: int) -> npt.NDArray[np.bool_]:
    """Say which keys (columns) each query (row) may see: itself and those before it."""
    return np.tril(np.ones((length, length), bool))


def scores(q: npt.NDArray, k: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray:
    """Give q k' / sqrt(d) in the accumulator's dtype, -inf where the mask (True: visible) hides the key."""
    logits = product(q, transposed(k))
    return np.where(mask, logits / np.sqrt(logits.dtype.type(q.shape[-1])), -np.inf)


def softmax(logits: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
    """Give the weights over the last axis and the logarithm of their sum, log(sum(exp(logits))), as (..., 1).

    A row that is hidden altogether has weights of 0 and -inf, as fused attention on devices gives it, and not NaN.
    """
    greatest = finite_shift(logits.max(-1, keepdims=True))
    terms = np.exp(logits - greatest)
    total = terms.sum(-1, keepdims=True)
    return terms / np.where(total > 0, total, 1), greatest + np.log(total)


def finite_shift(greatest: npt.NDArray) -> npt.NDArray:
    """Replace -inf, the maximum of nothing, by 0: -inf - 0 is -inf, where -inf - -inf is NaN."""
    return np.where(np.isneginf(greatest), 0, greatest)


def attend(
    q: npt.NDArray, k: npt.NDArray, v: npt.NDArray, mask: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray, npt.NDArray, Attended]:
    """Attend with q, k, v (..., sequence, d); gives the context in q's dtype and the rows' log-sum-exp (...,)."""
    weights, log_total = softmax(scores(q, k, mask))
    context = product(weights.astype(q.dtype), v).astype(q.dtype)
    return context, log_total[..., 0], Attended(q, k, v, weights)


def attend_back(dcontext: npt.NDArray, saved: Attended) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
    """Give the gradients by q, k and v: with P the weights, dS = P (dP - sum(dP P)), dP = dcontext v'."""
    q, k, v, weights = saved
    dtype = dcontext.dtype
    dweights = product(dcontext, transposed(v))
    dlogits = weights * (dweights - (dweights * weights).sum(-1, keepdims=True))
    dscores = (dlogits / np.sqrt(dlogits.dtype.type(q.shape[-1]))).astype(dtype)
    dv = product(transposed(weights).astype(dtype), dcontext)
    return product(dscores, k).astype(dtype), product(transposed(dscores), q).astype(dtype), dv.astype(dtype)


def multi_head(
    x: npt.NDArray, w_qkv: npt.NDArray, w_out: npt.NDArray, heads: int, mask: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray, Projected]:
    """Attend over x (batch, sequence, width) with w_qkv (width, 3 width) and w_out (width, width)."""
    q, k, v = (split(part, heads) for part in np.split(dense(x, w_qkv), 3, axis=-1))
    context, _, attended = attend(q, k, v, mask)
    merged = merge(context)
    return dense(merged, w_out), Projected(x, merged, attended)


def multi_head_back(
    dy: npt.NDArray, w_qkv: npt.NDArray, w_out: npt.NDArray, saved: Projected
) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
    """Give the gradients by x, w_qkv and w_out."""
    dcontext, dw_out = dense_back(dy, saved.context, w_out)
    parts = attend_back(split(dcontext, saved.attended.q.shape[1]), saved.attended)
    dqkv = np.concatenate([merge(part) for part in parts], axis=-1)
    dx, dw_qkv = dense_back(dqkv, saved.x, w_qkv)
    return dx, dw_qkv, dw_out


def split(x: npt.NDArray, heads: int) -> npt.NDArray:
    """Turn (batch, sequence, heads d) into (batch, heads, sequence, d)."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).swapaxes(1, 2)


def merge(x: npt.NDArray) -> npt.NDArray:
    """Turn (batch, heads, sequence, d) into (batch, sequence, heads d)."""
    batch, heads, length, depth = x.shape
    return x.swapaxes(1, 2).reshape(batch, length, heads * depth)
