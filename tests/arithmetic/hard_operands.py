"""Operands that are hard to compute with: any pattern, special values, numbers near one, and ties made on purpose."""

import numpy as np

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1.5)


def hard(dtype, count, generator):
    """Return `count` numbers of float32 or float64: a third each of any patterns, short numbers and boundaries."""
    limits = np.finfo(dtype)
    unsigned = f"uint{limits.bits}"
    patterns = generator.integers(0, 2**limits.bits, count, unsigned).view(dtype)
    short = generator.integers(-(2**11), 2**11, count) * 2.0 ** generator.integers(-60, 60, count)
    near_one = (1 + generator.integers(-4, 5, count) * float(limits.eps)) * 2.0 ** generator.integers(-3, 4, count)
    edges = (limits.max, limits.smallest_normal, limits.smallest_subnormal, -limits.smallest_subnormal, limits.eps / 2)
    special = generator.choice(np.array((*SPECIAL, *edges)), count)
    kinds = generator.integers(0, 4, count)
    with np.errstate(all="ignore"):
        return np.choose(kinds, [patterns.astype(np.float64), short, near_one, special]).astype(dtype)


def near_ties(format, dtype, count, generator):
    """Return pairs whose sum is a number of `format` or a tie of two, or lies beside one by next to nothing."""
    p = format.precision
    significands = generator.integers(2 ** (p - 1), 2**p, count)
    exponents = generator.integers(-3, 4, count)
    numbers = generator.choice([-1, 1], count) * significands * 2.0 ** (exponents - p)
    halves = generator.integers(-2, 3, count) * 2.0 ** (exponents - p - 1)
    nothing = generator.integers(-1, 2, count) * 2.0 ** generator.integers(-100, -30, count)
    return (numbers + halves).astype(dtype), nothing.astype(dtype)


def assert_same(actual, expected):
    """Equal numbers with equal signs, zeros included; NaN equals NaN."""
    np.testing.assert_array_equal(actual, expected)
    defined = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual)[defined], np.signbit(expected)[defined])
