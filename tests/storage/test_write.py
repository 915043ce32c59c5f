"""What is written is read again with every bit and every dtype, by this room and by numpy."""

from io import BytesIO

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import array_shapes, arrays

from precreg.errors import UserError
from precreg.storage.array_file import dtype_suffix, write_npy, write_npz
from precreg.storage.npy import read_npy, read_npz

DTYPES = ["float64", "float32", "float16", "int8", "uint64", "bool", "complex64", "longdouble", ">f4"]
SHORT = [np.dtype(name) for name in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)]


def written(path, array):
    with path.open("wb") as stream:
        write_npy(stream, array)
    return read_npy(path, path.name)


def patterns(dtype):
    """Return every pattern of a short format, NaNs with their payloads among them."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    return np.arange(2 ** (8 * dtype.itemsize), dtype=np.uint32).astype(unsigned).view(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_numpy_reads_the_same(tmp_path, dtype, shape):
    array = np.ones(shape, dtype)
    read = written(tmp_path / "y.npy", array)
    assert read.shape == np.load(tmp_path / "y.npy").shape == shape
    assert read.dtype == array.dtype.newbyteorder("=")
    assert np.array_equal(np.load(tmp_path / "y.npy"), array)
    assert np.array_equal(read, array)


@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_short_formats_keep_all_their_patterns(tmp_path, dtype):
    array = patterns(dtype)
    assert dtype_suffix(array) == dtype.name
    read = written(tmp_path / f"y.{dtype.name}.npy", array)
    assert (read.dtype, read.tobytes()) == (dtype, array.tobytes())
    assert written(tmp_path / f"z.{dtype.name}.npy", array[3]).shape == ()


@given(arrays(np.float16, array_shapes(min_dims=0, min_side=0)))
def test_the_bytes_are_those_that_numpy_writes(array):
    ours, numpys = BytesIO(), BytesIO()
    write_npy(ours, array)
    np.save(numpys, array)
    assert ours.getvalue() == numpys.getvalue()


def test_an_archive_keeps_names_order_and_dtypes(tmp_path):
    held = {
        "layer/0:w": np.arange(6.0).reshape(2, 3),
        "file": patterns(SHORT[0]),  # a name that numpy.savez does not take
        "y.bfloat16": patterns(SHORT[0])[:5],
        "z.npy": np.float16([1, -0.0]),
        "": np.ones(1),
        "é/..": np.ones(1),
        "n" * 65_531: np.ones(1),
    }
    path = tmp_path / "y.npz"
    with path.open("wb") as stream:
        write_npz(stream, held)
    read = read_npz(path, "y.npz")
    assert list(read) == list(held)
    for name, array in held.items():
        assert (read[name].dtype, read[name].tobytes()) == (array.dtype, array.tobytes())
    assert np.array_equal(np.load(path)["layer/0:w"], held["layer/0:w"])


def test_the_same_arrays_make_the_same_bytes(monkeypatch):
    made = []
    for now in (0, 2e9):
        monkeypatch.setattr("time.time", lambda now=now: now)
        stream = BytesIO()
        write_npz(stream, {"x": np.arange(3)})
        made.append(stream.getvalue())
    assert made[0] == made[1]


@pytest.mark.parametrize("name", ["a\0b", "\udc80", "n" * 65_532, "é" * 32_766])
def test_a_name_that_no_archive_takes_is_refused(name):
    with pytest.raises(UserError) as caught:
        write_npz(BytesIO(), {name: np.ones(1)})
    assert caught.value.slug == "bad-outputs"
    assert str(caught.value).isascii()


def test_two_names_that_become_one_are_refused():
    with pytest.raises(UserError) as caught:
        write_npz(BytesIO(), {"y": patterns(SHORT[0]), "y.bfloat16": np.ones(2)})
    assert caught.value.slug == "bad-outputs"
