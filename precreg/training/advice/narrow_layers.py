"""Which layers compute in a narrow format, and which of them lose most?"""

from __future__ import annotations

from math import inf, isfinite
from typing import Any

import torch

from precreg.errors import UserError
from precreg.subject.torch import OWN_OUTPUT, layer_outputs
from precreg.training.advice.rerun import ShortRuns, run_one_step

_NARROW = (torch.float16, torch.bfloat16)
# A search over more layers takes more reruns than a developer waits for.
_MAX_LAYERS = 16


def rank_layers(short_runs: ShortRuns, seed: int) -> list[str]:
    """Return the layers with narrow results, those with the largest own error of the first batch first.

    A layer without finite results comes before all others. Layers that draw random numbers are not compared.
    """
    recipe = short_runs.make(seed)
    leaves = [name for name, each in recipe.model.named_modules() if name and not next(each.children(), None)]
    narrow = _narrow_layers(recipe, leaves)
    if not narrow:
        return []
    errors = {name: _own_error(short_runs, seed, name) for name in narrow}
    return sorted(narrow, key=lambda name: -errors[name])[:_MAX_LAYERS]


def _narrow_layers(recipe: Any, leaves: list[str]) -> list[str]:
    found: dict[str, None] = {}
    modules = dict(recipe.model.named_modules())

    def note(name: str) -> Any:
        def see(_module: Any, _arguments: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor) and output.dtype in _NARROW:
                found[name] = None

        return see

    handles = [modules[name].register_forward_hook(note(name)) for name in leaves]
    try:
        run_one_step(recipe)
    finally:
        for handle in handles:
            handle.remove()
    return [name for name in leaves if name in found]


def _own_error(short_runs: ShortRuns, seed: int, name: str) -> float:
    recipe = short_runs.make(seed)
    spec = {"torch": "the recipe's model", "monitor": [name]}
    try:
        outputs = layer_outputs(spec, recipe.model, lambda: run_one_step(recipe))
    except UserError:
        return 0.0
    errors = [float(abs(each).max()) for key, each in outputs.items() if key.startswith(OWN_OUTPUT) and each.size]
    return max((each if isfinite(each) else inf for each in errors), default=0.0)
