"""Compute the watched functions of one package in the present environment: python compute.py PACKAGE FOLDER.

record.py starts this program in the environment of each release. It writes outputs.npz, whose arrays are named by
function and dtype, and facts.json, and it needs the package and numpy alone. ONNX models are read from FOLDER/models.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from functions import Function, watched_functions


def result_name(function: Function, dtype: str) -> str:
    """Return the name of an output in outputs.npz."""
    return f"{function.name}|{dtype}"


def compute(function: Function, arrays: list[Any], dtype: str, models: Path) -> Any:
    """Compute a function, or an operator by its model.

    Raises:
        Exception: whatever the release raises, where it lacks the function or the dtype.

    """
    if function.name.startswith("onnxruntime."):
        return _run_model(models / f"{function.name}.{dtype}.onnx", arrays)
    options = dict(function.options)
    parameters = options.pop("parameters", ())
    return np.asarray(_named(function.path)(*arrays, *parameters, **options))


def _named(path: str) -> Any:
    """Import the longest part of a path that is a module, and return the attribute that the rest names."""
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(path)


def _run_model(model: Path, arrays: list[Any]) -> Any:
    """Run a model in one thread on the CPU."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return session.run(None, {f"x{place}": array for place, array in enumerate(arrays)})[0]


def cpu_features(kind: str) -> list[str]:
    """Return the features that numpy was built for: kind is `__cpu_dispatch__` or `__cpu_baseline__`."""
    for module in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        try:
            return list(getattr(importlib.import_module(module), kind))
        except ModuleNotFoundError:
            continue
    return []


def main(package: str, folder: Path) -> None:
    """Compute all functions, and write the outputs and the facts."""
    warnings.simplefilter("ignore")
    outputs, missing, inputs = {}, {}, hashlib.blake2b(digest_size=16)
    for function in watched_functions(package):
        for dtype in function.dtypes:
            arrays = function.arrays(dtype)
            for array in arrays:
                inputs.update(array.tobytes())
            try:
                with np.errstate(all="ignore"):
                    outputs[result_name(function, dtype)] = compute(function, arrays, dtype, folder / "models")
            except Exception as error:  # a release lacks a function, or a dtype of it: this is a result, too
                missing[result_name(function, dtype)] = f"{type(error).__name__}: {error}"[:200]
    np.savez(folder / "outputs.npz", **outputs)
    facts = {
        "inputs": inputs.hexdigest(),
        "release": importlib.import_module(package).__version__,
        "numpy": np.__version__,
        "dispatch": cpu_features("__cpu_dispatch__"),
        "missing": missing,
    }
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
