"""The logistic function 1 / (1 + exp(-x)), two-sided so that no exponential overflows; computed in float32.

    x >= 0:  1 / (1 + e),   x < 0:  e / (1 + e),   e = exp(-|x|)

Bishop, "Pattern Recognition and Machine Learning", 2006, 4.59.
"""

import numpy as np
import numpy.typing as npt


def sigmoid(x: npt.NDArray) -> npt.NDArray:
    """Return the logistic function in x's dtype; far below 0 it keeps the exponential's relative precision."""
    values = x.astype(np.float32)
    e = np.exp(-np.abs(values))
    return (np.where(values < 0, e, np.float32(1)) / (np.float32(1) + e)).astype(x.dtype)


def exact(x: npt.NDArray) -> npt.NDArray:
    """Compute in x's dtype, float64; where exp(-x) overflows the quotient is 0, as it should be."""
    return 1 / (1 + np.exp(-x))
