"""How effects are ranked, and when a remedy helps."""

from fractions import Fraction
from math import inf

from hypothesis import assume, given
from hypothesis import strategies as st

from precreg.training.advice.effects import LEAST_DAMAGE, damage_of, has_helped, rank_effects, rank_symptoms
from precreg.types import Remedy, RemedyEffect, TrainingSymptom

sizes = st.floats(0.0, 1e6)


@given(sizes, sizes, sizes)
def test_damage_is_the_share_of_progress_that_a_run_lacks(start, twin, final):
    assume(start - twin > 1e-3)
    exact = (Fraction(final) - Fraction(twin)) / (Fraction(start) - Fraction(twin))
    assert abs(damage_of(start, twin, final) - max(0, exact)) <= 1e-9 * max(1, abs(exact))


def test_a_run_without_a_finite_loss_has_infinite_damage():
    assert damage_of(1.0, 0.5, None) == inf
    assert damage_of(None, None, None) == inf


def test_a_twin_without_progress_gives_no_damage():
    assert damage_of(1.0, 1.0, 2.0) == 0.0
    assert damage_of(1.0, None, 2.0) == 0.0


@given(st.floats(0.0, 3.0), st.floats(0.0, 3.0))
def test_a_remedy_that_helps_removes_half(before, after):
    if has_helped(before, after):
        assert after <= before / 2
        assert before - after >= LEAST_DAMAGE


def test_a_remedy_helps_a_run_that_is_not_finite_if_it_ends_finite():
    assert has_helped(inf, 10.0)
    assert not has_helped(inf, inf)


def effect(kind, *damage, helped=0, problem=""):
    return RemedyEffect(remedy=Remedy(kind=kind), damage=damage, helped=helped, problem=problem)


def test_effects_that_help_come_first_and_equal_ones_keep_their_order():
    none = effect("bfloat16", 0.9)
    failed = effect("float32_state", problem="RuntimeError")
    first, second = effect("set_scale", 0.01, helped=1), effect("master_weights", 0.0, helped=1)
    worse = effect("larger_epsilon", 0.3, helped=1)
    assert rank_effects([failed, none, worse, first, second]) == [first, second, worse, none, failed]


def test_among_equal_symptoms_the_narrower_cause_comes_first():
    layer = TrainingSymptom(kind="narrow_layer", effects=(effect("float32_layers", 0.0, helped=3),))
    scale = TrainingSymptom(kind="scale_too_low", effects=(effect("set_scale", 0.02, helped=3),))
    bare = TrainingSymptom(kind="lost_updates")
    assert rank_symptoms([bare, layer, scale]) == [scale, layer, bare]


def test_a_symptom_that_only_bfloat16_removes_comes_after_an_equal_one():
    high = TrainingSymptom(kind="scale_too_high", effects=(effect("bfloat16", 0.0, helped=3),))
    layer = TrainingSymptom(kind="narrow_layer", effects=(effect("float32_layers", 0.0, helped=3),))
    assert rank_symptoms([high, layer]) == [layer, high]
