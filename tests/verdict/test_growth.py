import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.measure.metrics import METRICS
from precreg.types.case import Tolerance
from precreg.verdict.limits import gain_findings, growth_findings, rounding_floor, seed_means
from tests.verdict.made import comparison, entry, tolerance


def regressed(current, accepted=None, role="reference"):
    given = accepted or entry().outputs["out"]
    return {finding.metric for finding in growth_findings(current, given, tolerance(), role)}


def test_growth_is_of_the_mean_over_seeds():
    lucky_and_unlucky = [comparison(0, mean_abs_error=0.5e-6), comparison(1, mean_abs_error=1.6e-6)]
    assert regressed(lucky_and_unlucky) == set()
    both = [comparison(0, mean_abs_error=1.2e-6), comparison(1, mean_abs_error=1.2e-6)]
    assert regressed(both) == {"mean_abs_error"}


def test_growth_within_the_rounding_floor_is_none():
    """One hundredth of an ULP is what another libm does, however large the ratio to a tiny baseline."""
    tiny = entry(mean_abs_error=1e-9, rms_error=1e-9, mean_ulp=1e-3).outputs["out"]
    grown = [comparison(seed, mean_abs_error=1e-8, rms_error=1e-8, mean_ulp=1e-2) for seed in (0, 1)]
    assert regressed(grown, tiny) == set()


def test_lost_exactness_beyond_the_floor_is_found_without_a_ratio():
    exact = entry(mean_abs_error=0.0, rms_error=0.0, mean_ulp=0.0, max_abs_error=0.0).outputs["out"]
    found = list(growth_findings([comparison(), comparison(1)], exact, tolerance(), "reference"))
    assert {finding.metric for finding in found} == {"mean_abs_error", "rms_error", "mean_ulp", "max_abs_error"}
    assert all(finding.ratio is None and finding.baseline == 0 for finding in found)


def test_maxima_are_coarse_guards():
    assert regressed([comparison(seed, max_abs_error=1e-5) for seed in (0, 1)]) == set()
    assert regressed([comparison(seed, max_abs_error=1.7e-5) for seed in (0, 1)]) == {"max_abs_error"}


def test_scalars_are_left_to_bounds():
    few = {"n": 1, "finite": 1}
    assert regressed([comparison(0, few, mean_abs_error=1.0), comparison(1, few, mean_abs_error=1.0)]) == set()


def test_a_golden_case_regresses_with_growth_of_means_and_not_of_maxima():
    """Times 1.001 still matches within the tolerance; one element that is off by one ULP does not grow a mean."""
    exact = entry(mean_abs_error=0.0, rms_error=0.0, mean_ulp=0.0, max_abs_error=0.0).outputs["out"]
    assert regressed([comparison(seed, mean_abs_error=1e-3) for seed in (0, 1)], exact, "golden") >= {"mean_abs_error"}
    one_ulp = {"mean_abs_error": 1e-8, "rms_error": 4e-8, "mean_ulp": 0.01, "max_abs_error": 3e-6}
    assert regressed([comparison(seed, **one_ulp) for seed in (0, 1)], exact, "golden") == set()


@pytest.mark.parametrize("metric", ["mean_abs_error", "rms_error", "mean_ulp"])
@given(grown=st.floats(0, 10), base=st.floats(0, 10))
def test_no_worse_is_never_a_regression_and_much_worse_always(metric, grown, base):
    accepted = entry(**{metric: base}).outputs["out"]
    current = [comparison(seed, **{metric: grown}) for seed in (0, 1)]
    if grown <= base:
        assert metric not in regressed(current, accepted)
    if grown > 1.2 * base + 1:
        assert metric in regressed(current, accepted)


def test_the_floor_of_each_unit():
    one = [comparison(ulp_scale=2.0**-24, mean_magnitude=0.5)]
    assert rounding_floor(one, METRICS["mean_ulp"]) == 0.05
    assert rounding_floor(one, METRICS["max_ulp"]) == 1.0
    assert rounding_floor(one, METRICS["mean_abs_error"]) == 0.05 * 2.0**-24
    assert rounding_floor(one, METRICS["max_abs_error"]) == 2.0**-24
    assert rounding_floor(one, METRICS["mean_rel_error"]) == 0.05 * 2.0**-23
    assert rounding_floor(one, METRICS["mse"]) == pytest.approx(0.05 * 2.0**-48)
    assert rounding_floor(one, METRICS["share_above_1_ulp"]) == 0.0


def chosen(metric, current, base, threshold=0.1):
    one = tolerance()
    only = Tolerance(one.rtol, one.atol, one.bounds, {metric: threshold})
    accepted = entry(**{metric: base}).outputs["out"]
    return list(
        growth_findings([comparison(seed, **{metric: current}) for seed in (0, 1)], accepted, only, "reference")
    )


def test_a_bias_is_as_bad_as_it_is_large():
    assert chosen("bias", -3e-6, 1e-6)
    assert not chosen("bias", 1e-6, -3e-6)


def test_a_ratio_is_lost_downward():
    (finding,) = chosen("equal_share", 0.5, 0.9)
    assert (finding.ratio, finding.limit, finding.rule) == (0.5 / 0.9, 0.9, "guard")
    assert not chosen("equal_share", 0.9, 0.5)


def test_a_threshold_on_a_logarithm_is_a_difference():
    (finding,) = chosen("mean_log2_ulp", -1.5, -1.75)
    assert finding.ratio == 2**0.25
    assert not chosen("mean_log2_ulp", -1.6, -1.7)
    assert not chosen("mean_log2_ulp", -1.9, -1.7)


def test_means_of_the_largest_numbers_do_not_overflow():
    huge = entry(mean_abs_error=1.7e308).outputs["out"]
    assert seed_means([comparison(seed, mean_abs_error=1.7e308) for seed in (0, 1)], huge, "mean_abs_error") == (
        1.7e308,
        1.7e308,
    )


def with_directions(**directions):
    """Return a tolerance with these thresholds of one direction alone."""
    named = {key.replace("__", " "): growth for key, growth in directions.items()}
    return Tolerance(tolerance().rtol, tolerance().atol, (), {}, directions=named)


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (1e-4, 1.05e-4, False),
        (1e-4, 1.2e-4, True),
        (1e-4, 0.2e-4, False),
        (-1e-4, -1.2e-4, False),
        (-1e-4, -1.6e-4, True),
        (-1e-4, 1.2e-4, True),
        (1e-4, -1.4e-4, False),
        (1e-4, -1.6e-4, True),
    ],
)
def test_a_bias_has_a_threshold_for_each_direction_of_its_growth(before, now, found):
    accepted = entry(bias=before).outputs["out"]
    current = [comparison(seed, bias=now) for seed in (0, 1)]
    limits = with_directions(bias__up=0.1, bias__down=0.5)
    assert bool([*growth_findings(current, accepted, limits, "reference")]) is found


def test_a_direction_without_a_threshold_is_not_judged():
    current = [comparison(seed, bias=-1.0) for seed in (0, 1)]
    accepted = entry(bias=-1e-4).outputs["out"]
    assert not [*growth_findings(current, accepted, with_directions(bias__up=0.1), "reference")]


@pytest.mark.parametrize(
    ("metric", "before", "now", "found"),
    [
        ("mean_ulp", 1.2, 1.0, True),
        ("mean_ulp", 1.05, 1.0, False),
        ("mean_ulp", 1.0, 1.2, False),
        ("match_ratio", 0.8, 0.9, True),
        ("match_ratio", 0.8, 0.85, False),
        ("bias", -1.2e-4, 1e-4, True),
        ("bias", -1.05e-4, 1e-4, False),
        ("mean_log2_ulp", 2.0, 1.8, True),
        ("mean_log2_ulp", 2.0, 1.9, False),
    ],
)
def test_a_gain_counts_from_its_own_threshold(metric, before, now, found):
    accepted = entry(**{metric: before}).outputs["out"]
    current = [comparison(seed, **{metric: now}) for seed in (0, 1)]
    limits = with_directions(**{f"{metric}__better": 0.1})
    gains = [*gain_findings(current, accepted, limits)]
    assert [finding.metric for finding in gains] == ([metric] if found else [])
    assert all(finding.reason == "improved" for finding in gains)
    assert not [*growth_findings(current, accepted, limits, "reference")]
