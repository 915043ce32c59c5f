"""The search for the smallest set, on decisions that are made up: any upward closed family of sets."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.diagnose.precision.smallest_set import find_smallest_set

NAMES = [f"p{number:02}" for number in range(60)]


class Oracle:
    """Decides by families of sets that are enough, and notes the runs."""

    def __init__(self, *enough):
        self.enough, self.runs = [frozenset(each) for each in enough], []

    def __call__(self, members):
        assert members not in self.runs, "the same set ran twice"
        self.runs.append(members)
        return any(each <= set(members) for each in self.enough)


def test_two_parts_in_front_of_sixty_take_four_runs():
    oracle = Oracle(NAMES[:2])
    assert find_smallest_set(NAMES, oracle) == ("found", ("p00", "p01"))
    assert oracle.runs == [(), ("p00",), ("p00", "p01"), ("p01",)]


def test_one_part_in_front_takes_two_runs():
    oracle = Oracle(NAMES[:1])
    assert find_smallest_set(NAMES, oracle) == ("found", ("p00",))
    assert len(oracle.runs) == 2


def test_a_bound_that_holds_needs_no_part():
    oracle = Oracle(())
    assert find_smallest_set(NAMES, oracle) == ("passed", ())
    assert oracle.runs == [()]


def test_more_than_half_of_the_parts_is_no_dominating_set():
    oracle = Oracle(NAMES[:31])
    assert find_smallest_set(NAMES, oracle) == ("spread", ())
    # Prefixes of 1, 2, 4, 8, 16 and 30, none and all.
    assert len(oracle.runs) == 8


def test_a_bound_that_all_parts_break_is_insufficient():
    oracle = Oracle()
    assert find_smallest_set(NAMES, oracle).status == "insufficient"
    assert set(oracle.runs[-1]) == set(NAMES)


@pytest.mark.parametrize("count", [0, 1])
def test_no_part_and_one_part_that_does_not_help(count):
    assert find_smallest_set(NAMES[:count], Oracle()).status == "insufficient"


def test_one_part_alone_is_found():
    assert find_smallest_set(["only"], Oracle({"only"})) == ("found", ("only",))


sets = st.sets(st.sampled_from(NAMES[:12]), min_size=1, max_size=8)


@given(st.lists(sets, min_size=1, max_size=4), st.permutations(NAMES[:12]))
def test_a_found_set_is_enough_and_each_member_is_needed(enough, ranked):
    oracle = Oracle(*enough)
    status, kept = find_smallest_set(ranked, oracle)
    assert [each for each in ranked if each in kept] == list(kept)
    if status == "found":
        assert Oracle(*enough)(kept)
        assert not any(Oracle(*enough)(others) for others in combinations(kept, len(kept) - 1))
    else:
        # All together are enough by construction, so no half of the ranking can be.
        assert status == "spread"
        assert not Oracle(*enough)(ranked[:6])


@given(st.sets(st.frozensets(st.sampled_from(NAMES[:7])), max_size=20))
def test_a_found_set_ran_and_was_enough_even_if_larger_sets_are_not(enough):
    ran = {}

    def decide(members):
        return ran.setdefault(frozenset(members), frozenset(members) in enough)

    status, kept = find_smallest_set(NAMES[:7], decide)
    assert status != "found" or ran[frozenset(kept)]


@given(st.permutations(NAMES), st.integers(1, 5))
def test_few_needed_parts_anywhere_in_the_first_half_take_few_runs(ranked, count):
    needed = ranked[:30:6][:count]
    oracle = Oracle(needed)
    assert find_smallest_set(ranked, oracle) == ("found", tuple(needed))
    # None, doubling, halving, and log2 of the prefix twice for each member.
    assert len(oracle.runs) <= 1 + 6 + 5 + count * 2 * 5
