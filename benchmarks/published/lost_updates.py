"""Mixed-precision training: a float16 weight loses its updates, a float32 master weight does not."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from published import Figure


def figures() -> Iterator[Figure]:
    """Add a float16 gradient of 0.00041999 to a weight of 1.125 a hundred times."""
    gradient = np.float16(0.00041999)
    half, master = np.float16(1.125), np.float32(1.125)
    for _ in range(100):
        half, master = half + gradient, master + np.float32(gradient)
    exact = Fraction(1.125) + 100 * Fraction(float(gradient))
    what = "weight 1.125 after 100 gradients of 0.00041999"
    yield Figure(f"{what}, float16", "1.125, never moves", f"{half}", bool(half == 1.125))
    yield Figure(f"{what}, float32 master", "moves", f"{master}", bool(master > 1.16))
    yield Figure(f"{what}, exactly", "", f"{float(exact):.8f}")
