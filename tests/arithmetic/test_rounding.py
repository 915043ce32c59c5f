import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic import rounding as forms
from precreg.arithmetic.exact import exact_round
from precreg.arithmetic.formats import FORMATS, Rounding, format_of, numpy_dtype
from precreg.arithmetic.rounding import cast, round_to
from precreg.errors import UserError
from tests.arithmetic.patterns import SMALL_FORMATS, hard_values, numbers


def round_each(values, format):
    """Run the scalar twin over an array."""
    return np.array([exact_round(float(value), format) for value in values])


BOTH = pytest.mark.parametrize("rounding", [round_to, round_each])


def assert_same(actual, expected):
    """Equal numbers with equal signs, zeros included; NaN equals NaN."""
    np.testing.assert_array_equal(actual, expected)
    defined = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual)[defined], np.signbit(expected)[defined])


def every(values, name, rounding):
    """Thin out 64 thousand patterns for the scalar twin, which takes microseconds a number."""
    return values[::31] if rounding is round_each and numpy_dtype(name).itemsize > 1 else values


@BOTH
@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_numbers_of_the_format_stay(name, rounding):
    values = every(numbers(name), name, rounding)
    assert_same(rounding(values, FORMATS[name]), values)


@BOTH
@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_nothing_of_the_format_is_nearer_and_ties_go_to_even(name, rounding):
    known = numbers(name)
    values = every(hard_values(name), name, rounding)
    values = values[np.abs(values) <= known[-1]]
    above = np.clip(np.searchsorted(known, values), 1, len(known) - 1)
    low, high = known[above - 1], known[above]
    nearest = np.where(values - low < high - values, low, high)
    smallest = FORMATS[name].smallest_subnormal
    spacing = np.maximum(high - low, smallest)
    tie = (values - low == high - values) & (values - low != 0)
    even = np.where(np.rint(low / spacing) % 2 == 0, low, high)
    np.testing.assert_array_equal(rounding(values, FORMATS[name]), np.where(tie, even, nearest))


@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_the_two_ways_agree_where_rounding_is_hard(name):
    values = every(hard_values(name), name, round_each)
    assert_same(round_to(values, FORMATS[name]), round_each(values, FORMATS[name]))


@BOTH
@pytest.mark.parametrize("name", ["float16", "float32"])
def test_numpy_casts_agree(name, rounding):
    values = every(hard_values("float16"), "float16", rounding)
    if name == "float32":
        values = values[np.abs(values) < 1e300]
        values = np.concatenate([values * 2.0**-24, values * (1 + 2.0**-24), values * 2.0**112])
    with np.errstate(over="ignore"):
        expected = values.astype(name).astype(np.float64)
    assert_same(rounding(values, FORMATS[name]), expected)


@BOTH
@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_beyond_the_largest_number_ml_dtypes_agrees(name, rounding):
    largest, spacing = numbers(name)[-1], np.diff(numbers(name))[-1]
    values = largest + spacing * np.array([0.25, 0.5, 0.75, 1.0, 2.0])
    values = np.concatenate([values, -values, [np.inf, -np.inf]])
    with np.errstate(over="ignore"):
        expected = values.astype(np.float32).astype(numpy_dtype(name)).astype(np.float64)
    assert_same(rounding(values, FORMATS[name]), expected)


@given(st.floats(width=64), st.sampled_from(["float32", *SMALL_FORMATS]))
def test_the_two_ways_agree_on_any_number(value, name):
    assert_same(round_to(np.array([value]), FORMATS[name]), round_each([value], FORMATS[name]))


def test_longdouble_is_rounded_once():
    values = np.array([1, -1], np.longdouble) + np.ldexp(np.array([1, -1], np.longdouble), -8)
    above_the_tie = values + np.ldexp(np.array([1, -1], np.longdouble), -60)
    rounded = round_to(above_the_tie, FORMATS["bfloat16"])
    assert rounded.dtype == np.longdouble
    if format_of("longdouble").precision > 61:
        assert_same(rounded.astype(np.float64), np.array([1 + 2.0**-7, -1 - 2.0**-7]))


def test_a_format_as_wide_as_the_values_changes_nothing():
    values = np.array([1 / 3, -0.0, np.nan])
    assert_same(round_to(values, FORMATS["float64"]), values)


@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_cast_holds_the_rounded_numbers(name):
    values = hard_values(name)
    array = cast(values, name)
    assert array.dtype == numpy_dtype(name)
    expected = round_to(values, FORMATS[name])
    if FORMATS[name].overflow == FORMATS[name].largest:
        expected[np.isnan(expected)] = -0.0
    assert_same(array.astype(np.float64), expected)


def test_cast_rounds_once_where_ml_dtypes_rounds_twice():
    value = np.array([1 + 2.0**-8 + 2.0**-40])
    assert float(value.astype(ml_dtypes.bfloat16)[0]) == 1.0
    assert float(cast(value, "bfloat16")[0]) == 1 + 2.0**-7


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "longdouble", "complex64", "complex128"])
def test_cast_keeps_shapes_and_overflows_silently(name):
    assert cast(np.float64(1e300) * np.ones((2, 3)), name).shape == (2, 3)
    assert cast(np.array(0.1), name).shape == ()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("rounding", list(Rounding))
def test_narrow_arrays_are_rounded_as_their_numbers_in_float64(dtype, rounding):
    values = numbers(np.dtype(dtype).name).astype(dtype)[::3]
    rounded = round_to(values, FORMATS["float8_e4m3fn"], rounding, seed=3)
    assert rounded.dtype == dtype
    expected = round_to(values.astype(np.float64), FORMATS["float8_e4m3fn"], rounding, seed=3)
    assert_same(rounded.astype(np.float64), expected)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool, complex, object, str])
def test_arrays_that_hold_no_floats_are_refused(dtype):
    with pytest.raises(UserError, match="expected an array of a floating dtype but got dtype=") as caught:
        round_to(np.ones(2, dtype), FORMATS["float16"])
    assert caught.value.slug == "bad-value"


@pytest.mark.parametrize("form", ["numpy", forms.FASTEST_BACKEND])
def test_a_rounding_may_be_named(form, monkeypatch):
    monkeypatch.setenv("PRECREG_FORM", form)
    assert float(round_to(np.array(1 + 2.0**-20), FORMATS["bfloat16"], "up")) == 1 + 2.0**-7
    with pytest.raises(UserError, match='did you mean "up"') as caught:
        round_to(np.ones(2), FORMATS["bfloat16"], "upp")
    assert caught.value.slug == "unknown-rounding"
