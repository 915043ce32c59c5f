"""How does an operation of torch run together with its forms in float64, and which record does it give?

torch dispatches each operation below autograd, autocast and its transforms to this mode: those of the forward pass, of
the backward pass and of optimizers alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from precreg.shadow.recorder import Detail, Observed, Recorder
from precreg.shadow.sizes import bits_lost
from precreg.shadow.torch.calls import (
    CallState,
    LongWork,
    OpCall,
    all_have_dtype,
    computes_on,
    has_wide_dtype,
    name_of_dtype,
    only_moves,
    state_before,
)
from precreg.shadow.torch.longdouble import long_constant
from precreg.shadow.torch.measure import Measured, Meter, OpResult, measure_range
from precreg.shadow.torch.places import OperationPlaces, Place
from precreg.shadow.torch.rules import Exact, Jitter, compute_exact, linear_part
from precreg.shadow.torch.schema import facts_of
from precreg.shadow.torch.tape import TorchTape, flat_leaves
from precreg.shadow.torch.twins import (
    Twins,
    array_of,
    is_shadowed,
    may_be_long,
    storage_key,
    tensors_in,
    twin_dtype,
    upcast,
)
from precreg.types import ErrorSize, Operation, OperationNote, Site, TracedArray, ValueRange

# Own errors have three digits at least, whichever way they were computed.
_MAX_NOISE = 1e-3
# The squares of smaller factors may underflow in float32.
_LEAST_FACTOR = 1e-12
# Operations that only reserve memory, or wrap a constant of Python.
_RESERVE = ("empty", "new_empty", "lift_fresh")
_CASTS = ("_to_copy", "copy_")


class _Alone(NamedTuple):
    """The exact operation on the inputs as they are; None if it is not known. `noise` bounds the norm of its error."""

    result: Any
    noise: float = 0.0


class _Sizes(NamedTuple):
    own: ErrorSize | None
    inherited: ErrorSize | None
    total: ErrorSize | None
    range: ValueRange | None = None


class ShadowMode(TorchDispatchMode):  # type: ignore[misc]
    """Run each operation, and its exact forms beside it. The results of the operation itself keep their bits."""

    def __init__(
        self, recorder: Recorder, places: OperationPlaces, *, shares: bool = True, jitter: Jitter | None = None
    ) -> None:
        super().__init__()
        self.twins = Twins()
        self.tape = TorchTape() if shares and recorder.detail >= Detail.OWN else None
        self._recorder, self._places, self._jitter = recorder, places, jitter
        # True after the first operation on floating numbers.
        self.has_run = False
        # True after an operation with a shadow in longdouble, and after one with a shadow in float64.
        self.has_long = self.has_short = False
        self._own = recorder.detail >= Detail.OWN
        self._long = LongWork(self.twins, self.tape, self._own)
        self._meter = Meter(elements=recorder.detail >= Detail.ELEMENTS)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        facts = facts_of(func)
        if facts.views and args and is_shadowed(args[0]):
            low = func(*args, **kwargs)
            if all_have_dtype(low, args[0].dtype):
                # Its node of derivatives has this place.
                self._places.note_node()
                return low
        inputs = [each for each in tensors_in((args, kwargs)) if is_shadowed(each)]
        changed = facts.written(args, kwargs)
        written = [each for each in tensors_in(changed) if is_shadowed(each)] if changed else []
        call = OpCall(func, facts, args, kwargs, inputs, written)
        self.has_run = True
        if facts.creates or not inputs or facts.draws(args, kwargs):
            return self._create(call)
        return self._run(call)

    def _create(self, call: OpCall) -> Any:
        """Run an operation whose results are exact by definition: constants and random numbers."""
        facts = call.facts
        if facts.is_random and not call.written and any(self.twins.has(each) for each in call.inputs):
            self._recorder.note_event("cut", facts.name, self._places.find().site, detail="random")
        result = call.func(*call.args, **call.kwargs)
        for each in call.written:
            self.twins.forget(each)
        foreign = [each for each in tensors_in((call.args, call.kwargs)) if _is_foreign(each)]
        self._forget_reinterpreted(call)
        made = [each for each in tensors_in(result) if is_shadowed(each)]
        if made and facts.rounds and (self._own or may_be_long(made[0])):
            self._round_constant(call, made[0])
        elif made and not facts.name.startswith(_RESERVE):
            place = self._places.find()
            note: OperationNote = "random" if facts.is_random else "not_shadowed" if foreign else "created"
            if foreign:
                detail = f"{foreign[0].layout} {foreign[0].dtype}".replace("torch.", "")
                self._recorder.note_event("not_shadowed", facts.name, place.site, detail=detail)
            self._record(call, place, (), OpResult(made[0], None, None), made, _Sizes(None, None, None), note)
        return result

    def _round_constant(self, call: OpCall, low: Any) -> None:
        """Record a constant that its dtype rounds, such as torch.full(..., 0.1), with its own error."""
        reads = (
            None if self.tape is None else self.tape.read(call.facts, call.args, call.kwargs, (), (), self.twins.has)
        )
        before = CallState({}, {}, True, 0.0, (), None, (), reads)
        if may_be_long(low):
            exact = long_constant(call.facts, call.args, call.kwargs, low.numel())
            before = before._replace(is_unshadowed=exact is None)
            shadow = self.twins.make_long(low)
            shadow[...] = array_of(low) if exact is None else exact
        else:
            wide = twin_dtype(low.dtype)
            self.twins.put(low, call.func(*call.args, **{**call.kwargs, "dtype": wide}), set())
            shadow = self.twins.of(low)
        result = OpResult(low, shadow, shadow)
        (sizes,) = self._measure(call, before, low, [result], "created", 0.0)
        self._record(call, self._places.find(), (), result, [low], sizes, "created")
        if before.is_unshadowed:
            self.twins.lose(low)

    def _forget_reinterpreted(self, call: OpCall) -> None:
        """Drop the twin of floating numbers whose bits are written as integers."""
        for each in tensors_in(call.facts.written(call.args, call.kwargs)):
            if not is_shadowed(each) and each.layout is torch.strided and self.twins.has(each):
                self.twins.drop(storage_key(each))
                self._recorder.note_event("cut", call.facts.name, self._places.find().site, detail="bits")

    def _run(self, call: OpCall) -> Any:
        """Run an operation on floating numbers, and its exact forms."""
        work = self._long.prepare(call)
        if work is not None:
            return self._run_long(call, *work)
        before = self._look(call) if call.written else None
        low = call.func(*call.args, **call.kwargs)
        place = self._places.find()
        if not call.written and self._is_view(call, place, low):
            return low
        if call.facts.name == "_local_scalar_dense":
            if self.twins.differs(call.inputs[0]):
                self._recorder.note_event("cut", "item", place.site, elements=1)
            return low
        before = before or self._look(call)
        exact = compute_exact(call.func, call.facts, call.args, call.kwargs, before.wide, low)
        own = self._run_alone(call, before, low, exact)
        results = self._take(call, before, place, low, exact, own.result)
        self._finish(call, before, place, results, low, exact, own.noise)
        self._lose_unmeasured(call, before, results)
        return low

    def _lose_unmeasured(self, call: OpCall, before: CallState, results: list[OpResult]) -> None:
        """Note results of float64 whose rounding a shadow of float64 does not see."""
        self.has_short = self.has_short or any(self._long.has_short_twin(each.low) for each in results)
        for each in (result.low for result in results):
            is_exact = call.facts.name in _CASTS and not before.is_unshadowed
            is_lost = may_be_long(each) and not is_exact and not self.twins.has(each)
            if is_lost and not before.is_unshadowed and not all(map(has_wide_dtype, call.inputs)):
                self._recorder.note_event("not_shadowed", call.facts.name, self._places.find().site, detail="float64")
            if is_lost or (before.is_unshadowed and has_wide_dtype(each)):
                self.twins.lose(each)

    def _run_long(self, call: OpCall, before: CallState, exact: Any, own: Any) -> Any:
        """Run an operation on float64, whose results in longdouble are known."""
        low = call.func(*call.args, **call.kwargs)
        place = self._places.find()
        self.has_long = True
        results = []
        made = call.written or flat_leaves(low)
        owns = flat_leaves(own) if own is not None else [None] * len(made)
        for each, shadow, beside in zip(made, flat_leaves(exact), owns, strict=False):
            if not is_shadowed(each):
                if isinstance(each, torch.Tensor):
                    self._check_discrete(call, place, each, torch.from_numpy(shadow))
                continue
            if self._jitter is not None and not call.facts.moves:
                shadow = self._jitter.change_long(shadow)
            kept = self.twins.make_long(each)
            kept[...] = shadow
            results.append(OpResult(each, kept, kept if before.is_exact and beside is not None else beside))
        self._finish(call, before, place, results, low, Exact(exact), 0.0)
        for each in results if before.is_lost else ():
            self.twins.lose(each.low)
        return low

    def _is_view(self, call: OpCall, place: Place, low: Any) -> bool:
        """Return whether all results share the memory of inputs: their twins are views of the twins of those."""
        made = [low] if isinstance(low, torch.Tensor) else [*tensors_in(low)]
        keys = {storage_key(each) for each in call.inputs}
        if not made or not all(is_shadowed(each) and storage_key(each) in keys for each in made):
            return self._is_view_of_bits(call, place, made, keys)
        return True

    def _is_view_of_bits(self, call: OpCall, place: Place, made: list[Any], keys: set[int]) -> bool:
        strided = made and all(each.layout is torch.strided and each.device.type != "meta" for each in made)
        if not strided or not all(storage_key(each) in keys for each in made):
            return False
        if any(self.twins.has(each) for each in made):
            self._recorder.note_event("cut", call.facts.name, place.site, detail="bits")
        return True

    def _look(self, call: OpCall) -> CallState:
        """Return the inputs in float64, with their shadows and without: before the operation may write them."""
        is_unshadowed = computes_on(call, has_wide_dtype) and not any(map(self._long.has_short_twin, call.inputs))
        state = state_before(call, self.twins, self.tape, self._own)
        written = {id(each) for each in call.written}
        wide = {id(each): self.twins.make(each) if id(each) in written else self.twins.of(each) for each in call.inputs}
        if self._jitter is not None and not call.facts.moves:
            wide = self._jitter.apply(call.facts, wide, call.written)
        alone = {}
        if self._own and not state.is_exact and written:
            alone = {id(each): upcast(each, copy=id(each) in written) for each in call.inputs}
        return state._replace(wide=wide, alone=alone, is_unshadowed=is_unshadowed)

    def _run_alone(self, call: OpCall, before: CallState, low: Any, exact: Exact) -> _Alone:
        """Run the exact operation on the inputs as they are."""
        if not self._own or exact.reason:
            return _Alone(None)
        if before.is_exact:
            return _Alone(exact.result)
        if only_moves(call, low):
            return _Alone(None)
        return self._add_difference(call, before, exact) or _Alone(self._run_upcast(call, before, low))

    def _run_upcast(self, call: OpCall, before: CallState, low: Any) -> Any:
        """Run the exact operation on the upcasts of the inputs. Exact inputs have one float64 form."""
        alone = before.alone or {
            id(each): upcast(each) if self.twins.has(each) else before.wide[id(each)] for each in call.inputs
        }
        return compute_exact(call.func, call.facts, call.args, call.kwargs, alone, low).result

    def _add_difference(self, call: OpCall, before: CallState, exact: Exact) -> _Alone | None:
        """Return a linear operation on an input as the shadow, and the operation on the input's error, in float32.

        This error is small, so float32 is as good as float64 for it, and takes half the time. Return None for others.
        """
        if call.written or not self._meter.is_fast:
            return None
        linear = linear_part(call.facts, call.args, call.kwargs, self.twins.has)
        if linear is None:
            return None
        error, size = self._meter.error_of(linear.operand, before.wide[id(linear.operand)])
        factor = linear.factor.detach().float()
        factor_size = float(torch.linalg.vector_norm(factor))
        if not factor_size > _LEAST_FACTOR:
            return None
        # Roundoff of sums of products by their norms; and products that underflow.
        noise = 2.0**-23 * size * factor_size + 2.0**-148 * math.sqrt(error.numel()) * (1.0 + factor_size)
        return _Alone(linear.apply(error, factor).double().add_(exact.result), noise)

    def _take(self, call: OpCall, before: CallState, place: Place, low: Any, exact: Exact, own: Any) -> list[OpResult]:
        """Give the results their twins, and return them; count flips of the others."""
        alone = before.alone or before.wide
        self._follow_decisions(call, place)
        for each in call.written:
            if self.twins.is_long(each) and may_be_long(each):
                self.twins.take_back(each, before.wide[id(each)])
        shadows = [(each, self.twins.of(each)) for each in call.written]
        results = [OpResult(each, shadow, before.own_exact(shadow, own, alone[id(each)])) for each, shadow in shadows]
        known = {storage_key(each) for each in call.written}
        used = {storage_key(each) for each in (*before.wide.values(), *call.inputs)}
        lows, exacts = flat_leaves(low), flat_leaves(exact.result)
        owns = flat_leaves(own) if own is not None else [None] * len(lows)
        for each, shadow, beside in zip(lows, exacts, owns, strict=False):
            if not is_shadowed(each):
                self._check_discrete(call, place, each, shadow)
            elif storage_key(each) not in known:
                known.add(storage_key(each))
                if each.shape != shadow.shape:
                    self._recorder.note_event("flip", call.facts.name, place.site, each.numel(), each.numel(), "shape")
                    continue
                if self._jitter is not None and not call.facts.moves and not call.facts.jumps:
                    shadow = self._jitter.change(shadow)
                self.twins.put(each, shadow, used)
                kept = self.twins.of(each)
                results.append(OpResult(each, kept, before.own_exact(kept, own, beside)))
        if self.twins.is_unknown(call.inputs):
            for result in results:
                self.twins.mark_unknown(result.low)
        return results

    def _follow_decisions(self, call: OpCall, place: Place) -> None:
        """Take the decisions of the run, and note where the computation in higher precision decides otherwise."""
        given = call.facts.given(call.args, call.kwargs) if call.facts.decides else {}
        for each in (given[name] for name in call.facts.decides):
            if self.twins.differs(each):
                self._recorder.note_event("flip", call.facts.name, place.site, 1, 1)
            self.twins.forget(each)

    def _check_discrete(self, call: OpCall, place: Place, low: Any, exact: Any) -> None:
        """Note where the computation in higher precision would have chosen other integers or truth values."""
        name, site = call.facts.name, place.site
        if not isinstance(low, torch.Tensor):
            if isinstance(low, bool | int) and low != exact:
                self._recorder.note_event("flip", name, site, 1, 1)
        elif _is_foreign(low):
            detail = f"{low.layout} {low.dtype}".replace("torch.", "")
            self._recorder.note_event("cut", name, site, elements=low.numel(), detail=detail)
        elif low.device.type != "meta":
            changed = int((low != exact).sum()) if low.shape == exact.shape else max(low.numel(), exact.numel())
            if changed:
                self._recorder.note_event("flip", name, site, changed, low.numel())

    def _finish(
        self,
        call: OpCall,
        before: CallState,
        place: Place,
        results: list[OpResult],
        low: Any,
        exact: Exact,
        noise: float,
    ) -> None:
        """Measure the errors of the results, and record the operation with the errors of the worst one."""
        note: OperationNote = "not_shadowed" if exact.reason else "moved" if _moves(call, results) else ""
        if exact.reason:
            self._recorder.note_event("not_shadowed", call.facts.name, place.site, detail=exact.reason)
        if place.compiled is not None:
            self._recorder.note_event("eager", "torch.compile", place.compiled)
        if not results or self._recorder.detail == Detail.OUTPUTS:
            return
        sizes = self._measure(call, before, low, results, note, noise)
        seen = len(call.written) + 1 if call.facts.keeps_for_backward else len(sizes)
        worst = max(range(min(seen, len(sizes))), key=lambda at: _rank(sizes[at]))
        self._note_jumps(call, place, results[worst], sizes[worst])
        made = [each.low for each in results]
        self._record(call, place, before.inputs, results[worst], made, sizes[worst], note, before)

    def _measure(
        self, call: OpCall, before: CallState, low: Any, results: list[OpResult], note: OperationNote, noise: float
    ) -> list[_Sizes]:
        """Return the errors of the results, after the tape and the twins have noted them."""
        keeps_own = self.tape is not None and note != "moved"
        measured = self._meter.measure(results, keeps_own=keeps_own)
        if noise and not noise < _MAX_NOISE * measured[0].own_norm:
            results[0] = results[0]._replace(own_exact=self._run_upcast(call, before, low))
            measured = self._meter.measure(results, keeps_own=keeps_own)
        sizes = []
        for result, (total, own, inherited, _, spread, _) in zip(results, measured, strict=True):
            if note == "moved" and self._own:
                own, inherited = self._meter.no_error, total
            size = self._honest(call, before, result.low, _Sizes(own, inherited, total, spread), note)
            self._keep_error(result, size)
            sizes.append(size)
        if any(self.twins.has(each.low) for each in results):
            self._tape_operation(call, before, low, results, measured)
        return sizes

    def _tape_operation(
        self, call: OpCall, before: CallState, low: Any, results: list[OpResult], measured: list[Measured]
    ) -> None:
        owns = {
            id(each.low): one.own_errors
            for each, one in zip(results, measured, strict=True)
            if one.own is None or one.own.relative > 0.0
        }
        if self.tape is not None and before.reads is not None:
            number = self._recorder.next_number()
            self.tape.add(number, call.func, call.facts, before.reads, call.written, low, owns)

    def _honest(self, call: OpCall, before: CallState, low: Any, sizes: _Sizes, note: OperationNote) -> _Sizes:
        """Withdraw errors that are not known: of unknown inputs, and of float64, the shadow's own dtype."""
        if before.is_lost or self.twins.is_unknown(call.inputs):
            sizes = _Sizes(sizes.own, None, None, sizes.range)
        if before.is_unshadowed and has_wide_dtype(low):
            detail = name_of_dtype(low.dtype)
            self._recorder.note_event("not_shadowed", call.facts.name, self._places.find().site, detail=detail)
            return _Sizes(None, None, None, sizes.range)
        if self.twins.is_long(low):
            return sizes
        is_wide = low.dtype == twin_dtype(low.dtype) and all(
            each.dtype == twin_dtype(each.dtype) for each in call.inputs
        )
        if not is_wide or note == "moved":
            return sizes
        self._recorder.note_event("not_shadowed", str(low.dtype).removeprefix("torch."), Site())
        inherited, total = (None, None) if before.is_exact else (sizes.inherited, sizes.total)
        return _Sizes(None, inherited, total, sizes.range)

    def _keep_error(self, result: OpResult, size: _Sizes) -> None:
        if size.total is None or (size.total.max_abs == 0.0 and size.total.relative == 0.0):
            # The twin equals the upcast, which is made on demand.
            if result.low.numel() * result.low.element_size() == result.low.untyped_storage().nbytes():
                self.twins.settle(result.low)
        else:
            self.twins.errors[storage_key(result.low)] = size.total.relative

    def _note_jumps(self, call: OpCall, place: Place, result: OpResult, size: _Sizes) -> None:
        """Note overflows, and results in whole numbers where the shadow lies on another step."""
        name, total, own = call.facts.name, size.total, size.own
        if total is not None and math.isinf(total.relative) and (own is None or math.isinf(own.relative)):
            exact = result.exact
            finite = torch.from_numpy(np.isfinite(exact)) if isinstance(exact, np.ndarray) else exact.isfinite()
            changed = int((~result.low.isfinite() & finite).sum())
            if changed:
                self._recorder.note_event("overflow", name, place.site, changed, result.low.numel())
        elif call.facts.jumps and total is not None and total.max_abs > 0.0:
            exact = result.exact
            differs = array_of(result.low) != exact if isinstance(exact, np.ndarray) else upcast(result.low) != exact
            changed = int(differs.sum())
            self._recorder.note_event("flip", name, place.site, changed, result.low.numel())

    def _record(
        self,
        call: OpCall,
        place: Place,
        inputs: tuple[TracedArray, ...],
        worst: OpResult,
        made: list[Any],
        sizes: _Sizes,
        note: OperationNote,
        before: CallState | None = None,
    ) -> None:
        if self._recorder.detail == Detail.OUTPUTS:
            return
        low, exact, own_exact = worst
        values = sizes.range or measure_range(low, exact)
        gain = None
        if before is not None and before.error > 0.0 and sizes.inherited is not None:
            gain = sizes.inherited.relative / before.error
        lost = None if before is None or before.largest is None else bits_lost(before.largest, values)
        operation = Operation(
            number=self._recorder.next_number(),
            name=call.facts.shown,
            engine="torch",
            site=place.site,
            phase=place.phase,
            step=self._recorder.step,
            dtype=name_of_dtype(low.dtype),
            shape=tuple(low.shape),
            inputs=inputs,
            own=sizes.own,
            inherited=sizes.inherited,
            total=sizes.total,
            amplification=gain,
            range=values,
            lost_bits=lost,
            note=note,
            sources=() if before is None else before.sources,
        )
        for each in made:
            self.twins.note_maker(each, operation.number)
        operands = None if before is None else (lambda: [before.wide[id(each)] for each in call.inputs])
        self._recorder.record(Observed(operation, low, exact, own_exact, operands))


def _is_foreign(value: Any) -> bool:
    """Return whether a tensor has real numbers in a form without a twin: quantized, sparse, nested."""
    return value.is_quantized or ((value.is_floating_point() or value.is_complex()) and not is_shadowed(value))


def _moves(call: OpCall, results: list[OpResult]) -> bool:
    return bool(results) and only_moves(call, [each.low for each in results])


def _rank(sizes: _Sizes) -> tuple[float, float]:
    """Order results by their own errors, and by their total ones where those are not known."""
    own = -1.0 if sizes.own is None else sizes.own.relative
    return own, -1.0 if sizes.total is None else sizes.total.relative
