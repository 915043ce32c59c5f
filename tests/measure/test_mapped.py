"""Pages of mapped files are given back, and nothing is lost by it."""

from pathlib import Path

import numpy as np
import pytest

from precreg.measure.chunks import UNMAP_ELEMENTS, unmap_read
from precreg.measure.comparison import compare_arrays

BYTES = 32 << 20


def resident():
    """Return the bytes of files that this process has mapped at the moment."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssFile:")) * 1024


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(BYTES // 8, dtype=np.float64))
    return tmp_path / "a.npy"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not say what is resident")
@pytest.mark.parametrize("view", [lambda a: a, lambda a: np.asarray(a).reshape(64, -1)[3:].T])
def test_pages_are_given_back_whatever_the_view(path, view):
    array = np.load(path, mmap_mode="r")
    expected = array.sum()
    full = resident()
    unmap_read(view(array))
    assert resident() < full - BYTES // 2
    assert array.sum() == expected


def test_what_was_written_into_a_copy_on_write_map_is_kept(path):
    array = np.load(path, mmap_mode="c")
    array[:] = 1
    unmap_read(array)
    assert array.sum() == array.size


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not say what is resident")
@pytest.mark.parametrize("threads", [1, 2])
def test_comparing_mapped_files_keeps_few_of_their_pages(tmp_path, threads):
    n = 16 * UNMAP_ELEMENTS
    np.save(tmp_path / "a.npy", np.zeros(n, np.int8))
    a, r = (np.load(tmp_path / "a.npy", mmap_mode="r") for _ in range(2))
    before = resident()
    assert compare_arrays(a, r, rtol=0, atol=0, threads=threads).counts["exact_matches"] == n
    assert resident() - before < n / 2


@pytest.mark.parametrize("array", [np.arange(4), np.arange(16)[::2].reshape(2, 4), np.float64(3)[...]])
def test_other_arrays_are_left_alone(array):
    before = array.copy()
    unmap_read(array)
    np.testing.assert_array_equal(array, before)
