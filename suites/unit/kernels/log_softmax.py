"""Log-softmax over the last axis, (x - max) - log(sum(exp(x - max))), computed in float32."""

import numpy as np
import numpy.typing as npt


def log_softmax(x: npt.NDArray) -> npt.NDArray:
    """Return the logarithms of the softmax in x's dtype; -infinity where x is, NaN for a row of nothing else.

    The order matters: max + log(sum) in one number would be rounded to the ulp of max, which may be any size.
    """
    values = x.astype(np.float32)
    shifted = values - values.max(-1, keepdims=True)
    total = np.exp(shifted).sum(-1, keepdims=True)
    return (shifted - np.log(total)).astype(x.dtype)


def exact(x: npt.NDArray) -> npt.NDArray:
    """Compute in x's dtype, float64."""
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
