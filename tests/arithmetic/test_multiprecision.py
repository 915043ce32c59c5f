"""Numbers of mpmath: exact on the way there, rounded once on the way back, whatever precision mpmath works with."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from mpmath import mp, mpc, mpf

from precreg.arithmetic import from_mpmath, to_mpmath

LONG = np.finfo(np.longdouble)


def exact(number):
    """Return the rational number that an mpf is."""
    sign, significand, exponent, _ = number._mpf_
    value = Fraction(significand) * Fraction(2) ** exponent
    return -value if sign else value


def exact_long(value):
    """Return the rational number that a longdouble is, by numpy's own ratio."""
    return Fraction(*map(int, value.as_integer_ratio()))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, ml_dtypes.bfloat16])
def test_the_way_there_is_exact_in_any_working_precision(dtype):
    numbers = (np.random.default_rng(1).normal(size=(7, 3)) * 1e3).astype(dtype)
    if dtype is np.longdouble:
        numbers = numbers / np.longdouble(3)
    with mp.workprec(11):
        converted = to_mpmath(numbers)
    assert converted.shape == (7, 3)
    wide = numbers.astype(np.longdouble)
    assert [exact(x) for x in converted.flat] == [exact_long(x) for x in wide.flat]


def test_the_ends_of_longdouble_come_exactly():
    ends = np.array([LONG.max, LONG.tiny, LONG.smallest_subnormal, -LONG.max, 0], np.longdouble)
    assert [exact(x) for x in to_mpmath(ends)] == [exact_long(x) for x in ends]
    assert np.array_equal(from_mpmath(to_mpmath(ends)), ends)


def test_non_finite_numbers_and_complex_ones_come_back():
    numbers = np.array([np.nan, np.inf, -np.inf, 1.5])
    assert np.array_equal(from_mpmath(to_mpmath(numbers)), numbers.astype(np.longdouble), equal_nan=True)
    complex_numbers = np.array([[1 + 2j, -0.1j]])
    back = from_mpmath(to_mpmath(complex_numbers))
    assert back.dtype == np.clongdouble
    assert np.array_equal(back, complex_numbers.astype(np.clongdouble))


@pytest.mark.parametrize("exponent", [-17000, -16440, -16382, -1074, -40, 0, 37, 16000, 16383, 17000])
def test_the_way_back_rounds_to_nearest_with_ties_to_even(exponent):
    precision = LONG.nmant + 1
    generator = np.random.default_rng(exponent + 20000)
    for _ in range(20):
        significand = int.from_bytes(generator.bytes(20), "big") | 1
        number = mp.make_mpf((0, significand, exponent - 160, significand.bit_length()))
        (found,) = from_mpmath(np.array([number], dtype=object))
        target = Fraction(significand) * Fraction(2) ** (exponent - 160)
        if not np.isfinite(found):
            assert target >= (2 - Fraction(2) ** -precision) * Fraction(2) ** (LONG.maxexp - 1)
            continue
        neighbours = [np.nextafter(found, -np.longdouble(np.inf)), np.nextafter(found, np.longdouble(np.inf))]
        best = min(abs(exact_long(x) - target) for x in (*neighbours, found) if np.isfinite(x))
        assert abs(exact_long(found) - target) == best


def test_ties_go_to_even():
    one = 1 << LONG.nmant
    for whole in (one, one + 1):
        number = mp.make_mpf((0, 2 * whole + 1, -1, (2 * whole + 1).bit_length()))
        (found,) = from_mpmath(np.array([number], dtype=object))
        assert exact_long(found) == whole + whole % 2


def test_python_numbers_mix_with_those_of_mpmath():
    mixed = np.array([1, 2.5, mpf("0.5")], dtype=object)
    assert from_mpmath(mixed).tolist() == [1, 2.5, 0.5]
    assert from_mpmath(np.array([mpc(1, 2), 3], dtype=object)).tolist() == [1 + 2j, 3]
