"""What is said of one fault in one case, from results that are made for it."""

from math import inf

import pytest
from msgspec.structs import replace

from precreg.arithmetic.faults.table import FAULTS, HARMLESS_CHANGES
from precreg.quality.scoring import Effect, score_fault
from precreg.run.pipeline import judge_outcome
from precreg.types.case import Layer
from precreg.types.outcome import Execution, Failure, Outcome
from precreg.types.verdict import Reason
from precreg.verdict.judge import Policy
from tests.verdict.made import ENVIRONMENT, SOURCE, baseline, case, comparison, outcome

FAULT, CHANGE = FAULTS["naive_sum"], HARMLESS_CHANGES["sum_reversed"]
LAYER = Layer("suite", SOURCE, {"rtol": 1e-5, "atol": 1e-5}, {"mean_abs_error": 0.1})
CASE = case(layers=(LAYER,))
SAME = ("a0", "a1")


def judge(ran, of=CASE):
    return judge_outcome(of, baseline(), ran, ENVIRONMENT, Policy())


def scored(ran, fault=FAULT, of=CASE):
    plain = judge(outcome(digests=SAME), of)
    assert plain.verdict.reason is Reason.IDENTICAL
    return score_fault(of, plain, judge(ran, of), fault)


def with_error(error):
    return outcome(comparison(0, mean_abs_error=error), comparison(1, mean_abs_error=error))


def test_the_same_bits_are_no_effect():
    assert scored(outcome(digests=SAME)).effect is Effect.NO_EFFECT


@pytest.mark.parametrize(
    ("growth", "effect", "worse"),
    [(3, Effect.CAUGHT, True), (1.05, Effect.MISSED, True), (1.01, Effect.MISSED, False), (0.5, Effect.MISSED, False)],
)
def test_the_factor_is_the_growth_of_the_mean_error(growth, effect, worse):
    told = scored(with_error(1e-6 * growth))
    assert told.factor == pytest.approx(growth)
    assert (told.effect, told.worse) == (effect, worse)


def test_what_caught_it_is_told():
    told = scored(with_error(1e-5))
    assert (told.reason, told.output, told.metric) == ("regressed", "out", "mean_abs_error")
    assert (told.case, told.tier, told.suite, told.fault) == ("unit/s/a", "unit", "s", "naive_sum")


def test_a_harmless_change_is_silent_or_a_false_alarm():
    assert scored(with_error(1e-6), CHANGE).effect is Effect.SILENT
    assert scored(with_error(3e-6), CHANGE).effect is Effect.FALSE_ALARM


def test_the_output_that_grew_most_counts():
    pair = [comparison(0, output=name, mean_abs_error=error) for name, error in (("a", 1e-6), ("b", 1e-6))]
    plain = judge_outcome(CASE, None, outcome(*pair), ENVIRONMENT, Policy())
    worse = [replace(pair[0], metrics={"mean_abs_error": 2e-6}), replace(pair[1], metrics={"mean_abs_error": 7e-6})]
    after = judge_outcome(CASE, None, outcome(*worse, digests=("c0",)), ENVIRONMENT, Policy())
    assert score_fault(CASE, plain, after, FAULT).factor == pytest.approx(7)


def test_from_no_error_at_all_the_factor_is_infinite():
    plain = judge(with_error(0.0))
    assert score_fault(CASE, plain, judge(replace_digests(with_error(1e-6))), FAULT).factor == inf
    assert score_fault(CASE, plain, judge(replace_digests(with_error(0.0))), FAULT).factor == 1


def replace_digests(ran):
    return replace(ran, execution=replace(ran.execution, outputs={"out": ("c0", "c1")}))


def test_nan_and_repeats_that_differ_are_worse_without_a_factor():
    nan = comparison(0, {"nan_mismatched": 3, "finite": 97}, mean_abs_error=None)
    told = scored(outcome(nan, comparison(1)))
    assert (told.effect, told.worse, told.factor, told.reason) == (Effect.CAUGHT, True, None, "non_finite_mismatch")
    told = scored(outcome(digests=SAME, unsteady=("out",)))
    assert (told.effect, told.worse, told.reason) == (Effect.CAUGHT, True, "nondeterministic")


def test_repeats_that_differ_without_the_fault_too_are_no_worse_with_it():
    case = replace(CASE, deterministic=False, repeats=2)
    plain = judge(outcome(digests=SAME, unsteady=("out",)), case)
    told = score_fault(case, plain, judge(outcome(unsteady=("out",)), case), FAULT)
    assert (told.effect, told.worse) == (Effect.MISSED, False)


def test_matches_of_a_golden_that_are_lost_are_worse():
    golden = replace(CASE, role="golden")
    before, after = (replace(comparison(0, match_ratio=share), reference_dtype="float32") for share in (1, 0.99))
    plain = judge(outcome(before, replace(before, seed=1), digests=SAME), golden)
    told = score_fault(golden, plain, judge(outcome(after, replace(after, seed=1)), golden), FAULT)
    assert (told.effect, told.worse, told.factor, told.pinned) == (Effect.CAUGHT, True, pytest.approx(1), True)


def test_cases_that_promise_bits():
    assert scored(outcome(), of=replace(CASE, exact=True)).pinned
    assert not scored(outcome()).pinned


def test_what_could_not_be_judged_is_neither_caught_nor_missed():
    failed = Outcome("unit/s/a", "1:d", Execution(failure=Failure(Reason.SUBJECT_ERROR, "ValueError: too few")))
    told = scored(failed)
    assert (told.effect, told.worse, told.factor) == (Effect.ERROR, False, None)
    assert (told.reason, told.verdict.findings[0].message) == ("subject_error", "ValueError: too few")
