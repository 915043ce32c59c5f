"""Which array does an ONNX .pb file hold?

The file is one TensorProto, as the data of ONNX node tests are: a protocol buffer of few fields, which this module
reads itself. The format: onnx/onnx.proto, message TensorProto, and https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from precreg.errors import UserError
from precreg.storage.array_file import (
    FilePath,
    StoredArray,
    fits_in_memory,
    open_array_file,
    stored_dtype,
    stream_size,
)

# Data are in the file itself, and protocol buffers end at 2 GiB.
MAX_PROTO_BYTES = (1 << 31) - 1

# The numbers of fields.
_DIMS, _DATA_TYPE, _FLOATS, _INT32S, _INT64S, _RAW, _DOUBLES, _UINT64S, _LOCATION = 1, 2, 4, 5, 7, 9, 10, 11, 14

# TensorProto.DataType.
_DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
}
_STRING = 8
# Elements of these types are bit patterns in int32_data.
_PATTERNS = {"float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def find_tensor_proto(path: FilePath, shown: str) -> StoredArray:
    """Return the array of a .pb file; its elements are a part of the file or decoded.

    Raises:
        UserError: missing-file; bad-tensor-file, for anything but one tensor of numbers with its data.
    """
    with open_array_file(path, shown) as stream:
        size = stream_size(stream)
        if size > MAX_PROTO_BYTES:
            raise _bad(shown, f"at most {MAX_PROTO_BYTES} bytes but the file has {size}")
        content = stream.read()
    try:
        fields = _fields(content)
        dtype, shape = _dtype(fields, shown), tuple(_integers(fields[_DIMS]))
    except ValueError as error:
        raise _bad(shown, f"a TensorProto of ONNX but: {error}") from None
    if any(length >= 1 << 63 for length in shape) or not fits_in_memory(shape, dtype):
        raise _bad(shown, f"a shape that memory can hold but got {list(shape)}")
    if fields[_LOCATION] and fields[_LOCATION][-1][1]:
        raise _bad(shown, "data in the file itself but they are in another file (external data)")
    try:
        data = _data(fields, dtype)
    except ValueError as error:
        raise _bad(shown, f"a TensorProto of ONNX but: {error}") from None
    if len(data) != prod(shape) * dtype.itemsize:
        needed = f"{prod(shape) * dtype.itemsize} bytes ({dtype} of shape {shape})"
        raise _bad(shown, f"{needed} of data but the tensor has {len(data)}")
    return StoredArray(path, shown, dtype, shape, "C", 0, data)


def _bad(shown: str, expectation: str) -> UserError:
    return UserError("bad-tensor-file", f"expected {expectation}", file=shown)


# A field's value: the wire type, and a number or bytes.
_Field = tuple[int, Any]


def _fields(content: bytes) -> defaultdict[int, list[_Field]]:
    """Return the values of each field of a message, in their order. Raises ValueError."""
    found: defaultdict[int, list[_Field]] = defaultdict(list)
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        number, wire = key >> 3, key & 7
        value: Any
        if wire == _VARINT:
            value, at = _varint(content, at)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
            value, at = content[at : at + length], at + length
        elif wire == _BYTES:
            length, at = _varint(content, at)
            value, at = content[at : at + length], at + length
        else:
            raise ValueError(f"byte {at - 1} begins no field")
        if at > len(content):
            raise ValueError(f"field {number} ends beyond the file's {len(content)} bytes")
        found[number].append((wire, value))
    return found


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            raise ValueError(f"a number ends beyond the file's {len(content)} bytes")
        value |= (content[at] & 0x7F) << shift
        at += 1
        if not content[at - 1] & 0x80:
            return value & (1 << 64) - 1, at
    raise ValueError(f"the number at byte {at} has more than 64 bits")


def _integers(values: list[_Field]) -> Iterator[int]:
    """Yield the numbers of a repeated field, packed or one by one."""
    for wire, value in values:
        if wire == _VARINT:
            yield value
        elif wire == _BYTES:
            at = 0
            while at < len(value):
                number, at = _varint(value, at)
                yield number
        else:
            raise ValueError("a field of integers has another type")


def _dtype(fields: defaultdict[int, list[_Field]], shown: str) -> np.dtype[Any]:
    number = [*_integers(fields[_DATA_TYPE])][-1:] or [0]
    if number[0] == _STRING:
        raise _bad(shown, "a tensor of numbers but got one of strings")
    if number[0] not in _DTYPES:
        raise _bad(shown, f"a data type of {', '.join(_DTYPES.values())} but got number {number[0]}")
    return stored_dtype(_DTYPES[number[0]]).newbyteorder("<")


def _data(fields: defaultdict[int, list[_Field]], dtype: np.dtype[Any]) -> bytes:
    """Return the elements as little-endian bytes. Raises ValueError."""
    if fields[_RAW]:
        wire, raw = fields[_RAW][-1]
        if wire != _BYTES:
            raise ValueError("raw_data has another type")
        return bytes(raw)
    if dtype.name in ("float32", "complex64"):
        return _joined(fields[_FLOATS])
    if dtype.name in ("float64", "complex128"):
        return _joined(fields[_DOUBLES])
    if dtype.name in ("uint32", "uint64"):
        return np.array([*_integers(fields[_UINT64S])], np.uint64).astype(dtype).tobytes()
    values = [*_integers(fields[_INT64S] if dtype.name == "int64" else fields[_INT32S])]
    # Negative numbers are 64-bit two's complement.
    whole = np.array(values, np.uint64).view(np.int64)
    if dtype.name in _PATTERNS:
        return whole.astype(f"<u{dtype.itemsize}").tobytes()
    return whole.astype(dtype).tobytes()


def _joined(values: list[_Field]) -> bytes:
    if any(wire == _VARINT for wire, _ in values):
        raise ValueError("a field of floating-point numbers has another type")
    return b"".join(value for _, value in values)
