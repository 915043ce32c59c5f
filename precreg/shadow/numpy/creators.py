"""Which arrays does a computation make of no other array, and how do they become watched?

numpy consults nobody for zeros() and its like, so these names are replaced while a computation is traced: in numpy, and
in the modules of the user that imported them by name. The arrays of such modules become watched constants.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any

import numpy as np
from numpy import asarray

from precreg.arithmetic import is_library_file
from precreg.shadow.numpy.array import is_watched, listed_names
from precreg.shadow.numpy.memory import owner_of
from precreg.shadow.numpy.values import leaves_of, replace_leaves
from precreg.subject import is_tensor

_NUMPY = os.path.dirname(np.__file__) + os.sep
_MADE = listed_names(
    "zeros ones empty full eye identity arange linspace logspace geomspace tri "
    "fromfunction hanning hamming blackman bartlett kaiser indices"
)
# They read files, buffers and iterators, once.
_READ = listed_names("frombuffer fromiter fromfile fromstring genfromtxt load loadtxt from_dlpack")
# They take values, and give them on.
_TAKEN = ["array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray"]
_DRAWN = listed_names(
    "rand randn random random_sample normal uniform standard_normal randint choice permutation "
    "exponential gamma beta binomial poisson lognormal laplace"
)


class Creators:
    """Replace the names of numpy's functions that make arrays, and restore them."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self._saved: list[tuple[Any, str, Any]] = []

    def patch(self) -> None:
        """Replace the names."""
        replaced: dict[int, Any] = {}
        for name in (*_MADE, *_READ, *_TAKEN):
            original = getattr(np, name)
            make = self._taker if name in _TAKEN else self._reader if name in _READ else self._maker
            replaced[id(original)] = make(name, original)
            self._set(np, name, replaced[id(original)])
        for name in _DRAWN:
            original = getattr(np.random, name)
            self._set(np.random, name, self._drawer(name, original))
        self._set(np.random, "default_rng", self._generator(np.random.default_rng))
        self._patch_roundings(replaced)
        self._patch_classes(replaced)
        for module in _user_modules():
            for name, value in list(vars(module).items()):
                if id(value) in replaced:
                    self._set(module, name, replaced[id(value)])
                elif type(value) is np.ndarray:
                    self._set(module, name, self.engine.wrap_constant(value))

    def _patch_classes(self, replaced: dict[int, Any]) -> None:
        """Replace how classes of numpy take arrays that no protocol sees."""
        replaced[id(np.memmap)] = _watched_memmap(np.memmap, self.engine)
        self._set(np, "memmap", replaced[id(np.memmap)])
        strided = np.lib.stride_tricks.as_strided
        replaced[id(strided)] = self._strided(strided)
        self._set(np.lib.stride_tricks, "as_strided", replaced[id(strided)])
        for name in ("nditer", "ndenumerate", "broadcast"):
            replaced[id(getattr(np, name))] = self._iterator(name, getattr(np, name))
            self._set(np, name, replaced[id(getattr(np, name))])
        self._set(np.vectorize, "__call__", self._vectorized(np.vectorize.__call__))
        self._set(np.ma.MaskedArray, "__new__", self._masked(np.ma.MaskedArray.__new__))

    def _vectorized(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(vectorized: Any, *arguments: Any, **options: Any) -> Any:
            engine = self.engine
            if not engine.is_active:
                return original(vectorized, *arguments, **options)
            # The user's function gets a number of Python for each element.
            plain = [engine.leave(each, "vectorize") if is_watched(each) else each for each in arguments]
            found = original(vectorized, *plain, **engine.unwrap(options))
            return tuple(map(engine.came_back, found)) if isinstance(found, tuple) else engine.came_back(found)

        return call

    def _strided(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def strided(x: Any, *arguments: Any, **options: Any) -> Any:
            engine = self.engine
            if not engine.is_active or not is_watched(x):
                return original(x, *arguments, **options)
            # The view of the same memory has the shadow of the same places.
            return engine.watched(original(engine.unwrap(x), *arguments, **options))

        return _named(strided, original)

    def _iterator(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(*arguments: Any, **options: Any) -> Any:
            engine = self.engine
            if not engine.is_active:
                return original(*arguments, **options)
            if name == "broadcast":
                # Most programs ask it for a shape alone.
                return _WatchedBroadcast(engine, arguments, original(*engine.unwrap(arguments)))
            given = replace_leaves(arguments, lambda leaf: engine.hand_out(leaf, name))
            return original(*given, **engine.unwrap(options))

        return _named(iterate, original)

    def _masked(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make(kind: type, data: Any = None, *arguments: Any, **options: Any) -> Any:
            if self.engine.is_active and is_watched(data):
                self.engine.note_foreign("array", kind)
                data = self.engine.unwrap(data)
            return original(kind, data, *arguments, **options)

        return make

    def _patch_roundings(self, replaced: dict[int, Any]) -> None:
        """Replace the functions of precreg that kernels round with: no protocol of numpy sees them."""
        from precreg.arithmetic import round_to
        from precreg.arithmetic.devices import cast_through_device

        for holder, function, watched in (
            (sys.modules["precreg.arithmetic"], round_to, self._rounder(round_to)),
            (sys.modules["precreg.arithmetic.devices"], cast_through_device, self._hopper(cast_through_device)),
        ):
            replaced[id(function)] = watched
            self._set(holder, function.__name__, watched)

    def _rounder(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def round_watched(values: Any, *arguments: Any, **options: Any) -> Any:
            if not self._is_watching() or next(leaves_of(values), None) is None:
                return original(self.engine.unwrap(values), *arguments, **options)

            def low(values: Any) -> Any:
                return original(values, *arguments, **options)

            # The exact rounding is none, as for astype.
            return self.engine.operations.run("round_to", low, _copied, (values,), {})

        return _named(round_watched, original)

    def _hopper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def cast_watched(x: Any, device: Any = None) -> Any:
            if not self._is_watching() or next(leaves_of(x), None) is None:
                return original(x, device)
            values, found = x, {}
            for place, held in original(self.engine.values.low(x), device).items():
                name = f"cast_through_device:{place}"
                values = self.engine.operations.run(name, lambda _, held=held: held.copy(), _copied, (values,), {})
                found[place] = values
            return found

        return _named(cast_watched, original)

    def _set(self, holder: Any, name: str, value: Any) -> None:
        self._saved.append((holder, name, getattr(holder, name)))
        setattr(holder, name, value)

    def restore(self) -> None:
        """Give the names their functions and arrays back."""
        for holder, name, original in reversed(self._saved):
            setattr(holder, name, original)
        self._saved = []

    def _is_watching(self) -> bool:
        return self.engine.is_active and not is_library_file(sys._getframe(2).f_code.co_filename)

    def _maker(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def create(*arguments: Any, **options: Any) -> Any:
            if not self._is_watching():
                return original(*arguments, **options)
            return self.engine.operations.create(name, original, _with_dtypes(arguments), options)

        return _named(create, original)

    def _reader(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def read(*arguments: Any, **options: Any) -> Any:
            if not self._is_watching():
                return original(*arguments, **options)
            return self.engine.operations.read(name, original, arguments, options)

        return _named(read, original)

    def _taker(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def take(value: Any, *arguments: Any, **options: Any) -> Any:
            # Functions of numpy that no protocol sees, such as numpy.polynomial's, take watched arrays, too.
            is_numpy = self.engine.is_active and is_watched(value) and _is_in_numpy(sys._getframe(1))
            if not is_numpy and not self._is_watching():
                return original(value, *arguments, **options)
            operations = self.engine.operations
            # A tensor hands its shadow to an array of its memory.
            value = self.engine.wrap(asarray(value)) if is_tensor(value) else value
            if isinstance(value, memoryview) and is_watched(value.obj):
                self.engine.hand_out(value.obj, "memoryview")
            given = (value, *_with_dtypes(arguments))
            if next(leaves_of(value), None) is None:
                return operations.create(name, original, given, options)
            return operations.run(name, original, _converted(original), given, options)

        return _named(take, original)

    def _drawer(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*arguments: Any, **options: Any) -> Any:
            drawn = original(*self.engine.unwrap(arguments), **self.engine.unwrap(options))
            return self.engine.operations.drawn(name, drawn) if self._is_watching() else drawn

        return _named(draw, original)

    def _generator(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def default_rng(*arguments: Any, **options: Any) -> Any:
            generator = original(*arguments, **options)
            return _WatchedGenerator(generator, self.engine) if self._is_watching() else generator

        return _named(default_rng, original)


def _watched_memmap(original: type[Any], engine: Any) -> type[Any]:
    """Return a class that makes watched arrays in mapped files."""

    class Instances(type(original)):  # type: ignore[misc]
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(owner_of(value.view_plain()) if is_watched(value) else value, original)

    class memmap(original, metaclass=Instances):  # type: ignore[misc] # noqa: N801
        def __new__(cls, *arguments: Any, **options: Any) -> Any:
            return engine.came_back(original(*arguments, **options))

    return memmap


class _WatchedBroadcast:
    """Stand for numpy.broadcast, whose elements have left the engine."""

    def __init__(self, engine: Any, operands: tuple[Any, ...], found: Any) -> None:
        self._engine, self._operands, self._found = engine, operands, found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)

    def __iter__(self) -> Iterator[Any]:
        for leaf in leaves_of(self._operands):
            self._engine.leave(leaf, "broadcast")
        return iter(self._found)


class _WatchedGenerator(np.random.Generator):
    """Draw the numbers of a generator, as watched arrays."""

    def __init__(self, generator: np.random.Generator, engine: Any) -> None:
        super().__init__(generator.bit_generator)
        self._engine = engine

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found
        engine = super().__getattribute__("_engine")

        def draw(*arguments: Any, **options: Any) -> Any:
            drawn = found(*engine.unwrap(arguments), **engine.unwrap(options))
            return engine.operations.drawn(name, drawn) if engine.is_active else drawn

        return draw


def _named(replacement: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    replacement.__name__ = original.__name__
    replacement.__doc__ = original.__doc__
    return replacement


def _is_in_numpy(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_NUMPY)


def _copied(values: Any) -> Any:
    return np.array(values)


def _converted(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that always copies, because a view of the shadow would share its memory."""

    def convert(value: Any, *arguments: Any, **options: Any) -> Any:
        options = {name: option for name, option in options.items() if name not in ("copy", "subok", "ndmin")}
        return np.array(original(value, *arguments[:1], **options))

    return convert


def _with_dtypes(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments with dtypes in the place of their names, such as "float32"."""
    return tuple(_dtype_or(value) for value in arguments)


def _dtype_or(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return np.dtype(value)
    except TypeError:
        return value


def _user_modules() -> Iterator[ModuleType]:
    """Yield the modules that are neither of a library nor of Python."""
    for module in list(sys.modules.values()):
        # A module that loads its names when they are asked for has none of numpy's functions yet.
        file = module.__dict__.get("__file__") if isinstance(module, ModuleType) else None
        if file and not is_library_file(file) and "site-packages" not in file:
            yield module
