"""The search for the smallest failing set, on predicates whose answer is known."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from precreg.diagnose.reduction.search import find_smallest


def any_of(*causes):
    """Return a loss: 2 for a set with all items of one of the causes."""
    return lambda items: 2.0 if any(set(cause) <= items for cause in causes) else 0.5


def test_one_cause_among_many_takes_few_tries():
    found = find_smallest(range(1000), any_of([617]))
    assert found.items == (617,)
    assert not found.is_cut
    assert found.tries <= 2 * 10 + 2


def test_the_larger_of_two_causes_is_found_first():
    losses = {3: 1.5, 40: 7.0}
    found = find_smallest(range(64), lambda items: sum(losses.get(item, 0.0) for item in items))
    assert found.items == (40,)


def test_causes_that_fail_only_together_stay_together():
    assert find_smallest(range(64), any_of([5, 31, 60])).items == (5, 31, 60)


def test_a_loss_that_all_items_share_stays_whole():
    found = find_smallest(range(8), lambda items: len(items) / 7.5)
    assert found.items == tuple(range(8))


def test_the_limit_ends_the_search_with_a_set_that_fails():
    loss = any_of([100, 500, 900])
    found = find_smallest(range(1000), loss, limit=15)
    assert found.is_cut
    assert found.tries == 15
    assert loss(frozenset(found.items)) > 1
    assert len(found.items) < 1000


def test_items_need_not_be_numbered_from_0():
    assert find_smallest([2, 3, 5, 8, 13], any_of([5, 13])).items == (5, 13)


@given(st.integers(1, 40), st.sets(st.frozensets(st.integers(0, 39), min_size=1, max_size=4), min_size=1, max_size=4))
def test_no_item_of_the_result_can_go(count, causes):
    """1-minimality, checked by brute force; each set is measured once."""
    causes = [cause for cause in causes if max(cause) < count] or [frozenset({0})]
    measured = []

    def loss(items):
        measured.append(items)
        return any_of(*causes)(items)

    found = find_smallest(range(count), loss)
    kept = frozenset(found.items)
    assert any_of(*causes)(kept) > 1
    assert all(any_of(*causes)(kept - {item}) <= 1 for item in kept)
    assert len(measured) == len(set(measured)) == found.tries


@given(st.lists(st.floats(0.01, 3), min_size=1, max_size=12))
def test_losses_that_add_up_reach_the_bound_and_no_subset_by_one_does(losses):
    if sum(losses) <= 1:
        return
    found = find_smallest(range(len(losses)), lambda items: sum(losses[item] for item in items))
    assert sum(losses[item] for item in found.items) > 1
    for left in combinations(found.items, len(found.items) - 1):
        assert sum(losses[item] for item in left) <= 1
