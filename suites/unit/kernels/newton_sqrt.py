"""Square root by Newton's method, x <- (x + n/x) / 2, from two starts, in the dtype of n.

Heron's rule. The relative error d of x becomes d^2 / (2 (1 + d)): once d is below 1 each step doubles the number of
right digits, while from far above (d large) a step only halves x. IEEE 754 rounds each of these operations correctly:
the outputs have the same bits on every CPU.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt


def newton_sqrt(n: npt.NDArray, *, start: Literal["half", "halved_exponent"], steps: int) -> npt.NDArray:
    """Return the square root of n, elementwise; zeros of both signs and infinity are their own roots.

    `steps` counts the steps; `start` names the first guess, see STARTS.
    """
    is_own_root = (n == 0) | (n == np.inf)
    x = STARTS[start](n)
    for _ in range(steps):
        x = n.dtype.type(0.5) * (x + n / x)
    return np.where(is_own_root, n, x)


def half(n: npt.NDArray) -> npt.NDArray:
    """Guess n/2, the published start: as far from the root as n itself is, so very large and very small n are slow."""
    return n.dtype.type(0.5) * n


def halved_exponent(n: npt.NDArray) -> npt.NDArray:
    """Guess the power of two that has half of n's exponent, at most a factor sqrt(2) from the root whatever n."""
    exponent = np.frexp(n)[1]
    return np.ldexp(np.ones_like(n), exponent >> 1)


STARTS = {"half": half, "halved_exponent": halved_exponent}


def exact(n: npt.NDArray, *, start: str, steps: int) -> npt.NDArray:
    """Take the correctly rounded root in n's dtype; `start` and `steps` are the subject's and mean nothing here."""
    return np.sqrt(n)
