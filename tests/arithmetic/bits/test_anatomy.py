from decimal import Decimal
from fractions import Fraction
from math import inf, isfinite, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.bits import RoundingErrors, describe_number, exact_decimal, neighbours, rounding_errors
from precreg.arithmetic.exact import exact_round
from precreg.arithmetic.formats import FORMATS, format_named
from tests.arithmetic.patterns import SMALL_FORMATS, numbers


@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_neighbours_are_the_numbers_before_and_after(name):
    format = FORMATS[name]
    known = numbers(name) + 0.0
    beyond = None if format.overflow != inf else "inf"
    shown = [exact_decimal(value) for value in known]
    below = [None if beyond is None else "-inf", *shown[:-1]]
    above = [*shown[1:], beyond]
    step = 37 if len(known) > 500 else 1
    for at in range(0, len(known), step):
        assert neighbours(float(known[at]), format) == (below[at], above[at])
    assert neighbours(float(known[-1]), format) == (below[-1], above[-1])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_neighbours_in_float64_are_those_of_numpy(value):
    below, above = neighbours(value, FORMATS["float64"])
    with np.errstate(over="ignore"):
        assert float(below) == np.nextafter(value, -inf)
        assert float(above) == np.nextafter(value, inf)


def test_neighbours_at_the_ends():
    assert neighbours(inf, FORMATS["float16"]) == ("65504", None)
    assert neighbours(-inf, FORMATS["float16"]) == (None, "-65504")
    assert neighbours(nan, FORMATS["float16"]) == (None, None)
    assert neighbours(65504.0, format_named("fp16_sat")) == ("65472", None)
    flushed, smallest = format_named("fp16_flush"), "0.00006103515625"
    assert neighbours(0.0, flushed) == (f"-{smallest}", smallest)
    assert neighbours(float(smallest), flushed) == ("0", "0.000061094760894775390625")
    assert neighbours(-float(smallest), flushed) == ("-0.000061094760894775390625", "0")


@given(st.floats(allow_nan=False))
def test_decimals_are_exact(value):
    assert float(exact_decimal(value)) == value
    assert not isfinite(value) or Fraction(Decimal(exact_decimal(value))) == Fraction(value)


def test_fractions_that_do_not_end_say_so():
    assert exact_decimal(Fraction(1, 3)) == "0.33333333333333333333..."
    assert exact_decimal(Fraction(-1, 80)) == "-0.0125"
    assert (exact_decimal(-0.0), exact_decimal(inf), exact_decimal(nan)) == ("-0", "inf", "nan")


@pytest.mark.parametrize(
    ("value", "kind", "power"),
    [
        (0.0, "zero", None),
        (-0.0, "zero", None),
        (2.0**-24, "subnormal", -14),
        (2.0**-14, "normal", -14),
        (-3.0, "normal", 1),
        (65504.0, "normal", 15),
        (inf, "infinity", None),
        (nan, "nan", None),
    ],
)
def test_the_class_and_the_binade(value, kind, power):
    seen = describe_number(value, value, FORMATS["float16"])
    assert (seen.kind, seen.power) == (kind, power)


@given(st.fractions(-70000, 70000))
def test_errors_are_those_of_the_rationals(exact):
    rounded = exact_round(exact, FORMATS["float16"])
    error = describe_number(rounded, exact, FORMATS["float16"]).error
    if not isfinite(rounded):
        assert error == RoundingErrors()
        return
    assert error.absolute == float(Fraction(rounded) - exact)
    assert abs(error.ulp) <= 0.5
    assert error.relative == (float((Fraction(rounded) - exact) / abs(exact)) if exact else None)


def test_errors_beyond_float64_are_infinite_or_zero():
    far = rounding_errors(1.0, Fraction(10) ** 400, Fraction(1))
    assert (far.absolute, far.ulp, far.relative) == (-inf, -inf, -1.0)
    near = rounding_errors(0.0, Fraction(1, 10**400), Fraction(1))
    assert (near.absolute, near.relative) == (0.0, -1.0)
    assert rounding_errors(nan, Fraction(1), Fraction(1)) == RoundingErrors()
