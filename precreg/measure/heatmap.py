"""Map the mean errors of two arrays to cells of their last two axes, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import floor, log2
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from precreg.errors import UserError
from precreg.measure.chunks import unmap_read
from precreg.measure.pairing import count_non_finite, make_pairs, pairing_of, round_references
from precreg.storage import Array
from precreg.types import MAP_EMPTY, MAP_EXACT, MAP_LEVELS, MAP_MISMATCHED, Comparison, ErrorGrid

# Cells along each of the two axes, so that a page with a heat map stays small.
MAX_CELLS = 64
# The same for the map in a record: a failed output takes about 1 KB.
MAX_RECORD_CELLS = 32
# Outputs with more elements have no map in a record, because the map takes numpy about 0.15 µs an element.
MAX_MAPPED_SIZE = 1 << 22
# Elements of one chunk, which bounds the memory.
HEAT_MAP_CHUNK = 1 << 18
# Pages of mapped files are released after several chunks, because neighbouring chunks may share a page.
_CHUNKS_PER_RELEASE = 32


class HeatMap(NamedTuple):
    """Mean |a - r| over all leading axes, in cells of the last two; a one-dimensional array has one row.

    `shape` is the shape of the arrays. An axis of length L has G = min(L, 64) cells, or fewer if the caller asks for
    them, and cell g begins at index g*L//G.
    `mean` has a list for each row of cells: None for a cell without a finite pair, the largest float64 for a sum that
    overflows. `mismatched` counts, cell by cell, the pairs with a NaN or an infinity on one side only.
    """

    shape: tuple[int, ...]
    mean: list[list[float | None]]
    mismatched: list[list[int]]


def heat_map(actual: ArrayLike, reference: ArrayLike, max_cells: int = MAX_CELLS) -> HeatMap:
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
    rows, columns = a.shape[-2:]
    cells = _Cells(rows, columns, max_cells)
    with np.errstate(all="ignore"):
        for number, box in enumerate(_boxes(a.shape), 1):
            cells.add(a[box], r[box], box[-2], box[-1])
            if number % _CHUNKS_PER_RELEASE == 0:
                unmap_read(a)
                unmap_read(r)
    return HeatMap(shape, cells.means(), cells.mismatched.tolist())


class _Cells:
    """Growing sums and counts, cell by cell."""

    def __init__(self, rows: int, columns: int, max_cells: int) -> None:
        self._of_row, self._of_column = _groups(rows, max_cells), _groups(columns, max_cells)
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


def _groups(length: int, max_groups: int) -> NDArray[np.int64]:
    """Return the group of each index."""
    groups = min(length, max_groups)
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


def add_error_maps(
    comparisons: Sequence[Comparison],
    actual: Mapping[str, Array],
    reference: Mapping[str, Array],
    digests: Mapping[str, str],
    accepted: Sequence[str] | None,
) -> list[Comparison]:
    """Add an ErrorGrid to each comparison whose output may fail or improve, from the arrays of its seed by name.

    `digests` are those of the outputs. An output with an accepted digest gets no map, nor does one without errors, with
    a single element, or with more than MAX_MAPPED_SIZE. Where nothing was accepted, only outputs with elements beyond
    the tolerance get one. None for `accepted` adds no map.
    """
    if accepted is None:
        return list(comparisons)
    return [
        replace(each, error_map=record_map(heat_map(actual[each.output], reference[each.output], MAX_RECORD_CELLS)))
        if needs_error_map(each, digests[each.output], accepted)
        else each
        for each in comparisons
    ]


def needs_error_map(comparison: Comparison, digest: str, accepted: Sequence[str]) -> bool:
    """Return whether an output may fail or improve, so that its comparison gets a map; `digest` is the output's."""
    return _may_need_map(comparison) and (digest not in accepted if accepted else _is_beyond(comparison))


def _may_need_map(comparison: Comparison) -> bool:
    size, metrics = comparison.counts.get("n", 0), comparison.metrics
    is_measured = comparison.shape == comparison.reference_shape and 1 < size <= MAX_MAPPED_SIZE
    return is_measured and (metrics.get("max_abs_error") != 0 or _mismatches(comparison) > 0)


def _is_beyond(comparison: Comparison) -> bool:
    return comparison.metrics.get("match_ratio", 0.0) < 1


def _mismatches(comparison: Comparison) -> int:
    return comparison.counts.get("nan_mismatched", 0) + comparison.counts.get("inf_mismatched", 0)


def record_map(heat: HeatMap) -> ErrorGrid:
    """Return the map of a record, with one character for each cell."""
    largest = max((mean for row in heat.mean for mean in row if mean is not None), default=0.0)
    rows = zip(heat.mean, heat.mismatched, strict=True)
    texts = ("".join(_level(mean, wrong, largest) for mean, wrong in zip(*row, strict=True)) for row in rows)
    return ErrorGrid(largest, tuple(texts))


def _level(mean: float | None, mismatched: int, largest: float) -> str:
    if mismatched:
        return MAP_MISMATCHED
    if not mean:
        return MAP_EMPTY if mean is None else MAP_EXACT
    # A difference of logarithms, because a quotient of float64 numbers could overflow.
    return MAP_LEVELS[min(max(floor(4 * (log2(largest) - log2(mean))), 0), len(MAP_LEVELS) - 1)]
