"""What is known of one call of an operation before it runs, and is it work in float64 with a form in longdouble?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from precreg.shadow.torch.longdouble import compute_long, long_form
from precreg.shadow.torch.schema import Facts
from precreg.shadow.torch.tape import Reads, TorchTape
from precreg.shadow.torch.twins import (
    HAS_LONG,
    Twins,
    array_of,
    is_shadowed,
    may_be_long,
    storage_key,
    tensors_in,
    twin_dtype,
)
from precreg.types import TracedArray

# They give each written number a new value, whatever the old one was.
_OVERWRITE = ("copy_", "fill_", "zero_")


class OpCall(NamedTuple):
    """One call of an operation, and its tensors of floating numbers: those that it reads, and those that it writes."""

    func: Any
    facts: Facts
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    inputs: list[Any]
    written: list[Any]


class CallState(NamedTuple):
    """The state of a call's inputs before it runs: float64 values by the id of a tensor, and the errors so far."""

    wide: dict[int, Any]
    # The inputs as they are, of an operation that writes some of them.
    alone: dict[int, Any]
    is_exact: bool
    error: float
    inputs: tuple[TracedArray, ...]
    largest: float | None
    sources: tuple[int, ...]
    reads: Reads | None
    # Float64 work without a form in longdouble, and such work on values that nobody knows exactly.
    is_unshadowed: bool = False
    is_lost: bool = False

    def own_exact(self, exact: Any, own: Any, alone: Any) -> Any:
        """Return the exact operation on the inputs as they are: the shadow itself, if these are exact."""
        if own is None:
            return None
        return exact if self.is_exact else alone


def state_before(call: OpCall, twins: Twins, tape: TorchTape | None, asks_own: bool) -> CallState:
    """Return the state of a call's inputs, without their values in higher precision."""
    keys = [storage_key(each) for each in call.inputs]
    is_exact = not any(map(twins.has_key, keys))
    return CallState(
        wide={},
        alone={},
        is_exact=is_exact,
        error=0.0 if is_exact else max(twins.errors.get(key, 0.0) for key in keys),
        inputs=tuple(map(traced_array, call.inputs)),
        largest=_largest_input(call.inputs) if asks_own and call.facts.adds else None,
        sources=tuple(map(twins.maker_of, keys)),
        reads=None
        if tape is None
        else tape.read(call.facts, call.args, call.kwargs, call.inputs, call.written, twins.has),
    )


class LongWork:
    """Prepare work in float64, whose shadow is longdouble."""

    def __init__(self, twins: Twins, tape: TorchTape | None, asks_own: bool) -> None:
        self._twins, self._tape, self._own = twins, tape, asks_own

    def prepare(self, call: OpCall) -> tuple[CallState, Any, Any] | None:
        """Return the state before float64 work, and its result and own result in longdouble; None for others."""
        if not self.fits(call):
            return None
        form = long_form(call.func, call.facts, call.args, call.kwargs)
        if form is None:
            return None
        # Forms refuse arguments with errors of many types.
        try:
            before = self._look(call)
            exact = compute_long(form, call.facts, call.args, call.kwargs, before.wide)
            own = exact if before.is_exact else None
            if self._own and own is None and not call.facts.moves:
                own = compute_long(form, call.facts, call.args, call.kwargs, before.alone)
        except Exception:
            return None
        return before, exact, own

    def fits(self, call: OpCall) -> bool:
        """Return whether an operation on float64 needs longdouble: no input has a shadow in float64."""
        is_wide = computes_on(call, may_be_long) or _widens(call)
        return is_wide and not any(map(self.has_short_twin, call.inputs))

    def has_short_twin(self, tensor: Any) -> bool:
        """Return whether a tensor has a shadow in float64."""
        return self._twins.has(tensor) and not self._twins.is_long(tensor)

    def _look(self, call: OpCall) -> CallState:
        state = state_before(call, self._twins, self._tape, self._own)
        wide = {id(each): self._long_of(each) for each in call.inputs}
        alone = {} if state.is_exact or not self._own else {id(each): _upcast_long(each) for each in call.inputs}
        known = [each for each in call.inputs if call.facts.name not in _OVERWRITE or each is not call.written[0]]
        if len(known) < len(call.inputs):
            self._twins.forget(call.written[0])
        is_lost = self._twins.is_unknown(known) or any(map(self._twins.is_unmeasured, (*known, *call.written)))
        return state._replace(wide=wide, alone=alone, is_lost=is_lost)

    def _long_of(self, tensor: Any) -> Any:
        return self._twins.long_of(tensor) if may_be_long(tensor) else _upcast_long(tensor)


def computes_on(call: OpCall, fits: Callable[[Any], bool]) -> bool:
    """Return whether an operation computes on wide numbers that fit; narrower ones beside them are exact numbers."""
    others = [each for each in call.inputs if not fits(each)]
    if len(others) == len(call.inputs):
        return False
    is_promoted = any(each.dim() for each in call.inputs if fits(each))
    return not others or (is_promoted and all(map(_is_real_on_host, others)) and all(map(fits, call.written)))


def _widens(call: OpCall) -> bool:
    """Return whether an operation on narrower numbers was asked for a result of float64."""
    is_asked = HAS_LONG and call.facts.given(call.args, call.kwargs).get("dtype") is torch.float64
    return is_asked and not call.written and all(map(_is_real_on_host, call.inputs))


def _is_real_on_host(tensor: Any) -> bool:
    return bool(tensor.is_cpu and not tensor.is_complex())


def has_wide_dtype(tensor: Any) -> bool:
    """Return whether a shadow in float64 does not see the rounding of a tensor: float64 or complex128 on a CPU."""
    return HAS_LONG and tensor.is_cpu and tensor.dtype is twin_dtype(tensor.dtype)


def _upcast_long(tensor: Any) -> Any:
    return array_of(tensor if may_be_long(tensor) else tensor.double()).astype(np.longdouble)


def traced_array(tensor: Any) -> TracedArray:
    """Return the dtype and the shape of a tensor."""
    return TracedArray(name_of_dtype(tensor.dtype), tuple(tensor.shape))


@cache
def name_of_dtype(dtype: Any) -> str:
    """Return the name of a dtype of torch without its package."""
    return str(dtype).removeprefix("torch.")


def only_moves(call: OpCall, low: Any) -> bool:
    """Return whether an operation moves numbers of one dtype."""
    if not call.facts.moves:
        return False
    made = [each for each in tensors_in(low) if is_shadowed(each)]
    dtypes = {each.dtype for each in (*call.inputs, *made)}
    return len(dtypes) == 1


def all_have_dtype(results: Any, dtype: Any) -> bool:
    """Return whether all results are tensors that may have a twin, of one dtype."""
    made = results if isinstance(results, (list, tuple)) else (results,)
    return all(is_shadowed(each) and each.dtype == dtype for each in made)


def _largest_input(tensors: Sequence[Any]) -> float:
    """Return the largest size of a number of tensors."""
    parts = (torch.view_as_real(each.resolve_conj()) if each.is_complex() else each for each in tensors)
    ends = [end.double() for each in parts if each.numel() for end in each.detach().aminmax()]
    return max(map(abs, torch.stack(ends).tolist()), default=0.0) if ends else 0.0
