"""How does precreg run a recipe: which batches make a step, and in which order do scaling, clipping and update come?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any

import torch

from precreg.errors import UserError
from precreg.training.observing.observer import TrainingObserver
from precreg.training.recipe import Recipe

_EXAMPLE = "return batches: data = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(50)]"


def train_recipe(recipe: Recipe, steps: int, observer: TrainingObserver | None = None) -> Iterator[float]:
    """Yield the loss of each update. A sequence of batches starts again at its end; an iterator ends the training.

    Raises:
        UserError: bad-outputs for a member of a wrong kind, data without batches, or a loss that is no scalar.
    """
    check_recipe(recipe)
    batches = _batches(recipe.data)
    count = 1 if recipe.step is not None else recipe.accumulate
    for step in range(steps):
        taken = list(islice(batches, count))
        if len(taken) < count:
            _require_first(step)
            if observer is not None:
                observer.note_event("data_ended", "", detail=f"{step} of {steps}")
            return
        yield _run_step(recipe, taken, observer)


def check_recipe(recipe: Recipe) -> None:
    """Require members that precreg can run. Raises UserError: bad-outputs for a member of a wrong kind."""
    wanted = {"model": torch.nn.Module, "optimizer": torch.optim.Optimizer}
    for name, kind in wanted.items():
        found = getattr(recipe, name)
        if not isinstance(found, kind):
            raise UserError(
                "bad-outputs",
                f"expected a torch {kind.__name__} as {name} but got {type(found).__name__}",
                hint="return model, torch.optim.SGD(model.parameters(), lr=0.1), batches, torch.nn.MSELoss()",
            )
    if not callable(recipe.loss):
        raise UserError(
            "bad-outputs",
            f"expected a function of (output, target) as loss but got {type(recipe.loss).__name__}",
            hint="return the function: loss = torch.nn.functional.mse_loss",
        )
    if type(recipe.accumulate) is not int or recipe.accumulate < 1:
        raise UserError(
            "bad-outputs",
            f"expected a whole number from 1 but got accumulate={recipe.accumulate!r}",
            hint="leave accumulate out, or return accumulate=4",
        )


def _batches(data: Any) -> Iterator[Any]:
    try:
        found = iter(data)
    except TypeError:
        raise UserError(
            "bad-outputs", f"expected data with batches but got {type(data).__name__}", hint=_EXAMPLE
        ) from None
    yield from found
    # A list, a dataset or a DataLoader starts again. An iterator is its own, and has ended.
    while found is not data:
        before, found = found, iter(data)
        first = next(found, before)
        if first is before:
            return
        yield first
        yield from found


def _require_first(step: int) -> None:
    if step == 0:
        raise UserError(
            "bad-outputs", "expected data with batches of (inputs, target) but it has too few for a step", hint=_EXAMPLE
        )


def _run_step(recipe: Recipe, batches: Sequence[Any], observer: TrainingObserver | None) -> float:
    if recipe.step is not None:
        loss = recipe.step(recipe, batches[0])
        if observer is not None and loss is not None:
            observer.note_finished_loss(_scalar(loss))
        return float("nan") if loss is None else _scalar(loss)
    recipe.optimizer.zero_grad()
    scaler = recipe.scaler if recipe.scaler is not None and recipe.scaler.is_enabled() else None
    total = 0.0
    for batch in batches:
        loss = _loss_of(recipe, batch) / len(batches)
        total += float(loss.detach())
        if observer is not None and scaler is None:
            observer.note_loss(total)
        (loss if scaler is None else scaler.scale(loss)).backward()
    if recipe.clip is not None:
        if scaler is not None:
            scaler.unscale_(recipe.optimizer)
        torch.nn.utils.clip_grad_norm_([*_parameters(recipe)], recipe.clip)
    if scaler is None:
        recipe.optimizer.step()
    else:
        scaler.step(recipe.optimizer)
        scaler.update()
    return total


def _scalar(loss: Any) -> float:
    return float(loss.detach()) if isinstance(loss, torch.Tensor) else float(loss)


def _parameters(recipe: Recipe) -> Iterator[Any]:
    for group in recipe.optimizer.param_groups:
        yield from group["params"]


def _loss_of(recipe: Recipe, batch: Any) -> Any:
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        got = f"{len(batch)} values" if isinstance(batch, tuple | list) else type(batch).__name__
        raise UserError("bad-outputs", f"expected batches of (inputs, target) but the data gave {got}", hint=_EXAMPLE)
    inputs, target = batch
    with _autocast(recipe):
        loss = recipe.loss(_called(recipe.model, inputs), target)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise UserError(
            "bad-outputs",
            f"expected a loss of one element but got {got}",
            hint="reduce it: loss = lambda output, target: (output - target).square().mean()",
        )
    return loss.reshape(())


def _called(model: Any, inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)


def _autocast(recipe: Recipe) -> AbstractContextManager[Any]:
    if recipe.autocast is None:
        return nullcontext()
    dtype = getattr(torch, str(recipe.autocast), None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise UserError(
            "bad-outputs",
            f"expected a floating dtype of torch but got autocast={recipe.autocast!r}",
            hint="return autocast='bfloat16' or autocast='float16'",
        )
    device = next((each.device.type for each in recipe.model.parameters()), "cpu")
    context: AbstractContextManager[Any] = torch.autocast(device, dtype=dtype)
    return context
