"""Where does the shadow of an array lie?

The array that owns the memory has the shadow, one number for each of its elements. A view of the memory has its shadow
at the same place of the shadow's memory. So views, slices, negative steps and writes in place need no rules.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np

# The engine replaces numpy.empty while it watches a computation.
from numpy import empty
from numpy.typing import NDArray

from precreg.arithmetic import FORMATS
from precreg.shadow.shelf import Kept

Plain = NDArray[Any]
_DOUBLE = np.dtype(np.float64)
# The bytes of memory that is worth reusing, and how many pieces of one size wait for their next use.
_SMALLEST_LENT, _MOST_FREE = 2**16, 4
_INTERFACE: Any = np.ndarray.__array_interface__

_numbers = count(1)


class Region(NamedTuple):
    """A view of an owner's memory: the number of the memory, and the place in bytes of its low-precision elements."""

    memory: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]


class Memory:
    """The memory of one owner: where it lies, and its shadow. Each write has a new `version`."""

    __slots__ = (
        *("copies", "errors", "is_exact", "largest", "maker", "number"),
        *("_start", "nbytes", "real", "reference", "seen", "twin", "unit", "version"),
    )

    def __init__(self, owner: Plain, reference: weakref.ref[Plain], dtype: np.dtype[Any], twin: Plain) -> None:
        self.number, self.version, self.reference = next(_numbers), 0, reference
        # The bytes of a low-precision real number, and the memory of the shadow: real numbers, also of complex ones.
        self.unit, self.twin, self.real = _unit(dtype), twin, _real_of(dtype)
        self.nbytes = twin.size * self.unit
        self._start: int | None = None
        # The shadow equals the low-precision values.
        self.is_exact = True
        # The number of the operation that wrote last; 0 for values from outside.
        self.maker = 0
        # The low-precision values that code outside of numpy may change; None for memory that no such code has.
        self.seen: Plain | None = None
        # Values of this version that the tape has kept, by region.
        self.copies: dict[Region, Kept] = {}
        # The relative errors of views of this version, and their largest absolute values.
        self.errors: dict[Region | str, float] = {}
        self.largest: dict[Region | str, float] = {}

    def offset(self, array: Plain) -> int:
        """Return the bytes from the start of the memory to the first element of an array that lies in it."""
        if array.nbytes == self.nbytes and array.flags.c_contiguous:
            # Most arrays are whole memories, and an address takes longer than all other figures of a view.
            return 0
        if self._start is None:
            self._start = _span(owner_of(array))[0]
        return address(array) - self._start


class Memories:
    """Find the shadow of each array. Shadows of complex numbers are the complex twins of real ones.

    `wide` is the dtype of real shadows, and `widest` that of shadows of float64 and wider, which float64 cannot shadow.
    """

    def __init__(self, wide: np.dtype[Any], widest: np.dtype[Any] | None = None) -> None:
        self.wide, self.widest = wide, widest or wide
        # Called with the elements of a memory, in order, and with those that other code has changed.
        self.note_change: Callable[[Plain, Plain], None] = lambda values, changed: None
        self._by_owner: dict[int, Memory] = {}
        # Memory of float64 without values, by the number of elements.
        self._free: dict[int, list[Plain]] = {}

    def wide_of(self, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
        """Return the dtype of shadows of a dtype; None for integers and the like."""
        return dtype_of_shadow(dtype, self._real(_unit(dtype)))

    def _real(self, unit: int) -> np.dtype[Any]:
        return self.widest if unit >= 8 else self.wide

    def find(self, array: Plain) -> Memory | None:
        """Return the memory of an array if it has a shadow."""
        memory = self._by_owner.get(id(owner_of(array)))
        if memory is None or memory.unit != _unit(array.dtype):
            return None
        if memory.seen is not None:
            self._read_again(memory)
        return memory

    def shadows_fields_of(self, array: Plain) -> bool:
        """Return whether an array of records, or of other bits, lies in a memory with a shadow."""
        return id(owner_of(array)) in self._by_owner

    def hand_out(self, array: Plain) -> None:
        """Expect that other code writes to the memory of an array from now on, which numpy does not see."""
        memory = self._by_owner.get(id(owner_of(array)))
        if memory is None and self.wide_of(array.dtype) is not None:
            memory = self._begin(array)
        if memory is not None and memory.seen is None and _is_dense(owner_of(array)):
            memory.seen = _elements(memory).copy()

    def _read_again(self, memory: Memory) -> None:
        """Take values that other code has written as exact."""
        values = _elements(memory)
        assert memory.seen is not None
        changed = (values != memory.seen) & ~(np.isnan(values) & np.isnan(memory.seen)) & _is_number(memory)
        if changed.any():
            memory.twin[changed], memory.seen = values[changed], values.copy()
            self.written(memory, True)
            self.note_change(values, changed)

    def memory_of(self, array: Plain) -> Memory:
        """Return the memory of an array, with a shadow that equals the present values if it had none."""
        return self.find(array) or self._begin(array)

    def adopt(self, array: Plain, shadow: Any, *, shares: bool = False) -> Memory:
        """Give a new array its shadow, without a copy if the shadow can serve as it is.

        `shares` takes the memory of another owner, too.
        """
        flat = self._flat(array, shadow, shares)
        if flat is not None:
            memory = self._keep(array, array.dtype, flat)
        else:
            memory = self._begin(array)
            self.view(array, memory)[...] = shadow
        memory.is_exact = False
        return memory

    def adopt_memory(self, array: Plain, twin: Plain) -> Memory:
        """Give a new C-contiguous array a shadow whose elements lie in memory of `lend`, in order."""
        memory = self._keep(array, array.dtype, twin)
        memory.is_exact = False
        return memory

    def lend(self, size: int) -> Plain:
        """Return memory for so many numbers of float64, with any values: used memory, if some is free."""
        free = self._free.get(size)
        return (free.pop() if free else empty(size)).reshape(-1)

    def take_back(self, lent: Plain) -> None:
        """Lend memory again: the system clears new pages, which takes longer than most passes over them."""
        root = lent.base
        if (
            not isinstance(root, np.ndarray)
            or root.dtype != _DOUBLE
            or not root.flags.owndata
            or lent.size != root.size
        ):
            return
        free = self._free.setdefault(root.size, [])
        if root.nbytes >= _SMALLEST_LENT and len(free) < _MOST_FREE:
            free.append(root)

    def _forget(self, owner: int) -> None:
        memory = self._by_owner.pop(owner, None)
        # A listener may keep the shadow of a dead array.
        if memory is not None and _references(memory) == _ALONE:
            self.take_back(memory.twin)

    def _flat(self, array: Plain, shadow: Any, shares: bool) -> Plain | None:
        """Return the memory of a shadow if it is its own and laid out as the array's; None otherwise."""
        if owner_of(array) is not array or type(shadow) is not np.ndarray:
            return None
        if not shares and not shadow.flags.owndata:
            return None
        if shadow.dtype != self.wide_of(array.dtype) or shadow.shape != array.shape:
            return None
        if array.flags.c_contiguous and shadow.flags.c_contiguous:
            return shadow.reshape(-1).view(self._real(_unit(array.dtype)))
        if array.flags.f_contiguous and shadow.flags.f_contiguous:
            return shadow.T.reshape(-1).view(self._real(_unit(array.dtype)))
        return None

    def _begin(self, array: Plain) -> Memory:
        owner = owner_of(array)
        size, unit = _span(owner)[1], _unit(array.dtype)
        memory = self._keep(owner, array.dtype, np.zeros(-(-size // unit), self._real(unit)))
        if _unit(owner.dtype) == unit and self.wide_of(owner.dtype) is not None:
            self.view(owner, memory)[...] = owner
        elif owner.dtype.names:
            for field in _float_fields(owner):
                self.view(field, memory)[...] = field
        else:
            self.view(array, memory)[...] = array
        return memory

    def _keep(self, owner: Plain, dtype: np.dtype[Any], twin: Plain) -> Memory:
        key = id(owner)
        reference = weakref.ref(owner, lambda _: self._forget(key))
        memory = Memory(owner, reference, dtype, twin)
        self._by_owner[key] = memory
        return memory

    def view(self, array: Plain, memory: Memory) -> Plain:
        """Return the shadow of an array as a view: a write to it changes the shadow."""
        scale = memory.twin.itemsize // memory.unit
        offset = memory.offset(array) * scale
        strides = tuple(stride * scale for stride in array.strides)
        dtype = dtype_of_shadow(array.dtype, memory.twin.dtype)
        return np.ndarray(array.shape, dtype, memory.twin, offset, strides)

    def shadow(self, array: Plain) -> Plain:
        """Return the shadow of an array, as a view."""
        return self.view(array, self.memory_of(array))

    def region(self, array: Plain, memory: Memory) -> Region:
        """Return the place of an array in its memory."""
        return Region(memory.number, memory.offset(array), array.shape, array.strides, array.dtype)

    def place(self, array: Plain, memory: Memory) -> Region | str:
        """Return a key for figures of an array: the region, or the kind of numbers of a whole memory."""
        # Figures of all numbers do not depend on the shape, and a region takes longer.
        is_whole = array.nbytes == memory.nbytes and array.flags.c_contiguous
        return array.dtype.char if is_whole else self.region(array, memory)

    def written(self, memory: Memory, is_exact: bool) -> None:
        """Note that the values of a memory have changed."""
        memory.version += 1
        memory.copies, memory.errors, memory.largest = {}, {}, {}
        if memory.seen is not None:
            memory.seen = _elements(memory).copy()
        memory.is_exact = memory.is_exact and is_exact

    @property
    def nbytes(self) -> int:
        """Return the bytes of all shadows that live."""
        return sum(memory.twin.nbytes for memory in self._by_owner.values())


def owner_of(array: Plain) -> Plain:
    """Return the array that owns the memory of a view."""
    while True:
        base = array.base
        if base is None:
            return array
        # as_strided and memoryviews may lie between two arrays.
        if isinstance(base, np.ndarray):
            array = base
            continue
        if isinstance(base, memoryview):
            base = base.obj
        elif type(base).__name__ == "DummyArray":
            base = base.base
        if not isinstance(base, np.ndarray):
            return array
        array = base


def records_are_shadowed(dtype: np.dtype[Any]) -> bool:
    """Return whether the records of a structured dtype have floating-point fields of one size, at multiples of it."""
    places = list(_float_places(dtype, 0))
    units = {unit for _, unit in places}
    return len(units) == 1 and all(place % unit == dtype.itemsize % unit == 0 for place, unit in places)


def _float_places(dtype: np.dtype[Any], start: int) -> Iterator[tuple[int, int]]:
    """Yield the offset and size of each floating-point field."""
    for name in dtype.names or ():
        assert dtype.fields is not None
        field, offset = dtype.fields[name][:2]
        if field.base.names:
            yield from _float_places(field.base, start + offset)
        elif dtype_of_shadow(field.base, _DOUBLE) is not None:
            yield start + offset, _unit(field.base)


def _float_fields(records: Plain) -> Iterator[Plain]:
    for name in records.dtype.names or ():
        field = records[name]
        if field.dtype.names:
            yield from _float_fields(field)
        elif dtype_of_shadow(field.dtype, _DOUBLE) is not None:
            yield field


def _is_dense(owner: Plain) -> bool:
    return owner.flags.c_contiguous or owner.flags.f_contiguous


def _elements(memory: Memory) -> Plain:
    """Return the low-precision real numbers of a memory, as a view in the order of the shadow's."""
    owner = memory.reference()
    assert owner is not None
    plain = np.ndarray.view(owner, np.ndarray)
    return (plain if plain.flags.c_contiguous else plain.T).reshape(-1).view(memory.real)


def _is_number(memory: Memory) -> Plain | bool:
    """Return which elements of a memory are floating-point numbers: records may have other fields."""
    owner = memory.reference()
    if owner is None or not owner.dtype.names:
        return True
    record = np.zeros(1, owner.dtype)
    for field in _float_fields(record):
        field[...] = 1.0
    numbers: Plain = np.tile(record.view(memory.real) == 1.0, owner.size)
    return numbers


def address(array: Plain) -> int:
    """Return the address of the first element of an array."""
    # A copy by C code owns its memory, and is a watched array.
    place: int = _INTERFACE.__get__(array)["data"][0]
    return place


def _span(owner: Plain) -> tuple[int, int]:
    """Return the lowest address of an array, and the bytes from there to its end."""
    start = address(owner)
    if owner.flags.c_contiguous or owner.flags.f_contiguous or not owner.size:
        return start, owner.nbytes
    reach = [stride * (length - 1) for stride, length in zip(owner.strides, owner.shape, strict=True)]
    low, high = sum(step for step in reach if step < 0), sum(step for step in reach if step > 0)
    return start + low, high - low + owner.itemsize


def _unit(dtype: np.dtype[Any]) -> int:
    """Return the bytes of a real number: a complex one has two."""
    return dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize


@lru_cache(maxsize=256)
def _real_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    real: np.dtype[Any] = np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype
    return real


@lru_cache(maxsize=256)
def dtype_of_shadow(dtype: np.dtype[Any], wide: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the dtype of shadows of a dtype; None for integers, truth values, and whatever else has no shadow."""
    if dtype.kind == "c":
        return np.result_type(wide, np.complex64)
    # ml_dtypes have kind "V", as raw bytes do, so their names decide.
    return wide if dtype.kind == "f" or dtype.name in FORMATS else None


def _references(memory: Memory) -> tuple[int, int]:
    """Count the references to the memory of a shadow, and to the array that owns it."""
    return sys.getrefcount(memory.twin), sys.getrefcount(memory.twin.base)


def _count_alone() -> tuple[int, int]:
    """Return the counts of a shadow that nobody else has: versions of Python count differently."""
    owner = np.empty(1)
    return _references(Memory(owner, weakref.ref(owner), _DOUBLE, np.empty(1).reshape(-1)))


_ALONE = _count_alone()
