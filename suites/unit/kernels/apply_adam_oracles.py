"""What apply_adam is held against: the golden operator in its own dtype, and the exact step in float64.

Both are written out apart from the kernel, so that a change of the kernel cannot change them.
"""

import math

import numpy as np
import numpy.typing as npt


def golden(
    w: npt.NDArray,
    m: npt.NDArray,
    v: npt.NDArray,
    g: npt.NDArray,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    step: int,
    order: str,
) -> dict[str, npt.NDArray]:
    """Do the step as the instruction list of the accepted operator does, whatever `order` the subject takes.

    mul mul add | mul mul mul add | sqrt add div mul sub, each rounded to the arrays' dtype.
    """
    dtype = w.dtype
    m = np.add(np.multiply(dtype.type(beta1), m), np.multiply(dtype.type(1 - beta1), g))
    weighted = np.multiply(np.multiply(dtype.type(1 - beta2), g), g)
    v = np.add(np.multiply(dtype.type(beta2), v), weighted)
    quotient = np.divide(m, np.add(np.sqrt(v), dtype.type(eps)))
    rate = dtype.type(lr * math.sqrt(1 - beta2**step) / (1 - beta1**step))
    return {"w": np.subtract(w, np.multiply(rate, quotient)), "m": m, "v": v}


def exact(
    w: npt.NDArray,
    m: npt.NDArray,
    v: npt.NDArray,
    g: npt.NDArray,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    step: int,
    order: str,
) -> dict[str, npt.NDArray]:
    """Do the step in float64 with scalars in float64; `order` is the subject's and means nothing here."""
    first = beta1 * m + (1 - beta1) * g
    second = beta2 * v + (1 - beta2) * np.square(g)
    unbiased_first = first / (1 - beta1**step)
    unbiased_second = np.sqrt(second / (1 - beta2**step))
    scaled_eps = eps / math.sqrt(1 - beta2**step)
    return {"w": w - lr * unbiased_first / (unbiased_second + scaled_eps), "m": first, "v": second}
