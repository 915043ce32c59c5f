"""A case's calibration from outcomes that are written out: what counts, what is left out, what is told of it."""

from math import exp, log, sqrt
from statistics import stdev

import pytest
from msgspec.structs import replace

from precreg.quality.bounds import LAST_BIT_KIND, OWN_KIND, REORDERED_KIND, RESEEDED_KIND, BoundQuality, Margins
from precreg.quality.calibration import CaseCalibration, FailedRuns, Uncalibrated, calibrate_case
from precreg.report.calibration import describe_uncalibrated
from precreg.types.case import Layer
from precreg.types.outcome import Failure
from precreg.types.verdict import Reason
from tests.quality.calibration.made import HERE, comparison, failed, outcome
from tests.run.conftest import case_of

LAYERS = (Layer("suite", HERE, {"max_ulp": 2.0, "match_ratio": 0.0, "rtol": 0.5, "atol": 0.0}),)
CASE = case_of(layers=LAYERS)
CHAIN = ("generic",)
NO = Failure(Reason.SUBJECT_ERROR, "ValueError: no")


def run(name, error=1.0, **others):
    metrics = {"max_ulp": error, "mean_abs_error": error, "max_abs_error": error, "max_magnitude": 8.0}
    return outcome(name, comparison(match_ratio=1.0, mean_magnitude=4.0, **metrics), **others)


def of(case=CASE, **ran):
    kinds = {"own": OWN_KIND, "reseeded": RESEEDED_KIND, "last_bit": LAST_BIT_KIND, "reordered": REORDERED_KIND}
    return calibrate_case(case, {kinds[kind]: outcomes for kind, outcomes in ran.items()}, CHAIN, Margins())


def ulps(found):
    return next(bound for bound in found.bounds if bound.bound == "max_ulp")


def test_every_kind_is_counted_and_the_worst_of_each_is_kept():
    found = of(own=[run("a")], reseeded=[run("b", 1.5), run("c", 0.5)], last_bit=[run("d", 1.25)])
    assert found.runs == {OWN_KIND: 1, RESEEDED_KIND: 2, LAST_BIT_KIND: 1, REORDERED_KIND: 0}
    assert ulps(found).largest == {OWN_KIND: 1, RESEEDED_KIND: 1.5, LAST_BIT_KIND: 1.25}
    assert (ulps(found).noise.n, ulps(found).headroom) == (4, 2 / 1.5)


def test_runs_of_the_same_bits_count_once_and_failed_ones_are_named():
    again = replace(run("again"), execution=run("a").execution)
    found = of(own=[run("a")], reseeded=[run("b"), failed("x"), failed("y")], reordered=[again, again])
    assert found.runs == {OWN_KIND: 1, RESEEDED_KIND: 1, LAST_BIT_KIND: 0, REORDERED_KIND: 0}
    assert found.notes == (FailedRuns("reseeded", 2, 3, NO),)
    left_out = Uncalibrated(CASE.id, CASE.tier, "no_noise", notes=found.notes)
    words = "no replicate differs from its own run; 2 of 3 reseeded runs failed: subject_error, ValueError: no"
    assert describe_uncalibrated(left_out) == words


def test_without_a_replicate_that_differs_nothing_is_told():
    again = replace(run("again"), execution=run("a").execution)
    assert of(own=[run("a")], reordered=[again]) == Uncalibrated(CASE.id, CASE.tier, "no_noise")
    assert of(own=[failed("a")]) == Uncalibrated(CASE.id, CASE.tier, "failed", NO)
    assert describe_uncalibrated(of(own=[failed("a")])) == "subject_error: ValueError: no"


def test_the_quality_of_a_bound_follows_its_runs():
    others = [run(str(k), 1.0 + k / 100) for k in range(8)]
    assert ulps(of(own=[run("a")], reseeded=others)).quality is BoundQuality.SOUND
    assert ulps(of(own=[run("a")], reseeded=[*others, run("z", 2.5)])).quality is BoundQuality.FLAKY
    assert ulps(of(own=[run("a", 2.5)], reseeded=others)).quality is BoundQuality.BROKEN


def test_the_mean_error_is_compared_on_the_same_inputs_alone():
    errors = [1.0, 1.1, 0.9, 1.2]
    last_bit = [run(f"l{k}", error) for k, error in enumerate(errors)]
    found = of(own=[run("a")], reseeded=[run("b", 100.0)], last_bit=last_bit, reordered=[run("r", 1.3)])
    (mean_error,) = found.mean_errors
    assert mean_error.n == 6
    assert mean_error.deviation == pytest.approx(stdev(map(log, [1.0, *errors, 1.3])))
    assert mean_error.stands_out == pytest.approx(exp(3 * sqrt(2) * mean_error.deviation))


def test_of_few_runs_or_exact_ones_no_deviation_is_told():
    assert of(own=[run("a")], last_bit=[run("b"), run("c")]).mean_errors[0].deviation is None
    exact = [run(f"l{k}", 0.0) for k in range(8)]
    assert of(own=[run("a")], last_bit=exact).mean_errors[0].deviation is None


def test_the_longest_sum_stands_beside_the_largest_error_of_any_run():
    reordered = [run("r", 2.0, longest=(100, 24, False))]
    found = of(own=[run("a")], reseeded=[run("b", 4.0)], reordered=reordered)
    (known,) = found.sums
    assert (known.analytic.terms, known.analytic.measured) == (100, 4.0 / 8.0)
    assert of(own=[run("a")], reseeded=[run("b")]).no_sums == "unseen"
    golden = of(replace(CASE, role="golden"), own=[run("a")], reordered=reordered)
    assert (golden.sums, golden.no_sums) == ((), "golden")


def test_a_tolerance_that_lets_twice_the_reference_pass_is_vacuous():
    layers = (Layer("suite", HERE, {"rtol": 2.0, "atol": 0.0}),)
    found = of(replace(CASE, layers=layers), own=[run("a")], reseeded=[run("b")])
    assert isinstance(found, CaseCalibration)
    (elements,) = found.bounds
    assert (elements.quality, elements.proposal) == (BoundQuality.VACUOUS, {"rtol": 2.0, "atol": 0.0})
    assert elements.fault.limits == (("rtol", 2.0), ("match_ratio", 1.0))
