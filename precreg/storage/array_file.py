"""The digest of an array: equal for equal dtype, shape and bits, on every machine.

It is there to see changes, at the speed of memory: XXH3 with 128 bits, in which no accident makes two arrays the same.
It does not withstand forgery: who aims at a digest can make other bits that have it, but could as well write another
digest into the baseline. Review in git guards both. Digests of what is no array (definitions, sources, environments)
are SHA-256 or BLAKE2.

An array as it lies in a file: dtype, shape and place, checked; its elements are mapped when they are asked for.

Raw files: elements one after the other in C order, and not a word about what they are.

Writing .npy and .npz files, so that the readers of this room give back every element's bits and every dtype.

The same arrays make the same bytes: no time of writing is kept. An array of an ml_dtypes dtype is written as raw
bytes, as numpy does; its dtype has to stand in a name (see npy.py).
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from pathlib import Path
from sys import maxsize
from typing import IO, Any, Final, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from xxhash import xxh3_128

from precreg.errors import UserError

_BLOCK = 2**16
"""Elements that are hashed at a time: all that is ever copied, of an array that is not laid out as it is hashed."""


def array_digest(array: NDArray[Any]) -> str:
    """Return 32 hexadecimal digits: XXH3-128 of dtype name, shape and bytes.

    What is hashed is `float16 4x64`, a newline, and the elements in C order, little-endian; the shape of a scalar
    is empty. -0.0 and 0.0 differ, and so do NaN of different bits. The padding of a longdouble is hashed as zeros.
    """
    digest = xxh3_128(_header(array.dtype, array.shape))
    for block in _blocks(array):
        digest.update(block.data)
    return digest.hexdigest()


def element_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of each element, (elements, bytes), with zeros where a longdouble leaves them unused."""
    taken = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return (_without_padding(taken) if _is_padded(array.dtype) else taken).reshape(array.size, array.dtype.itemsize)


@lru_cache
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    return f"{dtype.name} {'x'.join(map(str, shape))}\n".encode()


def _blocks(array: NDArray[Any]) -> Iterator[NDArray[np.uint8]]:
    """Yield the elements in C order as little-endian bytes: all at once where they are laid out so."""
    is_swapped = array.dtype.str.startswith(">")
    dtype = array.dtype.newbyteorder("<") if is_swapped else array.dtype
    laid_out = array.flags.c_contiguous and not is_swapped
    padded = _is_padded(dtype)
    for block in (np.asarray(array).reshape(-1),) if laid_out else _in_c_order(array, dtype):
        taken = block.view(np.uint8)
        yield _without_padding(taken) if padded else taken


def _is_padded(dtype: np.dtype[Any]) -> bool:
    return dtype.char in "gG" and np.finfo(dtype).nmant == 63


def _in_c_order(array: NDArray[Any], dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    flags: Final = ("external_loop", "buffered", "zerosize_ok")
    blocks = np.nditer(array, flags, op_dtypes=dtype, order="C", casting="equiv", buffersize=_BLOCK)
    return (np.ascontiguousarray(block) for block in blocks)


def _without_padding(taken: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Clear what the x87 format leaves unused: six bytes of sixteen, or two of twelve."""
    numbers = taken.reshape(-1, np.dtype(np.longdouble).itemsize).copy()
    numbers[:, 10:] = 0
    return numbers.reshape(-1)


Array = NDArray[Any]


SMALL_BYTES = 1 << 18
"""Up to this size reading a file is faster than mapping it."""


class StoredArray(NamedTuple):
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


def open_array_file(path: Path, shown: str) -> IO[bytes]:
    """Open a file for reading. Raises UserError: missing-file, bad-array-file."""
    if not path.is_file():
        raise UserError("missing-file", "expected a file of arrays but there is none", file=shown)
    try:
        return path.open("rb")
    except OSError as error:
        message = f"expected a readable file but got: {error.strerror}"
        raise UserError("bad-array-file", message, file=shown) from error


def fits_in_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Tell whether a shape is one, and memory has addresses for its elements (lengths of 0 counted as 1)."""
    largest = prod(max(length, 1) for length in shape) * dtype.itemsize
    return min(shape, default=0) >= 0 and largest <= maxsize and len(shape) <= _MOST_AXES


def is_ml_dtype(scalar: Any) -> bool:
    """Tell whether something is a type of number that ml_dtypes adds to numpy."""
    return isinstance(scalar, type) and issubclass(scalar, np.generic) and scalar.__module__.startswith("ml_dtypes")


def to_native_byte_order(array: Array) -> Array:
    """Return the array, read-only, in this machine's byte order and where its dtype may lie in memory."""
    ready: Array = np.require(array, array.dtype.newbyteorder("="), "A")
    ready.flags.writeable = False
    return ready


_MOST_AXES = 32
"""numpy 1.26 holds no more."""


def find_raw(path: Path, shown: str, dtype: np.dtype[Any], shape: tuple[int, ...] | None) -> StoredArray:
    """Return the array that a raw file is said to hold; without a shape it has one axis, as long as the file.

    The file's size is all there is to check. Raises UserError: missing-file; bad-raw-file where the size is not that
    of the shape, or no multiple of the dtype's.
    """
    with open_array_file(path, shown):
        size = path.stat().st_size
    if shape is None:
        if size % dtype.itemsize:
            message = f"expected elements of {dtype} ({dtype.itemsize} bytes each) but the file has {size} bytes"
            raise UserError("bad-raw-file", message, file=shown)
        shape = (size // dtype.itemsize,)
    if not fits_in_memory(shape, dtype):
        raise UserError("bad-raw-file", f"expected a shape that memory can hold but got shape={shape}", file=shown)
    if prod(shape) * dtype.itemsize != size:
        expected = f"{prod(shape) * dtype.itemsize} bytes ({dtype} of shape {shape})"
        raise UserError("bad-raw-file", f"expected {expected} but the file has {size}", file=shown)
    return StoredArray(path, shown, dtype, shape, "C", 0)


_LONGEST_NAME = 65_535
"""Bytes of the name of a file in a zip archive (APPNOTE.TXT 4.4.10)."""


def dtype_suffix(array: Array) -> str | None:
    """Return the dtype that the name of an array's file must end in, before .npy; None where the file says it."""
    return array.dtype.name if is_ml_dtype(array.dtype.type) else None


def write_npy(stream: IO[bytes], array: Array) -> None:
    """Write a .npy file of numbers."""
    raw = array.view(f"V{array.dtype.itemsize}") if dtype_suffix(array) else array
    npy.write_array(stream, raw, allow_pickle=False)


def write_npz(stream: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Write a .npz file of arrays by name, not compressed, so that they can be mapped.

    Raises UserError (bad-outputs) for a name that no archive takes, and where two names become one, because a dtype has
    to stand in one of them.
    """
    members = {_member(name, array): array for name, array in arrays.items()}
    if len(members) < len(arrays):
        raise UserError("bad-outputs", f"expected names that differ in a .npz file but got {', '.join(arrays)}")
    with zipfile.ZipFile(stream, "w") as archive:
        for member, array in members.items():
            with archive.open(zipfile.ZipInfo(member), "w", force_zip64=True) as file:
                write_npy(file, array)


def _member(name: str, array: Array) -> str:
    """Name the file of an array in the archive; zip would cut a name at NUL, and has 16 bits for its length."""
    dtype = dtype_suffix(array)
    member = f"{name}.npy" if dtype is None else f"{name}.{dtype}.npy"
    written = member.encode(errors="replace")
    if "\0" in name or len(written) > _LONGEST_NAME or written.decode() != member:
        what = "without NUL or lone surrogates"
        raise UserError("bad-outputs", f"expected a name {what}, at most {_LONGEST_NAME} bytes, but got {name[:60]!a}")
    return member
