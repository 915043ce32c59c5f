"""Which files beside an ONNX model hold its weights?

The names are found in the bytes of the model, by the wire format of protobuf. The package onnx is not needed, because
precreg lists the dependencies of cases without it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from os.path import normpath
from pathlib import Path

from precreg.storage import open_regular_file

# Field numbers of onnx.proto (onnx 1.17). Tensors of weights may also be in functions, subgraphs and attributes.
_MESSAGES = {
    "Model": {7: "Graph", 20: "Training", 25: "Function"},
    "Training": {1: "Graph", 2: "Graph"},
    "Graph": {1: "Node", 5: "Tensor", 15: "Sparse"},
    "Function": {7: "Node", 11: "Attribute"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "Sparse", 23: "Sparse"},
    "Sparse": {1: "Tensor", 2: "Tensor"},
    "Tensor": {13: "Entry"},
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_MAX_DEPTH = 64


class _BytesError(Exception):
    """The bytes are no protobuf message."""


def external_files(model: Path) -> tuple[Path, ...]:
    """Return the files that a model names as external data, in the order of their first use, existing or not.

    Return none for a file that is missing or no model: a case of it fails when it runs.
    """
    with suppress(OSError):
        found = model.stat()
        return _external_files(model, found.st_mtime_ns, found.st_size)
    return ()


# The time and the size are parts of the key, so that a changed file is read again.
@lru_cache(maxsize=256)
def _external_files(model: Path, modified_ns: int, size: int) -> tuple[Path, ...]:
    if size == 0:
        return ()
    with open_regular_file(model) as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        names: dict[str, None] = {}
        with suppress(_BytesError):
            for name in _locations(data, 0, len(data), "Model", 0):
                names[name] = None
    return tuple(Path(normpath(model.parent / name)) for name in names)


def _locations(data: mmap.mmap, start: int, end: int, kind: str, depth: int) -> Iterator[str]:
    """Yield the values of `location` in the external data of all tensors of a message."""
    if depth > _MAX_DEPTH:
        raise _BytesError
    inner = _MESSAGES[kind]
    for number, first, last in _fields(data, start, end):
        if number not in inner:
            continue
        if inner[number] == "Entry":
            entry = {name: data[begin:stop] for name, begin, stop in _fields(data, first, last)}
            if entry.get(1) == b"location":
                yield entry.get(2, b"").decode("utf-8", "replace")
        else:
            yield from _locations(data, first, last, inner[number], depth + 1)


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number, start, end) of each field that has bytes."""
    place = start
    while place < end:
        tag, place = _varint(data, place, end)
        kind = tag & 7
        if kind == _BYTES:
            length, place = _varint(data, place, end)
            if length > end - place:
                raise _BytesError
            yield tag >> 3, place, place + length
            place += length
        elif kind == _VARINT:
            _, place = _varint(data, place, end)
        elif kind in (_FIXED64, _FIXED32):
            place += 8 if kind == _FIXED64 else 4
        else:
            raise _BytesError


def _varint(data: mmap.mmap, place: int, end: int) -> tuple[int, int]:
    """Return the number at a place, and the place after it."""
    value = 0
    for count in range(_MAX_VARINT_BYTES):
        if place >= end:
            raise _BytesError
        byte = data[place]
        value |= (byte & 0x7F) << (7 * count)
        place += 1
        if byte < 0x80:
            return value, place
    raise _BytesError
