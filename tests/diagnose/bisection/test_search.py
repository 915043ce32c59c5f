"""The two searches, on lines and sets whose answers are known."""

from itertools import combinations
from math import ceil, log2

from hypothesis import given
from hypothesis import strategies as st

from precreg.diagnose.bisection.search import first_bad, smallest_set


@given(st.integers(2, 400), st.data())
def test_the_first_bad_place_is_found_in_as_many_steps_as_halving_needs(length, data):
    first = data.draw(st.integers(1, length - 1))
    asked = []

    def judge(place):
        asked.append(place)
        return "bad" if place >= first else "good"

    found = first_bad(length, judge)
    assert (found.good, found.bad, [*found.skipped]) == (first - 1, first, [])
    assert len(asked) <= ceil(log2(length - 1)) + 1
    assert len(set(asked)) == len(asked)


@given(st.integers(2, 60), st.data())
def test_places_that_cannot_be_judged_are_skipped_and_stay_candidates(length, data):
    first = data.draw(st.integers(1, length - 1))
    broken = data.draw(st.sets(st.integers(1, max(1, length - 2))))
    found = first_bad(length, lambda place: "cannot_run" if place in broken else "bad" if place >= first else "good")
    sure_good = max(place for place in range(first) if place not in broken)
    sure_bad = min(place for place in range(first, length) if place not in broken or place == length - 1)
    assert (found.good, found.bad) == (sure_good, sure_bad)
    assert set(found.skipped) <= broken


@given(st.integers(1, 24), st.data())
def test_the_smallest_set_of_a_monotonic_rule_is_exact(number, data):
    parts = [*range(number)]
    needed = data.draw(st.sets(st.sampled_from(parts), min_size=1))
    found = smallest_set(parts, lambda some: needed <= {*some})
    assert {*found} == needed


def test_one_guilty_part_of_many_takes_about_as_many_runs_as_halving():
    runs = []

    def restores(some):
        runs.append(some)
        return 700 in some

    assert smallest_set(range(1000), restores) == [700]
    assert len(runs) <= 2 * ceil(log2(1000))


@given(st.integers(2, 7), st.data())
def test_no_part_of_the_result_can_be_left_out_whatever_the_rule(number, data):
    """Rules of code are not monotonic: a caller undone without its function fails."""
    parts = [*range(number)]
    proper = [frozenset(some) for size in range(1, number) for some in combinations(parts, size)]
    good = {*data.draw(st.lists(st.sampled_from(proper), max_size=8)), frozenset(parts)}
    found = frozenset(smallest_set(parts, lambda some: frozenset(some) in good))
    assert found in good
    assert not any(found - {part} in good for part in found if len(found) > 1)
