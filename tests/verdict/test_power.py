"""The smallest loss that would be caught: held to an independent integral, and to what the rule catches when drawn."""

from math import inf, log, sqrt
from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.baseline.entry import entry_from
from precreg.measure import groups as kept_groups
from precreg.measure.comparison import compare_arrays
from precreg.report.detection import describe_loss_reason
from precreg.types.case import STATISTIC, Bound
from precreg.types.outcome import AxisGroups, Execution, Outcome
from precreg.verdict.power import POWER, CasePower, PowerGap, detectable_log_ratio, detectable_losses, pairing_deviation
from precreg.verdict.regression import case_alpha, find_regressions, gather_evidence
from precreg.verdict.statistics.ratios import (
    INTERVAL_ALPHA,
    MEAN_MEASURES,
    TESTS_PER_OUTPUT,
    fresh_inputs_error,
    run_samples,
)
from precreg.verdict.statistics.uncertainty import StandardError, largest_standard_error, t_quantile
from tests.verdict.made import SOURCE, case, comparison, entry, tolerance

LEVEL = case_alpha(1)
STATISTICAL = replace(tolerance(), regression={STATISTIC: 0.02})
GROUPS = 16


def drawn(random, seeds, shape, scale=1.0):
    """Return comparisons of one axis: 16 groups of 10 errors with gamma distributed sums; nothing else is known."""
    return [_of_sums(seed, [scale * random.gammavariate(shape, 1e-6) for _ in range(GROUPS)]) for seed in range(seeds)]


def _of_sums(seed, sums):
    unknown = [None] * len(sums)
    groups = AxisGroups([10] * len(sums), sums, unknown, unknown, unknown, unknown)
    made = comparison(seed, mean_abs_error=sum(sums) / (10 * len(sums)))
    return replace(made, groups=(groups,), shape=(10 * len(sums),), reference_shape=(10 * len(sums),))


def accepted(comparisons, metrics=("mean_abs_error",)):
    """Return a baseline of comparisons, as it keeps their mean and their groups."""
    kept = entry(tuple(f"a{seed}" for seed in range(len(comparisons))))
    means = {name: [each.metrics[name] for each in comparisons] for name in ("ulp_scale", *metrics)}
    output = replace(kept.outputs["out"], shape=comparisons[0].shape, metrics=means)
    groups = {"out": kept_groups.keep_group_sums(comparisons, 1, None)}
    return replace(
        kept, inputs=[f"i{seed}" for seed in range(len(comparisons))], outputs={"out": output}, groups=groups
    )


def why_of(loss):
    return "" if loss.reason is None else describe_loss_reason(loss.reason)


def told(kept, given=STATISTICAL, *, level=LEVEL, alike=True, **fields):
    (loss,) = detectable_losses(
        case(**{"seeds": 9} | fields), kept, {"out": given}, alpha=level, same_environment=alike
    )
    return loss


def caught(current, kept, *, alike=True):
    one = gather_evidence(current, kept, STATISTICAL, "reference", same_environment=alike, alpha=LEVEL)
    return any(True for _ in find_regressions(one))


@pytest.mark.parametrize("tail", [2, 1000])
def test_the_loss_that_is_told_of_errors_with_tails_is_caught_about_nine_times_in_ten(tail):
    """Element by element: of tails the mean |d| knows most, without them the RMS error, whose spread is the run's."""

    def one(scale=1.0):
        errors = [scale * 1e-6 * np.abs(random.standard_t(tail, (GROUPS, 20))) for _ in range(3)]
        return [_of_errors(seed, each) for seed, each in enumerate(errors)]

    random = np.random.default_rng(tail)
    number, draws = 0, 150
    for _ in range(draws):
        kept = accepted(one(), ("mean_abs_error", "rms_error"))
        number += caught(one(told(kept).ratio), kept)
    assert 0.84 < number / draws < 0.99


def _of_errors(seed, errors):
    sums, squares, unknown = errors.sum(1), (errors**2).sum(1), [None] * GROUPS
    groups = AxisGroups([20] * GROUPS, sums.tolist(), unknown, squares.tolist(), unknown, unknown)
    made = comparison(seed, mean_abs_error=float(errors.mean()), rms_error=float((errors**2).mean() ** 0.5))
    counts = {"n": errors.size, "finite": errors.size}
    return replace(made, groups=(groups,), shape=(errors.size,), reference_shape=(errors.size,), counts=counts)


@pytest.mark.parametrize(("seeds", "shape"), [(3, 4.0), (1, 10.0)], ids=["48 samples", "16 samples"])
def test_the_loss_that_is_told_is_caught_nine_times_in_ten(seeds, shape):
    random = Random(2026)
    draws = 500
    number = 0
    for _ in range(draws):
        kept = accepted(drawn(random, seeds, shape))
        number += caught(drawn(random, seeds, shape, told(kept).ratio), kept)
    assert abs(number / draws - POWER) < 3 * sqrt(POWER * (1 - POWER) / draws) + 0.02


def test_no_loss_at_all_is_hardly_ever_caught():
    random = Random(7)
    found = sum(caught(drawn(random, 3, 4.0), accepted(drawn(random, 3, 4.0))) for _ in range(300))
    assert found <= 2  # two tests at a level of 4.5e-4 each: above 2 of 300 with a chance of 0.3 %


@pytest.mark.parametrize("freedom", [4, 9, 47])
@pytest.mark.parametrize(("material", "least"), [(-inf, -inf), (0.02, 0.0), (0.02, 0.6)])
def test_the_shift_that_is_needed_is_the_one_that_draws_of_the_model_ask_for(freedom, material, least):
    """A normal change of which the baseline's estimate of its error is known, drawn half a million times."""
    error, level, draws = 0.01, 1e-4, 500_000
    shift = detectable_log_ratio(StandardError(error, freedom + 1, 0), level, material, least)
    random = np.random.default_rng(freedom)
    true = error / np.sqrt(random.chisquare(freedom, draws) / freedom)
    change = shift + true * random.standard_normal(draws)
    caught = change > max(t_quantile(level, freedom) * error, least)
    caught &= change - t_quantile(INTERVAL_ALPHA / TESTS_PER_OUTPUT, freedom) * error > material
    assert caught.mean() == pytest.approx(POWER, abs=2e-3)


def test_without_any_spread_the_material_loss_is_caught():
    assert detectable_log_ratio(StandardError(0.0, 48, 0), LEVEL, log(1.02), 0.0) == log(1.02)
    assert detectable_log_ratio(StandardError(0.0, 48, 0), LEVEL, log(1.02), log(1.5)) == log(1.5)


def test_the_spread_of_two_draws_is_that_of_their_ratio():
    """The jackknife of the logarithm of a mean is near its coefficient of variation over the root of the samples."""
    random = Random(3)
    sums = [random.gammavariate(100.0, 1.0) for _ in range(GROUPS)]
    kept = accepted([_of_sums(0, sums)])
    mean = sum(sums) / GROUPS
    variation = sqrt(sum((each - mean) ** 2 for each in sums) / (GROUPS - 1)) / mean
    loss = told(kept)
    assert (loss.metric, loss.units, loss.axis) == ("mean_abs_error", GROUPS, 0)
    assert loss.error == pytest.approx(sqrt(2) * variation / sqrt(GROUPS), rel=0.01)


@pytest.mark.parametrize(("seeds", "shape"), [(1, (40, 3)), (3, (5, 1, 33)), (9, (2,))])
@pytest.mark.parametrize("shared", [0.0, 1.0], ids=["by elements", "by seeds"])
def test_the_spread_is_the_one_that_a_verdict_redraws(seeds, shape, shared):
    def measured(seed):
        random = np.random.default_rng([seed, *shape])
        errors = random.standard_normal(shape) * 1e-6 * np.exp(shared * random.standard_normal())
        return compare_arrays(
            1 + errors, np.ones(shape), seed=seed, output="out", rtol=1e-5, atol=1e-5, regions={}, worst=1
        )

    comparisons = [measured(seed) for seed in range(seeds)]
    execution = Execution(tuple(f"i{seed}" for seed in range(seeds)), {"out": ("a",) * seeds}, 1.0)
    kept = entry_from(Outcome("unit/s/a", "1:d", execution, tuple(comparisons)), "f00d", "c0")
    for measure in MEAN_MEASURES[:3]:
        judged = run_samples(measure, comparisons, kept.outputs["out"], kept.groups["out"])
        error, units, axis = largest_standard_error([fresh_inputs_error(each, measure) for each in judged])
        loss = told(kept, replace(tolerance(), regression={measure.metric: 0.1}))
        assert (loss.metric, loss.units, loss.axis) == (measure.metric, units, axis)
        assert loss.error == pytest.approx(error, rel=1e-9)


def test_groups_of_unequal_size_are_told_apart_from_errors_of_unequal_size():
    """20 elements in 16 groups: twelve groups of one element and four of two, every error the same."""
    n = [1, 1, 1, 2] * 4
    groups = AxisGroups(n, [float(each) for each in n], *[[None] * GROUPS] * 4)
    even = replace(comparison(0, mean_abs_error=1.0), groups=(groups,), shape=(20,), reference_shape=(20,))
    kept = accepted([even])
    assert told(kept).error < 1e-3
    assert told(kept).ratio == pytest.approx(1.02, abs=2e-3)


def test_more_seeds_catch_less_and_no_more_than_both_have():
    random = Random(5)
    kept = accepted(drawn(random, 4, 3.0))
    ratios = [told(kept, seeds=seeds).ratio for seeds in (1, 2, 4, 9)]
    assert ratios[0] > ratios[1] > ratios[2] == ratios[3]
    assert [told(kept, seeds=seeds).units for seeds in (1, 4, 9)] == [16, 64, 64]


def test_a_stricter_level_needs_a_larger_loss():
    kept = accepted(drawn(Random(5), 1, 3.0))
    assert told(kept, level=LEVEL / 1000).ratio > told(kept).ratio > 1.02


@pytest.mark.parametrize(("seeds", "why"), [(4, "fewer than 5 samples"), (5, "")])
def test_without_groups_seeds_are_the_samples_and_four_are_too_few(seeds, why):
    random = Random(1)
    kept = replace(accepted(drawn(random, seeds, 5.0)), groups={})
    loss = told(kept)
    assert why_of(loss) == why
    assert (loss.ratio is None, loss.units) == ((True, 0) if why else (False, 5))


def test_an_exact_output_needs_no_loss_worth_the_name():
    kept = entry(mean_abs_error=0.0)
    assert (told(kept).ratio, told(kept).rule, why_of(told(kept))) == (1.0, "hard", "exact: any error is detected")
    assert why_of(told(kept, alike=False)) == "exact: any error above 0.05 ULP is detected"


def test_of_what_is_declared_exact_any_other_bit_is_caught():
    loss = told(accepted(drawn(Random(5), 3, 4.0)), exact=True)
    assert (loss.ratio, loss.rule, why_of(loss)) == (1.0, "hard", "declared exact: any other bit is detected")


def test_a_scalar_has_too_few_samples():
    assert why_of(told(replace(entry(("a0",)), groups={}))) == "fewer than 5 samples"


def test_thresholds_are_not_asked_of_few_elements():
    few, enough = (replace(entry(), groups={}, outputs={"out": _of_length(length)}) for length in (7, 8))
    assert told(few, tolerance()).thresholds == {}
    assert told(few, tolerance(), role="golden").thresholds == {"match_ratio": 1.0}
    assert told(enough, tolerance()).thresholds["max_abs_error"] == 4.0


def _of_length(length):
    return replace(entry().outputs["out"], shape=(length,))


def test_what_a_whole_output_shares_is_a_sample_of_seeds():
    """Groups of one seed agree, and seeds do not: that few of them are needed to say so makes the loss a large one."""
    random = Random(8)
    shared = [drawn(random, 1, 1e6, scale)[0] for scale in (1.0, 1.5, 2.5)]
    loss = told(accepted([replace(each, seed=seed) for seed, each in enumerate(shared)]))
    assert (loss.axis, loss.units) == (None, 3)
    assert loss.ratio > 100


def test_a_spread_that_explains_everything_is_said_to():
    random = Random(8)
    shared = [drawn(random, 1, 1e6, scale)[0] for scale in (1.0, 5.0)]
    loss = told(accepted([replace(each, seed=seed) for seed, each in enumerate(shared)]))
    assert (loss.ratio, why_of(loss)) == (None, "any loss is within the baseline's own spread")


def test_where_the_statistic_is_off_a_threshold_is_told_and_without_one_nothing():
    kept = accepted(drawn(Random(5), 3, 4.0))
    off = told(kept, replace(tolerance(), regression={"max_abs_error": 3.0}))
    assert (off.ratio, why_of(off)) == (None, "the statistic is off")
    assert off.thresholds == {"max_abs_error": 4.0}
    threshold = told(kept, replace(tolerance(), regression={"mean_abs_error": 0.1}))
    assert (threshold.rule, threshold.metric) == ("guard", "mean_abs_error")
    assert threshold.ratio > 1.1


def test_what_catches_the_smaller_loss_is_told():
    kept = accepted(drawn(Random(5), 1, 1.0))
    both = replace(tolerance(), regression={STATISTIC: 0.02, "mean_abs_error": 0.1})
    assert told(kept).ratio > told(kept, both).ratio > 1.1
    assert told(kept, both).rule == "guard"


@pytest.mark.parametrize(
    ("dtype", "ulp_scale", "explained"),
    [
        ("float32", 1e-6, 1.5),
        ("float16", 1e-6, 1.1),
        ("bfloat16", 1e-6, 1.1),
        ("int32", 1e-6, 1.5),
        pytest.param("float16", 4e-4, 1.5, id="half of an error is 0.05 ULP"),
    ],
)
def test_elsewhere_only_what_another_environment_does_not_explain_is_caught_as_in_a_verdict(
    dtype, ulp_scale, explained
):
    def elsewhere(scale=1.0):
        every = drawn(random, 3, 400.0, scale)
        return [replace(each, dtype=dtype, metrics=each.metrics | {"ulp_scale": ulp_scale}) for each in every]

    random = Random(11)
    number, draws = 0, 200
    for _ in range(draws):
        kept = accepted(elsewhere())
        kept = replace(kept, outputs={"out": replace(kept.outputs["out"], dtype=dtype)})
        loss = told(kept, alike=False).ratio
        assert 0.98 * explained < loss < 1.2 * explained
        number += caught(elsewhere(loss), kept, alike=False)
    assert abs(number / draws - POWER) < 3 * sqrt(POWER * (1 - POWER) / draws) + 0.02


def test_where_runs_need_not_repeat_seeds_are_a_sample_too_and_four_are_too_few():
    few, enough = (accepted(drawn(Random(5), seeds, 4.0)) for seeds in (4, 6))
    loss = told(few, deterministic=False)
    assert (loss.ratio, why_of(loss)) == (
        None,
        "runs may differ, and a baseline of fewer than 5 seeds has no spread",
    )
    assert told(enough, deterministic=False).ratio > told(enough).ratio
    assert (told(enough, deterministic=False).units, told(enough).units) == (6, 96)


def by_chance(random, seeds, scale=1.0):
    """Return comparisons of two runs, of which chance makes each seed larger or smaller as a whole."""
    every = [drawn(random, 1, 100.0, scale * random.gammavariate(100.0, 0.01))[0] for _ in range(seeds)]
    return [replace(each, seed=seed, runs=(each.metrics, each.metrics)) for seed, each in enumerate(every)]


@pytest.mark.parametrize("seeds", [6, 20])
def test_where_runs_need_not_repeat_about_nine_in_ten_are_caught_too(seeds):
    """The error is the run's own there, so that less is known of it: 84 % of six seeds and 90 % of twenty."""
    random = Random(21)
    number, draws = 0, 300
    for _ in range(draws):
        kept = accepted(by_chance(random, seeds))
        number += caught(by_chance(random, seeds, told(kept, deterministic=False, seeds=seeds).ratio), kept)
    assert 0.77 < number / draws < 0.96


@pytest.mark.parametrize("freedom", [9, 47])
def test_a_paired_error_is_off_from_a_redrawn_one_by_about_what_is_said(freedom):
    baseline, run = np.random.default_rng(freedom).standard_normal((2, 20_000, freedom + 1))
    off = np.log((run - baseline).std(1, ddof=1) / (sqrt(2) * baseline.std(1, ddof=1)))
    assert off.std() == pytest.approx(pairing_deviation(StandardError(1.0, freedom + 1, None)), rel=0.1)


def test_what_chance_may_do_to_matches_with_a_golden_is_no_loss_by_itself():
    kept = accepted(drawn(Random(5), 6, 4.0))
    assert "match_ratio" not in told(kept, role="golden", deterministic=False).thresholds


def test_bounds_and_what_is_lost_of_a_golden_are_named():
    kept = accepted(drawn(Random(5), 3, 4.0))
    given = replace(tolerance(max_ulp=4), regression={STATISTIC: 0.02, "max_abs_error": 3.0, "mean_rel_error": 0.5})
    assert told(kept, given).bounds == ("match_ratio", "max_ulp")
    assert told(kept, given).thresholds == {"max_abs_error": 4.0, "mean_rel_error": 1.5}
    assert told(kept, given, role="golden").thresholds == {"match_ratio": 1.0, "mean_rel_error": 1.5}


def test_an_alternative_that_must_hold_is_a_bound():
    kept = accepted(drawn(Random(5), 3, 4.0))
    given = replace(STATISTICAL, alternatives=((Bound("mean_ulp", 64.0, "suite", SOURCE),),))
    assert told(kept, given).bounds == ("match_ratio", "mean_ulp")


def test_the_worst_output_is_that_of_the_case():
    known = told(accepted(drawn(Random(5), 3, 4.0)))
    assert CasePower("a", (known, replace(known, ratio=3.0))).worst == 3.0
    assert CasePower("a", (known, replace(known, ratio=None))).worst is None
    assert CasePower("a", gap=PowerGap("no_baseline")).worst is None
