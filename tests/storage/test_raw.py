import numpy as np
import pytest

from precreg.errors import UserError
from precreg.storage.array_file import SMALL_BYTES, find_raw


@pytest.fixture
def raw(tmp_path):
    """Return a function that writes bytes and finds the array in them."""

    def raw(content, dtype, shape):
        (tmp_path / "a.bin").write_bytes(content)
        return find_raw(tmp_path / "a.bin", "shown.bin", np.dtype(dtype), shape)

    return raw


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f2", ">i8", "?", "<c16"])
def test_elements_are_read_in_the_order_they_stand_in(raw, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    found = raw(array.tobytes(), dtype, (2, 3)).load()
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, array)
    assert not found.flags.writeable


@pytest.mark.parametrize(("size", "mapped"), [(SMALL_BYTES, False), (SMALL_BYTES + 4, True)])
def test_large_files_are_mapped_and_small_ones_read(raw, size, mapped):
    found = raw(bytes(size), "f4", None).load()
    assert found.nbytes == size
    assert isinstance(found, np.memmap) is mapped
    assert not found.flags.writeable


def test_without_a_shape_there_is_one_axis(raw):
    assert raw(bytes(24), "f4", None).shape == (6,)
    assert raw(b"", "f4", None).load().shape == (0,)


def test_a_number_by_itself(raw):
    assert raw(np.float32(3).tobytes(), "f4", ()).load() == 3


@pytest.mark.parametrize(
    ("size", "shape", "says"),
    [
        (23, None, "4 bytes each) but the file has 23 bytes"),
        (20, (2, 3), "24 bytes (float32 of shape (2, 3)) but the file has 20"),
        (28, (2, 3), "24 bytes (float32 of shape (2, 3)) but the file has 28"),
        (4, (2**62, 2**62), "memory can hold"),
        (0, (0, 2**62, 2**62), "memory can hold"),
    ],
)
def test_a_file_of_another_size_is_refused_before_anything_is_allocated(raw, size, shape, says):
    with pytest.raises(UserError) as caught:
        raw(bytes(size), "f4", shape)
    assert caught.value.slug == "bad-raw-file"
    assert says in caught.value.message
    assert caught.value.file == "shown.bin"


@pytest.mark.parametrize(
    ("dtype", "size", "in_suite", "says"),
    [
        ("f4", 48, True, "is it float64? write dtype: float64; for a reference or golden, reference_dtype: float64"),
        ("f4", 48, False, "is it float64? write --reference-dtype float64, or --dtype float64 for both sides"),
        ("f8", 24, False, "is it float32? write --reference-dtype float32, or --dtype float32 for both sides"),
        (">f8", 24, True, "is it float32? write dtype: float32; for a reference or golden, reference_dtype: float32"),
        ("i4", 12, False, "is it int16? write --reference-dtype int16, or --dtype int16 for both sides"),
        ("f4", 20, True, "describe the file as it was written: dtype: float32, shape: [4, 64], byte_order: little"),
        ("f8", 96, True, "describe the file as it was written: dtype: float32, shape: [4, 64], byte_order: little"),
        ("f2", 6, True, "describe the file as it was written: dtype: float32, shape: [4, 64], byte_order: little"),
        ("f4", 20, False, "describe the file as it was written: --dtype float32 --shape 4x64 --byte-order little"),
    ],
)
def test_the_hint_names_the_dtype_that_fits_in_the_words_of_suites_or_of_compare(tmp_path, dtype, size, in_suite, says):
    (tmp_path / "a.bin").write_bytes(bytes(size))
    with pytest.raises(UserError) as caught:
        find_raw(tmp_path / "a.bin", "a.bin", np.dtype(dtype), (2, 3), in_suite=in_suite)
    assert f"what to do: {says}" in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    for path in (tmp_path / "none.bin", tmp_path):
        with pytest.raises(UserError, match="expected a file"):
            find_raw(path, "shown", np.dtype("f4"), None)


@pytest.mark.parametrize("size", [24, 2 * SMALL_BYTES])
def test_a_file_that_becomes_shorter_after_it_was_found_is_refused(raw, tmp_path, size):
    found = raw(bytes(size), "f4", None)
    (tmp_path / "a.bin").write_bytes(bytes(size - 4))
    with pytest.raises(UserError) as caught:
        found.load()
    assert caught.value.slug == "bad-array-file"
