"""Logarithmic scales: ticks that can be read anywhere, places inside the drawing, colours that order values."""

import sys
from math import log10

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.report.charts.svg import FAINTEST, MAX_COLOURED_DECADES, MAX_LABELS, LogScale, colour_scale, log_range

LOGARITHMS = st.floats(-324, 309)


@given(LOGARITHMS, st.floats(1, 633))
def test_ticks_are_few_ordered_and_say_where_they_stand(low, width):
    scale = LogScale(low, low + width, 10.0, 400.0)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= MAX_LABELS + 1
    assert [tick.at for tick in ticks] == sorted({tick.at for tick in ticks})
    for tick in ticks:
        assert low <= tick.at <= low + width
        mantissa, _, exponent = tick.text.partition("e")
        assert log10(float(mantissa)) + float(exponent or 0) == pytest.approx(tick.at, abs=1e-9)


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (-3, 1, ["0.001", "0.01", "0.1", "1", "10"]),
        (-1.2, 0.1, ["0.1", "0.2", "0.5", "1"]),
        (-12, 4, ["1e-12", "1e-9", "1e-6", "0.001", "1", "1000"]),
        (-6.5, -5.1, ["5e-7", "1e-6", "2e-6", "5e-6"]),
    ],
)
def test_ticks_as_a_person_would_write_them(low, high, texts):
    assert [tick.text for tick in LogScale(low, high, 0.0, 1.0).ticks()] == texts


def test_a_place_beyond_the_ends_is_the_nearer_end():
    scale = LogScale(-2.0, 2.0, 100.0, 300.0)
    assert [scale.at(log) for log in (-5, -2, 0, 2, 5)] == [100, 100, 200, 300, 300]


def test_a_range_is_wide_enough_to_be_read():
    assert log_range([-3.0, 4.0]) == (-3.0, 4.0)
    assert log_range([0.25]) == (-0.25, 0.75)


@given(st.lists(st.floats(0, sys.float_info.max), min_size=1))
def test_colours_grow_with_the_value_and_zero_has_none(values):
    scale = colour_scale(values)
    if scale is None:
        assert max(values) == 0
        return
    assert 1 - 1e-9 <= scale.high - scale.low <= MAX_COLOURED_DECADES + 1e-9
    strengths = [scale.strength(value) for value in sorted(values)]
    assert strengths == sorted(strengths)
    assert scale.strength(max(values)) == 1.0
    assert all((strength == 0) == (value == 0) for value, strength in zip(sorted(values), strengths, strict=True))
    assert all(strength >= FAINTEST for strength in strengths if strength)
