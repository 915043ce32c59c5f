"""Which operations of an array reach the engine?

numpy consults an array by NEP 13 (ufuncs) and NEP 18 (functions). Methods of ndarray consult nobody, so each of them is
forwarded here. A value that leaves the engine, such as float(x), is noted.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy import asarray
from numpy.typing import NDArray

from precreg.shadow.numpy.memory import owner_of


class ShadowArray(np.ndarray[Any, np.dtype[Any]]):
    """View an array whose operations an engine watches. Bits, dtype and shape are the array's.

    Single elements are ShadowScalar. `is_simulated`: a simulated device computes the operations on this array.
    """

    engine: Any
    is_simulated = False

    def __array_finalize__(self, source: object) -> None:
        if isinstance(source, ShadowArray):
            self.engine, self.is_simulated = source.engine, source.is_simulated

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return self.engine.ufunc(ufunc, method, inputs, options)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        return self.engine.function(func, tuple(args), dict(kwargs))

    def __getitem__(self, key: Any) -> Any:
        return self.engine.take_item(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.engine.set_item(self, key, value)

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[index] for index in range(len(self)))

    def view_plain(self) -> NDArray[Any]:
        """Return the plain array of the same memory."""
        return np.ndarray.view(self, np.ndarray)

    @property
    def arithmetic(self) -> Any:
        """Return the arithmetic of a simulated device, as a simulated array does; None without one."""
        return self.engine.arithmetic if self.is_simulated else None

    @property
    def flat(self) -> Any:
        """Return numpy's iterator over the plain elements, which have left the engine."""
        return self.engine.hand_out(self, "flat").flat

    @flat.setter
    def flat(self, values: Any) -> None:
        # numpy repeats values that are too few, and drops those that are too many.
        self[...] = np.resize(values, self.shape)

    @property
    def real(self) -> Any:
        """Return the real parts, as a view."""
        return np.ndarray.real.__get__(self)

    @real.setter
    def real(self, values: Any) -> None:
        self.real[...] = values

    @property
    def imag(self) -> Any:
        """Return the imaginary parts, as a view; zeros for real numbers."""
        return np.ndarray.imag.__get__(self)

    @imag.setter
    def imag(self, values: Any) -> None:
        self.imag[...] = values

    @property
    def data(self) -> Any:
        """Return the buffer, whose values have left the engine."""
        return self.engine.hand_out(self, "data").data

    @property
    def ctypes(self) -> Any:
        """Return pointers for C code, which may also write."""
        return self.engine.hand_out(self, "ctypes").ctypes

    @property
    def __array_interface__(self) -> Any:
        return self.engine.hand_out(self, "__array_interface__").__array_interface__

    @property
    def __array_struct__(self) -> Any:
        return self.engine.hand_out(self, "__array_struct__").__array_struct__

    def __dlpack__(self, **options: Any) -> Any:
        return self.engine.hand_out(self, "__dlpack__").__dlpack__(**options)

    def __bytes__(self) -> bytes:
        values: bytes = self.tobytes()
        return values

    def __getattr__(self, name: str) -> Any:
        # numpy.memmap has a file.
        owner = None if name.startswith("__") else owner_of(self.view_plain())
        if not isinstance(owner, np.memmap) or not hasattr(owner, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(owner, name)

    def view(self, *args: Any, **options: Any) -> Any:
        """Return another view. Another dtype of the same bits leaves the engine."""
        return self.engine.view_bits(self, args, options)

    def __pow__(self, other: Any, *rest: Any) -> Any:
        return self.engine.operator(operator.pow, np.power, (self, other))

    def __rpow__(self, other: Any, *rest: Any) -> Any:
        return self.engine.operator(operator.pow, np.power, (other, self))

    def __round__(self, digits: int | None = None) -> Any:
        return int(self.engine.leave(self, "round")) if digits is None else np.round(self, digits)

    def __repr__(self) -> str:
        return repr(self.engine.leave(self, "repr"))

    def __str__(self) -> str:
        return str(self.engine.leave(self, "str"))

    def __format__(self, spec: str) -> str:
        return format(self.engine.leave(self, "format"), spec)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __reduce__(self) -> Any:
        """Pickle the plain array: another process has no engine."""
        return self.engine.leave(self, "pickle").__reduce__()


class ShadowScalar(np.lib.mixins.NDArrayOperatorsMixin):
    """Stand for a numpy scalar whose operations an engine watches.

    It is not an array: `total += x` gives a new number and changes no element, as for numpy's scalars. C code that
    converts it has to ask it for a plain number, which is noted.
    """

    def __init__(self, array: ShadowArray) -> None:
        self.array, self.engine = array, array.engine

    def view_plain(self) -> NDArray[Any]:
        """Return the plain array of the same memory, without dimensions."""
        return self.array.view_plain()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        # isinstance(x, np.floating) and np.isscalar(x) answer as for the scalar that it represents.
        return self.array.dtype.type

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return self.engine.ufunc(ufunc, method, inputs, options)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        return self.engine.function(func, tuple(args), dict(kwargs))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return asarray(self.engine.leave(self, "array"), dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("array", "engine"):
            raise AttributeError(name)
        if not hasattr(self.array, name):
            # Methods that only scalars have, such as as_integer_ratio.
            return getattr(self.engine.leave(self, name), name)
        value = getattr(self.array, name)
        return self.engine.as_scalar(value) if isinstance(value, ShadowArray) and not value.ndim else value

    def __getitem__(self, key: Any) -> Any:
        return self if key == () else self.array[key]

    def __repr__(self) -> str:
        return repr(self.engine.leave(self, "repr"))

    def __str__(self) -> str:
        return str(self.engine.leave(self, "str"))

    def __format__(self, spec: str) -> str:
        return format(self.engine.leave(self, "format"), spec)

    def __hash__(self) -> int:
        return hash(self.engine.leave(self, "hash"))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        return self.engine.leave(self, "pickle").__reduce__()

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.engine.leave(self, "round")) if digits is None else np.round(self, digits)


def listed_names(text: str) -> tuple[str, ...]:
    """Return the names of functions that a text lists."""
    return tuple(text.split())


def _forward(name: str) -> Callable[..., Any]:
    """Return a method that the engine computes as one operation."""

    def method(self: Any, *args: Any, **options: Any) -> Any:
        return self.engine.method(name, self, args, options)

    method.__name__ = name
    return method


def _exit(name: str) -> Callable[..., Any]:
    """Return a method whose result has left the engine."""

    def method(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(self.engine.leave(self, name), name)(*args, **options)

    method.__name__ = name
    return method


# Methods of ndarray that consult neither protocol, and compute, copy or write.
FORWARDED = listed_names(
    "all any argmax argmin argpartition argsort astype choose clip compress conj conjugate copy cumprod "
    "cumsum diagonal dot fill flatten max mean min nonzero partition prod ptp put ravel repeat reshape "
    "resize round searchsorted sort squeeze std sum swapaxes take trace transpose var"
)

_EXITS = listed_names(
    "item tolist tobytes tofile tostring dump dumps getfield setfield byteswap itemset newbyteorder "
    "__float__ __int__ __complex__ __index__"
)

for _name in FORWARDED:
    if hasattr(np.ndarray, _name):
        setattr(ShadowArray, _name, _forward(_name))
for _name in _EXITS:
    if hasattr(np.ndarray, _name):
        setattr(ShadowArray, _name, _exit(_name))
        setattr(ShadowScalar, _name, _exit(_name))


def _binary(name: str, ufunc: np.ufunc) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the two methods of an operator of scalars: numpy computes scalars by other code than arrays."""
    low = getattr(operator, name)

    def forward(self: Any, other: Any) -> Any:
        return self.engine.operator(low, ufunc, (self, other))

    def backward(self: Any, other: Any) -> Any:
        return self.engine.operator(low, ufunc, (other, self))

    return forward, backward


_OPERATORS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "matmul": np.matmul,
}
for _name, _ufunc in _OPERATORS.items():
    _ahead, _behind = _binary(_name, _ufunc)
    setattr(ShadowScalar, f"__{_name}__", _ahead)
    setattr(ShadowScalar, f"__r{_name}__", _behind)
    # `total += x` of a scalar makes a new scalar.
    setattr(ShadowScalar, f"__i{_name}__", _ahead)


def is_watched(value: Any) -> bool:
    """Return whether a value is an array or a scalar of the engine."""
    return type(value) in (ShadowArray, ShadowScalar)


def is_foreign(value: Any) -> bool:
    """Return whether a value is an array of a class with operations of its own, such as numpy.matrix."""
    kind = type(value)
    if kind is ShadowArray or kind is np.ndarray or not isinstance(value, np.ndarray):
        return False
    return not isinstance(value, np.memmap) and not hasattr(kind, "arithmetic")


def _operator(name: str) -> Callable[..., Any]:
    """Return an operator of arrays that leaves the operation to an array of another class."""
    plain = getattr(np.ndarray, name)

    def operate(self: Any, other: Any) -> Any:
        return NotImplemented if is_foreign(other) else plain(self, other)

    operate.__name__ = name
    return operate


for _name in listed_names("add sub mul truediv floordiv mod matmul and or xor lshift rshift lt le eq ne gt ge"):
    setattr(ShadowArray, f"__{_name}__", _operator(f"__{_name}__"))


def _bool(self: Any) -> bool:
    return bool(self.engine.function(np.any, (self,), {}))


ShadowScalar.__bool__ = _bool  # type: ignore[attr-defined]
