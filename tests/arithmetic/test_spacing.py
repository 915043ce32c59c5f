from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.exact import exact_ulp
from precreg.arithmetic.formats import FORMATS, format_of
from precreg.arithmetic.rounding import ulp
from tests.arithmetic.patterns import SMALL_FORMATS, numbers

INFINITE = [name for name in SMALL_FORMATS if FORMATS[name].overflow == np.inf]


@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_every_pattern_agrees_with_rational_arithmetic(name):
    values = numbers(name)[:: 16 if name == "bfloat16" else 4 if name == "float16" else 1]
    assert [Fraction(spacing) for spacing in ulp(values, FORMATS[name])] == [
        exact_ulp(Fraction(value), FORMATS[name]) for value in values
    ]


@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_spacing_is_the_distance_to_the_next_number_away_from_zero(name):
    positive = numbers(name)[numbers(name) >= 0]
    np.testing.assert_array_equal(ulp(positive[:-1], FORMATS[name]), np.diff(positive))


def test_every_float16_pattern_agrees_with_numpy():
    values = numbers("float16")
    magnitudes = values[(values >= 0) & (values < values[-1])]
    expected = np.spacing(magnitudes.astype(np.float16)).astype(np.float64)
    np.testing.assert_array_equal(ulp(magnitudes, FORMATS["float16"]), expected)
    np.testing.assert_array_equal(ulp(-magnitudes, FORMATS["float16"]), expected)


def test_every_bfloat16_pattern_agrees_with_ml_dtypes():
    positive = numbers("bfloat16")
    positive = positive[(positive > 0) & (positive < positive[-1])]
    expected = np.spacing(positive.astype(ml_dtypes.bfloat16)).astype(np.float64)
    np.testing.assert_array_equal(ulp(positive, FORMATS["bfloat16"]), expected)


@given(st.floats(allow_nan=False, allow_infinity=False, max_value=1.7e308, min_value=-1.7e308))
def test_float64_agrees_with_numpy(value):
    assert ulp(np.array([value]), FORMATS["float64"])[0] == abs(np.spacing(np.array([value]))[0])


def test_float64_has_no_overflow_and_keeps_subnormals():
    values = np.array([0.0, 5e-324, 2.0**-1022, FORMATS["float64"].largest, np.inf, -np.inf])
    expected = [2.0**-1074, 2.0**-1074, 2.0**-1074, 2.0**971, 2.0**971, 2.0**971]
    np.testing.assert_array_equal(ulp(values, FORMATS["float64"]), expected)


@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_beyond_the_largest_binade_the_spacing_stays(name):
    format = FORMATS[name]
    spacings = ulp(np.array([format.largest, 1e300, -np.inf]), format)
    assert set(spacings) == {2.0 ** (format.max_exponent - format.precision + 1)}


def test_nan_has_no_spacing():
    assert np.isnan(ulp(np.array([np.nan]), FORMATS["float16"])[0])


def test_longdouble_values_keep_their_dtype():
    values = np.array([0, 1, 1.5, np.finfo(np.longdouble).max, np.finfo(np.longdouble).tiny], np.longdouble)
    spacings = ulp(values, format_of("longdouble"))
    assert spacings.dtype == np.longdouble
    np.testing.assert_array_equal(spacings[1:-2], np.spacing(values[1:-2]))
    assert spacings[0] == np.finfo(np.longdouble).smallest_subnormal == spacings[-1]
    assert np.isfinite(spacings[-2])
    assert ulp(values[1:2], FORMATS["float32"])[0] == 2.0**-23
