"""How does precreg make the recipe of a user's function, again for each short run?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from precreg.subject import (
    NO_ARGUMENTS,
    call_function,
    enter_module_space,
    report_failures,
    require_package,
    run_alone,
    use_module_space,
)
from precreg.training.recipe import Recipe, read_recipe
from precreg.types import TrainingAdvice


def advise_target(target: str, directory: Path, project: Path, *, steps: int, seeds: int) -> TrainingAdvice:
    """Return the advice for the training that `module:function` returns.

    Raises UserError: missing-extra without torch, missing-module, missing-function, bad-outputs; out-of-memory, and
    model-failed for other exceptions of the function or of an unaltered run.
    """
    require_package("torch", "runs the training", extra="torch")
    from precreg.training.advice.advise import advise_training

    make = make_of_target(target, directory, project)
    with use_module_space(directory, project), report_training(target, project):
        return advise_training(make, target, steps=steps, seeds=seeds)


def make_of_target(target: str, directory: Path, project: Path) -> Callable[[], Recipe]:
    """Return the function that makes the recipe of `module:function` anew; it enters the space of its modules."""

    def make() -> Recipe:
        recipe = read_recipe(call_function(target, directory, project), target)
        # The call has left the space of the project's modules.
        enter_module_space(directory, project)
        return recipe

    return make


def report_training(target: str, project: Path) -> AbstractContextManager[None]:
    """Turn an exception of a short run inside into a UserError: out-of-memory, model-failed."""
    return report_failures(target, project, "to run", hint=run_alone(target), call_hint=NO_ARGUMENTS)
