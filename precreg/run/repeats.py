"""Where two runs of a subject on the same inputs differ, output by output."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.storage.digest import octets
from precreg.types.types import RepeatDifference

Arrays = dict[str, NDArray[Any]]


class Run(NamedTuple):
    """What one run of the subject gave: arrays and digests by output."""

    arrays: Arrays
    digests: dict[str, str]


def between(first: Run, other: Run, seed: int, repeat: int) -> Iterator[RepeatDifference]:
    """Yield the outputs of which run number `repeat` gave other bits than run 1, and where."""
    for name in dict.fromkeys((*first.digests, *other.digests)):
        if first.digests.get(name) != other.digests.get(name):
            yield difference(name, seed, repeat, first.arrays.get(name), other.arrays.get(name))


def of_all(runs: Sequence[Run]) -> dict[str, str]:
    """Return a digest for each output: that of all runs where they agree, else one that no run has of its own."""
    digests = {name: [run.digests.get(name, "") for run in runs] for run in runs for name in run.digests}
    return {name: each[0] if len(set(each)) == 1 else _joined(each) for name, each in digests.items()}


def _joined(digests: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()[: len(max(digests, key=len))]


def first_of_each(outputs: Sequence[str], differences: Iterable[RepeatDifference]) -> tuple[RepeatDifference, ...]:
    """Keep the first difference of each output, in the order in which the subject gives its outputs."""
    found: dict[str, RepeatDifference] = {}
    for one in differences:
        found.setdefault(one.output, one)
    return tuple(found[name] for name in dict.fromkeys((*outputs, *found)) if name in found)


def difference(
    output: str, seed: int, repeat: int, before: NDArray[Any] | None, after: NDArray[Any] | None
) -> RepeatDifference:
    """Say where two arrays differ that run 1 and run number `repeat` gave, of which not all bits are the same.

    Elements differ where their bits do, as digests see it: zeros of either sign, and NaN of other bits, too.
    """
    if before is None or after is None or (before.dtype, before.shape) != (after.dtype, after.shape):
        return RepeatDifference(output, seed, repeat)
    places = np.flatnonzero((octets(before) != octets(after)).any(axis=1))
    largest, non_finite = _largest(before.reshape(-1)[places], after.reshape(-1)[places])
    return RepeatDifference(
        output,
        seed,
        repeat,
        place=tuple(int(index) for index in np.unravel_index(places[0], before.shape)),
        differing=len(places),
        size=before.size,
        largest=largest,
        non_finite=non_finite,
    )


def _largest(before: NDArray[Any], after: NDArray[Any]) -> tuple[float | None, int]:
    """Return the largest distance of two finite elements, None beyond float64, and how many pairs are not finite."""
    wide = np.clongdouble if before.dtype.kind == "c" else np.longdouble
    with np.errstate(invalid="ignore"):
        first, other = before.astype(wide), after.astype(wide)
        distances = np.abs(other - first)
    finite = np.isfinite(first) & np.isfinite(other)
    largest = float(distances[finite].max(initial=0))
    return largest if finite.any() and isfinite(largest) else None, int(np.count_nonzero(~finite))
