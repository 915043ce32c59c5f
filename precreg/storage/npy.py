"""Which arrays does a .npy or .npz file hold?

The layout is numpy.lib.format, versions 1 and 2, which cover every plain array; pickled objects are refused. numpy
stores ml_dtypes as raw bytes, so such a file has its dtype in its name, y.bfloat16.npy. In a .npz file the member is
y.bfloat16, and the array is called y. A stored member is mapped, a deflated one unpacked on load. Either way, `load`
verifies the checksum.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from functools import cache, lru_cache
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy

from precreg.errors import UserError
from precreg.storage.array_file import (
    Array,
    FilePath,
    StoredArray,
    fits_in_memory,
    is_ml_dtype,
    open_array_file,
    read_if_small,
    stream_size,
    to_native_byte_order,
)

# Bytes of the header's length field, by format version.
_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4}
# numpy accepts at most 10,000 characters of header. This allows for 4-byte characters and rejects a hostile length.
_LONGEST = 1 << 16


class NpyHeader(NamedTuple):
    """Describe the data that follow the header of a .npy file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    @property
    def size_bytes(self) -> int:
        """Return the required length of the data in bytes."""
        return prod(self.shape) * self.dtype.itemsize


def read_npy(path: Path, shown: str) -> Array:
    """Return the array of a .npy file, read-only, in native byte order; large files are mapped.

    Messages name the file as `shown`. Raises UserError as `find_npy` does.
    """
    return to_native_byte_order(find_npy(path, shown).load())


def find_npy(path: FilePath, shown: str) -> StoredArray:
    """Locate the array of a .npy file.

    Raises:
        UserError: missing-file; bad-array-file, for anything but a .npy file of numbers, a truncated file, or bytes
            after the array; store-failed.
    """
    # A small file is read once, header and data together, in place of a second open for the data.
    size, content = read_if_small(path, shown)
    if content is None:
        with open_array_file(path, shown) as stream:
            header = read_npy_header(stream, shown)
            start = stream.tell()
    else:
        size, start = len(content), 10 + int.from_bytes(content[8:10], "little")
        if plain := _plain_header(content[:start]):
            header = plain
        else:
            beginning = BytesIO(content)
            header = read_npy_header(beginning, shown)
            start = beginning.tell()
    check_npy_size(header, size - start, shown)
    return StoredArray(path, shown, header.dtype, header.shape, header.order, start, content)


def bad_array_file(shown: str, expectation: str) -> UserError:
    """Make the error for a malformed .npy or .npz file."""
    return UserError("bad-array-file", f"expected {expectation}", file=shown)


def read_npy_header(stream: IO[bytes], shown: str) -> NpyHeader:
    """Read the header of a .npy file and leave the stream at its data.

    Raises:
        UserError: bad-array-file.
    """
    try:
        version = npy.read_magic(stream)
        length = stream.read(_LENGTH_BYTES[version])
        shape, fortran_order, dtype = _parse_header(
            version, length + stream.read(min(int.from_bytes(length, "little"), _LONGEST))
        )
    except UserError:  # of a store
        raise
    except Exception as error:  # numpy does not document the errors for a damaged header
        raise bad_array_file(shown, "a .npy file, version 1 or 2, but its header cannot be read") from error
    if dtype.kind == "V" and dtype.names is None and dtype.subdtype is None:
        dtype = _dtype_of_name(dtype, shown)
    header = NpyHeader(dtype, shape, "F" if fortran_order else "C")
    _check_header(header, shown)
    return header


# numpy evaluates the header as Python text. A folder of test data has thousands of files with the same header.
@lru_cache(maxsize=256)
def _parse_header(version: tuple[int, int], text: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Parse a header, from its length field on, with numpy's own reader."""
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
    return read(BytesIO(text))


# Most files of a folder have the header of another one, byte for byte.
@lru_cache(maxsize=256)
def _plain_header(text: bytes) -> NpyHeader | None:
    """Return the header of a file of version 1 by its first bytes; None for one that depends on more, or is bad."""
    stream = BytesIO(text)
    try:
        header = read_npy_header(stream, "")
    # Its message needs the name of the file, as does the dtype of raw bytes.
    except UserError:
        return None
    return header if stream.tell() == len(text) and text[6] == 1 else None


def check_npy_size(header: NpyHeader, available: int, shown: str) -> None:
    """Check that the data are as long as the header requires.

    Raises:
        UserError: bad-array-file.
    """
    if header.size_bytes != available:
        data = f"{header.size_bytes} bytes of data ({header.dtype} of shape {header.shape})"
        raise bad_array_file(shown, f"{data} but the file has {available}")


def _dtype_of_name(raw: np.dtype[Any], shown: str) -> np.dtype[Any]:
    """Return the ml_dtypes dtype at the end of a file name; it must have as many bytes as the raw elements."""
    import ml_dtypes

    name = shown.removesuffix(".npy").rpartition(".")[2]
    scalar = getattr(ml_dtypes, name, None)
    if is_ml_dtype(scalar) and np.dtype(scalar).itemsize == raw.itemsize:
        return np.dtype(scalar)
    advice = "name an ml_dtypes dtype in the file name, y.bfloat16.npy (in a .npz file: y.bfloat16)"
    raise bad_array_file(shown, f"an array of numbers but got raw bytes (dtype={raw}); {advice}")


def _check_header(header: NpyHeader, shown: str) -> None:
    if header.dtype.kind not in "biufc" and not is_ml_dtype(header.dtype.type):
        raise bad_array_file(shown, f"an array of numbers but got dtype={header.dtype}")
    if not fits_in_memory(header.shape, header.dtype):
        raise bad_array_file(shown, f"a shape that memory can hold but got shape={header.shape}")


def strip_dtype_suffix(file: str) -> str:
    """Return a file name without its suffix and without the dtype, if it has one: y.bfloat16.npy gives y."""
    name, _, suffix = file.rpartition(".")
    rest, _, dtype = name.rpartition(".")
    return rest if suffix == "npy" and rest and dtype in _ml_dtype_names() else name


# A folder has thousands of names.
@cache
def _ml_dtype_names() -> frozenset[str]:
    import ml_dtypes

    return frozenset(name for name in dir(ml_dtypes) if is_ml_dtype(getattr(ml_dtypes, name)))


# No deflated byte expands to more bytes than this (zlib's technical note). A larger claim is an attack on memory.
_DEFLATE_RATIO = 1032
# The header of each member (APPNOTE.TXT 4.3.7): signature, then the lengths of its name and its extra field.
_LOCAL_HEADER = struct.Struct("<4s22xHH")
# Bytes of a member read for its .npy header: numpy's limit of 10,000 characters, and room for the preamble.
_LONGEST_HEADER = 12_000
# Bit 0 of a member's flags (APPNOTE.TXT 4.4.4).
_ENCRYPTED = 1


class NpzMember(NamedTuple):
    """Locate one array of an archive: its header, and as `packed` its bytes in the file, header included."""

    header: NpyHeader
    packed: StoredArray
    header_bytes: int
    size_bytes: int
    checksum: int
    deflated: bool

    def load(self) -> Array:
        """Return the array, read-only, in the file's byte order.

        Raises:
            UserError: bad-array-file.
        """
        content = self._unpacked(self.packed.load())
        if zlib.crc32(content.data) != self.checksum:
            raise bad_array_file(
                self.packed.shown, "the bytes that were written but their checksum differs: the file is damaged"
            )
        data = content[self.header_bytes :].view(self.header.dtype)
        return data.reshape(self.header.shape, order=self.header.order)

    def _unpacked(self, packed: Array) -> Array:
        if not self.deflated:
            return packed
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            # One byte more than declared is enough to notice a longer stream, without unpacking all of it.
            content = unpacker.decompress(packed.data, self.size_bytes + 1)
        except zlib.error as error:
            raise bad_array_file(self.packed.shown, f"a whole .npz file but got: {error}") from error
        if len(content) != self.size_bytes:
            raise bad_array_file(self.packed.shown, f"{self.size_bytes} bytes but got {len(content)} or more")
        return np.frombuffer(content, np.uint8)


def read_npz(path: Path, shown: str) -> dict[str, Array]:
    """Return the named arrays of a .npz file in their order, read-only and in native byte order.

    Messages name the file as `shown`. Raises UserError as `find_npz` and `NpzMember.load` do.
    """
    return {name: to_native_byte_order(member.load()) for name, member in find_npz(path, shown).items()}


def find_npz(path: FilePath, shown: str) -> dict[str, NpzMember]:
    """Locate the arrays of a .npz file by name, in the order of the file.

    Raises:
        UserError: missing-file; bad-array-file, for anything but a .npz file of numbers.
    """
    with open_array_file(path, shown) as stream:
        size = stream_size(stream)
        try:
            with zipfile.ZipFile(stream) as archive:
                members = _members(archive, size, shown)
                found = [(name, _member(stream, path, info, f"{shown}:{name}")) for name, info in members.items()]
        except UserError:
            raise
        # zipfile and its decompressors raise a dozen kinds of exceptions for damaged files.
        except Exception as error:
            raise bad_array_file(shown, f"a whole .npz file but got: {error}") from error
    return _arrays_by_name(found, shown)


def _members(archive: zipfile.ZipFile, size: int, shown: str) -> dict[str, zipfile.ZipInfo]:
    """Name the arrays of an archive and check the sizes that its directory claims."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        # An archive may hold one name twice; numpy would return the last.
        if name == info.filename or name in members:
            raise bad_array_file(shown, f"arrays with names of their own, NAME.npy, but got {info.filename}")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & _ENCRYPTED:
            raise bad_array_file(shown, f"members that are stored or deflated, in the open, but {info.filename} is not")
        ratio = 1 if info.compress_type == zipfile.ZIP_STORED else _DEFLATE_RATIO
        if info.compress_size > size or info.file_size > ratio * info.compress_size:
            raise bad_array_file(
                shown, f"{info.filename} to be {info.file_size} bytes long, more than the file can hold"
            )
        members[name] = info
    return members


def _member(stream: IO[bytes], path: FilePath, info: zipfile.ZipInfo, shown: str) -> NpzMember:
    start = member_start(stream, info, shown)
    deflated = info.compress_type == zipfile.ZIP_DEFLATED
    packed_head = stream.read(min(info.compress_size, _LONGEST_HEADER))
    # Deflated data may be longer than their beginning, which is all that the header needs.
    unpacked = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed_head, _LONGEST_HEADER) if deflated else packed_head
    head = BytesIO(unpacked)
    header = read_npy_header(head, shown)
    check_npy_size(header, info.file_size - head.tell(), shown)
    packed = StoredArray(path, shown, np.dtype(np.uint8), (info.compress_size,), "C", start)
    return NpzMember(header, packed, head.tell(), info.file_size, info.CRC, deflated)


def member_start(stream: IO[bytes], info: zipfile.ZipInfo, shown: str) -> int:
    """Return the position of a member's data in an archive, and leave the stream there.

    Raises:
        UserError: bad-array-file.
    """
    stream.seek(info.header_offset)
    signature, name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    if signature != b"PK\x03\x04":
        raise bad_array_file(shown, "a whole archive but its directory names a place where no member begins")
    # The directory has an extra field too, of another length; only the local header gives the data's position.
    stream.seek(name + extra, 1)
    return stream.tell()


def _arrays_by_name(found: list[tuple[str, NpzMember]], shown: str) -> dict[str, NpzMember]:
    """Return the arrays by name, without the dtype suffix of ml_dtypes arrays."""
    named = {
        name.removesuffix(f".{member.header.dtype}") if is_ml_dtype(member.header.dtype.type) else name: member
        for name, member in found
    }
    if len(named) < len(found):
        raise bad_array_file(shown, f"arrays with names of their own but got {', '.join(name for name, _ in found)}")
    return named
