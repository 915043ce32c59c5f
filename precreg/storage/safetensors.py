"""Which arrays does a .safetensors file hold?

The file is 8 bytes of length, a JSON header, then the arrays one after the other, little-endian. This reader is
stricter than the format requires: it refuses duplicate keys, unclaimed bytes, and bytes that two arrays share. The
format: https://github.com/huggingface/safetensors, README, "Format".
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.errors import UserError
from precreg.storage.array_file import (
    FilePath,
    StoredArray,
    fits_in_memory,
    little_endian_bytes,
    open_array_file,
    stream_size,
)

# The limit of the format's own reader.
MAX_HEADER_BYTES = 100_000_000
_LENGTH_BYTES = 8
_METADATA = "__metadata__"

_NUMPY = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}

_ML_DTYPES = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
_CODES = {np.dtype(dtype).name: code for code, dtype in _NUMPY.items()} | {
    dtype: code for code, dtype in _ML_DTYPES.items()
}


class _Entry(NamedTuple):
    """Describe one array of the header; `begin` and `end` count from the end of the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def find_safetensors(path: FilePath, shown: str) -> dict[str, StoredArray]:
    """Locate the named arrays of a .safetensors file, in the order of its header.

    Raises:
        UserError: missing-file; bad-safetensors-file, for an unreadable header, or one that does not match the data.
    """
    with open_array_file(path, shown) as stream:
        size = stream_size(stream)
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        if size < _LENGTH_BYTES or length > min(MAX_HEADER_BYTES, size - _LENGTH_BYTES):
            most = f"at most {MAX_HEADER_BYTES} bytes, within the file's {size}"
            raise _bad(shown, f"a header of {most}, but its length is {length}")
        header = _parse_header(stream.read(length), shown)
    start = _LENGTH_BYTES + length
    entries = {name: _entry(entry, f"{shown}:{name}") for name, entry in header.items() if name != _METADATA}
    _check_metadata(header, shown)
    _check_places(entries, size - start, shown)
    return {
        name: StoredArray(path, f"{shown}:{name}", entry.dtype, entry.shape, "C", start + entry.begin)
        for name, entry in entries.items()
    }


def write_safetensors(stream: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a .safetensors file of named arrays, in their order.

    Raises:
        UserError: bad-value, for a dtype that the format lacks, such as complex numbers.
    """
    header: dict[str, Any] = {}
    end = 0
    for name, array in arrays.items():
        code = _CODES.get(array.dtype.name)
        if code is None or name == _METADATA:
            message = f"expected a name and dtype that .safetensors has but got {name} of dtype={array.dtype.name}"
            raise UserError("bad-value", message, hint="write the array as .npy: numpy.save('x.npy', array)")
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    # Readers map the data, which numbers of 8 bytes want aligned.
    text += b" " * (-len(text) % _LENGTH_BYTES)
    stream.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
    for array in arrays.values():
        stream.write(little_endian_bytes(array))


def _bad(shown: str, expectation: str) -> UserError:
    return UserError("bad-safetensors-file", f"expected {expectation}", file=shown)


def _parse_header(content: bytes, shown: str) -> dict[str, Any]:
    # Of two equal keys, json takes the last; another reader of the same file may take the first.
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise _bad(shown, f"each key once but the header has {twice!r} twice")
        return mapping

    try:
        header = json.loads(content.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise _bad(shown, f"a header of JSON but got: {error}") from None
    if not isinstance(header, dict):
        raise _bad(shown, "a header of JSON that maps names to arrays but got something else")
    return header


def _check_metadata(header: dict[str, Any], shown: str) -> None:
    metadata = header.get(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise _bad(shown, f"{_METADATA} to map text to text but it does not")


def _entry(entry: Any, shown: str) -> _Entry:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise _bad(shown, f"dtype, shape and data_offsets but got {_short(entry)}")
    dtype = _dtype(entry["dtype"], shown)
    shape, offsets = _lengths(entry["shape"], "shape", shown), _lengths(entry["data_offsets"], "data_offsets", shown)
    if not fits_in_memory(shape, dtype):
        raise _bad(shown, f"a shape that memory can hold but got shape={_short(shape)}")
    size = prod(shape) * dtype.itemsize
    if len(offsets) != 2 or offsets[1] - offsets[0] != size:
        raise _bad(shown, f"data_offsets {size} bytes apart ({dtype} of shape {shape}) but got {_short(offsets)}")
    return _Entry(dtype, shape, *offsets)


def _dtype(name: Any, shown: str) -> np.dtype[Any]:
    if not isinstance(name, str) or name not in _NUMPY.keys() | _ML_DTYPES.keys():
        raise _bad(shown, f"one of the dtypes {', '.join((*_NUMPY, *_ML_DTYPES))} but got dtype={_short(name)}")
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))
    return dtype


def _lengths(value: Any, key: str, shown: str) -> tuple[int, ...]:
    # `type(item) is int`, because isinstance would accept true and false.
    if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
        raise _bad(shown, f"{key} of whole numbers that are not negative but got {_short(value)}")
    return tuple(value)


def _check_places(entries: dict[str, _Entry], available: int, shown: str) -> None:
    """Require contiguous arrays, from the first byte after the header to the last byte of the file."""
    end = 0
    # Sorted by end as well, so that empty arrays come before the array that begins at the same byte.
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != end:
            fault = "overlaps the array before it" if entry.begin < end else "leaves a hole before it"
            raise _bad(shown, f"arrays one after the other but {name!r} {fault}: it begins at {entry.begin}, not {end}")
        end = entry.end
    if end != available:
        raise _bad(shown, f"{end} bytes of data, as the header says, but the file has {available}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
