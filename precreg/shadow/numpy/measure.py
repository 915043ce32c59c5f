"""Which errors does one operation have, and what does the recorder get?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import dtype_name
from precreg.shadow.numpy.memory import Memories
from precreg.shadow.numpy.values import leaves_of
from precreg.shadow.recorder import Detail, Observed, Recorder
from precreg.shadow.sizes import error_size, largest_magnitude, relative_error, value_range
from precreg.types import ErrorSize, Operation, OperationNote, Site, TracedArray

NO_ERROR = ErrorSize(0.0, 0.0, 0.0, 0.0, 0.0)
_SUMS = ("add", "subtract")


class Measurer:
    """Record operations with their errors, as deeply as the recorder's level asks."""

    def __init__(self, recorder: Recorder, memories: Memories) -> None:
        self.recorder, self.memories = recorder, memories

    def input_error(self, leaves: Iterable[Any]) -> float:
        """Return the largest relative total error of the inputs."""
        return max((self._error_of(leaf) for leaf in leaves), default=0.0)

    def _error_of(self, leaf: Any) -> float:
        array = leaf.view_plain()
        memory = self.memories.find(array)
        if memory is None or memory.is_exact:
            return 0.0
        region = self.memories.region(array, memory)
        if region not in memory.errors:
            memory.errors[region] = relative_error(array, self.memories.view(array, memory))
        return memory.errors[region]

    def record(
        self,
        name: str,
        site: Site,
        actual: NDArray[Any],
        exact: NDArray[Any],
        own_exact: NDArray[Any] | None,
        arguments: Any,
        *,
        note: OperationNote = "",
        input_error: float | None = None,
    ) -> ErrorSize | None:
        """Record an operation, and return its total error if it was measured. `own_exact` is None if it is unknown."""
        detail = self.recorder.detail
        if detail == Detail.OUTPUTS:
            return None
        in_ulp = detail >= Detail.ELEMENTS
        total = error_size(actual, exact, elements=in_ulp)
        own, inherited = self._split(actual, exact, own_exact, total) if detail >= Detail.OWN else (None, None)
        if note == "moved":
            own, inherited = NO_ERROR if in_ulp else ErrorSize(0.0), total
        known = inherited is not None and input_error is not None and input_error > 0.0
        operation = Operation(
            number=self.recorder.next_number(),
            name=name,
            engine="numpy",
            site=site,
            phase=self.recorder.phase,
            step=self.recorder.step,
            dtype=dtype_name(actual.dtype),
            shape=actual.shape,
            inputs=tuple(TracedArray(dtype_name(each.dtype), each.shape) for each in leaves_of(arguments)),
            own=own,
            inherited=inherited,
            total=total,
            amplification=inherited.relative / input_error if known and inherited and input_error else None,
            range=value_range(actual, exact),
            lost_bits=_lost_bits(actual, arguments) if name in _SUMS else None,
            note=note,
            sources=self._sources(actual, arguments),
        )
        self.note_maker(actual, operation.number)
        self._note_overflow(operation, actual, exact)
        self.recorder.record(Observed(operation, actual, exact, own_exact))
        return total

    def _sources(self, actual: NDArray[Any], arguments: Any) -> tuple[int, ...]:
        """Return the numbers of the operations that made the inputs, and the rest of a memory that is written in part."""
        memories = [self.memories.find(leaf.view_plain()) for leaf in leaves_of(arguments)]
        written = self.memories.find(actual)
        if written is not None and actual.nbytes < written.twin.size * written.unit:
            memories.append(written)
        return tuple(dict.fromkeys(0 if memory is None else memory.maker for memory in memories))

    def note_maker(self, actual: NDArray[Any], number: int) -> None:
        """Note that an operation wrote an array."""
        memory = self.memories.find(actual)
        if memory is not None:
            memory.maker = number

    def _split(
        self, actual: NDArray[Any], exact: NDArray[Any], own_exact: NDArray[Any] | None, total: ErrorSize
    ) -> tuple[ErrorSize | None, ErrorSize | None]:
        """Return the own and the inherited error."""
        if own_exact is None:
            return None, None
        in_ulp = self.recorder.detail >= Detail.ELEMENTS
        if own_exact is exact:
            return total, NO_ERROR if in_ulp else ErrorSize(0.0)
        return error_size(actual, own_exact, elements=in_ulp), error_size(own_exact, exact)

    def _note_overflow(self, operation: Operation, actual: NDArray[Any], exact: NDArray[Any]) -> None:
        found = operation.range
        if found is None or not (found.nan or found.inf):
            return
        lost = int(np.sum(np.isfinite(exact) & ~np.isfinite(np.asarray(actual, exact.dtype))))
        if lost:
            self.recorder.note_event("overflow", operation.name, operation.site, lost, actual.size)


def _lost_bits(actual: NDArray[Any], arguments: Any) -> float | None:
    """Return log2 of the largest operand over the largest result; None where one of them is 0 or not finite."""
    operands = [each for each in leaves_of(arguments)]
    largest = max((largest_magnitude(each.view_plain()) for each in operands), default=0.0)
    result = largest_magnitude(actual)
    if not (0.0 < result < math.inf and 0.0 < largest < math.inf):
        return None
    return math.log2(largest / result)
