"""How does a training of torch run for a comparison: a model, an optimizer, data and a loss?

The loop is the same as in `precreg training`. Step 0 has the initial weights, and each update gives one step.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sized
from typing import Any

from precreg.errors import UserError
from precreg.training.divergence.perturbation import Twin
from precreg.training.divergence.trajectory import TrainingSource, TrajectoryStep, batch_digest, named_weights
from precreg.training.recipe import Recipe, read_recipe


def run_recipe(
    made: Any, source: TrainingSource, twin: Twin | None, every: int, last: int | None
) -> Iterator[TrajectoryStep]:
    """Yield the weights of a training of torch after each update, up to step `last`, by default one pass over its data.

    Raises UserError: bad-outputs for anything but a training; bad-value for a device, which computes arrays of numpy.
    """
    recipe = _recipe(made, source)
    from precreg.training.observing import check_optimizer, check_recipe, train_recipe  # torch is there

    check_recipe(recipe)
    check_optimizer(recipe)

    data = _Data(recipe.data, source.dtype)
    steps = _steps(recipe) if last is None else last
    recipe.data = data
    _change(recipe.model, twin, 0)
    yield TrajectoryStep(0, named_weights(recipe.model))
    for step, loss in enumerate(train_recipe(recipe, steps), start=1):
        if step % every == 0:
            _change(recipe.model, twin, step)
        yield TrajectoryStep(step, named_weights(recipe.model), loss, data.take_digest())


def _recipe(made: Any, source: TrainingSource) -> Recipe:
    if "torch" not in sys.modules:
        # Without torch nothing can be a recipe.
        message = f"expected {source.target} to return a generator or a training of torch but got {type(made).__name__}"
        raise UserError("bad-outputs", message, hint="yield the weights: weights = yield weights, loss")
    recipe = read_recipe(made, source.target)
    if source.device is not None:
        message = f"expected a training of numpy for device={source.device} but {source.target} returns one of torch"
        raise UserError("bad-value", message, hint="leave --device out, or choose a dtype: --dtype B:bfloat16")
    if source.dtype is not None:
        recipe.model.to(_torch_dtype(source.dtype))
    return recipe


def _steps(recipe: Recipe) -> int:
    """Return the updates of one pass over the data; an iterator ends by itself."""
    count = len(recipe.data) if isinstance(recipe.data, Sized) else sys.maxsize
    return max(1, count // max(1, recipe.accumulate))


def _torch_dtype(name: str) -> Any:
    """Return a floating dtype of torch. Raises UserError: unknown-dtype."""
    import torch

    found = getattr(torch, name, None)
    if isinstance(found, torch.dtype) and found.is_floating_point:
        return found
    message = f"expected a floating dtype of torch but got dtype={name}"
    raise UserError("unknown-dtype", message, hint="write --dtype B:bfloat16")


class _Data:
    """Give the batches of a training in a dtype, and keep a digest of those since the last update."""

    def __init__(self, data: Any, dtype: str | None) -> None:
        self._data, self._dtype = data, dtype
        self._digests: list[str] = []

    def __iter__(self) -> Iterator[Any]:
        for batch in self._data:
            self._digests.append(batch_digest(batch))
            yield batch if self._dtype is None else _cast(batch, _torch_dtype(self._dtype))

    def take_digest(self) -> str | None:
        """Return one digest of the batches of an update; None without a batch."""
        digests, self._digests = self._digests, []
        return digests[0] if len(digests) == 1 else batch_digest([*map(str.encode, digests)]) if digests else None


def _cast(batch: Any, dtype: Any) -> Any:
    """Return a batch with its floating tensors in a dtype."""
    if isinstance(batch, dict):
        return {name: _cast(each, dtype) for name, each in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(_cast(each, dtype) for each in batch)
    return batch.to(dtype) if hasattr(batch, "is_floating_point") and batch.is_floating_point() else batch


def _change(model: Any, twin: Twin | None, step: int) -> None:
    """Give the weights of a model the last-bit changes of a twin."""
    if twin is None or step < twin.first:
        return
    import torch

    from precreg.subject import array_to_tensor

    changed = twin.change(step, named_weights(model))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(array_to_tensor(changed[name], name))
