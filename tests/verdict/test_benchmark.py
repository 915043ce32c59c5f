"""Which of two results is nearer to their reference, and the rule of regressions between them."""

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.baseline.entry import entry_from
from precreg.measure.comparison import compare_arrays
from precreg.tolerance.pyramid import SHIPPED_LAYERS, resolve_tolerance
from precreg.types.case import GAIN, growth_key
from precreg.types.outcome import Execution, Outcome
from precreg.types.pair import BenchmarkDifference
from precreg.types.verdict import Reason, Status
from precreg.verdict.benchmark import benchmark_difference, judge_pair_by_benchmark
from precreg.verdict.regression import case_alpha
from precreg.verdict.statistics.ratios import INTERVAL_ALPHA

REFERENCE = np.linspace(1, 2, 64 * 64).reshape(64, 64)
TOLERANCE = resolve_tolerance(SHIPPED_LAYERS, "out", "float32", ())
LOOSE = replace(TOLERANCE, bounds=())


def off(size, seed=0, dtype="float32", reference=REFERENCE):
    """Return results with normal errors of `size` roundoffs of float32."""
    noise = np.random.default_rng(seed).normal(size=reference.shape)
    return (reference * (1 + size * np.finfo("float32").eps * noise)).astype(dtype)


def measured(array, reference=REFERENCE):
    return compare_arrays(array, reference, output="out", rtol=1e-5, atol=1e-5)


def entry(comparison):
    return entry_from(Outcome("out", "", Execution(outputs={"out": ("d",)}), (comparison,)), "", "")


def judged(actual, benchmark, tolerance=LOOSE, role="reference"):
    own, other = measured(actual), measured(benchmark)
    return judge_pair_by_benchmark(own, tolerance, role, entry(other), problem="", alpha=case_alpha(1))


def difference(actual, benchmark, reference=REFERENCE, same_bits=False):
    own, other = measured(actual, reference), measured(benchmark, reference)
    return benchmark_difference(own, other, entry(other), same_bits=same_bits)


@pytest.mark.parametrize(
    ("size", "seed", "reason", "nearer"),
    [
        (31.6, 0, Reason.REGRESSED, "benchmark"),
        (12, 0, Reason.IMPROVED, "actual"),
        (31.6, 1, Reason.REGRESSED, "benchmark"),
        (12, 1, Reason.IMPROVED, "actual"),
        (20, 1, Reason.WITHIN_TOLERANCE, "none"),
        (20.2, 0, Reason.WITHIN_TOLERANCE, "benchmark"),
    ],
)
def test_the_rule_and_the_nearer_side(size, seed, reason, nearer):
    """A growth of 1 % is shown where the noise is the same, and is no relevant one (2 %)."""
    verdict, found = judged(off(size, seed), off(20)), difference(off(size, seed), off(20))
    assert verdict.reason is reason
    assert verdict.status is (Status.FAILED if reason is Reason.REGRESSED else Status.PASSED)
    assert found.nearer == nearer
    first = found.ratios[0]
    assert first.metric == "mean_abs_error"
    assert first.ratio == pytest.approx(size / 20, rel=0.05)
    assert first.lower <= first.ratio <= first.upper
    for finding in verdict.findings:
        assert (finding.output, finding.seed) == ("", None)
        assert getattr(finding.fact, "judge", "benchmark") == "benchmark"


def test_the_interval_covers_the_ratio_of_independent_errors():
    """Simulated: over 200 draws of equal sizes, a side is wrongly called nearer in at most the level's share."""
    level, draws = INTERVAL_ALPHA, 200
    wrong = sum(difference(off(20, 2 * k), off(20, 2 * k + 1)).nearer != "none" for k in range(draws))
    # Two sides, and four standard errors of the count.
    assert wrong <= 2 * level * draws + 4 * (2 * level * draws) ** 0.5


def test_a_broken_bound_is_the_worse_reason_and_the_loss_stays():
    strict = replace(TOLERANCE, bounds=(replace(TOLERANCE.bounds[0], metric="max_abs_error", limit=0.0),))
    verdict = judged(off(31.6), off(20), strict)
    assert verdict.reason is Reason.OUT_OF_TOLERANCE
    assert {finding.reason for finding in verdict.findings} == {Reason.OUT_OF_TOLERANCE, Reason.REGRESSED}
    assert {finding.reason for finding in judged(off(12), off(20), strict).findings} == {Reason.OUT_OF_TOLERANCE}


def test_an_exact_side():
    exact = REFERENCE.astype("float32").astype("float64")
    near = exact * (1 + 1e-6)

    def compare(actual, benchmark):
        own, other = (compare_arrays(each, exact, output="out", rtol=1, atol=1) for each in (actual, benchmark))
        verdict = judge_pair_by_benchmark(own, LOOSE, "reference", entry(other), problem="", alpha=case_alpha(1))
        return verdict.reason, benchmark_difference(own, other, entry(other), same_bits=False).nearer

    assert compare(near, exact) == (Reason.REGRESSED, "benchmark")
    assert compare(exact, near) == (Reason.IMPROVED, "actual")
    assert compare(exact, exact) == (Reason.IDENTICAL, "none")


def test_another_dtype_is_no_figure_of_the_rule_and_its_ulps_are_no_figure_at_all():
    verdict = judged(off(20, dtype="float16"), off(20))
    assert (verdict.status, verdict.reason) == (Status.FAILED, Reason.DTYPE_MISMATCH)
    found = difference(off(20, dtype="float16"), off(20))
    assert [ratio.metric for ratio in found.ratios] == ["mean_abs_error", "rms_error"]
    assert found.nearer == "benchmark"


def test_too_few_elements_for_an_interval():
    few = REFERENCE[0, :3]
    found = difference(off(31.6, reference=few), off(20, reference=few), few)
    assert found.nearer == "unknown"
    (only,) = found.ratios
    assert only.ratio == pytest.approx(only.actual / only.benchmark)
    assert (only.lower, only.upper) == (None, None)


def test_every_finding_names_the_benchmark_as_its_judge():
    """Also those of the rules for small outputs, for exactness and for thresholds of gains."""

    def judges(actual, benchmark, reference, tolerance=LOOSE):
        own, other = (compare_arrays(each, reference, output="out", rtol=1, atol=1) for each in (actual, benchmark))
        verdict = judge_pair_by_benchmark(own, tolerance, "reference", entry(other), problem="", alpha=case_alpha(1))
        return {(type(each.fact).__name__, each.fact.judge) for each in verdict.findings}

    few = REFERENCE[0, :1]
    assert judges(few * 1.36, few * 1.001, few) == {("SmallOutputGrew", "benchmark")}
    exact = REFERENCE.astype("float32").astype("float64")
    assert judges(exact, exact * (1 + 1e-6), exact) == {("ExactnessGained", "benchmark")}
    gains = replace(LOOSE, regression={}, directions={growth_key("max_abs_error", GAIN): 0.5})
    assert judges(off(5), off(20), REFERENCE, gains) == {("MetricImproved", "benchmark")}


def test_two_averages_that_disagree():
    """Many elements are better, and a few far worse: neither side is nearer."""
    rows = np.random.default_rng(3).random(REFERENCE.shape) < 0.2
    mixed = np.where(rows, off(400, 5), off(4, 6))
    assert difference(mixed.astype("float32"), off(20)).nearer == "mixed"


def test_equal_bits_and_sides_without_errors():
    assert difference(off(20), off(20), same_bits=True) == BenchmarkDifference("same_bits")
    own = replace(measured(off(20)), metrics={})
    assert benchmark_difference(own, measured(off(20)), entry(measured(off(20))), same_bits=False) is None


def test_without_a_benchmark_nothing_passes():
    own = measured(off(20))
    verdict = judge_pair_by_benchmark(own, LOOSE, "reference", None, problem="none there", alpha=case_alpha(1))
    assert (verdict.status, verdict.reason) == (Status.ERROR, Reason.BENCHMARK_ERROR)
    assert [finding.message for finding in verdict.findings] == ["none there"]


def test_an_output_that_cannot_be_measured_is_not_compared():
    actual = off(20)
    actual[0, 0] = np.nan
    assert judged(actual, off(20)).reason is Reason.NON_FINITE_MISMATCH


def test_a_threshold_on_a_maximum():
    """One element that is 100 times worse moves no average beyond noise, and the largest error beyond 4 times."""
    actual = off(20)
    actual[7, 7] = REFERENCE[7, 7] * (1 + 3e-4)
    (finding,) = judged(actual, off(20)).findings
    assert (finding.reason, finding.metric, finding.rule) == (Reason.REGRESSED, "max_abs_error", "guard")
    assert finding.fact.judge == "benchmark"


def test_a_golden_loses_no_match():
    golden = REFERENCE.astype("float32")
    tolerance = replace(LOOSE, regression={})
    benchmark, actual = golden.copy(), golden.copy()
    benchmark[0, :2] += 1
    actual[0, :3] += 1
    own, other = (compare_arrays(each, golden, output="out", rtol=0, atol=0) for each in (actual, benchmark))
    verdict = judge_pair_by_benchmark(own, tolerance, "golden", entry(other), problem="", alpha=case_alpha(1))
    assert (verdict.reason, verdict.findings[0].metric) == (Reason.REGRESSED, "match_ratio")
