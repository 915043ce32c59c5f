"""The exponential function by reduction of its argument and a polynomial, in float32."""

import numpy as np

f32 = np.float32
COEFFICIENTS = (1 / 120, 1 / 24, 1 / 6, 1 / 2, 1, 1)


def exponential(x):
    """Return exp(x)."""
    steps = np.rint(x * f32(1.44269504))
    rest = x - steps * f32(0.693359375)
    rest = rest - steps * f32(-2.12194440e-4)
    value = f32(1 / 720)
    for coefficient in COEFFICIENTS:
        value = value * rest + f32(coefficient)
    return np.ldexp(value, steps.astype(np.int32))


def exact(x):
    """Return the same by numpy."""
    return np.exp(x)
