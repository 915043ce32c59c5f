"""How does precreg run and observe the training that a user's function returns?"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from precreg.errors import UserError
from precreg.subject import call_function, describe_failure, enter_module_space, leave_module_space
from precreg.training.gradients import StepGradients
from precreg.training.recipe import read_recipe
from precreg.types import Reason, TrainingRecord

# The training of the same project gives the same numbers in each run.
_SEED = 0


def observe_target(
    target: str,
    directory: Path,
    project: Path,
    listener: Callable[[StepGradients], None] | None,
    *,
    steps: int,
    every: int,
    elements: int | None = 2**14,
) -> TrainingRecord:
    """Run the training that `module:function` returns, and return the record of its observer.

    Args:
        target: the function, as `module:function`.
        directory: the folder whose modules the function sees first.
        project: the root of its project.
        listener: takes the unscaled gradients of each sampled step; None saves their copies.
        steps: the updates to run.
        every: sample the first step, and every Nth after it.
        elements: the most elements of a tensor to measure; None measures all.

    Raises:
        UserError: missing-extra without torch; missing-module, missing-function, bad-outputs; bad-value for a model
            that cannot be observed; no-gradients; and model-failed for other exceptions of the user's code.
    """
    _refuse_without_torch()
    # A training may import modules of its project in the middle of a step.
    enter_module_space(directory, project)
    try:
        return _observed(target, directory, project, listener, (steps, every, elements))
    except (UserError, KeyboardInterrupt):
        raise
    # BaseException: a function that calls sys.exit() must not end the command without a message.
    except BaseException as error:
        failure = describe_failure(error, Reason.SUBJECT_ERROR)
        lines = "".join(f"\n  {line}" for line in failure.detail.splitlines())
        message = f"expected {target} to return a training that runs but it failed: {failure.message}{lines}"
        module, _, function = target.partition(":")
        hint = f"run it alone: python -c 'from {module} import {function}; {function}()'"
        raise UserError("model-failed", message, hint=hint) from None
    finally:
        leave_module_space()


def _refuse_without_torch() -> None:
    if find_spec("torch") is None:
        raise UserError(
            "missing-extra",
            "expected torch, which runs the training, but it is not installed",
            hint="install the extra: python -m pip install 'precreg[torch]'",
        )


def _observed(
    target: str,
    directory: Path,
    project: Path,
    listener: Callable[[StepGradients], None] | None,
    counts: tuple[int, int, int | None],
) -> TrainingRecord:
    import random

    import numpy as np
    import torch

    from precreg.training.observing import check_optimizer, check_recipe, start_observer, train_recipe

    steps, every, elements = counts
    torch.manual_seed(_SEED)
    # The user's function may draw from each of these.
    np.random.seed(_SEED)
    random.seed(_SEED)
    recipe = read_recipe(call_function(target, directory, project), target)
    check_recipe(recipe)
    check_optimizer(recipe)
    observer = start_observer(
        recipe.model, recipe.optimizer, recipe.scaler, every=every, keep=max(steps, 1), elements=elements
    )
    if listener is not None:
        observer.listeners.append(listener)
    enter_module_space(directory, project)
    with observer:
        for _ in train_recipe(recipe, steps, observer):
            pass
    _require_gradients(observer.record, target, steps)
    return observer.record


def _require_gradients(record: TrainingRecord, target: str, steps: int) -> None:
    if not record.begun:
        raise UserError(
            "no-gradients",
            f"expected updates but the optimizer of {target} made none in {steps:,} step{'' if steps == 1 else 's'}",
            hint="update in step(recipe, batch): loss.backward(), then recipe.optimizer.step()",
        )
    if not any(step.parameters for step in record.steps):
        sampled = f"{len(record.steps):,} sampled step{'' if len(record.steps) == 1 else 's'}"
        raise UserError(
            "no-gradients",
            f"expected gradients but no parameter of {target} had one in {sampled}",
            hint="train parameters: torch.optim.SGD(model.parameters(), lr=0.1), with requires_grad=True",
        )
