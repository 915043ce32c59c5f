"""Numbers for people, against Python's own float."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.types.metric import format_distinct, format_duration, format_number

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.024, "0.024"),
        (1e-7, "1e-07"),
        (5e-324, "4.941e-324"),
        (1e308, "1e+308"),
        (0.0, "0"),
        (12345.0, "12345"),
        (123456.7, "123457"),
        (9999.7, "9999.7"),
        (65504.0, "65504"),
        (1e6, "1e+06"),
        (-0.05875, "-0.05875"),
    ],
)
def test_a_figure_is_short(value, text):
    assert format_number(value) == text


@given(st.floats(-1e308, 1e308))
def test_a_figure_is_within_half_a_unit_of_its_fourth_digit(value):
    assert abs(float(format_number(value)) - value) <= 5.001e-4 * abs(value) + 5e-324


@given(finite)
def test_only_zero_is_written_as_zero(value):
    assert (float(format_number(value)) == 0) == (value == 0)


@given(st.lists(st.none() | finite, max_size=4))
def test_different_numbers_never_look_alike(values):
    texts = format_distinct(values)
    for value, text in zip(values, texts, strict=True):
        for other, other_text in zip(values, texts, strict=True):
            assert (text == other_text) == (value == other) or value == other == 0


def test_digits_are_added_to_all_that_are_compared_until_they_differ():
    assert format_distinct([0.999931, 1.0]) == ["0.9999", "1"]
    assert format_distinct([0.999931, 0.999934]) == ["0.999931", "0.999934"]
    assert format_distinct([1.0, 1.0 + 2**-52]) == ["1", "1.0000000000000002"]
    assert format_distinct([None, 0.5]) == ["", "0.5"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.31, "0.31 s"),
        (0, "0 s"),
        (0.0004, "0.4 ms"),
        (2.5e-5, "25 µs"),
        (119.6, "120 s"),
        (45.67, "45.7 s"),
        (3725, "62 min 5 s"),
    ],
)
def test_a_duration_has_the_unit_that_suits_it(seconds, text):
    assert format_duration(seconds) == text
