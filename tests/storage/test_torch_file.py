"""Tensors of .pt files without torch: views of storages, and every hostile file refused before it runs anything."""

import zipfile

import numpy as np
import pytest

from precreg.errors import UserError
from precreg.storage.torch_file import _FUNCTIONS, find_torch_tensors
from tests.storage.torch_files import number, tensor, text, write_torch_file

DATA = np.arange(6, dtype=np.float32)


def load(path):
    return {name: found.load() for name, found in find_torch_tensors(path, "y.pt").items()}


def refused(path):
    with pytest.raises(UserError) as caught:
        load(path)
    assert (caught.value.slug, caught.value.file) == ("bad-tensor-file", "y.pt")
    return caught.value.message


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "expected"),
    [
        ((2, 3), (3, 1), 0, DATA.reshape(2, 3)),
        ((3, 2), (1, 3), 0, DATA.reshape(2, 3).T),
        ((2, 2), (3, 1), 1, DATA.reshape(2, 3)[:, 1:]),
        ((2,), (2,), 1, DATA[1:4:2]),
        ((), (), 5, DATA[5]),
        ((0, 3), (3, 1), 0, DATA[:0].reshape(0, 3)),
    ],
)
def test_a_tensor_is_a_view_of_its_storage(tmp_path, shape, strides, offset, expected):
    path = write_torch_file(tmp_path / "y.pt", tensor(shape, strides, offset), DATA.tobytes())
    (found,) = load(path).values()
    np.testing.assert_array_equal(found, expected)


def test_names_are_dotted_and_numbers_left_out(tmp_path):
    pickled = (
        b"}(" + text("layer") + b"(" + tensor((6,), (1,)) + tensor((2,), (1,)) + b"l" + text("n") + number(3) + b"u"
    )
    assert [*load(write_torch_file(tmp_path / "y.pt", pickled, DATA.tobytes()))] == ["layer.0", "layer.1"]


def test_a_pickle_that_would_run_code_is_refused_and_runs_none(tmp_path):
    ran = tmp_path / "ran"
    pickled = b"cos\nsystem\n(" + text(f"touch {ran}") + b"tR"
    message = refused(write_torch_file(tmp_path / "y.pt", pickled, b""))
    assert "the file names os.system, which may run code; save a state_dict" in message
    assert not ran.exists()


@pytest.mark.parametrize("name", ["builtins\neval", "torch.nn.modules.linear\nLinear", "torch\nload", "numpy\nndarray"])
def test_every_other_name_is_refused(tmp_path, name):
    message = refused(write_torch_file(tmp_path / "y.pt", f"c{name}\n".encode(), b""))
    assert name.replace("\n", ".") in message


def nameable():
    """Return the functions that a file may name, with what a pickle could set on them."""
    return [(name, function, getattr(function, "__defaults__", None)) for name, function in _FUNCTIONS.items()]


def test_a_file_cannot_change_the_functions_that_it_may_name(tmp_path):
    before = nameable()
    state = b"N}(" + text("__defaults__") + b"(" + number(1) + b"t" + text("function") + b"Nu\x86b"
    refused(write_torch_file(tmp_path / "y.pt", b"ctorch._utils\n_rebuild_tensor_v2\n" + state, b""))
    assert nameable() == before
    assert len(load(write_torch_file(tmp_path / "z.pt", tensor((6,), (1,)), DATA.tobytes()))) == 1


@pytest.mark.parametrize(
    ("pickled", "data", "says"),
    [
        (tensor((7,), (1,)), DATA.tobytes(), "7 elements of shape (7,) for the tensor but its storage has 6"),
        (tensor((6,), (1,)), DATA.tobytes()[:20], "but its storage has 5"),
        (tensor((3,), (1,), 4), DATA.tobytes(), "inside its storage of 6 elements but it ends at 6"),
        (tensor((2,), (5,), 1), DATA.tobytes(), "ends at 6"),
        (tensor((10**9, 10**9), (0, 0)), DATA.tobytes(), "its storage has 6; save tensor.contiguous()"),
        (tensor((2,), (-1,), 3), DATA.tobytes(), "strides of whole numbers"),
        (tensor((2,), (1, 1)), DATA.tobytes(), "strides of whole numbers"),
        (tensor((6,), (1,), key="1"), DATA.tobytes(), "a member data/1"),
        (tensor((6,), (1,), key="../0"), DATA.tobytes(), "the number of a storage"),
        (number(3), b"", "at least one tensor"),
        (text("x") + b"Q", b"", "storages of torch"),
        (b"\xff", b"", "a whole .pt file"),
        (b"(" * 1000 + b"l" * 1000, b"", "at most 100 deep"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, pickled, data, says):
    assert says in refused(write_torch_file(tmp_path / "y.pt", pickled, data))


def test_a_compressed_member_is_refused(tmp_path):
    path = write_torch_file(tmp_path / "y.pt", tensor((6,), (1,)), b"\0" * 10**6, compression=zipfile.ZIP_DEFLATED)
    assert "members that are stored" in refused(path)


def test_another_archive_is_refused(tmp_path):
    path = write_torch_file(tmp_path / "y.pt", tensor((6,), (1,)), DATA.tobytes(), extra=[("other/data.pkl", b"")])
    assert "twice" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("y/model.json", "{}")
    assert "the archive of torch.save" in refused(path)
