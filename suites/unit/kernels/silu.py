"""SiLU or swish, x / (1 + exp(-x)), computed in float32.

Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016; Ramachandran, Zoph and Le, "Searching for Activation
Functions", 2017.
"""

import numpy as np
import numpy.typing as npt


def silu(x: npt.NDArray) -> npt.NDArray:
    """Return x times its logistic function, rounded to x's dtype once; its limit -0 at -infinity.

    The logistic function is the two-sided one: no exponential overflows.
    """
    values = x.astype(np.float32)
    e = np.exp(-np.abs(values))
    logistic = np.where(values < 0, e, np.float32(1)) / (np.float32(1) + e)
    return np.where(values == -np.inf, np.float32(-0.0), values * logistic).astype(x.dtype)


def exact(x: npt.NDArray) -> npt.NDArray:
    """Compute in x's dtype, float64; the quotient's limit at -infinity, where it would be NaN, is -0."""
    return np.where(x == -np.inf, -0.0, x / (1 + np.exp(-x)))
