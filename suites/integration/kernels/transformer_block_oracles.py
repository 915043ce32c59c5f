"""What the transformer block is held against: float64, each layer's whole Jacobian written out and contracted.

Slower and longer than the formulas of the kernels, and nothing is shared with them. Index letters: b sequence of the
batch, s and t places in it, h head, d and e widths.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

Back = Callable[[npt.NDArray], tuple[npt.NDArray, ...]]
contract = partial(np.einsum, optimize=True)


def transformer_block(
    x: npt.NDArray, dy: npt.NDArray, *, heads: int, norm: str, **w: npt.NDArray
) -> dict[str, npt.NDArray]:
    """Give y, and the gradients by x and by each weight, by the chain rule over the four layers."""
    normal, norm1_back = normalize(x, w["gain1"], norm)
    attended, attention_back = attention(normal, w["w_qkv"], w["w_out"], heads)
    normal, norm2_back = normalize(x + attended, w["gain2"], norm)
    added, mlp_back = mlp(normal, w["w_up"], w["w_down"])
    dnormal, dw_up, dw_down = mlp_back(dy)
    through, dgain2 = norm2_back(dnormal)
    dmiddle = dy + through
    dnormal, dw_qkv, dw_out = attention_back(dmiddle)
    through, dgain1 = norm1_back(dnormal)
    gradients = {"dgain1": dgain1, "dw_qkv": dw_qkv, "dw_out": dw_out}
    gradients |= {"dgain2": dgain2, "dw_up": dw_up, "dw_down": dw_down}
    return {"y": x + attended + added, "dx": dmiddle + through} | gradients


def normalize(x: npt.NDArray, gain: npt.NDArray, norm: str) -> tuple[npt.NDArray, Back]:
    """Divide by the root mean square, for layer_norm after the projection C x that takes the mean away.

    d(c / r)_d / dc_e = (1[d = e] - c_d c_e / (width r^2)) / r with r = sqrt(mean(c^2) + eps).
    """
    width = x.shape[-1]
    center = np.eye(width) - (1 / width if norm == "layer_norm" else 0)
    c = x @ center
    r = np.sqrt(np.mean(c**2, axis=-1, keepdims=True) + 1e-5)

    def back(dy: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
        jacobian = (np.eye(width) - c[..., :, None] * c[..., None, :] / (width * r[..., None] ** 2)) / r[..., None]
        return contract("bsd,d,bsde,ef->bsf", dy, gain, jacobian, center), contract("bsd,bsd->d", dy, c / r)

    return c / r * gain, back


def attention(x: npt.NDArray, w_qkv: npt.NDArray, w_out: npt.NDArray, heads: int) -> tuple[npt.NDArray, Back]:
    """Attend causally; the softmax's Jacobian is diag(p) - p p'."""
    width, depth = x.shape[-1], x.shape[-1] // heads
    projections, out = w_qkv.reshape(width, 3, heads, depth), w_out.reshape(heads, depth, width)
    q, k, v = contract("bsd,dphe->pbshe", x, projections)
    logits = contract("bshe,bthe->bhst", q, k) / depth**0.5
    logits[..., ~np.tri(x.shape[1], dtype=bool)] = -np.inf
    p = np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))
    context = contract("bhst,bthe->bshe", p, v)

    def back(dy: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
        dcontext = contract("bsd,hed->bshe", dy, out)
        jacobian = p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :])
        dlogits = contract("bshe,bthe,bhstu->bhsu", dcontext, v, jacobian) / depth**0.5
        dq, dk = contract("bhst,bthe->bshe", dlogits, k), contract("bhst,bshe->bthe", dlogits, q)
        dqkv = np.stack([dq, dk, contract("bhst,bshe->bthe", p, dcontext)])
        dw_qkv = contract("bsd,pbshe->dphe", x, dqkv).reshape(w_qkv.shape)
        dw_out = contract("bshe,bsd->hed", context, dy).reshape(w_out.shape)
        return contract("pbshe,dphe->bsd", dqkv, projections), dw_qkv, dw_out

    return contract("bshe,hed->bsd", context, out), back


def mlp(x: npt.NDArray, w_up: npt.NDArray, w_down: npt.NDArray) -> tuple[npt.NDArray, Back]:
    """Apply gelu between two products: u s(2 k) with the logistic s and k = sqrt(2 / pi) (u + 0.044715 u^3).

    (1 + tanh(k)) / 2 is s(2 k), whose derivative is 2 k' s (1 - s).
    """
    u = x @ w_up
    s = 1 / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (u + 0.044715 * u**3)))

    def back(dy: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
        slope = s + u * s * (1 - s) * 2 * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * u**2)
        du = (dy @ w_down.T) * slope
        return du @ w_up.T, contract("bsd,bse->de", x, du), contract("bsd,bse->de", u * s, dy)

    return (u * s) @ w_down, back
