"""Which gradients did each step of a training have, live or stored?

Stored steps are read one at a time, so a training may be larger than memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import numpy as np

from precreg.arithmetic import FORMATS, dtype_name
from precreg.errors import UserError
from precreg.storage import Array, find_arrays, is_archive, natural_order, to_native_byte_order

# Scalars of a stored step that are no gradients: its loss, and the loss scale that its gradients still have.
LOSS_NAME, SCALE_NAME = "loss", "loss_scale"
# An archive of several steps has names such as 12/fc.weight.
_STEP_PREFIX = re.compile(r"(\d{1,18})/(.+)", re.DOTALL)
_LAST_NUMBER = re.compile(r"(\d{1,18})\D*$")


class StepGradients(NamedTuple):
    """Hold the gradients of one step, unscaled, in float32 or wider, and the formats in which they were computed.

    `scale` is the loss scale of the step, 1.0 without scaling.
    """

    step: int
    loss: float | None
    scale: float
    arrays: Mapping[str, Array]
    formats: Mapping[str, str]


def read_gradients(path: Path) -> Iterator[StepGradients]:
    """Yield the steps of stored gradients: an archive (.npz, .safetensors, .pt), or a folder of one for each step.

    The arrays of a file are one step, or several if their names are STEP/PARAMETER. The step of a file in a folder is
    the last number of its name. A scalar `loss` is the step's loss. A scalar `loss_scale` is the scale that the
    stored gradients still have; they are divided by it.

    Raises:
        UserError: missing-file, unknown-file-format, bad-scale, bad-value for two files of one step, or as the reader
            of the format does.
    """
    for whole_step, file in _numbered(_files(path), path):
        found = {name: each for name, each in find_arrays(file, str(file)).items()}
        for step, names in _steps_of(found, whole_step).items():
            loaded = {name: to_native_byte_order(found[stored].load()) for name, stored in names.items()}
            yield _step_of(step, loaded, file)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise UserError(
            "missing-file",
            f"expected stored gradients but {path} is not there",
            hint="precreg training --gradients g.npz",
        )
    if path.is_file() and not is_archive(path.name):
        raise UserError(
            "unknown-file-format",
            f"expected an archive of named arrays but got {path.name}",
            hint="store the gradients of a step by name: numpy.savez('g.npz', **gradients)",
        )
    inside = path.rglob("*") if path.is_dir() else [path]
    found = [file for file in inside if file.is_file() and is_archive(file.name)]
    if not found:
        raise UserError(
            "missing-file",
            f"expected archives of named arrays but {path} has none",
            hint="store one file for each step: numpy.savez(f'gradients/{step}.npz', **gradients)",
        )
    return sorted(found, key=lambda file: natural_order(str(file)))


def _numbered(files: list[Path], path: Path) -> list[tuple[int, Path]]:
    """Return the step of each file of a folder: the last number of its name, otherwise its place."""
    numbered: dict[int, Path] = {}
    steps = []
    for place, file in enumerate(files):
        number = _LAST_NUMBER.search(file.stem)
        step = int(number[1]) if number and path.is_dir() else place
        if number and step in numbered:
            raise UserError(
                "bad-value",
                f"expected one file for step {step} but got {numbered[step].name} and {file.name} in {path}",
                hint=f"give each step one file, and each process a folder: precreg training --gradients {path}/rank0",
            )
        if number:
            numbered[step] = file
        steps.append((step, file))
    return steps


def _steps_of(found: Mapping[str, object], whole_step: int) -> dict[int, dict[str, str]]:
    """Return, by step, the stored names of the arrays by the names of their parameters."""
    matches = {name: _STEP_PREFIX.fullmatch(name) for name in found}
    if not all(matches.values()):
        return {whole_step: {name: name for name in found}}
    steps: dict[int, dict[str, str]] = {}
    for name, match in matches.items():
        if match is not None:
            steps.setdefault(int(match[1]), {})[match[2]] = name
    return dict(sorted(steps.items()))


def _step_of(step: int, loaded: Mapping[str, Array], file: Path) -> StepGradients:
    scalars = {name: _scalar(name, loaded[name], step, file) for name in (LOSS_NAME, SCALE_NAME) if name in loaded}
    scale = scalars.get(SCALE_NAME, 1.0)
    if not isfinite(scale) or scale <= 0:
        raise UserError(
            "bad-scale",
            f"{file}: expected a positive {SCALE_NAME} but got {scale} in step {step}",
            hint="store the scale of the step: numpy.savez('g.npz', loss_scale=scaler.get_scale(), **gradients)",
        )
    arrays = {name: each for name, each in loaded.items() if name not in scalars}
    return StepGradients(
        step,
        scalars.get(LOSS_NAME),
        scale,
        {name: _unscaled(each, scale) for name, each in arrays.items()},
        {name: dtype_name(each.dtype) for name, each in arrays.items() if dtype_name(each.dtype) in FORMATS},
    )


def _scalar(name: str, value: Array, step: int, file: Path) -> float:
    if value.size != 1:
        raise UserError(
            "bad-value",
            f"{file}: expected one number as {name} of step {step} but got an array of shape {value.shape}",
            hint=f"store one number: numpy.savez('g.npz', {name}=float({name}), **gradients)",
        )
    return float(value.reshape(()))


def _unscaled(values: Array, scale: float) -> Array:
    if dtype_name(values.dtype) not in FORMATS:
        return values
    if scale == 1:
        return values if values.dtype in (np.float32, np.float64) else values.astype(np.float32)
    # In float64, a division by a power of two loses nothing, even of the smallest float32.
    return values.astype(np.float64) / scale
