"""Sources of error on accelerators: conversions on hops, accumulation, a stale buffer, a misaligned tail."""

from collections.abc import Iterator
from fractions import Fraction

import ml_dtypes
import numpy as np
import numpy.typing as npt

from published import Figure


def figures() -> Iterator[Figure]:
    """Measure each source in its plainest form."""
    yield from conversions()
    yield from accumulation()
    yield from stale_buffer()
    yield from tail()


def conversions() -> Iterator[Figure]:
    """Pass numbers of [1, 2) through a narrower format, once. In float16 numbers below 2^-14 keep fewer bits."""
    x = np.random.default_rng(0).uniform(1, 2, 100_000).astype(np.float32)
    for name, narrow in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        error = np.abs(x.astype(narrow).astype(np.float32) / x - 1).max()
        yield Figure(f"largest relative error of one silent conversion to {name}, of [1, 2)", "", f"{error:.2e}")


def accumulation() -> Iterator[Figure]:
    """Add a thousand ones to 2^24, and 65,536 numbers of [0, 1), in one sum and in eight that are merged at the end."""
    one_large = np.concatenate([[2.0**24], np.ones(1000)]).astype(np.float32)
    spread = np.random.default_rng(0).uniform(0, 1, 65_536).astype(np.float32)
    for what, terms in (("2^24 and 1,000 ones", one_large), ("65,536 numbers of [0, 1)", spread)):
        exact = sum(map(Fraction, terms.tolist()))
        naive, eight = (
            abs(float(Fraction(float(total)) / exact - 1)) for total in (in_lanes(terms, 1), in_lanes(terms, 8))
        )
        claim = "large sums swallow small terms"
        yield Figure(
            f"{what}, relative error of one sum / of eight", claim, f"{naive:.1e} / {eight:.1e}", naive > eight
        )


def in_lanes(terms: npt.NDArray, lanes: int) -> np.float32:
    """Add every so many-th term to a sum of its own, and then those sums by halves, in float32."""
    padded = np.append(terms, np.zeros(-len(terms) % lanes, np.float32)).reshape(-1, lanes)
    sums = np.zeros(lanes, np.float32)
    for row in padded:
        sums = sums + row
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    return sums[0]


def stale_buffer() -> Iterator[Figure]:
    """Run compensated sums twice on the same input, with what the first run lost still in the buffer."""
    squares = np.random.default_rng(0).normal(0, 0.15, (512, 64)).astype(np.float32) ** 2
    first, left = compensated(squares, np.zeros(512, np.float32))
    second, _ = compensated(squares, left)
    apart = np.abs(second / first - 1)
    yield Figure(
        "same input, second run with a stale buffer: largest relative difference",
        "1e-7",
        f"{apart.max():.1e}",
        bool(5e-8 < apart.max() < 5e-7),
    )
    yield Figure("same input, second run with a cleared buffer: elements that differ", "", f"{repeated(squares)}")


def compensated(terms: npt.NDArray, lost: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
    """Add the columns by Kahan's sum; gives the sums and what is left in the buffer."""
    total = np.zeros(len(terms), np.float32)
    for column in terms.T:
        corrected = column - lost
        after = total + corrected
        total, lost = after, (after - total) - corrected
    return total, lost


def repeated(terms: npt.NDArray) -> int:
    """Count how many sums differ between two runs that begin with zeros."""
    runs = [compensated(terms, np.zeros(len(terms), np.float32))[0] for _ in range(2)]
    return int(np.sum(runs[0] != runs[1]))


def tail() -> Iterator[Figure]:
    """Read the last block of each row, 11 of 203 numbers, from the aligned address before it."""
    memory = np.arange(16 * 203)
    wrong = 0
    for address in range(192, 16 * 203, 203):
        wrong += np.count_nonzero(memory[address - address % 8 :][:11] != memory[address : address + 11])
    yield Figure(
        "misaligned tails of 16 rows of 203: elements that are wrong", "silently", f"{wrong / memory.size:.1%}"
    )
