"""How do shadows travel beside numpy arrays?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy import asarray
from numpy.typing import NDArray

from precreg.shadow.numpy.array import ShadowArray, ShadowScalar, is_foreign, is_watched
from precreg.shadow.numpy.bounds import BoundLedger
from precreg.shadow.numpy.creators import Creators
from precreg.shadow.numpy.elementwise import ElementOperations
from precreg.shadow.numpy.functions import HANDLERS, IN_PLACE, IN_PLACE_METHODS
from precreg.shadow.numpy.memory import Memories, owner_of
from precreg.shadow.numpy.operations import Operations, plain_arrays
from precreg.shadow.numpy.tape import NumpyTape, Step
from precreg.shadow.numpy.values import Values, leaves_of, plain_array_of, replace_leaves
from precreg.shadow.numpy.writes import Writes
from precreg.shadow.recorder import Detail, Recorder
from precreg.shadow.site import user_site
from precreg.shadow.sizes import counted_errors

if TYPE_CHECKING:
    from precreg.arithmetic.devices import Arithmetic


_OBJECT = np.dtype(object)
LONG = np.dtype(np.longdouble)
_WIDE_INPUTS = frozenset(np.dtype(each).name for each in (np.float64, np.complex128, np.longdouble, np.clongdouble))


class NumpyEngine:
    """Compute shadows beside numpy arrays; an arithmetic computes the low-precision operations, if there is one.

    Shadows are float64, and shadows of float64 are longdouble. All are longdouble if no floating-point input has a
    lower precision than float64. `wide` is the dtype of all shadows.
    """

    def __init__(
        self,
        recorder: Recorder,
        arithmetic: Arithmetic | None = None,
        wide: str | None = None,
        *,
        shares: bool = True,
    ) -> None:
        self.recorder, self.arithmetic = recorder, arithmetic
        self.memories = Memories(LONG if wide is None else np.dtype(wide))
        self.memories.note_change = self._note_change
        self._is_fixed = wide is not None
        # A function had no longdouble, and float64 was wide enough for its result.
        self.is_narrowed = False
        self.values = Values(self.memories, arithmetic)
        self.tape = (
            NumpyTape(self.values, bounds=recorder.has_bounds) if shares and recorder.detail >= Detail.OWN else None
        )
        self.operations = Operations(self, recorder, self.values, self.tape)
        self.writes = Writes(self.operations)
        self.elementwise = ElementOperations(self.operations)
        self.is_active = False
        self._creators = Creators(self)
        # The owners of inputs and constants: their shadows equal them, and need no memory until they are written.
        self._given: dict[int, NDArray[Any]] = {}

    def __enter__(self) -> Self:
        self.is_active = True
        self._creators.patch()
        return self

    def __exit__(self, *exception: object) -> None:
        self._creators.restore()
        self.is_active = False

    # Values that come in and go out.

    def wrap(self, value: Any) -> Any:
        """Return an array as one whose operations are watched; its shadow equals it."""
        if type(value) in (ShadowArray, ShadowScalar) or not isinstance(value, np.ndarray):
            return value
        if value.dtype.kind not in "biu" and self.values.wide_of(value.dtype) is None:
            return value
        if not self._is_fixed and value.dtype.kind not in "biu" and value.dtype.name not in _WIDE_INPUTS:
            self.memories.wide, self._is_fixed = np.dtype(np.float64), True
        return self.given(value, self.arithmetic is not None and value.dtype.kind not in "biuc")

    def given(self, array: NDArray[Any], is_simulated: bool = False) -> ShadowArray:
        """Return a plain array as a watched constant."""
        owner = owner_of(array)
        self._given[id(owner)] = owner
        return self._view(array, is_simulated)

    @property
    def shadow_dtype(self) -> str:
        """Return the name of the dtype of shadows: of the least precise ones."""
        # A longdouble of 53 bits is float64 by another name.
        is_long = np.finfo(self.memories.wide).nmant > np.finfo(np.float64).nmant and not self.is_narrowed
        return "longdouble" if is_long else "float64"

    def wrap_constant(self, array: NDArray[Any]) -> Any:
        """Return an array of a module as a watched constant; a simulated device does not compute on it."""
        is_number = array.dtype.kind in "biu" or self.values.wide_of(array.dtype) is not None
        return self.given(array) if is_number else array

    def take(self, array: NDArray[Any], shadow: NDArray[Any]) -> Any:
        """Return an array of another engine as a watched one. It shares the memory of its shadow if it can."""
        watched = self.wrap(array)
        if self.memories.find(array) is None:
            self.memories.adopt(array, shadow, shares=True)
        return watched

    def exact_of(self, array: NDArray[Any]) -> NDArray[Any] | None:
        """Return the shadow of an array, as a view if it has one; None if the engine does not know the array."""
        plain = plain_array_of(array)
        if plain is None or not (type(array) is ShadowArray or self.knows(plain)) or self.is_foreign(plain):
            return None
        exact: NDArray[Any] = self.values.exact(array)
        return exact

    def is_foreign(self, array: NDArray[Any]) -> bool:
        """Return whether code without a trace computed an array, or may have.

        Plain numpy computes unseen on results of such code, so then each array that the engine does not know is one.
        """
        recorder = self.recorder
        return recorder.is_foreign(owner_of(array)) or (
            recorder.has_foreign and self.values.wide_of(array.dtype) is not None and not self.knows(array)
        )

    def takes_foreign(self, given: Any) -> bool:
        """Return whether code without a trace computed an array among arguments."""
        return self.recorder.has_foreign and any(map(self.is_foreign, plain_arrays(given)))

    def _on_foreign(self, name: str, function: Callable[..., Any], arguments: Any, options: Any) -> Any:
        """Compute an operation whose exact result nobody knows."""
        self.recorder.note_event("untraced", name, user_site(depth=2), detail="plain array")
        return function(*self.values.low(arguments), **self.values.low(options))

    def _view(self, array: NDArray[Any], is_simulated: bool) -> ShadowArray:
        view = np.ndarray.view(array, ShadowArray)
        view.engine, view.is_simulated = self, is_simulated
        return view

    def watched(self, part: NDArray[Any]) -> ShadowArray:
        """Return an array of a result as a watched one."""
        return self._view(np.ndarray.view(part, np.ndarray), type(part) is not np.ndarray and self._is_simulated(part))

    def _is_simulated(self, part: Any) -> bool:
        return self.arithmetic is not None and hasattr(part, "arithmetic")

    def adopt(self, part: Any, array: NDArray[Any], exact: NDArray[Any]) -> ShadowArray | ShadowScalar:
        """Return a new floating-point result as a watched value with its shadow."""
        self.memories.adopt(array, exact)
        if isinstance(part, np.generic):
            return ShadowScalar(self._view(array, False))
        return self._view(array, self._is_simulated(part))

    def as_scalar(self, array: ShadowArray) -> Any:
        """Return a watched array without dimensions as a scalar, where numpy has one."""
        return array if array.is_simulated else ShadowScalar(array)

    def unwrap(self, value: Any) -> Any:
        """Return the plain array of a watched one, also inside of lists and tuples."""
        return replace_leaves(value, self._plain)

    def _plain(self, value: Any) -> Any:
        return value.view_plain()[()] if type(value) is ShadowScalar else value.view_plain()

    def rounded(self, value: Any) -> Any:
        """Return arguments with the rounded shadows in the place of the values."""

        def round_leaf(leaf: Any) -> Any:
            exact = self.values.exact(leaf)
            rounded = asarray(exact).astype(leaf.dtype)
            if type(leaf) is ShadowScalar:
                return rounded[()]
            return self.values.low(self._view(rounded, leaf.is_simulated))

        return replace_leaves(value, round_leaf)

    def is_given(self, array: NDArray[Any]) -> bool:
        """Return whether an array is an input or a constant."""
        return id(owner_of(array)) in self._given

    def knows(self, array: NDArray[Any]) -> bool:
        """Return whether an array has a shadow, or is an input or constant."""
        return id(owner_of(array)) in self._given or self.memories.find(array) is not None

    def shadow_of(self, value: Any) -> NDArray[Any] | None:
        """Return the shadow of a result: a copy; None if the engine does not know the value."""
        if isinstance(value, list | tuple):
            members = [self.shadow_of(member) for member in value]
            known = [member for member in members if member is not None]
            is_one = len(known) == len(members) and len({member.shape for member in known}) == 1
            return np.stack(known) if is_one else None
        array = plain_array_of(value) if type(value) in (ShadowArray, ShadowScalar) else None
        if array is None or not self.knows(array):
            return None
        return np.array(self.values.exact(value))

    @np.errstate(all="ignore")
    def shares(self, outputs: Mapping[str, Any]) -> dict[str, dict[int, float]]:
        """Return the shares of each output's error by the number of the operation."""
        if self.tape is None:
            return {}
        if self.tape.dropped:
            self.recorder.note_event("shares_cut", "tape", user_site(), self.tape.dropped, self.tape.dropped, "memory")
        found = {name: self._shares_of(name, value) for name, value in outputs.items()}
        for number in sorted(self.tape.failed):
            operation = self.recorder.operations[number - 1]
            self.recorder.note_event("shares_cut", operation.name, operation.site)
        return {name: shares for name, shares in found.items() if shares}

    def _shares_of(self, name: str, value: Any) -> dict[int, float]:
        seeds, squares = [], 0.0
        for leaf in leaves_of(value):
            array = leaf.view_plain()
            memory = self.memories.find(array)
            if memory is not None:
                exact = self.memories.view(array, memory)
                error = counted_errors(array, exact).astype(np.complex128 if exact.dtype.kind == "c" else float)
                squares += float(np.sum(np.abs(error) ** 2))
                seeds.append((self.memories.region(array, memory), memory.twin.size, error))
        if not seeds or self.tape is None or not 0.0 < squares < np.inf:
            return {}
        norm = float(np.sqrt(squares))
        # A simulated device has roundings of its own.
        bounds = BoundLedger() if self.recorder.has_bounds and self.arithmetic is None else None
        shares = self.tape.shares([(region, units, error / norm) for region, units, error in seeds], bounds)
        if bounds is not None:
            self.recorder.set_bounds(bounds.own)
            if bounds.is_complete and not self.tape.dropped:
                self.recorder.output_bounds[name] = bounds.total / norm
        return {number: share / norm for number, share in shares.items()}

    # Operations.

    def ufunc(self, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a ufunc, or one of its methods."""
        name = ufunc.__name__ + ("" if method == "__call__" else f".{method}")
        function = getattr(ufunc, method)
        if not self.is_active:
            return function(*self.unwrap(inputs), **self.unwrap(options))
        foreign = _foreign_kind((*inputs, *(options.get("out") or ())))
        if foreign is not None:
            self.note_foreign(name, foreign)
            return function(*self.unwrap(inputs), **self.unwrap(options))
        if method == "at":
            self.writes.at(name, ufunc, inputs)
            return None
        if self.takes_foreign((inputs, options)) and options.get("out") is None:
            return self._on_foreign(name, function, inputs, options)
        out = options.pop("out", None)
        targets = [each for each in out or () if each is not None]
        if not targets:
            fast = self.elementwise.run(name, ufunc, inputs) if method == "__call__" and not options else None
            return self.operations.run(name, function, function, inputs, options) if fast is None else fast
        if len(targets) == 1 and ufunc.nout == 1:
            self.writes.out(name, function, inputs, options, targets[0])
            return targets[0]
        results = self.operations.run(name, function, function, inputs, options)
        for target, result in zip(out or (), results, strict=True):
            if target is not None:
                self.set_item(self.as_watched(target), ..., result)
        return tuple(result if target is None else target for target, result in zip(out or (), results, strict=True))

    def as_watched(self, target: Any) -> ShadowArray:
        """Return an array that an operation writes to as a watched one."""
        return target if type(target) is ShadowArray else self._view(target, False)

    def operator(self, low: Callable[..., Any], ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
        """Compute an operator of scalars: in low precision by the operator, in the shadow by the ufunc."""
        if not self.is_active:
            return low(*self.unwrap(inputs))
        return self.operations.run(ufunc.__name__, low, ufunc, inputs, {})

    def function(self, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a function of numpy as one operation."""
        if not self.is_active:
            return function(*self.unwrap(arguments), **self.unwrap(options))
        name = function.__name__
        foreign = _foreign_kind((*arguments, *options.values()))
        if foreign is not None:
            self.note_foreign(name, foreign)
            return function(*self.unwrap(arguments), **self.unwrap(options))
        if function in IN_PLACE:
            return IN_PLACE[function](self, function, arguments, options)
        if options.get("out") is not None:
            return self._into(name, function, arguments, options)
        if self.takes_foreign((arguments, options)):
            return self._on_foreign(name, function, arguments, options)
        if function in HANDLERS:
            return HANDLERS[function](self, function, arguments, options)
        return self.operations.run(name, function, function, arguments, options)

    def _into(
        self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        target = options.pop("out")
        target = target[0] if isinstance(target, tuple) else target
        self.writes.out(name, function, arguments, options, target)
        return target

    def method(self, name: str, array: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Compute a method of an array as one operation."""

        def call(array: Any, *arguments: Any, **options: Any) -> Any:
            return getattr(array, name)(*arguments, **options)

        given = (array, *arguments)
        if not self.is_active:
            return call(*self.unwrap(given), **self.unwrap(options))
        if name in IN_PLACE_METHODS:
            return IN_PLACE_METHODS[name](self, array, arguments, options)
        if name == "astype":
            return self.operations.cast(array, arguments, options)
        if options.get("out") is not None:
            return self._into(name, call, given, options)
        if self.takes_foreign((given, options)):
            return self._on_foreign(name, call, given, options)
        return self.operations.run(name, call, call, given, options)

    def take_item(self, array: ShadowArray, key: Any) -> Any:
        """Return the elements of an index: a view, a copy, or a scalar."""
        key = self.unwrap(key)
        if not self.is_active:
            return array.view_plain()[key]
        found = np.ndarray.__getitem__(array, key)
        # A copy by an index of arrays may be a view, too: of its own memory.
        if isinstance(found, ShadowArray) and owner_of(found) is owner_of(array):
            return found
        if not isinstance(found, ShadowArray) and self.values.wide_of(getattr(found, "dtype", _OBJECT)) is None:
            if isinstance(found, np.void) and self.memories.shadows_fields_of(array.view_plain()):
                self.recorder.note_event("cut", "record", user_site(depth=2), 1, 1)
            return found
        if not isinstance(found, ShadowArray):
            return self.operations.take_element(array, key)

        def index(values: Any) -> Any:
            return values[key]

        return self.operations.run("getitem", index, index, (array,), {})

    def set_item(self, array: ShadowArray, key: Any, value: Any) -> None:
        """Write values to the elements of an index."""
        key = self.unwrap(key)
        if not self.is_active:
            array.view_plain()[key] = self.unwrap(value)
            return
        self.writes.item(array, key, value)

    def view_bits(self, array: ShadowArray, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return a view: of the same numbers, or of their bits in another dtype, which leaves the engine."""
        given = arguments[0] if arguments else options.get("dtype")
        is_type = isinstance(given, type) and issubclass(given, np.ndarray)
        if not self.is_active:
            return array.view_plain().view(*arguments, **options)
        if given is not None and is_type and given not in (np.ndarray, ShadowArray):
            self.note_foreign("view", given)
            self.memories.hand_out(array.view_plain())
            return array.view_plain().view(*arguments, **options)
        if given is None or is_type:
            return self._view(array.view_plain(), array.is_simulated)
        dtype = np.dtype(given)
        if dtype == array.dtype or self._same_numbers(dtype, array.dtype):
            return self._view(array.view_plain().view(dtype), array.is_simulated)
        return self.wrap(self.hand_out(array, "view").view(dtype))

    def _same_numbers(self, one: np.dtype[Any], other: np.dtype[Any]) -> bool:
        """Return whether one of two dtypes is the complex one of the other's real numbers."""
        sizes = {each.itemsize // (2 if each.kind == "c" else 1) for each in (one, other)}
        return {one.kind, other.kind} == {"c", "f"} and len(sizes) == 1

    def came_back(self, value: Any) -> Any:
        """Return an array that code outside of numpy filled as a watched constant; other values unchanged."""
        is_number = isinstance(value, np.ndarray) and self.values.wide_of(value.dtype) is not None
        return self.given(value) if is_number and not is_watched(value) else value

    def note_foreign(self, name: str, kind: type) -> None:
        """Note that an array of another class, such as numpy.matrix, computes by itself."""
        detail = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        self.recorder.note_event("untraced", name, user_site(depth=2), detail=detail)

    def hand_out(self, value: Any, name: str) -> Any:
        """Return the plain value, as `leave` does, to code that may write to its memory."""
        if self.is_active and self.values.wide_of(value.dtype) is not None:
            self.memories.hand_out(value.view_plain())
        return self.leave(value, name)

    def _note_change(self, values: NDArray[Any], changed: NDArray[Any]) -> None:
        """Note that code outside of numpy has written, and end the way of shares there."""
        count = int(np.count_nonzero(changed))
        self.recorder.note_event("untraced", "write", user_site(depth=2), count, values.size, "memory that left")
        if self.tape is not None:
            self.tape.add(Step(None, "write", np.copy, (), {}, [], [self.tape.written(values, None, changed)]))

    def leave(self, value: Any, name: str) -> Any:
        """Return the plain value, and note that it leaves the engine if it is floating point."""
        if self.is_active and self.values.wide_of(value.dtype) is not None:
            self.recorder.note_event("cut", name, user_site(depth=2), value.size, value.size)
        return self._plain(value)


def _foreign_kind(values: Iterable[Any]) -> type | None:
    """Return the class of an array with operations of its own among arguments; None without one."""
    for value in values:
        kind = type(value)
        if kind is ShadowArray or kind is ShadowScalar or kind is np.ndarray:
            continue
        found = _foreign_kind(value) if kind is list or kind is tuple else kind if is_foreign(value) else None
        if found is not None:
            return found
    return None
