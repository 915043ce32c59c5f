import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.types.case import Budget
from precreg.types.outcome import Execution, Failure, Outcome, Positions, RepeatDifference
from precreg.types.verdict import (
    AbsentOutput,
    BrokenBound,
    BrokenLimit,
    ChangedEnvironment,
    EnvironmentFact,
    FirstElement,
    MetricGrew,
    NonFiniteElements,
    OtherEnvironment,
    Reason,
    SameBits,
    Status,
    UndeclaredDifference,
)
from precreg.verdict.judge import (
    EXPECTED_FAILURE_REASONS,
    Policy,
    is_acceptable,
    judge_case,
)
from precreg.verdict.whole_run import NOTHING_TO_JUDGE, run_exit_code
from tests.verdict.made import ENVIRONMENT, SOURCE, baseline, bound, case, comparison, entry, outcome, tolerance

ERRORS = (Reason.CRASHED, Reason.TIMED_OUT, Reason.SUBJECT_ERROR, Reason.REFERENCE_ERROR)


def verdict(of=None, *, on=None, against=None, ci=False, require=False, tolerances=None):
    chosen = tolerances or {"out": tolerance()}
    found = baseline() if against is None else against or None
    return judge_case(of or case(), on or outcome(), chosen, found, ENVIRONMENT, Policy(ci, require))


def test_the_baselines_bits_are_identical():
    given = verdict(on=outcome(digests=("a0", "a1")))
    assert (given.status, given.reason) == (Status.PASSED, Reason.IDENTICAL)


def test_other_bits_that_are_no_worse_are_within_tolerance():
    assert verdict().reason is Reason.WITHIN_TOLERANCE


def test_a_baseline_of_another_environment_names_its_level_and_what_is_different_here():
    difference = ChangedEnvironment((EnvironmentFact("numpy", "2.3.5", "2.5.1"),))
    elsewhere, bits_alone = replace(baseline(), difference=difference), case(exact=True)
    assert verdict(against=elsewhere).accepted_in == OtherEnvironment("generic", difference)
    assert verdict(bits_alone, against=elsewhere).accepted_in == OtherEnvironment("generic", difference)
    assert verdict(on=outcome(digests=("a0", "a1")), against=elsewhere).accepted_in is None
    assert verdict().accepted_in is None


@pytest.mark.parametrize("reason", ERRORS)
def test_a_failure_of_execution_is_an_error_and_nothing_else_is_asked(reason):
    failed = Outcome("unit/s/a", "1:d", Execution(failure=Failure(reason, "boom")))
    assert verdict(on=failed, against=False).status is Status.ERROR
    (finding,) = verdict(on=failed).findings
    assert (finding.message, finding.fact) == ("boom", None), "the words are those of an exception"


def test_unavailable_is_skipped_and_an_error_where_it_is_required():
    failed = Outcome("unit/s/a", "1:d", Execution(failure=Failure(Reason.UNAVAILABLE, "torch is not installed")))
    assert verdict(on=failed).status is Status.SKIPPED
    assert verdict(on=failed, require=True).status is Status.ERROR


def test_nothing_compared_never_passes():
    nothing = Outcome("unit/s/a", "1:d", Execution(inputs=("i0",)))
    assert verdict(on=nothing).reason is Reason.MISSING_OUTPUT
    missing = replace(outcome(), missing=("loss",))
    assert verdict(on=missing).reason is Reason.MISSING_OUTPUT
    assert [(found.output, found.fact) for found in verdict(on=missing).findings] == [
        ("loss", AbsentOutput("reference"))
    ]


def test_an_empty_array_and_one_without_a_finite_pair_never_pass():
    assert verdict(on=outcome(comparison(counts={"n": 0, "finite": 0}))).reason is Reason.EMPTY
    assert verdict(on=outcome(comparison(counts={"finite": 0, "nan_matched": 100}))).reason is Reason.EMPTY


@pytest.mark.parametrize("kind", ["nan_mismatched", "inf_mismatched"])
def test_a_one_sided_nan_or_infinity_fails_and_names_the_place(kind):
    one = replace(comparison(counts={kind: 1}), non_finite=Positions([7], ["nan"], [1.5]))
    given = verdict(on=outcome(one))
    assert given.reason is Reason.NON_FINITE_MISMATCH
    assert given.findings[0].fact == NonFiniteElements(1, 100, FirstElement(7, "nan", 1.5))


def test_another_shape_or_dtype_than_reference_golden_or_baseline_fails():
    reshaped = replace(comparison(), shape=(100,))
    assert verdict(on=outcome(reshaped)).reason is Reason.SHAPE_MISMATCH
    assert verdict(case(role="golden")).reason is Reason.DTYPE_MISMATCH
    narrow = replace(comparison(), dtype="float16")
    assert verdict(on=outcome(narrow)).reason is Reason.DTYPE_MISMATCH
    both = replace(comparison(), shape=(5, 20), reference_shape=(5, 20))
    assert verdict(on=outcome(both)).reason is Reason.SHAPE_MISMATCH


def test_an_output_that_only_the_baseline_has_is_missing_and_one_that_only_the_run_has_is_new():
    accepted = entry()
    more = replace(accepted, outputs={**accepted.outputs, "m": accepted.outputs["out"]})
    assert verdict(against=baseline(more)).reason is Reason.MISSING_OUTPUT
    both = outcome(comparison(), comparison(output="m"))
    both = replace(both, execution=replace(both.execution, outputs={"out": ("b0",), "m": ("c0",)}))
    given = verdict(on=both, tolerances={"out": tolerance(), "m": tolerance()})
    assert (given.reason, given.findings[0].output) == (Reason.NEW, "m")


def test_repeats_that_differ_are_nondeterministic():
    given = verdict(on=outcome(unsteady=("out",)))
    (finding,) = given.findings
    assert (given.reason, finding.output, finding.rule) == (Reason.NONDETERMINISTIC, "out", "hard")
    assert finding.fact == UndeclaredDifference(first=True)


def test_nondeterminism_starts_in_the_first_output_that_differs():
    plain = outcome(unsteady=("out", "m"))
    differences = (RepeatDifference("out", 0, 2, (0, 37), 12, 512, 1.2e-7), RepeatDifference("m", 1, 2, (), 1, 1, 1.0))
    given = verdict(on=replace(plain, execution=replace(plain.execution, differences=differences)))
    assert [(finding.output, finding.fact) for finding in given.findings] == [
        ("out", UndeclaredDifference(first=True, difference=differences[0])),
        ("m", UndeclaredDifference(first=False, difference=differences[1])),
    ]


def test_a_broken_bound_at_any_seed_fails_with_its_provenance():
    given = verdict(on=outcome(comparison(0), comparison(1, match_ratio=0.99)))
    assert (given.status, given.reason) == (Status.FAILED, Reason.OUT_OF_TOLERANCE)
    assert (given.findings[0].seed, given.findings[0].current, given.findings[0].limit) == (1, 0.99, 1.0)
    limits = bound("rtol", 1e-5), bound("atol", 1e-5)
    broken = BrokenLimit("match_ratio", 1.0, 0.99, at_least=True)
    assert (given.findings[0].fact, given.findings[0].source) == (BrokenBound(broken, "suite", limits), SOURCE)


def test_a_bound_on_an_undefined_metric_is_broken():
    given = verdict(tolerances={"out": tolerance(max_rel_error=1e-3)})
    assert given.reason is Reason.OUT_OF_TOLERANCE
    assert given.findings[0].fact == BrokenBound(BrokenLimit("max_rel_error", 1e-3), "suite")


def test_a_bound_on_the_bias_holds_its_size():
    biased = outcome(comparison(bias=-2e-6), comparison(1, bias=2e-6))
    assert verdict(on=biased, tolerances={"out": tolerance(bias=1e-6)}).reason is Reason.OUT_OF_TOLERANCE
    assert verdict(on=biased, tolerances={"out": tolerance(bias=3e-6)}).reason is Reason.WITHIN_TOLERANCE


def test_tolerance_is_asked_before_the_baseline():
    bad = outcome(comparison(match_ratio=0.5))
    assert verdict(on=bad, against=False).reason is Reason.OUT_OF_TOLERANCE


@pytest.mark.parametrize(
    ("of", "on", "against", "reason"),
    [
        (case(), outcome(), False, Reason.NEW),
        (case(baseline_definition="1:other"), outcome(), baseline(), Reason.STALE),
        (case(), outcome(inputs=("i0", "changed")), baseline(), Reason.INPUTS_CHANGED),
    ],
)
def test_without_a_baseline_a_case_is_proposed_here_and_fails_in_ci(of, on, against, reason):
    here, there = verdict(of, on=on, against=against), verdict(of, on=on, against=against, ci=True)
    assert (here.status, here.reason) == (Status.PROPOSED, reason)
    assert (there.status, there.reason) == (Status.FAILED, reason)


def test_a_regression_inside_the_tolerance_is_found():
    given = verdict(on=outcome(comparison(mean_abs_error=4.9e-6)))
    assert (given.status, given.reason) == (Status.FAILED, Reason.REGRESSED)
    (found,) = given.findings
    assert (found.output, found.metric, found.fact) == ("out", "mean_abs_error", MetricGrew())
    assert found.ratio == pytest.approx(4.9)


def test_what_is_inaccurate_and_worse_is_told_both_and_the_bound_decides():
    given = verdict(on=outcome(comparison(match_ratio=0.5, mean_abs_error=1e-3)))
    assert given.reason is Reason.OUT_OF_TOLERANCE
    assert [finding.metric for finding in given.findings] == ["match_ratio", "mean_abs_error"]


def test_the_worst_ratio_comes_first():
    given = verdict(on=outcome(comparison(mean_abs_error=2e-6, rms_error=9e-6)))
    assert [finding.metric for finding in given.findings] == ["rms_error", "mean_abs_error"]


def test_seeds_beyond_the_baselines_are_not_judged():
    one_seed = baseline(entry(digests=("a0",)))
    run = outcome(comparison(0), comparison(1, mean_abs_error=1.0), digests=("a0", "other"))
    assert verdict(on=run, against=one_seed).reason is Reason.IDENTICAL


def test_an_exact_case_regresses_with_its_bits():
    assert verdict(case(exact=True)).reason is Reason.REGRESSED
    assert verdict(case(exact=True), on=outcome(digests=("a0", "a1"))).reason is Reason.IDENTICAL


def test_the_time_budget_is_judged_on_the_same_fingerprint_alone():
    slow = outcome()
    slow = replace(slow, execution=replace(slow.execution, duration_s=3.0))
    of = case(budget=Budget(time_ratio=2.0))
    found = verdict(of, on=slow)
    assert (found.reason, found.findings[0].rule) == (Reason.OVER_BUDGET, "budget")
    elsewhere = baseline(replace(entry(), fingerprint="other"))
    assert verdict(of, on=slow, against=elsewhere).reason is Reason.WITHIN_TOLERANCE


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"processor": "EPYC"}, Reason.OVER_BUDGET),
        ({"processor": "Xeon"}, Reason.WITHIN_TOLERANCE),
        ({"fingerprint": "other", "seen": ["f00d"]}, Reason.WITHIN_TOLERANCE),
        ({"fingerprint": "former"}, Reason.OVER_BUDGET),
    ],
)
def test_the_time_of_another_processor_is_not_judged(changes, reason):
    slow = outcome()
    slow = replace(slow, execution=replace(slow.execution, duration_s=3.0))
    here = replace(ENVIRONMENT, facts={"cpu": "EPYC"}, former=("former",))
    found, of = baseline(replace(entry(), **changes)), case(budget=Budget(time_ratio=2.0))
    assert judge_case(of, slow, {"out": tolerance()}, found, here, Policy()).reason is reason


def test_a_known_bad_case_passes_by_failing_and_fails_by_passing():
    bad = case(expect_failure="overflows int32")
    given = verdict(bad, on=outcome(comparison(match_ratio=0.5)))
    assert (given.status, given.reason) == (Status.PASSED, Reason.EXPECTED_FAILURE)
    assert given.underlying is Reason.OUT_OF_TOLERANCE
    fine = verdict(bad)
    assert (fine.status, fine.reason, fine.underlying) == (
        Status.FAILED,
        Reason.UNEXPECTED_PASS,
        Reason.WITHIN_TOLERANCE,
    )
    assert given.declared == fine.declared == "overflows int32"


@pytest.mark.parametrize("reason", [Reason.MISSING_OUTPUT, Reason.SHAPE_MISMATCH])
def test_a_known_bad_case_without_figures_fails(reason):
    missing = replace(outcome(), missing=("loss",))
    reshaped = outcome(replace(comparison(), shape=(100,)))
    given = verdict(case(expect_failure="why"), on=missing if reason is Reason.MISSING_OUTPUT else reshaped)
    assert (given.status, given.reason) == (Status.FAILED, reason)
    assert reason not in EXPECTED_FAILURE_REASONS


def may_accept(on, of=None, against=None):
    found = baseline() if against is None else against or None
    given = verdict(of, on=on, against=against)
    return is_acceptable(of or case(), on, {"out": tolerance()}, found, ENVIRONMENT, given)


def test_what_is_sound_and_other_than_before_may_be_accepted():
    assert may_accept(outcome(), against=False)
    assert may_accept(outcome())
    assert may_accept(outcome(comparison(mean_abs_error=1e-3)))
    assert may_accept(outcome(), of=case(baseline_definition="1:other"))
    assert may_accept(outcome(replace(comparison(), dtype="float16"))), "a wanted change of the output's dtype"


def test_what_is_unsound_inaccurate_or_as_before_may_not():
    assert not may_accept(outcome(digests=("a0", "a1")))
    assert not may_accept(outcome(comparison(match_ratio=0.5)))
    assert not may_accept(outcome(replace(comparison(), shape=(100,))))
    assert not may_accept(outcome(unsteady=("out",)))
    assert not may_accept(outcome(comparison(match_ratio=0.5)), of=case(expect_failure="why"))
    assert not may_accept(outcome(), of=case(expect_failure="why"))
    assert not may_accept(Outcome("unit/s/a", "1:d", Execution(failure=Failure(Reason.CRASHED, "boom"))))


def test_seeds_that_the_baseline_lacks_may_be_accepted():
    one_seed = baseline(entry(digests=("a0",)))
    more = outcome(digests=("a0", "a1"))
    given = verdict(on=more, against=one_seed)
    assert given.findings[0].fact == SameBits(seeds=1)
    assert may_accept(more, against=one_seed)


def test_a_known_bad_case_that_crashes_or_has_no_baseline_is_neither():
    bad = case(expect_failure="why")
    crashed = Outcome("unit/s/a", "1:d", Execution(failure=Failure(Reason.CRASHED, "boom")))
    assert verdict(bad, on=crashed).status is Status.ERROR
    assert verdict(bad, against=False, ci=True).reason is Reason.NEW


@given(st.permutations(range(6)))
def test_a_verdict_does_not_know_its_neighbours(order):
    runs = [
        outcome(),
        outcome(digests=("a0", "a1")),
        outcome(comparison(mean_abs_error=1e-5)),
        outcome(comparison(match_ratio=0.1)),
        outcome(inputs=("x", "y")),
        outcome(unsteady=("out",)),
    ]
    alone = [verdict(on=run) for run in runs]
    together = {index: verdict(on=runs[index]) for index in order}
    assert [together[index] for index in range(6)] == alone


def test_exit_codes():
    passed, failed, proposed = verdict(), verdict(on=outcome(comparison(match_ratio=0.0))), verdict(against=False)
    error = verdict(on=Outcome("unit/s/a", "1:d", Execution(failure=Failure(Reason.CRASHED, "boom"))))
    skipped = verdict(on=Outcome("unit/s/a", "1:d", Execution(failure=Failure(Reason.UNAVAILABLE, "no device"))))
    assert run_exit_code([passed, skipped]) == run_exit_code([], empty=NOTHING_TO_JUDGE) == 0
    assert run_exit_code([passed, error]) == run_exit_code([passed, proposed]) == run_exit_code([]) == 2
    assert run_exit_code([error, proposed, failed]) == 1
