"""Every number of a small format, and the values between two of them where rounding is hard."""

import ml_dtypes
import numpy as np

from precreg.arith.formats import FORMATS, numpy_dtype

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
