"""HiFloat8: all 256 codes, the counts that its paper states, and every rounding against rationals."""

import math
from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic import exact as exact_module
from precreg.arithmetic import operations
from precreg.arithmetic.bits import bit_fields, decode_fields, split_pattern
from precreg.arithmetic.exact import exact_random_bits, exact_round, exact_ulp
from precreg.arithmetic.formats import Rounding, format_named
from precreg.arithmetic.hifloat8 import INFINITY, NAN, ZERO, decode_hifloat8, encode_hifloat8, hifloat8_fields
from precreg.arithmetic.rounding import round_to, ulp

HIF8 = format_named("hif8")
VALUES = [decode_hifloat8(code) for code in range(256)]
POSITIVE = sorted(value for value in VALUES if 0 < value < math.inf)


def binade(value):
    return math.frexp(value)[1] - 1


def test_the_paper_counts_the_binades():
    """7 exponents with 3 bits of mantissa, 8 with 2, 16 with 1, and 7 more powers of two: 38 binades."""
    counts = {exponent: sum(binade(value) == exponent for value in POSITIVE) for exponent in range(-22, 16)}
    assert [exponent for exponent, count in counts.items() if count == 8] == list(range(-3, 4))
    assert [exponent for exponent, count in counts.items() if count == 4] == [*range(-7, -3), *range(4, 8)]
    # The code of 1.5 * 2**15 is the infinity.
    assert [e for e, count in counts.items() if count == 2] == [*range(-15, -7), *range(8, 15)]
    assert [e for e, count in counts.items() if count == 1] == [*range(-22, -15), 15]
    assert len(POSITIVE) == sum(counts.values()) == 126


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (0x00, 0.0),
        (0x08, 1.0),  # dot 0001
        (0x0F, 1.875),
        (0x10, 2.0),  # dot 001, exponent +1
        (0x18, 0.5),
        (0x20, 4.0),  # dot 01, exponent +2
        (0x28, 8.0),
        (0x30, 0.25),
        (0x6E, 2.0**15),
        (0x7E, 2.0**-15),
        (0x01, 2.0**-22),
        (0x07, 2.0**-16),
        (0x88, -1.0),
    ],
)
def test_known_codes(code, value):
    assert decode_hifloat8(code) == value


def test_zero_nan_and_infinities_have_the_codes_of_the_paper():
    assert (ZERO, INFINITY, NAN) == (0x00, 0x6F, 0x80)
    assert math.isnan(VALUES[0x80])
    assert (VALUES[0x6F], VALUES[0xEF]) == (math.inf, -math.inf)


def test_every_code_comes_back():
    assert [encode_hifloat8(value) for value in VALUES] == list(range(256))
    assert len(set(VALUES) - {math.nan}) >= 254


def test_fields_make_the_code():
    for code in range(256):
        assert int("".join(hifloat8_fields(code)), 2) == code


@pytest.mark.parametrize("value", [1.0625, 2.0**-23, 3 * 2.0**14 * 2, 1e300, 2.0**-17 * 1.5, 17.0])
def test_numbers_between_codes_are_refused(value):
    with pytest.raises(ValueError, match="HiFloat8"):
        encode_hifloat8(value)


def test_the_format_has_the_numbers_of_the_codes():
    found = np.unique(np.abs(round_to(np.logspace(-30, 18, 200_001, base=2), HIF8)))
    assert found[np.isfinite(found) & (found > 0)].tolist() == POSITIVE
    assert (HIF8.smallest_normal, HIF8.smallest_subnormal, HIF8.largest) == (POSITIVE[0], POSITIVE[0], POSITIVE[-1])


def nearest_by_search(value, *, away):
    """Return the nearest number by a search in all of them, with the infinity in the place of 1.5 * 2**15."""
    numbers = [0.0, *POSITIVE, 1.5 * 2.0**15]
    place = bisect_left(numbers, abs(value))
    if place == len(numbers):
        return math.copysign(math.inf, value)
    above = numbers[place]
    below = numbers[max(place - 1, 0)]
    if above == abs(value):
        chosen = above
    else:
        twice = 2 * Fraction(abs(value)) - Fraction(above) - Fraction(below)
        chosen = above if twice > 0 or (twice == 0 and away) else below
    chosen = math.inf if chosen > POSITIVE[-1] else chosen
    return math.copysign(chosen, value) if chosen else 0.0


@given(st.floats(width=32, allow_nan=False))
def test_rounding_half_away_is_a_search_among_the_codes(value):
    expected = nearest_by_search(value, away=True)
    assert exact_round(value, HIF8, Rounding.NEAREST_AWAY) == expected
    for dtype in (np.float32, np.float64):
        found = round_to(np.array([value], dtype), HIF8, Rounding.NEAREST_AWAY)
        assert found[0] == expected
        assert not np.signbit(found[0]) or expected != 0.0


def test_all_of_float16_by_search():
    values = np.arange(2**16, dtype=np.uint16).view(np.float16)
    values = values[np.isfinite(values)]
    found = round_to(values.astype(np.float32), HIF8, Rounding.NEAREST_AWAY)
    assert found.tolist() == [nearest_by_search(float(value), away=True) for value in values]


@pytest.mark.parametrize("rounding", Rounding)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20), st.integers(0, 2**32))
def test_every_rounding_is_the_exact_one(rounding, values, seed):
    found = round_to(np.array(values, np.float32), HIF8, rounding, seed=seed)
    exact = [exact_round(value, HIF8, rounding, exact_random_bits(seed, k)) for k, value in enumerate(values)]
    np.testing.assert_array_equal(found, np.array(exact, np.float32))
    assert np.signbit(found[found == 0]).sum() == 0


@given(st.floats(min_value=2.0**-22, max_value=2.0**15))
def test_the_spacing_is_that_of_the_codes(value):
    spacing = float(exact_ulp(Fraction(value), HIF8))
    assert ulp(np.array([value]), HIF8)[0] == spacing
    assert spacing == 2.0 ** (binade(value) - HIF8.precision_at(binade(value)) + 1)


@pytest.mark.parametrize("code", range(1, 0x6F))
def test_rounding_a_number_changes_nothing(code):
    for rounding in Rounding:
        assert round_to(np.array([VALUES[code]]), HIF8, rounding)[0] == VALUES[code]


@pytest.mark.parametrize("code", range(256))
def test_bits_shows_each_code(code):
    bits = split_pattern(code, HIF8)
    assert int("".join(bits), 2) == code
    value = decode_fields(bits, HIF8)
    assert value == VALUES[code] or (math.isnan(value) and code == NAN)
    assert bit_fields(value, HIF8) == bits


@pytest.mark.parametrize("name", ["add", "multiply", "divide"])
@given(st.integers(0, 255), st.integers(0, 255), st.sampled_from([Rounding.NEAREST_AWAY, Rounding.TOWARD_ZERO]))
def test_operations_round_once(name, first, second, rounding):
    x, y = VALUES[first], VALUES[second]
    with np.errstate(all="ignore"):
        found = getattr(operations, name)(np.float32(x), np.float32(y), HIF8, rounding)
    exact = getattr(exact_module, f"exact_{name}")(x, y, HIF8, rounding)
    assert float(found) == exact or (math.isnan(exact) and np.isnan(found))
