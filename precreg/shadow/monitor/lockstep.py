"""How do float64 values travel beside the tensors of one sampled step?

There are several sets of twins. The first one lasts for the step. A layer that runs adds one that begins with the
low-precision inputs of the layer, so that it ends with the exact layer. A trace has one set, and measures operations
instead of layers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from precreg.shadow.torch import (
    Exits,
    Twins,
    compiled_region,
    compute_exact,
    facts_of,
    flat_leaves,
    is_shadowed,
    storage_key,
    tensors_in,
    upcast,
)
from precreg.types import EventKind, MonitorEventKind, Site

Note = Callable[[MonitorEventKind, str, str], None]


class _NotedExits:
    """Note the ways out of torch's dispatch as events of a monitor."""

    def __init__(self, note: Note) -> None:
        self._note = note

    def note_event(
        self, kind: EventKind, name: str, site: Site, changed: int = 0, elements: int = 0, detail: str = ""
    ) -> None:
        """Note an event with the line that asked for it."""
        self._note("other_thread" if kind == "untraced" else "cut", name, _place(site))


def _place(site: Site) -> str:
    return f"{Path(site.file).name}:{site.line} `{site.code}`"


class Lockstep(TorchDispatchMode):  # type: ignore[misc]
    """Run each operation as it is, and in float64 on the values of each set of twins. Results keep their bits."""

    def __init__(self, note: Note) -> None:
        super().__init__()
        self.step_twins = Twins()
        self.layer_twins: list[Twins] = []
        # Statistics are operations, too, and must not be watched.
        self.is_paused = False
        self._note = note
        self._thread = threading.get_ident()
        self._exits = Exits(_NotedExits(note), self.step_twins)

    def __enter__(self) -> Self:
        self._exits.__enter__()
        super().__enter__()
        return self

    def is_elsewhere(self) -> bool:
        """Return whether this thread is not the thread of the step: its operations have no shadow."""
        return threading.get_ident() != self._thread

    def leave(self) -> bool:
        """End the mode; return False if this thread cannot, because another one began it or a later mode is active."""
        self.is_paused = True
        self._exits.__exit__(None, None, None)
        self.layer_twins.clear()
        self.step_twins = Twins()
        if self.is_elsewhere() or _get_current_dispatch_mode() is not self:
            return False
        self.__exit__(None, None, None)
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation of torch; its tensors are below autograd and autocast here."""
        kwargs = kwargs or {}
        if self.is_paused or not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        given = []
        for each in tensors_in((args, kwargs)):
            if is_shadowed(each):
                given.append(each)
            elif each.is_floating_point() or each.is_quantized:
                self._note("cut", facts_of(func).shown, f"{each.layout} {each.dtype}".replace("torch.", ""))
        if not given:
            return func(*args, **kwargs)
        compiled = compiled_region()
        if compiled is not None:
            self._note("eager", "torch.compile", _place(compiled))
        return self._run(func, args, kwargs, given)

    def _run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: list[Any]) -> Any:
        facts = facts_of(func)
        written = [each for each in tensors_in(facts.written(args, kwargs)) if is_shadowed(each)]
        sets = [self.step_twins, *self.layer_twins]
        is_drawn = facts.creates or facts.draws(args, kwargs)
        # Before the operation runs, which may write to its arguments.
        wide = [] if is_drawn else _before(sets, given, written)
        result = func(*args, **kwargs)
        if is_drawn:
            for twins in sets:
                for each in written:
                    twins.forget(each)
            return result
        made = [each for each in tensors_in(result) if is_shadowed(each)]
        known = {storage_key(each) for each in given}
        chosen = [each for each in tensors_in(result) if _is_discrete(each) and storage_key(each) not in known]
        if not written and not chosen and all(storage_key(each) in known for each in made):
            self._note_cut(facts.shown, result, given, made)
            return result
        for twins, values in zip(sets, wide, strict=True):
            exact = compute_exact(func, facts, args, kwargs, values, result)
            if exact.reason:
                self._note("not_shadowed", facts.shown, exact.reason)
            if twins is self.step_twins and _chooses_other(result, exact.result):
                self._note("flip", facts.shown, "")
            _after(twins, result, exact.result, written, {storage_key(each) for each in (*given, *values.values())})
        return result

    def _note_cut(self, name: str, result: Any, given: list[Any], made: list[Any]) -> None:
        """Note a value that leaves torch, or a view that reads the bits of other numbers."""
        # A counter of steps, which optimizers read, is exact.
        is_number = isinstance(result, float | complex) and not _is_equal(self.step_twins.of(given[0]), result)
        is_view_of_bits = any(
            isinstance(each, torch.Tensor)
            and each.layout is torch.strided
            and each.dtype != given[0].dtype
            and storage_key(each) == storage_key(given[0])
            and not (each.is_floating_point() and given[0].is_complex())
            for each in tensors_in(result)
        )
        if is_number or is_view_of_bits:
            self._note("cut", name, "")


def _before(sets: Sequence[Twins], given: Sequence[Any], written: Sequence[Any]) -> list[dict[int, Any]]:
    """Return the float64 values of an operation's tensors in each set of twins, by the id of the tensor."""
    changed = {id(each) for each in written}
    exact: dict[int, Any] = {}

    def value(twins: Twins, tensor: Any) -> Any:
        if id(tensor) in changed:
            return twins.make(tensor)
        if twins.has(tensor):
            return twins.of(tensor)
        # One float64 form serves all sets in which a tensor is exact: most often, a weight.
        if id(tensor) not in exact:
            exact[id(tensor)] = upcast(tensor)
        return exact[id(tensor)]

    return [{id(each): value(twins, each) for each in given} for twins in sets]


def _after(twins: Twins, result: Any, exact: Any, written: Sequence[Any], used: set[int]) -> None:
    """Give new results their twins; those that were written have them already."""
    done = {storage_key(each) for each in written}
    for low, wide in zip(flat_leaves(result), flat_leaves(exact), strict=False):
        if is_shadowed(low) and storage_key(low) not in done and low.shape == wide.shape:
            done.add(storage_key(low))
            twins.put(low, wide, used)


def _is_equal(twin: Any, number: float | complex) -> bool:
    exact = twin.item()
    return bool(exact == number or (exact != exact and number != number))


def _chooses_other(result: Any, exact: Any) -> bool:
    """Return whether the float64 operation chose other integers or truth values."""
    return any(
        not torch.equal(low, wide)
        for low, wide in zip(flat_leaves(result), flat_leaves(exact), strict=False)
        if isinstance(low, torch.Tensor) and isinstance(wide, torch.Tensor) and _is_discrete(low) and _is_discrete(wide)
    )


def _is_discrete(tensor: Any) -> bool:
    is_number = tensor.is_floating_point() or tensor.is_complex() or tensor.is_quantized
    return tensor.layout is torch.strided and tensor.device.type != "meta" and not is_number
