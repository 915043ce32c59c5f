"""The sweep of loss scales equals rounding at each scale, and its window and recommendation follow from the counts."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from precreg.errors import UserError
from precreg.training.loss_scale import LossScaleGauge, growth_of, sweep_scales
from tests.training.steps import MadeStep

RANDOM = np.random.default_rng(21)


def steps_of(*sizes, name="w"):
    return [MadeStep(number, {name: np.asarray(each, np.float32)}) for number, each in enumerate(sizes)]


@given(st.lists(arrays(np.float32, (3, 5), elements=st.floats(width=32)), min_size=1, max_size=3))
def test_counts_and_energy_equal_rounding_at_each_scale(values):
    sweep = sweep_scales(steps_of(*values))
    whole = np.concatenate([each.ravel() for each in values]).astype(np.float64)
    whole = whole[np.isfinite(whole)]
    squares = np.minimum(whole**2, 1e290)
    for place, exponent in enumerate(range(25)):
        with np.errstate(over="ignore"):
            half = np.abs((whole * 2.0**exponent).astype(np.float16))
        lost = (half == 0) & (whole != 0)
        assert sweep.total.zero[place] == np.count_nonzero(lost)
        assert sweep.total.beyond[place] == np.count_nonzero(np.isinf(half))
        assert sweep.total.subnormal[place] == np.count_nonzero((half > 0) & (half < 2.0**-14))
        share = squares[lost].sum() / squares.sum() if squares.any() else 0.0
        assert sweep.total.zero_energy[place] == pytest.approx(share, rel=1e-12)
    with np.errstate(over="ignore"):
        overflows = [
            sum(not np.isfinite((each.astype(np.float64) * 2.0**k).astype(np.float16)).all() for each in values)
            for k in range(25)
        ]
    assert sweep.overflow_steps == tuple(overflows)


def test_layers_add_up_to_the_total():
    step = MadeStep(0, {"a": np.float32([1e-8, 1.0, 0.0]), "b": np.float64([2e-9, nan])})
    sweep = sweep_scales([step])
    assert [each.parameter for each in sweep.layers] == ["a", "b"]
    assert sweep.total.zero == tuple(map(sum, zip(*(each.zero for each in sweep.layers), strict=True)))
    assert (sweep.total.elements, sweep.total.nonzero, sweep.total.zeros, sweep.total.nonfinite) == (5, 3, 1, 1)
    assert sweep.total.zero[:3] == (2, 2, 1)


def test_the_window_ends_where_the_largest_gradient_overflows():
    # 1e-7 stays nonzero at 1, and 3.0 * 2**14 is the last one below 65,520.
    sweep = sweep_scales(steps_of([1e-7, 3.0], [1e-8, 1.0]))
    assert sweep.window.high == 14
    assert sweep.window.low == 2  # 1e-8 * 4 is above 2**-25
    assert sweep.window.zero == 0
    assert sweep.overflow_steps[14:18] == (0, 1, 2, 2)


def test_the_margin_covers_a_doubling_and_the_growth_of_the_gradients():
    steady = sweep_scales(steps_of([0.5], [0.5], [0.5], [0.5])).recommendation
    assert (steady.highest, steady.margin, steady.exponent, steady.growth) == (16, 1, 15, 1.0)
    growing = sweep_scales(steps_of([0.1], [0.125], [0.25], [0.5])).recommendation
    assert (growing.highest, growing.margin, growing.exponent, growing.growth) == (16, 3, 13, 4.0)
    single = sweep_scales(steps_of([0.5])).recommendation
    assert (single.margin, single.growth) == (1, None)


def test_a_scaler_from_the_recommended_scale_skips_fewer_steps_than_from_its_default():
    recommendation = sweep_scales(steps_of([40.0], [40.0], [40.0])).recommendation
    ours, torchs = recommendation.runs
    assert (ours.initial, ours.skipped, ours.final) == (9, 0, 9)
    assert (torchs.initial, torchs.skipped, torchs.final) == (16, 3, 13)


def test_no_window_where_every_scale_overflows():
    sweep = sweep_scales(steps_of([1e5, 1.0]))
    assert sweep.window is None
    assert sweep.recommendation is None
    assert sweep.overflow_steps == (1,) * 25


@pytest.mark.parametrize("values", [[0.0, 0.0], [], [nan]])
def test_no_window_without_a_finite_nonzero_gradient(values):
    sweep = sweep_scales(steps_of(values))
    assert sweep.window is None
    assert sweep.total.zero_energy == (0.0,) * 25


def test_no_steps():
    sweep = sweep_scales([])
    assert (sweep.steps, sweep.layers, sweep.window) == (0, (), None)


def test_an_infinity_computed_at_a_scale_overflows_at_every_larger_scale():
    step = MadeStep(0, {"w": np.float32([inf, 0.5])}, 2.0**10, None, {"w": "float16"})
    sweep = sweep_scales([step, MadeStep(1, {"w": np.float32([0.5])}, 2.0**9, None, {"w": "float16"})])
    assert sweep.nonfinite_steps == 1
    assert sweep.overflow_steps[8:12] == (0, 0, 1, 1)
    assert sweep.window.high == 9
    # Without a scale there was nothing to lower.
    assert sweep_scales(steps_of([inf, 0.5])).overflow_steps == (1,) * 25


def test_gradients_computed_in_float16_have_a_floor():
    narrow = MadeStep(0, {"w": np.float32([0.0, 1.0])}, 2.0**10, None, {"w": "float16"})
    wide = MadeStep(0, {"w": np.float32([0.0, 1.0])}, 2.0**10, None, {"w": "bfloat16"})
    assert sweep_scales([narrow]).total.floor == 2.0**-35
    assert sweep_scales([narrow]).total.zeros == 1
    assert sweep_scales([wide]).total.floor == 0.0


def test_arrays_of_integers_are_named_and_not_measured():
    sweep = sweep_scales([MadeStep(0, {"n": np.arange(3), "w": np.float32([1.0])})])
    assert sweep.not_measured == ("n",)
    assert sweep.total.elements == 1


def test_a_gauge_keeps_counts_between_results():
    gauge = LossScaleGauge("e5m2")
    values = RANDOM.standard_normal((2, 1000)).astype(np.float32) * 1e-4
    first, second = steps_of(*values)
    gauge.add(first)
    assert gauge.result() == sweep_scales([first], "e5m2")
    gauge.add(second)
    assert gauge.result() == sweep_scales([first, second], "float8_e5m2")


def test_an_unknown_format_is_refused():
    with pytest.raises(UserError, match="expected the name of a format but got format=float61"):
        LossScaleGauge("float61")


@pytest.mark.parametrize(
    ("largest", "growth"), [([], None), ([1.0], None), ([1.0, 3.0], 3.0), ([0.0, 3.0], None), ([2.0, 0.0], None)]
)
def test_growth_needs_gradients_in_both_halves(largest, growth):
    assert growth_of(largest) == growth
