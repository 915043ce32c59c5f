"""How does precreg call the functions with which a user gives a model, its data and its metric?"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from precreg.subject import (
    NO_ARGUMENTS,
    call_function,
    report_failures,
    require_package,
    run_alone,
    seed_generators,
)


def require_torch() -> None:
    """Refuse a model if torch is not installed. Raises UserError: missing-extra."""
    require_package("torch", "runs the model", extra="torch")


def require_onnx() -> None:
    """Refuse an ONNX model if its packages are not installed. Raises UserError: missing-extra."""
    for package in ("onnx", "onnxruntime"):
        require_package(package, "the model needs", extra="onnx")


def call_seeded(target: str, directory: Path, project: Path, *arguments: Any) -> Any:
    """Call a user's function with the global generators at seed 0, so that a model has the same weights in each run.

    Raises UserError: missing-module, missing-function, out-of-memory, and model-failed for other exceptions of the
    function.
    """
    if find_spec("torch") is not None:
        # Only the generator of a loaded torch is seeded.
        import_module("torch")
    seed_generators(0)
    hint, call_hint = (
        (f"fix {target} at the end of its traceback", "take the outputs: def metric(outputs): ...")
        if arguments
        else (run_alone(target), NO_ARGUMENTS)
    )
    with report_failures(target, project, "to return a value", hint=hint, call_hint=call_hint):
        return call_function(target, directory, project, *arguments)
