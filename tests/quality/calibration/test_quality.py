"""What a bound is worth, decided from synthetic noise; every limit is written out."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.quality.bounds import (
    LAST_BIT_KIND,
    OWN_KIND,
    REPLICATE_KINDS,
    RESEEDED_KIND,
    BoundQuality,
    BoundReading,
    CalibratedBound,
    LikelyBreak,
    Margins,
    RunsBreak,
    calibrate_bound,
    propose_limit,
)
from precreg.quality.scale import ELEMENTS_BOUND
from precreg.types.case import Location
from precreg.types.warning import VacuousTolerance
from tests.quality.calibration.made import bound

MARGINS = Margins()


def of_metric(limit, floor=0.0, end=0.0, metric="max_abs_error"):
    return CalibratedBound(metric, (bound(metric, limit),), limit, floor, end)


def judge(what, own, reseeded=(), last_bit=(), blind=None, margins=MARGINS):
    losses = dict(zip(REPLICATE_KINDS, ((own,), reseeded, last_bit, ()), strict=True))
    readings = {
        kind: [BoundReading(each, each is not None and each <= what.limit) for each in values]
        for kind, values in losses.items()
    }
    return calibrate_bound(what, ("out", "float32"), readings, blind, margins)


def noise(n=16, deviation=0.1, seed=0):
    return tuple(np.exp(deviation * np.random.default_rng(seed).normal(size=n)))


def test_a_bound_well_above_noise_is_sound_and_tells_by_how_much():
    found = judge(of_metric(3.0), 1.0, noise())
    assert found.quality is BoundQuality.SOUND
    assert found.headroom == pytest.approx(3.0 / max(1.0, *noise()))
    assert found.breaks == 0
    assert found.chance < 1e-3
    assert found.largest == {OWN_KIND: 1.0, RESEEDED_KIND: max(noise())}


def test_a_bound_that_a_replicate_breaks_is_flaky_and_names_the_kind():
    found = judge(of_metric(1.0), 0.9, (0.8, 0.7, 1.1), (1.2, 0.5))
    assert (found.quality, found.breaks, found.chance) == (BoundQuality.FLAKY, 2, 2 / 6)
    assert found.fault == RunsBreak((("reseeded", 1, 3), ("last-bit", 1, 2)))


def test_a_bound_that_the_own_run_breaks_is_broken_whatever_the_others_do():
    assert judge(of_metric(1.0), 1.1, noise()).quality is BoundQuality.BROKEN


def test_a_bound_just_above_the_largest_noise_is_flaky_though_nothing_broke_it():
    seen = noise(deviation=0.3)
    found = judge(of_metric(1.01 * max(1.0, *seen)), 1.0, seen)
    assert (found.quality, found.breaks) == (BoundQuality.FLAKY, 0)
    assert found.fault == LikelyBreak(found.chance)


def test_of_too_few_runs_nothing_is_estimated():
    found = judge(of_metric(1.01), 1.0, (0.9, 0.8))
    assert (found.quality, found.chance, found.estimate) == (BoundQuality.SOUND, None, None)
    assert found.not_excluded == pytest.approx(1 - 0.05 ** (1 / 3))
    assert found.proposal == {"max_abs_error": 2.0}


def test_noise_that_is_rounding_alone_has_an_end():
    ulps = (0.499, 0.4999, 0.49, 0.4999, 0.48, 0.5)
    found = judge(of_metric(0.51, floor=0.5, end=0.5, metric="max_ulp"), 0.499, ulps)
    assert (found.quality, found.chance, found.estimate) == (BoundQuality.SOUND, 0.0, 0.5)
    assert found.proposal == {"max_ulp": 1.0}
    beyond = judge(of_metric(0.51, floor=0.5, end=0.5, metric="max_ulp"), 0.499, (*ulps, 0.505))
    assert beyond.quality is BoundQuality.FLAKY


@pytest.mark.parametrize(("limit", "quality"), [(99.0, BoundQuality.SOUND), (101.0, BoundQuality.VACUOUS)])
def test_a_bound_is_vacuous_from_a_hundred_times_the_noise(limit, quality):
    assert judge(of_metric(limit), 1.0, (0.9,) * 8).quality is quality
    assert judge(of_metric(limit), 0.1, (0.1,) * 8, margins=Margins(vacuous=2000)).quality is BoundQuality.SOUND


def test_a_bound_is_not_vacuous_where_rounding_alone_costs_so_much():
    assert judge(of_metric(5.0, floor=1.0), 0.01, (0.01,) * 8).quality is BoundQuality.SOUND
    assert judge(of_metric(5.0), 0.0, (0.0,) * 8).quality is BoundQuality.VACUOUS


def test_a_tolerance_that_lets_a_wrong_result_pass_is_vacuous():
    wide = VacuousTolerance((("rtol", 1.0),), Location("suites/unit/s.yaml", 4))
    found = judge(of_metric(3.0), 1.0, (1.0,) * 8, blind=wide)
    assert (found.quality, found.fault) == (BoundQuality.VACUOUS, wide)


def test_a_limit_of_zero_that_is_kept_stays_and_one_that_is_not_is_flaky():
    kept = judge(of_metric(0.0, floor=0.5, end=0.5), 0.0, (0.0,) * 8)
    assert (kept.quality, kept.proposal, kept.headroom) == (BoundQuality.SOUND, {}, None)
    lost = judge(of_metric(0.0), 0.0, (0.0,) * 3, (0.3,) * 8)
    assert (lost.quality, lost.proposal) == (BoundQuality.FLAKY, {"max_abs_error": 0.6})


def test_noise_without_end_and_noise_without_scale_propose_nothing():
    assert judge(of_metric(1.0), 0.5, (inf, 0.5)).proposal == {}
    correlation = CalibratedBound(
        "error_magnitude_correlation", (bound("error_magnitude_correlation", 0.5),), None, 0.0
    )
    readings = {
        OWN_KIND: [BoundReading(None, True)],
        RESEEDED_KIND: [BoundReading(None, True), BoundReading(None, False)],
        LAST_BIT_KIND: [],
    }
    found = calibrate_bound(correlation, ("out", "float32"), readings, "", MARGINS)
    assert (found.quality, found.noise, found.proposal) == (BoundQuality.FLAKY, None, {})


def test_elements_are_proposed_as_rtol_and_atol_scaled_alike_but_not_below_an_ulp():
    elements = CalibratedBound(
        ELEMENTS_BOUND, (bound("rtol", 1e-3), bound("atol", 1e-5), bound("match_ratio", 1.0)), 1.0, 0.0
    )
    assert propose_limit(elements, 0.1, 0.1, 2.0, "float32") == {"rtol": 0.0002, "atol": 2e-6}
    assert propose_limit(elements, 1e-9, 1e-9, 2.0, "float16") == {"rtol": 0.00098, "atol": 2e-14}
    assert 0.00098 >= 2 * 2**-11


@given(st.floats(1e-9, 1e9), st.floats(1, 10), st.floats(0, 1e9))
def test_a_proposal_is_slack_times_the_noise_and_never_below_the_floor(estimate, slack, floor):
    (limit,) = propose_limit(of_metric(1.0, floor=floor), estimate, estimate, slack, "float32").values()
    wanted = max(slack * estimate, floor)
    assert wanted * (1 - 1e-12) <= limit <= 1.1 * wanted * (1 + 1e-12)
