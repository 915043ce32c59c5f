"""How fast this machine reads two arrays at all: a probe in C that adds up their words, compiled here and now.

Without a compiler numpy's maximum of integers is the probe: the fastest of its reductions, in one thread.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from measuring.data import Array, Pair

SOURCE = """\
#include <stddef.h>
#include <stdint.h>

/* Blocks of both arrays in turn, as whoever compares them has to read them. */
uint64_t read_both(const uint64_t *a, size_t a_words, const uint64_t *b, size_t b_words, size_t blocks)
{
    uint64_t sum = 0;
    for (size_t block = 0; block < blocks; block++) {
        for (size_t i = a_words * block / blocks; i < a_words * (block + 1) / blocks; i++) sum += a[i];
        for (size_t i = b_words * block / blocks; i < b_words * (block + 1) / blocks; i++) sum += b[i];
    }
    return sum;
}
"""
FLAGS = ("-O3", "-march=native", "-mprefer-vector-width=512", "-shared", "-fPIC")
BLOCK_BYTES = 1 << 11
Read = Callable[[Array, Array], object]


def compile_probe() -> Read | None:
    """Return a function that reads two arrays without holding the interpreter's lock; None without a C compiler."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "probe.c"), Path(folder, "probe.so")
        source.write_text(SOURCE)
        for flags in (FLAGS, [flag for flag in FLAGS if not flag.startswith("-mprefer")]):
            try:
                subprocess.run(["cc", *flags, str(source), "-o", str(library)], check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                continue
            return _reader(ctypes.CDLL(str(library)))
    return None


def _reader(library: ctypes.CDLL) -> Read:
    read_both = library.read_both
    read_both.restype = ctypes.c_uint64
    read_both.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]

    def read(a: Array, b: Array) -> object:
        blocks = max(1, a.nbytes // BLOCK_BYTES)
        return read_both(a.ctypes.data, a.nbytes // 8, b.ctypes.data, b.nbytes // 8, blocks)

    return read


def with_numpy(a: Array, b: Array) -> object:
    """Read two arrays by the maximum of their words."""
    return [array[: array.size // 2 * 2].view(np.int64).max(initial=0) for array in (a, b)]


def reading(read: Read, pair: Pair, threads: int) -> Callable[[], object]:
    """Return a function that reads a whole pair, each thread its share of it."""
    n = pair.actual.size
    bounds = [(n * part // threads & ~1, n * (part + 1) // threads & ~1) for part in range(threads)]
    parts = [(pair.actual[low:high], pair.reference[low:high]) for low, high in bounds]
    if threads == 1:
        return lambda: read(*parts[0])
    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(lambda part: read(*part), parts))
