"""A histogram over powers of two counts each value once, and draws the range of the format."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic import format_named
from precreg.report.charts.binades import MAX_BINS, BinadeCounts, binade_bins, describe_binades, draw_binades

FLOAT16 = format_named("float16")
COUNTS = BinadeCounts(-30, [5, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11])


@given(st.integers(-200, 100), st.lists(st.integers(0, 9), min_size=1, max_size=300))
def test_no_value_is_lost_in_50_bins(least, counts):
    bins = binade_bins(BinadeCounts(least, counts), least - 3, least + len(counts) + 3)
    assert len(bins) <= MAX_BINS
    assert sum(each.number for each in bins) == sum(counts)


def test_bars_below_the_range_are_lost_and_subnormal_ones_marked():
    drawn = draw_binades(COUNTS, FLOAT16, "w")
    kinds = re.findall(r'<rect class="(bin[a-z ]*)"', drawn)
    assert kinds == ["bin lost", "bin subnormal", "bin"]
    for name in ("smallest subnormal", "smallest normal", "largest"):
        assert f">{name}</text>" in drawn


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2_flush", "float32"])
@pytest.mark.parametrize("counts", [BinadeCounts(0, []), BinadeCounts(-1074, [1] + [0] * 2000 + [1]), COUNTS])
def test_any_format_and_range(name, counts):
    drawn = draw_binades(counts, format_named(name), "w")
    assert drawn.count('class="bin') == len([each for each in counts.counts if each])


def test_the_description_has_both_ranges():
    assert describe_binades(COUNTS, FLOAT16, "w") == (
        "histogram of w: 23 values from 2^-30 to 2^-13; "
        "float16: smallest subnormal 2^-24, smallest normal 2^-14, largest 2^16"
    )
