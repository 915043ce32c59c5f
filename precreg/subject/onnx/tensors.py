"""Which dtypes do tensors of ONNX have, and how do arrays become values of ONNX Runtime and return from it?

Formats that numpy lacks travel by their bytes. Formats that precreg does not measure, such as int4, return in the next
wider one, which holds each of their values.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import DTYPE_NAMES, numpy_dtype
from precreg.errors import UserError


class ElementType(NamedTuple):
    """An element type: its number in TensorProto, its name in ONNX Runtime, its dtype, and its bits."""

    number: int
    runtime: str
    dtype: str
    bits: int


_TYPES = (
    ElementType(1, "float", "float32", 32),
    ElementType(2, "uint8", "uint8", 8),
    ElementType(3, "int8", "int8", 8),
    ElementType(4, "uint16", "uint16", 16),
    ElementType(5, "int16", "int16", 16),
    ElementType(6, "int32", "int32", 32),
    ElementType(7, "int64", "int64", 64),
    ElementType(8, "string", "object", 0),
    ElementType(9, "bool", "bool", 8),
    ElementType(10, "float16", "float16", 16),
    ElementType(11, "double", "float64", 64),
    ElementType(12, "uint32", "uint32", 32),
    ElementType(13, "uint64", "uint64", 64),
    ElementType(14, "complex64", "complex64", 64),
    ElementType(15, "complex128", "complex128", 128),
    ElementType(16, "bfloat16", "bfloat16", 16),
    ElementType(17, "float8e4m3fn", "float8_e4m3fn", 8),
    ElementType(18, "float8e4m3fnuz", "float8_e4m3fnuz", 8),
    ElementType(19, "float8e5m2", "float8_e5m2", 8),
    ElementType(20, "float8e5m2fnuz", "float8_e5m2fnuz", 8),
    ElementType(21, "uint4", "uint4", 4),
    ElementType(22, "int4", "int4", 4),
    ElementType(23, "float4e2m1", "float4_e2m1fn", 4),
    ElementType(24, "float8e8m0", "float8_e8m0fnu", 8),
    ElementType(25, "uint2", "uint2", 2),
    ElementType(26, "int2", "int2", 2),
)
BY_NUMBER = {each.number: each for each in _TYPES}
BY_RUNTIME = {each.runtime: each for each in _TYPES}
STRING = BY_RUNTIME["string"]
_BY_DTYPE = {each.dtype: each for each in _TYPES}
# Formats that precreg does not measure, and the formats in which it gets them.
_WIDER = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8", "float8_e8m0fnu": "float32"}
_TENSOR = re.compile(r"tensor\((\w+)\)")


def tensor_type(runtime: str) -> ElementType | None:
    """Return the element type of "tensor(float)"; None for sequences, optionals, maps and types of later versions."""
    found = _TENSOR.fullmatch(runtime)
    return BY_RUNTIME.get(found[1]) if found else None


def is_plain(element: ElementType) -> bool:
    """Return whether numpy itself has the dtype, so that ONNX Runtime takes and returns its arrays."""
    return element is STRING or hasattr(np, element.dtype) or element.dtype == "bool"


@cache
def element_dtype(element: ElementType) -> np.dtype[Any]:
    """Return the dtype of an element type, from numpy or ml_dtypes. Raises UserError: unknown-dtype."""
    if element.dtype in DTYPE_NAMES:
        return numpy_dtype(element.dtype)
    if is_plain(element):
        return np.dtype(element.dtype)
    import ml_dtypes

    if not hasattr(ml_dtypes, element.dtype):
        installed = f"ml_dtypes {ml_dtypes.__version__}"
        raise UserError("unknown-dtype", f"expected a dtype that {installed} has but got dtype={element.dtype}")
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, element.dtype))
    return dtype


def measured_array(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in a dtype that precreg measures: the same one, or a wider one with the same values."""
    wider = _WIDER.get(array.dtype.name)
    return array if wider is None else array.astype(wider)


def to_runtime(array: NDArray[Any], element: ElementType) -> Any:
    """Return an array as ONNX Runtime takes it: itself, or a value of its own with a copy of the bytes."""
    if is_plain(element):
        return np.ascontiguousarray(array).reshape(array.shape)
    from onnxruntime import OrtValue

    value = OrtValue.ortvalue_from_shape_and_type(list(array.shape), element.number)
    content = pack_elements(array, element.bits)
    ctypes.memmove(value.data_ptr(), content, len(content))
    return value


def runtime_feeds(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as ONNX Runtime takes them, by the dtypes of their arrays; sequences and None stay."""
    return {
        name: to_runtime(value, _BY_DTYPE[value.dtype.name]) if isinstance(value, np.ndarray) else value
        for name, value in values.items()
    }


def from_runtime(value: Any) -> NDArray[Any]:
    """Return a copy of a tensor of ONNX Runtime in its own dtype. Raises UserError: unknown-dtype."""
    element = BY_NUMBER.get(value.element_type())
    if element is None:
        known = f"a type of onnx 1.21 or earlier but got {value.data_type()}"
        raise UserError("unknown-dtype", f"expected {known} from ONNX Runtime")
    if is_plain(element):
        array: NDArray[Any] = np.array(value.numpy())
        return array
    shape = tuple(value.shape())
    size = int(np.prod(shape, dtype=np.int64))
    length = (size * element.bits + 7) // 8
    content = ctypes.string_at(value.data_ptr(), length) if length else b""
    return unpack_elements(content, element, size).reshape(shape)


def pack_elements(array: NDArray[Any], bits: int) -> bytes:
    """Return the elements of an array in C order; elements of 4 or 2 bits share bytes, the first in the lowest bits."""
    content = np.ascontiguousarray(array)
    if bits >= 8:
        return content.tobytes()
    per_byte = 8 // bits
    codes = content.view(np.uint8).reshape(-1) & ((1 << bits) - 1)
    padded = np.zeros(-(-codes.size // per_byte) * per_byte, np.uint8)
    padded[: codes.size] = codes
    shifts = np.arange(per_byte, dtype=np.uint8) * bits
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1)
    return packed.astype(np.uint8).tobytes()


def unpack_elements(content: bytes, element: ElementType, size: int) -> NDArray[Any]:
    """Return the elements that `pack_elements` packed, as an array of one axis."""
    dtype = element_dtype(element)
    if element.bits >= 8:
        return np.frombuffer(content, dtype, size).copy()
    shifts = np.arange(8 // element.bits, dtype=np.uint8) * element.bits
    codes = (np.frombuffer(content, np.uint8)[:, None] >> shifts).reshape(-1)[:size] & ((1 << element.bits) - 1)
    codes = codes.astype(np.uint8)
    if dtype.name.startswith("int"):
        # ml_dtypes reads a byte as a number of 8 bits, so the sign fills the upper bits.
        sign = 1 << (element.bits - 1)
        signed = (codes.astype(np.int8) ^ sign) - sign
        return signed.astype(np.int8).astype(dtype)
    return codes.view(dtype) if dtype.itemsize == 1 else codes.astype(dtype)
