"""Which errors does one operation have, and what does the recorder get?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy import asarray
from numpy.typing import NDArray

from precreg.arithmetic import dtype_name
from precreg.shadow.numpy.memory import Memories
from precreg.shadow.numpy.values import leaves_of
from precreg.shadow.recorder import Detail, Observed, Recorder
from precreg.shadow.sizes import (
    bits_lost,
    largest_magnitude,
    largest_of,
    relative_error,
    size_of_errors,
    value_range,
)
from precreg.types import ErrorSize, Operation, OperationNote, Site, TracedArray, ValueRange

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
    ) -> Operation | None:
        """Record an operation, and return it if the level asks for operations. `own_exact` is None if it is unknown."""
        detail = self.recorder.detail
        if detail == Detail.OUTPUTS:
            return None
        in_ulp = detail >= Detail.ELEMENTS
        total = size_of_errors(actual, exact, in_ulp)
        own, inherited = self._split(actual, exact, own_exact, total, note) if detail >= Detail.OWN else (None, None)
        found_range = value_range(actual, exact)
        operation = Operation(
            number=self.recorder.next_number(),
            name=name,
            engine="numpy",
            site=site,
            phase=self.recorder.phase,
            step=self.recorder.step,
            dtype=dtype_name(actual.dtype),
            shape=actual.shape,
            inputs=_describe(arguments),
            own=own,
            inherited=inherited,
            total=total,
            amplification=_amplification(inherited, input_error),
            range=found_range,
            lost_bits=self._lost_bits(found_range, arguments) if name in _SUMS else None,
            note=note,
            sources=self._sources(actual, arguments),
        )
        self._remember(operation, actual)
        self._note_overflow(operation, actual, exact)
        self.recorder.record(Observed(operation, actual, exact, own_exact, lambda: self._operands(arguments)))
        return operation

    def _remember(self, operation: Operation, array: NDArray[Any]) -> None:
        """Keep figures of a result for the operations that take it."""
        memory = self.memories.find(array)
        if memory is None:
            return
        memory.maker, region = operation.number, self.memories.region(array, memory)
        if operation.total is not None and operation.range is not None:
            memory.errors[region], memory.largest[region] = operation.total.relative, largest_of(operation.range)

    def _lost_bits(self, result: ValueRange, arguments: Any) -> float | None:
        return bits_lost(max((self._largest(each.view_plain()) for each in leaves_of(arguments)), default=0.0), result)

    def _largest(self, array: NDArray[Any]) -> float:
        memory = self.memories.find(array)
        if memory is None:
            return largest_magnitude(array)
        region = self.memories.region(array, memory)
        if region not in memory.largest:
            memory.largest[region] = largest_magnitude(array)
        return memory.largest[region]

    def _sources(self, actual: NDArray[Any], arguments: Any) -> tuple[int, ...]:
        """Return the makers of the inputs, and of the rest of a memory that is written in part."""
        memories = [self.memories.find(leaf.view_plain()) for leaf in leaves_of(arguments)]
        written = self.memories.find(actual)
        if written is not None and actual.nbytes < written.twin.size * written.unit:
            memories.append(written)
        return tuple(0 if memory is None else memory.maker for memory in memories)

    def _operands(self, arguments: Any) -> list[Any]:
        """Return the shadows of the inputs."""
        plain = [leaf.view_plain() for leaf in leaves_of(arguments)]
        found = [(each, self.memories.find(each)) for each in plain]
        return [each if memory is None else self.memories.view(each, memory) for each, memory in found]

    def note_maker(self, actual: NDArray[Any], number: int) -> None:
        """Note that an operation wrote an array."""
        memory = self.memories.find(actual)
        if memory is not None:
            memory.maker = number

    def _split(
        self,
        actual: NDArray[Any],
        exact: NDArray[Any],
        own_exact: NDArray[Any] | None,
        total: ErrorSize,
        note: OperationNote,
    ) -> tuple[ErrorSize | None, ErrorSize | None]:
        """Return the own and the inherited error."""
        in_ulp = self.recorder.detail >= Detail.ELEMENTS
        if note == "moved":
            return NO_ERROR if in_ulp else ErrorSize(0.0), total
        if own_exact is None:
            return None, None
        if own_exact is exact:
            return total, NO_ERROR if in_ulp else ErrorSize(0.0)
        return size_of_errors(actual, own_exact, in_ulp), size_of_errors(own_exact, exact, in_ulp)

    def _note_overflow(self, operation: Operation, actual: NDArray[Any], exact: NDArray[Any]) -> None:
        found = operation.range
        if found is None or not (found.nan or found.inf):
            return
        lost = int(np.sum(np.isfinite(exact) & ~np.isfinite(asarray(actual, exact.dtype))))
        if lost:
            self.recorder.note_event("overflow", operation.name, operation.site, lost, actual.size)


def _amplification(inherited: ErrorSize | None, input_error: float | None) -> float | None:
    """Return the inherited error over that of the inputs; None where one is unknown, or the inputs have none."""
    return inherited.relative / input_error if inherited is not None and input_error else None


def _describe(arguments: Any) -> tuple[TracedArray, ...]:
    return tuple(TracedArray(dtype_name(each.dtype), each.shape) for each in leaves_of(arguments))
