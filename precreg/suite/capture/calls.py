"""Which of many calls are kept: at most so many, no two alike, and the extremes among them?

Two calls are alike if their arguments have the same shapes, dtypes and ranges, and the same parameters. An extreme call
has the largest magnitude so far, the smallest, the most zeros, or the most NaN and infinities.
"""

from __future__ import annotations

import json
from collections import Counter
from math import frexp
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from precreg.storage import open_replacement, read_npz, replace_file, write_npz

# Magnitudes within a factor of 16 are of one range.
_RANGE_BITS = 4
_PARTS = ("inputs", "outputs")
# Marks the key of a second call of a class, and the key of a call that is not kept yet.
_ALSO, _NEW = "also", ("new",)


class CapturedCall(Struct):
    """One call: arrays by argument, parameters that JSON can store, and outputs by name."""

    inputs: dict[str, NDArray[Any]]
    params: dict[str, Any]
    outputs: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(array.nbytes for array in (*self.inputs.values(), *self.outputs.values()))


class CallRange(NamedTuple):
    """The range of the inputs of a call: largest and smallest magnitude that is not 0, and shares of zeros and NaN."""

    largest: float
    smallest: float
    zeros: float
    non_finite: float

    @property
    def scores(self) -> tuple[float, float, float, float]:
        """Return a number for each way to be extreme; more is more extreme."""
        # Without a number that is not 0 no smallest one exists.
        return self.largest, -self.smallest if self.smallest else -np.inf, self.zeros, self.non_finite


def range_of(arrays: list[NDArray[Any]]) -> CallRange:
    """Return the range of arrays together; booleans, and arrays without elements, have none."""
    size = sum(array.size for array in arrays)
    if not size:
        return CallRange(0.0, 0.0, 0.0, 0.0)
    zeros, broken, largest, smallest = 0, 0, 0.0, 0.0
    for array in arrays:
        with np.errstate(all="ignore"):
            magnitudes = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)).ravel()
        finite = magnitudes[np.isfinite(magnitudes)]
        zeros += int(np.count_nonzero(finite == 0))
        broken += magnitudes.size - finite.size
        positive = finite[finite > 0]
        if positive.size:
            largest = max(largest, float(positive.max()))
            smallest = min(smallest or np.inf, float(positive.min()))
    return CallRange(largest, smallest, zeros / size, broken / size)


def call_key(call: CapturedCall) -> tuple[Any, ...]:
    """Return a value that calls have in common if they are alike."""
    return (repr(call.params), *((name, *_array_class(array)) for name, array in call.inputs.items()))


def _shapes(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the parameters of a key, and the name, dtype and shape of each array, without the ranges."""
    return (key[0], *(part[:3] for part in key[1:] if isinstance(part, tuple)))


def _array_class(array: NDArray[Any]) -> tuple[Any, ...]:
    found = range_of([array])
    exponents = (frexp(found.largest)[1] // _RANGE_BITS, frexp(found.smallest)[1] // _RANGE_BITS)
    some = (found.zeros > 0) + (found.zeros == 1), found.non_finite > 0
    sign = array.dtype.kind in "if" and bool(array.size) and bool((array < 0).any())
    return array.dtype.name, array.shape, *exponents, *some, sign


class SpooledCounts(Struct, frozen=True):
    """The counts of one process, the problems by text, and the file of the function's module."""

    seen: int
    kept: int
    alike: int
    dropped: int
    too_large: int
    problems: dict[str, int]
    file: str | None
    is_torch: bool


class CallStore:
    """Keep calls within a number and a number of bytes.

    With a `spool` each kept call is a file of that folder, too, from which another process reads it.
    """

    def __init__(self, limit: int, max_bytes: int) -> None:
        """Begin without calls."""
        self.limit, self.max_bytes = limit, max_bytes
        self.seen = self.alike = self.dropped = self.too_large = 0
        self._kept: dict[tuple[Any, ...], CapturedCall] = {}
        self._ranges: dict[tuple[Any, ...], CallRange] = {}
        self.spool: Path | None = None
        self.spool_prefix = ""
        self._files: dict[tuple[Any, ...], Path] = {}
        self._written = 0

    @property
    def calls(self) -> list[CapturedCall]:
        """Return the kept calls, in the order in which they came."""
        return [*self._kept.values()]

    def place_for(self, call: CapturedCall) -> tuple[Any, ...] | None:
        """Count a call by its inputs, and return the key under which it should be kept; None to pass it over."""
        self.seen += 1
        key, found = call_key(call), range_of([*call.inputs.values()])
        if key in self._kept:
            if not self._is_extreme(found):
                self.alike += 1
                return None
            # The kept one may be extreme in another way. Then there are two calls of one class.
            return (*key, _ALSO, self.seen) if self._outranks(key, found) else key
        if len(self._kept) >= self.limit and self._place_of(key, found) is None:
            self.dropped += 1
            return None
        return key

    def keep(self, key: tuple[Any, ...], call: CapturedCall) -> None:
        """Keep a call under the key that `place_for` gave it, in place of another one if the store is full."""
        found = range_of([*call.inputs.values()])
        if key in self._kept:
            self.alike += 1
        elif len(self._kept) >= self.limit:
            if (other := self._place_of(key, found)) is None:
                self.dropped += 1
                return
            self.dropped += 1
            self._remove(other)
        others = sum(each.nbytes for place, each in self._kept.items() if place != key)
        if others + call.nbytes > self.max_bytes:
            self.too_large += 1
            self.alike -= key in self._kept
            return
        self._remove(key)
        self._kept[key], self._ranges[key] = call, found
        self._write(key, call)
        self._drop_beaten()

    def _drop_beaten(self) -> None:
        """Drop second calls of a class that are not the most extreme in any way any more."""
        best = self._best(self._ranges)
        for key in [key for key in self._kept if _ALSO in key and key not in best]:
            self._remove(key)
            self.alike += 1

    def _is_extreme(self, found: CallRange) -> bool:
        scores = [each.scores for each in self._ranges.values()]
        return any(score > max(column) for score, column in zip(found.scores, zip(*scores, strict=True), strict=True))

    def _outranks(self, key: tuple[Any, ...], found: CallRange) -> bool:
        """Return whether a kept call is the most extreme in a way, also beside the found range."""
        return key in self._best({**self._ranges, _NEW: found})

    def _place_of(self, key: tuple[Any, ...], found: CallRange) -> tuple[Any, ...] | None:
        """Return the key of the kept call that a new one replaces when the store is full; None if it may not.

        An extreme call takes the place of the latest one that is not extreme. A call with other shapes, dtypes or
        parameters than all kept ones takes the place of the latest of those that differ in their ranges alone.
        """
        best = self._best({**self._ranges, _NEW: found})
        ordinary = [kept for kept in reversed(self._kept) if kept not in best]
        if self._is_extreme(found):
            return next(iter(ordinary), None)
        shapes = Counter(map(_shapes, self._kept))
        if _shapes(key) in shapes:
            return None
        return next((kept for kept in ordinary if shapes[_shapes(kept)] > 1), None)

    @staticmethod
    def _best(ranges: dict[tuple[Any, ...], CallRange]) -> set[tuple[Any, ...]]:
        """Return the keys of the calls that are the most extreme in a way; the earliest of equal ones."""
        scores = {key: each.scores for key, each in ranges.items()}
        ways = range(len(next(iter(scores.values()), ())))
        return {max(scores, key=lambda key: scores[key][way]) for way in ways}

    def _remove(self, key: tuple[Any, ...] | None) -> None:
        if key is not None and key in self._kept:
            del self._kept[key], self._ranges[key]
            if (file := self._files.pop(key, None)) is not None:
                file.unlink(missing_ok=True)

    def _write(self, key: tuple[Any, ...], call: CapturedCall) -> None:
        if self.spool is None:
            return
        self._written += 1
        file = self.spool / f"{self.spool_prefix}-{self._written:06}.npz"
        # The parameters come first: whoever finds the arrays finds them, too.
        replace_file(file.with_suffix(".json"), json.dumps(call.params).encode())
        named = {f"{part}.{name}": array for part in _PARTS for name, array in getattr(call, part).items()}
        with open_replacement(file) as stream:
            write_npz(stream, named)
        self._files[key] = file

    def leave_counts(self, folder: Path, problems: dict[str, int], file: str | None, *, is_torch: bool) -> None:
        """Write the counts of this process, and the file of the function's module, into the spool."""
        counts = SpooledCounts(
            self.seen, len(self._kept), self.alike, self.dropped, self.too_large, problems, file, is_torch
        )
        replace_file(folder / f"{self.spool_prefix}.counts", msgspec.json.encode(counts))

    def take_spooled(self, folder: Path) -> list[SpooledCounts]:
        """Take the calls that other processes left in a folder, and return their counts."""
        for file in sorted(folder.glob("*.npz")):
            arrays = read_npz(file, file.name)
            inputs, outputs = (
                {name.removeprefix(f"{part}."): array for name, array in arrays.items() if name.startswith(f"{part}.")}
                for part in _PARTS
            )
            call = CapturedCall(inputs, json.loads(file.with_suffix(".json").read_bytes()), outputs)
            if (key := self.place_for(call)) is not None:
                self.keep(key, call)
        found = [msgspec.json.decode(file.read_bytes(), type=SpooledCounts) for file in sorted(folder.glob("*.counts"))]
        for counts in found:
            # The kept calls of that process were counted above.
            self.seen += counts.seen - counts.kept
            self.alike, self.dropped = self.alike + counts.alike, self.dropped + counts.dropped
            self.too_large += counts.too_large
        return found
