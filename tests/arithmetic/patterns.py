"""Every number of a small format, and the values between two of them where rounding is hard."""

import ml_dtypes
import numpy as np

from precreg.arithmetic.formats import FORMATS, numpy_dtype

SMALL_FORMATS = [
    name for name in FORMATS if name not in ("float32", "float64") and (name == "float16" or hasattr(ml_dtypes, name))
]


def numbers(name):
    """Return the finite numbers of a format as sorted, distinct float64."""
    dtype = numpy_dtype(name)
    patterns = np.arange(2 ** (8 * dtype.itemsize)).astype(f"uint{8 * dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        values = patterns.view(dtype).astype(np.float64)
    return np.unique(values[np.isfinite(values)])


def hard_values(name):
    """Return the numbers, the midpoints of neighbours, and the float64 on either side of each; and what overflows."""
    known = numbers(name)
    beyond = known[-1] + (known[-1] - known[-2]) * np.array([0.25, 0.5, 0.75, 1.0, 2.0])
    between = (known[:-1] + known[1:]) / 2
    centres = np.concatenate([known, between, beyond, -beyond])
    near = [np.nextafter(centres, -np.inf), centres, np.nextafter(centres, np.inf)]
    return np.concatenate([*near, [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1.7e308]])


def everything():
    """Return every number of every small format, and what is none, as float64; each of them is a float32."""
    known = np.unique(np.concatenate([numbers(name) for name in SMALL_FORMATS]))
    return np.concatenate([known, [0.0, -0.0, np.inf, -np.inf, np.nan]])


def between(name):
    """Return values at 0.49, 0.5 and 0.51 from each positive number to the next: (values, low, high, parity of low).

    The parity is that of the pattern of `low`: the numbers from zero upward have the patterns 0, 1, 2, ...
    """
    positive = np.abs(numbers(name)[numbers(name) >= 0])
    low, high, parity = (np.tile(part, 3) for part in (positive[:-1], positive[1:], np.arange(len(positive) - 1) % 2))
    share = np.repeat([0.49, 0.5, 0.51], len(positive) - 1)
    return low + share * (high - low), low, high, parity
