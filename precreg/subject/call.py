"""Which arguments does a computation take, and which outputs does it return?

Suites check computations when they load, so this module imports numpy late.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from precreg.arithmetic import DTYPE_NAMES
from precreg.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    """Hold arrays by output name, in their order, and the duration of the computation in seconds.

    `facts` name the hardware and the libraries that computed, such as {"device": "NVIDIA H100"}, for the run record.
    """

    arrays: dict[str, NDArray[Any]]
    # Each kind measures its own time, because only the kind knows where loading ends and computing begins.
    duration_s: float
    facts: Mapping[str, str] = {}


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


# Longer names make no readable table, and the name of a file may have 255 bytes.
MAX_OUTPUT_NAME = 200


def _name(name: object) -> str:
    """Return a name that records and baselines can store. Raises UserError (bad-outputs) for any other value."""
    if not isinstance(name, str):
        raise UserError(
            "bad-outputs", f"expected output names that are strings but got name={name!r:.{MAX_OUTPUT_NAME}}"
        )
    if len(name) > MAX_OUTPUT_NAME:
        message = f"expected output names of at most {MAX_OUTPUT_NAME} characters but got {len(name)}"
        raise UserError("bad-outputs", f"{message}: {name[:20]!a}...")
    try:
        name.encode()
    except UnicodeEncodeError:
        # JSON cannot store a lone surrogate.
        raise UserError("bad-outputs", f"expected output names of Unicode characters but got name={name!a}") from None
    return name


def check_outputs(outputs: Outputs) -> Outputs:
    """Return the outputs of an installed kind, as `name_outputs` makes them: arrays of numbers under names.

    Raises:
        UserError: bad-outputs.
    """
    import numpy as np

    if not isinstance(outputs, Outputs) or not isinstance(outputs.arrays, Mapping):
        raise UserError("bad-outputs", f"expected a kind of subject to return Outputs but got {type(outputs).__name__}")
    arrays = {
        _name(name): require_numeric(name, value) if type(value) is np.ndarray else _array(name, value)
        for name, value in outputs.arrays.items()
    }
    facts = {str(name): str(value) for name, value in outputs.facts.items()}
    return Outputs(arrays, float(outputs.duration_s), facts)


def _array(output: object, value: object) -> NDArray[Any]:
    import numpy as np

    if value is None:
        raise UserError("bad-outputs", f"expected an array but got None for output {output}")
    if isinstance(value, int | float) and not isinstance(value, np.generic):
        try:
            return np.array(value, dtype=np.float64)
        except OverflowError as error:
            message = f"expected a number that float64 can hold but got {error} for output {output}"
            raise UserError("bad-outputs", message) from error
    if _is_masked(value):
        advice = "fill the mask first, array.filled(...)"
        raise UserError("bad-outputs", f"expected an array but got a masked array for output {output}; {advice}")
    mpmath = sys.modules.get("mpmath")
    if mpmath is not None and isinstance(value, mpmath.matrix):
        # numpy would take a matrix of mpmath as a flat sequence.
        value = value.tolist()
    try:
        # A copy, because the function may keep its buffer and overwrite it in the next call.
        array = np.array(value, order="C")
    except (ValueError, TypeError, OverflowError) as error:
        raise UserError("bad-outputs", f"expected an array for output {output} but got {error}") from error
    return require_numeric(output, _rounded_multiprecision(array))


def _rounded_multiprecision(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers of mpmath as longdouble, rounded once each; any other array unchanged."""
    # Only a reference that imported mpmath, or that precreg gave its numbers, can return them.
    mpmath = sys.modules.get("mpmath")
    if mpmath is None or array.dtype.kind != "O":
        return array
    numbers = (mpmath.mpf, mpmath.mpc, int, float)
    if not all(isinstance(value, numbers) for value in array.flat):
        return array
    from precreg.arithmetic import from_mpmath

    return from_mpmath(array)


def _is_masked(value: object) -> bool:
    """Return whether a copy would lose the array's mask."""
    # numpy imports numpy.ma lazily. If nothing has imported it, no masked array exists.
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)
