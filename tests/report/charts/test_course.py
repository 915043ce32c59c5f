"""The course of errors and heat maps of names as SVG: places, colours, joined columns, and their descriptions."""

import re
from math import inf, nan
from xml.etree import ElementTree

import pytest

from precreg.report.charts.course import (
    COURSE_BOX,
    MAX_COURSE_COLUMNS,
    Course,
    CoursePoint,
    Curve,
    describe_course,
    draw_course,
)
from precreg.report.charts.name_map import (
    MAX_MAP_COLUMNS,
    MAX_MAP_ROWS,
    NameMap,
    describe_name_map,
    draw_name_map,
)


def points(*errors):
    return [CoursePoint(number, own, total, f"{number} add") for number, (own, total) in enumerate(errors, 1)]


def drawn(course):
    return ElementTree.fromstring(draw_course(course))


def circles(root, kind):
    return [each for each in root.iter("circle") if kind in each.get("class").split()]


def test_larger_errors_are_higher_and_later_operations_further_right():
    found = points((1e-4, 1e-4), (1e-2, 1e-2), (1e-3, 1e-2))
    root = drawn(Course(found, [Curve("", [found])]))
    dots = circles(root, "own")
    heights, places = [float(dot.get("cy")) for dot in dots], [float(dot.get("cx")) for dot in dots]
    assert heights[1] < heights[2] < heights[0]
    assert places == sorted(places)
    (line,) = root.iter("polyline")
    assert len(line.get("points").split()) == 3


def test_zero_and_infinite_errors_have_rows_apart():
    root = drawn(Course(points((0.0, 0.0), (1e-3, 1e-3), (inf, inf)), []))
    zero, finite = circles(root, "own")
    (infinite,) = [each for each in root.iter("rect")]
    assert float(zero.get("cy")) > float(finite.get("cy")) > float(infinite.get("y"))
    texts = [each.text for each in root.iter("text")]
    assert {"0", "inf"} <= set(texts)


def test_many_operations_share_columns_and_the_largest_error_stays():
    errors = [(1e-4, 1e-4)] * 10_000
    errors[6_000] = (0.5, 1e-4)
    found = points(*errors)
    root = drawn(Course(found, [Curve("", [found])], loss=found[6_000]))
    assert len(circles(root, "own")) <= MAX_COURSE_COLUMNS + 1
    (loss,) = circles(root, "loss")
    assert loss.find("title").text == "6001 add: own 0.5, total 0.0001"


def test_everything_lies_inside_the_drawing():
    found = points((1e-300, 1e-310), (inf, 1e300), (0.0, 5e-324))
    root = drawn(Course(found, [Curve("", [found])], [(2, "backward")], found[1], [("1 ULP", 1e-3)]))
    for dot in root.iter("circle"):
        assert 0 <= float(dot.get("cx")) <= COURSE_BOX.width
        assert 0 <= float(dot.get("cy")) <= COURSE_BOX.height


def test_a_course_without_known_errors_is_described_as_such():
    assert describe_course(Course(points((None, None)), [])) == "error over 1 operations: no own error is known"
    assert "<svg" in draw_course(Course(points((None, None)), []))
    assert "<svg" in draw_course(Course([], []))
    found = points((1e-4, 1e-4), (0.25, None))
    assert describe_course(Course(found, [], loss=found[1])) == (
        "error over 2 operations; largest own error 0.25 at 2 add; first loss at 2 add"
    )


LAYERS = NameMap(["a", "b", "c"], ["own", "total"], [[1e-3, 0.0], [1e-1, None], [1e-2, inf]], "layers by metric")


def cells(found):
    root = ElementTree.fromstring(draw_name_map(found))
    return {each.find("title").text: each for each in root.iter("rect") if each.find("title") is not None}


def test_larger_values_are_stronger_and_special_ones_have_kinds_of_their_own():
    found = cells(LAYERS)
    strength = {name: float(cell.get("fill-opacity")) for name, cell in found.items() if cell.get("class") == "heat"}
    assert strength["b, own: 0.1"] > strength["c, own: 0.01"] > strength["a, own: 0.001"]
    assert found["a, total: 0"].get("class") == "heat-ground"
    assert found["b, total: not known"].get("class") == "heat-none"
    assert found["c, total: inf"].get("class") == "heat-infinite"


def test_columns_with_scales_of_their_own_have_colours_of_their_own():
    found = NameMap(["a", "b"], ["error", "share"], [[1e-6, 0.9], [1e-5, 0.1]], "layers", own_scales=True)
    drawn_cells = cells(found)
    assert drawn_cells["b, error: 1e-05"].get("fill-opacity") == drawn_cells["a, share: 0.9"].get("fill-opacity")
    together = cells(found._replace(own_scales=False))
    assert together["b, error: 1e-05"].get("fill-opacity") < together["a, share: 0.9"].get("fill-opacity")


def test_too_many_rows_and_columns_are_joined_by_their_largest_value():
    rows, columns = 1_000, 700
    values = [[1e-4] * columns for _ in range(rows)]
    values[777][123] = 5.0
    found = NameMap([f"l{row}" for row in range(rows)], [f"{step}" for step in range(columns)], values, "errors")
    drawn_cells = cells(found)
    assert len(drawn_cells) == MAX_MAP_ROWS * MAX_MAP_COLUMNS
    (largest,) = [name for name in drawn_cells if name.endswith(": 5")]
    first, last = map(int, re.match(r"l(\d+) to l(\d+), ", largest).groups())
    assert first <= 777 <= last
    assert describe_name_map(found) == "heat map of errors: largest: 5 at l777, 123"


@pytest.mark.parametrize("values", [[], [[None, nan]]])
def test_a_map_without_values_is_described_as_such(values):
    found = NameMap([f"l{row}" for row in range(len(values))], ["a", "b"], values, "errors")
    assert describe_name_map(found) == "heat map of errors: no value is known"
    assert "<svg" in draw_name_map(found)


def test_names_are_escaped_and_long_ones_keep_their_end():
    name = "<b>" + "encoder." * 20 + "norm"
    text = draw_name_map(NameMap([name], ["<i>"], [[1.0]], "x"))
    assert "<b>" not in text
    assert "<i>" not in text
    root = ElementTree.fromstring(text)
    assert any(each.text.startswith("…") and each.text.endswith("encoder.norm") for each in root.iter("text"))
