"""What a run makes of a bound: the worst of its seeds, on a scale on which less is better."""

from math import inf

from precreg.quality.bounds import ALTERNATIVES_BOUND, calibrated_bounds, read_bound
from precreg.quality.scale import ELEMENTS_BOUND
from tests.quality.calibration.made import bound, comparison, tolerance

FIRST = comparison(max_magnitude=1.0, ulp_scale=2.0**-23)


def the_only(of):
    (found,) = calibrated_bounds(of, FIRST, "reference")
    return found


def test_elements_are_read_by_their_share_of_the_tolerance_and_kept_if_all_match():
    asked = tolerance(bound("match_ratio", 1.0), rtol=1e-6)
    elements = the_only(asked)
    assert (elements.name, elements.limit) == (ELEMENTS_BOUND, 1)
    run = [comparison(match_ratio=1.0), comparison(1, match_ratio=1.0)]
    reading = read_bound(elements, asked, run, (0.25, 0.5))
    assert (reading.loss, reading.kept) == (0.5, True)
    assert not read_bound(elements, asked, [run[0], comparison(1, match_ratio=0.75)], (0.25, 1.5)).kept


def test_where_nothing_but_equality_is_let_pass_the_limit_is_zero():
    assert the_only(tolerance(bound("match_ratio", 1.0))).limit == 0


def test_a_share_below_all_elements_is_a_metric_as_any_other():
    asked = tolerance(bound("match_ratio", 0.75), rtol=1e-6)
    share = the_only(asked)
    assert (share.name, share.limit, share.floor, share.end) == ("match_ratio", 0.25, 1 / 16, 0)
    reading = read_bound(share, asked, [comparison(match_ratio=1.0), comparison(1, match_ratio=0.5)], (0, 0))
    assert (reading.loss, reading.kept) == (0.5, False)


def test_a_metric_is_read_at_its_worst_seed_and_one_that_is_not_defined_breaks_it():
    asked = tolerance(bound("max_ulp", 2.0))
    ulps = the_only(asked)
    assert (ulps.limit, ulps.floor, ulps.end) == (2, 0.5, 0.5)
    assert read_bound(ulps, asked, [comparison(max_ulp=1.0), comparison(1, max_ulp=2.0)], ()).loss == 2
    undefined = read_bound(ulps, asked, [comparison(max_ulp=1.0), comparison(1)], ())
    assert (undefined.loss, undefined.kept) == (inf, False)


def test_what_has_no_scale_is_kept_or_not_and_no_more():
    asked = tolerance(bound("error_magnitude_correlation", 0.5))
    correlation = the_only(asked)
    assert correlation.limit is None
    reading = read_bound(correlation, asked, [comparison(error_magnitude_correlation=0.25)], ())
    assert (reading.loss, reading.kept) == (None, True)


def test_of_alternatives_the_best_counts_by_its_worst_bound():
    asked = tolerance(
        alternatives=((bound("max_ulp", 2.0), bound("mean_ulp", 1.0)), (bound("max_abs_error", 1e-3),)),
    )
    best = the_only(asked)
    assert (best.name, best.limit) == (ALTERNATIVES_BOUND, 1)
    by_ulps = read_bound(best, asked, [comparison(max_ulp=1.0, mean_ulp=0.75, max_abs_error=1.0)], ())
    assert (by_ulps.loss, by_ulps.kept) == (0.75, True)
    by_none = read_bound(best, asked, [comparison(max_ulp=8.0, mean_ulp=0.75, max_abs_error=2e-3)], ())
    assert (by_none.loss, by_none.kept) == (2.0, False)


def test_against_a_golden_rounding_costs_nothing():
    asked = tolerance(bound("match_ratio", 1.0), bound("max_ulp", 2.0), rtol=1e-6)
    assert [each.floor for each in calibrated_bounds(asked, FIRST, "golden")] == [0, 0]
    assert all(each.floor > 0 for each in calibrated_bounds(asked, FIRST, "reference"))
