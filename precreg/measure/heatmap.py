"""Map the mean errors of two arrays to at most 64 x 64 cells of their last two axes, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precreg.errors import UserError
from precreg.measure.pairing import count_non_finite, make_pairs, pairing_of, round_references, unmap_read

# Cells along each of the two axes, so that a page with a heat map stays small.
MAX_CELLS = 64
# Elements of one chunk, which bounds the memory.
HEAT_MAP_CHUNK = 1 << 18
# Pages of mapped files are released after several chunks, because neighbouring chunks may share a page.
_CHUNKS_PER_RELEASE = 32


class HeatMap(NamedTuple):
    """Mean |a - r| over all leading axes, in cells of the last two; a one-dimensional array has one row.

    `shape` is the shape of the arrays. An axis of length L has G = min(L, 64) cells, and cell g begins at index g*L//G.
    `mean` has a list for each row of cells: None for a cell without a finite pair, the largest float64 for a sum that
    overflows. `mismatched` counts, cell by cell, the pairs with a NaN or an infinity on one side only.
    """

    shape: tuple[int, ...]
    mean: list[list[float | None]]
    mismatched: list[list[int]]


def heat_map(actual: ArrayLike, reference: ArrayLike) -> HeatMap:
    """Measure the mean absolute error in cells of the last two axes, over the finite pairs of compare_arrays.

    The arrays have one shape and any memory layout. Mapped files are read chunk by chunk.

    Raises:
        UserError: bad-value if the shapes differ or an array has no element, and as compare_arrays does.
    """
    a, r = np.asarray(actual), np.asarray(reference)
    if a.shape != r.shape or a.size == 0:
        message = f"expected two arrays of one shape, with elements, but got shape={a.shape} and shape={r.shape}"
        raise UserError(
            "bad-value", message, hint="give two arrays of one shape: numpy.reshape(actual, reference.shape)"
        )
    shape = a.shape
    while a.ndim < 2:  # one row, or one cell for a scalar
        a, r = a[np.newaxis], r[np.newaxis]
    cells = _Cells(*a.shape[-2:])
    with np.errstate(all="ignore"):
        for number, box in enumerate(_boxes(a.shape), 1):
            cells.add(a[box], r[box], box[-2], box[-1])
            if number % _CHUNKS_PER_RELEASE == 0:
                unmap_read(a)
                unmap_read(r)
    return HeatMap(shape, cells.means(), cells.mismatched.tolist())


class _Cells:
    """Growing sums and counts, cell by cell."""

    def __init__(self, rows: int, columns: int) -> None:
        self._of_row, self._of_column = _groups(rows), _groups(columns)
        size = (int(self._of_row[-1]) + 1, int(self._of_column[-1]) + 1)
        self._sums, self._counts = np.zeros(size), np.zeros(size, np.int64)
        self.mismatched = np.zeros(size, np.int64)

    def add(self, actual: NDArray[Any], reference: NDArray[Any], rows: slice, columns: slice) -> None:
        """Add the pairs of one box of the arrays in its rows and columns."""
        pairing = pairing_of(actual.dtype, reference.dtype)
        buffers = tuple(np.empty(actual.size) for _ in range(5))
        pairs = make_pairs(actual.reshape(-1), reference.reshape(-1), pairing, buffers)
        rounded = round_references(pairs.reference, pairing)
        finite = np.isfinite(pairs.actual) & np.isfinite(rounded)
        errors = np.where(finite, pairs.error, 0.0)
        others = np.flatnonzero(~finite)
        wrong = np.zeros(finite.size, np.int64)
        wrong[others[count_non_finite(pairs.actual[others], rounded[others]).mismatched]] = 1
        place = (self._of_row[rows, np.newaxis] * self._sums.shape[1] + self._of_column[columns]).ravel()
        for into, values in ((self._sums, errors), (self._counts, finite), (self.mismatched, wrong)):
            over_leading = values.reshape(-1, place.size).sum(axis=0, dtype=into.dtype)
            into += np.bincount(place, over_leading, into.size).reshape(into.shape).astype(into.dtype)

    def means(self) -> list[list[float | None]]:
        """Return the mean of each cell; None for a cell without a finite pair."""
        means = np.minimum(self._sums / np.maximum(self._counts, 1), np.finfo(np.float64).max)
        return [
            [mean if count else None for mean, count in zip(*row, strict=True)]
            for row in zip(means.tolist(), self._counts.tolist(), strict=True)
        ]


def _groups(length: int) -> NDArray[np.int64]:
    """Return the group of each index."""
    groups = min(length, MAX_CELLS)
    starts = np.arange(groups) * length // groups
    return np.repeat(np.arange(groups), np.diff(starts, append=length))


def _boxes(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Cut an array into boxes of at most HEAT_MAP_CHUNK elements; last axes stay whole as far as possible."""
    steps, left = [], HEAT_MAP_CHUNK
    for length in reversed(shape):
        steps.append(max(1, min(length, left)))
        left //= max(1, length)
    along = [range(0, length, step) for length, step in zip(shape, reversed(steps), strict=True)]
    for starts in product(*along):
        yield tuple(slice(start, start + step) for start, step in zip(starts, reversed(steps), strict=True))
