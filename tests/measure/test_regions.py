"""Where standards look apart: the constants of a dtype, and those that a standard brings, in every form."""

import numpy as np
import pytest

from precreg.measure.comparison import BACKENDS, compare_arrays
from precreg.measure.metrics import NO_REGIONS, REGIONS, regions_of

SHARES = (
    "small_value_error_share",
    "cancellation_error_share",
    "relative_violation_share",
    "absolute_violation_share",
)


@pytest.fixture(params=sorted(BACKENDS))
def shares(request, monkeypatch):
    """Return the function from two lists, a dtype and changed regions to counts."""
    monkeypatch.setenv("PRECREG_FORM", request.param)

    def shares(actual, reference, dtype="float32", regions=None):
        metrics = compare_arrays(np.array(actual, dtype), np.array(reference), rtol=0, atol=0, regions=regions).metrics
        return [round(metrics[name] * len(actual)) if name in metrics else None for name in SHARES]

    return shares


CHANGED = {
    "small_bound": 1.0,
    "small_error": 0.25,
    "cancellation_bound": 4.0,
    "cancellation_rtol": 0.5,
    "threshold_bound": 2.0,
    "threshold_rtol": 0.125,
    "threshold_atol": 0.5,
}


@pytest.mark.parametrize(
    ("actual", "reference", "counted"),
    [
        (0.75, 0.5, [0, 0, 0, 0]),
        (0.875, 0.5, [1, 0, 0, 0]),
        (1.0 + 0.375, 1.0, [0, 0, 0, 0]),
        (1.0 + 0.625, 1.0, [0, 1, 0, 1]),
        (-1.5, -1.0, [0, 0, 0, 0]),
        (2.25, 2.0, [0, 0, 0, 0]),
        (2.5, 2.0, [0, 0, 1, 0]),
        (3.5, 2.0, [0, 1, 1, 0]),
        (4.5, 4.0, [0, 0, 0, 0]),
        (7.0, 4.0, [0, 0, 1, 0]),
        (-7.0, -4.0, [0, 0, 1, 0]),
        (0.0, 0.0, [0, 0, 0, 0]),
        (1.0, 0.0, [1, 0, 0, 1]),
    ],
)
def test_each_region_counts_its_own(shares, actual, reference, counted):
    assert shares([actual, 100.0], [reference, 100.0], regions=CHANGED) == counted


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_a_standard_brings_regions_to_any_dtype(shares, dtype):
    brought = {"threshold_bound": 2.0, "threshold_rtol": 0.125, "threshold_atol": 0.5}
    assert shares([0, 2, 3, 8, 9], [1, 2, 2, 8, 8], dtype, brought)[2:] == [1, 1]


def test_the_same_arrays_are_measured_by_the_regions_they_are_given(shares):
    """What was prepared for a pair of dtypes serves no other regions."""
    arrays = [1.5, 2.0], [1.0, 2.0]
    wide = {"threshold_bound": 8.0, "threshold_rtol": 1.0, "threshold_atol": 1.0}
    assert shares(*arrays)[2:] == [1, 0]
    assert shares(*arrays, regions=wide)[2:] == [0, 0]
    assert shares(*arrays)[2:] == [1, 0]


def test_a_dtype_that_no_standard_lists_has_none():
    assert regions_of("int8") == NO_REGIONS
    assert regions_of("float16") is REGIONS["float16"]
    assert regions_of("int8", (("small_bound", 1.0),)).small_bound == 1.0
