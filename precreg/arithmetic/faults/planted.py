"""Planting: an arithmetic, inputs or params as a fault leaves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from precreg.arithmetic.devices.arithmetic import Arithmetic
from precreg.arithmetic.faults.accumulators import NarrowAccumulator, StaleBuffer
from precreg.arithmetic.faults.fault import Fault
from precreg.arithmetic.faults.functions import another_library, fewer_steps, fewer_terms
from precreg.arithmetic.faults.inputs import misaligned_tail, one_step_less, through_narrower
from precreg.arithmetic.faults.orders import DroppedEpsilon, FusedMultiplyAdd, MovedEpsilon, SwappedOrder
from precreg.arithmetic.faults.results import Conversions, Flushed, Hop, Saturated, Truncated, WithoutNaN
from precreg.arithmetic.faults.sums import in_halves, in_reverse, naive, pairwise, through, widened

OPERATIONS: dict[str, Callable[..., Arithmetic]] = {
    "hop": Hop,
    "through": through,
    "naive": naive,
    "stale": StaleBuffer,
    "narrow": NarrowAccumulator,
    "truncated": Truncated,
    "conversions": Conversions,
    "flushed": Flushed,
    "dropped_epsilon": DroppedEpsilon,
    "moved_epsilon": MovedEpsilon,
    "swapped": SwappedOrder,
    "fewer_terms": fewer_terms,
    "fewer_steps": fewer_steps,
    "without_nan": WithoutNaN,
    "saturated": Saturated,
    "in_reverse": in_reverse,
    "in_halves": in_halves,
    "pairwise": pairwise,
    "widened": widened,
    "fused": FusedMultiplyAdd,
    "another_library": another_library,
}

INPUTS: dict[str, Callable[..., NDArray[Any]]] = {
    "through_narrower": through_narrower,
    "misaligned_tail": misaligned_tail,
}

PARAMS: dict[str, Callable[..., dict[str, Any]]] = {"one_step_less": one_step_less}


def planted(inner: Arithmetic, fault: Fault) -> Arithmetic:
    """Return the arithmetic with a fault in it; `inner` itself where the fault alters no operations.

    The layer may remember operations and sums: one layer serves one case, and all repeats of it.
    """
    return OPERATIONS[fault.alteration](inner, **fault.options) if fault.place == "operations" else inner


def altered_inputs(inputs: dict[str, NDArray[Any]], fault: Fault) -> dict[str, NDArray[Any]]:
    """Return inputs as a fault leaves them."""
    if fault.place != "inputs":
        return inputs
    return {name: INPUTS[fault.alteration](array, **fault.options) for name, array in inputs.items()}


def altered_params(params: dict[str, Any], fault: Fault) -> dict[str, Any]:
    """Return params as a fault leaves them."""
    return PARAMS[fault.alteration](params, **fault.options) if fault.place == "params" else params
