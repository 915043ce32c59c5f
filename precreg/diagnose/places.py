"""Which places of a computation can a rewrite alter?

A place is one operation in the source: a call of numpy, or one operator of an expression. A loop executes the same
place many times.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol

import numpy as np

from precreg.arithmetic import is_library_file
from precreg.arithmetic.devices import Arithmetic
from precreg.arithmetic.faults import ArithmeticLayer
from precreg.storage import Array
from precreg.types import RewrittenPlace, Site

# Frames of precreg's own arrays and layers are between numpy and the user's code, and differ with each layer.
_OWN_FILES = "precreg"


class PlaceKey(NamedTuple):
    """Identify a place: the span of an expression in the user's source, the operation, and calls inside numpy.

    `via` are the lines of numpy's Python code between the user's line and the operation, such as those of numpy.var.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    name: str
    via: tuple[tuple[str, int], ...] = ()


class ComputedPlace(Protocol):
    """An operation that an engine saw, with its place in the source."""

    @property
    def key(self) -> PlaceKey:
        """Return the key of the place."""

    def described(self, root: str) -> RewrittenPlace:
        """Return the place as reports name it, with a file relative to a folder."""


class SourcePlace(NamedTuple):
    """Hold an operation as its first execution met it, and the number of executions.

    `operands` are the dtypes of array operands, by their position; `scalars` are the values of operands without
    dimensions. `function` is the ufunc or function of numpy, and None for a cast.
    """

    key: PlaceKey
    function: Callable[..., Any] | None
    method: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    operands: dict[int, np.dtype[Any]]
    shapes: tuple[tuple[int, ...], ...]
    scalars: dict[int, float]
    options: dict[str, Any]
    executions: int = 1
    # An operand of a later execution has the bits of the former result: a loop adds to a running sum.
    is_running: bool = False

    @property
    def is_sum(self) -> bool:
        """Return whether the operation adds many terms: a sum, a running sum or a product of matrices."""
        reduces = self.function is np.add and self.method in ("reduce", "accumulate")
        return reduces or self.function is np.matmul or not isinstance(self.function, np.ufunc | None)

    def described(self, project: str) -> RewrittenPlace:
        """Return the place as reports name it, with a file relative to the project's folder."""
        return described_key(self.key, project, self.executions)


def described_key(key: PlaceKey, project: str, executions: int = 1) -> RewrittenPlace:
    """Return a place as reports name it, with a file relative to the project's folder."""
    site = Site(key.file.removeprefix(project), key.line, linecache.getline(key.file, key.line).strip())
    return RewrittenPlace("operation", key.name, site, expression_at(key), executions)


def operation_name(function: Callable[..., Any] | None, method: str, dtype: np.dtype[Any] | None = None) -> str:
    """Return the name of an operation: "divide", "add.reduce", "dot" or "astype(float16)"."""
    if function is None:
        return f"astype({dtype})"
    name = str(getattr(function, "__name__", function))
    return name if method in ("__call__", "") else f"{name}.{method}"


def place_key(name: str, depth: int = 2) -> PlaceKey:
    """Return the key of the operation that runs now, from `depth` callers up."""
    frame: FrameType | None = sys._getframe(depth)
    via = []
    while frame is not None and is_library_file(frame.f_code.co_filename):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] != _OWN_FILES:
            via.append((frame.f_code.co_name, frame.f_lineno))
        if frame.f_back is None:
            break
        frame = frame.f_back
    assert frame is not None
    span = _spans(frame.f_code)[frame.f_lasti // 2]
    line, end_line, column, end_column = (each or 0 for each in span)
    return PlaceKey(frame.f_code.co_filename, line, column, end_line, end_column, name, tuple(via))


@lru_cache(maxsize=1024)
def _spans(code: CodeType) -> tuple[tuple[int | None, int | None, int | None, int | None], ...]:
    return tuple(code.co_positions())


@lru_cache(maxsize=4096)
def expression_at(key: PlaceKey) -> str:
    """Return the source of an expression on one line; empty where the source or its columns are unknown."""
    lines = [linecache.getline(key.file, number) for number in range(key.line, key.end_line + 1)]
    if not lines or not all(lines) or key.end_column == 0:
        return ""
    # Columns count bytes of UTF-8.
    encoded = [line.encode() for line in lines]
    encoded[-1] = encoded[-1][: key.end_column]
    encoded[0] = encoded[0][key.column :]
    return " ".join(part.decode(errors="replace").strip() for part in encoded)


class PlaceRecorder(ArithmeticLayer):
    """Note the places of a computation in `places`, in the order of their first execution. Alter nothing."""

    def __init__(self, inner: Arithmetic) -> None:
        super().__init__(inner)
        self.places: dict[PlaceKey, SourcePlace] = {}
        self._last: dict[PlaceKey, bytes] = {}

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Note the operation, and pass it on."""
        result = super().ufunc(function, method, inputs, options)
        self._note(function, method, inputs, options, result)
        return result

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Note the operation, and pass it on."""
        result = super().contraction(function, inputs, options)
        self._note(function, "", inputs, options, result)
        return result

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Note the conversion, and pass it on."""
        result = super().cast(values, dtype)
        self._note(None, "", (values,), {}, result)
        return result

    def _note(
        self,
        function: Callable[..., Any] | None,
        method: str,
        inputs: tuple[Any, ...],
        options: dict[str, Any],
        result: Any,
    ) -> None:
        # The method `at` writes into its first operand.
        result = inputs[0] if method == "at" else result
        if not isinstance(result, np.ndarray | np.generic):
            return
        key = place_key(operation_name(function, method, result.dtype), 3)
        known = self.places.get(key)
        is_running = function in _RUNNING and method == "__call__" and self._continues(key, inputs, result)
        if known is not None:
            is_running |= known.is_running
            self.places[key] = known._replace(executions=known.executions + 1, is_running=is_running)
            return
        self.places[key] = SourcePlace(
            key,
            function,
            method,
            result.dtype,
            result.shape,
            {at: each.dtype for at, each in enumerate(inputs) if isinstance(each, np.ndarray) and each.ndim},
            tuple(np.shape(each) if _is_numeric(each) else () for each in inputs),
            {at: float(each) for at, each in enumerate(inputs) if _is_scalar(each)},
            options,
        )

    def _continues(self, key: PlaceKey, inputs: tuple[Any, ...], result: Any) -> bool:
        """Return whether an operand is the former result at a place, and remember the present one."""
        former, self._last[key] = self._last.get(key), result.tobytes()
        arrays = (
            each for each in inputs if isinstance(each, np.ndarray) and each.ndim and each.nbytes == result.nbytes
        )
        return former is not None and any(each.tobytes() == former for each in arrays)


# Operations that continue a running result from one step of a loop to the next.
_RUNNING: frozenset[Any] = frozenset({np.add, np.subtract, np.maximum, np.minimum, np.multiply})


def _is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | int | float)


def _is_scalar(value: Any) -> bool:
    """Return whether an operand is a number that the code made of none of the inputs.

    An array without dimensions is a computed value: any error of it could be described as another constant.
    """
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


class PlacedLayer(ArithmeticLayer):
    """Alter the operations of some places by a layer, and compute all others by the arithmetic below it."""

    def __init__(
        self, inner: Arithmetic, make_layer: Callable[[Arithmetic], ArithmeticLayer], keys: frozenset[PlaceKey]
    ) -> None:
        super().__init__(inner)
        self._layer, self._keys = make_layer(inner), keys

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Alter the operation if its place is one of the layer's."""
        if place_key(operation_name(function, method)) in self._keys:
            return self._layer.ufunc(function, method, inputs, options)
        return self._layer.compute_unaltered(function, method, inputs, options)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Alter the operation if its place is one of the layer's."""
        if place_key(operation_name(function, "")) in self._keys:
            return self._layer.contraction(function, inputs, options)
        return super().contraction(function, inputs, options)

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Alter the conversion if its place is one of the layer's."""
        if place_key(operation_name(None, "", dtype)) in self._keys:
            return self._layer.cast(values, dtype)
        return super().cast(values, dtype)
