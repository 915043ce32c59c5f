from fractions import Fraction
from math import copysign, inf, isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.bits import parse_number, parse_pattern
from precreg.errors import UserError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.12156456132", Fraction(112156456132, 10**11)),
        ("0.1", Fraction(1, 10)),
        ("-2e-3", Fraction(-1, 500)),
        ("+.5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1E2", Fraction(100)),
        ("1/3", Fraction(1, 3)),
        ("-6/4", Fraction(-3, 2)),
        ("0x1.8p3", Fraction(12)),
        ("-0x.p0", None),
        ("0X1P-1074", Fraction(1, 2**1074)),
        ("1e400", Fraction(10) ** 400),
        ("inf", inf),
        ("-Infinity", -inf),
    ],
)
def test_numbers_are_read_exactly(text, value):
    if value is None:
        with pytest.raises(UserError):
            parse_number(text)
    else:
        assert parse_number(text) == value


def test_nan_and_the_sign_of_zero_are_kept():
    assert all(isnan(parse_number(text)) for text in ("nan", "NaN", "-nan"))
    for text in ("-0", "-0.0", "-0e5", "-0x0p0"):
        zero = parse_number(text)
        assert (zero, copysign(1.0, zero)) == (0, -1.0)
    assert parse_number("0") == Fraction(0)
    assert isinstance(parse_number("0"), Fraction)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_come_back_from_both_ways_of_writing_them(value):
    assert parse_number(value.hex()) == Fraction(value)
    assert parse_number(f"{Fraction(value).numerator}e0") == Fraction(value).numerator
    assert float(parse_number(repr(value))) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1.2.3",
        "1e",
        "0x10",
        "1/0",
        "1/-3",
        "--inf",
        "1_000",
        " 1",
        "１",
        "1e2001",
        "1e-99999999999",
        "9" * 2001,
    ],
)
def test_what_is_no_number_is_one_clear_error(text):
    with pytest.raises(UserError, match="expected a number such as") as caught:
        parse_number(text)
    assert caught.value.slug == "bad-value"
    assert len(caught.value.message) < 200


def test_patterns():
    assert parse_pattern("bits:0x3c7c") == 0x3C7C
    assert parse_pattern("bits:0b0011") == 3
    assert parse_pattern("1.5") is None
    for text in ("bits:", "bits:12", "bits:0x", "bits:0b2", "bits:0x" + "f" * 17):
        with pytest.raises(UserError, match="expected a pattern such as bits:0x3c7c") as caught:
            parse_pattern(text)
        assert caught.value.slug == "bad-value"
