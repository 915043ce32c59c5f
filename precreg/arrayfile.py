"""Reading .npy and .npz files that nobody vouches for.

A file's own words are checked against its size before anything is allocated, and nothing in it is ever run: pickled
objects are refused. The layout is that of numpy.lib.format; versions 1 and 2, which hold every plain array.

numpy stores an array of an ml_dtypes dtype as raw bytes. Such a file says its dtype at the end of its name,
y.bfloat16.npy, and so does such an array in a .npz file: y.bfloat16, whose name is then y.
"""

from __future__ import annotations

import zipfile
from math import prod
from pathlib import Path
from sys import maxsize
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from precreg.errors import UserError

_DEFLATE_RATIO = 1032
"""No deflated byte becomes more than this many (zlib's technical note): a larger claim is a lie."""


class _Header(NamedTuple):
    """What the start of a .npy file says of the rest."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    @property
    def size_bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


def read_array(path: Path, shown: str) -> NDArray[Any]:
    """Return the array of a .npy file, read-only, in native byte order; large files are mapped, not read.

    `shown` is how messages name the file. Raises UserError: missing-file where there is no such file, bad-array-file
    where it is no .npy file of numbers, is cut short, or goes on after the array.
    """
    with _open(path, shown) as stream:
        header = _read_header(stream, shown)
        start = stream.tell()
    _check_size(header, path.stat().st_size - start, shown)
    if header.size_bytes == 0:
        return _native(np.zeros(header.shape, header.dtype))
    return _native(np.memmap(path, header.dtype, "r", start, header.shape, header.order))


def read_arrays(path: Path, shown: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a .npz file by name, in the order of the file, read-only and in native byte order.

    `shown` is how messages name the file. Raises UserError as `read_array` does, for each array in the file.
    """
    with _open(path, shown) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                members = _members(archive, path.stat().st_size, shown)
                arrays = [(name, _read_member(archive, info, f"{shown}:{name}")) for name, info in members.items()]
        except UserError:
            raise
        except Exception as error:  # zipfile and its decompressors raise a dozen kinds on damage
            raise _bad(shown, f"a whole .npz file but got: {error}") from error
    return _named(arrays, shown)


def _bad(shown: str, expectation: str) -> UserError:
    return UserError("bad-array-file", f"expected {expectation}", file=shown)


def _open(path: Path, shown: str) -> IO[bytes]:
    if not path.is_file():
        raise UserError("missing-file", "expected a file of arrays but there is none", file=shown)
    try:
        return path.open("rb")
    except OSError as error:
        raise _bad(shown, f"a readable file but got: {error.strerror}") from error


def _read_header(stream: IO[bytes], shown: str) -> _Header:
    try:
        version = npy.read_magic(stream)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran_order, dtype = read(stream)
    except Exception as error:  # numpy promises nothing about what a damaged header raises
        raise _bad(shown, "a .npy file, version 1 or 2, but its header cannot be read") from error
    if dtype.kind == "V" and dtype.names is None and dtype.subdtype is None:
        dtype = _declared(dtype, shown)
    header = _Header(dtype, shape, "F" if fortran_order else "C")
    _check_header(header, shown)
    return header


def _declared(raw: np.dtype[Any], shown: str) -> np.dtype[Any]:
    """Return the dtype of ml_dtypes that the end of a name says, which must be as long as the raw bytes are."""
    import ml_dtypes

    name = shown.removesuffix(".npy").rpartition(".")[2]
    scalar = getattr(ml_dtypes, name, None)
    if _is_of_ml_dtypes(scalar) and np.dtype(scalar).itemsize == raw.itemsize:
        return np.dtype(scalar)
    advice = "a dtype of ml_dtypes stands in the name, y.bfloat16.npy (in a .npz file: y.bfloat16)"
    raise _bad(shown, f"an array of numbers but got raw bytes (dtype={raw}); {advice}")


def _is_of_ml_dtypes(scalar: Any) -> bool:
    return isinstance(scalar, type) and issubclass(scalar, np.generic) and scalar.__module__.startswith("ml_dtypes")


def _check_header(header: _Header, shown: str) -> None:
    if header.dtype.kind not in "biufc" and not _is_of_ml_dtypes(header.dtype.type):
        raise _bad(shown, f"an array of numbers but got dtype={header.dtype}")
    largest = prod(max(length, 1) for length in header.shape) * header.dtype.itemsize
    if min(header.shape, default=0) < 0 or largest > maxsize:
        raise _bad(shown, f"a shape that memory can hold but got shape={header.shape}")


def _check_size(header: _Header, available: int, shown: str) -> None:
    if header.size_bytes != available:
        what = f"{header.dtype} of shape {header.shape}"
        raise _bad(shown, f"{header.size_bytes} bytes of data ({what}) but the file has {available}")


def _members(archive: zipfile.ZipFile, size: int, shown: str) -> dict[str, zipfile.ZipInfo]:
    """Name the arrays of an archive, after checking what its directory says of them."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name == info.filename or name in members:
            raise _bad(shown, f"arrays with names of their own, NAME.npy, but got {info.filename}")
        if info.compress_size > size or info.file_size > _DEFLATE_RATIO * info.compress_size:
            raise _bad(shown, f"{info.filename} to be {info.file_size} bytes long, more than the file can hold")
        members[name] = info
    return members


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, shown: str) -> NDArray[Any]:
    with archive.open(info) as stream:
        header = _read_header(stream, shown)
        _check_size(header, info.file_size - stream.tell(), shown)
        data = stream.read(header.size_bytes)
    if len(data) != header.size_bytes:
        raise _bad(shown, f"{header.size_bytes} bytes of data but got {len(data)}")
    return _native(np.frombuffer(data, header.dtype).reshape(header.shape, order=header.order))


def _named(arrays: list[tuple[str, NDArray[Any]]], shown: str) -> dict[str, NDArray[Any]]:
    """Return the arrays by name, less the dtype that stood in it because the file could not say it otherwise."""
    named = {
        name.removesuffix(f".{array.dtype}") if _is_of_ml_dtypes(array.dtype.type) else name: array
        for name, array in arrays
    }
    if len(named) < len(arrays):
        raise _bad(shown, f"arrays with names of their own but got {', '.join(name for name, _ in arrays)}")
    return named


def _native(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(array.dtype.newbyteorder("="), copy=False)
