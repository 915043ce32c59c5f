"""Which outputs do the good and the planted version of a kernel give? Both run in this process."""

from __future__ import annotations

import types
from functools import cache
from typing import Any

import numpy as np

from benchmarks.diagnosis.plant import KERNELS, Plant, good_source, planted_source
from precreg.run.computation import draw_inputs
from precreg.storage import temporary_folder
from precreg.suite import load_cases

Arrays = dict[str, np.ndarray[Any, Any]]


def good_outputs(kernel: str) -> Arrays:
    """Return the outputs of the good version."""
    return _outputs(good_source(kernel), kernel, *_arguments(kernel))


def planted_outputs(plant: Plant) -> Arrays:
    """Return the outputs of a plant's version."""
    return _outputs(planted_source(plant), plant.kernel, *_arguments(plant.kernel))


def exact_outputs(kernel: str) -> Arrays:
    """Return the outputs of the formula of its own in float64, on the same inputs."""
    inputs, params = _arguments(kernel)
    wide = {name: array.astype(np.float64) if _is_float(array) else array for name, array in inputs.items()}
    return _outputs(good_source(kernel), "exact", wide, params)


def _is_float(array: np.ndarray[Any, Any]) -> bool:
    # numpy knows bfloat16 by the kind of raw bytes.
    return array.dtype.kind in "fV"


def _outputs(source: str, function: str, inputs: Arrays, params: dict[str, Any]) -> Arrays:
    module = types.ModuleType("kernel")
    exec(compile(source, "kernel.py", "exec"), module.__dict__)
    copies = {name: array.copy() for name, array in inputs.items()}
    with np.errstate(all="ignore"):
        result = getattr(module, function)(**copies, **params)
    outputs = result if isinstance(result, dict) else {"out": result}
    return {name: np.asarray(array) for name, array in outputs.items()}


@cache
def _arguments(kernel: str) -> tuple[Arrays, dict[str, Any]]:
    """Return the inputs of a kernel's case at seed 0, as a run draws them, and its params."""
    with temporary_folder() as project:
        folder = project / "suites" / "unit"
        folder.mkdir(parents=True)
        for name in (kernel, f"golden_{kernel}"):
            (folder / f"{name}.py").write_text(good_source(kernel), encoding="utf-8")
        (folder / f"{kernel}.yaml").write_bytes((KERNELS / f"{kernel}.yaml").read_bytes())
        (case,) = load_cases(project)
        return draw_inputs(case, 0, folder, project), dict(case.params)
