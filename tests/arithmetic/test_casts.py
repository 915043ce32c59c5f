import operator
import struct
from fractions import Fraction
from math import inf, isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.casts import Expression, convert_through
from precreg.arithmetic.exact import exact_random_bits, exact_round
from precreg.arithmetic.fixed_point import FixedPoint
from precreg.arithmetic.formats import FORMATS, Rounding, format_named
from precreg.errors import UserError

HALF, SINGLE, DOUBLE = FORMATS["float16"], FORMATS["float32"], FORMATS["float64"]
NEAREST = Rounding.NEAREST_EVEN


def values(asked, *targets, rounding=NEAREST, seed=0):
    return [hop.value for hop in convert_through(asked, targets, rounding, seed).hops]


def test_the_published_conversion():
    """1.12156456132 -> float32 -> float16, with the bits of the machine."""
    seen = convert_through(Expression("1.12156456132"), (SINGLE, HALF), NEAREST)
    assert [hop.value for hop in seen.hops] == ["1.12156450748443603515625", "1.12109375"]
    assert seen.direct == "1.12109375"
    assert seen.hops[0].pattern == "0x" + struct.pack(">f", 1.12156456132).hex()
    assert seen.hops[1].pattern == "0x" + struct.pack(">e", 1.12156456132).hex()
    assert (seen.hops[1].sign, seen.hops[1].exponent, seen.hops[1].mantissa) == ("0", "01111", "0001111100")


def test_the_published_sum():
    assert values(Expression("1.125", "+", "0.12457275390625"), HALF) == ["1.25"]
    assert values(Expression("1.125", "+", "0.12457275390625"), SINGLE) == ["1.24957275390625"]


def test_the_published_lost_update():
    assert values(Expression("1.125", "-", "0.00041999"), HALF) == ["1.125"]
    assert values(Expression("1.125", "-", "0.00041999"), SINGLE) != ["1.125"]


def test_a_decimal_is_not_read_through_float64():
    """One above the middle between two float16 by less than float64 sees."""
    above = "1.00048828125000000000000000000000001"
    assert float(above) == 1.00048828125
    assert values(Expression(above), HALF) == ["1.0009765625"]
    seen = convert_through(Expression(above), (DOUBLE, HALF), NEAREST)
    assert [hop.value for hop in seen.hops] == ["1.00048828125", "1"]
    assert seen.direct == "1.0009765625"


MEANING = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


@given(st.floats(width=16), st.sampled_from("+-*/"), st.floats(width=16))
def test_operations_are_those_of_numpy(x, sign, y):
    seen = convert_through(
        Expression(x.hex(), sign, y.hex()) if abs(x) < inf and abs(y) < inf else Expression(str(x), sign, str(y)),
        (HALF,),
        NEAREST,
    )
    with np.errstate(all="ignore"):
        expected = MEANING[sign](np.float16(x), np.float16(y))
    (hop,) = seen.hops
    assert hop.value == "nan" if np.isnan(expected) else float(hop.value) == expected
    assert np.isnan(expected) or hop.sign == str(int(np.signbit(expected)))


def test_operands_are_rounded_first_and_said():
    seen = convert_through(Expression("0.1", "*", "3"), (HALF,), NEAREST)
    assert seen.operands == ("0.0999755859375", "3")
    assert seen.hops[0].error.absolute == float(Fraction(seen.hops[0].value) - Fraction("0.0999755859375") * 3)
    assert convert_through(Expression("0.1"), (HALF,), NEAREST).operands is None


def test_what_ieee_754_says_of_zeros_and_infinities():
    assert values(Expression("1", "/", "-0"), HALF) == ["-inf"]
    assert values(Expression("0", "/", "0"), HALF) == ["nan"]
    assert values(Expression("1", "-", "1"), HALF) == ["0"]
    assert values(Expression("1", "-", "1"), HALF, rounding=Rounding.DOWN) == ["-0"]
    assert values(Expression("-0", "+", "-0"), HALF) == ["-0"]
    assert values(Expression("inf", "-", "inf"), HALF) == ["nan"]


def test_patterns_are_of_the_first_format_and_nan_keeps_its_own():
    assert values(Expression("bits:0x3c7c"), HALF, SINGLE) == ["1.12109375", "1.12109375"]
    assert values(Expression("bits:0x3c00", "+", "bits:0b1"), HALF) == ["1"]
    seen = convert_through(Expression("bits:0x7e55"), (HALF, SINGLE), NEAREST)
    assert [hop.pattern for hop in seen.hops] == ["0x7e55", "0x7fc00000"]
    flushed = convert_through(Expression("bits:0x0001"), (format_named("fp16_flush"),), NEAREST).hops[0]
    assert (flushed.value, flushed.pattern, flushed.error.relative) == ("0", "0x0000", -1.0)


def test_fixed_point_is_a_hop_like_others():
    fixed = FixedPoint(8, 100.0)
    low, high = (
        convert_through(Expression("1.135"), (fixed,), NEAREST).hops[0],
        convert_through(Expression("9"), (fixed,), NEAREST).hops[0],
    )
    assert (low.value, low.kind, low.pattern, low.below, low.above) == ("1.14", "integer", "0x72", "1.13", "1.15")
    assert low.error.ulp == 0.5
    assert (high.value, high.pattern, high.above) == ("1.27", "0x7f", None)
    assert values(Expression("-1.28"), fixed) == ["-1.28"]
    assert convert_through(Expression("-1.28"), (fixed,), NEAREST).hops[0].pattern == "0x80"
    assert values(Expression("1.2"), fixed, HALF) == ["1.2", "1.2001953125"]
    assert values(Expression("0.5", "*", "0.5"), fixed) == ["0.25"]
    assert values(Expression("-inf"), fixed) == ["-1.28"]


def test_what_fixed_point_has_no_integer_for():
    fixed = FixedPoint(8, 100.0)
    for asked in (Expression("nan"), Expression("0", "/", "0")):
        with pytest.raises(UserError, match="expected a number but got x=nan") as caught:
            convert_through(asked, (fixed,), NEAREST)
        assert caught.value.slug == "bad-scale"
    with pytest.raises(UserError, match="expected a number for fixed point but got value=bits:0x1"):
        convert_through(Expression("bits:0x1"), (fixed,), NEAREST)


@pytest.mark.parametrize("rounding", [rounding for rounding in Rounding if rounding is not Rounding.STOCHASTIC])
def test_every_hop_is_rounded_as_asked(rounding):
    exact = Fraction(-1, 3)
    first = exact_round(exact, SINGLE, rounding)
    second = exact_round(first, HALF, rounding)
    assert [float(value) for value in values(Expression("-1/3"), SINGLE, HALF, rounding=rounding)] == [first, second]


def test_stochastic_hops_draw_by_seed_and_count():
    drawn = [values(Expression("1/3"), HALF, rounding=Rounding.STOCHASTIC, seed=seed)[0] for seed in range(20)]
    expected = [
        exact_round(Fraction(1, 3), HALF, Rounding.STOCHASTIC, exact_random_bits(seed, 0)) for seed in range(20)
    ]
    assert [float(value) for value in drawn] == expected
    assert len(set(drawn)) == 2
    assert convert_through(Expression("1/3"), (SINGLE, HALF), Rounding.STOCHASTIC).direct is None


def test_overflow_and_nan_have_no_error():
    for text in ("70000", "inf", "nan"):
        seen = convert_through(Expression(text), (HALF,), NEAREST).hops[0]
        assert seen.error.absolute is None
        assert isnan(float(seen.value)) or float(seen.value) == inf
