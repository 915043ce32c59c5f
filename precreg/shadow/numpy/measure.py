"""Which errors does one operation have, and what does the recorder get?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import asarray
from numpy.typing import NDArray

from precreg.arithmetic import dtype_name
from precreg.measure import shadow_core
from precreg.shadow.numpy.memory import Memories, Memory
from precreg.shadow.numpy.values import leaves_of
from precreg.shadow.recorder import Detail, Observed, Recorder
from precreg.shadow.sizes import (
    MASK_LIMIT,
    bits_lost,
    count_saturated,
    largest_magnitude,
    largest_of,
    relative_error,
    size_of_errors,
    size_of_sums,
    smallest_normal,
    value_range,
)
from precreg.types import ErrorSize, Operation, OperationNote, Site, TracedArray, ValueRange

NO_ERROR = ErrorSize(0.0, 0.0, 0.0, 0.0, 0.0)
_SUMS = ("add", "subtract")

# Plain arrays of the watched arguments, with their memories.
Inputs = Sequence[tuple[NDArray[Any], Memory | None]]


class OperationFigures(NamedTuple):
    """The errors of an operation, as deeply as the level asks, and the range of its result."""

    total: ErrorSize
    own: ErrorSize | None
    inherited: ErrorSize | None
    range: ValueRange


class Measurer:
    """Record operations with their errors, as deeply as the recorder's level asks."""

    def __init__(self, recorder: Recorder, memories: Memories) -> None:
        self.recorder, self.memories = recorder, memories
        self._core = shadow_core()

    def inputs_of(self, arguments: Any) -> Inputs:
        """Return the plain arrays of the watched arguments, with their memories."""
        arrays = [leaf.view_plain() for leaf in leaves_of(arguments)]
        return [(array, self.memories.find(array)) for array in arrays]

    def input_error(self, inputs: Inputs) -> float:
        """Return the largest relative total error of the inputs."""
        return max([self._error_of(*each) for each in inputs], default=0.0)

    def _error_of(self, array: NDArray[Any], memory: Memory | None) -> float:
        if memory is None or memory.is_exact:
            return 0.0
        place = self.memories.place(array, memory)
        if place not in memory.errors:
            memory.errors[place] = relative_error(array, self.memories.view(array, memory))
        return memory.errors[place]

    def record(
        self,
        name: str,
        site: Site,
        actual: NDArray[Any],
        exact: NDArray[Any],
        own_exact: NDArray[Any] | None,
        inputs: Inputs,
        *,
        note: OperationNote = "",
        input_error: float | None = None,
        figures: OperationFigures | None = None,
    ) -> Operation | None:
        """Record an operation, and return it if the level asks for operations. `own_exact` is None if it is unknown."""
        detail = self.recorder.detail
        if detail == Detail.OUTPUTS:
            return None
        found = figures or self._figures(actual, exact, own_exact, note)
        written = self.memories.find(actual)
        operation = Operation(
            number=self.recorder.next_number(),
            name=name,
            engine="numpy",
            site=site,
            phase=self.recorder.phase,
            step=self.recorder.step,
            dtype=dtype_name(actual.dtype),
            shape=actual.shape,
            inputs=tuple([TracedArray(dtype_name(each.dtype), each.shape) for each, _ in inputs]),
            own=found.own,
            inherited=found.inherited,
            total=found.total,
            amplification=_amplification(found.inherited, input_error),
            range=found.range,
            lost_bits=self._lost_bits(found.range, inputs) if name in _SUMS else None,
            note=note,
            sources=self._sources(actual, written, inputs),
        )
        if written is not None:
            self._remember(operation, actual, written)
        self._note_overflow(operation, actual, exact)
        self.recorder.record(Observed(operation, actual, exact, own_exact, lambda: self._operands(inputs)))
        return operation

    def _remember(self, operation: Operation, array: NDArray[Any], memory: Memory) -> None:
        """Keep figures of a result for the operations that take it."""
        memory.maker, place = operation.number, self.memories.place(array, memory)
        if operation.total is not None and operation.range is not None:
            memory.errors[place], memory.largest[place] = operation.total.relative, largest_of(operation.range)

    def _lost_bits(self, result: ValueRange, inputs: Inputs) -> float | None:
        return bits_lost(max((self._largest(*each) for each in inputs), default=0.0), result)

    def _largest(self, array: NDArray[Any], memory: Memory | None) -> float:
        if memory is None:
            return largest_magnitude(array)
        place = self.memories.place(array, memory)
        if place not in memory.largest:
            memory.largest[place] = largest_magnitude(array)
        return memory.largest[place]

    def _sources(self, actual: NDArray[Any], written: Memory | None, inputs: Inputs) -> tuple[int, ...]:
        """Return the makers of the inputs, and of the rest of a memory that is written in part."""
        makers = [0 if memory is None else memory.maker for _, memory in inputs]
        if written is not None and actual.nbytes < written.nbytes:
            makers.append(written.maker)
        return tuple(makers)

    def _operands(self, inputs: Inputs) -> list[Any]:
        """Return the shadows of the inputs."""
        return [each if memory is None else self.memories.view(each, memory) for each, memory in inputs]

    def note_maker(self, actual: NDArray[Any], number: int) -> None:
        """Note that an operation wrote an array."""
        memory = self.memories.find(actual)
        if memory is not None:
            memory.maker = number

    def _figures(
        self, actual: NDArray[Any], exact: NDArray[Any], own_exact: NDArray[Any] | None, note: OperationNote
    ) -> OperationFigures:
        asks_own = self.recorder.detail >= Detail.OWN
        is_alone = note == "moved" or own_exact is exact or not asks_own
        found = self._by_core(actual, exact, None if is_alone else own_exact)
        if found is None:
            in_ulp = self.recorder.detail >= Detail.ELEMENTS
            total, range_ = size_of_errors(actual, exact, in_ulp), value_range(actual, exact)
        elif found.own is not None:
            return found
        else:
            total, range_ = found.total, found.range
        own, inherited = self._split(actual, exact, own_exact, total, note) if asks_own else (None, None)
        return OperationFigures(total, own, inherited, range_)

    def _by_core(
        self, actual: NDArray[Any], exact: NDArray[Any], own_exact: NDArray[Any] | None
    ) -> OperationFigures | None:
        """Return what one pass of the core finds; None if the values or the level ask for more."""
        least = smallest_normal(actual.dtype)
        if self._core is None or least is None or self.recorder.detail >= Detail.ELEMENTS or not actual.size:
            return None
        others = (exact,) if own_exact is None else (exact, own_exact)
        if not all(each.dtype == np.float64 and each.flags.c_contiguous for each in others):
            return None
        if not actual.flags.c_contiguous:
            return None
        values = actual if actual.dtype.itemsize >= 4 else actual.astype(np.float32)
        sums = self._core.ShadowSums(actual.shape[-1] if actual.ndim else 1, least)
        sums.add(values, exact, own_exact)
        return self.read_sums(sums.totals(), actual, exact, own_exact is not None)

    def read_sums(self, sums: Any, actual: NDArray[Any], exact: NDArray[Any], has_own: bool) -> OperationFigures | None:
        """Return the figures of the core's totals; None if NaN, infinities, masks or the like need more care.

        Without own sums, the own error is not known.
        """
        rows = actual.size // actual.shape[-1] if actual.ndim > 1 else 1
        total = _size_of(sums.total, sums.scale, rows)
        own = _size_of(sums.own, sums.own_scale, rows) if has_own else None
        inherited = _size_of(sums.inherited, sums.scale, rows) if has_own else None
        if total is None or (has_own and (own is None or inherited is None)):
            return None
        saturated = count_saturated(actual, exact, sums.most)
        found_range = ValueRange(
            smallest=sums.smallest,
            largest=sums.most,
            nan=sums.nan,
            inf=sums.inf,
            subnormal=sums.subnormal,
            saturated=saturated,
            zeros=sums.zeros,
        )
        return OperationFigures(total, own, inherited, found_range)

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


def _size_of(found: Any, scale: float, rows: int) -> ErrorSize | None:
    return size_of_sums(found.squares, found.worst_row, found.largest, scale, rows)


def has_no_error(operation: Operation) -> bool:
    """Return whether a result equals its shadow: errors of masks and infinities are not measured."""
    total, values = operation.total, operation.range
    if total is None or values is None or largest_of(values) >= MASK_LIMIT:
        return False
    return total.max_abs == total.relative == 0.0


def _amplification(inherited: ErrorSize | None, input_error: float | None) -> float | None:
    """Return the inherited error over the inputs' error; None where one is unknown, or the inputs have none."""
    return inherited.relative / input_error if inherited is not None and input_error else None
