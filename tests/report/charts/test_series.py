"""Lines over steps and scales: each value has its place, gaps interrupt, and no label becomes markup."""

import re

import pytest

from precreg.report.charts.series import (
    SeriesBand,
    SeriesLine,
    SeriesMark,
    SeriesPlot,
    SeriesPoint,
    describe_series,
    draw_series,
)


def line(*values, name="loss"):
    return SeriesLine(name, [SeriesPoint(step, value) for step, value in enumerate(values)])


def plot(*lines, **settings):
    return SeriesPlot(lines, "step", "loss", **settings)


def polylines(drawn):
    found = re.findall(r'<polyline [^>]*points="([^"]*)"', drawn)
    return [[tuple(map(float, pair.split(","))) for pair in each.split()] for each in found]


def test_a_line_falls_where_its_values_fall():
    ((first, second, third),) = polylines(draw_series(plot(line(3.0, 2.0, 1.0))))
    assert first[0] < second[0] < third[0]
    assert first[1] < second[1] < third[1]  # y grows downward
    assert second[1] - first[1] == pytest.approx(third[1] - second[1], abs=0.2)


def test_equal_ratios_are_equal_distances_on_a_logarithmic_axis():
    ((first, second, third),) = polylines(draw_series(plot(line(100.0, 10.0, 1.0), is_log=True)))
    assert second[1] - first[1] == pytest.approx(third[1] - second[1], abs=0.2)


def test_zero_is_below_all_on_a_logarithmic_axis():
    drawn = draw_series(plot(line(0.5, 1e-30, 0.0), is_log=True))
    ((_, small, zero),) = polylines(drawn)
    assert zero[1] > small[1]
    assert ">0</text>" in drawn


def test_a_missing_value_interrupts_the_line():
    assert [len(each) for each in polylines(draw_series(plot(line(1.0, 2.0, None, 3.0, float("nan"), 1.0))))] == [
        2,
        2,
        2,
    ]


def test_marks_and_bands_are_drawn_with_tooltips():
    drawn = draw_series(
        plot(line(1.0, 2.0), marks=[SeriesMark(1, "step 1 was skipped")], bands=[SeriesBand(0, 1, "fit")])
    )
    assert 'class="skip"' in drawn
    assert "<title>step 1 was skipped</title>" in drawn
    assert "<title>fit</title>" in drawn


def test_powers_of_two_have_whole_exponents():
    texts = re.findall(r">(2\^[^<]*)</text>", draw_series(plot(line(13.0, 14.0, 13.5), upward_prefix="2^")))
    assert set(texts) == {"2^13", "2^14"}


@pytest.mark.parametrize("values", [(), (None,), (5.0,), (0.0, 0.0), (float("inf"), 1.0), (1e300, -1e300)])
def test_few_and_strange_values_are_drawn(values):
    for is_log in (False, True):
        drawn = draw_series(plot(line(*values), is_log=is_log))
        assert "nan" not in re.sub(r"<title>.*?</title>", "", drawn)


def test_a_long_line_is_thinned_and_keeps_its_ends():
    ((*points,),) = polylines(draw_series(plot(line(*(float(each) for each in range(10_000))))))
    assert len(points) == 700
    assert points[-1][1] < points[0][1]


def test_names_are_no_markup():
    drawn = draw_series(plot(line(1.0, name="<script>"), bands=[SeriesBand(0, 1, "<b>")], marks=[SeriesMark(0, "<i>")]))
    assert not re.search("<(script|b|i)>", drawn)


def test_the_description_has_the_ends():
    assert describe_series(plot(line(3.0, 1.0), prefix="2^")) == "loss by step: loss: 3 at 2^0 to 1 at 2^1"
    assert describe_series(plot()) == "loss by step: no value is known"
