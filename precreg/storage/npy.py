"""Reading .npy files. The layout is that of numpy.lib.format; versions 1 and 2, which hold every plain array.

Pickled objects are refused. numpy stores an array of an ml_dtypes dtype as raw bytes. Such a file says its dtype at
the end of its name, y.bfloat16.npy, and so does such an array in a .npz file: y.bfloat16, whose name is then y.
"""

from __future__ import annotations

import os
from functools import lru_cache
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy

from precreg.errors import UserError
from precreg.storage.arrayfile_stored import SMALL_BYTES, Array, Stored, can_be_held, is_of_ml_dtypes, native, open_file

_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4}
"""How many bytes say the length of the header, by version."""


_LONGEST = 1 << 16
"""More of a header is not read: numpy takes 10,000 characters of it."""


class Header(NamedTuple):
    """What the start of a .npy file says of the rest."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    @property
    def size_bytes(self) -> int:
        """Return how long the data must be."""
        return prod(self.shape) * self.dtype.itemsize


def read_array(path: Path, shown: str) -> Array:
    """Return the array of a .npy file, read-only, in native byte order; large files are mapped, not read.

    `shown` is how messages name the file. Raises UserError as `find_array` does.
    """
    return native(find_array(path, shown).load())


def find_array(path: Path, shown: str) -> Stored:
    """Return where the array of a .npy file lies.

    Raises UserError: missing-file where there is no such file, bad-array-file where it is no .npy file of numbers, is
    cut short, or goes on after the array.
    """
    with open_file(path, shown) as stream:
        size = os.fstat(stream.fileno()).st_size
        content = stream.read() if size <= SMALL_BYTES else None
        beginning = stream if content is None else BytesIO(content)
        header = read_header(beginning, shown)
        start = beginning.tell()
    check_size(header, size - start, shown)
    return Stored(path, shown, header.dtype, header.shape, header.order, start, content)


def bad(shown: str, expectation: str) -> UserError:
    """Make the error of a .npy or .npz file that is not as it should be."""
    return UserError("bad-array-file", f"expected {expectation}", file=shown)


def read_header(stream: IO[bytes], shown: str) -> Header:
    """Read the start of a .npy file, up to its data. Raises UserError (bad-array-file)."""
    try:
        version = npy.read_magic(stream)
        length = stream.read(_LENGTH_BYTES[version])
        shape, fortran_order, dtype = _parsed(
            version, length + stream.read(min(int.from_bytes(length, "little"), _LONGEST))
        )
    except Exception as error:  # numpy promises nothing about what a damaged header raises
        raise bad(shown, "a .npy file, version 1 or 2, but its header cannot be read") from error
    if dtype.kind == "V" and dtype.names is None and dtype.subdtype is None:
        dtype = _declared(dtype, shown)
    header = Header(dtype, shape, "F" if fortran_order else "C")
    _check_header(header, shown)
    return header


@lru_cache(maxsize=256)
def _parsed(version: tuple[int, int], text: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Let numpy parse a header from its length on; a folder has thousands that are the same."""
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
    return read(BytesIO(text))


def check_size(header: Header, available: int, shown: str) -> None:
    """Raise UserError (bad-array-file) unless the data are as long as the header says."""
    if header.size_bytes != available:
        what = f"{header.dtype} of shape {header.shape}"
        raise bad(shown, f"{header.size_bytes} bytes of data ({what}) but the file has {available}")


def _declared(raw: np.dtype[Any], shown: str) -> np.dtype[Any]:
    """Return the dtype of ml_dtypes that the end of a name says, which must be as long as the raw bytes are."""
    import ml_dtypes

    name = shown.removesuffix(".npy").rpartition(".")[2]
    scalar = getattr(ml_dtypes, name, None)
    if is_of_ml_dtypes(scalar) and np.dtype(scalar).itemsize == raw.itemsize:
        return np.dtype(scalar)
    advice = "a dtype of ml_dtypes stands in the name, y.bfloat16.npy (in a .npz file: y.bfloat16)"
    raise bad(shown, f"an array of numbers but got raw bytes (dtype={raw}); {advice}")


def _check_header(header: Header, shown: str) -> None:
    if header.dtype.kind not in "biufc" and not is_of_ml_dtypes(header.dtype.type):
        raise bad(shown, f"an array of numbers but got dtype={header.dtype}")
    if not can_be_held(header.shape, header.dtype):
        raise bad(shown, f"a shape that memory can hold but got shape={header.shape}")


def bare_name(file: str) -> str:
    """Return the name of a file without its suffix, and without the dtype that y.bfloat16.npy says in it."""
    import ml_dtypes

    name, _, suffix = file.rpartition(".")
    rest, _, dtype = name.rpartition(".")
    declared = suffix == "npy" and rest and is_of_ml_dtypes(getattr(ml_dtypes, dtype, None))
    return rest if declared else name
