"""Which functions of numpy are computed otherwise than by calling them on the shadows?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.shadow.numpy.memory import owner_of
from precreg.shadow.numpy.values import plain_array_of
from precreg.shadow.site import user_site

Function = Callable[..., Any]
Handler = Callable[[Any, Function, tuple[Any, ...], dict[str, Any]], Any]


def _reorder(engine: Any, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Order the shadows as the low-precision values are ordered, and note where they would be ordered otherwise."""
    array = arguments[0]
    if not engine.values.is_shadowed(array):
        return engine.operations.run(function.__name__, function, function, arguments, options)
    has_parts = function is np.partition
    axis = options.get("axis", arguments[1 + has_parts] if len(arguments) > 1 + has_parts else -1)
    given = plain_array_of(array)
    assert given is not None
    flat = given.ravel() if axis is None else given
    place = 0 if axis is None else axis
    before = np.argsort(flat, place, kind="stable")
    result = function(given, *arguments[1:], **options)
    after = np.argsort(result, place, kind="stable")
    # result[after] is given[before]: both are in order.
    order = np.empty_like(before)
    np.put_along_axis(order, after, before, place)

    def ordered(values: Any) -> Any:
        return np.take_along_axis(values.ravel() if axis is None else values, order, place)

    def low(values: Any) -> Any:
        return function(values, *arguments[1:], **options)

    found = engine.operations.run("reorder", low, ordered, (array,), {}, mover=ordered)
    _note_order(engine, function.__name__, plain_array_of(array), engine.values.exact(array), flat.shape, place)
    return found


def _note_order(engine: Any, name: str, given: Any, exact: NDArray[Any], shape: tuple[int, ...], place: int) -> None:
    low_order = np.argsort(given.reshape(shape), place, kind="stable")
    changed = int(np.count_nonzero(low_order != np.argsort(np.reshape(exact, shape), place, kind="stable")))
    if changed:
        engine.recorder.note_event("flip", name, user_site(depth=2), changed, exact.size)


def _unique(engine: Any, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the shadows of the elements that the low-precision values choose."""
    array = arguments[0]
    names = ("return_index", "return_inverse", "return_counts", "axis")
    asked = {**dict(zip(names, arguments[1:], strict=False)), **options}
    if not engine.values.is_shadowed(array) or asked.get("axis") is not None:
        return engine.operations.run(function.__name__, function, function, arguments, options)
    plain = plain_array_of(array)
    result = function(plain, **{**asked, "return_index": True})
    chosen = engine.take_item(engine.operations.run("ravel", np.ravel, np.ravel, (array,), {}), result[1])
    others = [each for each, name in zip(result[1:], ("return_index", *names[1:3]), strict=False) if asked.get(name)]
    if not asked.get("return_index"):
        wanted = [name for name in names[1:3] if asked.get(name)]
        others = list(result[2 : 2 + len(wanted)])
    return (chosen, *others) if others else chosen


def _created(engine: Any, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Make an array like another one."""
    return engine.operations.create(function.__name__, function, arguments, options)


def _entered(engine: Any, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run a function of numpy that is written in Python, and calls functions of the user."""
    implementation: Any = function
    return implementation._implementation(*arguments, **options)


def _along_axis(engine: Any, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call a user's function for each line of an array, as numpy.apply_along_axis does."""
    func1d, axis, array, *rest = arguments
    moved = np.moveaxis(array, axis, -1)
    lines = [func1d(moved[index], *rest, **options) for index in np.ndindex(moved.shape[:-1])]
    stacked = np.stack([np.asanyarray(line) if isinstance(line, np.ndarray) else line for line in lines])
    inner = np.ndim(lines[0])
    shaped = np.reshape(stacked, (*moved.shape[:-1], *np.shape(lines[0])))
    places = range(moved.ndim - 1, moved.ndim - 1 + inner)
    return np.moveaxis(shaped, list(places), list(range(axis % array.ndim, axis % array.ndim + inner)))


HANDLERS: dict[Function, Handler] = {
    np.sort: _reorder,
    np.partition: _reorder,
    np.unique: _unique,
    np.piecewise: _entered,
    np.apply_along_axis: _along_axis,
    **dict.fromkeys((np.zeros_like, np.ones_like, np.empty_like, np.full_like), _created),
}


def _write(engine: Any, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call a function that writes to its first argument."""
    target, *rest = arguments
    engine.writes.call(function, target, tuple(rest), options)


IN_PLACE: dict[Function, Handler] = dict.fromkeys(
    (np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis), _write
)


def _fill(engine: Any, array: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    array[...] = arguments[0] if arguments else options["value"]


def _put(engine: Any, array: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    engine.function(np.put, (array, *arguments), options)


def _sort(engine: Any, array: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    array[...] = engine.function(np.sort, (array, *arguments), options)


def _partition(engine: Any, array: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    array[...] = engine.function(np.partition, (array, *arguments), options)


def _resize(engine: Any, array: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Give an array new memory of another shape, as numpy's method does: with zeros behind the old elements."""
    shape = arguments[0] if len(arguments) == 1 else arguments
    if shape is None or shape == ():
        return
    plain = array.view_plain()
    if owner_of(plain).nbytes != plain.nbytes:
        raise ValueError("cannot resize this array: it does not own its data")
    size = int(np.prod(shape))

    def padded(values: Any) -> Any:
        kept = np.ravel(values)[:size]
        return np.concatenate([kept, np.zeros(size - len(kept), values.dtype)]).reshape(shape)

    result = engine.operations.run("resize", padded, padded, (array,), {}, mover=padded)
    # A view cannot be resized, and a pickled state replaces its memory.
    state: Any = np.ndarray.__reduce__(np.zeros(shape, plain.dtype))[2]
    np.ndarray.__setstate__(array, state)
    array[...] = result


IN_PLACE_METHODS: dict[str, Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], None]] = {
    "fill": _fill,
    "put": _put,
    "sort": _sort,
    "partition": _partition,
    "resize": _resize,
}
