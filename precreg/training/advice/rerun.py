"""How does a recipe, altered by a remedy or widened to float64, do in a short run?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import cycle, islice
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map

from precreg.errors import UserError
from precreg.subject import seed_generators
from precreg.subject.torch import widen_module, widened
from precreg.training.advice.probe import Probe, RunCounts
from precreg.training.advice.remedies import Prepared, apply_remedies
from precreg.training.observing import check_optimizer, check_recipe, train_recipe
from precreg.training.recipe import Recipe
from precreg.types import Remedy, RerunFigures

# The final loss is the mean over at most so many batches.
_JUDGED_BATCHES = 8

Make = Callable[[int], Recipe]


class Rerun(NamedTuple):
    """The figures of a run, the counts by parameter that they are sums of, and the loss scale of each step."""

    figures: RerunFigures
    counts: RunCounts
    scales: tuple[float, ...] = ()


class ShortRuns:
    """Run the variants of one recipe for the same number of steps on the same batches."""

    def __init__(self, make: Callable[[], Recipe], steps: int) -> None:
        """Prepare for a function that makes the recipe anew."""
        self._make, self.steps = make, steps
        # Divides the loss by which all runs are judged, if the recipe's loss is a sum.
        self.average: tuple[Remedy, ...] = ()

    def make(self, seed: int) -> Recipe:
        """Return a fresh recipe, with torch's, numpy's and Python's generators at a seed."""
        seed_generators(seed)
        recipe = self._make()
        check_recipe(recipe)
        check_optimizer(recipe)
        recipe.data = _take(recipe.data, self.steps * _batches_of_step(recipe))
        return recipe

    def run(self, seed: int, remedies: Sequence[Remedy] = (), *, is_wide: bool = False, sweep: Any = None) -> Rerun:
        """Run a recipe with remedies, in float64 if it `is_wide`, and return its figures.

        Raises the exceptions of the user's code and of torch, such as those for mixed dtypes.
        """
        prepared = apply_remedies(self.make(seed), remedies, seed)
        if is_wide:
            with widened():
                widen_recipe(prepared.recipe)
                return self._run(prepared, seed, sweep)
        return self._run(prepared, seed, sweep)

    def _run(self, prepared: Prepared, seed: int, sweep: Any) -> Rerun:
        recipe = prepared.recipe
        if not any(each.requires_grad for group in recipe.optimizer.param_groups for each in group["params"]):
            raise _no_gradients(self.steps)
        probe = Probe(recipe, _names(recipe, prepared.masters), sweep)
        probe.masters = prepared.masters
        if prepared.clips_after_unscale:
            probe.before_scaled_clip = lambda: recipe.scaler.unscale_(recipe.optimizer)
        losses, skipped, before = [], 0, 0
        scales = [probe.scale]
        torch.manual_seed(seed)
        with probe.watched(), prepared.settings():
            for loss in train_recipe(recipe, self.steps):
                losses.append(loss)
                scales.append(probe.scale)
                skipped += probe.counts.updates == before
                before = probe.counts.updates
        counts = probe.close()
        if not counts.nonfinite_of:
            raise _no_gradients(self.steps)
        final = self.judge(seed, recipe.model.state_dict())
        figures = RerunFigures(
            seed=seed,
            steps=self.steps,
            updates=counts.updates,
            skipped=skipped,
            final_loss=final,
            losses=tuple(each if isfinite(each) else None for each in losses),
            nonfinite_steps=counts.nonfinite_steps,
            nonfinite=counts.nonfinite,
            gradients=counts.gradients,
            zeros=counts.zeros,
            updated=counts.updated,
            lost=counts.lost,
            zero_moments=counts.zero_moments,
            scale=probe.scale,
            clippings=counts.clippings,
            scaled_clippings=counts.scaled_clippings,
            accumulation_error=counts.accumulation_error,
        )
        # The last update of the scaler is for a step that does not run.
        return Rerun(figures, counts, tuple(scales[:-1]))

    def first_step(self, prepared: Prepared, *, is_wide: bool) -> RunCounts:
        """Run one step of a recipe, and return its counts."""
        probe = Probe(prepared.recipe, {})
        with widened() if is_wide else nullcontext():
            if is_wide:
                widen_recipe(prepared.recipe)
            with probe.watched():
                run_one_step(prepared.recipe)
        return probe.close()

    def judge(self, seed: int, weights: Mapping[str, Any] | None = None) -> float | None:
        """Return the mean loss of weights in float64, or of the weights of a seed; None if it is not finite."""
        # Made outside: the generators would draw other numbers for float64 weights.
        recipe = apply_remedies(self.make(seed), self.average, seed).recipe
        with widened(), torch.no_grad():
            if weights is not None:
                recipe.model.load_state_dict(weights)
            widen_recipe(recipe)
            recipe.model.eval()
            batches = batches_of(recipe)[:_JUDGED_BATCHES]
            found = [float(recipe.loss(call_with_inputs(recipe.model, inputs), target)) for inputs, target in batches]
        mean = sum(found) / len(found)
        return mean if isfinite(mean) else None


def batches_of(recipe: Recipe) -> list[Any]:
    """Return the batches of a recipe that `ShortRuns` made."""
    assert isinstance(recipe.data, list)
    return recipe.data


def _batches_of_step(recipe: Recipe) -> int:
    # A step of the user's own divides its batch itself.
    return 1 if recipe.step is not None else recipe.accumulate


def run_one_step(recipe: Recipe) -> None:
    """Run the first step of a recipe."""
    for _ in train_recipe(recipe, 1):
        pass


def call_with_inputs(model: Any, inputs: Any) -> Any:
    """Call a model with the inputs of a batch: one, a tuple, or a dict by name."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)


def _no_gradients(steps: int) -> UserError:
    return UserError(
        "no-gradients",
        f"expected gradients but no parameter of the optimizer had one in {steps:,} steps",
        hint="train parameters: torch.optim.SGD(model.parameters(), lr=0.1), with requires_grad=True",
    )


def _take(data: Any, count: int) -> list[Any]:
    """Return the first batches, from the beginning again if there are fewer. Raises UserError: bad-outputs for none."""
    found = list(islice(data, count))
    if not found:
        raise UserError(
            "bad-outputs",
            "expected data with batches of (inputs, target) but got none",
            hint="return batches: data = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(50)]",
        )
    return list(islice(cycle(found), count))


def widen_recipe(recipe: Recipe) -> None:
    """Make a recipe compute in float64: weights, batches, without autocast and without scaling."""
    widen_module(recipe.model)
    recipe.data = [tree_map(_wide, batch) for batch in recipe.data]
    recipe.autocast = None
    if recipe.scaler is not None:
        # In place, because a step of the user's own may hold the scaler. torch has no public way.
        recipe.scaler._enabled = False


def _wide(value: Any) -> Any:
    is_floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if is_floating else value


def _names(recipe: Recipe, masters: Mapping[Any, Any]) -> dict[int, str]:
    return {id(masters.get(each, each)): name for name, each in recipe.model.named_parameters()}
