"""How do kept operations and the tensors at their boundary become a project of one suite?

Each output gets a bound of its own: the present errors, divided by the factor by which they break the bounds of the
original case, and one unit in the last place beside it, which any rounding may take.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import COMPLEX_PARTS, FORMATS, dtype_name
from precreg.diagnose.reduction.steps import KeptComputation
from precreg.errors import UserError
from precreg.storage import DEVICES_FOLDER, dtype_suffix, replace_file, report_write_errors, write_npy
from precreg.types import BoundaryTensor, Case, Role

Arrays = Mapping[str, NDArray[Any]]

_MARK = "# Written by precreg reduce; another reduction of the case replaces it."
_OF_ERRORS = "The errors of these operations, divided by the factor by which they break the bounds of the case."
_OF_GOLDEN = "The bits of the golden count."
# Without a finite factor the errors must become much smaller.
_MOST = 1024.0
# Bounds are printed with 3 digits, and rounded down, so that the present errors break them.
_DOWN = 0.995


def suite_name(case: Case) -> str:
    """Return the name of the reduced suite, which is the name of its Python module, too."""
    tier = "" if case.tier == "unit" else f"{case.tier}_"
    return "reduced_" + re.sub(r"\W+", "_", f"{tier}{case.suite}_{case.name}", flags=re.ASCII).strip("_").lower()


def write_reduced(
    folder: Path, project: Path, name: str, case: Case, kept: KeptComputation, bounds: Mapping[str, tuple[float, float]]
) -> tuple[tuple[str, ...], tuple[BoundaryTensor, ...]]:
    """Write the suite and its files, the suite last, and return their paths in the folder, and the tensors.

    Raises UserError: bad-value, for a suite that somebody else wrote; not-writable.
    """
    unit = folder / "suites" / "unit"
    path = unit / f"{name}.yaml"
    if path.exists() and _MARK not in path.read_text(encoding="utf-8", errors="replace"):
        raise UserError(
            "bad-value",
            f"expected a folder without {path.name} but got output={folder}",
            hint="write an empty folder: --output reduced-2",
        )
    files = {f"{name}/{_file_name(each, array)}": _npy(array) for each, array in kept.inputs.items()} | {**kept.files}
    with report_write_errors(str(folder)):
        for shown, content in files.items():
            (unit / shown).parent.mkdir(parents=True, exist_ok=True)
            replace_file(unit / shown, content)
        _copy_device(case, project, folder)
        replace_file(path, _suite_text(name, case, kept, bounds).encode())
    written = [f"suites/unit/{each}" for each in (f"{name}.yaml", *files)]
    inputs = [
        BoundaryTensor(
            each, "input", dtype_name(array.dtype), array.shape, f"suites/unit/{name}/{_file_name(each, array)}"
        )
        for each, array in kept.inputs.items()
    ]
    outputs = [
        BoundaryTensor(each, "output", dtype_name(array.dtype), array.shape) for each, array in kept.outputs.items()
    ]
    return tuple(written), (*inputs, *outputs)


def _copy_device(case: Case, project: Path, folder: Path) -> None:
    table = None if case.device is None else project / DEVICES_FOLDER / f"{case.device}.yaml"
    if table is not None and table.is_file():
        (folder / DEVICES_FOLDER).mkdir(parents=True, exist_ok=True)
        replace_file(folder / DEVICES_FOLDER / table.name, table.read_bytes())


def with_stored_oracle(kept: KeptComputation, name: str, role: Role = "reference") -> KeptComputation:
    """Return the computation with its expected values in files: exact ones as the reference, or a golden's."""
    # longdouble has other bytes on other machines.
    stored = {
        each: array.astype(np.float64) if array.dtype.kind == "f" and role == "reference" else array
        for each, array in kept.exact.items()
    }
    paths = {each: f"{name}/expected-{_file_name(each, array)}" for each, array in stored.items()}
    files = {paths[each]: _npy(array) for each, array in stored.items()}
    return kept._replace(oracle=(role, {"files": paths}), files={**kept.files, **files})


def _file_name(name: str, array: NDArray[Any]) -> str:
    # A .npy file cannot name a dtype that numpy lacks.
    suffix = dtype_suffix(array)
    return f"{name}.npy" if suffix is None else f"{name}.{suffix}.npy"


def _npy(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    write_npy(stream, array)
    return stream.getvalue()


def _suite_text(name: str, case: Case, kept: KeptComputation, bounds: Mapping[str, tuple[float, float]]) -> str:
    lines = [
        _MARK,
        f"suite: {name}",
        f"about: {json.dumps(f'Operations of {case.id} that fail alone')}",
        f"subject: {json.dumps(kept.subject)}",
        *([] if kept.oracle is None else [f"{kept.oracle[0]}: {json.dumps(kept.oracle[1])}"]),
        *([] if case.device is None else [f"device: {case.device}"]),
        *(["inputs:"] if kept.inputs else []),
        *(
            f"  {json.dumps(each)}: "
            + json.dumps(
                {
                    "shape": [*array.shape],
                    "dtype": dtype_name(array.dtype),
                    "file": {"path": f"{name}/{_file_name(each, array)}"},
                }
            )
            for each, array in kept.inputs.items()
        ),
        f"# {_OF_GOLDEN if kept.oracle is not None and kept.oracle[0] == 'golden' else _OF_ERRORS}",
        "tolerance:",
        "  outputs:",
        *(f"    {json.dumps(each)}: {{rtol: {rtol!r}, atol: {atol!r}}}" for each, (rtol, atol) in bounds.items()),
    ]
    return "".join(f"{line}\n" for line in lines)


def bounds_of(actual: Arrays, exact: Arrays, factor: float) -> dict[str, tuple[float, float]]:
    """Return rtol and atol of each output, so that errors smaller by the factor pass, and the present ones fail."""
    return {name: _bound(actual[name], exact[name], min(factor, _MOST)) for name in actual}


def _bound(actual: NDArray[Any], exact: NDArray[Any], factor: float) -> tuple[float, float]:
    parts = COMPLEX_PARTS.get(dtype_name(actual.dtype), dtype_name(actual.dtype))
    if parts not in FORMATS:
        return 0.0, 0.0
    last_place = 2.0 ** (1 - FORMATS[parts].precision)
    wide = exact.astype(np.result_type(exact.dtype, np.float64))
    with np.errstate(all="ignore"):
        sizes, errors = np.abs(wide), np.abs(actual.astype(wide.dtype) - wide)
        beyond = errors - last_place * sizes
    known = np.isfinite(errors) & np.isfinite(sizes)
    most, excess = float(errors[known].max(initial=0)), float(beyond[known].max(initial=-inf))
    if excess > 0:
        return last_place, _rounded_down(excess / factor)
    if most > 0:
        return 0.0, _rounded_down(most / factor)
    # It has no error: correct rounding passes.
    return last_place, last_place * _root_mean_square(sizes[known])


def _rounded_down(value: float) -> float:
    return float(f"{value * _DOWN:.3g}")


def _root_mean_square(sizes: NDArray[Any]) -> float:
    found = float(np.sqrt(np.mean(np.square(sizes)))) if sizes.size else 0.0
    return float(f"{found:.3g}") if isfinite(found) else 0.0
