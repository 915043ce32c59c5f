"""How does precreg make the recipe of a user's function, again for each short run?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from precreg.errors import UserError
from precreg.subject import call_function, describe_failure, enter_module_space, leave_module_space
from precreg.training.recipe import Recipe, read_recipe
from precreg.types import Reason, TrainingAdvice

_T = TypeVar("_T")


def advise_target(target: str, directory: Path, project: Path, *, steps: int, seeds: int) -> TrainingAdvice:
    """Return the advice for the training that `module:function` returns.

    Raises UserError: missing-extra without torch, missing-module, missing-function, bad-outputs, and model-failed for
    exceptions of the function or of an unaltered run.
    """
    if find_spec("torch") is None:
        raise UserError(
            "missing-extra",
            "expected torch, which runs the training, but it is not installed",
            hint="install the extra: python -m pip install 'precreg[torch]'",
        )
    from precreg.training.advice.advise import advise_training

    make = make_of_target(target, directory, project)
    with with_modules(directory, project):
        return with_failures(target, lambda: advise_training(make, target, steps=steps, seeds=seeds))


def make_of_target(target: str, directory: Path, project: Path) -> Callable[[], Recipe]:
    """Return the function that makes the recipe of `module:function` anew; it enters the space of its modules."""

    def make() -> Recipe:
        recipe = read_recipe(call_function(target, directory, project), target)
        # The call has left the space of the project's modules.
        enter_module_space(directory, project)
        return recipe

    return make


@contextmanager
def with_modules(directory: Path, project: Path) -> Iterator[None]:
    """Keep the space of a project's modules, because a training may import them in the middle of a step."""
    enter_module_space(directory, project)
    try:
        yield
    finally:
        leave_module_space()


def with_failures(target: str, run: Callable[[], _T]) -> _T:
    """Return the result of a run.

    Raises UserError: out-of-memory, and model-failed for other exceptions of the user's code.
    """
    try:
        return run()
    except (UserError, KeyboardInterrupt):
        raise
    # BaseException: a function that calls sys.exit() must not end the command without a message.
    except BaseException as error:
        _refuse_without_memory(target, error)
        failure = describe_failure(error, Reason.SUBJECT_ERROR)
        lines = "".join(f"\n  {line}" for line in failure.detail.splitlines())
        module, _, function = target.partition(":")
        raise UserError(
            "model-failed",
            f"expected the training of {target} to run but it failed: {failure.message}{lines}",
            hint=f"run it alone: python -c 'from {module} import {function}; {function}()'",
        ) from None


def _refuse_without_memory(target: str, error: BaseException) -> None:
    from precreg.subject.torch import is_out_of_memory

    if is_out_of_memory(error):
        found = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise UserError(
            "out-of-memory",
            f"expected memory for the training of {target} but got {found}",
            hint="return a smaller training from a function of its own: the same layers, fewer and narrower",
        ) from None
