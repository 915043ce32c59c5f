"""Losses and back: a limit that is proposed admits the loss that it is proposed for, and is short."""

from decimal import Decimal
from fractions import Fraction
from math import inf, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.exact import exact_round
from precreg.arithmetic.formats import FORMATS
from precreg.measure.metrics import METRICS, metric_named
from precreg.quality.scale import LIMIT_DIGITS, limit_for_loss, metric_loss, output_rounding_floor, round_limit
from precreg.types.outcome import Comparison
from precreg.verdict.limits import satisfies_bound
from tests.quality.calibration.made import bound

SCALED = (
    "max_abs_error",
    "mse",
    "bias",
    "mean_rel_error",
    "max_ulp",
    "mean_log2_ulp",
    "share_above_1_ulp",
    "match_ratio",
    "equal_share",
    "cosine",
    "snr",
    "psnr",
    "effective_bits",
)


@pytest.mark.parametrize("metric", SCALED)
@given(size=st.floats(1e-12, 0.9))
def test_a_limit_for_a_loss_admits_what_has_it_and_not_what_has_three_times_it(metric, size):
    known = METRICS[metric]
    limit = limit_for_loss(known, size)
    if limit is None:
        assert round_limit(size, up=True) >= 1
        return
    assert metric_loss(known, limit) >= size * (1 - 1e-12) or metric_loss(known, limit) == pytest.approx(
        size, abs=1e-16
    )
    assert metric_loss(known, limit) <= 3 * size + 1e-16


def test_losses_of_figures_that_are_known():
    assert metric_loss(METRICS["bias"], -0.25) == 0.25
    assert metric_loss(METRICS["match_ratio"], 0.75) == 0.25
    assert metric_loss(METRICS["cosine"], 1 + 1e-16) == 0
    assert metric_loss(METRICS["snr"], 40.0) == pytest.approx(0.01)
    assert metric_loss(METRICS["snr"], 9999.0) == 0
    assert metric_loss(METRICS["effective_bits"], 10.0) == 2**-10
    assert metric_loss(METRICS["mean_log2_ulp"], 3.0) == 8
    assert metric_loss(METRICS["error_magnitude_correlation"], 0.5) is None
    assert metric_loss(metric_named("somebody.metric", ()), 0.5) is None


@given(st.floats(min_value=5e-324, max_value=1e300), st.booleans())
def test_rounding_is_to_the_next_number_of_so_many_digits(value, up):
    exact, found = Decimal(repr(value)), Decimal(repr(round_limit(value, up=up)))
    assert len(found.normalize().as_tuple().digits) <= LIMIT_DIGITS
    assert abs(found - exact) <= Decimal(1).scaleb(exact.adjusted() - LIMIT_DIGITS + 1)
    slight = abs(exact) * Decimal("1e-12")
    assert found >= exact - slight if up else found <= exact + slight


def test_what_is_rounded_already_stays():
    assert round_limit(0.0012, up=True) == round_limit(0.0012, up=False) == 0.0012
    assert round_limit(1e-5 * 0.2, up=True) == 2e-6 != 1e-5 * 0.2
    assert round_limit(1024.0, up=True) == 1100
    assert round_limit(1024.0, up=False) == 1000
    assert round_limit(inf, up=True) == inf
    assert round_limit(0.0, up=True) == 0


def test_a_limit_of_everything_is_none():
    assert limit_for_loss(METRICS["equal_share"], 1.5) is None
    assert limit_for_loss(METRICS["share_above_1_ulp"], 1.0) is None
    assert limit_for_loss(METRICS["max_rel_error"], 3.0) == 3
    assert limit_for_loss(METRICS["max_abs_error"], inf) is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_no_correctly_rounded_result_is_above_the_floor(dtype):
    number_format = FORMATS[dtype]
    references = [Fraction(k, 7) for k in range(1, 400)]
    errors = [abs(Fraction(exact_round(each, number_format)) - each) for each in references]
    metrics = {"max_magnitude": float(max(references)), "ulp_scale": 0.0}
    floor = output_rounding_floor(Comparison("out", 0, dtype, (399,), "float64", (399,), metrics))
    assert float(max(errors)) <= floor.loss(METRICS["max_abs_error"])
    assert float(max(error / each for error, each in zip(errors, references, strict=True))) <= floor.loss(
        METRICS["max_rel_error"]
    )
    rtol, atol = 1e-3, 1e-5
    at_largest = float(errors[-1] / (Fraction(atol) + Fraction(rtol) * references[-1]))
    assert at_largest <= floor.share(rtol, atol, float(references[-1])) < inf


def test_integers_have_units_and_no_roundoff():
    floor = output_rounding_floor(Comparison("out", 0, "int32", (3,), "int32", (3,), {"max_magnitude": 7.0}))
    assert floor.loss(METRICS["max_abs_error"]) == 0.5
    assert floor.loss(METRICS["max_rel_error"]) == 0
    assert floor.share(0.0, 0.0, 7.0) == 0


def test_a_proposal_is_kept_by_what_it_is_made_for():
    for metric in SCALED:
        for size in (1e-9, 0.013, 0.2):
            limit = limit_for_loss(METRICS[metric], size)
            value = {"match_ratio": 1 - size, "equal_share": 1 - size, "cosine": 1 - size}.get(metric)
            if value is not None:
                assert satisfies_bound(bound(metric, limit), nextafter(value, 2), ())
