"""Are wrong results the right ones of other elements: shifted, transposed, flipped or permuted?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from precreg.measure.fingerprints.sample import ErrorSample
from precreg.measure.fingerprints.thresholds import threshold
from precreg.storage import Array
from precreg.types import Fingerprint

# Wrong elements that candidates are tried on; a shape must hold for these, and then for all.
MAX_TRIED = 4096
# Wrong elements whose value is searched among all exact ones.
MAX_SEARCHED = 512
SHIFTS = tuple(sign * k for k in (*range(1, 9), 16, 32, 64, 128, 256) for sign in (1, -1))
# A move is one of at least so many elements.
MIN_MOVED = 8

# An axis of None is the flat array.
Move = tuple[str, int | None, int]


def find_moved_elements(output: str, sample: ErrorSample) -> Iterator[Fingerprint]:
    """Yield the shift, flip or transposition that turns exact results into the wrong ones, or a permutation."""
    if sample.is_complex or sample.scale == 0:
        return
    gross = sample.differs & (np.abs(sample.error) >= 0.02 * sample.scale)
    number = np.count_nonzero(gross)
    # Of few different values, any is the right one of another element.
    if number < MIN_MOVED or len(np.unique(sample.exact[gross])) < MIN_MOVED or sample.share(gross) < threshold("part"):
        return
    places = np.flatnonzero(gross)
    tried = places[:: -(-len(places) // MAX_TRIED)]
    best: tuple[float, Move] | None = None
    for move in [*_candidates(sample), *_searched(sample, tried)]:
        certainty = _certainty_of(sample, tried, move)
        # A later candidate has to be better: the first ones are the plainest.
        if certainty >= threshold("share") and (best is None or certainty > best[0] + 0.01):
            best = certainty, move
    if best is not None:
        certainty, (what, axis, amount) = best[0], _rotated(sample, tried, best[1])
        yield Fingerprint("moved_elements", output, certainty, _values(sample, gross, what, axis, amount))
    elif sample.is_complete and _is_permutation(sample):
        values: dict[str, float | str] = {"what": "permutation", "elements": float(number)}
        yield Fingerprint("moved_elements", output, 1.0, values)


def _rotated(sample: ErrorSample, tried: Array, move: Move) -> Move:
    """Return the shift as a rotation if elements beyond the end of the axis come in again at its beginning."""
    what, axis, amount = move
    edge = tried[_source(sample, sample.index[tried], move) < 0] if what == "shift" else tried[:0]
    rotation: Move = ("rotation", axis, amount)
    return rotation if len(edge) and _certainty_of(sample, edge, rotation, 1) else move


def _values(sample: ErrorSample, gross: Array, what: str, axis: int | None, amount: int) -> dict[str, float | str]:
    values: dict[str, float | str] = {"what": what, "elements": float(np.count_nonzero(gross))}
    if what in ("transposition", "layout"):
        first, second = divmod(amount, len(sample.shape))
        return values | {"axes": f"{first}, {second}"}
    values |= {"axis": -1.0 if axis is None else float(axis)}
    if what == "flip":
        return values
    coordinate = sample.index if axis is None else sample.coordinate(axis)
    return values | {"shift": float(amount), "start": float(coordinate[gross].min())}


def _candidates(sample: ErrorSample) -> Iterator[Move]:
    dimensions = len(sample.shape)
    for axis in sample.axes():
        yield from (("shift", axis, shift) for shift in SHIFTS if abs(shift) < sample.shape[axis])
        yield "flip", axis, 0
    if dimensions > 1:
        yield from (("shift", None, shift) for shift in SHIFTS if abs(shift) < sample.whole[1].size)
        yield "flip", None, 0
    for first, second in combinations(range(dimensions), 2):
        if sample.shape[first] == sample.shape[second]:
            yield "transposition", None, first * dimensions + second
        elif min(sample.shape[first], sample.shape[second]) > 1:
            yield "layout", None, first * dimensions + second


def _searched(sample: ErrorSample, tried: Array) -> Iterator[Move]:
    """Yield the shifts, flat and by axis, that the values of wrong elements have among the exact ones most often."""
    if not sample.is_complete or sample.exact.size != sample.whole[1].size:
        return
    few = tried[:: -(-len(tried) // MAX_SEARCHED)]
    order = np.argsort(sample.exact, kind="stable")
    values = sample.exact[order]
    after = np.clip(np.searchsorted(values, sample.actual[few]), 1, len(values) - 1)
    nearer = np.abs(values[after - 1] - sample.actual[few]) <= np.abs(values[after] - sample.actual[few])
    source = order[np.where(nearer, after - 1, after)]
    for axis in sample.axes():
        coordinate = sample.coordinate(axis)
        yield from _most_frequent(coordinate[few] - coordinate[source], axis)
    yield from _most_frequent(few - source, None)


def _most_frequent(shifts: Array, axis: int | None) -> Iterator[Move]:
    known, counts = np.unique(shifts, return_counts=True)
    best = int(counts.argmax())
    if known[best] and counts[best] >= 0.25 * len(shifts):
        yield "shift", axis, int(known[best])


def _certainty_of(sample: ErrorSample, tried: Array, move: Move, least: int = MIN_MOVED) -> float:
    """Return the share of squared errors that a move explains, at the tried elements whose source exists."""
    source = _source(sample, sample.index[tried], move)
    known = source >= 0
    if np.count_nonzero(known) < max(least, len(tried) // 2):
        return 0.0
    places = tried[known]
    exact = sample.whole[1][np.unravel_index(source[known], sample.shape)].astype(sample.working)
    left = sample.actual[places] - exact
    near = np.abs(left) <= np.maximum(0.05 * np.abs(sample.error[places]), 4 * sample.spacing[places])
    matched = float(np.mean(near))
    with np.errstate(all="ignore"):
        return min(sample.explained(left, places), matched) if matched >= threshold("share") else 0.0


def _source(sample: ErrorSample, index: Array, move: Move) -> Array:
    """Return the flat index whose exact result a move brings to each index; -1 outside the array."""
    what, axis, amount = move
    shape, size = sample.shape, sample.whole[1].size
    if axis is None and what in ("shift", "rotation"):
        source = index - amount
        if what == "rotation":
            return source % size
        return np.where((source >= 0) & (source < size), source, -1)
    if what == "flip" and axis is None:
        return size - 1 - index
    places = [*np.unravel_index(index, shape)]
    if what in ("transposition", "layout"):
        first, second = divmod(amount, len(shape))
        lengths = list(shape)
        if what == "layout":
            # The array was written with two axes swapped, and read in its own shape.
            lengths[first], lengths[second] = lengths[second], lengths[first]
            places = [*np.unravel_index(index, lengths)]
        places[first], places[second] = places[second], places[first]
        return np.ravel_multi_index(tuple(places), shape)
    assert axis is not None
    moved = shape[axis] - 1 - places[axis] if what == "flip" else places[axis] - amount
    if what == "rotation":
        moved = moved % shape[axis]
    outside = (moved < 0) | (moved >= shape[axis])
    places[axis] = np.where(outside, 0, moved)
    return np.where(outside, -1, np.ravel_multi_index(tuple(places), shape))


def _is_permutation(sample: ErrorSample) -> bool:
    """Return whether the wrong results are the correctly rounded ones in another order, bit by bit."""
    actual, rounded = (np.sort(side[sample.differs]) for side in (sample.actual, sample.rounded))
    # Few different values would agree at random.
    return bool(np.array_equal(actual, rounded)) and len(np.unique(actual)) >= len(actual) // 2
