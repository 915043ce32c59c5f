"""How is one operation computed three times: in low precision, on the shadows, and exactly on the same inputs?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import asarray
from numpy.typing import NDArray

from precreg.shadow.numpy.array import ShadowArray, ShadowScalar, is_foreign, listed_names
from precreg.shadow.numpy.measure import Inputs, Measurer, OperationFigures, has_no_error
from precreg.shadow.numpy.memory import records_are_shadowed
from precreg.shadow.numpy.tape import NumpyTape, Step, can_pass_back, fits_float32
from precreg.shadow.numpy.values import Values, in_float64, in_widest, leaves_of, plain_array_of
from precreg.shadow.recorder import Detail, Recorder
from precreg.shadow.site import user_site
from precreg.shadow.sizes import relative_error
from precreg.subject import first_line
from precreg.types import Operation, OperationNote, Site

Function = Callable[..., Any]

# These move numbers and compute none, so their own error is 0.
MOVES = frozenset(
    listed_names(
        "getitem copy take take_along_axis repeat tile roll flip fliplr flipud rot90 concatenate stack vstack "
        "hstack dstack column_stack block where select choose compress extract delete insert append diag "
        "diagonal diagflat tril triu reshape ravel flatten transpose swapaxes moveaxis rollaxis squeeze "
        "expand_dims broadcast_to broadcast_arrays atleast_1d atleast_2d atleast_3d split array_split hsplit "
        "vsplit dsplit array asarray asanyarray ascontiguousarray asfortranarray resize trim_zeros sort "
        "partition real imag negative positive absolute fabs conjugate conj maximum minimum fmax fmin max min "
        "amax amin nanmax nanmin clip copysign maximum.reduce minimum.reduce maximum.accumulate "
        "minimum.accumulate meshgrid unstack setitem fill put place putmask copyto fill_diagonal "
        "put_along_axis sliding_window_view matrix_transpose permute_dims pad ix_ unique nan_to_num sign"
    )
)
# Steps: their derivative is 0 and their values jump, as an integer does.
STEPS = frozenset(["rint", "floor", "ceil", "trunc", "round", "around", "fix", "sign", "floor_divide", "heaviside"])


class Operations:
    """Compute and record operations of one engine."""

    def __init__(self, engine: Any, recorder: Recorder, values: Values, tape: NumpyTape | None) -> None:
        self.engine, self.recorder, self.values, self.tape = engine, recorder, values, tape
        self.memories = values.memories
        self.measurer = Measurer(recorder, values.memories)

    def run(
        self,
        name: str,
        low: Function,
        wide: Function,
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        *,
        mover: Function | None = None,
    ) -> Any:
        """Compute an operation that writes to none of its arguments, and return its watched result.

        `mover` moves the numbers of elements instead of values, if `low` cannot.
        """
        values, given = self.values, (arguments, options)
        result = low(*values.low(arguments), **values.low(options))
        parts = list(result) if isinstance(result, tuple | list) else [result]
        new = [at for at, part in enumerate(parts) if not self._needs_no_shadow(part)]
        if not new:
            if any(map(self._carries_shadow, leaves_of(given))):
                if _is_chosen(parts):
                    self._check_choices(name, wide, arguments, options, parts)
                self._note_cut(name, given, parts)
            return _rebuilt(result, [self.watch(part) for part in parts])
        site = user_site(depth=2)
        self.note_unknown(name, site, given)
        # After the operation itself, whose warnings are the user's.
        with np.errstate(all="ignore"):
            exact, own, note, reason = self._exact_parts(name, low, wide, arguments, options, parts)
            if note == "not_shadowed":
                self.recorder.note_event("not_shadowed", name, site, detail=reason)
            kept = None if self.tape is None else self.tape.prepare(name, arguments, options)
            watched = [self._watch_part(name, site, part, one) for part, one in zip(parts, exact, strict=True)]
            found = [
                Found(watched[at].view_plain(), asarray(exact[at]), None if own is None else asarray(own[at]))
                for at in new
            ]
            operation = self.record(name, site, found, self.measurer.inputs_of(given), note)
            if kept is not None:
                self.keep(operation, name, site, mover or wide, kept, found)
        return _rebuilt(result, watched)

    def _carries_shadow(self, leaf: Any) -> bool:
        return self.values.is_shadowed(leaf) or (
            leaf.dtype.kind == "V" and self.memories.shadows_fields_of(leaf.view_plain())
        )

    def _note_cut(self, name: str, given: Any, parts: list[Any]) -> None:
        """Note a result that can have no shadow, such as a text, a file or an array of objects."""
        if name != "einsum_path" and any(self._loses_shadow(part) for part in parts):
            size = max(leaf.size for leaf in leaves_of(given))
            self.recorder.note_event("cut", name, user_site(depth=3), size, size)

    def _loses_shadow(self, part: Any) -> bool:
        array = plain_array_of(part)
        if array is None:
            return not isinstance(part, bool | int | np.dtype | type)
        return self._needs_no_shadow(part) and array.dtype.kind not in "biu" and self.memories.find(array) is None

    def _check_choices(self, name: str, wide: Function, arguments: Any, options: Any, parts: list[Any]) -> None:
        """Note integers and truth values that the computation in higher precision would have chosen otherwise."""
        if self._are_exact((arguments, options)):
            return
        site = user_site(depth=3)
        arguments, options = self.values.exact((arguments, options))
        try:
            exact = _with_float64(wide, arguments, options)
        except Exception as error:
            self.recorder.note_event("not_shadowed", name, site, detail=first_line(error))
            return
        others = list(exact) if isinstance(exact, tuple | list) else [exact]
        for part, other in zip(parts, others, strict=False):
            array = asarray(part) if isinstance(part, bool | int) else plain_array_of(part)
            if array is not None and array.dtype.kind in "biu":
                self.note_flips(name, site, array, other)

    def _needs_no_shadow(self, part: Any) -> bool:
        """Return whether a part is not a floating-point value, or is a view of memory that has a shadow."""
        array = plain_array_of(part)
        if array is None or self.values.wide_of(array.dtype) is None:
            return True
        return isinstance(part, np.ndarray) and self.memories.find(array) is not None

    def watch(self, part: Any) -> Any:
        """Return a part as a watched value whose shadow is known, or needs none."""
        if type(part) in (ShadowArray, ShadowScalar) or not isinstance(part, np.ndarray) or is_foreign(part):
            return part
        if _is_numeric(part, self.values):
            return self.engine.watched(part)
        # Numbers may come back from an array of objects.
        is_watched = part.dtype.kind == "O" or records_are_shadowed(part.dtype)
        return self.engine.given(part) if is_watched else part

    def _exact_parts(
        self, name: str, low: Function, wide: Function, arguments: Any, options: Any, parts: list[Any]
    ) -> tuple[list[Any], list[Any] | None, OperationNote, str]:
        """Return the shadows of the results, and the exact results on the same inputs if the level asks for them."""
        values = self.values
        is_moved = self.moves_exactly(name, (arguments, options), parts)
        try:
            exact, reason = self._in_wide(wide, values.exact((arguments, options)), parts)
        except Exception as error:
            return self._rounded_parts(low, arguments, options, parts), None, "not_shadowed", first_line(error)
        if is_moved:
            return exact, None, "moved", ""
        if reason:
            return exact, None, "not_shadowed", reason
        if self.recorder.detail < Detail.OWN:
            return exact, None, "", ""
        if self._are_exact((arguments, options)):
            return exact, exact, "", ""
        try:
            return exact, self._in_wide(wide, values.wide((arguments, options)), parts)[0], "", ""
        except Exception as error:
            return exact, None, "not_shadowed", first_line(error)

    def _in_wide(self, wide: Function, given: Any, parts: list[Any]) -> tuple[list[Any], str]:
        """Return the results of a function on wide values, and the dtype that is too narrow for a shadow, if any."""
        arguments, options = given
        found = _matching(_with_float64(wide, arguments, options), parts)
        narrow = self._too_narrow(parts, found)
        if narrow:
            # A function may compute in float64 all inputs except longdouble, such as integers.
            arguments, options = in_widest(given, self.memories.widest)
            try:
                again = _matching(wide(*arguments, **options), parts)
            except Exception:
                return found, narrow
            return (found, narrow) if self._too_narrow(parts, again) else (again, "")
        return found, ""

    def _too_narrow(self, parts: list[Any], found: list[Any]) -> str:
        """Return the dtype of a result that cannot be the shadow of its part; empty if each can."""
        for part, one in zip(parts, found, strict=True):
            dtype, exact = getattr(part, "dtype", _NO_DTYPE), np.result_type(one)
            wide = self.values.wide_of(dtype)
            if wide is None or exact.kind not in "fc" or exact.itemsize >= wide.itemsize:
                continue
            if exact.itemsize <= dtype.itemsize:
                return exact.name
            self.engine.is_narrowed = True
        return ""

    def moves_exactly(self, name: str, given: Any, parts: Sequence[Any]) -> bool:
        """Return whether an operation only moves numbers, or chooses among them, and rounds none."""
        if name not in MOVES:
            return False
        dtypes = [part.dtype for part in parts if self.values.wide_of(getattr(part, "dtype", _NO_DTYPE)) is not None]
        return all(holds(dtype, value) for dtype in dtypes for value in numbers_of(given))

    def _are_exact(self, given: Any) -> bool:
        """Return whether the shadows of all inputs equal their low-precision values."""
        memories = (self.memories.find(leaf.view_plain()) for leaf in leaves_of(given))
        return all(memory is None or memory.is_exact for memory in memories)

    def _rounded_parts(self, low: Function, arguments: Any, options: Any, parts: list[Any]) -> list[Any]:
        """Return the result of the low-precision operation on the rounded shadows; its own values where that fails."""
        plain = [asarray(plain_array_of(part)) if plain_array_of(part) is not None else part for part in parts]
        try:
            rounded = low(*self.engine.rounded(arguments), **self.engine.rounded(options))
            return _matching(rounded, parts)
        except Exception:
            return plain

    def _watch_part(self, name: str, site: Site, part: Any, exact: Any) -> Any:
        """Return one part of a result as a watched value with its shadow."""
        array = plain_array_of(part)
        if array is None:
            return part
        wide = self.values.wide_of(array.dtype)
        if wide is None:
            self.note_flips(name, site, array, exact)
            return self.watch(part)
        if isinstance(part, np.ndarray) and self.memories.find(array) is not None:
            return self.watch(part)
        exact = asarray(exact)
        return self.engine.adopt(part, array, exact if exact.dtype == wide else exact.astype(wide))

    def record(
        self, name: str, site: Site, found: list[Found], inputs: Inputs, note: OperationNote
    ) -> Operation | None:
        """Record an operation by the result with the largest own error, and return it."""
        if self.recorder.detail == Detail.OUTPUTS or not found:
            return None
        error = self.measurer.input_error(inputs) if self.recorder.detail >= Detail.OWN else None
        chosen = found[0] if len(found) == 1 else max(found, key=_size_of_own)
        operation = self.measurer.record(
            name,
            site,
            chosen.array,
            chosen.exact,
            chosen.own,
            inputs,
            note=note,
            input_error=error,
            figures=chosen.figures,
        )
        for each in found:
            self.measurer.note_maker(each.array, len(self.recorder.operations))
        memory = self.memories.find(chosen.array)
        if memory is not None and len(found) == 1 and operation is not None and has_no_error(operation):
            memory.is_exact = not memory.version and chosen.array.nbytes == memory.nbytes
        if name in STEPS and chosen.own is not None:
            self._note_jump(name, site, chosen.own, chosen.exact)
        return operation

    def keep(
        self, operation: Operation | None, name: str, site: Site, function: Function, kept: Any, found: list[Found]
    ) -> None:
        """Put an operation on the tape."""
        assert self.tape is not None
        own = None if operation is None else operation.own
        is_exact = own is not None and own.max_abs == own.relative == 0.0 and name not in STEPS
        largest = math.inf
        if operation is not None and own is not None and operation.range is not None and len(found) == 1:
            has_gaps = operation.range.nan or operation.range.inf or name in STEPS
            largest = math.inf if has_gaps else own.max_abs
        errors = [None if is_exact else _own_error(name, each, largest) for each in found]
        written = [self.tape.written(each.array, error) for each, error in zip(found, errors, strict=True)]
        number = None if operation is None else operation.number
        arguments, options, operands = kept
        self.add_step(Step(number, name, function, arguments, options, operands, written), site)

    def add_step(self, step: Step, site: Site) -> None:
        """Put a step on the tape, and note if it ends the way of shares."""
        assert self.tape is not None
        self.tape.add(step)
        if step.operands and not can_pass_back(step):
            self.recorder.note_event("shares_cut", step.name, site)

    def _note_jump(self, name: str, site: Site, own_exact: NDArray[Any], exact: NDArray[Any]) -> None:
        changed = int(np.count_nonzero(np.abs(own_exact - exact) >= 0.5))
        if changed:
            self.recorder.note_event("flip", name, site, changed, exact.size)

    def take_element(self, array: ShadowArray, key: Any) -> Any:
        """Return one element as a scalar with its shadow. It is not an operation of its own."""
        given = array.view_plain()
        part = self.values.low(array)[key]
        element = asarray(plain_array_of(part))
        memory = self.memories.find(given)
        if memory is None:
            if not self.engine.knows(given):
                self.note_unknown("getitem", user_site(depth=2), (array,))
            self.engine.given(element)
            return self.engine.as_scalar(self.engine.watched(element))
        kept = None if self.tape is None else self.tape.prepare("getitem", (array,), {})
        watched = self.engine.adopt(part, element, np.array(self.memories.view(given, memory)[key]))
        self.measurer.note_maker(element, memory.maker)
        if kept is not None and self.tape is not None:
            self.tape.add(Step(None, "getitem", lambda values: values[key], *kept, [self.tape.written(element, None)]))
        return watched

    def cast(self, array: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Convert an array to another dtype, as `astype` does."""
        options = {**dict(zip(("dtype", "order", "casting", "subok", "copy"), arguments, strict=False)), **options}
        dtype = np.dtype(options.pop("dtype"))

        def low(values: Any) -> Any:
            return values.astype(dtype, **options)

        dtype_of_shadow = self.values.wide_of(dtype) or dtype

        def wide(values: Any) -> Any:
            return asarray(values).astype(dtype_of_shadow)

        return self.run("astype", low, wide, (array,), {})

    def read(self, name: str, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the array that a function reads from a file or buffer, as a watched constant."""
        for leaf in leaves_of((arguments, options)):
            self.engine.leave(leaf, name)
        result = function(*self.values.low(arguments), **self.values.low(options))
        is_array = isinstance(result, np.ndarray) and not is_foreign(result)
        return self.engine.given(result) if is_array and _is_numeric(result, self.values) else result

    def create(self, name: str, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the new array that a function makes, with the rounding of its constants as its own error."""
        result = function(*self.values.low(arguments), **self.values.low(options))
        array = plain_array_of(result)
        if array is None or is_foreign(result):
            return result
        if not _is_numeric(array, self.values):
            return self.engine.given(array) if records_are_shadowed(array.dtype) else result
        if self.values.wide_of(array.dtype) is None or name.startswith("empty"):
            return self.engine.given(array)
        self.note_unknown(name, user_site(depth=3), (arguments, options))
        if self.engine.takes_foreign((arguments, options)):
            return array
        with np.errstate(all="ignore"):
            return self._created(name, function, (arguments, options), result, array)

    def _created(self, name: str, function: Function, given: Any, result: Any, array: NDArray[Any]) -> Any:
        arguments, options = given
        wide = self.values.wide_of(array.dtype)
        try:
            exact = asarray(function(*self.values.exact(arguments), **self.values.exact(options))).astype(wide)
        except Exception:
            exact = array.astype(wide)
        if exact.shape != array.shape:
            # An iterator gave its values to the first call.
            exact = array.astype(wide)
        site = user_site(depth=4)
        if np.array_equal(exact, array):
            watched = self.engine.given(array)
            if self.recorder.detail > Detail.OUTPUTS:
                self.measurer.record(name, site, array, exact, exact, (), note="created")
            return watched
        made = self.engine.adopt(result, array, exact)
        operation = self.record(name, site, [Found(array, exact, exact)], (), "created")
        if self.tape is not None:
            self.keep(operation, name, site, function, ((), {}, []), [Found(array, exact, exact)])
        return made

    def drawn(self, name: str, drawn: Any) -> Any:
        """Return random numbers as watched ones: the shadow takes the numbers that were drawn."""
        if not isinstance(drawn, np.ndarray) or not _is_numeric(drawn, self.values):
            return drawn
        if self.recorder.detail > Detail.OUTPUTS and self.values.wide_of(drawn.dtype) is not None:
            exact = drawn.astype(self.values.wide_of(drawn.dtype))
            self.measurer.record(name, user_site(depth=2), drawn, exact, None, (), note="random")
        return self.engine.given(drawn)

    def note_flips(self, name: str, site: Site, actual: NDArray[Any], exact: Any) -> None:
        """Note integers and truth values that the computation in higher precision would have chosen otherwise."""
        other = asarray(exact)
        if other.shape != actual.shape:
            self.recorder.note_event("flip", name, site, actual.size, actual.size)
            return
        changed = int(np.count_nonzero(actual != other))
        if changed:
            self.recorder.note_event("flip", name, site, changed, actual.size)

    def note_unknown(self, name: str, site: Site, given: Any) -> None:
        """Note plain floating-point arrays among the arguments that the engine has not seen before."""
        for value in plain_arrays(given):
            if self.values.wide_of(value.dtype) is not None and not self.engine.knows(value):
                self.recorder.note_event("untraced", name, site, value.size, value.size, "plain array")
        for leaf in leaves_of(given):
            if self.values.is_shadowed(leaf) and not self.engine.knows(leaf.view_plain()):
                self.recorder.note_event("untraced", name, site, leaf.size, leaf.size, "copy by C code")


_NO_DTYPE = np.dtype(bool)


def numbers_of(given: Any) -> Iterator[Any]:
    """Yield the arrays and floating-point numbers among arguments."""
    if isinstance(given, dict):
        yield from numbers_of(list(given.values()))
    elif isinstance(given, list | tuple):
        for member in given:
            yield from numbers_of(member)
    elif isinstance(given, float | complex) or plain_array_of(given) is not None:
        yield given


def holds(dtype: np.dtype[Any], value: Any) -> bool:
    """Return whether a dtype holds all numbers of an array, or one number of Python."""
    if hasattr(value, "dtype"):
        return value.dtype == dtype or value.dtype.kind in "biu" or np.can_cast(value.dtype, dtype, "safe")
    return bool(value != value or dtype.type(value) == value)


class Found(NamedTuple):
    """A new floating-point result: in low precision, its shadow, and the exact operation on the same inputs.

    `figures` and `missing` (its own error, in float32) are there if the core has computed them.
    """

    array: NDArray[Any]
    exact: NDArray[Any]
    own: NDArray[Any] | None
    figures: OperationFigures | None = None
    missing: NDArray[Any] | None = None


def _is_chosen(parts: Sequence[Any]) -> bool:
    """Return whether some results are integers or truth values."""
    return any(
        part.dtype.kind in "biu" if isinstance(part, np.ndarray | np.generic) else isinstance(part, bool | int)
        for part in parts
    )


def _rebuilt(result: Any, parts: list[Any]) -> Any:
    """Return parts in the form of a result: one, a tuple, a named tuple, or a list."""
    if not isinstance(result, tuple | list):
        return parts[0]
    return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)


def _size_of_own(found: Found) -> float:
    return 0.0 if found.own is None else relative_error(found.array, asarray(found.own))


def _own_error(name: str, found: Found, largest: float) -> NDArray[Any] | None:
    """Return the error that an operation adds for shares; the jump of a step function is its own.

    `largest` is the largest own error of an element, or infinity if it is not known.
    """
    if found.missing is not None:
        return found.missing
    exact = found.exact if name in STEPS else found.own
    if exact is None:
        return None
    if exact.dtype == np.float64 and fits_float32(largest):
        # numpy subtracts in float64 and rounds block by block, without a temporary array.
        narrow: NDArray[Any] = np.empty(exact.shape, np.float32)
        np.subtract(found.array, exact, out=narrow, dtype=np.float64, casting="unsafe")
        return narrow
    error: NDArray[Any] = np.subtract(found.array, exact, dtype=np.result_type(exact, np.float64))
    return error


def _with_float64(wide: Function, arguments: Any, options: Any) -> Any:
    """Call a function on wide values; in float64 if it has no longdouble, as LAPACK."""
    try:
        return wide(*arguments, **options)
    except TypeError:
        return wide(*in_float64(arguments), **in_float64(options))


def _matching(result: Any, parts: list[Any]) -> list[Any]:
    """Return the parts of a result. Raises ValueError if they have other shapes than those in low precision."""
    found = list(result) if isinstance(result, tuple | list) else [result]
    shapes = [[np.shape(each) for each in some] for some in (found, parts)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"shapes {shapes[0]} instead of {shapes[1]}")
    return found


def _is_numeric(array: NDArray[Any], values: Values) -> bool:
    return array.dtype.kind in "biu" or values.wide_of(array.dtype) is not None


def plain_arrays(given: Any) -> list[NDArray[Any]]:
    """Return the arrays that are not watched, also inside of lists, tuples and dicts."""
    if isinstance(given, np.ndarray):
        return [] if type(given) is ShadowArray else [given]
    if isinstance(given, dict):
        return plain_arrays(list(given.values()))
    if isinstance(given, list | tuple):
        return [array for member in given for array in plain_arrays(member)]
    return []
