"""One mixed-precision training step in float16 and in bfloat16: which gradients over- and underflow."""

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from published import Figure

NARROW = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def figures() -> Iterator[Figure]:
    """Take the gradients of two layers for inputs of four sizes, and count zeros and infinities among them."""
    for size in (1e-4, 1e-2, 1.0, 5e3):
        lost = {name: shares(size, dtype) for name, dtype in NARROW.items()}
        for what, index in (("underflow to 0", 0), ("overflow to infinity", 1)):
            measured = ", ".join(f"{name} {share[index]:.2%}" for name, share in lost.items())
            fewer = lost["bfloat16"][index] < lost["float16"][index]
            claim = fewer if lost["float16"][index] else None
            yield Figure(f"inputs of size {size:g}: gradients that {what}", "fewer in bfloat16", measured, claim)


def shares(size: float, dtype: type) -> tuple[float, float]:
    """Give the shares of gradients that are 0 though the exact ones are not, and that are infinite."""
    random = np.random.default_rng(0)
    x, target = size * random.normal(size=(32, 64)), size * random.normal(size=(32, 8))
    w1, w2 = random.normal(0, 0.125, (64, 48)), random.normal(0, 0.144, (48, 8))
    narrow = gradients(*(a.astype(dtype) for a in (x, target, w1, w2)))
    exact = gradients(x, target, w1, w2)
    return float(np.mean((narrow == 0) & (exact != 0))), float(np.mean(np.isinf(narrow)))


def gradients(x: np.ndarray, target: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> np.ndarray:
    """Give the gradients of mean (relu(x w1) w2 - target)^2; products are summed wide, and rounded once."""
    dtype = x.dtype
    with np.errstate(all="ignore"):
        hidden = np.maximum(product(x, w1), dtype.type(0))
        slope = (product(hidden, w2) - target) * dtype.type(2 / target.size)
        back = np.where(hidden > 0, product(slope, w2.T), dtype.type(0))
        both = product(x.T, back), product(hidden.T, slope)
    return np.concatenate([part.astype(np.float64).ravel() for part in both])


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply matrices with an accumulator of float64, which is as good as float32 here, and round to a's dtype."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(a.dtype)
