"""The operations on rationals against Python's floats, numpy's float32, and mpmath where neither rounds that way."""

from fractions import Fraction
from math import copysign, inf, isnan, nan

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import libmp

from precreg.arithmetic.exact import exact_add, exact_divide, exact_fma, exact_multiply, exact_sqrt, exact_subtract
from precreg.arithmetic.formats import FORMATS, Format, Rounding

DOUBLES = st.floats(width=64)
SINGLES = st.floats(width=32)
OPERATIONS = {"add": exact_add, "subtract": exact_subtract, "multiply": exact_multiply, "divide": exact_divide}
MPMATH = {"add": libmp.mpf_add, "subtract": libmp.mpf_sub, "multiply": libmp.mpf_mul, "divide": libmp.mpf_div}
MPMATH_ROUNDINGS = {
    Rounding.NEAREST_EVEN: "n",
    Rounding.TOWARD_ZERO: "d",
    Rounding.AWAY: "u",
    Rounding.DOWN: "f",
    Rounding.UP: "c",
}
WIDE_RANGE = [Format(f"p{precision}", precision, -1000, 2.0**1000) for precision in (2, 8, 11, 21, 40)]
"""Formats that mpmath, whose exponents have no bounds, agrees with."""


def same(actual, expected):
    """Say whether two numbers are equal, in the sign of a zero, too; NaN is NaN."""
    return (isnan(actual) and isnan(expected)) or (actual == expected and copysign(1, actual) == copysign(1, expected))


def by_processor(name, *operands):
    with np.errstate(all="ignore"):
        return float(getattr(np, name)(*operands))


@pytest.mark.parametrize("name", OPERATIONS)
@given(x=DOUBLES, y=DOUBLES)
def test_float64_to_nearest_is_what_the_processor_computes(name, x, y):
    expected = by_processor(name, np.float64(x), np.float64(y))
    assert same(OPERATIONS[name](x, y, FORMATS["float64"]), expected)


@pytest.mark.parametrize("name", OPERATIONS)
@given(x=SINGLES, y=SINGLES)
def test_float32_to_nearest_is_what_the_processor_computes(name, x, y):
    expected = by_processor(name, np.float32(x), np.float32(y))
    assert same(OPERATIONS[name](x, y, FORMATS["float32"]), expected)


@given(DOUBLES)
def test_square_roots_to_nearest_are_what_the_processor_computes(x):
    assert same(exact_sqrt(x, FORMATS["float64"]), by_processor("sqrt", np.float64(x)))
    with np.errstate(all="ignore"):
        single = np.float32(x)
    assert same(exact_sqrt(float(single), FORMATS["float32"]), by_processor("sqrt", single))


NORMAL = st.floats(2.0**-300, 2.0**300) | st.floats(-(2.0**300), -(2.0**-300)) | st.integers(-300, 300).map(float)


@pytest.mark.parametrize("rounding", MPMATH_ROUNDINGS)
@pytest.mark.parametrize("name", OPERATIONS)
@given(x=NORMAL, y=NORMAL.filter(bool), format=st.sampled_from(WIDE_RANGE))
def test_other_roundings_are_those_of_mpmath(name, rounding, x, y, format):
    exact = MPMATH[name](libmp.from_float(x), libmp.from_float(y), format.precision, MPMATH_ROUNDINGS[rounding])
    assert OPERATIONS[name](x, y, format, rounding) == libmp.to_float(exact)


@pytest.mark.parametrize("rounding", MPMATH_ROUNDINGS)
@given(x=NORMAL.map(abs), y=NORMAL, z=NORMAL, format=st.sampled_from(WIDE_RANGE))
def test_roots_and_fused_products_are_those_of_mpmath(rounding, x, y, z, format):
    precision, letter = format.precision, MPMATH_ROUNDINGS[rounding]
    root = libmp.mpf_sqrt(libmp.from_float(x), precision, letter)
    assert exact_sqrt(x, format, rounding) == libmp.to_float(root)
    product = libmp.mpf_mul(libmp.from_float(x), libmp.from_float(y))
    fused = libmp.mpf_add(product, libmp.from_float(z), precision, letter)
    assert exact_fma(x, y, z, format, rounding) == libmp.to_float(fused)


def test_a_root_that_is_nearly_a_tie_is_no_tie():
    """The root of (1 + 2**-8)**2 + 2**-52 is above the middle of two bfloat16 by less than 2**-52."""
    above = (1 + 2.0**-8) ** 2 + 2.0**-52
    assert mpmath.sqrt(mpmath.mpf(above)) - (1 + 2.0**-8) < 2.0**-52
    assert exact_sqrt(above, FORMATS["bfloat16"]) == 1 + 2.0**-7
    assert exact_sqrt((1 + 2.0**-8) ** 2, FORMATS["bfloat16"]) == 1.0


@pytest.mark.parametrize("root", [0.375, 3.0, 2.0**-500, 1.5 * 2.0**400])
@pytest.mark.parametrize("rounding", Rounding)
def test_a_root_that_is_exact_is_exact(root, rounding):
    assert exact_sqrt(root * root, FORMATS["float64"], rounding) == root


def test_a_fused_product_is_rounded_once():
    """(1 + 2**-10) * (1 - 2**-10) - 1 is -2**-20: the product by itself rounds to 1."""
    x, y = 1 + 2.0**-10, 1 - 2.0**-10
    assert exact_fma(x, y, -1.0, FORMATS["float16"]) == -(2.0**-20)
    assert exact_add(exact_multiply(x, y, FORMATS["float16"]), -1.0, FORMATS["float16"]) == 0.0


def test_a_published_sum_in_float16_and_float32():
    """Of a weight and an update: the numbers of a worked example of lost bits."""
    assert exact_add(1.125, 0.12457275390625, FORMATS["float16"]) == 1.25
    assert exact_add(1.125, 0.12457275390625, FORMATS["float32"]) == 1.24957275390625


@pytest.mark.parametrize("rounding", Rounding)
def test_an_exact_zero_is_negative_when_rounding_down_alone(rounding):
    zero = -0.0 if rounding is Rounding.DOWN else 0.0
    format = FORMATS["float16"]
    for terms in ((1.0, -1.0), (0.0, -0.0), (-0.0, 0.0)):
        assert same(exact_add(*terms, format, rounding), zero)
        assert same(exact_fma(terms[0], 1.0, terms[1], format, rounding), zero)
    assert same(exact_add(-0.0, -0.0, format, rounding), -0.0)
    assert same(exact_subtract(0.0, -0.0, format, rounding), 0.0)
    assert same(exact_fma(-0.0, 5.0, -0.0, format, rounding), -0.0)
    assert same(exact_multiply(-0.0, 5.0, format, rounding), -0.0)
    assert same(exact_divide(0.0, -5.0, format, rounding), -0.0)
    assert same(exact_sqrt(-0.0, format, rounding), -0.0)


@pytest.mark.parametrize(
    ("x", "y", "z", "expected"),
    [
        (inf, 0.0, 1.0, nan),
        (inf, 1.0, -inf, nan),
        (inf, -1.0, -inf, -inf),
        (1e300, 1e300, -inf, -inf),
        (1e300, 1e300, -1e300, inf),
        (nan, 1.0, 1.0, nan),
        (1.0, 1.0, nan, nan),
        (0.0, 1.0, inf, inf),
    ],
)
def test_fused_products_of_what_is_not_finite(x, y, z, expected):
    assert same(exact_fma(x, y, z, FORMATS["float64"]), expected)


def test_quotients_of_zeros_and_infinities():
    float16 = FORMATS["float16"]
    assert exact_divide(1.0, -0.0, float16) == -inf
    assert isnan(exact_divide(0.0, 0.0, float16))
    assert isnan(exact_divide(inf, -inf, float16))
    assert same(exact_divide(1.0, -inf, float16), -0.0)
    assert exact_divide(-inf, 2.0, float16) == -inf
    assert isnan(exact_divide(1.0, 0.0, FORMATS["float8_e4m3fn"]))


@pytest.mark.parametrize(("draw", "third"), [(0x555554, 0.33349609375), (0x555555, 0.333251953125)])
def test_stochastic_rounding_compares_the_rest_with_the_draw(draw, third):
    """1/3 lies a third of the way from 1365 to 1366 times 2**-12; the third's 24 bits are 0x555555."""
    assert exact_divide(1.0, 3.0, FORMATS["float16"], Rounding.STOCHASTIC, draw) == third
    assert Fraction(1, 3) * 2**12 - 1365 == Fraction(1, 3)
