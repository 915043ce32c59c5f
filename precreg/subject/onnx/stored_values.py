"""Which values do the .pb files of ONNX hold: tensors, sequences and optional values, read as data?

A file holds one message without its type, so the reader gives the type. Nothing in a file is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.errors import UserError
from precreg.storage import read_regular_file
from precreg.subject.onnx.session import onnx_package
from precreg.subject.onnx.tensors import BY_NUMBER, STRING, is_plain, measured_array, unpack_elements

# Ends a text among texts of other lengths; no byte of UTF-8 has this value.
_PAD = -1
_MAX_DEPTH = 16


def read_value(path: Path, kind: Any, shown: str) -> Any:
    """Return the value in a .pb file: an array, a list for a sequence, or None for an absent optional value.

    `kind` is the TypeProto of the graph's input or output. Raises UserError: bad-tensor-file.
    """
    onnx = onnx_package()
    content = read_regular_file(path)
    try:
        field = kind.WhichOneof("value")
        if field == "sequence_type":
            return _sequence(onnx.SequenceProto.FromString(content), onnx)
        if field == "optional_type":
            return _optional(onnx.OptionalProto.FromString(content), onnx)
        return _tensor(_declared(onnx.TensorProto.FromString(content), kind, onnx), onnx)
    # protobuf's error is another class in each of its implementations, and onnx raises several for odd sizes.
    except Exception as error:
        message = f"expected a value of {field or 'no type'} but: {' '.join(str(error).split())[:200]}"
        raise UserError("bad-tensor-file", message, file=shown) from None


def _declared(tensor: Any, kind: Any, onnx: Any) -> Any:
    """Return a tensor with the type of the graph where the file has the bits of a bfloat16 as uint16."""
    # The backend tests of onnx 1.17 store bfloat16 so, because numpy has no such dtype.
    types = onnx.TensorProto
    if tensor.data_type == types.UINT16 and kind.tensor_type.elem_type == types.BFLOAT16:
        tensor.data_type = types.BFLOAT16
    return tensor


def _tensor(tensor: Any, onnx: Any) -> NDArray[Any]:
    element = BY_NUMBER.get(tensor.data_type)
    if element is None:
        raise ValueError(f"data_type={tensor.data_type} is no type of a tensor")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ValueError("the data is in another file")
    if is_plain(element):
        array: NDArray[Any] = np.array(onnx.numpy_helper.to_array(tensor))
        return array
    shape = tuple(tensor.dims)
    size = int(np.prod(shape, dtype=np.int64)) if all(each >= 0 for each in shape) else -1
    length = (size * element.bits + 7) // 8
    # Without raw_data an int32 holds one element of 8 or 16 bits, or the bytes that elements of fewer bits share.
    width = f"<u{max(element.bits, 8) // 8}"
    content = tensor.raw_data or np.array(tensor.int32_data, np.int32).astype(width).tobytes()
    if size < 0 or len(content) != length:
        raise ValueError(f"shape {shape} of {element.dtype} has {length} bytes, and the file {len(content)}")
    return unpack_elements(content, element, size).reshape(shape)


def _sequence(sequence: Any, onnx: Any, depth: int = 0) -> list[Any]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"more than {_MAX_DEPTH} sequences are nested")
    kinds = onnx.SequenceProto
    if sequence.elem_type == kinds.TENSOR:
        return [_tensor(each, onnx) for each in sequence.tensor_values]
    if sequence.elem_type == kinds.SEQUENCE:
        return [_sequence(each, onnx, depth + 1) for each in sequence.sequence_values]
    if sequence.elem_type == kinds.OPTIONAL:
        return [_optional(each, onnx, depth + 1) for each in sequence.optional_values]
    if sequence.elem_type == kinds.UNDEFINED and not sequence.ByteSize():
        return []
    raise ValueError(f"elem_type={sequence.elem_type} of a sequence is not supported")


def _optional(optional: Any, onnx: Any, depth: int = 0) -> Any:
    kinds = onnx.OptionalProto
    if optional.elem_type == kinds.TENSOR and optional.HasField("tensor_value"):
        return _tensor(optional.tensor_value, onnx)
    if optional.elem_type == kinds.SEQUENCE and optional.HasField("sequence_value"):
        return _sequence(optional.sequence_value, onnx, depth + 1)
    if optional.elem_type == kinds.OPTIONAL and optional.HasField("optional_value") and depth < _MAX_DEPTH:
        return _optional(optional.optional_value, onnx, depth + 1)
    if not any(optional.HasField(field) for field in _OPTIONAL_VALUES):
        return None
    raise ValueError(f"elem_type={optional.elem_type} of an optional value is not supported")


_OPTIONAL_VALUES = ("tensor_value", "sparse_tensor_value", "sequence_value", "map_value", "optional_value")


def name_stored(values: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Name the arrays in values, so that two values with the same arrays are the same value.

    An element of a sequence is y.0. An empty sequence is y.length, and an absent optional value is y.absent. Strings
    are the bytes of their texts in UTF-8.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in values.items():
        if value is None:
            arrays[f"{name}.absent"] = np.ones((), np.bool_)
        elif isinstance(value, list):
            inner = {f"{name}.{place}": item for place, item in enumerate(value)}
            arrays |= name_stored(inner) if inner else {f"{name}.length": np.zeros((), np.int64)}
        else:
            array = np.asarray(value)
            is_text = array.dtype.kind in "OUS"
            arrays[f"{name}.{STRING.runtime}" if is_text else name] = (
                text_bytes(array) if is_text else measured_array(array)
            )
    return arrays


def text_bytes(texts: NDArray[Any]) -> NDArray[np.int16]:
    """Return the bytes of texts in UTF-8 along a further axis, filled up with -1 to the longest text."""
    contents = [text if isinstance(text, bytes) else str(text).encode() for text in texts.reshape(-1).tolist()]
    found = np.full((len(contents), max(map(len, contents), default=0) + 1), _PAD, np.int16)
    for row, content in zip(found, contents, strict=True):
        row[: len(content)] = np.frombuffer(content, np.uint8)
    return found.reshape(*texts.shape, found.shape[1])
