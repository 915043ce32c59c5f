"""Chains of n operations, whose errors add up: n multiplications, or n products with a small matrix.

Operation i is off by a factor 1 + e_i, so the computed d_n is the exact d_0 times prod(1 + e_i). Factors differ from
step to step, as weights of layers do: one factor over and over would be off the same way each time.
"""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray


def chain(x: Array, factors: Array, *, operation: str) -> Array:
    """Apply every factor to x (chains, k, k), one after the other; factors are (n, chains, k, k) and near 1.

    Factors and x are positive, so nothing cancels. Before a matrix product a factor is divided by k, a power of two,
    which is exact: rows then add up to about 1.
    """
    size = x.dtype.type(1 / x.shape[-1])
    for factor in factors:
        x = x * factor if operation == "multiply" else np.matmul(factor * size, x)
    return x


def exact_chain(x: Array, factors: Array, *, operation: str) -> Array:
    """Multiply the factors first, in the wide dtype that is given, and apply their product to x once."""
    if operation == "multiply":
        return x * factors.prod(axis=0)
    whole = np.broadcast_to(np.identity(x.shape[-1], x.dtype), x.shape)
    for factor in factors:
        whole = factor @ whole / x.shape[-1]
    return whole @ x
