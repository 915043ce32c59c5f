import zipfile

import numpy as np
import pytest

from precreg.errors import UserError
from precreg.storage.array_file import SMALL_BYTES
from precreg.storage.npy import find_npz, read_npz, strip_dtype_suffix


def refusal(do):
    with pytest.raises(UserError) as caught:
        do()
    assert caught.value.slug == "bad-array-file"
    return caught.value.message


def test_stored_members_are_mapped_and_deflated_ones_unpacked(tmp_path):
    array = np.arange(SMALL_BYTES, dtype=np.float32).reshape(2, -1)
    np.savez(tmp_path / "a.npz", x=array)
    np.savez_compressed(tmp_path / "b.npz", x=array)
    for name, mapped in (("a.npz", True), ("b.npz", False)):
        member = find_npz(tmp_path / name, name)["x"]
        assert member.deflated is not mapped
        assert isinstance(member.load(), np.memmap) is mapped
        np.testing.assert_array_equal(member.load(), array)


def test_what_a_run_is_given_lies_where_its_dtype_may(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(5.0), odd=np.arange(3, dtype=np.int8), y=np.arange(5, dtype=">f8"))
    for array in read_npz(tmp_path / "a.npz", "a").values():
        assert array.flags.aligned
        assert not array.flags.writeable
        assert array.dtype.isnative


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_changed_byte_is_noticed(tmp_path, save):
    save(tmp_path / "a.npz", x=np.arange(1000.0))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    assert refusal(find_npz(tmp_path / "a.npz", "a")["x"].load)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_numpy_does_not_write_is_refused(tmp_path, compression):
    np.save(tmp_path / "x.npy", np.arange(9))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as archive:
        archive.write(tmp_path / "x.npy", "x.npy")
    assert "stored or deflated" in refusal(lambda: find_npz(tmp_path / "a.npz", "a"))


def test_a_directory_that_names_a_wrong_place_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(9))
    content = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(content.replace(b"PK\x03\x04", b"PK\x03\x05"))
    assert "no member begins" in refusal(lambda: find_npz(tmp_path / "a.npz", "a"))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("y.npy", "y"),
        ("l/0/y.npy", "l/0/y"),
        ("y.1.npy", "y.1"),
        ("y.bfloat16.npy", "y"),
        ("y.float32.npy", "y.float32"),
        ("y.bfloat16.bin", "y.bfloat16"),
        ("bfloat16.npy", "bfloat16"),
    ],
)
def test_names_of_files(file, name):
    assert strip_dtype_suffix(file) == name
