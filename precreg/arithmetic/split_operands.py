"""Which parts of its operands does a unit with a split multiply, and in which order does it add their products?

A product of split operands is an ordinary product with more terms: (a0 + a1) * (b0 + b1) without a1 * b1 has the terms
a1 * b0, a0 * b1 and a0 * b0. So every backend that sums products also sums these, with the same bits.
"""

from __future__ import annotations

import numpy as np

from precreg.arithmetic.formats import Format, Rounding
from precreg.arithmetic.rounding import round_to
from precreg.arithmetic.unit import Split
from precreg.storage import Array


def split_values(
    values: Array, format: Format, parts: int, rounding: Rounding = Rounding.NEAREST_EVEN, seed: int = 0
) -> list[Array]:
    """Return the parts of values, largest first, as float32 arrays of numbers of `format`.

    Values are rounded to float32 first. A part that overflows leaves an infinite rest, so the sum of the parts is NaN,
    as on hardware. The last rest is dropped: three parts of 8 bits hold all 24 bits of a float32 without underflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rest = values.astype(np.float32)
        found = []
        for part in range(parts):
            found.append(round_to(rest, format, rounding, seed=seed, start=part * values.size))
            # Exact, because the rest has fewer digits than the value; a saturated part is the exception.
            rest = rest - found[-1]
    return found


def order_parts(parts: list[Array], chosen: list[int], split: Split, axis: int) -> Array:
    """Return the factors of all products along the axis of terms, in the order of their additions.

    `chosen` has the part of this operand in each product.
    """
    count = parts[0].shape[axis]
    run = max(1, split.run or count)
    # moveaxis gives views, so only the joined array is copied.
    first = [np.moveaxis(part, axis, 0) for part in parts]
    pieces = [first[part][start : start + run] for start in range(0, count, run) for part in chosen]
    joined = np.concatenate(pieces) if pieces else first[0]
    return np.moveaxis(joined, 0, axis)
