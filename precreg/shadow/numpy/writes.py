"""How is an operation computed that writes to one of its arguments?

The shadow exists before the operation writes, because it would equal the new values otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy import asarray
from numpy.typing import NDArray

from precreg.shadow.numpy.array import ShadowArray
from precreg.shadow.numpy.memory import address
from precreg.shadow.numpy.operations import Operations
from precreg.shadow.numpy.tape import Step
from precreg.shadow.numpy.values import leaves_of, plain_array_of
from precreg.shadow.recorder import Detail
from precreg.shadow.site import user_site
from precreg.subject import first_line
from precreg.types import OperationNote, Site

Function = Callable[..., Any]


class Write(NamedTuple):
    """One operation that writes: `low` and `wide` take the target first, and then the arguments.

    `reads` says that the new values depend on the old ones. `mover` computes the new target for the tape.
    """

    name: str
    low: Function
    wide: Function
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    reads: bool
    tape_function: Function
    where: Any = None


class Writes:
    """Compute and record operations that write, for one engine."""

    def __init__(self, operations: Operations) -> None:
        self.operations, self.values, self.memories = operations, operations.values, operations.memories

    def into(self, target: Any, write: Write) -> None:
        """Write to an array in low precision and to its shadow, and record the operation."""
        operations, values = self.operations, self.values
        array = plain_array_of(target)
        assert array is not None
        given = (write.arguments, write.options)
        if values.wide_of(array.dtype) is None:
            self._into_other(target, array, write)
            return
        site = user_site(depth=3)
        operations.note_unknown(write.name, site, given)
        memory = self.memories.memory_of(array)
        shadow = self.memories.view(array, memory)
        moved = operations.moves_exactly(write.name, given, [array])
        tape = operations.tape
        with np.errstate(all="ignore"):
            exact = values.exact(write.arguments), values.exact(write.options)
            own = None if moved or operations.recorder.detail < Detail.OWN else self._own(array, write)
            read = (target, *write.arguments) if write.reads else write.arguments
            kept = None if tape is None else tape.prepare(write.name, read, write.options)
            inputs = operations.measurer.inputs_of(given)
            error = operations.measurer.input_error(inputs) if tape is not None else None
        write.low(values.low(target), *values.low(write.arguments), **values.low(write.options))
        with np.errstate(all="ignore"):
            note: OperationNote = self._write_shadow(write, array, shadow, exact, site) or ("moved" if moved else "")
            self.memories.written(memory, False)
            done = operations.measurer.record(
                write.name, site, array, shadow, own, inputs, note=note, input_error=error
            )
            if kept is not None and tape is not None:
                missing = None if own is None else _difference(array, own)
                written = tape.written(array, missing, None if write.where is None else asarray(write.where))
                step = Step(None if done is None else done.number, write.name, write.tape_function, *kept, [written])
                operations.add_step(step, site)

    def _into_other(self, target: Any, array: NDArray[Any], write: Write) -> None:
        """Write to integers, records or objects, which have no shadow of their own."""
        values, site, before = self.values, user_site(depth=4), np.array(array)
        # It may be a view of memory with a shadow.
        self.memories.hand_out(array)
        write.low(values.low(target), *values.low(write.arguments), **values.low(write.options))
        shadowed = [leaf for leaf in leaves_of((write.arguments, write.options)) if values.is_shadowed(leaf)]
        if shadowed and array.dtype.kind not in "biu":
            size = max(leaf.size for leaf in shadowed)
            self.operations.recorder.note_event("cut", write.name, site, size, size)
        elif shadowed:
            try:
                write.wide(before, *values.exact(write.arguments), **values.exact(write.options))
            except Exception as error:
                self.operations.recorder.note_event("not_shadowed", write.name, site, detail=first_line(error))
                return
            self.operations.note_flips(write.name, site, array, before)

    def _own(self, array: NDArray[Any], write: Write) -> NDArray[Any] | None:
        """Return the exact result of a write on the same low-precision values."""
        own = np.ndarray.astype(array, self.values.wide_of(array.dtype))
        try:
            write.wide(own, *self.values.wide(write.arguments), **self.values.wide(write.options))
        except Exception:
            return None
        return own

    def _write_shadow(
        self, write: Write, array: NDArray[Any], shadow: NDArray[Any], exact: Any, site: Site
    ) -> OperationNote:
        try:
            write.wide(shadow, *exact[0], **exact[1])
        except Exception as error:
            shadow[...] = array
            self.operations.recorder.note_event("not_shadowed", write.name, site, detail=first_line(error))
            return "not_shadowed"
        return ""

    def out(self, name: str, function: Function, inputs: Any, options: dict[str, Any], target: Any) -> None:
        """Call a function with `out`."""

        def write(target: Any, *inputs: Any, **options: Any) -> None:
            function(*inputs, out=target, **options)

        where = options.get("where", True)
        mask = None if where is True else plain_array_of(where) if hasattr(where, "dtype") else where
        self.into(target, Write(name, write, write, inputs, options, False, function, mask))

    def at(self, name: str, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> None:
        """Call the method `at` of a ufunc."""
        target, *rest = inputs

        def write(target: Any, *rest: Any) -> None:
            ufunc.at(target, *rest)

        self.into(self.operations.engine.as_watched(target), Write(name, write, write, tuple(rest), {}, True, ufunc.at))

    def call(self, function: Function, target: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Call a function that writes to its first argument, such as numpy.put."""

        def written(target: Any, *arguments: Any, **options: Any) -> Any:
            changed = np.array(target)
            function(changed, *arguments, **options)
            return changed

        target = self.operations.engine.as_watched(target)
        self.into(target, Write(function.__name__, function, function, arguments, options, True, written))

    def item(self, array: ShadowArray, key: Any, value: Any) -> None:
        """Write values to the elements of an index."""
        place = _view_of(array, key)
        if place is None:

            def write(target: Any, value: Any) -> None:
                target[key] = value

            def written(target: Any, value: Any) -> Any:
                changed = np.array(target)
                changed[key] = value
                return changed

            self.into(array, Write("setitem", write, write, (value,), {}, True, written))
            return
        # `x[i] += y` writes the view back to its own place.
        if type(value) is ShadowArray and _is_same_view(place, value):
            return

        def fill(target: Any, value: Any) -> None:
            target[...] = value

        def spread(value: Any) -> Any:
            # numpy drops leading axes of length 1 of a value that has too many.
            return np.broadcast_to(
                np.reshape(value, np.shape(value)[max(np.ndim(value) - place.ndim, 0) :]), place.shape
            )

        self.into(place, Write("setitem", fill, fill, (value,), {}, False, spread))


def _view_of(array: ShadowArray, key: Any) -> ShadowArray | None:
    """Return the elements of an index as a view; None for an index of integers or truth values, which copies."""
    if isinstance(key, str):
        field = np.ndarray.__getitem__(array, key)
        return field if isinstance(field, ShadowArray) else None
    keys = key if isinstance(key, tuple) else (key,)
    if not all(
        isinstance(each, int | np.integer | slice | type(...) | type(None)) and type(each) is not bool for each in keys
    ):
        return None
    view = np.ndarray.__getitem__(array, key if any(each is ... for each in keys) else (*keys, ...))
    return view if isinstance(view, ShadowArray) else None


def _is_same_view(one: ShadowArray, other: ShadowArray) -> bool:
    places = [(address(each), each.shape, each.strides, each.dtype) for each in (one.view_plain(), other.view_plain())]
    return places[0] == places[1]


def _difference(array: NDArray[Any], exact: NDArray[Any]) -> NDArray[Any]:
    error: NDArray[Any] = np.subtract(array, exact, dtype=np.result_type(exact, np.float64))
    return error
