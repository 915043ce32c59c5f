from hashlib import sha256

import ml_dtypes
import numpy as np
import pytest

from precreg.inputs.digest import array_digest


def test_what_is_hashed_is_what_the_documentation_says():
    array = np.array([[1, 2, 3], [4, 5, 6]], "<i2")
    data = b"int16 2x3\n" + bytes([1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0])
    assert array_digest(array) == sha256(data).hexdigest()[:32]
    assert array_digest(np.array(1.0)) == sha256(b"float64 \n" + bytes(6) + b"\xf0\x3f").hexdigest()[:32]


def test_layout_and_byte_order_do_not_matter():
    array = np.arange(12.0).reshape(3, 4)
    same = [np.asfortranarray(array), array.astype(">f8"), np.repeat(array, 2, axis=0)[::2]]
    assert {array_digest(other) for other in same} == {array_digest(array)}


def test_dtype_shape_and_every_bit_matter():
    arrays = [
        np.zeros(4),
        -np.zeros(4),
        np.zeros((2, 2)),
        np.zeros(4, np.float32),
        np.zeros(8, np.float32),
        np.zeros(0),
    ]
    arrays += [np.zeros((0, 4)), np.zeros(4, ml_dtypes.bfloat16), np.zeros(4, np.float16), np.zeros(())]
    assert len({array_digest(array) for array in arrays}) == len(arrays)


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble])
def test_padding_does_not_matter(dtype):
    clean, dirty = np.ones(3, dtype), np.ones(3, dtype)
    if np.finfo(dtype).nmant == 63:
        dirty.view(np.uint8)[10 : np.dtype(np.longdouble).itemsize] = 0xAB
    assert array_digest(clean) == array_digest(dirty) != array_digest(2 * clean)
