"""An array as it lies in a file: dtype, shape and place, checked; its elements are mapped when they are asked for."""

from __future__ import annotations

from math import prod
from pathlib import Path
from sys import maxsize
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.errors import UserError

Array = NDArray[Any]


SMALL_BYTES = 1 << 18
"""Up to this size reading a file is faster than mapping it."""


class Stored(NamedTuple):
    """A plain array in a file, from byte `start` on. `shown` is how messages name it.

    `content` is all of a small file, where it was read for its header's sake.
    """

    path: Path
    shown: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    start: int
    content: bytes | None = None

    def load(self) -> Array:
        """Return the array, read-only, in the byte order of the file; a large one is mapped: no element is read yet.

        Raises UserError (bad-array-file) where the file went away or became shorter.
        """
        size = prod(self.shape) * self.dtype.itemsize
        try:
            if size > SMALL_BYTES and self.content is None:
                return np.memmap(self.path, self.dtype, "r", self.start, self.shape, self.order)
            content = self._read(size) if self.content is None else self.content[self.start :]
            return np.frombuffer(content, self.dtype).reshape(self.shape, order=self.order)
        except (OSError, ValueError) as error:
            raise UserError("bad-array-file", f"expected a readable file but got: {error}", file=self.shown) from error

    def _read(self, size: int) -> bytes:
        with self.path.open("rb", buffering=0) as stream:
            stream.seek(self.start)
            content = stream.read(size)
        if len(content) != size:
            raise ValueError(f"{len(content)} bytes in place of {size}")
        return content


def open_file(path: Path, shown: str) -> IO[bytes]:
    """Open a file for reading. Raises UserError: missing-file, bad-array-file."""
    if not path.is_file():
        raise UserError("missing-file", "expected a file of arrays but there is none", file=shown)
    try:
        return path.open("rb")
    except OSError as error:
        message = f"expected a readable file but got: {error.strerror}"
        raise UserError("bad-array-file", message, file=shown) from error


def can_be_held(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Tell whether a shape is one, and memory has addresses for its elements (lengths of 0 counted as 1)."""
    largest = prod(max(length, 1) for length in shape) * dtype.itemsize
    return min(shape, default=0) >= 0 and largest <= maxsize and len(shape) <= _MOST_AXES


def is_of_ml_dtypes(scalar: Any) -> bool:
    """Tell whether something is a type of number that ml_dtypes adds to numpy."""
    return isinstance(scalar, type) and issubclass(scalar, np.generic) and scalar.__module__.startswith("ml_dtypes")


def native(array: Array) -> Array:
    """Return the array, read-only, in this machine's byte order and where its dtype may lie in memory."""
    ready: Array = np.require(array, array.dtype.newbyteorder("="), "A")
    ready.flags.writeable = False
    return ready


_MOST_AXES = 32
"""numpy 1.26 holds no more."""
