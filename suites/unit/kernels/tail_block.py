"""x * gain + bias along rows, block by block: what is left of a row after its whole blocks, the tail, and where it is.

Rows lie in memory one after the other, and a device reads from addresses that are multiples of 32 bytes. Elementwise
operations: the same bits on every CPU.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

BLOCK = 64
ALIGNED = 8
"""Elements of float32 between two addresses that a block may be read from."""


def scale_and_shift(
    x: npt.NDArray[np.float32],
    gain: npt.NDArray[np.float32],
    bias: npt.NDArray[np.float32],
    *,
    tail: Literal["exact", "misaligned"],
) -> npt.NDArray[np.float32]:
    """Compute x (rows, n) * gain (n,) + bias (n,), in blocks of 64 along the rows.

    "misaligned" reads a tail from the last aligned address before it, so its values are those of up to seven places
    before. It crashes nowhere: that memory is the array's own.
    """
    rows, n = x.shape
    memory, out = x.reshape(-1), np.empty_like(x)
    for row in range(rows):
        for start in range(0, n, BLOCK):
            stop = min(start + BLOCK, n)
            address = row * n + start
            if tail == "misaligned" and stop - start < BLOCK:
                address -= address % ALIGNED
            out[row, start:stop] = memory[address : address + stop - start] * gain[start:stop] + bias[start:stop]
    return out


def exact(
    x: npt.NDArray[np.float64], gain: npt.NDArray[np.float64], bias: npt.NDArray[np.float64], *, tail: str
) -> npt.NDArray[np.float64]:
    """Compute in float64; `tail` is the subject's and means nothing here."""
    return x * gain + bias
