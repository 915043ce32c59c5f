"""GELU with the error function as a polynomial (Abramowitz and Stegun 7.1.26), in float32."""

import math

import numpy as np

f32 = np.float32


def gelu(x):
    """Return x times the normal distribution function of x."""
    scaled = np.abs(x) * f32(0.70710678)
    t = f32(1) / (f32(1) + f32(0.3275911) * scaled)
    value = f32(1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        value = value * t + f32(coefficient)
    decay = np.exp(-scaled * scaled)
    erf = np.sign(x) * (f32(1) - value * t * decay)
    return f32(0.5) * x * (f32(1) + erf)


def exact(x):
    """Return the same with the error function of the library."""
    erf = np.array([math.erf(number / math.sqrt(2)) for number in x])
    return x / 2 * (1 + erf)
