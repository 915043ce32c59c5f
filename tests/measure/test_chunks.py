"""Streams give the tallies of mapped files, bit by bit, for any number of threads."""

import itertools

import numpy as np
import pytest
from msgspec import to_builtins

from precreg.errors import UserError
from precreg.measure.chunks import COPY_CHUNK, PIECE, read_ahead
from precreg.measure.comparison import compare_arrays
from precreg.storage.array_stream import ArrayStream

SHAPE = (5, 1_000_003)


class Counted(ArrayStream):
    """A stream that records its reads."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.reads = []

    def read(self, low, into):
        self.reads.append((low, into.size))
        super().read(low, into)


def stream_of(folder, array, offset=0, kind=ArrayStream):
    """Store an array as raw bytes, some bytes from the beginning, and return its stream and its mapping."""
    path = folder / f"{next(NUMBER)}.bin"
    with path.open("wb") as file:
        file.write(bytes(offset))
        array.tofile(file)
    mapped = np.memmap(path, array.dtype, "r", offset, array.shape)
    return kind(path, path.name, array.dtype, array.shape, offset, lambda: mapped), mapped


NUMBER = itertools.count()


def measured(a, r, threads=1):
    return to_builtins(compare_arrays(a, r, rtol=1e-5, atol=1e-8, threads=threads))


@pytest.fixture(scope="module")
def arrays():
    random = np.random.default_rng(0)
    reference = random.standard_normal(SHAPE)
    reference[0, :3] = np.nan, np.inf, 0
    return (reference * (1 + 1e-6 * random.uniform(-1, 1, SHAPE))).astype(np.float32), reference


@pytest.mark.parametrize(
    ("actual", "reference", "offset"),
    [("<f4", "<f8", 0), ("<f4", "<f4", 128), (">f4", "<f8", 0), ("<f4", "<f8", 3)],
    ids=["wide", "same", "swapped", "odd"],
)
def test_a_stream_measures_as_a_mapped_file(tmp_path, arrays, actual, reference, offset):
    (a, mapped_a) = stream_of(tmp_path, arrays[0].astype(actual), offset)
    (r, mapped_r) = stream_of(tmp_path, arrays[1].astype(reference), offset)
    expected = measured(mapped_a, mapped_r)
    assert measured(a, r) == expected
    assert measured(a, r, threads=3) == expected
    assert measured(a, mapped_r, threads=2) == expected
    assert measured(mapped_a, r) == expected


def test_a_stream_is_compared_with_an_array_in_another_layout(tmp_path, arrays):
    a, mapped = stream_of(tmp_path, arrays[0])
    columns = np.asfortranarray(arrays[1])
    assert measured(a, columns) == measured(mapped, columns)


@pytest.mark.parametrize("chunk", [COPY_CHUNK, PIECE, PIECE + 5, 2 * PIECE])
def test_chunks_cover_the_range_once_and_reads_are_large(tmp_path, chunk):
    array = np.arange(5 * PIECE + 17, dtype=np.int32)
    sides = [stream_of(tmp_path, array, kind=Counted)[0] for _ in range(2)]
    low, high = 100, array.size - 3
    at = low
    for start, a, r in read_ahead(*sides, range(low, high), chunk):
        assert start == at
        assert a.size == r.size == min(chunk, high - start)
        np.testing.assert_array_equal(a, array[start : start + a.size])
        np.testing.assert_array_equal(r, a)
        at += a.size
    assert at == high
    for side in sides:
        assert sum(size for _, size in side.reads) == high - low
        assert all(size >= PIECE for _, size in sorted(side.reads)[:-1])


def test_an_error_of_a_read_ends_the_measurement(tmp_path):
    array = np.zeros(4 * PIECE, np.float32)
    (a, _), (r, _) = stream_of(tmp_path, array), stream_of(tmp_path, array)
    (tmp_path / r._shown).write_bytes(b"short")
    with pytest.raises(UserError, match="it ends at byte"):
        compare_arrays(a, r, rtol=0, atol=0, threads=2)
