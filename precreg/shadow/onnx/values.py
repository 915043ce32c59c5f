"""Which values of ONNX have a shadow, and how do they become wide and narrow?

A value is an array, a list of values for a sequence, or None for an optional value that is absent. Integers and truth
values have no shadow: those of the run are the shadow's, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_real(value: Any) -> bool:
    """Return whether a value has a shadow: an array of floats, or a sequence with one."""
    if isinstance(value, list):
        return any(map(is_real, value))
    return value is not None and is_real_dtype(np.asarray(value).dtype)


def is_real_dtype(dtype: np.dtype[Any]) -> bool:
    """Return whether numbers of a dtype have a shadow."""
    # Formats of ml_dtypes are no floats to numpy, apart from their names.
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))


def widened(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value with its floats in the dtype of the shadow; other values stay."""
    if isinstance(value, list):
        return [widened(each, dtype) for each in value]
    return np.asarray(value).astype(dtype) if is_real(value) else value


def narrowed(value: Any, like: Any) -> Any:
    """Return a shadow rounded to the dtype of the value that it belongs to."""
    if isinstance(value, list):
        return [narrowed(each, other) for each, other in zip(value, like, strict=True)]
    return value.astype(like.dtype) if is_real(value) else value


def flat(value: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array as it is, and the arrays of a sequence one behind the other, as wide numbers."""
    if not isinstance(value, list):
        return np.asarray(value)
    parts = [flat(each, dtype).reshape(-1).astype(dtype) for each in value if is_real(each)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def same_bits(found: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Return whether values have the same dtypes, shapes and bytes."""
    return all(_is_same(found[name], value) for name, value in expected.items())


def _is_same(found: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        is_list = isinstance(found, list) and len(found) == len(expected)
        return is_list and all(map(_is_same, found, expected))
    if expected is None or found is None:
        return expected is found
    a, b = np.asarray(found), np.asarray(expected)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(np.array_equal(a, b)) if a.dtype.kind in "OUS" else a.tobytes() == b.tobytes()
