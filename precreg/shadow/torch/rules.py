"""How is an operation computed in float64, in step with its low-precision result?

Most operations have a kernel for float64. Others have a rule here, or run as they are on the rounded twins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from precreg.shadow.torch.schema import Facts
from precreg.shadow.torch.twins import is_shadowed, wide_dtype


class Exact(NamedTuple):
    """The results of an operation in float64; a reason if it has no form there, so that they are rounded."""

    result: Any
    reason: str = ""


def compute_exact(
    func: Any, facts: Facts, args: Sequence[Any], kwargs: Mapping[str, Any], wide: Mapping[int, Any], low: Any
) -> Exact:
    """Return the results of an operation on float64 values, which stand for the tensors of the call by id.

    Written arguments are written in their float64 values. `low` has the low-precision results, whose indices, masks and
    random draws apply here, too.
    """

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return wide.get(id(leaf), leaf)
        # Arguments may be objects of TorchScript, which compare with nothing.
        return wide_dtype(leaf) if isinstance(leaf, torch.dtype) else leaf

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
    return map_leaves(lambda leaf: leaf.to(wide_dtype(leaf.dtype)) if is_shadowed(leaf) else leaf, result)


def _dropout(given: dict[str, Any], low: Any) -> Any:
    value, p = given["input"], given["p"]
    if given.get("train") is False or p == 0:
        return value.clone(), low[1]
    return value * low[1] * (0.0 if p == 1 else 1 / (1 - p)), low[1]


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


_RULES: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "native_dropout": _dropout,
    "quantized::linear_dynamic": _quantized_linear,
    "quantized::linear_relu_dynamic": _quantized_linear_relu,
    "mkldnn_rnn_layer": _lstm,
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
