"""Shipped devices as arithmetics, and arrays of numbers that are hard for them."""

from functools import cache

import numpy as np

from precreg.arithmetic.devices.array import plain_array, simulate_array
from precreg.arithmetic.devices.computation import DeviceArithmetic
from precreg.arithmetic.devices.device import device_named, device_names
from precreg.arithmetic.formats import FORMATS, numpy_dtype

DEVICES = [name for name in device_names(None) if name != "cpu"]  # cpu's table is empty


@cache
def device(name):
    """Return the arithmetic of a shipped device."""
    return DeviceArithmetic(device_named(name))


def on(name, *arrays):
    """Return arrays that a shipped device computes."""
    found = tuple(simulate_array(np.asarray(array), device(name)) for array in arrays)
    return found[0] if len(found) == 1 else found


def hard(dtype, count=60, seed=0):
    """Return numbers of many sizes and of few and many bits, and the edges of a dtype."""
    format = FORMATS[dtype]
    draw = np.random.default_rng(seed)
    sizes = draw.integers(max(format.min_exponent, -60) // 2, min(format.max_exponent, 60) // 2, count)
    drawn = np.ldexp(draw.uniform(1, 2, count) * draw.choice([-1, 1], count), sizes)
    small = [format.smallest_normal, format.smallest_subnormal, format.smallest_normal * 0.75]
    edges = [0.0, -0.0, 1.0, -3.0, *small, format.largest, -format.largest, np.inf, -np.inf, np.nan]
    return np.array([*drawn, *edges]).astype(numpy_dtype(dtype))


def same_bits(actual, expected):
    """Say whether two arrays of one shape have the same numbers, zeros with their signs; a NaN is a NaN."""
    a, b = np.asarray(plain_array(actual), np.float64), np.asarray(plain_array(expected), np.float64)
    return a.shape == b.shape and bool(
        np.all((a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b)))
    )
