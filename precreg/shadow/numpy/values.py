"""Which arguments does an operation get in low precision, in the shadow, and for its own error?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import asarray
from numpy.typing import NDArray

from precreg.shadow.numpy.array import ShadowArray, ShadowScalar
from precreg.shadow.numpy.memory import Memories

if TYPE_CHECKING:
    from precreg.arithmetic.devices import Arithmetic


class Values:
    """Convert the arguments of an operation, also inside of lists, tuples and dicts."""

    def __init__(self, memories: Memories, arithmetic: Arithmetic | None) -> None:
        self.memories, self.arithmetic = memories, arithmetic

    def wide_of(self, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
        """Return the dtype of the shadow of a dtype; None for integers and the like."""
        return self.memories.wide_of(dtype)

    def low(self, value: Any) -> Any:
        """Return the value of a plain run: an array, a numpy scalar, or a simulated array."""
        kind = type(value)
        if kind is ShadowArray:
            return self._simulated(value) if value.is_simulated else value.view_plain()
        if kind is ShadowScalar:
            return value.view_plain()[()]
        return _inside(self.low, value)

    def _simulated(self, value: ShadowArray) -> Any:
        from precreg.arithmetic.devices import simulate_array

        assert self.arithmetic is not None
        return simulate_array(value.view_plain(), self.arithmetic)

    def exact(self, value: Any) -> Any:
        """Return the shadow of an array, as a view; a dtype of low precision becomes wide."""
        array = plain_array_of(value)
        if array is None:
            return self._wide_dtype_argument(value) if not isinstance(value, _TREES) else _inside(self.exact, value)
        if self.wide_of(array.dtype) is None:
            return array if type(value) is not ShadowScalar else array[()]
        memory = self.memories.find(array)
        if memory is None:
            return self._widened(array, value)
        return self.memories.view(array, memory)

    def wide(self, value: Any) -> Any:
        """Return the low-precision values in the dtype of the shadow."""
        array = plain_array_of(value)
        if array is None:
            return self._wide_dtype_argument(value) if not isinstance(value, _TREES) else _inside(self.wide, value)
        if self.wide_of(array.dtype) is None:
            return array if type(value) is not ShadowScalar else array[()]
        memory = self.memories.find(array)
        if memory is not None and memory.is_exact:
            return self.memories.view(array, memory)
        return self._widened(array, value)

    def _widened(self, array: NDArray[Any], value: Any) -> Any:
        wide = np.ndarray.astype(array, self.wide_of(array.dtype))
        # numpy promotes scalars of its own types as arrays, so the kind of value makes no difference.
        is_plain_scalar = isinstance(value, np.generic) and not hasattr(value, "engine")
        return wide[()] if is_plain_scalar else wide

    def _wide_dtype_argument(self, value: Any) -> Any:
        """Return the wide dtype for a dtype that is an argument, such as dtype=numpy.float16; others unchanged."""
        if isinstance(value, np.dtype):
            return self.wide_of(value) or value
        if isinstance(value, type) and issubclass(value, np.generic | float | complex):
            try:
                dtype = np.dtype(value)
            except TypeError:
                # The abstract types, such as numpy.floating.
                return value
            return self.wide_of(dtype) or value
        return value

    def is_shadowed(self, value: Any) -> bool:
        """Return whether a value is floating point, and the engine knows it."""
        return type(value) in (ShadowArray, ShadowScalar) and self.wide_of(value.dtype) is not None


_NARROW = tuple(np.dtype(each) for each in (np.float16, np.float32, np.float64, np.complex64, np.complex128))
_TREES = (list, tuple, dict)


def plain_array_of(value: Any) -> NDArray[Any] | None:
    """Return the plain array of an array or a numpy scalar; None for other values."""
    kind = type(value)
    if kind is np.ndarray:
        same: NDArray[Any] = value
        return same
    if kind is ShadowArray or kind is ShadowScalar:
        plain: NDArray[Any] = value.view_plain()
        return plain
    if isinstance(value, np.ndarray):
        return np.ndarray.view(value, np.ndarray)
    return asarray(value) if isinstance(value, np.generic) else None


def _inside(convert: Callable[[Any], Any], value: Any) -> Any:
    """Convert the members of a list, tuple or dict; other values come back unchanged."""
    if isinstance(value, tuple):
        members = [convert(member) for member in value]
        # A named tuple, such as the result of slogdet, takes its fields one by one.
        return type(value)(*members) if hasattr(value, "_fields") else tuple(members)
    if isinstance(value, list):
        return [convert(member) for member in value]
    if isinstance(value, dict):
        return {name: convert(member) for name, member in value.items()}
    return value


def replace_leaves(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Replace the watched arrays and scalars among arguments."""
    if type(value) in (ShadowArray, ShadowScalar):
        return replace(value)
    return _inside(lambda member: replace_leaves(member, replace), value)


def in_float64(value: Any) -> Any:
    """Return arguments with float64 in the place of longdouble."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fc" and value.dtype not in _NARROW:
        return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
    return _inside(in_float64, value)


def in_widest(value: Any, wide: np.dtype[Any]) -> Any:
    """Return arguments with the widest dtype in the place of integers and of narrower numbers."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iufc":
        return value.astype(np.result_type(wide, value.dtype))
    return _inside(lambda member: in_widest(member, wide), value)


def leaves_of(value: Any) -> Iterator[Any]:
    """Yield the watched arrays and scalars among arguments, in order."""
    if type(value) in (ShadowArray, ShadowScalar):
        yield value
    elif isinstance(value, list | tuple):
        for member in value:
            yield from leaves_of(member)
    elif isinstance(value, dict):
        for member in value.values():
            yield from leaves_of(member)
