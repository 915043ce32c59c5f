"""How does precreg run a training itself, on a device, in a dtype, or with last-bit changes?

A training is a function that returns a generator. It yields its weights by name, first those before any update, and
goes on with the weights that it gets: `weights = yield weights`, or `weights = yield weights, loss`. If a function
returns a model, an optimizer, data and a loss, the loop of precreg runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precreg.errors import UserError
from precreg.subject import call_function, report_failures, seed_generators
from precreg.training.divergence.perturbation import Twin
from precreg.training.divergence.trajectory import (
    TrainingSource,
    TrajectoryStep,
    batch_digest,
    named_weights,
    read_scalar,
)

if TYPE_CHECKING:
    from precreg.arithmetic.devices import WatchedArithmetic

_PROTOCOL = "yield the weights and go on with what comes back: weights = yield weights, loss"


def run_training(
    source: TrainingSource, twin: Twin | None = None, *, every: int = 1, last: int | None = None
) -> Iterator[TrajectoryStep]:
    """Yield the weights of a training at step 0 and every Nth after it, up to step `last`.

    A twin gets its last-bit changes at each of these steps. Raises UserError: bad-outputs for a function that follows
    neither protocol; bad-value for a training that ignores the dtype; idle-device; unknown-device, missing-module and
    missing-function; out-of-memory, and model-failed for other exceptions of the training.
    """
    with _failures(source):
        made = _call(source)
    if isinstance(made, Generator):
        steps = _run_generator(made, source, twin, every)
    else:
        from precreg.training.divergence.torch_loop import run_recipe

        steps = run_recipe(made, source, twin, every, last)
    while True:
        with _failures(source):
            step = next(steps, None)
        if step is None or (last is not None and step.step > last):
            return
        if step.step % every == 0:
            yield step


def _call(source: TrainingSource) -> Any:
    """Call the function of a training with the same seeds of the global generators in each run."""
    places = (source.directory, source.project)
    # First the import: a module may bring torch, whose generator is seeded, too.
    call_function("importlib:import_module", *places, source.target.partition(":")[0])
    loaded = seed_generators(0)
    made = call_function(source.target, *places, **source.params)
    if loaded or "torch" not in sys.modules:
        return made
    # The function itself imported torch, and drew its first numbers without this seed.
    seed_generators(0)
    return call_function(source.target, *places, **source.params)


def _failures(source: TrainingSource) -> AbstractContextManager[None]:
    return report_failures(
        source.target,
        source.project,
        "to run",
        hint="fix the training at the end of its traceback",
        call_hint="name its arguments: --param seed=0",
    )


def _run_generator(
    training: Generator[Any, Any, Any], source: TrainingSource, twin: Twin | None, every: int
) -> Iterator[TrajectoryStep]:
    settings = _Settings(source)
    try:
        with np.errstate(all="ignore"):
            yielded = next(training)
        for step in count():
            weights, loss, batch = _read(yielded, source)
            if step > 1:
                settings.require_effect(weights)
            changed = twin.change(step, weights) if twin is not None and step % every == 0 else weights
            sent = settings.apply(step, changed)
            yield TrajectoryStep(step, {name: np.array(each, subok=False) for name, each in sent.items()}, loss, batch)
            # Overflow raises no warnings, as in a case. The state is set for each step, because a generator ends late.
            with np.errstate(all="ignore"):
                yielded = training.send(sent)
    except StopIteration:
        return
    finally:
        training.close()


def _read(yielded: Any, source: TrainingSource) -> tuple[dict[str, NDArray[Any]], float | None, str | None]:
    """Return the weights, the loss and the batch's digest that a training yielded. Raises UserError: bad-outputs."""
    weights, *others = yielded if isinstance(yielded, tuple) else (yielded,)
    if not isinstance(weights, Mapping) or len(others) > 2:
        message = f"expected {source.target} to yield weights by name, and a loss, but it yielded {_kind(yielded)}"
        raise UserError("bad-outputs", message, hint=_PROTOCOL)
    loss, batch = (*others, None, None)[:2]
    return named_weights(weights), read_scalar(loss), None if batch is None else batch_digest(batch)


def _kind(value: Any) -> str:
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else type(value).__name__


class _Settings:
    """Give the weights of a generator its dtype and its device, and check that they have an effect."""

    def __init__(self, source: TrainingSource) -> None:
        self._source = source
        self._dtype = None if source.dtype is None else _numpy_dtype(source.dtype)
        self._watched: WatchedArithmetic | None = None
        if source.device is not None:
            from precreg.arithmetic.devices import WatchedArithmetic, arithmetic_of_device, device_named

            self._watched = WatchedArithmetic(arithmetic_of_device(device_named(source.device, source.project)))

    def apply(self, step: int, weights: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        from precreg.arithmetic.devices import is_floating, simulate_array

        found = dict(weights)
        if self._dtype is not None and step == 0:
            dtype = self._dtype
            found = {name: each.astype(dtype) if is_floating(each.dtype) else each for name, each in found.items()}
        if self._watched is not None:
            watched = self._watched
            found = {
                name: simulate_array(each, watched) if is_floating(each.dtype) else each for name, each in found.items()
            }
        return found

    def require_effect(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Refuse settings that a training ignores. Raises UserError: bad-value, idle-device."""
        target = self._source.target
        if self._dtype is not None and all(each.dtype != self._dtype for each in weights.values()):
            found = ", ".join(sorted({each.dtype.name for each in weights.values()}))
            message = f"expected weights of dtype={self._dtype} after a step but {target} yielded {found}"
            raise UserError("bad-value", message, hint=_PROTOCOL)
        if self._watched is not None and not self._watched.has_computed:
            message = f"expected operations on the weights but device={self._source.device} computed none of {target}"
            raise UserError("idle-device", message, hint=_PROTOCOL)


def _numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of a name. Raises UserError: unknown-dtype."""
    from precreg.arithmetic import FORMATS, numpy_dtype
    from precreg.errors import nearest

    if name not in FORMATS:
        message = f"expected a floating dtype but got dtype={name}{nearest(name, FORMATS)}"
        raise UserError("unknown-dtype", message, hint="write --dtype B:bfloat16")
    return np.dtype(numpy_dtype(name))
