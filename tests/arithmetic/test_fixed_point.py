from fractions import Fraction
from math import ceil, floor, inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.fixed_point import (
    WIDTHS,
    FixedPoint,
    dequantize,
    exact_dequantize,
    exact_quantize,
    quantize,
    symmetric,
)
from precreg.arithmetic.formats import FORMATS, Rounding
from precreg.arithmetic.rounding_numpy import random_bits
from precreg.errors import UserError

INTEGERS = {
    Rounding.NEAREST_EVEN: round,
    Rounding.NEAREST_AWAY: lambda x: floor(abs(x) + Fraction(1, 2)) * (1 if x > 0 else -1),
    Rounding.TOWARD_ZERO: int,
    Rounding.UP: ceil,
    Rounding.DOWN: floor,
    Rounding.AWAY: lambda x: ceil(abs(x)) * (1 if x > 0 else -1),
    Rounding.ODD: lambda x: int(x) if x == int(x) else floor(x) + (floor(x) % 2 == 0),
}
"""What Python's own integers of a fraction say."""


def values_around(fixed):
    """Every half step around zero and around both limits, and the float64 on either side of each; what is beyond."""
    largest = float(fixed.largest)
    steps = np.arange(-300, 301) / 2
    halves = np.concatenate([steps, largest + steps[:310], -largest - steps[:310]])
    with np.errstate(over="ignore"):
        centres = halves / fixed.scale
    near = [np.nextafter(centres, -inf), centres, np.nextafter(centres, inf)]
    return np.concatenate([*near, [1e300, -1e300, 5e-324, -5e-324, 0.0, -0.0]])


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("scale", [1.0, 2.0**-7, 0.1, 636936013.994534, 1e200])
def test_arrays_and_single_numbers_agree(bits, scale, rounding):
    fixed = FixedPoint(bits, scale)
    values = np.append(values_around(fixed)[::3], [inf, -inf])
    integers = quantize(values, fixed, rounding, seed=3, start=5)
    assert integers.dtype == np.dtype(f"int{bits}")
    draws = random_bits(3, 5, values.size)
    expected = [
        exact_quantize(float(value), fixed, rounding, int(draw)) for value, draw in zip(values, draws, strict=True)
    ]
    assert integers.tolist() == expected


@pytest.mark.parametrize("rounding", INTEGERS)
@pytest.mark.parametrize("fixed", [FixedPoint(8, 0.1), FixedPoint(32, 1e9)])
def test_a_product_is_rounded_once_and_saturates(fixed, rounding):
    for value in values_around(fixed)[::5].tolist():
        exact = INTEGERS[rounding](Fraction(value) * Fraction(fixed.scale))
        assert exact_quantize(value, fixed, rounding) == min(
            max(exact, -(2 ** (fixed.bits - 1))), 2 ** (fixed.bits - 1) - 1
        )


def test_a_product_that_float64_rounds_to_a_tie_is_no_tie():
    """0.5 + 2**-55 is 0.5 in float64, which is even: rounded twice it would be 0."""
    x, scale = 1 + 2.0**-52, 0.5 * (1 - 2.0**-53)
    assert x * scale == 0.5
    assert Fraction(x) * Fraction(scale) > Fraction(1, 2)
    assert quantize(np.array([x]), FixedPoint(8, scale)).tolist() == [1]


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1).filter(lambda values: max(map(abs, values)) > 1e-290),
    st.sampled_from(WIDTHS),
)
def test_a_symmetric_scale_takes_the_largest_magnitude_to_the_largest_integer(values, bits):
    array = np.array(values)
    fixed = symmetric(array, bits)
    for rounding in Rounding:
        integers = quantize(array, fixed, rounding).astype(np.int64)
        assert np.abs(integers).max() in (fixed.largest, fixed.largest - 1, fixed.largest + 1)
        assert np.sign(integers[np.abs(array).argmax()]) == np.sign(array[np.abs(array).argmax()])
    assert np.abs(quantize(array, fixed).astype(np.int64)).max() == fixed.largest


def test_the_published_scale_overflows_and_this_one_does_not():
    """2**31 / max|x| takes the largest value to 2**31, which int32 wraps; 2**31 - 1 is 2**31 in float32, too."""
    x = np.array([1.0, -0.25, 0.5], np.float32)
    published = np.round(x.astype(np.float64) * (2.0**31 / (1.0 + 1e-12)))
    assert published.max() > np.iinfo(np.int32).max
    assert np.float32(2**31 - 1) == 2.0**31
    assert quantize(x, symmetric(x, 32)).tolist() == [2**31 - 1, -(2**29), 2**30]
    assert quantize(x, FixedPoint(32, 2.0**31)).tolist() == [2**31 - 1, -(2**29), 2**30]


def test_halves_of_a_symmetric_scale_are_ties():
    fixed = symmetric(np.array([1.0]), 8)
    assert quantize(np.array([0.5, -0.5]), fixed).tolist() == [64, -64]
    assert quantize(np.array([0.5, -0.5]), fixed, Rounding.TOWARD_ZERO).tolist() == [63, -63]


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "float8_e4m3fn"])
@pytest.mark.parametrize("fixed", [FixedPoint(8, 0.1), FixedPoint(8, 1e-5), FixedPoint(32, 636936013.994534)])
def test_the_way_back_is_a_quotient_rounded_once(fixed, name):
    integers = np.concatenate([np.arange(-128, 128), [fixed.largest, fixed.smallest]]).astype(fixed.dtype)
    values = dequantize(integers, fixed, FORMATS[name])
    assert values.dtype == (np.float64 if name == "float64" else np.float32)
    expected = [exact_dequantize(integer, fixed, FORMATS[name]) for integer in integers.tolist()]
    np.testing.assert_array_equal(values, expected)


def test_there_and_back_is_within_half_a_step():
    x = np.random.default_rng(0).standard_normal((5, 7))
    for bits in WIDTHS:
        fixed = symmetric(x, bits)
        back = dequantize(quantize(x, fixed), fixed, FORMATS["float64"])
        assert back.shape == x.shape
        assert np.abs(back - x).max() <= 0.5 / fixed.scale * (1 + 2.0**-20)
        assert np.abs(back - x).max() > 0.25 / fixed.scale


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1.0, nan], "max|x|=nan"),
        ([1.0, -inf], "max|x|=inf"),
        ([0.0, -0.0], "max|x|=0.0"),
        ([], "max|x|=0.0"),
        ([1e-305], "expected a scale of 2147483647 / max|x| in float64 but got max|x|=1e-305"),
    ],
)
def test_without_a_scale_there_is_one_clear_error(values, said):
    with pytest.raises(UserError) as caught:
        symmetric(np.array(values, np.float64), 32)
    assert caught.value.slug == "bad-scale"
    assert said in caught.value.message


@pytest.mark.parametrize("scale", [0.0, -1.0, inf, nan, 5e-324])
def test_a_scale_is_positive_and_finite_and_so_is_its_step(scale):
    with pytest.raises(UserError, match="positive, finite scale") as caught:
        FixedPoint(8, scale)
    assert caught.value.slug == "bad-scale"


@pytest.mark.parametrize("bits", [0, 1, 24, 64])
def test_integers_have_a_known_width(bits):
    with pytest.raises(UserError, match=f"expected one of 8, 16, 32 bits but got bits={bits}") as caught:
        FixedPoint(bits, 1.0)
    assert caught.value.slug == "bad-format"


def test_nan_has_no_integer():
    with pytest.raises(UserError, match=r"x\[1, 0\]=nan") as caught:
        quantize(np.array([[0.0, 1.0], [nan, nan]]), FixedPoint(8, 1.0))
    assert caught.value.slug == "bad-scale"
    with pytest.raises(UserError, match="x=nan"):
        exact_quantize(nan, FixedPoint(8, 1.0))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_the_magnitude_of_the_most_negative_integer_does_not_wrap(dtype):
    values = np.array([np.iinfo(dtype).min, 5], dtype)
    assert symmetric(values, 8) == symmetric(values.astype(np.float64), 8)


@pytest.mark.parametrize("values", [np.array([1 + 2j]), np.array(["1"]), np.array([None])])
@pytest.mark.parametrize("function", [symmetric, quantize])
def test_what_holds_no_real_numbers_is_refused(function, values):
    with pytest.raises(UserError, match="expected real numbers but got an array of dtype=") as caught:
        function(values, 8 if function is symmetric else FixedPoint(8, 1.0))
    assert caught.value.slug == "bad-value"


def test_an_unknown_rounding_is_refused():
    with pytest.raises(UserError, match='did you mean "up"') as caught:
        quantize(np.ones(2), FixedPoint(8, 1.0), "upp")
    assert caught.value.slug == "unknown-rounding"


def test_a_single_number_is_an_array_too():
    assert type(quantize(np.array(1.5), FixedPoint(8, 2.0))) is np.ndarray
