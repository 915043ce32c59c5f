"""Bounds and alternatives: what is broken, and what is said of it."""

import pytest
from msgspec.structs import replace

from precreg.types.case import Bound, Location
from precreg.types.verdict import BrokenBound, BrokenLimit, NoAlternative
from precreg.verdict.limits import broken_bounds, satisfies_bound
from tests.verdict.made import bound, comparison, tolerance

PLACE = Location("s.yaml", 4)


def branch(**limits):
    return tuple(Bound(metric, limit, "suite, standard x", PLACE) for metric, limit in limits.items())


def broken(metrics, *alternatives, **bounds):
    asked = replace(tolerance(**bounds), alternatives=alternatives)
    return [*broken_bounds(comparison(**metrics), asked)]


EITHER = (branch(mean_ulp=64), branch(share_above_32_ulp=0.05, max_ulp=1e6))


@pytest.mark.parametrize(
    ("metrics", "count"),
    [
        ({"mean_ulp": 1.0}, 0),
        ({"mean_ulp": 70.0, "share_above_32_ulp": 0.01, "max_ulp": 10.0}, 0),
        ({"mean_ulp": 70.0, "share_above_32_ulp": 0.01, "max_ulp": 1e7}, 1),
        ({"mean_ulp": 70.0, "share_above_32_ulp": 0.01}, 1),
    ],
)
def test_one_alternative_of_which_all_bounds_hold_is_enough(metrics, count):
    assert len(broken(metrics, *EITHER)) == count


def test_no_alternative_holding_is_one_finding_with_the_numbers_of_each():
    (finding,) = broken({"mean_ulp": 70.5, "share_above_32_ulp": 0.2}, *EITHER)
    shares = BrokenLimit("share_above_32_ulp", 0.05, 0.2), BrokenLimit("max_ulp", 1e6)
    assert finding.fact == NoAlternative(((BrokenLimit("mean_ulp", 64, 70.5),), shares), "suite, standard x")
    assert (finding.metric, finding.current, finding.limit, finding.source) == ("mean_ulp", 70.5, 64, PLACE)
    assert finding.ratio == 70.5 / 64


def test_bounds_are_asked_for_besides_alternatives():
    found = broken({"mean_ulp": 1.0, "max_abs_error": 2.0}, *EITHER, max_abs_error=1.0)
    assert [finding.metric for finding in found] == ["max_abs_error"]


def test_an_alternative_that_matches_elements_says_how_near():
    (finding,) = broken(
        {"match_ratio": 0.5, "rms_error": 1.0}, branch(match_ratio=1.0), branch(rms_error=0.1), match_ratio=0
    )
    assert finding.fact.closeness == (bound("rtol", 1e-5), bound("atol", 1e-5))


def test_a_metric_against_a_benchmark_that_is_not_there_is_broken_and_says_what_it_needs():
    (finding,) = broken({}, mare_ratio=10.0)
    assert finding.fact == BrokenBound(BrokenLimit("mare_ratio", 10.0, lacks_benchmark=True), "suite")


@pytest.mark.parametrize(
    ("metric", "limit", "good", "bad"),
    [("snr", 20.0, 20.5, 19.5), ("cosine", 0.997, 1.0, -1.0), ("bias", 1.0, -1.0, -1.5), ("mare_ratio", 2.0, 2.0, 2.1)],
)
def test_which_side_of_a_limit_is_good(metric, limit, good, bad):
    bound = Bound(metric, limit, "suite", PLACE)
    assert satisfies_bound(bound, good, ())
    assert not satisfies_bound(bound, bad, ())
    assert not satisfies_bound(bound, float("nan"), ())


def test_a_finding_names_its_rule():
    assert {finding.rule for finding in broken({"mean_ulp": 70.5}, *EITHER, max_abs_error=1e-9)} == {"bound"}
