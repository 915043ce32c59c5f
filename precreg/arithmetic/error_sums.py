"""How far are low-precision values from exact ones, in one pass over them?

The compiled core adds up the facts of three differences and of the range. Without it, callers take a pass for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class ErrorSums(NamedTuple):
    """One difference: the sum of its squares, the largest such sum of a row, and its largest absolute value."""

    squares: float
    worst_row: float
    largest: float


class ArrayErrors(NamedTuple):
    """The differences of low-precision values, exact ones, and those of the operation alone, with their sizes.

    `scale` and `own_scale` are the sums of squares of exact and of own values. `smallest` is the least absolute value
    that is not 0. Masks have neither errors nor sizes: two values beyond 1e30 on the same side, infinities among them.
    """

    total: ErrorSums
    inherited: ErrorSums
    own: ErrorSums
    scale: float
    own_scale: float
    smallest: float
    largest: float
    zeros: int


# Arguments: values in float32 or float64, their exact values in float64, those of the operation alone or None, memory
# in float32 for the last differences or None, and the number of columns. Arrays are contiguous and not empty.
_Measure = Callable[[Any, Any, Any, Any, int], ArrayErrors]


def _choose() -> _Measure | None:
    try:
        from precreg.arithmetic import _core
    except ImportError:
        return None
    # A core that was built from earlier sources has no such function. Without wide registers, it takes longer than
    # single passes (11 ns an element; benchmarks/shadow/networks.py on a core with PRECREG_ISA=generic).
    if not hasattr(_core, "measure") or _core.instruction_set == "generic":
        return None

    def measure(low: Any, exact: Any, own: Any, kept: Any, columns: int) -> ArrayErrors:
        total, inherited, alone, *facts = _core.measure(low, exact, own, kept, low.itemsize, columns)
        scale, own_scale, smallest, largest, zeros = facts
        sums = ErrorSums(*total), ErrorSums(*inherited), ErrorSums(*alone)
        return ArrayErrors(*sums, scale, own_scale, smallest, largest, int(zeros))

    return measure


# None where no core has it.
measure_errors = _choose()
