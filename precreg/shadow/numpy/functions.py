"""Which functions of numpy are computed otherwise than by calling them on the shadows?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precreg.shadow.numpy.values import plain_array_of
from precreg.shadow.site import user_site

if TYPE_CHECKING:
    from precreg.shadow.numpy.engine import NumpyEngine

Function = Callable[..., Any]
Handler = Callable[["NumpyEngine", Function, tuple[Any, ...], dict[str, Any]], Any]


def _reorder(engine: NumpyEngine, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
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


def _note_order(
    engine: NumpyEngine, name: str, given: Any, exact: NDArray[Any], shape: tuple[int, ...], place: int
) -> None:
    low_order = np.argsort(given.reshape(shape), place, kind="stable")
    changed = int(np.count_nonzero(low_order != np.argsort(np.reshape(exact, shape), place, kind="stable")))
    if changed:
        engine.recorder.note_event("flip", name, user_site(depth=2), changed, exact.size)


def _unique(engine: NumpyEngine, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
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


def _created(engine: NumpyEngine, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Make an array like another one."""
    return engine.operations.create(function.__name__, function, arguments, options)


def _entered(engine: NumpyEngine, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run a function of numpy that is written in Python, and calls functions of the user."""
    implementation: Any = function
    return implementation._implementation(*arguments, **options)


def _along_axis(engine: NumpyEngine, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
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


def _write(engine: NumpyEngine, function: Function, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call a function that writes to its first argument."""
    target, *rest = arguments
    engine.writes.call(function, target, tuple(rest), options)


IN_PLACE: dict[Function, Handler] = dict.fromkeys(
    (np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis), _write
)


def _fill(engine: NumpyEngine, array: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    array[...] = arguments[0] if arguments else options["value"]


def _put(engine: NumpyEngine, array: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    engine.function(np.put, (array, *arguments), options)


def _sort(engine: NumpyEngine, array: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    array[...] = engine.function(np.sort, (array, *arguments), options)


def _partition(engine: NumpyEngine, array: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    array[...] = engine.function(np.partition, (array, *arguments), options)


IN_PLACE_METHODS: dict[str, Callable[[NumpyEngine, Any, tuple[Any, ...], dict[str, Any]], None]] = {
    "fill": _fill,
    "put": _put,
    "sort": _sort,
    "partition": _partition,
}
