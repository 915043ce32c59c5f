"""Which arguments does a subject take, and which outputs does it return?

A kind of subject runs a specification on a call. Packages add kinds with entry points of the group "precreg.subjects".
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from precreg.arithmetic import DTYPE_NAMES
from precreg.errors import UserError
from precreg.subject.kinds import BUILT_IN_SUBJECTS, subject_entry_point
from precreg.subject.surroundings import SurroundingsRestored

if TYPE_CHECKING:
    # Only a case that names a device loads the simulator of devices.
    from precreg.arithmetic.devices import Arithmetic


class Call(Struct, frozen=True):
    """Hold the arguments of one computation, and where it belongs.

    `inputs` and `params` are copies that the subject may change. `directory` is the folder of the suite and `project`
    the root of the project, as absolute paths. `arithmetic` computes the operations on inputs; None leaves them to
    numpy.
    """

    inputs: dict[str, NDArray[Any]]
    params: dict[str, Any]
    directory: Path
    project: Path
    arithmetic: Arithmetic | None = None


class Outputs(NamedTuple):
    """Hold arrays by output name, in their order, and the duration of the computation in seconds."""

    arrays: dict[str, NDArray[Any]]
    # Each kind measures its own time, because only the kind knows where loading ends and computing begins.
    duration_s: float


def name_outputs(returned: object) -> dict[str, NDArray[Any]]:
    """Name the arrays that a function returned: one is "out", a dict has its names, a sequence counts from "0".

    Python numbers become 0-d float64 (or complex128) arrays. The arrays are C-order copies.

    Raises:
        UserError: bad-outputs, for any other value.
    """
    if isinstance(returned, Mapping):
        return {_name(name): _array(name, value) for name, value in returned.items()}
    if isinstance(returned, tuple | list):
        return {str(index): _array(index, value) for index, value in enumerate(returned)}
    return {"out": _array("out", returned)}


def require_numeric(output: object, array: NDArray[Any]) -> NDArray[Any]:
    """Return the array if its elements are numbers.

    Raises:
        UserError: bad-outputs.
    """
    if array.dtype.kind in "biufc" or array.dtype.name in DTYPE_NAMES:
        return array
    raise UserError("bad-outputs", f"expected an array of numbers but got output {output} of dtype={array.dtype}")


def _name(name: object) -> str:
    if isinstance(name, str):
        return name
    raise UserError("bad-outputs", f"expected output names that are strings but got name={name!r}")


def _array(output: object, value: object) -> NDArray[Any]:
    if value is None:
        raise UserError("bad-outputs", f"expected an array but got None for output {output}")
    if isinstance(value, int | float) and not isinstance(value, np.generic):
        return np.array(value, dtype=np.float64)
    if _is_masked(value):
        advice = "fill the mask first, array.filled(...)"
        raise UserError("bad-outputs", f"expected an array but got a masked array for output {output}; {advice}")
    try:
        # A copy, because the function may keep its buffer and overwrite it in the next call.
        array = np.array(value, order="C")
    except (ValueError, TypeError) as error:
        raise UserError("bad-outputs", f"expected an array for output {output} but got {error}") from error
    return require_numeric(output, array)


def _is_masked(value: object) -> bool:
    """Return whether a copy would lose the array's mask."""
    # numpy imports numpy.ma lazily. If nothing has imported it, no masked array exists.
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


# A kind runs a specification, as the suite gives it, on a call.
SubjectKind = Callable[[Any, Call], Outputs]


@cache
def subject_kind(name: str) -> SubjectKind:
    """Return the kind of that name, from precreg or from the one package that provides it.

    Raises:
        UserError: unknown-subject-kind.
    """
    if name in BUILT_IN_SUBJECTS:
        built_in: SubjectKind = getattr(import_module("precreg.subject.python"), BUILT_IN_SUBJECTS[name])
        return built_in
    run: SubjectKind = subject_entry_point(name).load()

    # Built-in kinds restore the surroundings themselves, so that no restoring counts in their measured time.
    def restored(spec: Any, call: Call) -> Outputs:
        with SurroundingsRestored():
            return run(spec, call)

    return restored
