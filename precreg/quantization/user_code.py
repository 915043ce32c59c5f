"""How does precreg call the functions with which a user gives a model, its data and its metric?"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from precreg.errors import UserError
from precreg.subject import call_function, describe_failure
from precreg.types import Reason


def require_torch() -> None:
    """Refuse a model if torch is not installed. Raises UserError: missing-extra."""
    if find_spec("torch") is None:
        raise UserError(
            "missing-extra",
            "expected torch, which runs the model, but it is not installed",
            hint="install the extra: python -m pip install 'precreg[torch]'",
        )


def require_onnx() -> None:
    """Refuse an ONNX model if its packages are not installed. Raises UserError: missing-extra."""
    for package in ("onnx", "onnxruntime"):
        if find_spec(package) is None:
            raise UserError(
                "missing-extra",
                f"expected {package}, which the model needs, but it is not installed",
                hint="install the extra: python -m pip install 'precreg[onnx]'",
            )


def call_seeded(target: str, directory: Path, project: Path, *arguments: Any) -> Any:
    """Call a user's function with torch's generator at seed 0, so that a model has the same weights in each run.

    Raises UserError: missing-module, missing-function, and model-failed for exceptions of the function.
    """
    if find_spec("torch") is not None:
        import torch

        torch.manual_seed(0)
    try:
        return call_function(target, directory, project, *arguments)
    except (UserError, KeyboardInterrupt):
        raise
    # BaseException: a function that calls sys.exit() must not end the command without a message.
    except BaseException as error:
        failure = describe_failure(error, Reason.SUBJECT_ERROR)
        lines = "".join(f"\n  {line}" for line in failure.detail.splitlines())
        message = f"expected {target} to return a value but it failed: {failure.message}{lines}"
        raise UserError(
            "model-failed", message, hint=f"run it alone: python -c 'from {target.replace(':', ' import ')}'"
        ) from None
