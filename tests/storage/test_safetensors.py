import contextlib
import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save, save_file

from precreg.errors import UserError
from precreg.storage.safetensors import MAX_HEADER_BYTES, find_safetensors, write_safetensors

PLAIN = st.sampled_from(["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
ARRAYS = PLAIN.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=4)))


def built(header, data=b"", length=None):
    """Return a file of that header, a mapping or the text itself."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def refusal(path):
    with pytest.raises(UserError) as caught:
        find_safetensors(path, "shown.safetensors")
    assert caught.value.slug == "bad-safetensors-file"
    assert caught.value.file.startswith("shown.safetensors")
    return caught.value.message


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tensors")


@settings(deadline=None)  # files on a machine that is busy
@given(arrays=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), ARRAYS))
def test_what_the_safetensors_package_writes_is_read_as_it_reads_it(folder, arrays):
    arrays.pop("__metadata__", None)
    path = folder / "a.safetensors"
    save_file(arrays, path, {"framework": "np"})
    found = find_safetensors(path, "a")
    with safe_open(path, "np") as theirs:
        assert found.keys() == set(theirs.keys())
        for name, stored in found.items():
            array = stored.load()
            assert array.dtype == theirs.get_tensor(name).dtype
            np.testing.assert_array_equal(array, theirs.get_tensor(name))
            assert not array.flags.writeable


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (ml_dtypes.bfloat16, "BF16"),
        (ml_dtypes.float8_e4m3fn, "F8_E4M3"),
        (ml_dtypes.float8_e5m2, "F8_E5M2"),
    ],
)
def test_the_narrow_formats(tmp_path, dtype, name):
    array = np.linspace(-2, 2, 6).reshape(2, 3).astype(dtype)
    header = {"y": entry(name, (2, 3), (0, array.nbytes))}
    (tmp_path / "a.safetensors").write_bytes(built(header, array.tobytes()))
    found = find_safetensors(tmp_path / "a.safetensors", "a")["y"].load()
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_arrays_are_mapped_and_not_read(tmp_path):
    path = tmp_path / "large.safetensors"
    size = 2**40
    with path.open("wb") as stream:
        stream.write(built({"y": entry("U8", (size,), (0, size))}))
        stream.truncate(stream.tell() + size)
    assert find_safetensors(path, "large")["y"].load().shape == (size,)


BAD = {
    "empty file": (b"", "a header of at most"),
    "cut in the length": (b"\2\0\0", "a header of at most"),
    "longer than the file": (built({}, length=100), "its length is 100"),
    "longer than any header": (built({}, length=MAX_HEADER_BYTES + 1), "at most 100000000 bytes"),
    "as long as can be": (b"\xff" * 8 + b"{}", "a header of at most"),
    "no JSON": (built(b"{"), "JSON"),
    "no text": (built(b"\xff\xff"), "JSON"),
    "nested without end": (built(b'{"a":' * 100_000), "JSON"),
    "a number of very many digits": (built(b'{"a": ' + b"1" * 5000 + b"}"), "JSON"),
    "a list": (built([]), "maps names to arrays"),
    "one name twice": (built(b'{"y": %b, "y": %b}' % ((json.dumps(entry()).encode(),) * 2), bytes(8)), "'y' twice"),
    "one key twice": (built(b'{"y": {"dtype": "F32", "dtype": "F32"}}'), "'dtype' twice"),
    "metadata that are no text": (built({"__metadata__": {"a": 1}}), "text to text"),
    "an array without a shape": (built({"y": {"dtype": "F32", "data_offsets": [0, 8]}}, bytes(8)), "shape"),
    "a key that is not known": (built({"y": entry() | {"order": "F"}}, bytes(8)), "data_offsets"),
    "an array that is none": (built({"y": 3}), "dtype, shape and data_offsets"),
    "an unknown dtype": (built({"y": entry("F4", (16,))}, bytes(8)), "one of the dtypes F64"),
    "a dtype that is no text": (built({"y": entry(["F32"])}, bytes(8)), "one of the dtypes F64"),
    "a length that is negative": (built({"y": entry(shape=(-2,))}, bytes(8)), "whole numbers"),
    "a length that is true": (built({"y": entry(shape=(True, 2))}, bytes(8)), "whole numbers"),
    "a length that is a fraction": (built({"y": entry(shape=(2.0,))}, bytes(8)), "whole numbers"),
    "larger than any memory": (built({"y": entry(shape=(2**62, 2**62))}, bytes(8)), "memory can hold"),
    "empty yet too large": (built({"y": entry(shape=(0, 2**62, 2**62), offsets=(0, 0))}), "memory can hold"),
    "a size that is not the shape's": (built({"y": entry(shape=(3,))}, bytes(8)), "12 bytes apart"),
    "one offset": (built({"y": entry(offsets=(8,))}, bytes(8)), "bytes apart"),
    "backward": (built({"y": entry(offsets=(8, 0))}, bytes(8)), "bytes apart"),
    "a hole at the beginning": (built({"y": entry(offsets=(4, 12))}, bytes(12)), "leaves a hole"),
    "a hole between": (built({"x": entry(), "y": entry(offsets=(12, 20))}, bytes(20)), "leaves a hole"),
    "an overlap": (built({"x": entry(), "y": entry(offsets=(4, 12))}, bytes(12)), "overlaps"),
    "cut in the data": (built({"y": entry()}, bytes(7)), "8 bytes of data, as the header says, but the file has 7"),
    "data that no array has": (built({"y": entry()}, bytes(9)), "the file has 9"),
}


@pytest.mark.parametrize(("content", "says"), BAD.values(), ids=BAD.keys())
def test_bad_files_are_refused(tmp_path, content, says):
    (tmp_path / "bad.safetensors").write_bytes(content)
    assert says in refusal(tmp_path / "bad.safetensors")


WE_ARE_STRICTER = {
    "one name twice",
    "one key twice",
    "a key that is not known",
    "an unknown dtype",
    "empty yet too large",
}


@pytest.mark.parametrize("name", sorted(BAD.keys() - WE_ARE_STRICTER))
def test_what_is_refused_is_refused_by_the_package_too(tmp_path, name):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(BAD[name][0])
    with pytest.raises((SafetensorError, OSError)), safe_open(path, "np") as theirs:
        theirs.keys()


def test_missing_files_and_folders_are_named(tmp_path):
    for path in (tmp_path / "none.safetensors", tmp_path):
        with pytest.raises(UserError) as caught:
            find_safetensors(path, "shown")
        assert caught.value.slug == "missing-file"


@settings(deadline=None)  # files on a machine that is busy
@given(data=st.data())
def test_damaged_files_give_arrays_or_a_refusal(folder, data):
    content = bytearray(save({"x": np.arange(40), "y": np.ones((2, 3), np.float32)}))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path = folder / "damaged.safetensors"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))])
    with contextlib.suppress(UserError):
        for stored in find_safetensors(path, "damaged").values():
            stored.load().sum()


@settings(deadline=None)
@given(arrays=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), ARRAYS))
def test_the_safetensors_package_reads_what_is_written(folder, arrays):
    arrays.pop("__metadata__", None)
    path = folder / "b.safetensors"
    # A transposed array has the same elements in another order in memory.
    arrays = {name: array.T for name, array in arrays.items()}
    with path.open("wb") as stream:
        write_safetensors(stream, arrays)
    with safe_open(path, "np") as theirs:
        assert set(theirs.keys()) == set(arrays)
        for name, array in arrays.items():
            read = theirs.get_tensor(name)
            assert (read.dtype, read.shape, read.tobytes()) == (array.dtype, array.shape, array.tobytes())


@pytest.mark.parametrize(
    ("name", "array"),
    [("x", np.zeros(2, np.complex64)), ("x", np.zeros(2, np.longdouble)), ("__metadata__", np.zeros(2))],
)
def test_what_the_format_lacks_is_not_written(folder, name, array):
    with (folder / "c.safetensors").open("wb") as stream, pytest.raises(UserError, match=r"that \.safetensors has"):
        write_safetensors(stream, {name: array})
