"""Ways to compute on elements in 20 bits, toward zero, beside numpy's own float32 operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from precreg.arithmetic import RoundedOperation, Rounding, format_named, operations
from precreg.arithmetic import rounding as forms

Array = Any
Call = Callable[[], Array]

PLAIN, NATIVE, NUMPY = "numpy's float32, not rounded further", "native core", "numpy form"

OPERATIONS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "multiply": np.multiply,
    "divide": np.divide,
    "fma": lambda x, y, z: x * y + z,
}
"""What is computed, and how plain numpy does it."""


def calls(operands: Array, name: str) -> dict[str, Call]:
    """Return the ways to compute an operation on float32 numbers; the plain one gives other numbers."""
    format, rounding = format_named("float32_m20"), Rounding.TOWARD_ZERO
    given = list(operands[: 3 if name == "fma" else 2])
    core, operation = forms.native_backend(), RoundedOperation(name, format, rounding, 0)
    ways = {PLAIN: lambda: OPERATIONS[name](*given), NUMPY: lambda: operations.compute_numpy(operation, given, 0)}
    return ways if core is None else {**ways, NATIVE: lambda: core.compute_native(name, given, format, rounding, 0, 0)}
