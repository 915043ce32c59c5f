import os

import numpy as np
import pytest

from precreg.shadow.numpy.tape import ARRAYS
from precreg.shadow.shelf import Shelf


def arrays(count=10):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(64, 32)).astype(np.float32) for _ in range(count)]


def test_values_beyond_the_limit_wait_in_a_file_and_come_back_with_their_bits():
    given = arrays()
    shelf = Shelf(ARRAYS, limit=3 * given[0].nbytes)
    kept = [shelf.keep(each, each.nbytes) for each in given]
    assert shelf.bytes == 3 * given[0].nbytes
    assert shelf.file_bytes == 7 * given[0].nbytes
    for one, array in reversed([*zip(kept, given, strict=True)]):
        assert one.get().dtype == array.dtype
        np.testing.assert_array_equal(one.get(), array)


def test_a_shelf_may_go_on_after_values_were_read_from_its_file():
    given = arrays()
    shelf = Shelf(ARRAYS, limit=0)
    kept = []
    for each in given:
        kept.append(shelf.keep(each, each.nbytes))
        np.testing.assert_array_equal(kept[0].get(), given[0])
    for one, array in zip(kept, given, strict=True):
        np.testing.assert_array_equal(one.get(), array)


@pytest.mark.parametrize("array", [np.arange(4096.0).reshape(64, 64).T, np.full((40, 40), 2 - 1j), np.ones((2048, 0))])
def test_layouts_and_dtypes_come_back(array):
    shelf = Shelf(ARRAYS, limit=0)
    kept = shelf.keep(array, array.nbytes)
    np.testing.assert_array_equal(kept.get(), array)
    assert kept.get().dtype == array.dtype


def test_a_full_disk_leaves_values_in_memory(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    given = arrays()
    shelf = Shelf(ARRAYS, limit=0)
    kept = [shelf.keep(each, each.nbytes) for each in given]
    assert shelf.is_full
    assert shelf.file_bytes == 0
    for one, array in zip(kept, given, strict=True):
        np.testing.assert_array_equal(one.get(), array)


def test_a_file_closes_when_none_of_its_values_is_kept(monkeypatch):
    monkeypatch.setattr("precreg.shadow.shelf._FILE_BYTES", 0)
    given = arrays(2)
    shelf = Shelf(ARRAYS, limit=0)
    before = len(os.listdir("/proc/self/fd"))
    kept = [shelf.keep(each, each.nbytes) for each in given]
    assert len(os.listdir("/proc/self/fd")) == before + 2
    del kept[0]
    assert len(os.listdir("/proc/self/fd")) == before + 1
    np.testing.assert_array_equal(kept[0].get(), given[1])
