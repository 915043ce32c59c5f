"""Evidence beyond averages: heavy tails, maxima of many seeds, outputs of a few elements, gains, correct rounding."""

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.measure.comparison import compare_arrays
from precreg.types.record import Environment
from precreg.types.verdict import MaximaGrew, RatioMoved, Reason, RoundingLost, SmallOutputGrew, Status
from precreg.verdict.judge import Policy, judge_case
from precreg.verdict.limits import (
    HEAVY_TAIL_RATIO,
    MIN_ELEMENTS,
    SMALL_OUTPUT_RATIOS,
    maximum_findings,
    small_output_findings,
)
from precreg.verdict.statistics import error_ratios
from tests.verdict.drawn import FINGERPRINT, accepted, errors, outcome, tolerance
from tests.verdict.made import case, comparison, entry

HERE = Environment("cpu-x86_64", ("cpu-x86_64", "cpu", "generic"), FINGERPRINT, {})
ELSEWHERE = Environment("cpu-x86_64", ("cpu-x86_64", "cpu", "generic"), "beef", {})


def verdict(now, then=errors, *, environment=HERE, seeds=3, baseline=None):
    found = baseline or accepted(outcome(then, seeds))
    on = outcome(now, seeds, name="b")
    return judge_case(case(), on, {"out": tolerance()}, found, environment, Policy(baselines=600))


def heavy(seed, scale=1.0):
    """Return errors of which one element of each row and column has its own power of ten."""
    sizes = 10 ** np.random.default_rng([seed, 5]).uniform(-1.5, 1.5, (16, 16))
    return scale * sizes * errors(seed, shape=(16, 16))


def test_a_loss_in_most_groups_fails_though_the_interval_of_the_average_is_useless():
    def worse(seed):
        return heavy(seed) * 10 ** np.abs(np.random.default_rng([seed, 6]).normal(0, 3, (16, 16)))

    given = verdict(worse, heavy)
    assert given.reason is Reason.REGRESSED
    (found,) = (each for each in given.findings if each.metric == "rms_error")
    assert found.fact == RatioMoved(typical=True)
    assert found.lower > 1.02


def one_near_zero(ulps):
    """Return an outcome of correctly rounded elements, apart from one near zero, which is off by so many ULP."""
    given = outcome(lambda seed: np.zeros((16, 16)), 1, name=str(ulps))
    rng = np.random.default_rng(4)
    actual = np.float32(rng.uniform(1, 2, (16, 16)))
    reference = actual + 2.0**-23 * rng.uniform(-0.5, 0.5, (16, 16))
    actual[3, 5], reference[3, 5] = 2.0**-60 * (1 + ulps * 2.0**-23), 2.0**-60
    return replace(given, comparisons=(compare_arrays(actual, reference, seed=0, rtol=1, atol=1),))


@pytest.mark.parametrize(("times", "fails"), [(456_805, True), (120_000, True), (80_000, False)])
def test_a_mean_that_one_element_makes_fails_by_its_ratio(times, fails):
    """A mean ULP of 456,805 times, with an interval from 0 to 1e17 and more, passed without a word."""
    before, now = one_near_zero(1e6), one_near_zero(1e6 * times)
    found = accepted(before)
    given = judge_case(case(), now, {"out": tolerance()}, found, HERE, Policy(baselines=600))
    (ratio,) = (
        each
        for each in error_ratios(now.comparisons, found.entry.outputs["out"], found.entry.groups["out"])
        if each.metric == "mean_ulp"
    )
    assert ratio.upper > 1e17 * ratio.lower
    assert (given.reason is Reason.REGRESSED) is fails
    if fails:
        (finding,) = given.findings
        assert (finding.metric, finding.rule, finding.limit) == ("mean_ulp", "guard", HEAVY_TAIL_RATIO)
        assert finding.ratio == pytest.approx(times, rel=0.01)
    elsewhere = judge_case(case(), now, {"out": tolerance()}, found, ELSEWHERE, Policy(baselines=600))
    assert elsewhere.reason is Reason.WITHIN_TOLERANCE


def test_a_heavy_tail_that_is_no_worse_is_reported_in_few_of_many_redraws():
    """Each redraw has an alarm with a probability below 2e-4 by the levels of the case."""
    failed = 0
    for draw in range(60):
        given = verdict(
            lambda seed, draw=draw: heavy(seed + 1000 + 3 * draw), lambda seed, draw=draw: heavy(seed - 0 + 3 * draw)
        )
        failed += given.status is Status.FAILED
    assert failed <= 1


def test_a_shared_sign_of_a_whole_output_is_no_evidence_of_its_groups():
    """All groups of a seed move together by chance: three seeds that agree by chance are no 48 groups that do."""

    def moved(seed):
        return heavy(seed) * 10.0 ** (1 + 2 * seed)

    ratios = {
        each.metric: each
        for each in error_ratios(
            outcome(moved).comparisons,
            accepted(outcome(heavy)).entry.outputs["out"],
            accepted(outcome(heavy)).entry.groups["out"],
        )
    }
    assert ratios["rms_ulp"].axis is None, "the seeds are the sample"
    assert ratios["rms_ulp"].p_value > 1e-3


def scalars(value, seeds, name="a"):
    """Return an outcome of float32 scalars that are so many ULP off."""
    given = outcome(lambda seed: np.zeros(()), seeds, name)
    actual, off = np.float32(1.5), value * 2.0**-23
    compared = (compare_arrays(actual, 1.5 - off * (1 + seed / 8), seed=seed, rtol=1, atol=1) for seed in range(seeds))
    return replace(given, comparisons=tuple(compared))


def scalar_verdict(now, before, seeds, environment=HERE):
    found = accepted(scalars(before, seeds))
    return judge_case(case(), scalars(now, seeds, "b"), {"out": tolerance()}, found, environment, Policy(baselines=600))


@pytest.mark.parametrize(
    ("seeds", "before", "now", "fails"),
    [
        (3, 1.4, 507.0, True),  # 362 times
        (1, 1.4, 507.0, True),
        (1, 0.28, 505.0, True),  # 1,806 times
        (3, 0.1, 0.5, False),
        (3, 1.0, 5.0, False),
        (1, 1.0, 250.0, False),
        (3, 0.01, 4.0, False),  # 400 times as much as a lucky result, and 8 times half an ULP
        (4, 1.0, 12.0, True),
    ],
)
def test_a_scalar_fails_by_its_ratio_and_its_ulps(seeds, before, now, fails):
    given = scalar_verdict(now, before, seeds)
    assert (given.reason is Reason.REGRESSED) is fails
    if fails:
        assert {each.fact for each in given.findings} == {SmallOutputGrew(1, seeds)}
        assert {each.rule for each in given.findings} == {"guard"}


def test_a_small_output_is_not_judged_by_ratios_elsewhere_nor_a_large_one_anywhere():
    assert scalar_verdict(507.0, 1.4, 3, ELSEWHERE).reason is Reason.WITHIN_TOLERANCE
    accepted_one = entry(mean_ulp=1.0).outputs["out"]
    one = replace(comparison(mean_ulp=500.0), shape=(MIN_ELEMENTS,))
    assert [*small_output_findings([one, one], accepted_one)] == []
    assert [*small_output_findings([replace(one, shape=(MIN_ELEMENTS - 1,))] * 2, accepted_one)] != []


def test_noise_alone_exceeds_the_ratios_of_small_outputs_once_in_500_times():
    generator = np.random.default_rng(0)
    for seeds, limit in enumerate(SMALL_OUTPUT_RATIOS, 1):
        now, then = np.abs(generator.standard_normal((2, 400_000, seeds))).sum(-1)
        assert 0.001 < np.mean(now > limit * then) < 0.0025


def maxima(values):
    return [comparison(seed, max_abs_error=value) for seed, value in enumerate(values)]


def kept(values):
    found = entry(digests=tuple("abcdefghijklmnopqrstuvwxyz"[: len(values)])).outputs["out"]
    return replace(found, metrics=found.metrics | {"max_abs_error": list(values)})


def test_maxima_of_many_seeds_above_every_one_of_the_baseline_are_a_loss():
    then = [1e-3 * (1 + seed / 100) for seed in range(24)]
    (found,) = maximum_findings(maxima([1.5 * value for value in then]), kept(then), 1e-5, 0.05)
    assert found.fact == MaximaGrew(24, 24)
    few = [3 * value if seed < 16 else value for seed, value in enumerate(then)]
    assert [*maximum_findings(maxima(few), kept(then), 1e-5, 0.05)] == [], "2^-16 is above 1e-5"
    little = [1.04 * value for value in then]
    assert [*maximum_findings(maxima(little), kept(then), 1e-5, 0.05)] == []


def test_the_level_of_maxima_holds_by_simulation():
    """Sides that may change places at each seed: heavy tails, and seeds of different difficulty."""
    generator, alpha, alarms = np.random.default_rng(1), 0.1, 0
    for _ in range(2000):
        difficulty = 10 ** generator.uniform(0, 0.3, 12)
        now, then = difficulty * (1 + generator.pareto(1.5, (2, 12)))
        alarms += bool([*maximum_findings(maxima(now * 1e-3), kept(then * 1e-3), alpha, 0.0)])
    assert alarms <= 2000 * alpha


@pytest.mark.parametrize("metric", ["mean_log2_ulp", "rms_error"])
def test_a_gain_of_any_average_is_improved(metric):
    def gained(seed):
        error = errors(seed)
        large = np.abs(error) > np.quantile(np.abs(error), 0.5)
        # The larger half makes the RMS error, and the smaller half most of the logarithms.
        return np.where(large if metric == "rms_error" else ~large, 0.6 * error, error)

    given = verdict(gained)
    assert given.reason is Reason.IMPROVED
    ratios = error_ratios(
        outcome(gained).comparisons,
        accepted(outcome(errors)).entry.outputs["out"],
        accepted(outcome(errors)).entry.groups["out"],
    )
    assert {each.metric: each for each in ratios}[metric].upper < 1


def test_a_gain_of_another_average_than_the_mean_error_is_improved():
    def gained(seed):
        error = errors(seed)
        small = np.abs(error) < np.quantile(np.abs(error), 0.1)
        return np.where(small, error / 64, error)

    (finding,) = verdict(gained).findings
    assert (finding.reason, finding.metric) == (Reason.IMPROVED, "mean_log2_ulp")


def test_errors_that_point_away_from_zero_are_a_loss_though_neither_size_nor_mean_grew():
    signs = np.where(np.arange(48) % 2, 1.0, -1.0)

    def compared(sign):
        def one(seed):
            return np.abs(errors(seed)) * sign(seed)

        return one

    def random(seed):
        return np.sign(np.random.default_rng([seed, 7]).standard_normal((32, 48)))

    now, then = outcome(compared(lambda seed: signs)), outcome(compared(random))

    # The references of these outcomes are positive, so that the group sums are exchanged: outward for signed.
    def turned(given):
        return replace(
            given,
            comparisons=tuple(
                replace(
                    each,
                    groups=tuple(replace(axis, outward=axis.absolute) for axis in each.groups),
                    metrics=each.metrics | {"outward_bias": each.metrics["mean_abs_error"]},
                )
                for each in given.comparisons
            ),
        )

    entry_then = accepted(then).entry
    ratios = error_ratios(turned(now).comparisons, entry_then.outputs["out"], entry_then.groups["out"])
    (outward,) = (each for each in ratios if each.metric == "outward_bias")
    assert outward.lower > 1.2
    assert outward.p_value < 1e-9


def test_fewer_correctly_rounded_elements_are_reported_and_fail_nothing():
    def with_share(share):
        given = outcome(errors, name="b" if share < 1 else "a")
        return replace(
            given,
            comparisons=tuple(
                replace(each, metrics=each.metrics | {"equal_share": share - seed / 100})
                for seed, each in enumerate(given.comparisons)
            ),
        )

    found = judge_case(case(), with_share(0.9), {"out": tolerance()}, accepted(with_share(1.0)), HERE, Policy())
    assert found.reason is Reason.WITHIN_TOLERANCE
    (lost,) = found.findings[0].fact.rounding
    assert lost == RoundingLost("out", pytest.approx(0.99), pytest.approx(0.89), 3, 0.125)


def test_a_baseline_without_the_newer_figures_judges_by_what_it_has():
    kept_now = accepted(outcome(errors))
    entry_then = kept_now.entry
    out = entry_then.outputs["out"]
    older = replace(
        entry_then,
        outputs={
            "out": replace(
                out,
                metrics={
                    name: values for name, values in out.metrics.items() if name not in ("rms_ulp", "outward_bias")
                },
            )
        },
        groups={"out": [replace(axis, outward=[], squared_ulps=[]) for axis in entry_then.groups["out"]]},
    )
    given = verdict(lambda seed: 1.1 * errors(seed), baseline=replace(kept_now, entry=older))
    assert given.reason is Reason.REGRESSED
    assert {each.metric for each in given.findings} == {"mean_abs_error", "rms_error", "mean_ulp", "mean_log2_ulp"}
