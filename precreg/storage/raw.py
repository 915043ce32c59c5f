"""Raw files: elements one after the other in C order, and not a word about what they are."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from precreg.errors import UserError
from precreg.storage.arrayfile_stored import Stored, can_be_held, open_file


def find_raw(path: Path, shown: str, dtype: np.dtype[Any], shape: tuple[int, ...] | None) -> Stored:
    """Return the array that a raw file is said to hold; without a shape it has one axis, as long as the file.

    The file's size is all there is to check. Raises UserError: missing-file; bad-raw-file where the size is not that
    of the shape, or no multiple of the dtype's.
    """
    with open_file(path, shown):
        size = path.stat().st_size
    if shape is None:
        if size % dtype.itemsize:
            message = f"expected elements of {dtype} ({dtype.itemsize} bytes each) but the file has {size} bytes"
            raise UserError("bad-raw-file", message, file=shown)
        shape = (size // dtype.itemsize,)
    if not can_be_held(shape, dtype):
        raise UserError("bad-raw-file", f"expected a shape that memory can hold but got shape={shape}", file=shown)
    if prod(shape) * dtype.itemsize != size:
        expected = f"{prod(shape) * dtype.itemsize} bytes ({dtype} of shape {shape})"
        raise UserError("bad-raw-file", f"expected {expected} but the file has {size}", file=shown)
    return Stored(path, shown, dtype, shape, "C", 0)
