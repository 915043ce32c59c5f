"""The step from one accepted value to the next is the change that a run was judged by, made of what baselines keep."""

from math import log

import pytest
from msgspec.structs import replace

from precreg.measure.groups import GROUP_SUMS
from precreg.types.record import KeptSums
from precreg.verdict.statistics.ratios import MEAN_MEASURES, error_ratios, error_ratios_between, half_widths
from tests.verdict.drawn import accepted, errors, outcome

ONE = [KeptSums(1.0, "//")]


def worse(seed):
    return errors(seed, scale=1.3, shared=0.4, draw=1)


def of(entry, former):
    return {change.metric: change for change in error_ratios_between(former, entry)}


def test_a_step_is_the_change_of_a_run():
    now, former = outcome(worse, name="b"), accepted(outcome(errors)).entry
    judged = {
        change.metric: change for change in error_ratios(now.comparisons, former.outputs["out"], former.groups["out"])
    }
    kept = of(accepted(now).entry, former)
    assert set(kept) == {measure.metric for measure in MEAN_MEASURES}
    for metric, change in kept.items():
        assert change.ratio == pytest.approx(judged[metric].ratio, rel=2e-3)
        assert change.standard_error == pytest.approx(judged[metric].standard_error, rel=0.02)
        assert (change.units, change.axis) == (judged[metric].units, judged[metric].axis)


def test_a_uniform_loss_is_sure_and_one_by_other_noise_is_not():
    former = accepted(outcome(errors)).entry
    uniform = half_widths(former, accepted(outcome(lambda seed: errors(seed, scale=1.019))).entry)["out"]
    assert max(uniform.values()) < 1e-3
    drawn = half_widths(former, accepted(outcome(lambda seed: errors(seed, draw=1, shared=0.5))).entry)["out"]
    assert min(drawn.values()) > 0.01


def test_a_reach_is_the_distance_of_the_ratio_from_its_bounds():
    former, entry = accepted(outcome(errors)).entry, accepted(outcome(worse)).entry
    change = of(entry, former)["rms_error"]
    reach = half_widths(former, entry)["out"]["rms_error"]
    assert log(change.upper / change.ratio) == pytest.approx(reach, rel=1e-3)
    assert log(change.ratio / change.lower) == pytest.approx(reach, rel=1e-3)


def test_only_the_seeds_that_both_have_are_compared():
    more, former = accepted(outcome(worse, 3)).entry, accepted(outcome(errors, 2)).entry
    assert of(more, former) == of(accepted(outcome(worse, 2)).entry, former)


def test_where_no_groups_are_kept_seeds_are_the_sample_and_few_are_none():
    def without_groups(of_seed, seeds):
        return replace(accepted(outcome(of_seed, seeds)).entry, groups={})

    changed = of(without_groups(worse, 6), without_groups(errors, 6))
    assert {change.units for change in changed.values()} == {6}
    assert changed["mean_abs_error"].ratio == pytest.approx(1.3, rel=0.1)
    assert half_widths(without_groups(errors, 4), without_groups(worse, 4)) == {}


def test_another_shape_dtype_or_output_has_no_step():
    former, entry = accepted(outcome(errors)).entry, accepted(outcome(worse)).entry
    narrow = replace(former.outputs["out"], dtype="float16")
    assert of(entry, replace(former, outputs={"out": narrow})) == {}
    assert of(entry, replace(former, outputs={"loss": former.outputs["out"]})) == {}


def test_an_axis_that_is_one_group_of_one_seed_is_no_sample():
    def entry(of_seed):
        found = accepted(outcome(of_seed, 1)).entry
        (rows, columns) = found.groups["out"]
        return replace(found, groups={"out": [replace(rows, joined=16, **{name: ONE for name in GROUP_SUMS}), columns]})

    assert {change.units for change in of(entry(worse), entry(errors)).values()} == {16}


def test_what_a_whole_output_shares_is_seen_between_seeds():
    def shared(factors):
        return accepted(outcome(lambda seed: errors(seed) * factors[seed])).entry

    assert of(shared((1.0, 1.5, 2.0)), shared((2.0, 1.0, 1.5)))["mean_abs_error"].axis is None


def test_figures_whose_squares_are_beyond_float64_have_no_step():
    def entry(of_seed):
        found = accepted(outcome(of_seed, 6)).entry
        metrics = found.outputs["out"].metrics
        huge = {name: [1e200 * value for value in metrics[name]] for name in ("mean_abs_error", "rms_error")}
        return replace(found, outputs={"out": replace(found.outputs["out"], metrics=metrics | huge)}, groups={})

    assert set(of(entry(worse), entry(errors))) == {"mean_abs_error", "mean_ulp", "mean_log2_ulp"}
