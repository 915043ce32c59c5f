"""How is each remedy applied to a fresh recipe?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._pytree import tree_map

from precreg.subject.torch import keep_modules
from precreg.training.advice.other_dtype import bfloat16_for_float16
from precreg.training.advice.wide_update import WideUpdate, sum_in_float32, widen_update
from precreg.training.recipe import Recipe
from precreg.types import Remedy, RemedyKind

_WAYS: dict[RemedyKind, WideUpdate] = {
    "master_weights": "masters",
    "stochastic_rounding": "stochastic",
    "float32_state": "state",
}


class NotApplicableError(Exception):
    """Report a remedy that changes nothing in a recipe."""


class Prepared:
    """Hold a recipe with its remedies."""

    def __init__(self, recipe: Recipe, seed: int) -> None:
        self.recipe, self.seed = recipe, seed
        self.masters: Mapping[Any, Any] = {}
        self.clips_after_unscale = False
        self.settings: Callable[[], AbstractContextManager[Any]] = nullcontext


def apply_remedies(recipe: Recipe, remedies: Sequence[Remedy], seed: int) -> Prepared:
    """Alter a recipe by remedies, in their order. Raises NotApplicableError."""
    prepared = Prepared(recipe, seed)
    for remedy in remedies:
        _APPLY[remedy.kind](prepared, remedy)
    return prepared


def _clip_after_unscale(prepared: Prepared, _remedy: Remedy) -> None:
    prepared.clips_after_unscale = True


def _average_loss(prepared: Prepared, remedy: Remedy) -> None:
    loss, divisor = prepared.recipe.loss, remedy.value
    prepared.recipe.loss = lambda output, target: loss(output, target) / divisor


def _set_scale(prepared: Prepared, remedy: Remedy) -> None:
    recipe = prepared.recipe
    if recipe.scaler is None or not recipe.scaler.is_enabled():
        if recipe.step is not None:
            raise NotApplicableError("the recipe has a step of its own and no scaler")
        if any(each.dtype == torch.float16 for each in recipe.model.parameters()):
            raise NotApplicableError("GradScaler takes no float16 gradients")
        device = next((each.device.type for each in recipe.model.parameters()), "cpu")
        recipe.scaler = torch.amp.GradScaler(device)
    # Of this object, because a step of the user's own may hold it.
    state = recipe.scaler.state_dict()
    recipe.scaler.load_state_dict({**state, "scale": remedy.value})


def _larger_epsilon(prepared: Prepared, remedy: Remedy) -> None:
    for group in prepared.recipe.optimizer.param_groups:
        if "eps" in group:
            group["eps"] = remedy.value


def _wide_update(prepared: Prepared, remedy: Remedy) -> None:
    prepared.masters = widen_update(prepared.recipe, _WAYS[remedy.kind], prepared.seed)
    if not prepared.masters:
        raise NotApplicableError("the optimizer has no weights in float16 or bfloat16")


def _float32_accumulation(prepared: Prepared, _remedy: Remedy) -> None:
    if not sum_in_float32(prepared.recipe):
        raise NotApplicableError("the optimizer has no weights in float16 or bfloat16")


def _float32_layers(prepared: Prepared, remedy: Remedy) -> None:
    recipe = prepared.recipe
    dtypes = {each.dtype for each in recipe.model.parameters()}
    # A model of one narrow dtype gets its values back in that dtype. Around others autocast or the model's code casts.
    narrow = str(next(iter(dtypes))).removeprefix("torch.") if len(dtypes) == 1 else "float32"
    spec = {"torch": "the recipe's model", "dtype": narrow, "keep_in": {"float32": list(remedy.layers)}}
    if recipe.autocast is not None:
        spec["autocast"] = recipe.autocast
    keep_modules(recipe.model, spec)


def _bfloat16(prepared: Prepared, _remedy: Remedy) -> None:
    recipe = prepared.recipe

    def convert(value: Any) -> Any:
        is_float16 = isinstance(value, torch.Tensor) and value.dtype == torch.float16
        return value.to(torch.bfloat16) if is_float16 else value

    is_autocast = recipe.autocast == "float16"
    if is_autocast:
        recipe.autocast = "bfloat16"
    has_weights = any(each.dtype == torch.float16 for each in recipe.model.parameters())
    if not is_autocast and not has_weights and recipe.step is None:
        raise NotApplicableError("the recipe computes nothing in float16")
    recipe.model._apply(convert)
    recipe.data = [tree_map(convert, batch) for batch in recipe.data]
    if recipe.scaler is not None:
        recipe.scaler._enabled = False
    prepared.settings = bfloat16_for_float16


_APPLY: dict[RemedyKind, Callable[[Prepared, Remedy], None]] = {
    "clip_after_unscale": _clip_after_unscale,
    "average_loss": _average_loss,
    "set_scale": _set_scale,
    "larger_epsilon": _larger_epsilon,
    "float32_state": _wide_update,
    "float32_accumulation": _float32_accumulation,
    "master_weights": _wide_update,
    "stochastic_rounding": _wide_update,
    "float32_layers": _float32_layers,
    "bfloat16": _bfloat16,
}
