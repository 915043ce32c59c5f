"""Files that are mapped into memory: what was measured of them need not stay among the process's own pages."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

KEPT = 1 << 21
"""Elements whose pages are kept: to give back few at a time would cost time."""


Chunk = tuple[int, NDArray[Any], NDArray[Any]]


def unmapping(chunks: Iterable[Chunk], *arrays: NDArray[Any]) -> Iterator[Chunk]:
    """Yield chunks that are read one after the other, and give back what was read of the arrays they are from."""
    read = 0
    for chunk in chunks:
        yield chunk
        read += chunk[1].size
        if read >= KEPT:
            read = 0
            for array in arrays:
                unmap_read(array)


def unmap_read(array: NDArray[Any]) -> None:
    """Give back the pages of the file that an array is mapped from, so that the process does not grow by its size.

    The pages stay in the system's cache; whoever reads them again, another thread for instance, gets them from there.
    Only for np.memmap of mode "r": nothing that was written can be lost. For any other array nothing is done.
    """
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    mapped, advice = owner.base, getattr(mmap, "MADV_DONTNEED", None)
    if advice is not None and isinstance(owner, np.memmap) and owner.mode == "r" and isinstance(mapped, mmap.mmap):
        mapped.madvise(advice)
