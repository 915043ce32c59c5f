"""RMS norm in stages, whose sums keep what their additions lost in a buffer that stays between two calls.

The stages are outputs, in the order in which they are computed, so the first that differs between two runs is where the
difference starts. Elementwise operations in a fixed order: with a cleared buffer the same bits on every CPU.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

LANES = 8
EPS = np.float32(1e-5)
LOST = np.zeros((64, LANES), np.float32)
"""What the last addition of each lane lost: on a device, memory that nobody clears before a kernel starts."""


def rms_norm(x: npt.NDArray[np.float32], *, buffer: Literal["cleared", "stale"]) -> dict[str, npt.NDArray]:
    """Give x / sqrt(mean(x^2) + eps) of x (64, n), and before it the squares, eight partial sums and their total."""
    if buffer == "cleared":
        LOST[...] = 0
    squares = x * x
    partial = compensated_lanes(squares)
    total = merged(partial)
    mean = total / np.float32(x.shape[-1])
    return {"squares": squares, "partial": partial, "total": total, "out": x / np.sqrt(mean + EPS)[:, None]}


def compensated_lanes(terms: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Add every eighth term to one of eight sums, less what the addition before it lost (Kahan, 1965).

    It goes on from whatever LOST holds: from zeros, if somebody cleared it.
    """
    sums = np.zeros_like(LOST)
    for start in range(0, terms.shape[-1], LANES):
        corrected = terms[:, start : start + LANES] - LOST
        after = sums + corrected
        LOST[...] = (after - sums) - corrected
        sums = after
    return sums


def merged(sums: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Add lanes by halves until one is left."""
    while sums.shape[-1] > 1:
        half = sums.shape[-1] // 2
        sums = sums[:, :half] + sums[:, half:]
    return sums[:, 0]


def exact(x: npt.NDArray[np.float64], *, buffer: str) -> dict[str, npt.NDArray]:
    """Compute in float64; `buffer` is the subject's and means nothing here."""
    squares = x**2
    partial = squares.reshape(len(x), -1, LANES).sum(1)
    total = squares.sum(1)
    return {
        "squares": squares,
        "partial": partial,
        "total": total,
        "out": x / np.sqrt(np.mean(squares, 1, keepdims=True) + 1e-5),
    }
