"""compare() on arrays of many chunks: threads, layouts, and how much memory it takes."""

import tracemalloc

import numpy as np
import pytest

from precreg.measure.chunks import COPY_CHUNK
from precreg.measure.comparison import BACKENDS, compare_arrays, tally_arrays
from precreg.measure.tally import MeasureRules
from tests.measure.test_backends import check_same

RULES = MeasureRules(1e-6, 0.0, 20)


def pair(size):
    generator = np.random.default_rng(3)
    reference = generator.normal(size=size).astype(np.float32)
    actual = reference + generator.normal(size=size).astype(np.float32) * np.float32(1e-6)
    actual[size // 3], reference[size // 2] = np.nan, 0.0
    return actual, reference


@pytest.fixture(params=[name for name in BACKENDS if name != "plain"])
def form(request, monkeypatch):
    monkeypatch.setenv("PRECREG_FORM", request.param)
    return request.param


def test_the_number_of_threads_changes_nothing(form):
    actual, reference = pair(3 * COPY_CHUNK + 12345)
    one = tally_arrays(actual, reference, RULES, 1)
    for threads in (2, 3, 64):
        check_same(tally_arrays(actual, reference, RULES, threads), one)


@pytest.mark.parametrize("layout", ["fortran", "strided", "swapped", "mapped"])
def test_layouts_of_many_chunks_give_what_plain_ones_give(form, layout, tmp_path):
    actual, reference = (array.reshape(3, -1, 5) for array in pair(2 * COPY_CHUNK // 15 * 15 + 15 * 1001))
    expected = tally_arrays(actual, reference, RULES)
    if layout == "mapped":
        np.save(tmp_path / "actual.npy", actual)
        other = np.load(tmp_path / "actual.npy", mmap_mode="r")
    elif layout == "strided":
        other = np.repeat(actual, 2, axis=1)[:, ::2]
    else:
        other = np.asfortranarray(actual) if layout == "fortran" else actual.astype(actual.dtype.newbyteorder())
    check_same(tally_arrays(other, reference, RULES), expected)


@pytest.mark.parametrize("fortran", [False, True])
def test_memory_does_not_grow_with_the_arrays(form, fortran):
    size = 1 << 24
    actual, reference = np.full((16, size // 16), 1.5, np.float32), np.full((16, size // 16), 1.25, np.float16)
    actual = np.asfortranarray(actual) if fortran else actual
    tracemalloc.start()
    compare_arrays(actual, reference, rtol=0.0, atol=0.0, threads=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6
