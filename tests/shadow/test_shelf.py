import os

import numpy as np
import pytest

from precreg.shadow.numpy.tape import ARRAYS
from precreg.shadow.shelf import Shelf


def arrays(count=10):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(64, 32)).astype(np.float32) for _ in range(count)]


def keep_all(shelf, given):
    """Keep copies: what happens to the originals does not matter."""
    kept = []
    for each in given:
        original = each.copy()
        kept.append(shelf.keep(original, original.nbytes))
        original[...] = -1
    return kept


@pytest.mark.parametrize(("values_in_memory", "blocks_in_files"), [(20, 0), (10, 0), (9, 1), (3, 3), (1, 9), (0.5, 10)])
def test_values_beyond_the_limit_wait_in_a_file_and_come_back_with_their_bits(values_in_memory, blocks_in_files):
    given = arrays()
    shelf = Shelf(ARRAYS, limit=int(values_in_memory * given[0].nbytes))
    kept = keep_all(shelf, given)
    assert shelf.file_bytes == blocks_in_files * max(int(values_in_memory), 1) * given[0].nbytes
    for one, array in reversed([*zip(kept, given, strict=True)]):
        assert one.get().dtype == array.dtype
        np.testing.assert_array_equal(one.get(), array)


def test_a_shelf_may_go_on_after_values_were_read_from_its_file():
    given = arrays()
    shelf = Shelf(ARRAYS, limit=given[0].nbytes)
    kept = []
    for each in given:
        kept.append(shelf.keep(each, each.nbytes))
        np.testing.assert_array_equal(kept[0].get(), given[0])
    for one, array in zip(kept, given, strict=True):
        np.testing.assert_array_equal(one.get(), array)


@pytest.mark.parametrize(
    "array",
    [np.arange(4096.0).reshape(64, 64).T, np.full((40, 40), 2 - 1j), np.ones((2048, 0)), np.ones(()), np.ones(9) > 0],
)
@pytest.mark.parametrize("limit", [1, 2**20])
def test_layouts_and_dtypes_come_back(array, limit):
    kept = Shelf(ARRAYS, limit).keep(array, array.nbytes)
    np.testing.assert_array_equal(kept.get(), array)
    assert (kept.get().dtype, kept.get().shape) == (array.dtype, array.shape)


def test_without_room_for_a_file_values_stay_in_memory(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    given = arrays()
    shelf = Shelf(ARRAYS, limit=2 * given[0].nbytes)
    kept = keep_all(shelf, given)
    assert shelf.is_full
    assert shelf.file_bytes == 0
    for one, array in zip(kept, given, strict=True):
        np.testing.assert_array_equal(one.get(), array)


def test_a_file_closes_when_none_of_its_values_is_kept(monkeypatch):
    monkeypatch.setattr("precreg.shadow.shelf._FILE_BYTES", 0)
    given = arrays(2)
    shelf = Shelf(ARRAYS, limit=1)
    before = len(os.listdir("/proc/self/fd"))
    kept = keep_all(shelf, given)
    assert len(os.listdir("/proc/self/fd")) == before + 2
    del kept[0]
    assert len(os.listdir("/proc/self/fd")) == before + 1
    np.testing.assert_array_equal(kept[0].get(), given[1])
