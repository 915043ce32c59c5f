"""Reading .npy files. The layout is that of numpy.lib.format; versions 1 and 2, which hold every plain array.

Pickled objects are refused. numpy stores an array of an ml_dtypes dtype as raw bytes. Such a file says its dtype at
the end of its name, y.bfloat16.npy, and so does such an array in a .npz file: y.bfloat16, whose name is then y.

Reading .npz files: zip archives of .npy files, stored or deflated.

The directory of the archive says where each array lies. One that is stored is mapped, one that is deflated is
unpacked into memory when it is asked for; the checksum of both is verified then.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from functools import lru_cache
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy

from precreg.errors import UserError
from precreg.storage.array_file import (
    SMALL_BYTES,
    Array,
    StoredArray,
    fits_in_memory,
    is_ml_dtype,
    open_array_file,
    to_native_byte_order,
)

_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4}
"""How many bytes say the length of the header, by version."""


_LONGEST = 1 << 16
"""More of a header is not read: numpy takes 10,000 characters of it."""


class NpyHeader(NamedTuple):
    """What the start of a .npy file says of the rest."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    @property
    def size_bytes(self) -> int:
        """Return how long the data must be."""
        return prod(self.shape) * self.dtype.itemsize


def read_npy(path: Path, shown: str) -> Array:
    """Return the array of a .npy file, read-only, in native byte order; large files are mapped, not read.

    `shown` is how messages name the file. Raises UserError as `find_array` does.
    """
    return to_native_byte_order(find_npy(path, shown).load())


def find_npy(path: Path, shown: str) -> StoredArray:
    """Return where the array of a .npy file lies.

    Raises UserError: missing-file where there is no such file, bad-array-file where it is no .npy file of numbers, is
    cut short, or goes on after the array.
    """
    with open_array_file(path, shown) as stream:
        size = os.fstat(stream.fileno()).st_size
        content = stream.read() if size <= SMALL_BYTES else None
        beginning = stream if content is None else BytesIO(content)
        header = read_npy_header(beginning, shown)
        start = beginning.tell()
    check_npy_size(header, size - start, shown)
    return StoredArray(path, shown, header.dtype, header.shape, header.order, start, content)


def bad_array_file(shown: str, expectation: str) -> UserError:
    """Make the error of a .npy or .npz file that is not as it should be."""
    return UserError("bad-array-file", f"expected {expectation}", file=shown)


def read_npy_header(stream: IO[bytes], shown: str) -> NpyHeader:
    """Read the start of a .npy file, up to its data. Raises UserError (bad-array-file)."""
    try:
        version = npy.read_magic(stream)
        length = stream.read(_LENGTH_BYTES[version])
        shape, fortran_order, dtype = _parsed(
            version, length + stream.read(min(int.from_bytes(length, "little"), _LONGEST))
        )
    except Exception as error:  # numpy promises nothing about what a damaged header raises
        raise bad_array_file(shown, "a .npy file, version 1 or 2, but its header cannot be read") from error
    if dtype.kind == "V" and dtype.names is None and dtype.subdtype is None:
        dtype = _declared(dtype, shown)
    header = NpyHeader(dtype, shape, "F" if fortran_order else "C")
    _check_header(header, shown)
    return header


@lru_cache(maxsize=256)
def _parsed(version: tuple[int, int], text: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Let numpy parse a header from its length on; a folder has thousands that are the same."""
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
    return read(BytesIO(text))


def check_npy_size(header: NpyHeader, available: int, shown: str) -> None:
    """Raise UserError (bad-array-file) unless the data are as long as the header says."""
    if header.size_bytes != available:
        what = f"{header.dtype} of shape {header.shape}"
        raise bad_array_file(shown, f"{header.size_bytes} bytes of data ({what}) but the file has {available}")


def _declared(raw: np.dtype[Any], shown: str) -> np.dtype[Any]:
    """Return the dtype of ml_dtypes that the end of a name says, which must be as long as the raw bytes are."""
    import ml_dtypes

    name = shown.removesuffix(".npy").rpartition(".")[2]
    scalar = getattr(ml_dtypes, name, None)
    if is_ml_dtype(scalar) and np.dtype(scalar).itemsize == raw.itemsize:
        return np.dtype(scalar)
    advice = "a dtype of ml_dtypes stands in the name, y.bfloat16.npy (in a .npz file: y.bfloat16)"
    raise bad_array_file(shown, f"an array of numbers but got raw bytes (dtype={raw}); {advice}")


def _check_header(header: NpyHeader, shown: str) -> None:
    if header.dtype.kind not in "biufc" and not is_ml_dtype(header.dtype.type):
        raise bad_array_file(shown, f"an array of numbers but got dtype={header.dtype}")
    if not fits_in_memory(header.shape, header.dtype):
        raise bad_array_file(shown, f"a shape that memory can hold but got shape={header.shape}")


def strip_dtype_suffix(file: str) -> str:
    """Return the name of a file without its suffix, and without the dtype that y.bfloat16.npy says in it."""
    import ml_dtypes

    name, _, suffix = file.rpartition(".")
    rest, _, dtype = name.rpartition(".")
    declared = suffix == "npy" and rest and is_ml_dtype(getattr(ml_dtypes, dtype, None))
    return rest if declared else name


_DEFLATE_RATIO = 1032
"""No deflated byte becomes more than this many (zlib's technical note): a larger claim is a lie."""


_LOCAL_HEADER = struct.Struct("<4s22xHH")
"""What stands before a member's data (APPNOTE.TXT 4.3.7): signature, lengths of its name and of its extra field."""


_LONGEST_HEADER = 12_000
"""Of a .npy file: numpy reads at most 10,000 characters of it."""


_ENCRYPTED = 1


class NpzMember(NamedTuple):
    """One array of an archive: its header, and `packed`: its bytes as they lie in the file, header included."""

    header: NpyHeader
    packed: StoredArray
    header_bytes: int
    size_bytes: int
    checksum: int
    deflated: bool

    def load(self) -> Array:
        """Return the array, read-only, in the byte order of the file. Raises UserError (bad-array-file)."""
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
            content = unpacker.decompress(packed.data, self.size_bytes + 1)
        except zlib.error as error:
            raise bad_array_file(self.packed.shown, f"a whole .npz file but got: {error}") from error
        if len(content) != self.size_bytes:
            raise bad_array_file(self.packed.shown, f"{self.size_bytes} bytes but got {len(content)} or more")
        return np.frombuffer(content, np.uint8)


def read_npz(path: Path, shown: str) -> dict[str, Array]:
    """Return the arrays of a .npz file by name, in the order of the file, read-only and in native byte order.

    `shown` is how messages name the file. Raises UserError as `find_arrays` does, for each array in the file.
    """
    return {name: to_native_byte_order(member.load()) for name, member in find_npz(path, shown).items()}


def find_npz(path: Path, shown: str) -> dict[str, NpzMember]:
    """Return what a .npz file holds, by name, in the order of the file.

    Raises UserError: missing-file where there is no such file, bad-array-file where it is no .npz file of numbers.
    """
    with open_array_file(path, shown) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                members = _members(archive, path.stat().st_size, shown)
                found = [(name, _member(stream, path, info, f"{shown}:{name}")) for name, info in members.items()]
        except UserError:
            raise
        except Exception as error:  # zipfile and its decompressors raise a dozen kinds on damage
            raise bad_array_file(shown, f"a whole .npz file but got: {error}") from error
    return _named(found, shown)


def _members(archive: zipfile.ZipFile, size: int, shown: str) -> dict[str, zipfile.ZipInfo]:
    """Name the arrays of an archive, after checking what its directory says of them."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
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


def _member(stream: IO[bytes], path: Path, info: zipfile.ZipInfo, shown: str) -> NpzMember:
    stream.seek(info.header_offset)
    signature, name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    if signature != b"PK\x03\x04":
        raise bad_array_file(shown, "a whole .npz file but its directory names a place where no member begins")
    stream.seek(name + extra, 1)
    start = stream.tell()
    deflated = info.compress_type == zipfile.ZIP_DEFLATED
    head = BytesIO(_head(stream, min(info.compress_size, _LONGEST_HEADER), deflated))
    header = read_npy_header(head, shown)
    check_npy_size(header, info.file_size - head.tell(), shown)
    packed = StoredArray(path, shown, np.dtype(np.uint8), (info.compress_size,), "C", start)
    return NpzMember(header, packed, head.tell(), info.file_size, info.CRC, deflated)


def _head(stream: IO[bytes], length: int, deflated: bool) -> bytes:
    packed = stream.read(length)
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, _LONGEST_HEADER) if deflated else packed


def _named(found: list[tuple[str, NpzMember]], shown: str) -> dict[str, NpzMember]:
    """Return the arrays by name, less the dtype that stood in it because the file could not say it otherwise."""
    named = {
        name.removesuffix(f".{member.header.dtype}") if is_ml_dtype(member.header.dtype.type) else name: member
        for name, member in found
    }
    if len(named) < len(found):
        raise bad_array_file(shown, f"arrays with names of their own but got {', '.join(name for name, _ in found)}")
    return named
