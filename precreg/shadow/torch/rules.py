"""How is an operation computed in float64, in step with its low-precision result?

Most operations have a kernel for float64. Others have a rule here, or run as they are on the rounded twins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from precreg.shadow.torch.schema import Facts
from precreg.shadow.torch.twins import is_shadowed, tensors_in, twin_dtype


class Exact(NamedTuple):
    """The results of an operation in float64; a reason if it has no form there, so that they are rounded."""

    result: Any
    reason: str = ""


def compute_exact(
    func: Any, facts: Facts, args: Sequence[Any], kwargs: Mapping[str, Any], wide: dict[int, Any], low: Any
) -> Exact:
    """Return the results of an operation on float64 values, which replace the tensors of the call by id.

    Written arguments are written in their float64 values. `low` has the low-precision results, whose indices, masks and
    random draws apply here, too.
    """
    # Written integers are the run's own: a second operation must not write them again.
    wide = wide | {id(each): each.clone() for each in tensors_in(facts.written(args, kwargs)) if id(each) not in wide}

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return wide.get(id(leaf), leaf)
        # Arguments may be objects of TorchScript, which compare with nothing.
        return twin_dtype(leaf) if isinstance(leaf, torch.dtype) else leaf

    wide_args, wide_kwargs = map_leaves(widen, args), map_leaves(widen, kwargs)
    try:
        ruled = apply_rule(facts, wide_args, wide_kwargs, low)
        if ruled is not None:
            return Exact(ruled)
        result = func(*wide_args, **wide_kwargs)
    # Kernels refuse a dtype with errors of many types.
    except Exception as failure:
        return Exact(_on_rounded(func, args, kwargs, wide), " ".join(str(failure).split())[:160] or "no reason")
    if facts.name in _CHOOSE and isinstance(low, tuple | list):
        return Exact(_chosen(facts.given(wide_args, wide_kwargs), low, result))
    return Exact(result)


class Linear(NamedTuple):
    """An operation that is linear in one tensor, and has one other factor: `apply` takes values of both."""

    operand: Any
    factor: Any
    apply: Callable[[Any, Any], Any]


def linear_part(
    facts: Facts, args: Sequence[Any], kwargs: Mapping[str, Any], is_inexact: Callable[[Any], bool]
) -> Linear | None:
    """Return the part of an operation that passes the error of its one inexact input on; None for any other."""
    find = _LINEAR.get(facts.name)
    linear = None if find is None else find(facts.given(args, kwargs), is_inexact)
    if linear is None or not all(_is_narrow(each) for each in linear[:2]) or not _multiplies_in_float32():
        return None
    return linear


def _is_narrow(tensor: Any) -> bool:
    return tensor.dtype in _NARROW and is_shadowed(tensor) and tensor.is_cpu and not tensor.is_neg()


_NARROW = (torch.float32, torch.float16, torch.bfloat16)


def _multiplies_in_float32() -> bool:
    """Return whether products of float32 have all its bits: users may allow bfloat16 inside."""
    allowed = torch.backends.mkldnn
    precisions = (allowed.fp32_precision, allowed.matmul.fp32_precision, allowed.conv.fp32_precision)
    return all(each in ("none", "ieee") for each in precisions)


def _of_product(a: Any, b: Any, is_inexact: Callable[[Any], bool]) -> Linear | None:
    if is_inexact(a) == is_inexact(b):
        return None
    if is_inexact(a):
        return Linear(a, b, torch.mm)
    return Linear(b, a, lambda error, factor: torch.mm(factor, error))


def _of_addmm(given: dict[str, Any], is_inexact: Callable[[Any], bool]) -> Linear | None:
    found = None if is_inexact(given["self"]) else _of_product(given["mat1"], given["mat2"], is_inexact)
    alpha = given.get("alpha", 1)
    if found is None or alpha == 1:
        return found
    return found._replace(apply=lambda error, factor: found.apply(error, factor) * alpha)


def _of_convolution(given: dict[str, Any], is_inexact: Callable[[Any], bool]) -> Linear | None:
    operand, weight, bias, *options = given.values()
    if is_inexact(weight) or (bias is not None and is_inexact(bias)):
        return None
    return Linear(operand, weight, lambda error, factor: torch.convolution(error, factor, None, *options))


_LINEAR: dict[str, Callable[[dict[str, Any], Callable[[Any], bool]], Linear | None]] = {
    "mm": lambda given, is_inexact: _of_product(given["self"], given["mat2"], is_inexact),
    "addmm": _of_addmm,
    "convolution": _of_convolution,
}


class Jitter:
    """Change values by at most one unit roundoff of float64, at random, as if operations rounded in another way.

    A second shadow of such values differs from the first one by about the error of both.
    """

    def __init__(self) -> None:
        # Draws of the traced program stay its own.
        self._random = torch.Generator().manual_seed(1)

    def change(self, values: Any) -> Any:
        """Return changed values. None grows, so that 1 stays inside the domain of acos."""
        drawn = torch.rand(values.shape, generator=self._random, dtype=torch.float64).to(values.device)
        return values * (1 - drawn.round() * 2.0**-53)

    def change_long(self, values: Any) -> Any:
        """Return changed values of longdouble, by at most its own unit roundoff."""
        drawn = torch.rand(values.shape, generator=self._random, dtype=torch.float64).round().numpy()
        return values * (1 - drawn * (np.finfo(np.longdouble).eps / 2))

    def apply(self, facts: Facts, wide: dict[int, Any], written: Sequence[Any]) -> dict[int, Any]:
        """Return the inputs of an operation: changed, and for a function that jumps without their last bits."""
        kept = {id(each) for each in written}
        change = _without_last_bits if facts.jumps or facts.name in _JUMP_AS_REMAINDERS else self.change
        return {key: values if key in kept else change(values) for key, values in wide.items()}


_JUMP_AS_REMAINDERS = ("fmod", "remainder")


def _without_last_bits(values: Any) -> Any:
    """Round to 41 bits (Veltkamp), so that 3 less one roundoff becomes 3 before floor()."""
    scaled = values * (2.0**12 + 1)
    return torch.where(scaled.isfinite(), scaled - (scaled - values), values) if not values.is_complex() else values


def map_leaves(change: Callable[[Any], Any], tree: Any) -> Any:
    """Return nested lists, tuples and mappings with changed leaves."""
    if isinstance(tree, list | tuple):
        return type(tree)(map_leaves(change, each) for each in tree)
    if isinstance(tree, Mapping):
        return {name: map_leaves(change, each) for name, each in tree.items()}
    return change(tree)


def apply_rule(facts: Facts, args: Sequence[Any], kwargs: Mapping[str, Any], low: Any) -> Any:
    """Return the results of an operation that has a rule; None for any other."""
    rule = _RULES.get(facts.name)
    return None if rule is None else rule(facts.given(args, kwargs), low)


def _on_rounded(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], wide: Mapping[int, Any]) -> Any:
    """Run the operation as it is on the rounded twins, and return its results in float64."""
    rounded: dict[int, Any] = {}

    def narrow(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and id(leaf) in wide:
            rounded.setdefault(id(leaf), wide[id(leaf)].to(leaf.dtype, copy=True))
            return rounded[id(leaf)]
        return leaf

    result = func(*map_leaves(narrow, args), **map_leaves(narrow, kwargs))
    for identity, value in rounded.items():
        # It may have been written.
        if not torch.equal(value, wide[identity].to(value.dtype)):
            wide[identity].copy_(value)
    return map_leaves(lambda leaf: leaf.to(twin_dtype(leaf.dtype)) if is_shadowed(leaf) else leaf, result)


def _dropout(given: dict[str, Any], low: Any) -> Any:
    value, p = given["input"], given["p"]
    if given.get("train") is False or p == 0:
        return value.clone(), low[1]
    return value * low[1] * (0.0 if p == 1 else 1 / (1 - p)), low[1]


# torch multiplies the kernels with one image at a time. With few places in a result, most of the time goes to reading
# the kernels. All images at once take a third (512 channels, 3x3 places, 4 images; benchmarks/shadow/networks.py).
_FEW_PLACES = 16
_LARGE_KERNELS = 2**16


def _convolution(given: dict[str, Any], low: Any) -> Any:
    """Multiply large kernels with the patches of all images at once; return None for other convolutions."""
    x, weight, bias = given["input"], given["weight"], given["bias"]
    is_plain = (
        x.dtype == torch.float64 and x.dim() == 4 and x.numel() > 0 and given["groups"] == 1 and not given["transposed"]
    )
    if not is_plain or weight.numel() < _LARGE_KERNELS or not 0 < low.shape[2:].numel() <= _FEW_PLACES:
        return None
    patches = torch.nn.functional.unfold(
        x, weight.shape[2:], given["dilation"], given["padding"], given["stride"]
    ).transpose(0, 1)
    result = weight.flatten(1) @ patches.reshape(patches.shape[0], -1)
    result = result.view(low.shape[1], low.shape[0], *low.shape[2:]).transpose(0, 1)
    return result.contiguous() if bias is None else result + bias.view(-1, 1, 1)


def _quantized_linear(given: dict[str, Any], low: Any) -> Any:
    weight, bias = torch.ops.quantized.linear_unpack(given["W_prepack"])
    bias = None if bias is None else bias.double()
    return torch.nn.functional.linear(given["X"], weight.dequantize().double(), bias)


def _quantized_linear_relu(given: dict[str, Any], low: Any) -> Any:
    return _quantized_linear(given, low).relu()


def _lstm(given: dict[str, Any], low: Any) -> Any:
    """Compute one layer in one direction, which oneDNN runs in float32 and bfloat16 only."""
    weights = [given[f"weight{at}"] for at in range(4)][: 4 if given["has_biases"] else 2]
    x = given["input"].flip(0) if given["reverse"] else given["input"]
    h, c = given["hx_"], given["cx_"]
    state = (h.reshape(1, *h.shape[-2:]), c.reshape(1, *c.shape[-2:]))
    out, last_h, last_c = torch._VF.lstm(x, state, weights, given["has_biases"], 1, 0.0, False, False, False)
    # The last result is the memory of the backward pass.
    return out.flip(0) if given["reverse"] else out, last_h.view(h.shape), last_c.view(c.shape), low[3]


def _lstm_backward(given: dict[str, Any], low: Any) -> Any:
    """Return the gradients of one layer in one direction by the chain rule, from the last step to the first."""
    w_x, w_h, turned = given["weight1"], given["weight2"], given["reverse"]
    x = given["input"].flip(0) if turned else given["input"]
    h, c = given["hx_"].reshape(-1, w_h.shape[1]), given["cx_tmp"].reshape(-1, w_h.shape[1])
    bias = given["weight3"] + given["weight4"] if given["has_biases"] else 0.0
    steps = []
    for now in x:
        i, f, g, o = (now @ w_x.t() + h @ w_h.t() + bias).chunk(4, -1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        steps.append((h, c, i, f, g, o))
        c = f * c + i * g
        h = o * c.tanh()
    outer = given["grad_output"]
    outer = [None] * len(x) if outer is None else outer.flip(0) if turned else outer
    to_h, to_c = (
        torch.zeros_like(h) if each is None else each.reshape(h.shape) for each in (given["grad_hy"], given["grad_cy"])
    )
    gates, after = [], c
    for (_, c, i, f, g, o), own in zip(reversed(steps), reversed([*outer]), strict=True):
        to_h = to_h if own is None else to_h + own
        to_c = to_c + to_h * o * (1 - after.tanh().square())
        parts = (to_c * g * i * (1 - i), to_c * c * f * (1 - f), to_c * i * (1 - g * g))
        gates.append(torch.cat([*parts, to_h * after.tanh() * o * (1 - o)], -1))
        to_h, to_c, after = gates[-1] @ w_h, to_c * f, c
    all_gates = torch.stack(gates[::-1])
    of_x, of_bias = all_gates @ w_x, all_gates.sum((0, 1))
    of_w_h = torch.einsum("tbg,tbh->gh", all_gates, torch.stack([each[0] for each in steps]))
    found = (of_x.flip(0) if turned else of_x, torch.einsum("tbg,tbi->gi", all_gates, x), of_w_h, of_bias, of_bias)
    return *found, to_h.reshape(given["hx_"].shape), to_c.reshape(given["cx_tmp"].shape)


def _unscale(given: dict[str, Any], low: Any) -> Any:
    """Divide gradients by the scale of a loss. Gradients of a low-precision run that overflow are its decision."""
    finite = [each.isfinite().all() for each in given["self"]]
    if finite and not torch.stack(finite).all():
        given["found_inf"].fill_(1.0)
    for each in given["self"]:
        each.mul_(given["inv_scale"])
    return ()


def _update_scale(given: dict[str, Any], low: Any) -> Any:
    """Change the scale of a loss as the run did, which set its count of good steps back if the scale has grown."""
    scale = given["self"]
    if bool(given["found_inf"]):
        return scale.mul_(given["scale_backoff_factor"])
    has_grown = int(given["growth_tracker"]) == 0
    return scale.mul_(given["scale_growth_factor"]) if has_grown else scale


_RULES: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "convolution": _convolution,
    "native_dropout": _dropout,
    "quantized::linear_dynamic": _quantized_linear,
    "quantized::linear_relu_dynamic": _quantized_linear_relu,
    "mkldnn_rnn_layer": _lstm,
    "mkldnn_rnn_layer_backward": _lstm_backward,
    "_amp_foreach_non_finite_check_and_unscale_": _unscale,
    "_amp_update_scale_": _update_scale,
}


def derivable_form(facts: Facts, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the results of an operation by a formula that has all derivatives; None for any other."""
    formula = _DERIVABLE.get(facts.name)
    return None if formula is None else formula(facts.given(args, kwargs))


def _layer_norm(given: dict[str, Any]) -> Any:
    x, axes = given["input"], tuple(range(-len(given["normalized_shape"]), 0))
    mean = x.mean(axes, keepdim=True)
    rstd = torch.rsqrt((x - mean).square().mean(axes, keepdim=True) + given["eps"])
    out = (x - mean) * rstd
    out = out if given["weight"] is None else out * given["weight"]
    return out if given["bias"] is None else out + given["bias"], mean, rstd


def _layer_norm_backward(given: dict[str, Any]) -> Any:
    """Return the gradients of layer_norm, in which the statistics are values of their own with errors of their own."""
    gradient, x, mean, rstd = given["grad_out"], given["input"], given["mean"], given["rstd"]
    axes = tuple(range(-len(given["normalized_shape"]), 0))
    rows = tuple(range(x.dim() - len(axes)))
    normal = (x - mean) * rstd
    weighted = gradient if given["weight"] is None else gradient * given["weight"]
    along = (weighted * normal).mean(axes, keepdim=True)
    inner = rstd * (weighted - weighted.mean(axes, keepdim=True) - normal * along)
    found = (
        inner,
        (gradient * normal).sum(rows) if rows else gradient * normal,
        gradient.sum(rows) if rows else gradient,
    )
    return tuple(each if wanted else None for each, wanted in zip(found, given["output_mask"], strict=True))


def _batch_norm(given: dict[str, Any]) -> Any:
    """Return batch_norm and the statistics of a batch, for which torch has no derivative."""
    x, training, momentum = given["input"], given["training"], given["momentum"]
    axes, shape = (0, *range(2, x.dim())), (1, -1, *(1,) * (x.dim() - 2))
    running = [given["running_mean"], given["running_var"]]
    mean, variance = (x.mean(axes), x.var(axes, correction=0)) if training else running
    rstd = torch.rsqrt(variance + given["eps"])
    out = (x - mean.view(shape)) * rstd.view(shape)
    out = out if given["weight"] is None else out * given["weight"].view(shape)
    out = out if given["bias"] is None else out + given["bias"].view(shape)
    if not training:
        return out, x.new_zeros(0), x.new_zeros(0)
    for old, new in zip(running, (mean, x.var(axes)), strict=True):
        if old is not None:
            old.mul_(1 - momentum).add_(momentum * new)
    return out, mean, rstd


def _batch_norm_backward(given: dict[str, Any]) -> Any:
    """Return the gradients of batch_norm. In training its statistics are values of their own, as for layer_norm."""
    gradient, x, weight = given["grad_out"], given["input"], given["weight"]
    axes, shape = (0, *range(2, x.dim())), (1, -1, *(1,) * (x.dim() - 2))
    mean, rstd = given["save_mean"], given["save_invstd"]
    if not given["train"]:
        mean, rstd = given["running_mean"], torch.rsqrt(given["running_var"] + given["eps"])
    rstd = rstd.view(shape)
    normal = (x - mean.view(shape)) * rstd
    inner = gradient if weight is None else gradient * weight.view(shape)
    if given["train"]:
        inner = inner - inner.mean(axes, keepdim=True) - normal * (inner * normal).mean(axes, keepdim=True)
    found = inner * rstd, (gradient * normal).sum(axes), gradient.sum(axes)
    return tuple(each if wanted else None for each, wanted in zip(found, given["output_mask"], strict=True))


def _attention_scores(given: dict[str, Any]) -> tuple[Any, float]:
    q, mask, scale = given["query"], given.get("attn_mask"), given.get("scale")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = (q * scale) @ given["key"].transpose(-1, -2)
    scores = scores if mask is None else scores + mask
    if given.get("is_causal"):
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return scores, scale


def _attention(given: dict[str, Any]) -> Any:
    scores, _ = _attention_scores(given)
    return scores.softmax(-1) @ given["value"], scores.logsumexp(-1)


def _attention_backward(given: dict[str, Any]) -> Any:
    """Return the gradients of attention by its exact formula (Dao 2023, FlashAttention-2, algorithm 2)."""
    gradient, q, k, v = given["grad_out"], given["query"], given["key"], given["value"]
    scores, scale = _attention_scores(given)
    weights = torch.exp(scores - given["logsumexp"].unsqueeze(-1))
    along = (gradient * given["out"]).sum(-1, keepdim=True)
    inner = weights * (gradient @ v.transpose(-1, -2) - along)
    return inner @ k * scale, inner.transpose(-1, -2) @ q * scale, weights.transpose(-1, -2) @ gradient


# torch has no derivative of these, or none of their statistics.
_DERIVABLE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "native_batch_norm": _batch_norm,
    "native_batch_norm_backward": _batch_norm_backward,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
}


def _chosen(given: Mapping[str, Any], low: Sequence[Any], result: Sequence[Any]) -> Any:
    """Return the values at the indices that the low-precision operation chose, so that both belong together."""
    value, indices = given.get("self", given.get("input")), low[1]
    if value.dim() == 0:
        return value.clone(), result[1]
    axis = given.get("dim", -1)
    at = indices if indices.dim() == value.dim() else indices.unsqueeze(axis)
    return value.gather(axis, at).view(low[0].shape), result[1]


# They return values, and the indices where they found them. Pools do, too, but their indices serve the backward pass
# alone: the maxima of an independent run in float64 are the better shadow (benchmarks/shadow/planted.py).
_CHOOSE = {
    "cummax",
    "cummin",
    "kthvalue",
    "max",
    "median",
    "min",
    "mode",
    "nanmedian",
    "sort",
    "topk",
}
