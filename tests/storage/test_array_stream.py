"""A large file is read in pieces: any part as numpy reads it, and a file that changes is an error."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from precreg.errors import UserError
from precreg.storage.array_file import MAX_HELD_BYTES, find_raw
from precreg.storage.array_stream import ArrayStream
from precreg.storage.npy import find_npy

ELEMENTS = MAX_HELD_BYTES // 4 + 1000


def stored(folder, array):
    path = folder / "x.npy"
    np.save(path, array)
    return find_npy(path, "x.npy")


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(0).standard_normal(ELEMENTS, dtype=np.float32)


def test_only_a_large_array_in_c_order_is_a_stream(tmp_path, numbers):
    assert isinstance(stored(tmp_path, numbers).stream(), ArrayStream)
    assert isinstance(stored(tmp_path, numbers[:-1001]).stream(), np.ndarray)
    assert isinstance(stored(tmp_path, np.asfortranarray(numbers.reshape(2, -1))).stream(), np.ndarray)


@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">u2", "<c16"])
def test_a_stream_has_the_elements_of_the_file(tmp_path, numbers, dtype):
    array = (numbers * 1000).astype(dtype) if dtype != ">u2" else np.arange(2 * ELEMENTS).astype(dtype)
    stream = stored(tmp_path, array).stream()
    assert (stream.size, stream.shape, stream.dtype) == (array.size, array.shape, array.dtype)
    assert stream.is_in_order == array.dtype.isnative
    for low, high in ((0, 1), (7, 5000), (array.size - 3, array.size)):
        part = np.empty(high - low, array.dtype.newbyteorder("="))
        stream.read(low, part)
        np.testing.assert_array_equal(part, array[low:high])
    np.testing.assert_array_equal(np.asarray(stream), array)
    halves = stream.reshape((2, array.size // 2))
    np.testing.assert_array_equal(np.asarray(halves), array.reshape(2, -1))
    with pytest.raises(ValueError, match="cannot reshape"):
        stream.reshape((3, 5))


def test_threads_read_at_once(tmp_path, numbers):
    stream = stored(tmp_path, numbers).stream()

    def part(low):
        into = np.empty(1000, np.float32)
        stream.read(low, into)
        return into

    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(part, range(0, ELEMENTS - 1000, 100_003)))
    for low, found in zip(range(0, ELEMENTS - 1000, 100_003), parts, strict=True):
        np.testing.assert_array_equal(found, numbers[low : low + 1000])


def test_an_odd_place_is_not_in_order(tmp_path, numbers):
    path = tmp_path / "x.bin"
    path.write_bytes(b"-" + numbers.tobytes())
    located = find_raw(path, "x.bin", np.dtype(np.uint8), None)._replace(
        dtype=numbers.dtype, shape=numbers.shape, start=1
    )
    stream = located.stream()
    assert not stream.is_in_order
    assert not located.load().flags.aligned
    part = np.empty(10, np.float32)
    stream.read(5, part)
    np.testing.assert_array_equal(part, numbers[5:15])


def is_in_cache(path, place, size):
    """Ask the system for bytes that it need not wait for."""
    with path.open("rb", buffering=0) as file:
        try:
            return os.preadv(file.fileno(), [bytearray(size)], place, os.RWF_NOWAIT) == size
        except BlockingIOError:
            return False


def drop_from_cache(path):
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def has_direct_reads(path):
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(("low", "high"), [(0, 4096), (1024, 1 << 21), (1 << 20, ELEMENTS), (ELEMENTS - 3, ELEMENTS)])
@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
def test_a_very_large_file_is_read_past_the_cache(tmp_path, monkeypatch, numbers, dtype, low, high):
    monkeypatch.setattr("precreg.storage.array_stream.DIRECT_BYTES", MAX_HELD_BYTES)
    located = stored(tmp_path, numbers.astype(dtype))
    stream, path = located.stream(), tmp_path / "x.npy"
    drop_from_cache(path)
    # A memory file system keeps its files, and has them in the cache therefore.
    begins_on_disk = has_direct_reads(path) and not is_in_cache(path, 8 << 20, 4096)
    drop_from_cache(path)
    part = stream.buffer(high - low)
    assert part.flags.aligned
    stream.read(low, part)
    np.testing.assert_array_equal(part, numbers[low:high])
    assert is_in_cache(path, 128 + 4 * low, 4) is not begins_on_disk


def test_bytes_in_the_cache_are_read_from_there(tmp_path, monkeypatch, numbers):
    """Bytes that another program writes right now are in the cache, and not on the disk."""
    monkeypatch.setattr("precreg.storage.array_stream.DIRECT_BYTES", MAX_HELD_BYTES)
    stream, part = stored(tmp_path, numbers).stream(), None
    for value in (1.0, 2.0):
        with (tmp_path / "x.npy").open("rb+") as file:
            file.seek(128 + 4 * 70_000)
            file.write(np.full(10, value, np.float32).tobytes())
        part = stream.buffer(100_000)
        stream.read(0, part)
        np.testing.assert_array_equal(part[70_000:70_010], value)
        np.testing.assert_array_equal(part[:70_000], numbers[:70_000])


@pytest.mark.parametrize("size", [1, 4000, 4096, 10_000])
def test_a_buffer_of_any_place_takes_the_elements(tmp_path, monkeypatch, numbers, size):
    monkeypatch.setattr("precreg.storage.array_stream.DIRECT_BYTES", MAX_HELD_BYTES)
    stream = stored(tmp_path, numbers).stream()
    drop_from_cache(tmp_path / "x.npy")
    for low in (0, 1, 5000):
        for part in (stream.buffer(size), np.empty(size + 1, np.float32)[1:]):
            stream.read(low, part)
            np.testing.assert_array_equal(part, numbers[low : low + size])


def test_an_odd_place_of_a_very_large_file_is_read_through_the_cache(tmp_path, monkeypatch, numbers):
    monkeypatch.setattr("precreg.storage.array_stream.DIRECT_BYTES", MAX_HELD_BYTES)
    path = tmp_path / "x.bin"
    path.write_bytes(b"-" + numbers.tobytes())
    located = find_raw(path, "x.bin", np.dtype(np.uint8), None)
    stream = located._replace(dtype=numbers.dtype, shape=numbers.shape, start=1).stream()
    drop_from_cache(path)
    part = stream.buffer(1 << 20)
    assert part.flags.aligned
    stream.read(5, part)
    np.testing.assert_array_equal(part, numbers[5 : 5 + (1 << 20)])


def test_a_very_large_file_that_is_cut_off_is_an_error(tmp_path, monkeypatch, numbers):
    monkeypatch.setattr("precreg.storage.array_stream.DIRECT_BYTES", MAX_HELD_BYTES)
    stream = stored(tmp_path, numbers).stream()
    for cut in (1 << 20, (1 << 20) + 5, 4000):
        os.truncate(tmp_path / "x.npy", cut)
        drop_from_cache(tmp_path / "x.npy")
        with pytest.raises(UserError, match=f"it ends at byte {cut}, and was longer before"):
            stream.read(0, stream.buffer(1 << 21))


def test_a_file_that_is_cut_off_or_removed_is_an_error(tmp_path, numbers):
    located = stored(tmp_path, numbers)
    opened = located.stream()
    opened.read(0, np.empty(10, np.float32))
    os.truncate(located.path, 4000)
    with pytest.raises(UserError, match="it ends at byte 4000, and was longer before") as caught:
        opened.read(500, np.empty(1000, np.float32))
    assert (caught.value.slug, caught.value.file) == ("bad-array-file", "x.npy")
    os.unlink(located.path)
    with pytest.raises(UserError, match="No such file"):
        located.stream().read(0, np.empty(10, np.float32))
