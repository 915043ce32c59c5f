"""In which dtype does a reference get its inputs, and what does precreg say if it refuses them?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from msgspec.structs import replace

from precreg.arithmetic import dtype_name, format_of, to_mpmath
from precreg.run.computation import Arrays
from precreg.subject import CaseFailed, describe_failure, note_use, watch_import
from precreg.types import Reason, ReferenceDtype

# The key of the import of mpmath: its changes do not belong to a case.
_MPMATH = ("reference_dtype", "mpmath")


def promote_inputs(inputs: Arrays, dtype: ReferenceDtype, *, narrow_too: bool) -> Arrays:
    """Return inputs in the dtype of a reference; integers and booleans stay, and nothing becomes narrower.

    Without `narrow_too` a dtype below float64 becomes float64, whatever `dtype` says.
    """
    return {name: _promote(array, dtype, narrow_too) for name, array in inputs.items()}


def _promote(array: Any, dtype: ReferenceDtype, narrow_too: bool) -> Any:
    if format_of(dtype_name(array.dtype)) is None:
        return array.copy("K")
    if dtype.name == "mpmath":
        return to_mpmath(array)
    return array.astype(_wider_dtype(array.dtype, dtype.name, narrow_too))


@cache
def _wider_dtype(dtype: np.dtype[Any], widest: str, narrow_too: bool) -> np.dtype[Any]:
    """Return the dtype in which a reference computes on inputs of a floating dtype."""
    number_format = format_of(dtype.name)
    assert number_format is not None
    # finfo.nmant leaves out the leading bit, which `precision` counts.
    is_narrow = number_format.precision < np.finfo(np.float64).nmant + 1
    is_wide = number_format.precision > np.finfo(np.float64).nmant + 1
    wide = np.longdouble if is_wide or (widest == "longdouble" and (narrow_too or not is_narrow)) else np.float64
    return np.result_type(wide, np.complex64) if dtype.kind == "c" else np.dtype(wide)


@contextmanager
def working_precision(dtype: ReferenceDtype) -> Iterator[None]:
    """Set the precision of mpmath inside, if the reference gets its numbers."""
    if dtype.name != "mpmath":
        yield
        return
    with watch_import(_MPMATH):
        from mpmath import mp
    note_use(_MPMATH)
    with mp.workdps(dtype.digits):
        yield


@contextmanager
def promotion_explained(inputs: Arrays, dtype: ReferenceDtype, *, narrow_too: bool) -> Iterator[None]:
    """Add the promotion of inputs, and the key that changes it, to the message of a refused dtype inside."""
    # Libraries raise TypeError for a dtype that they lack. Some raise ValueError for object arrays.
    refusals = (TypeError, ValueError) if dtype.name == "mpmath" else (TypeError,)
    try:
        yield
    except refusals as error:
        names = [name for name, array in inputs.items() if _is_promoted_beyond(array.dtype, dtype, narrow_too)]
        if not names:
            raise
        failure = describe_failure(error, Reason.REFERENCE_ERROR)
        dtypes = " and ".join(dict.fromkeys(dtype_name(inputs[name].dtype) for name in names))
        widened = f"precreg widened {', '.join(names)} from {dtypes} to {dtype.name} for the reference"
        remedy = "write reference_dtype: float64 in the suite to keep float64"
        message = f"{failure.message}; {widened}: {remedy}"
        raise CaseFailed(replace(failure, message=message)) from None


def _is_promoted_beyond(given: np.dtype[Any], dtype: ReferenceDtype, narrow_too: bool) -> bool:
    """Return whether inputs of a dtype come as longdouble or as numbers of mpmath."""
    if format_of(given.name) is None or dtype.name == "float64":
        return False
    if dtype.name == "mpmath":
        return True
    wide = _wider_dtype(given, dtype.name, narrow_too)
    return wide != given and wide in (np.longdouble, np.clongdouble)
