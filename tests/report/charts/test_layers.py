"""The drawing of errors over the order of execution: every point at its place, absence is not 0, and names are text."""

import re
from itertools import pairwise
from math import log10
from xml.etree import ElementTree

import pytest

from precreg.report.charts.layers import (
    LAYERS_BOX,
    MAX_LAYER_COLUMNS,
    MAX_LAYER_MARKS,
    LayerError,
    describe_layer_errors,
    draw_layer_errors,
)


def point(name, error, *, allowed=1e-3, benchmark=None, fails=False):
    return LayerError(name, error, allowed, benchmark, fails, "reason")


def drawn(points):
    return ElementTree.fromstring(draw_layer_errors(points))


def lines(picture, class_):
    """Return the polylines of a class as lists of coordinates."""
    found = [each for each in picture.iter("polyline") if each.get("class") == class_]
    return [[tuple(map(float, pair.split(","))) for pair in each.get("points").split()] for each in found]


def test_errors_are_in_order_on_a_logarithmic_axis():
    errors = (1e-6, 1e-5, 1e-4, 1e-3)
    (line,) = lines(drawn([point(f"l.{place}", error) for place, error in enumerate(errors)]), "layer-error")
    places, heights = zip(*line, strict=True)
    steps = [right - left for left, right in pairwise(places)]
    assert steps == pytest.approx([(LAYERS_BOX.east - LAYERS_BOX.left) / 4] * 3, abs=0.2)
    # Equal factors are equal distances, and larger errors are higher.
    rises = [lower - upper for lower, upper in pairwise(heights)]
    assert rises == pytest.approx([rises[0]] * 3, abs=0.2)
    assert rises[0] > 0


def test_the_tolerance_of_each_point_is_a_line_of_its_own():
    points = [point(f"l.{place}", 1e-5, allowed=10.0**-place) for place in (2, 3, 4)]
    (line,) = lines(drawn(points), "layer-allowed")
    assert [y for _, y in line] == sorted(y for _, y in line)
    assert lines(drawn([point("a", 1.0, allowed=None), point("b", 2.0, allowed=None)]), "layer-allowed") == []


def test_a_point_without_a_figure_is_a_gap():
    points = [point("a", 1e-3), point("b", 2e-3), point("c", None), point("d", 1e-3), point("e", 2e-3)]
    assert [len(line) for line in lines(drawn(points), "layer-error")] == [2, 2]


def test_failures_are_marked_and_absent_values_are_hollow():
    points = [point("a", 1e-3), point("b", None, fails=True), point("c", 1e-1, fails=True)]
    picture = drawn(points)
    marks = {each.get("class"): each for each in picture.iter("circle")}
    assert marks["layer-absent"].find("title").text == "b: reason, no figure"
    assert float(marks["layer-fails"].get("cy")) < float(marks["layer-absent"].get("cy"))
    assert "first failing: b" in [each.text for each in picture.iter("text")]


def test_ten_thousand_points_keep_their_largest_errors():
    points = [point(f"l.{place}", 1e-2 if place == 7003 else 1e-5, fails=place % 20 == 0) for place in range(10_000)]
    text = draw_layer_errors(points)
    (line,) = lines(ElementTree.fromstring(text), "layer-error")
    assert len(line) == MAX_LAYER_COLUMNS
    highest = min(line, key=lambda each: each[1])
    share = (highest[0] - LAYERS_BOX.left) / (LAYERS_BOX.east - LAYERS_BOX.left)
    assert share * 10_000 == pytest.approx(7003.5, abs=2)
    assert len(re.findall('class="layer-fails"', text)) == MAX_LAYER_MARKS
    assert f"the first {MAX_LAYER_MARKS} of 500 failures are marked" in text
    assert len(text) < 200_000


def test_a_name_is_text_and_no_markup():
    text = draw_layer_errors([point("<script>alert(1)</script>", 1.0, fails=True), point("b", 2.0)])
    assert "<script" not in text
    ElementTree.fromstring(text)


def test_the_sentence_has_the_first_and_the_largest_error():
    points = [point("a", 1e-6), point("b", 2e-3, fails=True), point("c", 1e-5)]
    said = describe_layer_errors(points)
    assert said == "mean |a-r| / mean |r| of 3 pairs in order: 1e-06 at first, at most 0.002 at b; 1 fail"
    assert describe_layer_errors([point("a", None)]) == "no pair of 1 has an error in this unit; 0 fail"


@pytest.mark.parametrize("errors", [(), (0.0, 0.0), (5e-324, 1.7e308), (None, None)])
def test_any_errors_can_be_drawn(errors):
    points = [point(f"l.{place}", error) for place, error in enumerate(errors)]
    picture = drawn(points)
    for line in lines(picture, "layer-error"):
        assert all(LAYERS_BOX.top <= y <= LAYERS_BOX.south for _, y in line)
    assert all(log10(error) < 309 for error in errors if error)
