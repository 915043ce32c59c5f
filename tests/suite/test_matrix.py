from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.storage.yaml_source import Source
from precreg.suite.matrix import case_name, matrix_rows


def expanded(matrix):
    return matrix_rows(Source("s.yaml", {"matrix": matrix}), matrix)


def test_without_a_matrix_there_is_one_row():
    assert expanded({}) == [{}]


def test_the_product_runs_fastest_in_the_last_parameter():
    assert expanded({"a": [1, 2], "b": ["x", "y"]}) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_exclude_removes_what_matches_every_named_key_and_include_adds():
    matrix = {"a": [1, 2], "b": ["x", "y"], "include": [{"b": "z", "a": 1}], "exclude": [{"a": 1, "b": "y"}, {"a": 2}]}
    assert expanded(matrix) == [{"a": 1, "b": "x"}, {"a": 1, "b": "z"}]


def test_include_alone_is_a_matrix():
    assert expanded({"include": [{"a": 1}, {"a": 2}]}) == [{"a": 1}, {"a": 2}]


def test_included_rows_are_not_excluded():
    assert expanded({"a": [1, 2], "include": [{"a": 3}], "exclude": [{"a": 1}, {"a": 2}]}) == [{"a": 3}]


@given(
    st.dictionaries(
        st.sampled_from("abcd"), st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True), min_size=1
    )
)
def test_the_number_of_rows_is_the_product_and_all_names_differ(matrix):
    found = expanded(matrix)
    assert len(found) == prod(len(values) for values in matrix.values())
    assert len({case_name(row) for row in found}) == len(found)


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({}, "default"),
        ({"shape": [8, 128, 768], "dtype": "float16"}, "float16-8x128x768"),
        ({"order": "swapped", "shape": [4], "dtype": "int8"}, "int8-4-swapped"),
        ({"eps": 1e-5, "n": 3}, "eps=1e-05-n=3"),
        ({"fused": True, "bias": False, "axis": None}, "true-false-axis=null"),
        ({"shape": []}, "scalar"),
        ({"shape": 7}, "shape=7"),
        ({"pads": [0, 1]}, "pads=0x1"),
        ({"version": "1.23.5", "file": "arctan2"}, "1.23.5-arctan2"),
    ],
)
def test_names(row, name):
    assert case_name(row) == name
