"""A transformer block with norms in front, y = a + mlp(norm(a)), a = x + attention(norm(x)), forward and backward.

Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020: the pre-norm form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from networks.attention import Projected, multi_head, multi_head_back
from networks.layers import Norm, Normalized, dense, dense_back, gelu, gelu_back, normalize, normalize_back


class Weights(NamedTuple):
    """The weights of a block of some width: gains (width,), the others (inputs, outputs)."""

    gain1: npt.NDArray
    w_qkv: npt.NDArray
    w_out: npt.NDArray
    gain2: npt.NDArray
    w_up: npt.NDArray
    w_down: npt.NDArray


class Saved(NamedTuple):
    """What the backward needs of the forward."""

    norm1: Normalized
    projected: Projected
    norm2: Normalized
    mlp_input: npt.NDArray
    up: npt.NDArray
    activated: npt.NDArray


def forward(
    x: npt.NDArray, weights: Weights, *, heads: int, mask: npt.NDArray[np.bool_], norm: Norm
) -> tuple[npt.NDArray, Saved]:
    """Give y (batch, sequence, width), in x's dtype like everything that rests between operators."""
    normal, norm1 = normalize(x, weights.gain1, norm)
    attention, projected = multi_head(normal, weights.w_qkv, weights.w_out, heads, mask)
    x = x + attention
    mlp_input, norm2 = normalize(x, weights.gain2, norm)
    up = dense(mlp_input, weights.w_up)
    activated = gelu(up)
    return x + dense(activated, weights.w_down), Saved(norm1, projected, norm2, mlp_input, up, activated)


def backward(dy: npt.NDArray, weights: Weights, saved: Saved) -> tuple[npt.NDArray, Weights]:
    """Give the gradients by x and by the weights, in dy's dtype."""
    dactivated, dw_down = dense_back(dy, saved.activated, weights.w_down)
    dmlp_input, dw_up = dense_back(gelu_back(dactivated, saved.up), saved.mlp_input, weights.w_up)
    through, dgain2 = normalize_back(dmlp_input, weights.gain2, saved.norm2)
    dy = dy + through
    dnormal, dw_qkv, dw_out = multi_head_back(dy, weights.w_qkv, weights.w_out, saved.projected)
    through, dgain1 = normalize_back(dnormal, weights.gain1, saved.norm1)
    return dy + through, Weights(dgain1, dw_qkv, dw_out, dgain2, dw_up, dw_down)
