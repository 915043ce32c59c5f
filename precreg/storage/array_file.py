"""How are arrays stored in files, and when are two arrays equal?

An array's digest depends on dtype, shape and bits, and is the same on every machine. A stored array knows its dtype,
shape and position in a file; `load` maps or reads the elements. Raw files hold elements in C order and nothing else.
Writing equal arrays gives equal files.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from os.path import isfile
from pathlib import Path
from sys import maxsize
from typing import IO, Any, Final, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from xxhash import xxh3_128

from precreg.errors import UserError
from precreg.storage.array_stream import ArrayStream, copy_remote_bytes
from precreg.storage.files import open_regular_file, read_small_file
from precreg.storage.object_store import RemoteFile, RemoteReader, open_remote, read_small_remote

# Elements hashed at a time. An array in another layout is copied block by block, so this limits the copy, too:
# 512 KiB of float64.
_BLOCK = 2**16


def array_digest(array: NDArray[Any]) -> str:
    """Return the XXH3-128 digest of dtype name, shape and bytes, as 32 hexadecimal digits.

    The hashed text is `float16 4x64`, a newline, and the elements in C order, little-endian. A scalar has an empty
    shape. -0.0 and 0.0 differ, and so do NaN of different bits. The padding of a longdouble counts as zeros.
    """
    # XXH3 hashes 32 GB/s on one thread, SHA-256 2.1 GB/s (xxhash 3, AVX-512 server). It does not resist forgery, and
    # need not: a forger could also edit the digest in the baseline. Code review protects both. Definitions, sources
    # and environments have SHA-256 or BLAKE2 digests.
    digest = xxh3_128(_header(array.dtype, array.shape))
    for block in _blocks(array):
        digest.update(block.data)
    return digest.hexdigest()


def element_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of each element, uint8 of shape (elements, bytes); unused bytes of a longdouble are zeros."""
    taken = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return (_without_padding(taken) if _is_padded(array.dtype) else taken).reshape(array.size, array.dtype.itemsize)


# numpy builds a dtype's name anew at each access; most arrays of a run share a few dtypes and shapes.
@lru_cache
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    return f"{dtype.name} {'x'.join(map(str, shape))}\n".encode()


def _blocks(array: NDArray[Any]) -> Iterator[NDArray[np.uint8]]:
    """Yield the elements in C order as little-endian bytes, in one block if the array is laid out so."""
    is_swapped = _is_big_endian(array.dtype)
    dtype = array.dtype.newbyteorder("<") if is_swapped else array.dtype
    laid_out = array.flags.c_contiguous and not is_swapped
    padded = _is_padded(dtype)
    for block in (np.asarray(array).reshape(-1),) if laid_out else _in_c_order(array, dtype):
        taken = block.view(np.uint8)
        yield _without_padding(taken) if padded else taken


# These two questions take longer than hashing a small array, and the arrays of a run share a few dtypes.
@lru_cache
def _is_big_endian(dtype: np.dtype[Any]) -> bool:
    return dtype.str.startswith(">")


@lru_cache
def _is_padded(dtype: np.dtype[Any]) -> bool:
    # Of the long doubles, only the x87 format with its 63 bits of mantissa leaves bytes unused.
    # By its type: ml_dtypes gives the letter of a complex long double to float8_e4m3fnuz, too.
    return dtype.type in (np.longdouble, np.clongdouble) and np.finfo(dtype).nmant == 63


def _in_c_order(array: NDArray[Any], dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    flags: Final = ("external_loop", "buffered", "zerosize_ok")
    blocks = np.nditer(array, flags, op_dtypes=dtype, order="C", casting="equiv", buffersize=_BLOCK)
    return (np.ascontiguousarray(block) for block in blocks)


def _without_padding(taken: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Set the unused bytes of x87 numbers to zero: six bytes of sixteen, or two of twelve."""
    numbers = taken.reshape(-1, np.dtype(np.longdouble).itemsize).copy()
    numbers[:, 10:] = 0
    return numbers.reshape(-1)


Array = NDArray[Any]
FilePath = Path | str | RemoteFile
# Up to this size, reading a file is faster than mapping it: 256 KiB of numbers and a header. Half a megabyte is mapped
# in less time (pairs of files of one size, compared 400 times each way).
SMALL_BYTES = (1 << 18) + (1 << 12)
# Up to this size, precreg maps a file, and keeps an object in memory. Two such sides need as much as two streams.
MAX_HELD_BYTES = 1 << 24
# The largest alignment of a dtype, the alignment of longdouble. The content of a bytes object is aligned to it, too.
_ALIGNMENT = 16


class StoredArray(NamedTuple):
    """Locate a plain array in a file, from byte `start` on; messages name the file as `shown`.

    `content` holds the whole of a small file that was read for its header.
    """

    path: FilePath
    shown: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    start: int
    content: bytes | None = None

    def load(self) -> Array:
        """Return the array, read-only, in the file's byte order; a large array is mapped and not yet read.

        A large object of a store is copied into a temporary file.

        Raises:
            UserError: bad-array-file, if the file was removed or truncated meanwhile; missing-file or store-failed.
        """
        try:
            # The content of a small file, whose numbers begin at a multiple of 64: most files of a folder.
            if self.content is not None and self.start % _ALIGNMENT == 0:
                return np.frombuffer(self.content, self.dtype, offset=self.start).reshape(self.shape, order=self.order)
            size = prod(self.shape) * self.dtype.itemsize
            if isinstance(self.path, RemoteFile) and self.content is None and size > SMALL_BYTES:
                stored = copy_remote_bytes(self.path, self.start, size)
                return stored.view(self.dtype).reshape(self.shape, order=self.order)
            if size > SMALL_BYTES and self.content is None:
                # numpy would resolve the links of a Path, which takes longer than the mapping.
                return np.memmap(str(self.path), self.dtype, "r", self.start, self.shape, self.order)
            return self._numbers(size).reshape(self.shape, order=self.order)
        except (OSError, ValueError) as error:
            raise UserError("bad-array-file", f"expected a readable file but got: {error}", file=self.shown) from error

    def stream(self) -> Array | ArrayStream:
        """Return the array as `load` does, but a large one in C order as a stream."""
        if self.content is None and self.order == "C" and prod(self.shape) * self.dtype.itemsize > MAX_HELD_BYTES:
            return ArrayStream(self.path, self.shown, self.dtype, self.shape, self.start, self.load)
        return self.load()

    def _numbers(self, size: int) -> Array:
        if self.content is None:
            return np.frombuffer(self._read(size), self.dtype)
        # Numbers at other places need a copy, to be aligned.
        return np.frombuffer(self.content[self.start :], self.dtype)

    def _read(self, size: int) -> bytes:
        if isinstance(self.path, RemoteFile):
            return RemoteReader(self.path).read_range(self.start, self.start + size) if size else b""
        with open(self.path, "rb", buffering=0) as stream:
            stream.seek(self.start)
            content = stream.read(size)
        if len(content) != size:
            raise ValueError(f"{len(content)} bytes in place of {size}")
        return content


def open_array_file(path: FilePath, shown: str) -> IO[bytes]:
    """Open a file for reading.

    Raises:
        UserError: missing-file, bad-array-file; store-failed.
    """
    if isinstance(path, RemoteFile):
        return open_remote(path)
    try:
        return open_regular_file(path)
    except OSError as error:
        raise _unreadable(path, shown, error) from error


def stream_size(stream: IO[bytes]) -> int:
    """Return the size of an open file, and leave the stream at its beginning."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    return size


def read_if_small(path: FilePath, shown: str) -> tuple[int, bytes | None]:
    """Return the size of a file, and its content if reading is faster than mapping.

    Raises:
        UserError: missing-file, bad-array-file; store-failed.
    """
    if isinstance(path, RemoteFile):
        return read_small_remote(path, SMALL_BYTES)
    try:
        return read_small_file(path, SMALL_BYTES)
    except OSError as error:
        raise _unreadable(path, shown, error) from error


def _unreadable(path: Path | str, shown: str, error: OSError) -> UserError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        write = "savez({!r}, x=array)" if str(shown).endswith(".npz") else "save({!r}, array)"
        hint = f"write the file, or correct its name: numpy.{write.format(str(shown))}"
        return UserError("missing-file", "expected a file of arrays but there is none", file=shown, hint=hint)
    slug = "bad-array-file" if isfile(path) else "missing-file"
    return UserError(slug, f"expected a file of arrays that can be read but: {error.strerror}", file=shown)


def fits_in_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Return whether the shape is valid and its elements are addressable, counting lengths of 0 as 1."""
    # numpy computes strides from every length, so an empty array with a huge other axis fails as well.
    largest = prod(max(length, 1) for length in shape) * dtype.itemsize
    return min(shape, default=0) >= 0 and largest <= maxsize and len(shape) <= _MOST_AXES


def stored_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of a name that a reader's own table has, from numpy or ml_dtypes."""
    if hasattr(np, f"{name}_" if name == "bool" else name):
        return np.dtype(name)
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def is_ml_dtype(scalar: Any) -> bool:
    """Return whether a type is one of the scalar types that ml_dtypes adds to numpy."""
    return isinstance(scalar, type) and issubclass(scalar, np.generic) and scalar.__module__.startswith("ml_dtypes")


def to_native_byte_order(array: Array) -> Array:
    """Return the array, read-only, aligned and in this machine's byte order."""
    ready: Array = np.require(array, array.dtype.newbyteorder("="), "A")
    ready.flags.writeable = False
    return ready


def little_endian_bytes(array: Array) -> bytes:
    """Return the elements in C order, little-endian: the content of a raw file."""
    # dtype.str has the byte order of this machine, too, and ml_dtypes have none.
    is_swapped = array.dtype.str.startswith(">")
    return (array.astype(array.dtype.newbyteorder("<")) if is_swapped else array).tobytes("C")


# The limit of numpy 1.26, the oldest supported version; numpy 2 allows 64.
_MOST_AXES = 32


def find_raw(
    path: FilePath, shown: str, dtype: np.dtype[Any], shape: tuple[int, ...] | None, *, in_suite: bool = False
) -> StoredArray:
    """Locate the array of a raw file; without a shape it has one axis, as long as the file.

    The hint of an error names the keys of a suite, or the options of `precreg compare`.

    Raises:
        UserError: missing-file; bad-raw-file, if the file's size does not match the shape or the dtype.
    """
    with open_array_file(path, shown) as stream:
        size = stream_size(stream)
    if shape is None:
        if size % dtype.itemsize:
            message = f"expected elements of {dtype} ({dtype.itemsize} bytes each) but the file has {size} bytes"
            raise UserError("bad-raw-file", message, file=shown, hint=_raw_hint(None, in_suite))
        shape = (size // dtype.itemsize,)
    if not fits_in_memory(shape, dtype):
        message = f"expected a shape that memory can hold but got shape={shape}"
        raise UserError("bad-raw-file", message, file=shown, hint=_raw_hint(None, in_suite))
    needed = prod(shape) * dtype.itemsize
    if needed != size:
        hint = _raw_hint(_dtype_of_size(dtype, needed, size), in_suite)
        message = f"expected {needed} bytes ({dtype} of shape {shape}) but the file has {size}"
        raise UserError("bad-raw-file", message, file=shown, hint=hint)
    return StoredArray(path, shown, dtype, shape, "C", 0)


_WIDEST = 8


def _dtype_of_size(dtype: np.dtype[Any], needed: int, size: int) -> str | None:
    """Return the dtype of the same kind that gives a file its size, if it is twice as wide or half as wide."""
    if not needed or size not in (2 * needed, needed / 2):
        return None
    # Formats of one byte are of ml_dtypes, and wider ones are not the same on every machine.
    width, least = dtype.itemsize * size // needed, 2 if dtype.kind == "f" else 1
    return np.dtype(f"{dtype.kind}{width}").name if dtype.kind in "fiu" and least <= width <= _WIDEST else None


def _raw_hint(other: str | None, in_suite: bool) -> str:
    """Return what to write for a raw file of another size; empty for the advice of the error's slug."""
    if other is None:
        return "describe the file as it was written: dtype: float32, shape: [4, 64], byte_order: little" * in_suite
    if in_suite:
        return f"is it {other}? write dtype: {other}; for a reference or golden, reference_dtype: {other}"
    return f"is it {other}? write --reference-dtype {other}, or --dtype {other} for both sides"


# Bytes of a file name in a zip archive: its length field has 16 bits (APPNOTE.TXT 4.4.10).
_LONGEST_NAME = 65_535


def dtype_suffix(array: Array) -> str | None:
    """Return the dtype that an array's file name must end in, before .npy; None for dtypes that .npy can express."""
    return array.dtype.name if is_ml_dtype(array.dtype.type) else None


def write_npy(stream: IO[bytes], array: Array) -> None:
    """Write a .npy file of numbers."""
    # numpy itself would write float8_e5m2 as "<f1", which no reader accepts, and the other ml_dtypes as raw bytes.
    raw = array.view(f"V{array.dtype.itemsize}") if dtype_suffix(array) else array
    npy.write_array(stream, raw, allow_pickle=False)


def write_npz(stream: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Write a .npz file of named arrays, uncompressed, so that readers can map them.

    Raises:
        UserError: bad-outputs, for a name that zip archives cannot hold, and for two names that become equal once a
            dtype suffix is added.
    """
    members = {_member(name, array): array for name, array in arrays.items()}
    if len(members) < len(arrays):
        raise UserError("bad-outputs", f"expected names that differ in a .npz file but got {', '.join(arrays)}")
    with zipfile.ZipFile(stream, "w") as archive:
        for member, array in members.items():
            # A bare ZipInfo has a fixed date, so equal arrays give equal files.
            with archive.open(zipfile.ZipInfo(member), "w", force_zip64=True) as file:
                write_npy(file, array)


def _member(name: str, array: Array) -> str:
    """Name an array's file in the archive; zip cuts a name at NUL, and encodes its length in 16 bits."""
    dtype = dtype_suffix(array)
    member = f"{name}.npy" if dtype is None else f"{name}.{dtype}.npy"
    written = member.encode(errors="replace")
    if "\0" in name or len(written) > _LONGEST_NAME or written.decode() != member:
        limits = f"without NUL or lone surrogates, at most {_LONGEST_NAME} bytes,"
        raise UserError("bad-outputs", f"expected a name {limits} but got {name[:60]!a}")
    return member
