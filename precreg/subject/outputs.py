"""What a subject gives back: named arrays, whatever shape a function returned them in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.formats import DTYPE_NAMES
from precreg.errors import UserError


class Outputs(NamedTuple):
    """Arrays by output name, in the order they were given, and how long the computation itself took, in seconds.

    Each kind of subject takes the time by itself, because it alone knows where loading ends and computing begins.
    """

    arrays: dict[str, NDArray[Any]]
    duration_s: float


def normalise(returned: object) -> dict[str, NDArray[Any]]:
    """Name the arrays that a function returned: one is "out", a dict has its names, a sequence counts from "0".

    The arrays are C-order copies, so a buffer that the function keeps and writes again later changes nothing. Python
    numbers become 0-d float64 (or complex128) arrays. Raises UserError (bad-outputs) for anything else.
    """
    if isinstance(returned, Mapping):
        return {_name(name): _array(name, value) for name, value in returned.items()}
    if isinstance(returned, tuple | list):
        return {str(index): _array(index, value) for index, value in enumerate(returned)}
    return {"out": _array("out", returned)}


def require_numeric(output: object, array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, or raise UserError (bad-outputs) when its elements are no numbers."""
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
        array = np.array(value, order="C")
    except (ValueError, TypeError) as error:
        raise UserError("bad-outputs", f"expected an array for output {output} but got {error}") from error
    return require_numeric(output, array)


def _is_masked(value: object) -> bool:
    """Say whether a copy would lose the array's mask, without importing what only makers of masks need."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)
