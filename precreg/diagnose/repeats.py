"""Where do two runs of one computation on equal inputs begin to differ?

The second run in a process may find state of the first one: an uncleared buffer, or a counter. The
first operation with other operands or another result shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from precreg.arithmetic.devices import Arithmetic
from precreg.arithmetic.faults import ArithmeticLayer
from precreg.diagnose.places import PlaceKey, operation_name, place_key
from precreg.diagnose.rewrites import Params
from precreg.run import Arrays
from precreg.storage import Array


class _Execution(NamedTuple):
    """Hold one execution: its place, and digests of its operands and its result."""

    key: PlaceKey
    operands: tuple[bytes, ...]
    result: bytes


class FirstDifference(NamedTuple):
    """Hold the first operation that differs between two runs.

    `operand` is the position of the operand that differs; None if equal operands gave another result.
    """

    key: PlaceKey
    operand: int | None


class _DigestRecorder(ArithmeticLayer):
    """Note digests of all operations in the order of execution. Alter nothing."""

    def __init__(self, inner: Arithmetic) -> None:
        super().__init__(inner)
        self.executions: list[_Execution] = []

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Note the operation, and pass it on."""
        # Before the operation: the method `at` writes into its operand.
        operands = tuple(map(_digest, inputs))
        return self._noted(operation_name(function, method), operands, super().ufunc(function, method, inputs, options))

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Note the operation, and pass it on."""
        operands = tuple(map(_digest, inputs))
        return self._noted(operation_name(function, ""), operands, super().contraction(function, inputs, options))

    def cast(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Note the conversion, and pass it on."""
        operands = (_digest(values),)
        result: Array = self._noted(operation_name(None, "", dtype), operands, super().cast(values, dtype))
        return result

    def _noted(self, name: str, operands: tuple[bytes, ...], result: Any) -> Any:
        self.executions.append(_Execution(place_key(name, 3), operands, _digest(result)))
        return result


def _digest(value: Any) -> bytes:
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        return blake2b(array.tobytes(), digest_size=16, person=str(array.dtype).encode()[:16]).digest()
    return repr(value).encode()


def first_difference(
    compute: Callable[[Arrays, Params, Arithmetic], Arrays], inputs: Arrays, params: Params, arithmetic: Arithmetic
) -> FirstDifference | None:
    """Run a computation twice, and return the first operation that differs; None if every operation repeats."""
    runs = []
    for _ in range(2):
        recorder = _DigestRecorder(arithmetic)
        with np.errstate(all="ignore"):
            compute(inputs, params, recorder)
        runs.append(recorder.executions)
    for before, after in zip(*runs, strict=False):
        if before.key != after.key or len(before.operands) != len(after.operands):
            return FirstDifference(after.key, None)
        differing = [
            at for at, pair in enumerate(zip(before.operands, after.operands, strict=True)) if pair[0] != pair[1]
        ]
        if differing:
            return FirstDifference(after.key, differing[0])
        if before.result != after.result:
            return FirstDifference(after.key, None)
    return None
