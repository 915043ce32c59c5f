"""How does a command report the exceptions of code that a user gave outside of a case?"""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from os.path import realpath
from pathlib import Path

import numpy as np

from precreg.errors import UserError
from precreg.subject.surroundings import describe_failure, first_line
from precreg.types import Failure, Reason

# The advice for a function that precreg calls without arguments, and that takes some.
NO_ARGUMENTS = "give each argument a default: def make(width=64): ..."


@contextmanager
def report_failures(
    target: str, project: Path, expected: str, *, hint: str = "", call_hint: str = ""
) -> Iterator[None]:
    """Turn an exception of user code inside into a UserError with its file, its line and the end of its traceback.

    UserError and an interrupt from the keyboard pass unchanged.

    Args:
        target: the user's function, as `module:function`.
        project: the root of its project. The place is the innermost frame in it, relative to it.
        expected: goes on after the function's name, such as "to return arrays".
        hint: the advice; without it that of the slug.
        call_hint: the advice if no code of the user ran, because the call has the wrong arguments.

    Raises:
        UserError: out-of-memory, and model-failed for other exceptions.
    """
    try:
        yield
    except (UserError, KeyboardInterrupt):
        raise
    # BaseException: a function that calls sys.exit() must not end the command without a message.
    except BaseException as error:
        file, line = _place(error, project)
        if _is_out_of_memory(error):
            smaller = "return a smaller model from a function of its own: the same layers, fewer and narrower"
            message = f"expected memory for {target} but got {first_line(error)}"
            raise UserError("out-of-memory", message, file=file, line=line, hint=smaller) from None
        failure = describe_failure(error, Reason.SUBJECT_ERROR)
        lines = _traceback(failure)
        message = f"expected {target} {expected} but it failed: {failure.message}{lines}"
        advice = hint if lines or isinstance(error, SystemExit) else call_hint or hint
        raise UserError("model-failed", message, file=file, line=line, hint=advice) from None


def run_alone(target: str) -> str:
    """Return the advice to call a function without precreg, for a function without arguments."""
    module, _, function = target.partition(":")
    return f"run it alone: python -c 'import {module}; {module}.{function}()'"


def require_package(package: str, use: str, *, extra: str) -> None:
    """Refuse to go on without a package. `use` says what it does, such as "runs the model".

    Raises UserError: missing-extra.
    """
    if find_spec(package) is None:
        raise UserError(
            "missing-extra",
            f"expected {package}, which {use}, but it is not installed",
            hint=f"install the extra: python -m pip install 'precreg[{extra}]'",
        )


def seed_generators(seed: int) -> bool:
    """Seed the global generators from which user code may draw, and return whether torch is loaded, and so its own."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
    return torch is not None


def _place(error: BaseException, project: Path) -> tuple[str | None, int | None]:
    """Return the file and the line of the innermost frame in a project; (None, None) if none lies there."""
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    # The file of a syntax error has no frame.
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno or 1))
    root = realpath(project)
    for name, line in reversed(places):
        path = Path(realpath(name))
        # A virtual environment may lie in the project.
        if path.is_relative_to(root) and "site-packages" not in path.parts and path.is_file():
            return path.relative_to(root).as_posix(), line
    return None, None


def _traceback(failure: Failure) -> str:
    """Return the lines of the traceback that lie in the user's code; none where the call itself was wrong."""
    lines = failure.detail.splitlines()
    return "".join(f"\n  {line}" for line in lines) if len(lines) > 1 else ""


def _is_out_of_memory(error: BaseException) -> bool:
    if "torch" not in sys.modules:
        return isinstance(error, MemoryError)
    from precreg.subject.torch import is_out_of_memory

    return is_out_of_memory(error)
