"""Writing .npy and .npz files, so that the readers of this room give back every element's bits and every dtype.

The same arrays make the same bytes: no time of writing is kept. An array of an ml_dtypes dtype is written as raw
bytes, as numpy does; its dtype has to stand in a name (see npy.py).
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import IO

from numpy.lib import format as npy

from precreg.errors import UserError
from precreg.storage.arrayfile_stored import Array, is_of_ml_dtypes

_LONGEST_NAME = 65_535
"""Bytes of the name of a file in a zip archive (APPNOTE.TXT 4.4.10)."""


def said_in_name(array: Array) -> str | None:
    """Return the dtype that the name of an array's file must end in, before .npy; None where the file says it."""
    return array.dtype.name if is_of_ml_dtypes(array.dtype.type) else None


def write_array(stream: IO[bytes], array: Array) -> None:
    """Write a .npy file of numbers."""
    raw = array.view(f"V{array.dtype.itemsize}") if said_in_name(array) else array
    npy.write_array(stream, raw, allow_pickle=False)


def write_arrays(stream: IO[bytes], arrays: Mapping[str, Array]) -> None:
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
                write_array(file, array)


def _member(name: str, array: Array) -> str:
    """Name the file of an array in the archive; zip would cut a name at NUL, and has 16 bits for its length."""
    dtype = said_in_name(array)
    member = f"{name}.npy" if dtype is None else f"{name}.{dtype}.npy"
    written = member.encode(errors="replace")
    if "\0" in name or len(written) > _LONGEST_NAME or written.decode() != member:
        what = "without NUL or lone surrogates"
        raise UserError("bad-outputs", f"expected a name {what}, at most {_LONGEST_NAME} bytes, but got {name[:60]!a}")
    return member
