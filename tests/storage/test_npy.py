import contextlib
import io
import os
import struct
import zipfile
from pathlib import PurePosixPath

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from precreg.errors import UserError
from precreg.storage.array_formats import suffix_of
from precreg.storage.files import read_small_file
from precreg.storage.npy import find_npy, read_npy, read_npz

PLAIN = st.sampled_from(["?", "i1", "<u8", ">i4", "<f2", "<f4", ">f8", "<c8", "<c16"])


def saved(array, **options):
    """Return the bytes that numpy.save writes."""
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def described(descr, shape, data=b""):
    """Return a .npy file whose header says whatever a test wants it to."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def refusal(read, path):
    """Return the UserError of reading a file that must not be read."""
    with pytest.raises(UserError) as caught:
        read(path, "shown/name")
    assert caught.value.file.startswith("shown/name")
    return caught.value


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("arrays")


@given(
    array=PLAIN.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0))),
    fortran=st.booleans(),
)
def test_what_numpy_saves_is_read_again(folder, array, fortran):
    array = np.asfortranarray(array) if fortran else array
    np.save(folder / "a.npy", array)
    np.savez(folder / "a.npz", x=array)
    np.savez_compressed(folder / "b.npz", x=array)
    for read in (
        read_npy(folder / "a.npy", "a"),
        read_npz(folder / "a.npz", "a")["x"],
        read_npz(folder / "b.npz", "b")["x"],
    ):
        assert read.dtype == array.dtype.newbyteorder("=")
        assert read.dtype.isnative
        np.testing.assert_array_equal(read, array)


def test_names_come_in_the_order_of_the_file(tmp_path):
    np.savez(tmp_path / "a.npz", z=np.ones(2), a=np.zeros(3))
    assert {name: array.shape for name, array in read_npz(tmp_path / "a.npz", "a").items()} == {"z": (2,), "a": (3,)}


@pytest.mark.parametrize("read", [read_npy, read_npz])
def test_missing_files_and_folders_are_named(tmp_path, read):
    assert refusal(read, tmp_path / "none.npy").slug == "missing-file"
    assert refusal(read, tmp_path).slug == "missing-file"


BAD = {
    "empty": b"",
    "text": b"1.0 2.0\n",
    "cut in the header": saved(np.ones(3))[:40],
    "cut in the data": saved(np.ones(3))[:-1],
    "longer than it says": saved(np.ones(3)) + b"\0",
    "a header as long as can be": b"\x93NUMPY\x02\x00" + b"\xff" * 4 + b"{" * 9000,
    "pickled": saved(np.array([{}], object), allow_pickle=True),
    "structured": saved(np.zeros(2, "f4,i4")),
    "text array": saved(np.array(["a"])),
    "dates": saved(np.zeros(1, "M8[s]")),
    "version 3": b"\x93NUMPY\x03\x00" + saved(np.ones(3))[8:],
    "far larger than the file": described("<f8", (2**40,)),
    "larger than any memory": described("<f8", (2**62, 2**62)),
    "empty yet too large": described("<f8", (0, 2**62, 2**62)),
    "negative": described("<f8", (-1,)),
    "code in the header": described("<f8", "__import__('os').system('true')"),
    "nested without end": b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000,
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_bad_files_are_refused(tmp_path, content):
    (tmp_path / "bad.npy").write_bytes(content)
    assert refusal(read_npy, tmp_path / "bad.npy").slug == "bad-array-file"
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
        archive.writestr("x.npy", content)
    assert refusal(read_npz, tmp_path / "bad.npz").slug == "bad-array-file"


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn])
def test_an_ml_dtypes_array_is_read_where_its_name_says_the_dtype(tmp_path, dtype):
    array = np.asfortranarray(np.arange(6).reshape(2, 3).astype(dtype))
    name = f"y.1.{array.dtype}"
    np.save(tmp_path / f"{name}.npy", array)
    np.savez(tmp_path / "all.npz", **{name: array, "z.float64": np.ones(2)})
    read = read_npz(tmp_path / "all.npz", "all.npz")
    assert list(read) == ["y.1", "z.float64"]
    for found in (read["y.1"], read_npy(tmp_path / f"{name}.npy", f"golden/{name}.npy")):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("name", ["y", "y.float8_e5m2", "y.finfo", "y.__name__", "y.float16", "bfloat16/y"])
def test_an_ml_dtypes_array_is_refused_otherwise_with_a_way_out(tmp_path, name):
    np.save(tmp_path / "y.npy", np.ones(3, ml_dtypes.bfloat16))
    with pytest.raises(UserError, match=r"y\.bfloat16\.npy") as caught:
        read_npy(tmp_path / "y.npy", f"{name}.npy")
    assert caught.value.slug == "bad-array-file"


def test_two_arrays_of_one_name_in_two_dtypes_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", **{"y": np.ones(2), "y.bfloat16": np.ones(2, ml_dtypes.bfloat16)})
    assert refusal(read_npz, tmp_path / "a.npz").slug == "bad-array-file"


def test_unreadable_files_are_refused(unprivileged):
    path = unprivileged / "a.npy"
    np.save(path, np.ones(3))
    path.chmod(0)
    assert refusal(read_npy, path).slug == "bad-array-file"


def archive_with(path, *members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name in members:
            archive.writestr(name, saved(np.zeros(1000)))
    return path


def test_members_that_are_no_arrays_are_refused(tmp_path):
    assert "readme.txt" in refusal(read_npz, archive_with(tmp_path / "a.npz", "x.npy", "readme.txt")).message


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name_are_refused(tmp_path):
    assert refusal(read_npz, archive_with(tmp_path / "a.npz", "x.npy", "x.npy")).slug == "bad-array-file"


@pytest.mark.parametrize("claim", [2**20, 2**31])
def test_a_size_the_archive_cannot_hold_is_refused(tmp_path, claim):
    content = archive_with(tmp_path / "a.npz", "x.npy").read_bytes()
    true_size = struct.pack("<I", len(saved(np.zeros(1000))))
    (tmp_path / "a.npz").write_bytes(content.replace(true_size, struct.pack("<I", claim)))
    assert refusal(read_npz, tmp_path / "a.npz").slug == "bad-array-file"


@settings(deadline=None)  # files on a machine that is busy
@given(data=st.data())
def test_damaged_files_give_an_array_or_a_refusal(folder, data):
    np.savez_compressed(folder / "damaged.npz", x=np.arange(40), y=np.ones((2, 3)))
    np.save(folder / "damaged.npy", np.arange(40.0))
    for name, read in (("damaged.npz", read_npz), ("damaged.npy", read_npy)):
        content = bytearray((folder / name).read_bytes())
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
        (folder / name).write_bytes(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))])
        with contextlib.suppress(UserError):
            read(folder / name, name)


def test_a_small_file_is_read_and_a_large_one_is_not(tmp_path):
    file = tmp_path / "x"
    file.write_bytes(b"abc")
    assert read_small_file(file, 3) == (3, b"abc")
    assert read_small_file(file, 2) == (3, None)
    file.write_bytes(b"")
    assert read_small_file(file, 3) == (0, b"")


def test_many_files_of_one_header_are_checked_one_by_one(tmp_path):
    whole = saved(np.arange(6, dtype=np.float32))
    for name, content in {
        "a": whole,
        "b": whole[:-4] + b"\0\0\0\x40",
        "short": whole[:-1],
        "long": whole + b"0",
    }.items():
        (tmp_path / f"{name}.npy").write_bytes(content)
    assert read_npy(tmp_path / "a.npy", "a").tolist() == [0, 1, 2, 3, 4, 5]
    assert read_npy(tmp_path / "b.npy", "b").tolist() == [0, 1, 2, 3, 4, 2]
    assert "the file has 23" in refusal(read_npy, tmp_path / "short.npy").message
    assert "the file has 25" in refusal(read_npy, tmp_path / "long.npy").message


def test_one_header_of_raw_bytes_gets_its_dtype_from_each_name(tmp_path):
    numbers = np.arange(3).astype(ml_dtypes.bfloat16)
    for name in ("y.bfloat16.npy", "y.npy", "y.float16.npy"):
        np.save(tmp_path / name, numbers.view("V2"))
    for _ in range(2):
        assert read_npy(tmp_path / "y.bfloat16.npy", "y.bfloat16.npy").dtype == ml_dtypes.bfloat16
        assert "raw bytes" in refusal(read_npy, tmp_path / "y.npy").message
        assert "raw bytes" in refusal(read_npy, tmp_path / "y.float16.npy").message


@pytest.mark.parametrize("padding", range(17))
def test_numbers_of_a_small_file_are_aligned_wherever_its_header_ends(tmp_path, padding):
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }" + b" " * padding
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
    (tmp_path / "y.npy").write_bytes(header + np.array([1.5, -2.0]).tobytes())
    array = find_npy(tmp_path / "y.npy", "y").load()
    assert array.tolist() == [1.5, -2.0]
    assert array.flags.aligned


def test_what_is_no_regular_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OSError, match="no regular file"):
            read_small_file(tmp_path / name, 3)
    with pytest.raises(FileNotFoundError):
        read_small_file(tmp_path / "none", 3)


@pytest.mark.parametrize("name", ["x.npy", "a/b.c/x", "a/.npy", "x.", ".hidden.npy", "x.y.npz", "dir.npy/x", "x", ""])
def test_the_suffix_of_a_text_is_that_of_its_path(name):
    assert suffix_of(name) == PurePosixPath(name).suffix
