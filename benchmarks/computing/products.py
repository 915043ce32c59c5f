"""Ways to multiply two matrices in a stated order: blocks of 16 terms, whose sums are added in their order.

Terms are products of float16 numbers, which float32 has exactly, so that each step is one addition and its rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from precreg.arithmetic import Order, Rounding, Unit, format_named
from precreg.arithmetic import rounding as forms
from precreg.arithmetic import sums as numpy_sums

BLOCK = 16
Array = Any
Call = Callable[[], Array]

NATIVE, NUMPY, WRITTEN, BLAS = "native core", "numpy form", "numpy operations", "np.matmul, in no stated order"


class Sum(NamedTuple):
    """An accumulator, how it rounds, and how that is written with numpy: the addition of a product in place."""

    name: str
    accumulator: str
    rounding: Rounding
    add: Callable[[Array, Array], None]


def add_float32(sums: Array, terms: Array) -> None:
    """Add float32 to float32: the processor rounds each addition."""
    np.add(sums, terms, out=sums)


def add_truncating(sums: Array, terms: Array) -> None:
    """Add in float64, and let the last 32 of 53 bits fall away, and what is below the normal numbers of float32.

    float64 has the sum, but for numbers more than 2**32 apart in size; whether that mattered is checked.
    """
    np.add(sums, terms, out=sums)
    bits = sums.view(np.int64)
    np.bitwise_and(bits, ~np.int64(2**32 - 1), out=bits)
    sums[np.abs(sums) < 2.0**-126] = 0


SUMS = (
    Sum("float32, to nearest", "fp32", Rounding.NEAREST_EVEN, add_float32),
    Sum("20 bits, toward zero", "float32_m20", Rounding.TOWARD_ZERO, add_truncating),
)


def unit_of(kind: Sum) -> Unit:
    """Return the unit that adds so."""
    format = format_named(kind.accumulator)
    return Unit(format_named("fp16"), format, format, rounding=kind.rounding, order=Order.BLOCKS, width=BLOCK)


def written(a: Array, b: Array, kind: Sum) -> Array:
    """Return the product as one writes it with numpy: a step for each term, of all elements at once."""
    dtype = np.float32 if kind.add is add_float32 else np.float64
    a, b = a.astype(dtype), b.astype(dtype)
    total = np.zeros((len(a), b.shape[1]), dtype)
    term = np.empty_like(total)
    for start in range(0, len(b), BLOCK):
        sums = np.zeros_like(total)
        for k in range(start, min(start + BLOCK, len(b))):
            np.multiply(a[:, k, None], b[k], out=term)
            kind.add(sums, term)
        kind.add(total, sums)
    return total


def calls(a: Array, b: Array, kind: Sum) -> dict[str, Call]:
    """Return the ways to multiply two matrices of float16 numbers, which are given as float32."""
    unit, core = unit_of(kind), forms.native_backend()
    ways = {NUMPY: lambda: numpy_sums.matmul_numpy(a, b, unit), WRITTEN: lambda: written(a, b, kind)}
    return ways if core is None else {NATIVE: lambda: core.matmul_native(a, b, unit), **ways}
