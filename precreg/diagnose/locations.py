"""Which indices of an axis do errors touch?

Errors at one index, at a range or at every second index come from a part of an array: a channel, a tail, or the rows of
one worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from precreg.diagnose.evidence import ErrorToExplain, same_numbers


class ErrorLocation(NamedTuple):
    """The indices that errors touch, of an axis with this length: start, stop and step, as of a slice."""

    length: int
    start: int
    stop: int
    step: int

    @property
    def indices(self) -> slice:
        """Return the indices as a slice."""
        return slice(self.start, self.stop, self.step)

    @property
    def text(self) -> str:
        """Return the indices as Python writes a slice, or the one index."""
        if self.stop - self.start == 1:
            return str(self.start)
        return f"{self.start}:{self.stop}" + (f":{self.step}" if self.step > 1 else "")


def error_locations(error: ErrorToExplain) -> tuple[ErrorLocation, ...]:
    """Return the parts of axes that contain all errors of the outputs; none for errors everywhere."""
    return tuple(dict.fromkeys(_locations(error)))


def _locations(error: ErrorToExplain) -> Iterator[ErrorLocation]:
    for name, target in error.target.items():
        wrong = ~same_numbers(target, error.base[name])
        if not wrong.any():
            continue
        for axis, length in enumerate(target.shape):
            others = tuple(each for each in range(target.ndim) if each != axis)
            found = _regular(np.flatnonzero(wrong.any(axis=others)), length)
            if found is not None:
                yield found


def _regular(indices: np.ndarray[tuple[int, ...], np.dtype[np.intp]], length: int) -> ErrorLocation | None:
    """Return indices as a slice, if they are equally spaced and not all of the axis."""
    if not 0 < len(indices) < length:
        return None
    steps = np.unique(np.diff(indices))
    if len(steps) > 1:
        return None
    step = int(steps[0]) if len(steps) else 1
    return ErrorLocation(length, int(indices[0]), int(indices[-1]) + 1, step)
