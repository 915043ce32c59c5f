"""Which operations on elements have their shadows and figures computed together, in few passes over the data?

Those of contiguous float32. The compiled core computes additions, subtractions, multiplications, divisions and square
roots: rounded correctly, they have the same bits as in numpy, which computes the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

# The engine replaces numpy.empty while it watches a computation.
from numpy import empty
from numpy.typing import NDArray

from precreg.measure import shadow_core
from precreg.shadow.numpy.array import ShadowArray, ShadowScalar
from precreg.shadow.numpy.measure import Inputs, OperationFigures
from precreg.shadow.numpy.memory import Memory
from precreg.shadow.numpy.operations import MOVES, STEPS, Found, Operations
from precreg.shadow.numpy.tape import fits_float32
from precreg.shadow.recorder import Detail
from precreg.shadow.site import user_site
from precreg.types import ErrorSize

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_SMALLEST_NORMAL = float(np.finfo(np.float32).smallest_normal)
# Integers below it are floats, too.
_MOST_INTEGER = 2**53


class _Operand(NamedTuple):
    """An operand for numpy, and its arrays for the core: `low` without `exact` is exact, and so is the reverse.

    `memory` is that of `low`, if it has one.
    """

    plain: Any
    shape: tuple[int, ...]
    low: NDArray[Any] | None
    exact: NDArray[Any] | None
    memory: Memory | None = None


class ElementOperations:
    """Compute operations of one engine by the core, where it can."""

    def __init__(self, operations: Operations) -> None:
        self.operations, self.engine = operations, operations.engine
        self.memories, self.recorder = operations.memories, operations.recorder
        self._borrowed: list[NDArray[Any]] = []
        core = shadow_core()
        self._core: Any = core
        self._by_core = frozenset() if core is None else frozenset(core.SHADOW_OPERATIONS)

    def run(self, name: str, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
        """Return the watched result of an operation; None if the general way has to compute it."""
        # Without figures of operations the general way has less to do; it alone finds those of elements.
        if self._core is None or self.recorder.detail in (Detail.OUTPUTS, Detail.ELEMENTS):
            return None
        if self.memories.wide != _FLOAT64:
            return None
        if name not in self._by_core and not _has_one_result(ufunc):
            return None
        operands = [self._operand(each) for each in inputs]
        known = [each for each in operands if each is not None]
        if len(known) < len(operands):
            return None
        shape = known[0].shape
        if len(known) > 1 and _repetition(shape, known[1].shape) is None:
            shape = known[1].shape
        repeated = [_repetition(shape, each.shape) for each in known]
        if not shape or 0 in shape or None in repeated:
            return None
        result = ufunc(*[each.plain for each in known])
        if result.dtype != _FLOAT32 or not result.flags.c_contiguous:
            return None
        return self._finish(name, ufunc, inputs, _Operands(known, repeated), result)

    def _operand(self, value: Any) -> _Operand | None:
        """Return an operand for the core; None for a value that it does not take."""
        kind = type(value)
        if kind is ShadowArray or kind is ShadowScalar:
            return None if kind is ShadowArray and value.is_simulated else self._watched(value)
        if kind is np.float32 or kind is float or (kind is int and -_MOST_INTEGER < value < _MOST_INTEGER):
            return _Operand(value, (), None, np.array(value, _FLOAT64))
        return None

    def _watched(self, value: Any) -> _Operand | None:
        array = value.view_plain()
        if array.dtype != _FLOAT32 or not array.flags.c_contiguous:
            return None
        plain = array if type(value) is ShadowArray else array[()]
        memory = self.memories.find(array)
        if memory is None:
            return _Operand(plain, array.shape, array, None) if self.engine.is_given(array) else None
        exact = None if memory.is_exact else self.memories.view(array, memory)
        return _Operand(plain, array.shape, array, exact, memory)

    def _finish(
        self, name: str, ufunc: np.ufunc, inputs: tuple[Any, ...], operands: _Operands, result: NDArray[Any]
    ) -> ShadowArray:
        """Compute the shadow of a result, and record the operation."""
        operations, site = self.operations, user_site(depth=3)
        is_exact, asks_own = operands.are_exact, self.recorder.detail >= Detail.OWN
        with np.errstate(all="ignore"):
            kept = None if operations.tape is None else operations.tape.prepare(name, inputs, {})
            exact = self.memories.lend(result.size)
            shaped, own = exact.reshape(result.shape), None
            missing = None if kept is None else empty(result.shape, _FLOAT32)
            sums = self._core.ShadowSums(result.shape[-1], _SMALLEST_NORMAL)
            has_own = asks_own and not is_exact
            if name in self._by_core:
                own = empty(result.shape) if has_own and self.recorder.has_listeners else None
                given = operands.of_core(self._core)
                sums.compute(name, given, result, shaped, own=own, errors=missing, has_own=has_own)
            else:
                ufunc(*operands.exact(self._lent_copy), out=shaped)
                own = ufunc(*operands.wide(self._lent_copy), out=self._lent(result.shape)) if has_own else None
                sums.add(result, shaped, own, missing)
            figures = operations.measurer.read_sums(sums.totals(), result, shaped, has_own)
            if asks_own and is_exact:
                own, figures = shaped, _without_inherited(figures)
            if not _fits(figures, missing):
                missing = None
                own = ufunc(*operands.wide(self._lent_copy)) if own is None and has_own else own
            self.memories.adopt_memory(result, exact)
            found = [Found(result, shaped, own, figures, missing)]
            operation = operations.record(name, site, found, operands.watched(), "")
            if kept is not None:
                operations.keep(operation, name, site, ufunc, kept, found)
        self._give_back()
        watched: ShadowArray = self.engine.watched(result)
        return watched

    def _lent(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return memory for float64 until the operation ends."""
        self._borrowed.append(self.memories.lend(prod(shape)))
        return self._borrowed[-1].reshape(shape)

    def _lent_copy(self, low: NDArray[Any]) -> NDArray[Any]:
        wide = self._lent(low.shape)
        wide[...] = low
        return wide

    def _give_back(self) -> None:
        # A listener may keep the exact results on the same inputs.
        if not self.recorder.has_listeners:
            for lent in self._borrowed:
                self.memories.take_back(lent)
        self._borrowed.clear()


class _Operands(NamedTuple):
    """The operands of one operation, and how they repeat: see REPEATED of the core."""

    each: list[_Operand]
    repeated: list[str | None]

    @property
    def are_exact(self) -> bool:
        """Return whether all shadows equal their low-precision values."""
        return not any(operand.low is not None and operand.exact is not None for operand in self.each)

    def of_core(self, core: Any) -> list[Any]:
        """Return the operands for the core."""
        return [
            core.ShadowOperand(operand.low, operand.exact, how)
            for operand, how in zip(self.each, self.repeated, strict=True)
        ]

    def exact(self, widen: Callable[[Any], Any]) -> list[Any]:
        """Return the shadows."""
        return [widen(operand.low) if operand.exact is None else operand.exact for operand in self.each]

    def wide(self, widen: Callable[[Any], Any]) -> list[Any]:
        """Return the low-precision values in float64."""
        return [operand.exact if operand.low is None else widen(operand.low) for operand in self.each]

    def watched(self) -> Inputs:
        """Return the watched arrays with their memories."""
        return [(operand.low, operand.memory) for operand in self.each if operand.low is not None]


@lru_cache(maxsize=256)
def _has_one_result(ufunc: np.ufunc) -> bool:
    """Return whether a ufunc computes one floating-point number from others, and rounds."""
    if ufunc.nout != 1 or ufunc.nin > 2 or ufunc.__name__ in MOVES | STEPS or ufunc.signature is not None:
        return False
    return all(f"{kind * ufunc.nin}->{kind}" in ufunc.types for kind in "fd")


def _without_inherited(figures: OperationFigures | None) -> OperationFigures | None:
    """Return the figures of an operation on exact inputs, whose own error is the total one."""
    return None if figures is None else OperationFigures(figures.total, figures.total, ErrorSize(0.0), figures.range)


def _fits(figures: OperationFigures | None, missing: NDArray[Any] | None) -> bool:
    """Return whether the figures are there, and stored errors are float32 without a loss."""
    if figures is None:
        return False
    largest = 0.0 if missing is None or figures.own is None else figures.own.max_abs
    return largest == 0.0 or fits_float32(largest)


def _repetition(shape: tuple[int, ...], other: tuple[int, ...]) -> str | None:
    """Return how an operand repeats its elements for results of a shape; None if the core cannot repeat so."""
    if other == shape:
        return "never"
    if len(other) > len(shape):
        return None
    if all(length == 1 for length in other):
        return "everywhere"
    if other == (*shape[:-1], 1):
        return "in_row"
    if other[-1] == shape[-1] and all(length == 1 for length in other[:-1]):
        return "in_column"
    return None
