"""What is a recipe before it runs: its formats, its epsilon, and the reaction of its loss to more data?"""

from __future__ import annotations

from math import isfinite
from typing import Any

import torch
from torch.utils._pytree import tree_map

from precreg.arithmetic import FORMATS
from precreg.subject.torch import widened
from precreg.training.advice.remedies import Prepared
from precreg.training.advice.rerun import ShortRuns, batches_of, call_with_inputs, widen_recipe
from precreg.training.advice.symptoms import RecipeFacts
from precreg.training.recipe import Recipe

_NARROW = ("float16", "bfloat16")


def gather_facts_of_recipe(short_runs: ShortRuns, seed: int) -> RecipeFacts:
    """Return the facts of a recipe; `doubled` and `split` are None where the recipe cannot be called so."""
    recipe = short_runs.make(seed)
    weights = sorted({_name(each.dtype) for each in recipe.model.parameters() if each.is_floating_point()})
    computed = {*weights, *([recipe.autocast] if recipe.autocast else [])}
    if recipe.scaler is not None and recipe.scaler.is_enabled():
        # Scaling is for float16. A step of the user's own has its own autocast.
        computed.add("float16")
    epsilon, format = _epsilon(recipe)
    return RecipeFacts(
        weights=tuple(weights),
        computed=tuple(sorted(computed)),
        has_scaler=recipe.scaler is not None and recipe.scaler.is_enabled(),
        epsilon=epsilon,
        smallest=FORMATS[format].smallest_subnormal if format else None,
        epsilon_format=format,
        doubled=_doubled(short_runs, seed),
        split=_split(short_runs, seed),
    )


def batch_size(recipe: Recipe) -> int:
    """Return the length of the first dimension of the first target or, without one, of its inputs."""
    inputs, target = batches_of(recipe)[0]
    for each in (target, inputs):
        if isinstance(each, torch.Tensor) and each.dim():
            return len(each)
    return 1


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _epsilon(recipe: Recipe) -> tuple[float | None, str]:
    for group in recipe.optimizer.param_groups:
        narrow = [_name(each.dtype) for each in group["params"] if _name(each.dtype) in _NARROW]
        if "eps" in group and narrow:
            # Of the format with the larger smallest number.
            return float(group["eps"]), max(narrow, key=lambda name: FORMATS[name].smallest_subnormal)
    return None, ""


def _doubled(short_runs: ShortRuns, seed: int) -> float | None:
    """Return the loss of a batch beside itself over that of the batch; both in float64 and evaluation mode."""
    recipe = short_runs.make(seed)
    try:
        with widened(), torch.no_grad():
            widen_recipe(recipe)
            recipe.model.eval()
            inputs, target = batches_of(recipe)[0]
            more, targets = tree_map(_beside_itself, batches_of(recipe)[0])
            once = float(recipe.loss(call_with_inputs(recipe.model, inputs), target))
            twice = float(recipe.loss(call_with_inputs(recipe.model, more), targets))
    # The user's model may take one size of batch alone. Then the fact is unknown.
    except Exception:
        return None
    return twice / once if once and isfinite(once) and isfinite(twice) else None


def _beside_itself(value: Any) -> Any:
    return torch.cat([value, value]) if isinstance(value, torch.Tensor) and value.dim() else value


def _split(short_runs: ShortRuns, seed: int) -> float | None:
    """Return the gradient's norm in a user's step with twice the micro-batches, over that with the given number."""
    norms = []
    for factor in (1, 2):
        recipe = short_runs.make(seed)
        if recipe.step is None or recipe.accumulate <= 1:
            return None
        recipe.accumulate *= factor
        try:
            counts = short_runs.first_step(Prepared(recipe, seed), is_wide=True)
        # A batch may not divide so. Then the fact is unknown.
        except Exception:
            return None
        norms.append(counts.first_norm or 0.0)
    return norms[1] / norms[0] if norms[0] and all(map(isfinite, norms)) else None
