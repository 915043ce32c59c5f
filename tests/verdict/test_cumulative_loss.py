"""Losses that add up: each too small to be refused, their product beyond what is allowed."""

from math import exp, log, prod, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.types.case import Location
from precreg.types.record import AcceptedValue
from precreg.types.warning import FindingKind
from precreg.verdict.limits import ROUNDING_FLOOR_ULP
from precreg.verdict.whole_run import cumulative_loss_finding, cumulative_losses
from tests.verdict.made import METRICS, entry

FILE = Location("baselines/generic/unit/s.json")
SURE = {"out": {"mean_abs_error": 0.0}}


def value(error, number=0, definition="1:d", reach=None, seeds=2, metric="mean_abs_error"):
    told = f"2026-11-{number + 1:02}", "Ada", f"c{number}", f"reason {number}"
    means = {"out": {metric: [error] * seeds}}
    return AcceptedValue(*told, definition, means, {"out": {metric: 0.0}} if reach is None else reach)


def crept(*errors, reach=None, **others):
    """Return an entry with a past: what was accepted, oldest first, and last what is."""
    *before, now = errors
    past = [value(error, number, reach=reach, **others) for number, error in enumerate(before)]
    return replace(entry(mean_abs_error=now), accepted=past, reach=SURE if reach is None else reach)


def found(of, budget=1.25):
    return cumulative_loss_finding("unit/s/a", of, {"out": budget}, FILE)


def test_twelve_losses_of_less_than_two_percent_are_a_finding_though_each_is_too_small():
    errors = [1e-6 * 1.019**step for step in range(13)]
    assert found(crept(*errors[:-1])) is None
    finding = found(crept(*errors))
    assert (finding.kind, finding.about, finding.source, finding.binding) == (FindingKind.CREEP, "unit/s/a", FILE, True)
    assert finding.factor == pytest.approx(1.019**12)
    grown = pytest.approx(1.019**12)
    assert (finding.fact.output, finding.fact.metric) == ("out", "mean_abs_error")
    assert (finding.fact.factor, finding.fact.lower, finding.fact.allowed) == (grown, grown, 1.25)
    assert (finding.fact.before, finding.fact.current) == (1e-6, errors[-1])
    assert (finding.fact.date, finding.fact.reason, finding.fact.steps) == ("2026-11-01", "reason 0", 12)


ratios = st.lists(st.floats(0.5, 2.0), min_size=1, max_size=30)


@given(ratios)
def test_the_factor_is_the_largest_product_of_the_last_changes(ratios):
    errors = [1e-3]
    for ratio in ratios:
        errors.append(errors[-1] * ratio)
    products = [prod(ratios[start:]) for start in range(len(ratios))]
    largest = [one.factor for one in cumulative_losses(crept(*errors), {}) if one.metric == "mean_abs_error"]
    if max(products) > 1 + 1e-9:
        assert largest == [pytest.approx(max(products))]
    elif max(products) < 1 - 1e-9:
        assert largest == []


def test_a_gain_that_is_lost_again_little_by_little_is_seen():
    assert found(crept(2e-6, 1e-6, 1.2e-6, 1.4e-6)).factor == pytest.approx(1.4)


def test_a_loss_that_is_large_alone_was_accepted_for_what_it_is_and_creep_begins_after_it():
    assert found(crept(1e-6, 1.3e-6)) is None
    assert found(crept(1e-6, 1.2e-6, 3e-6, 3.6e-6)) is None
    assert found(crept(1e-6, 1.2e-6, 3e-6, 3.6e-6, 4.2e-6)).factor == pytest.approx(1.4)
    assert found(crept(1e-6, 1.24e-6, 1.26e-6)).factor == pytest.approx(1.26), "the last step alone is small"


def test_a_small_budget_makes_no_loss_a_large_one():
    assert found(crept(1e-6, 1.1e-6), budget=1.05).factor == pytest.approx(1.1)
    assert found(crept(1e-6, 1.3e-6), budget=1.05) is None
    assert found(crept(1e-6, 1.3e-6, 2e-6), budget=1.6).factor == pytest.approx(2.0)


def test_a_loss_that_may_be_noise_is_not_large_and_small_ones_that_are_kept_as_one_are_not_either():
    unsure = {"out": {"mean_abs_error": 0.2}}
    assert found(crept(1e-6, 1.5e-6, 2.2e-6, reach=unsure)).factor == pytest.approx(2.2)
    thinned = crept(1e-6, 1.4e-6, 1.5e-6)
    first, last = thinned.accepted
    assert found(thinned) is None
    assert found(replace(thinned, accepted=[first, replace(last, steps=9)])).factor == pytest.approx(1.5)


def test_a_loss_that_was_made_good_is_none():
    assert found(crept(1e-6, 2e-6, 1e-6)) is None


def test_an_output_that_no_budget_names_may_creep():
    assert cumulative_loss_finding("unit/s/a", crept(1e-6, 9e-6), {}, FILE) is None


def test_what_is_most_beyond_its_own_budget_is_told():
    one = crept(1e-6, 1.2e-6)
    both = replace(
        one,
        outputs={**one.outputs, "loss": replace(one.outputs["out"], metrics={"mean_ulp": [1.24, 1.24]})},
        accepted=[replace(one.accepted[0], means=one.accepted[0].means | {"loss": {"mean_ulp": [1.0, 1.0]}})],
        reach=SURE | {"loss": {"mean_ulp": 0.0}},
    )
    assert cumulative_loss_finding("unit/s/a", both, {"out": 1.1, "loss": 1.1}, FILE).fact.output == "loss"
    assert cumulative_loss_finding("unit/s/a", both, {"out": 1.1, "loss": 1.2}, FILE).fact.output == "out"


def test_a_step_that_noise_explains_adds_nothing_and_one_beyond_it_does():
    unsure = {"out": {"mean_abs_error": log(1.5)}}
    assert found(crept(1e-6, 1.8e-6, reach=unsure)) is None
    assert found(crept(1e-6, 1.45e-6, 1.9e-6, reach={"out": {"mean_abs_error": 0.2}})).factor == pytest.approx(1.9)


def test_doubts_of_several_steps_add_in_squares():
    unsure = {"out": {"mean_abs_error": 0.1}}
    (one,) = (
        each
        for each in cumulative_losses(crept(1e-6, 2e-6, 4e-6, 8e-6, reach=unsure), {})
        if each.metric == "mean_abs_error"
    )
    assert (one.factor, one.lower, one.steps) == (pytest.approx(8), pytest.approx(8 * exp(-0.1 * sqrt(3))), 3)


def test_the_value_counts_that_the_present_one_is_most_surely_above():
    unsure = {"out": {"mean_abs_error": 0.2}}
    (one,) = (
        each for each in cumulative_losses(crept(1e-6, 1e-6, 2e-6, reach=unsure), {}) if each.metric == "mean_abs_error"
    )
    assert (one.steps, one.reason) == (1, "reason 1")


@pytest.mark.parametrize("reach", [{}, {"out": {"rms_error": 0.0}}])
def test_without_enough_samples_no_creep_is_proven(reach):
    entry = crept(1e-6, 9e-6, reach=reach)
    assert found(entry) is None
    assert next(iter(cumulative_losses(entry, {}))).lower == 0


def test_values_of_another_definition_are_not_compared():
    assert found(crept(1e-6, 9e-6, definition="1:other")) is None


def test_of_two_numbers_of_seeds_those_that_both_have_are_compared():
    past = replace(value(1e-6), means={"out": {"mean_abs_error": [1e-6]}})
    now = entry()
    metrics = now.outputs["out"].metrics | {"mean_abs_error": [1e-6, 9e-6]}
    grown = replace(now, outputs={"out": replace(now.outputs["out"], metrics=metrics)}, accepted=[past], reach=SURE)
    assert found(grown) is None
    fewer = replace(grown, accepted=[replace(past, means={"out": {"mean_abs_error": [0.5e-6, 9e-6, 9e-6]}})])
    assert found(fewer) is None, "the seeds that both have are as they were"


def test_growth_below_the_rounding_floor_is_no_loss():
    floor = ROUNDING_FLOOR_ULP * METRICS["ulp_scale"]
    assert found(crept(0.0, floor)) is None
    assert found(crept(1e-30, 1.05 * floor), budget=1.1) is None
    assert found(crept(0.0, 1.2 * floor), budget=1.1).factor == pytest.approx(1.2)
    assert found(crept(0.01, 9.0, metric="mean_ulp")) is None, "the mean ULP of the entry is 0.5, as it was"


def test_a_logarithm_of_ulps_tells_a_ratio_by_its_difference():
    past = replace(value(1.0, metric="mean_log2_ulp"), means={"out": {"mean_log2_ulp": [-1.0, -1.0]}})
    grown = replace(entry(mean_log2_ulp=-0.75), accepted=[past], reach={"out": {"mean_log2_ulp": 0.0}})
    assert found(grown, budget=1.1).factor == pytest.approx(2**0.25)
