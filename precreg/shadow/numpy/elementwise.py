"""Which operations of numpy does the compiled core compute on shadows, in one pass with all their figures?

Additions, subtractions, multiplications, divisions and square roots of contiguous float32: rounded correctly, they have
the same bits in the core and in numpy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.measure import shadow_core
from precreg.shadow.numpy.array import ShadowArray, ShadowScalar
from precreg.shadow.numpy.measure import Figures, Inputs
from precreg.shadow.numpy.memory import Memory
from precreg.shadow.numpy.operations import Found, Operations
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


class Elementwise:
    """Compute operations of one engine by the core, where it can."""

    def __init__(self, operations: Operations) -> None:
        self.operations, self.engine = operations, operations.engine
        self.memories, self.recorder = operations.memories, operations.recorder
        core = shadow_core()
        self._core: Any = core
        self._names = frozenset() if core is None else frozenset(core.SHADOW_OPERATIONS)

    def run(self, name: str, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
        """Return the watched result of an operation; None if the general way has to compute it."""
        if name not in self._names or self.memories.wide != _FLOAT64 or self.recorder.detail >= Detail.ELEMENTS:
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
        given = [self._core.ShadowOperand(each.low, each.exact, how) for each, how in zip(known, repeated, strict=True)]
        watched = [(each.low, each.memory) for each in known if each.low is not None]
        return self._finish(name, ufunc, inputs, given, watched, result)

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
        self,
        name: str,
        ufunc: np.ufunc,
        inputs: tuple[Any, ...],
        given: list[Any],
        watched_inputs: Inputs,
        result: NDArray[Any],
    ) -> ShadowArray | ShadowScalar:
        """Compute the shadow of a result, and record the operation."""
        operations, site = self.operations, user_site(depth=3)
        asks_own = self.recorder.detail >= Detail.OWN
        is_exact = not any(each.low is not None and each.exact is not None for each in given)
        has_own = asks_own and not is_exact
        with np.errstate(all="ignore"):
            kept = None if operations.tape is None else operations.tape.prepare(name, inputs, {})
            exact = np.empty(result.shape)
            own = np.empty(result.shape) if has_own and self.recorder.has_listeners else None
            missing = None if kept is None else np.empty(result.shape, _FLOAT32)
            sums = self._core.ShadowSums(result.shape[-1], _SMALLEST_NORMAL)
            sums.compute(name, given, result, exact, own=own, errors=missing, has_own=has_own)
            figures = operations.measurer.read_sums(sums.totals(), result, exact, has_own)
            if asks_own and is_exact:
                own = exact
                figures = (
                    None if figures is None else Figures(figures.total, figures.total, ErrorSize(0.0), figures.range)
                )
            if not _fits(figures, missing):
                missing = None
                if own is None and has_own:
                    own = ufunc(*operations.values.wide(inputs))
            watched = self.engine.adopt(result, result, exact)
            found = [Found(result, exact, own, figures, missing)]
            operation = operations.record(name, site, found, watched_inputs, "")
            if kept is not None:
                operations.keep(operation, name, site, ufunc, kept, found)
        return watched


def _fits(figures: Figures | None, missing: NDArray[Any] | None) -> bool:
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
