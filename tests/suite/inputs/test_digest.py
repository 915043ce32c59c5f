import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from xxhash import xxh3_128

from precreg.storage.array_file import array_digest


def test_what_is_hashed_is_what_the_documentation_says():
    array = np.array([[1, 2, 3], [4, 5, 6]], "<i2")
    data = b"int16 2x3\n" + bytes([1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0])
    assert array_digest(array) == xxh3_128(data).hexdigest()
    assert array_digest(np.array(1.0)) == xxh3_128(b"float64 \n" + bytes(6) + b"\xf0\x3f").hexdigest()


def test_layout_and_byte_order_do_not_matter():
    array = np.arange(12.0).reshape(3, 4)
    same = [np.asfortranarray(array), array.astype(">f8"), np.repeat(array, 2, axis=0)[::2]]
    assert {array_digest(other) for other in same} == {array_digest(array)}


@pytest.mark.parametrize("dtype", [np.float32, ">f4", ml_dtypes.bfloat16, np.longdouble, np.complex64, np.bool_])
def test_an_array_of_any_layout_is_hashed_block_by_block_as_it_would_be_at_once(dtype):
    array = np.random.default_rng(0).integers(0, 2, (3, 257, 301)).astype(dtype)
    views = [array.T, array[:, ::-1, ::2], array[:, 1:, 1:], np.broadcast_to(array[0], array.shape), array[:0].T]
    assert all(not view.flags.c_contiguous or view.size == 0 for view in views)
    for view in views:
        assert array_digest(view) == array_digest(view.copy(order="C"))


@pytest.mark.parametrize("lay_out", [np.ascontiguousarray, np.transpose, lambda array: array.astype(">f4")])
def test_no_array_is_copied_whole(lay_out):
    array = lay_out(np.ones((2000, 1000), np.float32))
    array.setflags(write=False)
    tracemalloc.start()
    try:
        array_digest(array)
        assert tracemalloc.get_traced_memory()[1] < array.nbytes / 8
    finally:
        tracemalloc.stop()


def test_a_mask_or_a_matrix_changes_nothing():
    array = np.array([[1.0, 2.0], [3.0, 4.0]])
    same = [np.ma.masked_array(array, array > 2), np.ma.masked_array(array.T, 0).T, array.view(np.matrix)]
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
