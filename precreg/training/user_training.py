"""How does precreg run and observe the training that a user's function returns?"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from precreg.errors import UserError
from precreg.subject import (
    NO_ARGUMENTS,
    call_function,
    enter_module_space,
    report_failures,
    require_package,
    run_alone,
    seed_generators,
    use_module_space,
)
from precreg.training.gradients import StepGradients
from precreg.training.recipe import read_recipe
from precreg.types import TrainingRecord

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
            that cannot be observed; no-gradients; out-of-memory, and model-failed for other exceptions of the user's
            code.
    """
    require_package("torch", "runs the training", extra="torch")
    # A training may import modules of its project in the middle of a step.
    with (
        use_module_space(directory, project),
        report_failures(
            target, project, "to return a training that runs", hint=run_alone(target), call_hint=NO_ARGUMENTS
        ),
    ):
        return _observed(target, directory, project, listener, (steps, every, elements))


def _observed(
    target: str,
    directory: Path,
    project: Path,
    listener: Callable[[StepGradients], None] | None,
    counts: tuple[int, int, int | None],
) -> TrainingRecord:
    import_module("torch")
    from precreg.training.observing import check_optimizer, check_recipe, start_observer, train_recipe

    steps, every, elements = counts
    seed_generators(_SEED)
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
    record = observer.record
    _require_gradients(record, target, steps, is_open=observer.is_updated)
    return record


def _require_gradients(record: TrainingRecord, target: str, steps: int, *, is_open: bool) -> None:
    """Refuse a training without updates or gradients. `is_open`: a step was updated and never ended."""
    if not record.begun and is_open:
        raise UserError(
            "no-gradients",
            f"expected scaler.update() at the end of each step but {target} never calls it after an update",
            hint="write recipe.scaler.scale(loss).backward(); recipe.scaler.step(recipe.optimizer); "
            "recipe.scaler.update(), or return no scaler",
        )
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
