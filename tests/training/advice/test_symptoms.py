"""Which figures are symptoms."""

import pytest

from precreg.training.advice.symptoms import RecipeFacts, RunView, find_symptoms
from precreg.types import RerunFigures


def view(**more):
    plain = {"seed": 0, "steps": 40, "updates": 40, "skipped": 0, "final_loss": 1.0, "gradients": 1000, "updated": 1000}
    return RunView(RerunFigures(**plain | more), {}, {})


def facts(weights=("float32",), computed=("float16", "float32"), **more):
    return RecipeFacts(weights, computed, has_scaler=more.pop("has_scaler", False), **more)


def kinds(facts, run, twin=None):
    return [each.kind for each in find_symptoms(facts, run, twin or view())]


def test_a_plain_run_has_none():
    assert kinds(facts(), view()) == []


@pytest.mark.parametrize(("skipped", "found"), [(3, []), (4, ["scale_too_high"])])
def test_a_tenth_of_skipped_steps_is_a_scale_too_high(skipped, found):
    assert kinds(facts(has_scaler=True), view(skipped=skipped)) == found


@pytest.mark.parametrize(("zeros", "found"), [(509, []), (510, ["scale_too_low"])])
def test_zeros_of_the_twin_are_no_underflow(zeros, found):
    assert kinds(facts(), view(zeros=zeros), view(zeros=500)) == found


@pytest.mark.parametrize(("epsilon", "found"), [(2.0**-25, ["epsilon_below_format"]), (2.0**-24, [])])
def test_an_epsilon_that_rounds_to_zero(epsilon, found):
    given = facts(epsilon=epsilon, smallest=2.0**-24, epsilon_format="float16")
    assert kinds(given, view()) == found


def test_lost_updates_are_of_narrow_weights():
    run = view(updated=100, lost=50)
    assert kinds(facts(), run) == []
    assert kinds(facts(weights=("bfloat16",), computed=("bfloat16",)), run) == ["lost_updates"]


def test_the_parameters_that_exceed_the_twin_most_are_named():
    run = RunView(view(zeros=17, gradients=30).figures, {"a": (10, 10), "b": (10, 5), "c": (10, 2)}, {})
    twin = RunView(view().figures, {"b": (10, 5)}, {})
    (found,) = find_symptoms(facts(), run, twin)
    assert found.places == (("a", 1.0), ("c", 0.2))


def test_sums():
    assert kinds(facts(doubled=2.0), view()) == ["loss_not_averaged"]
    assert kinds(facts(doubled=1.0, split=2.0), view()) == ["loss_not_averaged"]
    assert kinds(facts(doubled=1.0, split=1.0), view()) == []


def test_clipping_and_accumulation():
    found = kinds(facts(), view(clippings=4, scaled_clippings=4, accumulation_error=0.02))
    assert found == ["clipped_before_unscale", "narrow_accumulation"]
