"""Rows for changes alone give back every state, whatever runs come between others or go."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from precreg.history.rows import Scope, decode_states, encode_states, insert_state, without_runs

STATES = st.dictionaries(st.integers(0, 12), st.sampled_from("abc"))
"""One case's states by position; a position that is missing is a run that did not run the case."""


def in_order(states):
    return dict(sorted(states.items()))


@given(STATES)
def test_rows_give_back_the_states(states):
    rows = encode_states(states)
    assert decode_states(rows, sorted(states)) == in_order(states)
    assert all(earlier != later for earlier, later in pairwise(rows.values()))


@given(STATES.flatmap(lambda states: st.tuples(st.just(states), st.permutations(list(states)))))
def test_rows_are_the_same_in_whatever_order_runs_come(case):
    states, order = case
    rows, there = {}, set()
    for position in order:
        following = min((other for other in there if other > position), default=None)
        rows = insert_state(rows, position, states[position], following)
        there.add(position)
    assert rows == encode_states(states)


@given(STATES, st.sets(st.integers(0, 12)))
def test_what_stays_keeps_its_states_when_runs_go(states, gone):
    staying = {position: state for position, state in states.items() if position not in gone}
    rows = without_runs(
        encode_states(states), lambda at: min((other for other in staying if other >= at), default=None)
    )
    assert rows == encode_states(staying)


@given(st.sets(st.integers(0, 300)))
def test_a_scope_has_the_cases_it_was_made_of(ids):
    scope = Scope.unpacked(Scope.of(ids).packed())
    assert {id for id in range(400) if id in scope} == ids


def test_a_scope_of_many_cases_is_small_and_equal_scopes_are_equal_bytes():
    packed = Scope.of(range(1, 100_001)).packed()
    assert len(packed) < 200
    assert Scope.of(reversed(range(1, 100_001))).packed() == packed
