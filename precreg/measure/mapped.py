"""Files that are mapped into memory: what was measured of them need not stay among the process's own pages."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
