"""Group sums as baselines keep them: what is read is what was kept, to the digits that there are."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.measure.groups import (
    BASE64_DIGITS,
    GROUP_LAYOUTS,
    GROUP_SUMS,
    ZERO,
    group_counts,
    join_groups,
    keep_group_sums,
    read_group_sums,
)
from precreg.types.outcome import AxisGroups, Comparison

REAL = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


def comparison(*axes, shape=None, seed=0):
    return Comparison("out", seed, "float32", shape or tuple(len(a.n) for a in axes), "float64", (), groups=axes)


def alike(sums):
    return AxisGroups([1] * len(sums), *[sums] * 7)


@given(st.lists(REAL, min_size=2, max_size=16))
def test_each_sum_is_within_a_part_of_the_largest(sums):
    (axis,) = keep_group_sums([comparison(alike(sums))], 1, None)
    largest = max(map(abs, sums))
    for name in GROUP_SUMS:
        for before, after in zip(sums, read_group_sums(axis, 0, name), strict=True):
            assert abs(after - before) <= largest / 2**12 * (1 + 1e-2) + math.ulp(0)


@given(
    st.lists(st.integers(-(ZERO - 1), ZERO - 1), min_size=2, max_size=16).filter(
        lambda all_: max(map(abs, all_)) == 2047
    )
)
def test_numbers_that_the_digits_hold_come_back(numbers):
    (axis,) = keep_group_sums([comparison(alike([float(number) for number in numbers]))], 1, None)
    assert [round(sum_) for sum_ in read_group_sums(axis, 0, "signed")] == numbers


def test_the_format_is_what_files_have():
    """A golden value: other digits would read stored baselines as other sums."""
    (axis,) = keep_group_sums([comparison(alike([1.0, -1.0, 0.0, 0.5]))], 1, None)
    assert (axis.absolute[0].largest, axis.absolute[0].shares) == (1.0, "//ABgAwA")
    assert len(set(BASE64_DIGITS)) == 64


def test_axes_of_one_group_are_not_kept_and_the_longest_are_kept_last():
    axes = [alike([1.0]), alike([1.0] * 4), alike([2.0] * 16)]
    three = [comparison(*axes, shape=(1, 4, 99), seed=seed) for seed in range(2)]
    assert [axis.axis for axis in keep_group_sums(three, 1, None)] == [1, 2]
    (longest,) = keep_group_sums(three, 4, 1)
    assert (longest.axis, longest.joined, len(longest.ulps)) == (2, 4, 2)
    assert read_group_sums(longest, 1, "ulps") == [8.0] * 4
    assert read_group_sums(longest, 2, "ulps") is None
    assert keep_group_sums([comparison(axes[0])], 1, None) == []


@given(st.lists(REAL, min_size=2, max_size=16), st.sampled_from([joined for joined, *_ in GROUP_LAYOUTS]))
def test_joined_groups_have_the_sums_and_the_pairs_of_their_parts(sums, joined):
    together = join_groups(sums, joined)
    assert math.fsum(together) == pytest.approx(math.fsum(sums), rel=1e-9, abs=1e-9 * max(map(abs, sums)))
    pairs = AxisGroups(list(range(len(sums))), *[sums] * 7)
    assert len(group_counts(pairs, joined)) == len(together)
    assert sum(group_counts(pairs, joined)) == sum(range(len(sums)))


@pytest.mark.parametrize("lost", [None, math.inf])
def test_sums_beyond_float64_are_not_kept(lost):
    (axis,) = keep_group_sums([comparison(alike([1.0, lost]))], 1, None)
    assert read_group_sums(axis, 0, "absolute") is None


def test_sums_of_zeros_have_no_sign():
    (axis,) = keep_group_sums([comparison(alike([-0.0, 0.0]))], 1, None)
    assert repr(axis.signed) == repr(keep_group_sums([comparison(alike([0.0, 0.0]))], 1, None)[0].signed)
    assert read_group_sums(axis, 0, "signed") == [0.0, 0.0]
