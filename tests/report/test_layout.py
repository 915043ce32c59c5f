"""Tables and sentences fit the width of a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.report.layout import columns_of, format_columns, wrap_line, wrap_lines

NAMES = ["case", "why", "times"]
ROWS = [["unit/s/a", "the reference has another shape than the actual result", "2.5"], ["unit/s/b", "none", "1.25"]]


def test_without_a_width_a_table_is_as_wide_as_its_cells():
    assert format_columns(NAMES, ROWS, 5) == [
        "case      why                                                     times",
        "unit/s/a  the reference has another shape than the actual result  2.5",
        "unit/s/b  none                                                    1.25",
    ]
    assert format_columns(NAMES, ROWS, 1)[-1] == "and 1 more"
    assert format_columns(NAMES, [], 5) == ["case  why  times"]


def test_texts_of_cells_wrap_between_words():
    assert format_columns(NAMES, ROWS, 5, 50) == [
        "case      why                                times",
        "unit/s/a  the reference has another shape    2.5",
        "          than the actual result",
        "unit/s/b  none                               1.25",
    ]


def test_spare_columns_go_first_and_are_named():
    assert format_columns(NAMES, ROWS, 5, 30, spare=("times", "why")) == [
        "case",
        "unit/s/a",
        "unit/s/b",
        "not shown at this width: why, times",
    ]
    assert format_columns(NAMES, ROWS, 5, 80, spare=("times", "why")) == format_columns(NAMES, ROWS, 5)


def test_a_table_that_is_too_wide_for_its_words_is_a_list():
    names = ["metric", "current", "baseline", "interval"]
    rows = [["mean_abs_error", "0.1175", "0.024", "3.15 to 30.9"], ["max_ulp", "3", "1", ""]]
    assert format_columns(names, rows, 1, 40) == [
        "metric    mean_abs_error",
        "current   0.1175",
        "baseline  0.024",
        "interval  3.15 to 30.9",
        "and 1 more",
    ]
    assert format_columns(names, rows, 2, 40)[4:] == ["", "metric    max_ulp", "current   3", "baseline  1"]


def test_a_chinese_character_takes_two_columns():
    rows = [["unit/层归一化/a", "1"], ["unit/s/b", "2"]]
    assert format_columns(["case", "times"], rows, 5) == [
        "case             times",
        "unit/层归一化/a  1",
        "unit/s/b         2",
    ]
    # Twelve characters and a space: 25 columns.
    assert wrap_line("矩阵乘法算子 累加器溢出了", 25) == ["矩阵乘法算子 累加器溢出了"]
    assert wrap_line("矩阵乘法算子 累加器溢出了", 24) == ["矩阵乘法算子", "累加器溢出了"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("short", ["short"]),
        (
            "reports   a/record.json  a/junit.xml  a/report.html",
            ["reports   a/record.json  a/junit.xml", " " * 10 + "a/report.html"],
        ),
        (
            "         one two three four five six seven eight nine",
            ["         one two three four five six", "         seven eight nine"],
        ),
        (
            "look into precreg diagnose unit/suite/float16-8x256",
            ["look into precreg diagnose", "unit/suite/float16-8x256"],
        ),
        (f"ids       {'x' * 50}", ["ids", " " * 10 + "x" * 50]),
        (
            "an-option --that-has-hyphens --and-another-one-too",
            ["an-option --that-has-hyphens", "--and-another-one-too"],
        ),
    ],
)
def test_a_line_wraps_between_words_below_its_text(line, expected):
    assert wrap_line(line, 40) == expected
    assert wrap_lines([line, line], 40) == [*expected, *expected]
    assert wrap_lines([line], None) == [line]


@given(st.lists(st.text("abc, -=/é层", max_size=60), max_size=5), st.integers(10, 100))
def test_no_word_is_lost_and_no_line_is_too_wide_that_has_two_words(lines, width):
    wrapped = wrap_lines(lines, width)
    assert " ".join(wrapped).split() == " ".join(lines).split()
    assert not [line for line in wrapped if columns_of(line) > width and len(line.split()) > 1]


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.tuples(
            st.lists(st.text("abc", min_size=1, max_size=9), min_size=n, max_size=n),
            st.lists(st.lists(st.text("ab c", max_size=40), min_size=n, max_size=n), max_size=5),
        )
    ),
    st.integers(40, 120),
)
def test_a_table_fits_every_width_with_all_its_words(table, width):
    names, rows = table
    lines = format_columns(names, rows, 5, width)
    assert not [line for line in lines if len(line) > width]
    for word in "".join(" ".join(row) + " " for row in rows).split():
        assert any(word in line for line in lines)
