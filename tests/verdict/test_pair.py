"""Judging two versions on fresh seeds: which output is worse, clear or open, and what the verdict says."""

from math import comb

import msgspec
import numpy as np
import pytest

from precreg.measure import measure_seed
from precreg.types import (
    BetterOnFreshInputs,
    ClearOnFreshInputs,
    Finding,
    NonFiniteOnFreshInputs,
    Reason,
    SeedFigures,
    Status,
    UnclearOnFreshInputs,
    Verdict,
    WorseOnFreshInputs,
)
from precreg.verdict.pair import (
    AVERAGES,
    BIASES,
    SEED_MEANS,
    TAILS,
    PairedOutput,
    SeedPair,
    conclude_pair,
    judge_look,
    sign_test,
    unclear_verdict,
)

COMMIT = "1a2b3c4d"
ALPHA = 0.05
PASSED = Verdict(Status.PASSED, Reason.WITHIN_TOLERANCE, findings=(Finding(Reason.WITHIN_TOLERANCE),))
IMPROVED = Verdict(Status.PASSED, Reason.IMPROVED, findings=(Finding(Reason.IMPROVED),))


def figures_of(errors, reference=None):
    """Return the figures of errors around a reference of ones."""
    reference = np.ones(len(errors)) if reference is None else reference
    return measure_seed(reference + errors, reference)


def drawn(seeds, size, scale=1.0, seed=3, bias=0.0):
    """Return pairs of figures with independent errors of one size, the present ones times `scale` plus `bias`."""
    rng = np.random.default_rng(seed)
    return [
        SeedPair(figures_of(rng.normal(0, 1e-3, size)), figures_of(scale * rng.normal(0, 1e-3, size) + bias), False)
        for _ in range(seeds)
    ]


def output(pairs, dtype="float64", *, is_integer=False, min_loss=0.05):
    return PairedOutput("out", dtype, is_integer, min_loss, pairs)


@pytest.mark.parametrize(
    ("size", "is_integer", "metrics"),
    [
        (1, False, ("mean_abs_error", *SEED_MEANS, *BIASES)),
        (1, True, ("mean_abs_error", "mean_abs_error_over_seeds", *BIASES)),
        (4, False, (*AVERAGES, "max_abs_error", "max_ulp", *SEED_MEANS, *BIASES)),
        (5, False, (*AVERAGES, "max_abs_error", "max_ulp", *BIASES)),
        (127, False, (*AVERAGES, "max_abs_error", "max_ulp", *BIASES)),
        (128, False, (*AVERAGES, *TAILS, *BIASES)),
        (128, True, ("mean_abs_error", "rms_error", "top_abs_error", "max_abs_error", *BIASES)),
    ],
)
def test_the_metrics_are_those_that_are_distinct_for_a_size(size, is_integer, metrics):
    pairs = [SeedPair(SeedFigures({}, size), SeedFigures({}, size), False)]
    assert output(pairs, is_integer=is_integer).metrics == metrics


def test_metrics_that_are_left_out_equal_those_that_are_kept():
    rng = np.random.default_rng(5)
    one, few = (measure_seed(1 + rng.normal(0, 1e-3, size), np.ones(size)).metrics for size in (1, 127))
    assert one["mean_abs_error"] == one["rms_error"] == one["max_abs_error"] == one["top_abs_error"]
    assert (few["top_abs_error"], few["top_ulp"]) == (few["max_abs_error"], few["max_ulp"])


def test_a_loss_is_found_and_named_with_its_interval():
    look = judge_look([output(drawn(16, 500, 1.3))], ALPHA, COMMIT)
    assert look.end == "worse"
    found = {finding.metric: finding for finding in look.findings}
    mean = found["mean_abs_error"]
    assert (mean.reason, mean.rule, mean.fact) == (Reason.REGRESSED, "statistic", WorseOnFreshInputs(COMMIT, 16))
    assert mean.lower < 1.3 < mean.upper
    assert mean.ratio == pytest.approx(1.3, abs=0.05)
    assert mean.current / mean.baseline == pytest.approx(1.3, abs=0.05)
    verdict = conclude_pair(PASSED, look, [output(drawn(16, 500, 1.3))], COMMIT)
    assert (verdict.status, verdict.reason) == (Status.FAILED, Reason.REGRESSED)


def test_a_constant_offset_is_found_as_a_bias():
    look = judge_look([output(drawn(32, 500, 1.0, bias=3e-4))], ALPHA, COMMIT)
    assert look.end == "worse"
    assert "bias" in {finding.metric for finding in look.findings}
    figure = next(each for each in look.figures if each.metric == "bias")
    assert figure.ratio - 1 == pytest.approx(3e-4 / (1e-3 * np.sqrt(2 / np.pi)), rel=0.15)


def test_a_loss_of_one_element_is_found_by_its_mean_over_seeds():
    pairs = drawn(320, 1, 1.5)
    look = judge_look([output(pairs)], 1e-5, COMMIT)
    assert look.end == "worse"
    found = {finding.metric: finding for finding in look.findings}
    assert "mean_abs_error" not in found, "its logarithms vary too much"
    mean = found["mean_abs_error_over_seeds"]
    assert mean.ratio == pytest.approx(mean.current / mean.baseline)
    assert 1.05 < mean.lower < 1.5 < mean.upper
    figure = next(each for each in look.figures if each.metric == mean.metric)
    assert figure.log_mean == pytest.approx(np.log(mean.ratio))
    assert mean.lower < mean.ratio * np.exp(-1.5 * figure.log_error)


def test_the_bias_of_one_element_is_in_units_of_its_mean_error_over_seeds():
    look = judge_look([output(drawn(320, 1, bias=1e-3))], 1e-4, COMMIT)
    assert look.end == "worse"
    figure = next(each for each in look.figures if each.metric == "bias")
    assert figure.ratio - 1 == pytest.approx(1e-3 / (1e-3 * np.sqrt(2 / np.pi)), rel=0.2)


def test_an_element_that_was_exact_is_worse_with_errors_and_better_without():
    exact = figures_of(np.zeros(1))
    pairs = [pair._replace(accepted=exact) for pair in drawn(20, 1)]
    assert judge_look([output(pairs)], ALPHA / 6, COMMIT).end == "worse"
    back = [SeedPair(pair.present, exact, False) for pair in pairs]
    look = judge_look([output(back)], ALPHA / 6, COMMIT)
    assert look.end == "clear"
    same = judge_look([output([SeedPair(exact, exact, False)] * 20)], ALPHA, COMMIT)
    assert same.end == "clear"


def test_versions_of_equal_quality_are_clear_after_enough_seeds():
    few, many = (judge_look([output(drawn(seeds, 500))], ALPHA, COMMIT) for seeds in (16, 512))
    assert few.end is None
    assert (many.end, many.findings) == ("clear", ())
    verdict = conclude_pair(PASSED, many, [output(drawn(512, 500))], COMMIT)
    (finding,) = verdict.findings
    assert verdict.reason is Reason.WITHIN_TOLERANCE
    assert isinstance(finding.fact, ClearOnFreshInputs)
    assert 1 < finding.fact.upper < 1.1


def test_a_loss_below_the_smallest_relevant_one_passes_and_a_suite_may_lower_it():
    pairs = drawn(2048, 500, 1.03)
    assert judge_look([output(pairs)], ALPHA, COMMIT).end == "clear"
    assert judge_look([output(pairs, min_loss=0.02)], ALPHA, COMMIT).end == "worse"


def test_equal_bits_end_at_once():
    same = [SeedPair(figures_of(np.zeros(5)), figures_of(np.zeros(5)), True)] * 16
    look = judge_look([output(same)], ALPHA, COMMIT)
    assert look.end == "same_bits"
    verdict = conclude_pair(PASSED, look, [output(same)], COMMIT)
    assert verdict.findings[0].fact == ClearOnFreshInputs(COMMIT, 16, same_bits=True)


def test_one_output_that_is_worse_fails_a_case_whose_others_are_the_same():
    same = [SeedPair(figures_of(np.zeros(5)), figures_of(np.zeros(5)), True)] * 16
    look = judge_look([PairedOutput("a", "float32", False, 0.05, same), output(drawn(16, 500, 1.5))], ALPHA, COMMIT)
    assert look.end == "worse"
    assert {finding.output for finding in look.findings} == {"out"}


def test_more_nan_than_the_accepted_version_has_fails_at_once():
    pairs = drawn(16, 500)
    pairs[7] = pairs[7]._replace(present=SeedFigures(pairs[7].present.metrics, 500, mismatched=2))
    look = judge_look([output(pairs)], 1e-9, COMMIT)
    assert look.end == "worse"
    assert look.findings[0].fact == NonFiniteOnFreshInputs(COMMIT, 7, 0, 2)
    fewer = [pair._replace(accepted=pair.present, present=pair.accepted) for pair in pairs]
    (found,) = judge_look([output(fewer)], 1e-9, COMMIT).findings
    assert (found.reason, found.fact) == (Reason.IMPROVED, NonFiniteOnFreshInputs(COMMIT, 7, 2, 0))


def test_an_output_that_was_exact_and_has_errors_now_is_worse():
    exact = figures_of(np.zeros(50))
    pairs = [pair._replace(accepted=exact) for pair in drawn(16, 50)]
    assert judge_look([output(pairs)], ALPHA / 6, COMMIT).end == "worse"
    back = [SeedPair(pair.present, exact, False) for pair in pairs]
    look = judge_look([output(back)], ALPHA / 6, COMMIT)
    assert look.end == "clear"
    assert conclude_pair(PASSED, look, [output(back)], COMMIT).reason is Reason.IMPROVED


def test_a_gain_is_reported_in_every_metric_that_is_tested_for_a_loss_and_an_earlier_one_stays():
    pairs = drawn(512, 500, 0.7)
    look = judge_look([output(pairs)], ALPHA, COMMIT)
    assert look.end == "clear"
    assert {finding.metric for finding in look.findings} == {*AVERAGES, *TAILS}
    assert all(finding.fact == BetterOnFreshInputs(COMMIT, 512) for finding in look.findings)
    assert conclude_pair(PASSED, look, [output(pairs)], COMMIT).reason is Reason.IMPROVED
    equal = drawn(512, 500)
    look = judge_look([output(equal)], ALPHA, COMMIT)
    assert conclude_pair(IMPROVED, look, [output(equal)], COMMIT) is IMPROVED


def test_an_unclear_case_states_its_bounds_and_the_seeds_that_it_needs():
    pairs = drawn(16, 500)
    verdict = unclear_verdict(PASSED, [output(pairs)], COMMIT, "max_seeds", ALPHA)
    assert (verdict.status, verdict.reason) == (Status.PASSED, Reason.NOT_CLEAR)
    fact = verdict.findings[0].fact
    assert isinstance(fact, UnclearOnFreshInputs)
    assert (fact.seeds, fact.ended_by, fact.metric.split("_")[0]) == (16, "max_seeds", "max")
    assert 1 < fact.averages < fact.upper
    assert fact.upper > 1.1, "the limit of a maximum"
    assert 16 < fact.needed < 5000
    found = [
        judge_look([output(drawn(fact.needed, 500, 1.2, seed=seed))], ALPHA, COMMIT).end == "worse" for seed in range(5)
    ]
    assert all(found)


def test_a_bias_that_vanished_is_a_gain():
    pairs = drawn(64, 500, bias=5e-4)
    back = [SeedPair(pair.present, pair.accepted, False) for pair in pairs]
    look = judge_look([output(back)], ALPHA, COMMIT)
    assert {"bias", "outward_bias"} <= {finding.metric for finding in look.findings}
    assert {finding.reason for finding in look.findings} == {Reason.IMPROVED}


def test_an_unclear_case_has_its_gains_too():
    pairs = drawn(20, 500, 0.6)
    gains = judge_look([output(pairs)], ALPHA, COMMIT).findings
    assert gains
    verdict = unclear_verdict(PASSED, [output(pairs)], COMMIT, "max_seeds", ALPHA, gains)
    assert verdict.reason is Reason.NOT_CLEAR
    assert [finding.reason for finding in verdict.findings] == [Reason.NOT_CLEAR, *[Reason.IMPROVED] * len(gains)]


def test_an_output_of_one_seed_stays_open():
    """A subject may give an output for some inputs only, and one value has no standard error."""
    rare = output(drawn(1, 500))._replace(output="rare")
    assert judge_look([rare], ALPHA, COMMIT).end is None
    equal = drawn(512, 500)
    look = judge_look([output(equal), rare], ALPHA, COMMIT)
    assert (judge_look([output(equal)], ALPHA, COMMIT).end, look.end) == ("clear", None)
    assert unclear_verdict(PASSED, [output(equal), rare], COMMIT, "max_seeds", ALPHA).findings[0].fact.seeds == 512


@pytest.mark.parametrize("seeds", [0, 1])
def test_a_case_without_seeds_is_unclear_without_bounds(seeds):
    outputs = [output(drawn(seeds, 5))] if seeds else []
    verdict = unclear_verdict(PASSED, outputs, COMMIT, "run_seconds", ALPHA)
    assert verdict.findings[0].fact == UnclearOnFreshInputs(COMMIT, seeds, "run_seconds")
    assert unclear_verdict(IMPROVED, outputs, COMMIT, "run_seconds", ALPHA) is IMPROVED


def test_the_share_of_correctly_rounded_elements_is_reported_and_fails_nothing():
    rng = np.random.default_rng(2)
    pairs = []
    for _ in range(16):
        figures = figures_of(rng.normal(0, 1e-3, 500))
        pairs.append(
            SeedPair(SeedFigures(figures.metrics, 500, 0, 400), SeedFigures(figures.metrics, 500, 0, 300), False)
        )
    look = judge_look([output(pairs)], ALPHA, COMMIT)
    assert look.end == "clear"
    (share,) = look.shares
    assert (share.before, share.now, share.lost, share.gained, share.p_value) == (0.8, 0.6, 16, 0, 2.0**-16)


@pytest.mark.parametrize(("lost", "gained"), [(0, 0), (3, 0), (0, 3), (5, 9), (16, 2)])
def test_the_sign_test_is_the_exact_binomial_tail(lost, gained):
    n = lost + gained
    expected = sum(comb(n, k) for k in range(lost, n + 1)) / 2**n if n else 1.0
    assert sign_test(lost, gained) == expected


@pytest.mark.parametrize("size", [1, 4, 64])
def test_versions_of_equal_quality_are_called_worse_less_often_than_the_level(size):
    """One look of 16 seeds, and all metrics of an output: Bonferroni over correlated metrics stays far below."""
    ends = [judge_look([output(drawn(16, size, seed=seed))], 0.2, COMMIT).end for seed in range(300)]
    assert ends.count("worse") / 300 <= 0.2


def test_errors_of_a_biased_scalar_are_no_growth_of_its_bias():
    """In units of one version's error alone, the bias of the other has a heavy tail, and its mean is larger."""
    rng = np.random.default_rng(7)
    alarms = 0
    for _ in range(60):
        sides = [[figures_of(1e-3 * (0.5 + rng.normal(0, 1, 1))) for _ in range(160)] for _ in range(2)]
        pairs = [SeedPair(*both, False) for both in zip(*sides, strict=True)]
        alarms += judge_look([output(pairs)], 0.05, COMMIT).end == "worse"
    # 3 are expected, and 7 or more have a probability of 3 %.
    assert alarms <= 6


def test_figures_of_heavy_tails_are_finite_as_records_are():
    """The mean of such errors is within noise of 0, and Fieller's interval of the ratio then has no upper bound."""
    rng = np.random.default_rng(0)
    errors = (1e-5 * rng.standard_cauchy(1) ** 3 for _ in range(40))
    pairs = [SeedPair(figures_of(next(errors)), figures_of(next(errors)), False) for _ in range(20)]
    verdict = unclear_verdict(PASSED, [output(pairs)], COMMIT, "max_seeds", ALPHA)
    look = judge_look([output(pairs)], ALPHA / 100, COMMIT)
    for found in (verdict.findings[0].fact, *look.figures):
        assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found
