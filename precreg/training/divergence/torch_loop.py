"""How does precreg run a training of torch: a model, an optimizer, data and a loss?

Step 0 has the initial weights. Each batch gives one step: forward pass, loss, backward pass, update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from precreg.errors import UserError
from precreg.training.divergence.perturbation import Twin
from precreg.training.divergence.trajectory import (
    TrainingSource,
    TrajectoryStep,
    batch_digest,
    named_weights,
    read_scalar,
)

_MEMBERS = ("model", "optimizer", "data", "loss")
_EXAMPLE = "return model, optimizer, data, loss; data has batches of (inputs, target)"


def run_recipe(
    made: Any, source: TrainingSource, twin: Twin | None, every: int, last: int | None
) -> Iterator[TrajectoryStep]:
    """Yield the weights of a training of torch after each batch, up to step `last`.

    Raises UserError: bad-outputs for anything else; bad-value for a device, which torch cannot simulate.
    """
    model, optimizer, data, loss = _members(made, source.target)
    if source.device is not None:
        message = f"expected a training of numpy for device={source.device} but {source.target} returns a torch module"
        raise UserError("bad-value", message, hint="leave --device out, or choose a dtype: --dtype B:bfloat16")
    if source.dtype is not None:
        _cast(model, source.dtype)
    _change(model, twin, 0)
    yield TrajectoryStep(0, named_weights(model))
    for step, batch in enumerate(_batches(data, last), start=1):
        value = _update(model, optimizer, loss, batch, source.dtype)
        if step % every == 0:
            _change(model, twin, step)
        yield TrajectoryStep(step, named_weights(model), read_scalar(value), batch_digest(batch))


def _members(made: Any, target: str) -> tuple[Any, Any, Any, Any]:
    if isinstance(made, Mapping):
        found = tuple(made.get(name) for name in _MEMBERS)
    elif isinstance(made, tuple):
        found = made[:4]
    else:
        found = tuple(getattr(made, name, None) for name in _MEMBERS)
    if len(found) != 4 or not hasattr(found[0], "named_parameters") or not hasattr(found[1], "step"):
        got = f"got {type(made).__name__}"
        message = f"expected {target} to return a generator, or model, optimizer, data and loss, but {got}"
        raise UserError("bad-outputs", message, hint=_EXAMPLE)
    model, optimizer, data, loss = found
    return model, optimizer, data, loss


def _batches(data: Any, last: int | None) -> Iterator[Any]:
    """Yield the batches once; from the beginning again where `last` needs more of a sequence."""
    count = 0
    while True:
        before = count
        for batch in data:
            if last is not None and count >= last:
                return
            count += 1
            yield batch
        # An iterator that has ended yields nothing more.
        if last is None or count == before:
            return


def _update(model: Any, optimizer: Any, loss: Any, batch: Any, dtype: str | None) -> Any:
    inputs, target = (_to_dtype(each, dtype) for each in batch)
    optimizer.zero_grad()
    value = loss(model(inputs), target)
    value.backward()
    optimizer.step()
    return value


def _to_dtype(value: Any, dtype: str | None) -> Any:
    import torch

    is_floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(getattr(torch, dtype)) if dtype is not None and is_floating else value


def _cast(model: Any, dtype: str) -> None:
    """Convert a model in place. Raises UserError: unknown-dtype."""
    import torch

    found = getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        message = f"expected a floating dtype of torch but got dtype={dtype}"
        raise UserError("unknown-dtype", message, hint="write --dtype B:bfloat16")
    model.to(found)


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
