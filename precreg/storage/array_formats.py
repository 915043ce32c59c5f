"""Which formats of arrays does precreg read, and which arrays does a file of each hold?

Suites and `precreg compare` read the same formats. A file is one array, or an archive of named arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from precreg.storage.array_file import Array, StoredArray, find_raw, stored_dtype, to_native_byte_order
from precreg.storage.msprobe_dump import MSPROBE_FILE, find_msprobe_dump
from precreg.storage.npy import NpzMember, find_npy, find_npz
from precreg.storage.safetensors import find_safetensors
from precreg.storage.tensor_proto import find_tensor_proto
from precreg.storage.torch_file import find_torch_tensors

FoundArray = StoredArray | NpzMember
ArchiveReader = Callable[[Path, str], Mapping[str, FoundArray]]

# A new archive format needs one line here.
ARCHIVES: dict[str, ArchiveReader] = {
    ".npz": find_npz,
    ".safetensors": find_safetensors,
    ".pt": find_torch_tensors,
    ".pth": find_torch_tensors,
}
SINGLES: dict[str, Callable[[Path, str], StoredArray]] = {".npy": find_npy, ".pb": find_tensor_proto}
RAW = ".bin"
ARRAY_SUFFIXES = (*SINGLES, RAW, *ARCHIVES)


def archive_reader(name: str) -> ArchiveReader | None:
    """Return the reader of an archive by the name of its file; None for a file of one array."""
    # Other files may end in .json, so that the whole name counts.
    if name.rpartition("/")[2] == MSPROBE_FILE:
        return find_msprobe_dump
    return ARCHIVES.get(Path(name).suffix)


def is_array_file(name: str) -> bool:
    """Return whether a file's name is that of a format of arrays."""
    return archive_reader(name) is not None or name.endswith((*SINGLES, RAW))


def raw_dtype(name: str, byte_order: Literal["little", "big"] = "little") -> np.dtype[np.generic]:
    """Return the dtype of elements in a raw file."""
    return stored_dtype(name).newbyteorder("<" if byte_order == "little" else ">")


def read_recorded(path: Path, shown: str) -> dict[str, Array]:
    """Return the arrays of an archive by name, read-only and in native byte order.

    Raises UserError as the reader of the format does.
    """
    reader = archive_reader(path.name)
    assert reader is not None
    return {name: to_native_byte_order(found.load()) for name, found in reader(path, shown).items()}


def read_single(
    path: Path, shown: str, dtype: str | None = None, shape: tuple[int, ...] | None = None, byte_order: str = "little"
) -> Array:
    """Return the array of a file of one array; dtype, shape and byte order are those of a raw file.

    Raises UserError as the reader of the format does.
    """
    if dtype is not None:
        found = find_raw(path, shown, raw_dtype(dtype, "big" if byte_order == "big" else "little"), shape)
        return to_native_byte_order(found.load())
    return to_native_byte_order(SINGLES[path.suffix](path, shown).load())


_DIGITS = re.compile(r"(\d+)")


def natural_order(name: str) -> tuple[tuple[int, str, str], ...]:
    """Return the key that sorts numbers inside names by value: layer2 comes before layer10."""
    parts = _DIGITS.split(name)
    # Texts and numbers alternate. Digits compare by their number and then one by one, because int() refuses thousands.
    digits = (part.lstrip("0") for part in parts)
    return tuple(
        (len(number), number, part) if at % 2 else (0, "", part)
        for at, (part, number) in enumerate(zip(parts, digits, strict=True))
    )
