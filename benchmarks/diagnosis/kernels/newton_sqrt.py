"""The square root by Newton's iteration, in float32."""

import numpy as np

f32 = np.float32


def newton_sqrt(n, steps):
    """Return the square root after a number of steps."""
    x = (n + f32(1)) * f32(0.5)
    for _ in range(steps):
        quotient = n / x
        x = f32(0.5) * (x + quotient)
    return x


def exact(n, steps):
    """Return the same by numpy; the steps have converged."""
    return np.sqrt(n)
