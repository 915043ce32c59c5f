"""The charts as SVG: what is measured stands in them, at its place, whatever its size."""

import re
import sys
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from precreg.measure.comparison import compare_arrays
from precreg.measure.heatmap import HeatMap, heat_map
from precreg.report.charts import errors
from precreg.report.charts import errors as bars
from precreg.report.charts import errors as cumulative
from precreg.report.charts import errors as histogram
from precreg.report.charts import figures as heat
from precreg.report.charts.figures import Strip, draw_figures, error_strips
from precreg.report.charts.svg import number_of_log10
from precreg.types.outcome import Histogram


def measured(actual, reference):
    return compare_arrays(actual, reference, rtol=1e-3, atol=1e-5)


def parsed(svg):
    return ElementTree.fromstring(svg)


def of_class(svg, name):
    return [one for one in parsed(svg).iter() if one.get("class") == name]


def number(one, attribute):
    return float(one.get(attribute))


def said(one):
    return one.find("title").text


EXTREME = st.sampled_from([0.0, -0.0, 5e-324, 1e-310, 1e-20, 1.0, 1.5, 3e5, 1e300, sys.float_info.max, np.nan, np.inf])


@settings(deadline=None, max_examples=60)
@given(
    arrays(np.float64, st.sampled_from([(), (1,), (7,), (3, 5), (2, 3, 4)]), elements=EXTREME | st.floats(width=64)),
    st.integers(0, 2**32),
)
def test_whatever_is_measured_every_chart_is_whole_and_inside_its_box(reference, seed):
    factors = np.random.default_rng(seed).choice([1.0, 0.999, 0.5, np.nan], reference.shape)
    with np.errstate(all="ignore"):
        actual = factors * reference
    comparison = measured(actual, reference)
    drawn = [*draw_figures(comparison, heat_map(actual, reference)), *draw_figures(comparison)]
    assert drawn[0].name in ("histogram", "map")
    for one in drawn:
        tree = parsed(one.svg)
        _, _, width, height = map(float, tree.get("viewBox").split())
        assert tree.get("role") == "img"
        assert tree.get("aria-label")
        for part in tree.iter():
            for name, limit in (
                ("x", width),
                ("x1", width),
                ("x2", width),
                ("y", height),
                ("y1", height),
                ("cx", width),
            ):
                if part.get(name) is not None:
                    assert 0 <= number(part, name) <= limit, (one.name, part.attrib)
            for name in ("width", "height"):
                if part.get(name) is not None:
                    assert number(part, name) >= 0


def test_a_histogram_has_a_bar_for_each_bin_and_zeros_apart():
    svg = histogram.draw_histogram(Histogram(50, [4092, 4096, 4099], [1000, 10, 1]))
    counted = of_class(svg, "bar-now")
    assert [said(one).partition(": ")[2] for one in counted] == [
        "1,000 of 1,061 elements, 94.3 %",
        "10 of 1,061 elements, 0.943 %",
        "1 of 1,061 elements, 0.0943 %",
    ]
    heights = [number(one, "height") for one in counted]
    assert heights[0] - heights[1] == pytest.approx(2 * (heights[1] - heights[2]), abs=0.1), "the axis is logarithmic"
    assert heights[2] > 5, "one element is seen"
    (zeros,) = of_class(svg, "bar-zero")
    assert said(zeros).startswith("error 0: 50 of")
    assert number(zeros, "x") + number(zeros, "width") < min(number(one, "x") for one in counted)


def test_the_ends_of_a_bin_are_those_of_its_float64():
    (bar,) = errors.error_bins(Histogram(0, [4092], [7]))
    assert 10**bar.low == pytest.approx(1.0)
    assert 10**bar.high == pytest.approx(1.25)
    assert number_of_log10(errors.bin_edge(8188)) == sys.float_info.max
    assert errors.bin_edge(0) == pytest.approx(np.log10(5e-324))


def test_many_bins_become_fewer_bars_with_the_same_elements():
    wide = Histogram(0, list(range(8188)), [2] * 8188)
    found = errors.error_bins(wide)
    assert len(found) <= errors.MAX_BARS
    assert sum(bar.elements for bar in found) == 2 * 8188
    assert all(left.high == right.low for left, right in pairwise(found))


def test_the_curve_rises_from_the_share_of_zeros_to_all():
    found = errors.error_bins(Histogram(0, [4092, 4100], [3, 5]))
    corners = cumulative.cumulative_corners(found, 2)
    assert [share for _, share in corners] == [0.2, 0.5, 0.5, 1.0]
    assert corners[1][0] == found[0].high
    svg = cumulative.draw_cumulative(Histogram(2, [4092, 4100], [3, 5]), {"p50_abs_error": 1.25, "p99_abs_error": 4.0})
    assert len(of_class(svg, "dot")) == 2
    assert len(of_class(svg, "line-zero")) == 1
    texts = [one.text for one in parsed(svg).iter() if one.tag == "text"]
    assert {"P50 1.25", "P99 4"} <= set(texts)


def test_the_four_figures_are_bars_as_long_as_their_logarithms():
    metrics = {"max_abs_error": 0.1, "mean_abs_error": 1e-3, "max_rel_error": 0.0}
    svg = bars.draw_bars(metrics)
    longest, shorter = of_class(svg, "bar-now")
    assert [said(longest), said(shorter)] == ["max_abs_error 0.1", "mean_abs_error 0.001"]
    decade = number(shorter, "width")
    assert number(longest, "width") == pytest.approx(3 * decade, rel=1e-3)
    assert not of_class(svg, "bar-then")
    texts = [one.text for one in parsed(svg).iter() if one.tag == "text"]
    assert texts.count("0") == 1
    assert "not defined" in texts


def test_a_strip_for_each_axis_in_common_colours():
    strips = [Strip(0, 2, [1e-3, 1e-5]), Strip(1, 96, [1e-4, 0.0, None])]
    svg = heat.draw_strips(strips)
    cells = [one for one in of_class(svg, "heat") if one.find("title") is not None]
    assert [(said(one), number(one, "fill-opacity")) for one in cells] == [
        ("axis 0, index 0: mean |actual − reference| 0.001", 1.0),
        ("axis 0, index 1: mean |actual − reference| 1e-05", 0.1),
        ("axis 1, index 0 to 31: mean |actual − reference| 0.0001", 0.55),
    ]
    zero = [one for one in of_class(svg, "heat-ground") if one.find("title") is not None]
    assert [said(one) for one in zero] == ["axis 1, index 32 to 63: mean |actual − reference| 0"]
    assert said(of_class(svg, "heat-none")[0]) == "axis 1, index 64 to 95: no finite pair"
    assert (
        parsed(svg).get("aria-label").startswith("mean absolute error along each axis: axis 0 has the largest, 0.001")
    )


def test_a_map_names_the_place_of_each_cell_and_crosses_out_mismatches():
    shown = HeatMap((9, 4, 130), [[1e-3, 0.0], [None, 1e-4]], [[0, 0], [3, 0]])
    svg = heat.draw_map(shown)
    (cross,) = of_class(svg, "cross")
    assert said(cross) == "[..., 2:4, 0:65] no finite pair; 3 NaN or infinity on one side"
    assert [said(one) for one in of_class(svg, "heat") if one.find("title") is not None] == [
        "[..., 0:2, 0:65] 0.001",
        "[..., 2:4, 65:130] 0.0001",
    ]
    assert parsed(svg).get("aria-label") == (
        "heat map of the mean absolute error: the largest, 0.001, at [..., 0:2, 0:65]; "
        "3 elements are NaN or infinite on one side"
    )
    assert {"axis 2", "axis 1", "129", "3"} <= {one.text for one in parsed(svg).iter() if one.tag == "text"}


def test_charts_are_the_same_bytes_each_time():
    reference = np.random.default_rng(3).standard_normal((20, 30))
    comparison = measured(reference.astype(np.float32), reference)
    assert draw_figures(comparison) == draw_figures(comparison)


def test_no_chart_names_a_colour_that_dark_pages_could_not_change():
    reference = np.random.default_rng(3).standard_normal((20, 30))
    drawn = draw_figures(measured(reference.astype(np.float16), reference), heat_map(reference, reference))
    assert not [one.name for one in drawn if re.search(r"(fill|stroke|style)=", one.svg)]


def test_a_map_of_one_axis_is_a_strip():
    tree = parsed(heat.draw_map(HeatMap((100,), [[1e-3, 0.0]], [[0, 0]])))
    assert "[0:50] 0.001" in [one.text for one in tree.iter("title")]
    single = parsed(heat.draw_map(HeatMap((), [[1e-3]], [[0]])))
    assert "[] 0.001" in [one.text for one in single.iter("title")]


def test_strips_are_the_groups_of_a_comparison():
    reference = np.random.default_rng(5).standard_normal((40, 1, 6))
    actual = reference.copy()
    actual[20:25, :, 2] += 0.5
    actual[:, :, 4] = np.nan
    rows, columns = error_strips(measured(actual, reference))
    assert (rows.axis, rows.length, columns.axis, columns.length) == (0, 40, 2, 6)
    expected = [0.5 * 5 / 40 if column == 2 else 0.0 for column in range(6)]
    assert columns.means == [None if column == 4 else pytest.approx(expected[column]) for column in range(6)]
    starts = [group * 40 // 16 for group in range(17)]
    wrong = [sum(20 <= row < 25 for row in range(*ends)) / (ends[1] - ends[0]) for ends in pairwise(starts)]
    assert rows.means == [pytest.approx(share * 0.5 / 5) for share in wrong]


def test_a_sum_beyond_float64_is_drawn_as_the_largest_error():
    large = np.full((2, 3), 1.7e308)
    (first, _) = error_strips(measured(large, -large))
    assert first.means == [sys.float_info.max] * 2
    assert parsed(heat.draw_strips([first])).tag == "svg"


@pytest.mark.parametrize("array", [np.float64(1), np.ones(1), np.ones((1, 1)), np.full((2, 3), np.nan)])
def test_without_axes_or_finite_pairs_there_is_no_strip(array):
    assert error_strips(measured(array, array)) == []
