"""The division of a row into levels and slopes, on rows whose changes are known."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.verdict.statistics import segments
from precreg.verdict.statistics.segments import _lag_correlation, find_segments


def gauss(seed, count, size=0.01):
    drawn = random.Random(seed)
    return [drawn.gauss(0, size) for _ in range(count)]


def starts(values, min_change=0.02):
    return [segment.start for segment in find_segments(values, min_change)]


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0], [1.0] * 50, [0.0] * 4])
def test_a_short_or_constant_row_is_one_segment(values):
    assert starts(values) == ([0] if values else [])


def test_exact_steps_are_found_where_they_are():
    assert starts([0.0] * 10 + [0.1] * 2 + [0.5] * 20 + [0.1] * 5) == [0, 10, 12, 32]
    assert starts([0.0] * 10 + [0.015] * 10) == [0]


@pytest.mark.parametrize("seed", range(5))
def test_steps_among_noise_and_outliers_are_found(seed):
    values = [value + (0.1 if 40 <= at < 90 else 0.0) for at, value in enumerate(gauss(seed, 130))]
    values[20] = values[60] = 2.0
    found = starts(values)
    assert len(found) == 3
    assert abs(found[1] - 40) <= 2
    assert abs(found[2] - 90) <= 2


@pytest.mark.parametrize("seed", range(5))
def test_a_slope_is_one_segment_with_its_ends(seed):
    values = [value + 0.01 * min(max(0, at - 49), 40) for at, value in enumerate(gauss(seed, 150))]
    found = find_segments(values, 0.02)
    slope = max(found, key=lambda one: one.last - one.first)
    assert slope.is_slope
    assert abs(slope.start - 50) <= 5
    assert abs(slope.end - 90) <= 5
    assert slope.last - slope.first == pytest.approx(0.4, rel=0.1)


def test_noise_is_one_level():
    rows = [gauss(seed, 100) for seed in range(40)]
    assert sum(len(starts(row)) > 1 for row in rows) <= 1


def test_the_correlation_of_an_autoregressive_process_is_found_beside_steps_and_slopes():
    noise, value, row = random.Random(1), 0.0, []
    for _ in range(3000):
        value = 0.6 * value + noise.gauss(0, 1)
        row.append(value)
    stepped = np.array(row) + np.repeat([0, 30, 0], 1000)
    sloped = np.array(row) + 0.2 * np.arange(3000)
    for values in (np.array(row), stepped, sloped):
        assert _lag_correlation(values) == pytest.approx(0.6, abs=0.08)
    assert _lag_correlation(np.array(gauss(2, 3000))) < 0.1


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=40), st.floats(-100, 100))
def test_segments_cover_the_row_and_do_not_depend_on_its_origin(values, origin):
    grid = [round(value, 1) for value in values]
    found = find_segments(grid, 0.02)
    assert found[0].start == 0
    assert found[-1].end == len(grid)
    assert all(one.end == other.start for one, other in itertools.pairwise(found))


def test_an_exact_slope_between_two_levels_is_placed_to_the_run():
    """Its differences have two sizes, and so look like noise."""
    row = [0.02 * (min(max(at, 15), 40) - 15) for at in range(60)]
    found = find_segments(row, 0.02)
    assert [(one.start, one.end, one.is_slope) for one in found] == [(0, 16, False), (16, 41, True), (41, 60, False)]


def plain_sigma(differences):
    """The plain form of `_slope_free_sigmas`, of one row."""

    def of(row):
        deviation = float(np.median(np.abs(row - np.median(row))))
        if deviation > 0:
            return segments.SIGMA_OF_MAD * deviation
        least = np.sort(np.abs(row))[: max(1, int(0.9 * len(row)))]
        return float(np.sqrt(np.mean(least**2)))

    sigma = of(differences)
    if len(differences) < segments.MIN_SLOPE_RUNS:
        return sigma
    second = of(np.diff(differences)) / 3**0.5
    return second if second < segments.MIXED_SLOPES * sigma else sigma


VALUES = st.floats(-50, 50, width=32) | st.integers(-3, 3).map(float)


@given(st.integers(2, 12).flatmap(lambda width: st.lists(st.lists(VALUES, min_size=width, max_size=width), min_size=1)))
def test_the_noise_of_many_rows_is_that_of_each_row_to_the_bit(rows):
    found = segments._slope_free_sigmas(np.array(rows))
    assert found.tolist() == [plain_sigma(np.array(row)) for row in rows]


@pytest.mark.parametrize("size", [1, 100, 32_768])
@given(st.lists(VALUES, min_size=2, max_size=40))
def test_the_misfits_of_many_ends_are_those_of_each_end_to_the_bit(size, values):
    row, places = np.array(values), np.arange(len(values), dtype=float)
    sums = np.zeros((6, len(values) + 1))
    np.cumsum([np.ones(len(row)), row, row**2, places, places**2, places * row], axis=1, out=sums[:, 1:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "MAX_MISFITS", size)
        found = [*segments._misfits_by_end(sums)]
    assert [end for end, _, _ in found] == [*range(2, len(values) + 1)]
    for end, levels, lines in found:
        starts = np.arange(end - 1)
        level, line = segments._misfits(sums[:, end, None] - sums[:, starts])
        line[end - starts < segments.MIN_SLOPE_RUNS] = np.inf
        assert levels.tolist() == level.tolist()
        assert lines.tolist() == line.tolist()
