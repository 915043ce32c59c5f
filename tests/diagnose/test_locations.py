"""Locations: the indices of an axis that errors touch, if they are a regular part of it."""

import numpy as np
import pytest

from precreg.diagnose.evidence import error_to_explain
from precreg.diagnose.locations import error_locations


def located(*places):
    base = np.zeros((6, 10), np.float32)
    target = base.copy()
    for place in places:
        target[place] = 1
    return [(each.length, each.text) for each in error_locations(error_to_explain({"out": target}, {"out": base}))]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([(slice(None), 3)], [(10, "3")]),
        ([(slice(None), slice(8, None))], [(10, "8:10")]),
        ([(slice(None, None, 2), slice(None))], [(6, "0:5:2")]),
        ([(2, 3)], [(6, "2"), (10, "3")]),
        ([(slice(None), slice(None))], []),
        ([(0, 0), (1, 1), (3, 3)], []),
    ],
)
def test_a_regular_part_has_a_location(places, expected):
    assert located(*places) == expected


def test_equal_results_have_none():
    assert located() == []
