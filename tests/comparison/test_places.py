from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from precreg.comparison.pairing import RawFormat, read_side
from precreg.errors import UserError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
RAW = RawFormat("float32")


def refusal(path, raw=RAW):
    with pytest.raises(UserError) as caught:
        read_side(Path(path), raw)
    return caught.value


@pytest.mark.parametrize("path", ["y.npy", "y.bin"])
def test_a_file_of_one_array(write, path):
    write(path, X)
    side = read_side(Path(path), RawFormat("float32", (2, 3)))
    assert (side.kind, list(side.arrays)) == ("array", ["y"])
    np.testing.assert_array_equal(side.arrays["y"].load(), X)


@pytest.mark.parametrize("path", ["a.npz", "a.safetensors"])
def test_an_archive_goes_by_the_names_of_its_arrays(write, path):
    write(path, {"w": X, "b": X[0]})
    side = read_side(Path(path), RAW)
    assert side.kind == "archive"
    assert {name: place.shown for name, place in side.arrays.items()} == {"w": f"{path}:w", "b": f"{path}:b"}
    np.testing.assert_array_equal(side.arrays["b"].load(), X[0])


@pytest.mark.parametrize("path", ["a.npz", "a.safetensors"])
def test_one_array_of_an_archive_is_named_after_a_colon(write, path):
    write(path, {"w": X, "b": X[0]})
    side = read_side(Path(f"{path}:b"), RAW)
    assert (side.kind, list(side.arrays)) == ("array", ["b"])
    problem = refusal(f"{path}:v")
    assert problem.slug == "unknown-array"


def test_a_folder_is_searched_to_its_bottom(write):
    for path in ("d/y.npy", "d/l/0/w.bin", "d/l/0/y.1.npy", "d/.hidden/z.npy", "d/.z.npy"):
        write(path, X)
    write("d/l/a.npz", {"w": X, "b": X})
    write("d/m.safetensors", {"only": X})
    write("d/notes.txt", "no array")
    side = read_side(Path("d"), RAW)
    assert side.arrays.keys() == {"y", "l/0/w", "l/0/y.1", "l/a:w", "l/a:b", "m:only"}
    assert side.archives == {"l/a": ["w", "b"], "m": ["only"]}
    assert side.passed_over == ("d/notes.txt",)
    assert side.arrays["l/a:w"].shown == "d/l/a.npz:w"


def test_the_dtype_in_a_name_is_no_part_of_it(write):
    write("d/y.bfloat16.npy", X.astype(ml_dtypes.bfloat16))
    assert list(read_side(Path("d"), RAW).arrays) == ["y"]


@pytest.mark.parametrize("second", ["d/y.bin", "d/y.bfloat16.npy"])
def test_two_arrays_of_one_name_are_refused(write, second):
    write("d/y.npy", X)
    write(second, X if second.endswith("bin") else X.astype(ml_dtypes.bfloat16))
    problem = refusal("d")
    assert problem.slug == "not-comparable"
    assert f"{second} and d/y.npy" in problem.message or f"d/y.npy and {second}" in problem.message


def test_two_archives_of_one_name_are_refused(write):
    write("d/y.npz", {"a": X, "b": X})
    write("d/y.safetensors", {"c": X})
    assert refusal("d").slug == "not-comparable"


def test_an_archive_that_cannot_be_read_is_kept_for_the_pairs(write):
    write("d/a.npz", b"broken")
    side = read_side(Path("d"), RAW)
    assert (side.arrays, list(side.broken)) == ({}, ["a"])
    with pytest.raises(UserError, match=r"whole \.npz file"):
        side.broken["a"].load()


def test_what_is_compared_by_itself_is_read_at_once(write):
    write("y.npy", b"broken")
    write("a.npz", b"broken")
    write("y.txt", "1 2 3")
    assert refusal("y.npy").slug == "bad-array-file"
    assert refusal("a.npz").slug == "bad-array-file"
    assert refusal("y.txt").slug == "unknown-file-format"
    assert refusal("none.npy").slug == "missing-file"
    assert refusal("none").slug == "missing-file"
    assert refusal("a:b").slug == "missing-file"


def test_raw_files_need_a_dtype(write):
    write("y.bin", X)
    problem = refusal("y.bin", RawFormat())
    assert (problem.slug, problem.file) == ("bad-raw-file", "y.bin")
    assert refusal("y.bin", RawFormat("flaot32")).slug == "unknown-dtype"
    assert refusal("y.bin", RawFormat("float32", (2, 4))).slug == "bad-raw-file"


def test_the_byte_order_of_raw_files(write):
    write("y.bin", X.astype(">f4"))
    side = read_side(Path("y.bin"), RawFormat("float32", (2, 3), "big"))
    np.testing.assert_array_equal(side.arrays["y"].load(), X)


def test_raw_files_take_the_shape_of_the_other_side_where_their_number_fits(write):
    write("y.bin", X)
    place = read_side(Path("y.bin"), RAW).arrays["y"]
    assert place.takes_any_shape
    assert place.load().shape == (6,)
    assert place.load((2, 3)).shape == (2, 3)
    assert place.load((2, 4)).shape == (6,)


def test_links_to_files_are_followed_and_links_to_folders_are_not(write, tmp_path):
    write("elsewhere/y.npy", X)
    (tmp_path / "d").mkdir()
    (tmp_path / "d/y.npy").symlink_to(tmp_path / "elsewhere/y.npy")
    (tmp_path / "d/round").symlink_to(tmp_path / "d")
    assert list(read_side(Path("d"), RAW).arrays) == ["y"]
