"""RMSNorm over the last axis, x / sqrt(mean(x^2) + eps) * gain, computed in float32.

Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019; eps inside the root as in the models that use it.
"""

import numpy as np
import numpy.typing as npt


def rms_norm(x: npt.NDArray, gain: npt.NDArray, *, eps: float) -> npt.NDArray:
    """Scale each row by its root mean square and each column by its gain; the result has x's shape and dtype."""
    values = x.astype(np.float32)
    mean_of_squares = (values * values).mean(-1, keepdims=True)
    normalized = values / np.sqrt(mean_of_squares + np.float32(eps))
    return (normalized * gain.astype(np.float32)).astype(x.dtype)


def exact(x: npt.NDArray, gain: npt.NDArray, *, eps: float) -> npt.NDArray:
    """Compute in x's dtype, float64."""
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps) * gain
