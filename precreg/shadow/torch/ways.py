"""Which formula leads back through an operation, so that it need not run again for its gradients?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from precreg.shadow.torch.schema import Facts


class Way(NamedTuple):
    """The way back through an operation by a formula, in place of another run of the operation.

    `needs` decides by an argument's name and the inexact arguments' names: does the formula read its values? `back`
    returns the gradients of the wanted arguments from the one of the first result. Arguments it does not read are 0.
    """

    needs: Callable[[str, set[str]], bool]
    back: Callable[[dict[str, Any], Any, set[str]], dict[str, Any]]
    keep: Callable[[Any], Any] | None = None


def way_back(facts: Facts, given: Mapping[str, Any], inexact: set[str]) -> Way | None:
    """Return the way back through an operation of real numbers; None if it has to run again."""
    is_complex = any(isinstance(each, torch.Tensor) and each.is_complex() for each in given.values())
    if is_complex or facts.writes not in ((), ("self",)) or given.get("rounding_mode") is not None:
        return None
    way = _WAYS.get(facts.name.removesuffix("_"))
    # The statistics of a batch depend on all of its values.
    return None if way is _NORM and (inexact != {"input"} or given.get("training")) else way


def _sum_back(given: dict[str, Any], gradient: Any, wanted: set[str]) -> dict[str, Any]:
    found = {"self": gradient, "other": gradient * given.get("alpha", 1)}
    return {name: found[name].sum_to_size(given[name].shape) for name in wanted}


def _difference_back(given: dict[str, Any], gradient: Any, wanted: set[str]) -> dict[str, Any]:
    return _sum_back({**given, "alpha": -given.get("alpha", 1)}, gradient, wanted)


def _product_back(given: dict[str, Any], gradient: Any, wanted: set[str]) -> dict[str, Any]:
    other = {"self": "other", "other": "self"}
    return {name: (gradient * given[other[name]]).sum_to_size(given[name].shape) for name in wanted}


def _quotient_back(given: dict[str, Any], gradient: Any, wanted: set[str]) -> dict[str, Any]:
    top, bottom = given["self"], given["other"]
    found = {"self": gradient / bottom}
    if "other" in wanted:
        found["other"] = -found["self"] * (top / bottom)
    return {name: found[name].sum_to_size(given[name].shape) for name in wanted}


def _matrices_back(left: str, right: str) -> Callable[[dict[str, Any], Any, set[str]], dict[str, Any]]:
    def back(given: dict[str, Any], gradient: Any, wanted: set[str]) -> dict[str, Any]:
        scaled = gradient * given["alpha"] if given.get("alpha", 1) != 1 else gradient
        found = {}
        if left in wanted:
            found[left] = scaled @ given[right].mT
        if right in wanted:
            found[right] = given[left].mT @ scaled
        if left != "self" and "self" in wanted:
            found["self"] = (gradient * given.get("beta", 1)).sum_to_size(given["self"].shape)
        return found

    return back


def _convolution_back(given: dict[str, Any], gradient: Any, wanted: set[str]) -> dict[str, Any]:
    bias = given.get("bias")
    names = ("input", "weight", "bias")
    keys = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    found = torch.ops.aten.convolution_backward(
        gradient,
        given["input"],
        given["weight"],
        None if bias is None else [*bias.shape],
        *[given[key] for key in keys],
        [name in wanted for name in names],
    )
    return {name: each for name, each in zip(names, found, strict=True) if name in wanted}


def _norm_back(given: dict[str, Any], gradient: Any, wanted: set[str]) -> dict[str, Any]:
    scale = torch.rsqrt(given["running_var"] + given["eps"])
    scale = scale if given["weight"] is None else scale * given["weight"]
    return {"input": gradient * scale.view(-1, *[1] * (gradient.dim() - 2))}


def _masked_back(given: dict[str, Any], gradient: Any, wanted: set[str]) -> dict[str, Any]:
    return {"self": gradient * given["self"]}


def _gelu_back(given: dict[str, Any], gradient: Any, wanted: set[str]) -> dict[str, Any]:
    approximate = given.get("approximate", "none")
    return {"self": torch.ops.aten.gelu_backward(gradient, given["self"], approximate=approximate)}


def _never(name: str, inexact: set[str]) -> bool:
    return False


def _as_factor(*terms: str) -> Callable[[str, set[str]], bool]:
    """Return a rule for products: each factor is needed for the gradients of the others, and a term is not."""
    return lambda name, inexact: name not in terms and bool(inexact - {name, *terms})


_NORM = Way(lambda name, inexact: name != "input", _norm_back)
_WAYS = {
    "_native_batch_norm_legit_no_training": _NORM,
    "add": Way(_never, _sum_back),
    "addmm": Way(_as_factor("self"), _matrices_back("mat1", "mat2")),
    "baddbmm": Way(_as_factor("self"), _matrices_back("batch1", "batch2")),
    "bmm": Way(_as_factor(), _matrices_back("self", "mat2")),
    "convolution": Way(_as_factor("bias"), _convolution_back),
    "div": Way(lambda name, inexact: name == "other" or "other" in inexact, _quotient_back),
    "gelu": Way(lambda name, inexact: True, _gelu_back),
    "mm": Way(_as_factor(), _matrices_back("self", "mat2")),
    "mul": Way(_as_factor(), _product_back),
    "native_batch_norm": _NORM,
    # NaN passes gradients on, as in torch.
    "relu": Way(lambda name, inexact: True, _masked_back, keep=lambda tensor: ~(tensor <= 0)),
    "sub": Way(_never, _difference_back),
}

# They are linear: they run again, and on zeros.
LINEAR = {
    *("_to_copy", "_unsafe_view", "cat", "clone", "constant_pad_nd", "contiguous", "copy", "copy_", "embedding"),
    *("embedding_dense_backward", "flip", "gather", "index", "index_select", "mean", "neg", "repeat", "roll"),
    *("select_backward", "slice_backward", "stack", "sum", "tril", "triu", "where"),
}
