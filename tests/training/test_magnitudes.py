"""Exponents at which magnitudes cross the limits of a format equal those that rounding itself finds."""

from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from msgspec.structs import replace

from precreg.arithmetic import Format, Rounding, format_named, round_to
from precreg.errors import UserError
from precreg.training.magnitudes import count_crossings, format_limits, magnitude_chunks

NAMES = [
    "float16",
    "bfloat16",
    "float32",
    "tf32",
    "float32_m20",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e3m4",
    "float6_e3m2fn",
    "float4_e2m1fn",
    "float16_flush",
    "float8_e4m3fn_sat",
    "float8_e5m2_flush",
]
ONE_BIT = Format("one_bit", 1, -6, 2.0**8)
EXPONENTS = range(-3, 26)


def counted(values, format, exponents=EXPONENTS):
    """Return, by exponent, how many elements are nonzero, normal and beyond, from one pass."""
    found = np.zeros((3, len(exponents)), int)
    for chunk in magnitude_chunks(values):
        for row, limit in enumerate(format_limits(format)):
            crossings = chunk.magnitudes.crossings(limit)
            found[row] += np.cumsum(count_crossings(crossings, exponents[0], len(exponents)))[1:-1]
    return found


def rounded(values, format, exponents=EXPONENTS):
    """Return the same from rounding all elements at each scale."""
    unbounded = replace(format, overflow=inf)
    columns = []
    for exponent in exponents:
        with np.errstate(over="ignore"):
            scaled = np.ldexp(values[np.isfinite(values)].astype(np.float64), exponent)
            result = np.abs(round_to(scaled, unbounded, Rounding.NEAREST_EVEN))
        normal = result >= format.smallest_normal
        columns.append([np.count_nonzero(result), np.count_nonzero(normal), np.count_nonzero(np.isinf(result))])
    return np.array(columns).T


EVERY_FLOAT16 = np.arange(2**16, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("name", NAMES)
def test_every_float16_at_every_scale(name):
    format = format_named(name)
    assert (counted(EVERY_FLOAT16, format) == rounded(EVERY_FLOAT16, format)).all()


def test_every_float16_in_a_format_of_one_bit():
    found = counted(EVERY_FLOAT16, ONE_BIT)
    assert (found == rounded(EVERY_FLOAT16, ONE_BIT)).all()
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize("name", NAMES)
@given(
    arrays(np.float32, 40, elements=st.floats(width=32))
    | arrays(np.float64, 40, elements=st.floats(allow_nan=True, allow_infinity=True))
)
def test_any_floats_at_every_scale(name, values):
    format = format_named(name)
    assert (counted(values, format) == rounded(values, format)).all()


@pytest.mark.parametrize("name", NAMES)
def test_neighbours_of_the_limits(name):
    """Ties and the numbers beside them are where one pass and rounding could part."""
    format = format_named(name)
    at = [np.ldexp(limit.significand, limit.exponent) for limit in format_limits(format)]
    values = np.array([each for one in at for each in (np.nextafter(one, 0), one, np.nextafter(one, inf))])
    assert (counted(values, format) == rounded(values, format)).all()


def test_limits_of_float16_and_e4m3fn():
    zero, normal, beyond = format_limits(format_named("float16"))
    assert Fraction(zero.significand) * Fraction(2) ** zero.exponent == Fraction(1, 2**25)
    assert not zero.is_included
    assert Fraction(normal.significand) * Fraction(2) ** normal.exponent == Fraction(2047, 2**25)
    assert (beyond.significand * 2**beyond.exponent, beyond.is_included) == (65520.0, True)
    beyond = format_limits(format_named("float8_e4m3fn")).beyond
    assert (beyond.significand * 2**beyond.exponent, beyond.is_included) == (464.0, False)


def test_float64_is_a_format_too():
    values = np.array([np.finfo(np.float64).max, 1.0, 5e-324, 0.0, np.nan])
    assert counted(values, format_named("float64"), range(-1, 2)).tolist() == [[2, 3, 3], [2, 2, 2], [0, 0, 1]]


def test_exponents_of_subnormals():
    (chunk,) = magnitude_chunks(np.array([5e-324, 1.5, -4.0, 0.0, np.inf]))
    assert chunk.magnitudes.exponents().tolist() == [-1074, 0, 2]
    assert (chunk.zeros, chunk.nonfinite) == (1, 1)


def test_a_longdouble_has_no_limits():
    with pytest.raises(UserError, match=r"expected a format whose largest number is a float64") as caught:
        format_limits(Format("longdouble", 64, -16382, inf))
    assert caught.value.slug == "bad-format"
