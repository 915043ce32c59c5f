"""Attention in three forms: plain, online as in flash attention, and with a finite mask, which is known to be bad."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from networks.attention import attend, causal_mask, finite_shift, scores
from networks.attention import multi_head as multi_head_over_heads
from networks.formats import product, wide

Form = Literal["plain", "online", "finite_mask"]
Masking = Literal["causal", "padding"]
Outputs = dict[str, npt.NDArray]

KEYS = 32
"""How many keys the online form takes at a time."""


def attention(
    q: npt.NDArray, k: npt.NDArray, v: npt.NDArray, *, masking: Masking, lengths: list[int], form: Form
) -> Outputs:
    """Attend with q, k, v (batch, heads, sequence, d).

    `lengths` says how many keys of each sequence are there: masking "padding" hides the others from every query, so
    all rows of a sequence of length 0 are masked; "causal" hides from each query the keys after it. Gives the context,
    in q's dtype, and the log-sum-exp of each row (batch, heads, sequence), in the accumulator's.
    """
    mask = {"causal": causal_mask(q.shape[2]), "padding": padding_mask(lengths, k.shape[2])}[masking]
    context, log_sum_exp = {"plain": plain, "online": online, "finite_mask": finite_mask}[form](q, k, v, mask)
    return {"context": context, "log_sum_exp": log_sum_exp}


def padding_mask(lengths: list[int], keys: int) -> npt.NDArray[np.bool_]:
    """Say which keys are there, as (batch, 1, 1, keys)."""
    return np.arange(keys) < np.array(lengths)[:, None, None, None]


def plain(
    q: npt.NDArray, k: npt.NDArray, v: npt.NDArray, mask: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray, npt.NDArray]:
    """Attend with all scores in memory."""
    context, log_sum_exp, _ = attend(q, k, v, mask)
    return context, log_sum_exp


def online(
    q: npt.NDArray, k: npt.NDArray, v: npt.NDArray, mask: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray, npt.NDArray]:
    """Attend block by block of keys, with a running maximum, sum and context, rescaled when the maximum rises.

    Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022,
    algorithm 1, with the one division at the end of FlashAttention-2.
    """
    greatest = np.full((*q.shape[:-1], 1), -np.inf, wide(q).dtype)
    total, context = np.zeros_like(greatest), np.zeros(q.shape, greatest.dtype)
    visible = np.broadcast_to(mask, (*mask.shape[:-2], q.shape[2], k.shape[2]))
    for start in range(0, k.shape[2], KEYS):
        keys = slice(start, start + KEYS)
        logits = scores(q, k[..., keys, :], visible[..., keys])
        risen = np.maximum(greatest, logits.max(-1, keepdims=True))
        rescale, terms = (np.exp(exponent - finite_shift(risen)) for exponent in (greatest, logits))
        total = total * rescale + terms.sum(-1, keepdims=True)
        context = context * rescale + product(terms.astype(q.dtype), v[..., keys, :])
        greatest = risen
    log_sum_exp = finite_shift(greatest) + np.log(total)
    return (context / np.where(total > 0, total, 1)).astype(q.dtype), log_sum_exp[..., 0]


def finite_mask(
    q: npt.NDArray, k: npt.NDArray, v: npt.NDArray, mask: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray, npt.NDArray]:
    """Attend with -10000 added to hidden scores, as many models do: a row that is masked altogether sees everything."""
    logits = scores(q, k, np.ones_like(mask)) + np.where(mask, 0, -1e4).astype(np.float32)
    greatest = logits.max(-1, keepdims=True)
    terms = np.exp(logits - greatest)
    total = terms.sum(-1, keepdims=True)
    return product((terms / total).astype(q.dtype), v).astype(q.dtype), (greatest + np.log(total))[..., 0]


def multi_head(x: npt.NDArray, w_qkv: npt.NDArray, w_out: npt.NDArray, *, heads: int) -> npt.NDArray:
    """Attend causally over x (batch, sequence, width) with w_qkv (width, 3 width) and w_out (width, width)."""
    return multi_head_over_heads(x, w_qkv, w_out, heads, causal_mask(x.shape[1]))[0]
