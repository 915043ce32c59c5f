"""How does an arithmetic compute with arrays that a kernel makes of no input, such as numpy.arange?

numpy consults nobody for arange and its like. While a base runs, these names of numpy give simulated arrays to the
user's lines: buffers of zeros, coordinates and counters. Integers stay integers, and remember the arithmetic until a
conversion or a division makes floating-point numbers of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from precreg.arithmetic.devices import Arithmetic, is_floating, simulate_array
from precreg.shadow import is_library_file

_CREATORS = ("zeros", "ones", "empty", "full", "arange", "linspace", "eye")


class _Counters(np.ndarray[Any, np.dtype[Any]]):
    """Integers that a kernel made; floating-point results of them are simulated arrays."""

    arithmetic: Arithmetic

    def __array_finalize__(self, source: object) -> None:
        if isinstance(source, _Counters):
            self.arithmetic = source.arithmetic

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        simulated = [self._as_operand(each) for each in inputs]
        out = options.get("out")
        if out is not None:
            options["out"] = tuple(each.view(np.ndarray) if isinstance(each, _Counters) else each for each in out)
        return self._counted(getattr(ufunc, method)(*simulated, **options))

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        """Convert by numpy: every integer of a shape is exact in a wide enough format."""
        return self._counted(self.view(np.ndarray).astype(dtype, *args, **options))

    def _as_operand(self, value: Any) -> Any:
        return value.view(np.ndarray) if isinstance(value, _Counters) else value

    def _counted(self, result: Any) -> Any:
        return watched_array(result, self.arithmetic)


def watched_array(value: Any, arithmetic: Arithmetic) -> Any:
    """Return an array whose floating-point operations an arithmetic computes; other values as they are."""
    if type(value) is not np.ndarray:
        return value
    if is_floating(value.dtype):
        return simulate_array(value, arithmetic)
    if value.dtype.kind in "iu" and value.ndim:
        counters = value.view(_Counters)
        counters.arithmetic = arithmetic
        return counters
    return value


@contextmanager
def created_arrays_watched(arithmetic: Arithmetic) -> Iterator[None]:
    """Let arrays that the user's lines make be computed by an arithmetic, inside."""
    saved = {name: getattr(np, name) for name in _CREATORS}
    for name, original in saved.items():
        setattr(np, name, _watching(original, arithmetic))
    try:
        yield
    finally:
        for name, original in saved.items():
            setattr(np, name, original)


def _watching(original: Callable[..., Any], arithmetic: Arithmetic) -> Callable[..., Any]:
    def create(*arguments: Any, **options: Any) -> Any:
        made = original(*arguments, **options)
        is_users = not is_library_file(sys._getframe(1).f_code.co_filename)
        return watched_array(made, arithmetic) if is_users else made

    create.__name__ = original.__name__
    return create
