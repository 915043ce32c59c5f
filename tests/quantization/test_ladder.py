"""The moves of a layer on its ladder of formats."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.quantization.ladder import Position, Rules, next_move

RULES = Rules(budget=0.01, margin=0.5, patience=3)
NAN, INF = float("nan"), float("inf")


def moved(errors, rung, calm=0, rules=RULES):
    return next_move(Position(rung, calm), len(errors) - 1, rules, errors.__getitem__)


@pytest.mark.parametrize(
    ("errors", "rung", "new_rung", "reason", "is_unmet"),
    [
        ([0.02, 0.003, 0.0], 0, 1, "over_budget", False),
        ([0.02, 0.011, 0.0], 0, 2, "over_budget", False),
        ([0.01, 0.003, 0.0], 0, 0, None, False),
        ([NAN, 0.003, 0.0], 0, 1, "non_finite", False),
        ([INF, NAN, 0.0], 0, 2, "non_finite", False),
        ([0.03, 0.02], 0, 1, "over_budget", True),
        ([0.02, 0.03], 0, 0, None, True),
        ([INF, INF], 0, 0, None, True),
        ([0.001, 0.02], 1, 1, None, True),
    ],
)
def test_a_layer_goes_up_to_the_narrowest_format_within_its_budget(errors, rung, new_rung, reason, is_unmet):
    move = moved(errors, rung)
    assert (move.position.rung, move.reason, move.is_unmet) == (new_rung, reason, is_unmet)


def test_a_layer_goes_down_after_calm_samples_in_a_row():
    errors = [0.004, 0.001, 0.0]
    positions = [Position(2)]
    for _ in range(6):
        positions.append(next_move(positions[-1], 2, RULES, errors.__getitem__).position)
    assert [each.rung for each in positions] == [2, 2, 2, 1, 1, 1, 0]


def test_one_sample_above_the_margin_begins_the_count_anew():
    assert moved([0.006, 0.0], 1, calm=2).position == Position(1, 0)
    assert moved([0.005, 0.0], 1, calm=2).position == Position(0, 0)


def test_only_needed_formats_are_measured():
    asked = []

    def error_of(rung):
        asked.append(rung)
        return [0.02, 0.004, 0.001, 0.0][rung]

    next_move(Position(1), 3, RULES, error_of)
    assert asked == [1, 0]
    asked.clear()
    next_move(Position(0), 3, RULES, error_of)
    assert asked == [0, 1]


@given(
    st.lists(st.floats(0, 1) | st.just(NAN) | st.just(INF), min_size=2, max_size=5),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_a_move_ends_within_the_budget_if_any_format_at_or_above_does(errors, rung, calm):
    rung = min(rung, len(errors) - 1)
    move = moved(errors, rung, calm)
    within = [index for index in range(rung, len(errors)) if errors[index] <= RULES.budget]
    if within:
        assert errors[move.position.rung] <= RULES.budget
        assert move.position.rung <= within[0]
    assert move.is_unmet == (not within)
    assert (move.reason is None) == (move.position.rung == rung)
    assert 0 <= move.position.calm < RULES.patience
