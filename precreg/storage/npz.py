"""Reading .npz files: zip archives of .npy files, stored or deflated.

The directory of the archive says where each array lies. One that is stored is mapped, one that is deflated is
unpacked into memory when it is asked for; the checksum of both is verified then.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from precreg.errors import UserError
from precreg.storage.arrayfile_stored import Array, Stored, is_of_ml_dtypes, native, open_file
from precreg.storage.npy import Header, bad, check_size, read_header

_DEFLATE_RATIO = 1032
"""No deflated byte becomes more than this many (zlib's technical note): a larger claim is a lie."""


_LOCAL_HEADER = struct.Struct("<4s22xHH")
"""What stands before a member's data (APPNOTE.TXT 4.3.7): signature, lengths of its name and of its extra field."""


_LONGEST_HEADER = 12_000
"""Of a .npy file: numpy reads at most 10,000 characters of it."""


_ENCRYPTED = 1


class Member(NamedTuple):
    """One array of an archive: its header, and `packed`: its bytes as they lie in the file, header included."""

    header: Header
    packed: Stored
    header_bytes: int
    size_bytes: int
    checksum: int
    deflated: bool

    def load(self) -> Array:
        """Return the array, read-only, in the byte order of the file. Raises UserError (bad-array-file)."""
        content = self._unpacked(self.packed.load())
        if zlib.crc32(content.data) != self.checksum:
            raise bad(self.packed.shown, "the bytes that were written but their checksum differs: the file is damaged")
        data = content[self.header_bytes :].view(self.header.dtype)
        return data.reshape(self.header.shape, order=self.header.order)

    def _unpacked(self, packed: Array) -> Array:
        if not self.deflated:
            return packed
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            content = unpacker.decompress(packed.data, self.size_bytes + 1)
        except zlib.error as error:
            raise bad(self.packed.shown, f"a whole .npz file but got: {error}") from error
        if len(content) != self.size_bytes:
            raise bad(self.packed.shown, f"{self.size_bytes} bytes but got {len(content)} or more")
        return np.frombuffer(content, np.uint8)


def read_arrays(path: Path, shown: str) -> dict[str, Array]:
    """Return the arrays of a .npz file by name, in the order of the file, read-only and in native byte order.

    `shown` is how messages name the file. Raises UserError as `find_arrays` does, for each array in the file.
    """
    return {name: native(member.load()) for name, member in find_arrays(path, shown).items()}


def find_arrays(path: Path, shown: str) -> dict[str, Member]:
    """Return what a .npz file holds, by name, in the order of the file.

    Raises UserError: missing-file where there is no such file, bad-array-file where it is no .npz file of numbers.
    """
    with open_file(path, shown) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                members = _members(archive, path.stat().st_size, shown)
                found = [(name, _member(stream, path, info, f"{shown}:{name}")) for name, info in members.items()]
        except UserError:
            raise
        except Exception as error:  # zipfile and its decompressors raise a dozen kinds on damage
            raise bad(shown, f"a whole .npz file but got: {error}") from error
    return _named(found, shown)


def _members(archive: zipfile.ZipFile, size: int, shown: str) -> dict[str, zipfile.ZipInfo]:
    """Name the arrays of an archive, after checking what its directory says of them."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name == info.filename or name in members:
            raise bad(shown, f"arrays with names of their own, NAME.npy, but got {info.filename}")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & _ENCRYPTED:
            raise bad(shown, f"members that are stored or deflated, in the open, but {info.filename} is not")
        ratio = 1 if info.compress_type == zipfile.ZIP_STORED else _DEFLATE_RATIO
        if info.compress_size > size or info.file_size > ratio * info.compress_size:
            raise bad(shown, f"{info.filename} to be {info.file_size} bytes long, more than the file can hold")
        members[name] = info
    return members


def _member(stream: IO[bytes], path: Path, info: zipfile.ZipInfo, shown: str) -> Member:
    stream.seek(info.header_offset)
    signature, name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    if signature != b"PK\x03\x04":
        raise bad(shown, "a whole .npz file but its directory names a place where no member begins")
    stream.seek(name + extra, 1)
    start = stream.tell()
    deflated = info.compress_type == zipfile.ZIP_DEFLATED
    head = BytesIO(_head(stream, min(info.compress_size, _LONGEST_HEADER), deflated))
    header = read_header(head, shown)
    check_size(header, info.file_size - head.tell(), shown)
    packed = Stored(path, shown, np.dtype(np.uint8), (info.compress_size,), "C", start)
    return Member(header, packed, head.tell(), info.file_size, info.CRC, deflated)


def _head(stream: IO[bytes], length: int, deflated: bool) -> bytes:
    packed = stream.read(length)
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, _LONGEST_HEADER) if deflated else packed


def _named(found: list[tuple[str, Member]], shown: str) -> dict[str, Member]:
    """Return the arrays by name, less the dtype that stood in it because the file could not say it otherwise."""
    named = {
        name.removesuffix(f".{member.header.dtype}") if is_of_ml_dtypes(member.header.dtype.type) else name: member
        for name, member in found
    }
    if len(named) < len(found):
        raise bad(shown, f"arrays with names of their own but got {', '.join(name for name, _ in found)}")
    return named
