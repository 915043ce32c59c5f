"""The spacing of a number format at given values: the unit in the last place."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.formats import Format


def ulp(values: NDArray[Any], format: Format) -> NDArray[Any]:
    """Return the distance between neighbours of `format` in the binade of |values|.

    `values` is float64 or longdouble of any shape, at least as wide as `format`; so is the result. From zero to the
    smallest normal number the spacing is the smallest subnormal; beyond the largest binade, at infinities too, it
    is the largest binade's. NaN gives NaN. This is Goldberg's ulp (Muller et al., Handbook of Floating-Point
    Arithmetic, 2018, section 2.3.2).
    """
    smallest, largest = _binades(format, values.dtype)
    significands, exponents = np.frexp(np.minimum(np.maximum(np.abs(values), smallest), largest))
    spacing: NDArray[Any] = np.ldexp(np.sign(significands), exponents - format.precision)
    return spacing


@cache
def _binades(format: Format, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return where the smallest and the largest binade begin."""
    one = dtype.type(1)
    return np.ldexp(one, format.min_exponent), np.ldexp(one, format.max_exponent)
