"""How does an optimizer update narrow weights from float32: master weights, stochastic rounding, float32 state?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch

from precreg.arithmetic import Rounding, format_named, round_to
from precreg.training.recipe import Recipe

# - masters: the float32 weights stay, and each step rounds them to the nearest narrow numbers;
# - stochastic: each step rounds them stochastically, and goes on from the rounded ones;
# - state: each step rounds them to the nearest, and goes on from the rounded ones. The optimizer's state is float32.
WideUpdate = Literal["masters", "stochastic", "state"]

_NARROW = {torch.float16: "float16", torch.bfloat16: "bfloat16"}


def widen_update(recipe: Recipe, way: WideUpdate, seed: int) -> dict[Any, Any]:
    """Make the optimizer of a recipe update float32 copies of its narrow weights. Return the copies by weight.

    Gradients of several backward passes are summed in float32, too.
    """
    pairs: dict[Any, Any] = {}
    for group in recipe.optimizer.param_groups:
        group["params"] = [_master(each, pairs) for each in group["params"]]
    if pairs:
        _replace_zero_grad(recipe)
        recipe.optimizer.register_step_post_hook(_Rounding(pairs, way, seed))
    return pairs


def sum_in_float32(recipe: Recipe) -> int:
    """Sum the gradients of narrow weights in float32 until the step. Return the number of such weights."""
    parameters = [
        each
        for group in recipe.optimizer.param_groups
        for each in group["params"]
        if each.dtype in _NARROW and each.requires_grad
    ]
    sums: dict[Any, Any] = {}
    for parameter in parameters:
        parameter.register_hook(_adder(parameter, sums))
        parameter.register_post_accumulate_grad_hook(lambda each: _give_sum(each, sums))
    recipe.optimizer.register_step_post_hook(lambda *_: sums.clear())
    return len(parameters)


def _adder(parameter: Any, sums: dict[Any, Any]) -> Callable[[Any], None]:
    # A hook of the tensor gets the gradient of one backward pass, before it is added to the others.
    def add(gradient: Any) -> None:
        wide = gradient.detach().float()
        sums[parameter] = sums[parameter] + wide if parameter in sums else wide

    return add


def _give_sum(parameter: Any, sums: dict[Any, Any]) -> None:
    parameter.grad = sums[parameter].to(parameter.dtype)


def _master(parameter: Any, pairs: dict[Any, Any]) -> Any:
    if parameter.dtype not in _NARROW:
        return parameter
    if parameter not in pairs:
        master = torch.nn.Parameter(parameter.detach().float().clone(), parameter.requires_grad)
        pairs[parameter] = master

        def add(each: Any) -> None:
            wide = each.grad.detach().float()
            master.grad = wide if master.grad is None else master.grad + wide
            each.grad = None

        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(add)
    return pairs[parameter]


def _replace_zero_grad(recipe: Recipe) -> None:
    # A user's step may call the model's, which does not know the masters.
    recipe.model.zero_grad = recipe.optimizer.zero_grad


class _Rounding:
    """Write the float32 weights into the narrow ones after each step. Hooks of one optimizer."""

    def __init__(self, pairs: dict[Any, Any], way: WideUpdate, seed: int) -> None:
        self._pairs, self._way, self._seed = pairs, way, seed

    def __call__(self, *_: Any) -> None:
        self._seed += 1
        for place, (narrow, master) in enumerate(self._pairs.items()):
            with torch.no_grad():
                if self._way == "stochastic":
                    wide = master.detach().cpu().numpy()
                    format = format_named(_NARROW[narrow.dtype])
                    rounded = round_to(wide, format, Rounding.STOCHASTIC, seed=self._seed * 65537 + place)
                    master.copy_(torch.from_numpy(rounded))
                narrow.copy_(master)
                if self._way == "state":
                    master.copy_(narrow)
