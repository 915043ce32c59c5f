"""Which formats of arrays does precreg read, and which arrays does a file of each hold?

Suites and `precreg compare` read the same formats. A file is one array, or an archive of named arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from precreg.storage.msprobe_dump import MSPROBE_FILE

if TYPE_CHECKING:
    from precreg.storage.array_file import Array, FilePath, StoredArray
    from precreg.storage.npy import NpzMember

    FoundArray = StoredArray | NpzMember

# The function of precreg.storage that locates the arrays of a file. Suites name formats when they load, so that no
# reader, and no numpy, comes before the first file. A new format needs one line here.
_ARCHIVES = {
    ".npz": "npy:find_npz",
    ".safetensors": "safetensors:find_safetensors",
    ".pt": "torch_file:find_torch_tensors",
    ".pth": "torch_file:find_torch_tensors",
}
_SINGLES = {".npy": "npy:find_npy", ".pb": "tensor_proto:find_tensor_proto"}
RAW = ".bin"
ARRAY_SUFFIXES = (*_SINGLES, RAW, *_ARCHIVES)


def is_archive(name: str) -> bool:
    """Return whether a file holds named arrays, by its name."""
    # Other files may end in .json, so that the whole name counts.
    return name.rpartition("/")[2] == MSPROBE_FILE or suffix_of(name) in _ARCHIVES


def suffix_of(name: str) -> str:
    """Return the suffix of a file's name, as pathlib has it; a folder has thousands of files."""
    file = name.rpartition("/")[2]
    stem, dot, suffix = file.rpartition(".")
    return f".{suffix}" if stem and suffix and dot else ""


def is_array_file(name: str) -> bool:
    """Return whether a file's name belongs to a format of arrays."""
    return is_archive(name) or suffix_of(name) in ARRAY_SUFFIXES


def find_arrays(path: FilePath, shown: str) -> Mapping[str, FoundArray]:
    """Locate the arrays of an archive by name. Raises UserError as the reader of the format does."""
    target = (
        "msprobe_dump:find_msprobe_dump"
        if str(path).rpartition("/")[2] == MSPROBE_FILE
        else _ARCHIVES[suffix_of(str(path))]
    )
    found: Mapping[str, FoundArray] = _reader(target)(path, shown)
    return found


def find_array(path: FilePath, shown: str) -> StoredArray:
    """Locate the array of a file of one array that is not raw; any other suffix counts as .npy.

    Raises UserError as the reader of the format does.
    """
    found: StoredArray = _reader(_SINGLES.get(suffix_of(str(path)), _SINGLES[".npy"]))(path, shown)
    return found


# Looking up a module takes as long as parsing a header, and a folder has thousands of files.
@cache
def _reader(target: str) -> Callable[[FilePath, str], Any]:
    module, _, function = target.partition(":")
    reader: Callable[[FilePath, str], Any] = getattr(import_module(f"precreg.storage.{module}"), function)
    return reader


def read_recorded(path: FilePath, shown: str) -> dict[str, Array]:
    """Return the arrays of an archive by name, read-only and in native byte order.

    Raises UserError as the reader of the format does.
    """
    from precreg.storage.array_file import to_native_byte_order

    return {name: to_native_byte_order(found.load()) for name, found in find_arrays(path, shown).items()}


def read_single(
    path: FilePath,
    shown: str,
    dtype: str | None = None,
    shape: tuple[int, ...] | None = None,
    byte_order: str = "little",
) -> Array:
    """Return the array of a file that a suite names; dtype, shape and byte order apply to raw files.

    Raises UserError as the reader of the format does.
    """
    from precreg.storage.array_file import find_raw, stored_dtype, to_native_byte_order

    if dtype is None:
        return to_native_byte_order(find_array(path, shown).load())
    # The suite has checked the name.
    order: Literal["<", ">"] = ">" if byte_order == "big" else "<"
    stored = stored_dtype(dtype).newbyteorder(order)
    return to_native_byte_order(find_raw(path, shown, stored, shape, in_suite=True).load())


_DIGITS = re.compile(r"(\d+)")


def natural_order(name: str) -> tuple[tuple[int, str, str], ...]:
    """Return the key that sorts numbers inside names by value: layer2 comes before layer10."""
    # Texts and numbers alternate. Digits compare by their number and then one by one, because int() refuses thousands.
    key = [(0, "", part) for part in _DIGITS.split(name)]
    for at in range(1, len(key), 2):
        part = key[at][2]
        number = part.lstrip("0")
        key[at] = (len(number), number, part)
    return tuple(key)
