"""ONNX tensors of .pb files, encoded by hand from the description of protocol buffers."""

import struct

import ml_dtypes
import numpy as np
import pytest

from precreg.errors import UserError
from precreg.storage.tensor_proto import find_tensor_proto


def varint(value):
    value &= (1 << 64) - 1
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def field(number, value):
    """Return a field: of a whole number, or of bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def proto(dims, data_type, *fields):
    return b"".join(field(1, length) for length in dims) + field(2, data_type) + b"".join(fields)


@pytest.fixture
def load(tmp_path):
    def load(content):
        path = tmp_path / "y.pb"
        path.write_bytes(content)
        return find_tensor_proto(path, "y.pb").load()

    return load


RAW = np.arange(6, dtype=np.float32).reshape(2, 3)
SIGNED = np.array([-3, 7], np.int64)
HALF = np.array([1.5, -2.0], np.float16)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (proto((2, 3), 1, field(9, RAW.tobytes())), RAW),
        (field(1, varint(2) + varint(3)) + field(2, 1) + field(4, RAW.tobytes()), RAW),
        (proto((2,), 1, *(varint(4 << 3 | 5) + struct.pack("<f", x) for x in (0.5, -1))), np.float32([0.5, -1])),
        (proto((2,), 7, field(7, varint(-3) + varint(7))), SIGNED),
        (proto((2,), 6, field(5, -3), field(5, 7)), SIGNED.astype(np.int32)),
        (proto((2,), 3, field(5, varint(-3) + varint(7))), SIGNED.astype(np.int8)),
        (proto((2,), 13, field(11, varint(2**64 - 1) + varint(7))), np.array([2**64 - 1, 7], np.uint64)),
        (proto((2,), 9, field(5, varint(1) + varint(0))), np.array([True, False])),
        (proto((2,), 10, field(5, b"".join(map(varint, HALF.view(np.uint16).tolist())))), HALF),
        (proto((1,), 16, field(9, b"\xc0\x3f")), np.array([1.5], ml_dtypes.bfloat16)),
        (proto((1,), 17, field(5, 0x3C)), np.array([1.5], ml_dtypes.float8_e4m3fn)),
        (proto((1,), 14, field(4, np.float32([1, 2]).tobytes())), np.complex64([1 + 2j])),
        (proto((2,), 11, field(10, np.float64([1, 2]).tobytes()), field(8, b"name")), np.float64([1, 2])),
        (proto((0,), 1), np.zeros(0, np.float32)),
        (proto((), 1, field(9, RAW.tobytes()[:4])), np.float32(0)),
    ],
)
def test_every_field_of_data(load, content, expected):
    found = load(content)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            proto((2, 3), 1, field(9, RAW.tobytes()[:20])),
            "24 bytes (float32 of shape (2, 3)) of data but",
        ),
        (proto((2, 3), 1, field(9, RAW.tobytes()))[:-1], "field 9 ends beyond the file's"),
        (proto((1 << 40, 1 << 40), 1), "a shape that memory can hold"),
        (proto((-1,), 1), "a shape that memory can hold"),
        (proto((1,), 8, field(6, b"text")), "a tensor of numbers but got one of strings"),
        (proto((1,), 99), "number 99"),
        (proto((1,), 1, field(14, 1)), "external data"),
        (b"\x0b", "byte 0 begins no field"),
        (b"\xff" * 12, "more than 64 bits"),
        (b"", "number 0"),
    ],
)
def test_a_damaged_file_is_refused(load, content, says):
    with pytest.raises(UserError) as caught:
        load(content)
    assert (caught.value.slug, caught.value.file) == ("bad-tensor-file", "y.pb")
    assert says in caught.value.message
