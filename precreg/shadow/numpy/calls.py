"""Which calls of numpy made each value of a computation, so that they can be made again?

The engine of traces sees the calls. Here each of them gets names for the values that it reads and makes. A write to
memory makes a new value of the whole array, and a view of it is read from this value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.shadow.numpy.array import ShadowArray, ShadowScalar
from precreg.shadow.numpy.engine import NumpyEngine
from precreg.shadow.numpy.functions import IN_PLACE, IN_PLACE_METHODS
from precreg.shadow.numpy.memory import address, owner_of
from precreg.shadow.numpy.values import plain_array_of
from precreg.shadow.recorder import Detail, Recorder
from precreg.shadow.site import user_site
from precreg.subject import output_leaves
from precreg.types import Site

if TYPE_CHECKING:
    from precreg.arithmetic.devices import Arithmetic

Plain = NDArray[Any]

# function: numpy.add, numpy.linalg.norm; method: x.mean(...); item: x[key]; operator: x + y of scalars.
CallKind = Literal["function", "method", "item", "operator"]
# Functions that enter functions of the user, whose calls are seen one by one.
_ENTERED = (np.piecewise, np.apply_along_axis)
_MAX_PERMUTED = 4


class ValueName(NamedTuple):
    """Stand for a value in the arguments of a call."""

    name: str


class SpelledCall(NamedTuple):
    """A call as code writes it. Values among `arguments` and `options` are names; all else is as it was.

    A call with a `target` writes to a part of a copy of this value, and gives the copy. The part is `view` of it; None
    stands for all of it. An item is set then, and a function gets the part as `out`, or as its first argument.
    """

    kind: CallKind
    module: str
    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    target: ValueName | None = None
    view: SpelledCall | None = None
    is_first: bool = False


class RecordedCall(NamedTuple):
    """One call, its place in the code, and the names of its results; "" for a result that is not an array."""

    spelled: SpelledCall
    site: Site
    makes: tuple[str, ...]


class _Memory:
    """The memory of an array: the name of its whole value, with its layout, and the names of its views."""

    def __init__(self, owner: Plain) -> None:
        self.owner = owner
        self.whole, self.layout = "", owner
        self.names: dict[Any, str] = {}


class _CallEngine(NumpyEngine):
    """Record the calls that the engine sees."""

    def __init__(self, recorder: Recorder, arithmetic: Arithmetic | None) -> None:
        super().__init__(recorder, arithmetic, shares=False)
        self.calls: list[RecordedCall] = []
        self.low: dict[str, Plain] = {}
        self._memories: dict[int, _Memory] = {}
        self._is_quiet = False
        self._run, self.operations.run = self.operations.run, self._run_taken  # type: ignore[method-assign]

    # The calls.

    def ufunc(self, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        name = ufunc.__name__ + ("" if method == "__call__" else f".{method}")
        targets = [each for each in options.get("out") or () if each is not None]
        if self._is_quiet or not self.is_active or len(targets) > 1:
            return super().ufunc(ufunc, method, inputs, options)
        call = self._spelled("function", _module_of(ufunc), name, inputs, _without_out(options))
        if method == "at":
            call = self._spelled("function", _module_of(ufunc), name, inputs[1:], {})
            targets = [inputs[0]]
        return self._recorded(call, targets, lambda: NumpyEngine.ufunc(self, ufunc, method, inputs, options), method)

    def function(self, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if self._is_quiet or not self.is_active or function in _ENTERED:
            return super().function(function, arguments, options)
        is_in_place = function in IN_PLACE
        given, out = arguments[1:] if is_in_place else arguments, options.get("out")
        call = self._spelled("function", _module_of(function), function.__name__, given, _without_out(options))
        target = arguments[0] if is_in_place else out[0] if isinstance(out, tuple) else out
        how = "at" if is_in_place else "out"
        targets = [] if target is None else [target]
        return self._recorded(call, targets, lambda: NumpyEngine.function(self, function, arguments, options), how)

    def method(self, name: str, array: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if self._is_quiet or not self.is_active or name in IN_PLACE_METHODS:
            return super().method(name, array, arguments, options)
        call = self._spelled("method", "", name, (array, *arguments), _without_out(options))
        targets = [options["out"]] if options.get("out") is not None else []
        return self._recorded(call, targets, lambda: NumpyEngine.method(self, name, array, arguments, options))

    def operator(self, low: Callable[..., Any], ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
        if self._is_quiet or not self.is_active:
            return super().operator(low, ufunc, inputs)
        call = self._spelled("operator", "operator", low.__name__, inputs, {})
        return self._recorded(call, [], lambda: NumpyEngine.operator(self, low, ufunc, inputs))

    def take_item(self, array: ShadowArray, key: Any) -> Any:
        if self._is_quiet or not self.is_active:
            return super().take_item(array, key)
        call = self._spelled("item", "", "", (array, key), {})
        return self._recorded(call, [], lambda: NumpyEngine.take_item(self, array, key))

    def set_item(self, array: ShadowArray, key: Any, value: Any) -> None:
        if self._is_quiet or not self.is_active:
            super().set_item(array, key, value)
            return
        if type(value) is ShadowArray and _writes_itself(array, self.unwrap(key), value):
            # `x[i] += y` writes the view back to its own place.
            return
        call = self._spelled("item", "", "", (key, value), {})
        self._recorded(call, [array], lambda: NumpyEngine.set_item(self, array, key, value))

    def _run_taken(self, name: str, low: Any, wide: Any, arguments: Any, options: Any, **others: Any) -> Any:
        """Record the functions that numpy gives no array to decide about, such as numpy.array of a list."""
        if self._is_quiet or not self.is_active or getattr(np, name, None) is None or not hasattr(low, "__module__"):
            return self._run(name, low, wide, arguments, options, **others)
        call = self._spelled("function", "numpy", name, arguments, options)
        return self._recorded(call, [], lambda: self._run(name, low, wide, arguments, options, **others))

    def _recorded(self, call: SpelledCall, targets: Sequence[Any], make: Callable[[], Any], how: str = "out") -> Any:
        site = user_site(depth=2)
        place = self._target(targets[0]) if targets else None
        with self._quiet():
            result = make()
        if place is None:
            self._note_results(call, site, result)
        else:
            memory, view = place
            written = call._replace(target=ValueName(memory.whole), view=view, is_first=how == "at")
            self._write(memory, written, site)
        return result

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        self._is_quiet = True
        try:
            yield
        finally:
            self._is_quiet = False

    def _spelled(self, kind: CallKind, module: str, name: str, arguments: Any, options: Any) -> SpelledCall:
        return SpelledCall(kind, module, name, self._named(tuple(arguments)), self._named(dict(options)))

    def _named(self, value: Any) -> Any:
        """Return arguments with names in the place of arrays."""
        if isinstance(value, np.ndarray) or type(value) is ShadowScalar:
            return ValueName(self.name_of(value))
        if isinstance(value, list):
            return [self._named(each) for each in value]
        if isinstance(value, tuple):
            return tuple(self._named(each) for each in value)
        if isinstance(value, dict):
            return {name: self._named(each) for name, each in value.items()}
        return value

    # The values.

    def name_of(self, value: Any) -> str:
        """Return the name of an array as it is now."""
        plain = plain_array_of(value)
        assert plain is not None
        memory = self._memory_of(plain)
        name = memory.names.get(_region(plain), "")
        if name:
            return name
        if memory.whole and (call := self._view_of(memory, plain)) is not None:
            return self._add(call, user_site(depth=2), [plain])[0]
        # Nobody saw it before: a constant.
        return self._keep(plain, memory)

    def name_input(self, name: str, value: Any) -> None:
        """Give an input its name."""
        plain = plain_array_of(value)
        if plain is not None and type(value) is ShadowArray:
            self._keep(plain, self._memory_of(plain), name)

    def _memory_of(self, plain: Plain) -> _Memory:
        owner = owner_of(plain)
        if id(owner) not in self._memories:
            # The owner stays, so that no other array gets its identity.
            self._memories[id(owner)] = _Memory(owner)
        return self._memories[id(owner)]

    def _keep(self, plain: Plain, memory: _Memory, name: str = "") -> str:
        """Keep an array as a value of a name."""
        name = name or f"v{len(self.low)}"
        self.low[name] = plain.copy("K")
        memory.names[_region(plain)] = name
        if not memory.whole and plain.nbytes == memory.owner.nbytes:
            memory.whole, memory.layout = name, plain
        return name

    def _note_results(self, call: SpelledCall, site: Site, result: Any) -> None:
        parts = list(result) if isinstance(result, tuple | list) else [result]
        plain = [plain_array_of(part) if type(part) in (ShadowArray, ShadowScalar) else None for part in parts]
        known = [each is None or _region(each) in self._memory_of(each).names for each in plain]
        if not all(known):
            self._add(call, site, plain)

    def _add(self, call: SpelledCall, site: Site, results: Sequence[Plain | None]) -> list[str]:
        makes = ["" if each is None else self._keep(each, self._memory_of(each)) for each in results]
        self.calls.append(RecordedCall(call, site, tuple(makes)))
        return makes

    def _target(self, target: Any) -> tuple[_Memory, SpelledCall | None]:
        """Return the memory that a call will write to, and the view of its whole value; None for all of it."""
        plain = plain_array_of(target)
        assert plain is not None
        memory = self._memory_of(plain)
        if not memory.whole:
            self._keep(memory.owner, memory)
        if _region(plain) == _region(memory.layout):
            return memory, None
        return memory, self._view_of(memory, plain)

    def _write(self, memory: _Memory, call: SpelledCall, site: Site) -> None:
        """Give a memory a new value. All views of it are read again."""
        memory.names, memory.whole, layout = {}, "", memory.layout
        self._add(call, site, [layout])

    def _view_of(self, memory: _Memory, plain: Plain) -> SpelledCall | None:
        """Return the call that reads a view from the whole value of its memory; None for a view of other bits."""
        base, whole = memory.layout, ValueName(memory.whole)
        if plain.dtype != base.dtype:
            return None
        places = _places(base, plain)
        numbers = np.arange(base.size).reshape(base.shape)
        if plain.size == base.size:
            if np.array_equal(numbers.reshape(plain.shape), places):
                return SpelledCall("method", "", "reshape", (whole, plain.shape), {})
            if plain.ndim == base.ndim <= _MAX_PERMUTED:
                for axes in permutations(range(base.ndim)):
                    if np.array_equal(numbers.transpose(axes), places):
                        return SpelledCall("method", "", "transpose", (whole, *axes), {})
        key = _key_of(numbers, places)
        if key is not None:
            return SpelledCall("item", "", "", (whole, key), {})
        return SpelledCall("function", "numpy", "take", (whole, ValueName(self._constant(places))), {})

    def _constant(self, array: Plain) -> str:
        return self._keep(array, self._memory_of(array))


def _writes_itself(array: ShadowArray, key: Any, value: ShadowArray) -> bool:
    place = np.ndarray.__getitem__(array, key)
    return isinstance(place, ShadowArray) and _region(place.view_plain()) == _region(value.view_plain())


def _region(plain: Plain) -> Any:
    return address(plain), plain.shape, plain.strides, plain.dtype.str


def _places(base: Plain, view: Plain) -> NDArray[np.int64]:
    """Return the places of a view's elements in an array of the same memory, as C counts them."""
    order = np.argsort(_offsets(base).reshape(-1), kind="stable")
    found = np.searchsorted(_offsets(base).reshape(-1)[order], _offsets(view))
    return order[found].astype(np.int64)


def _offsets(array: Plain) -> NDArray[np.int64]:
    found = np.full(array.shape, address(array), np.int64)
    for axis, (size, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        steps = np.arange(size, dtype=np.int64) * stride
        found += steps.reshape([-1 if at == axis else 1 for at in range(array.ndim)])
    return found


def _key_of(numbers: NDArray[np.int64], places: NDArray[np.int64]) -> tuple[Any, ...] | None:
    """Return the index of slices and integers that gives a view, or None."""
    if not places.size or numbers.ndim < places.ndim:
        return None
    index = np.unravel_index(places, numbers.shape)
    for fixed in combinations(range(numbers.ndim), numbers.ndim - places.ndim):
        free = [axis for axis in range(numbers.ndim) if axis not in fixed]
        key: list[Any] = [int(index[axis].flat[0]) for axis in range(numbers.ndim)]
        for at, axis in enumerate(free):
            key[axis] = _slice_of(np.moveaxis(index[axis], at, 0).reshape(places.shape[at], -1)[:, 0])
        if None not in key and np.array_equal(numbers[tuple(key)], places):
            return tuple(key)
    return None


def _slice_of(line: NDArray[np.int64]) -> slice | None:
    """Return the slice of evenly spaced indices; None for one index that repeats."""
    step = int(line[1] - line[0]) if len(line) > 1 else 1
    stop = int(line[-1]) + (1 if step > 0 else -1)
    return slice(int(line[0]), None if stop < 0 else stop, step) if step else None


def _without_out(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "out"}


def _module_of(function: Any) -> str:
    """Return the module of a function by which code names it."""
    module = getattr(function, "__module__", None) or "numpy"
    if isinstance(function, np.ufunc) and getattr(np, function.__name__, None) is not function:
        return "scipy.special" if module == "numpy" else str(module)
    return "numpy" if getattr(np, function.__name__, None) is function else str(module)


class CallRecorder:
    """Observe one call of a Python function, and record the calls of numpy that it makes.

    `outputs` has the name of the value of each output; an output that is no value of the computation is left out.
    """

    def __init__(self) -> None:
        self.calls: Sequence[RecordedCall] = ()
        self.low: dict[str, Plain] = {}
        self.outputs: dict[str, str] = {}

    def watch_module(self, module: object) -> None:
        """Ignore a module of torch, whose calls another chain records."""

    def note_rounded_weights(self, module: str, dtype: str, changed: int, elements: int) -> None:
        """Ignore weights of torch."""

    def call(
        self,
        function: Callable[..., object],
        arguments: Sequence[object],
        named: Mapping[str, object],
        arithmetic: Arithmetic | None = None,
    ) -> dict[str, Any]:
        """Return the outputs of a call by name."""
        engine = _CallEngine(Recorder(Detail.OUTPUTS), arithmetic)
        with engine:
            given = [engine.wrap(value) for value in arguments]
            by_name = {name: engine.wrap(value) for name, value in named.items()}
            for name, value in {**{f"x{at}": each for at, each in enumerate(given)}, **by_name}.items():
                engine.name_input(name, value)
            leaves = dict(output_leaves(function(*given, **by_name)))
            watched = {name: leaf for name, leaf in leaves.items() if type(leaf) in (ShadowArray, ShadowScalar)}
            self.outputs = {name: engine.name_of(leaf) for name, leaf in watched.items()}
            self.calls, self.low = engine.calls, engine.low
            return {name: engine.unwrap(leaf) for name, leaf in leaves.items()}
