"""The fits of benchmarks/scaling.py: a known line and a known bend are found, with noise too."""

from math import hypot, log2
from random import Random
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest

from benchmarks.scaling import ELEMENTS, Curve, describe, draw, end_of_linear, fit, near_pair

SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


def line(n):
    return 0.5 + 0.0003 * n


def bent(n):
    return line(n) + 0.0002 * n * log2(n)


@pytest.mark.parametrize("size", ELEMENTS[:-2])
def test_arrays_of_each_size_differ_nearly_everywhere_by_errors_of_several_sizes(size):
    actual, exact = near_pair(size)
    ulps = np.abs(actual.astype(np.float64) - exact) / np.spacing(np.abs(exact))
    assert (ulps > 0).mean() > 0.8
    assert len(np.unique(np.round(ulps))) > 5


def test_a_line_is_found_with_its_constant_and_its_cost_of_one_more():
    found = fit({n: line(n) for n in SIZES})
    assert (found.constant, found.each, found.of_logarithm) == (pytest.approx(0.5), pytest.approx(0.0003), 0)
    assert max(map(abs, found.residuals)) < 1e-9
    assert found.at(10**6) == pytest.approx(300.5)
    assert end_of_linear({n: line(n) for n in SIZES}) is None


def test_a_logarithm_is_found_where_the_line_leaves_residuals():
    points = {n: bent(n) for n in SIZES}
    found = fit(points, logarithm=True)
    factors = (found.constant, found.each, found.of_logarithm)
    assert factors == (pytest.approx(0.5, rel=1e-6), pytest.approx(0.0003, rel=1e-6), pytest.approx(0.0002, rel=1e-6))
    assert found.at(10**6) == pytest.approx(bent(10**6), rel=1e-6)
    assert max(map(abs, fit(points).residuals)) > 0.02


@pytest.mark.parametrize("factor", [0.5, 1.5, 3.0])
@pytest.mark.parametrize("bend", SIZES[3:])
def test_the_first_size_away_from_the_line_ends_the_linear_range(bend, factor):
    points = {n: line(n) * (factor if n >= bend else 1) for n in SIZES}
    assert end_of_linear(points) == bend


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_a_few_percent_is_no_bend(seed):
    draw = Random(seed)
    points = {n: line(n) * (1 + draw.uniform(-0.03, 0.03)) for n in SIZES}
    assert end_of_linear(points) is None
    assert fit(points).each == pytest.approx(0.0003, rel=0.05)


def test_a_line_is_extrapolated_and_a_bend_is_not():
    straight = list(describe(Curve("cases", "s", {n: line(n) for n in SIZES})))
    assert straight[-1] == "linear within 20 %; extrapolated, not measured: 300.5 at 1,000,000"
    curve = Curve("cases", "s", {n: line(n) * (2 if n == SIZES[-1] else 1) for n in SIZES})
    assert [*describe(curve)][-1] == "leaves the line of the smaller sizes by over 20 % at 100,000: not extrapolated"


def test_two_sizes_are_printed_without_a_fit():
    lines = list(describe(Curve("jobs", "s", {1: 2.0, 2: 1.25})))
    assert [one.split() for one in lines] == [["jobs,", "in", "s"], ["1", "2"], ["2", "1.25"]]


def test_a_chart_has_each_point_and_a_line_through_the_points_of_a_line():
    drawn = fromstring(draw(Curve("cases <n>", "s", {n: line(n) for n in SIZES})))
    of_svg = "{http://www.w3.org/2000/svg}"
    dots = [(float(each.get("cx")), float(each.get("cy"))) for each in drawn.iter(f"{of_svg}circle")]
    course = [tuple(map(float, each.split(","))) for each in drawn.find(f"{of_svg}polyline").get("points").split()]
    assert len(dots) == len(SIZES)
    for dot in dots:
        assert min(hypot(dot[0] - x, dot[1] - y) for x, y in course) < 4
    assert "cases <n>, in s" in [each.text for each in drawn.iter(f"{of_svg}text")]
