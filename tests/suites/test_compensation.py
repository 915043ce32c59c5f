"""Carried errors: the bound that alpha + beta = 1 gives, both signs, resets, what a fit finds, what was published."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.suites.kernel_files import load
from tests.suites.measured import comparisons

compensation = load("networks/compensation")
kernels = load("unit/kernels/residual_compensation")

Coefficients = compensation.Coefficients
STRATEGIES = {"defaults": (0.1, 0.9), "device": (0.15, 0.85), "convolution": (0.2, 0.8)}


def carried_by_fractions(x, step, alpha, beta):
    """Quantize numbers one after the other, in rational arithmetic; the reset every ten steps."""
    carried, given = Fraction(0), []
    for age, value in enumerate(x):
        carried = Fraction(0) if age % 10 == 0 else carried
        wanted = value - carried
        given.append(round(wanted / step) * step)
        carried = alpha * carried + beta * (given[-1] - wanted)
    return given


def streamed(x, step, coefficients):
    quantizer = compensation.Quantizer(np.float64(step), coefficients)
    return np.stack([quantizer(values) for values in x])


class TestQuantizer:
    @given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=25))
    def test_agrees_with_rational_arithmetic(self, numbers):
        x = [Fraction(number, 64) for number in numbers]
        exact = carried_by_fractions(x, Fraction(1, 4), Fraction(1, 4), Fraction(3, 4))
        found = streamed(np.array([[float(value)] for value in x]), 0.25, Coefficients(0.25, 0.75))
        assert [Fraction(float(value)) for value in found[:, 0]] == exact

    @pytest.mark.parametrize("name", STRATEGIES)
    @given(seed=st.integers(0, 2**32 - 1))
    @settings(max_examples=15)
    def test_sums_stay_within_half_a_step_over_1_less_alpha(self, name, seed):
        alpha, beta = STRATEGIES[name]
        x = np.random.default_rng(seed).normal(size=(10, 50))
        off = np.abs(np.cumsum(streamed(x, 0.05, Coefficients(alpha, beta)) - x, axis=0))
        assert off.max() <= 0.025 / (1 - alpha) * (1 + 1e-9)

    def test_single_outputs_are_farther_off_and_means_nearer(self):
        x = np.random.default_rng(0).normal(size=(40, 2000))
        carried, alone = (streamed(x, 0.05, shares) for shares in (Coefficients(0.1, 0.9), compensation.NOT_CARRIED))
        assert np.abs(carried - x).mean() > 1.2 * np.abs(alone - x).mean()
        means = [np.abs(compensation.means(given - x)).mean() for given in (carried, alone)]
        assert means[0] < 0.4 * means[1]

    def test_the_other_sign_makes_means_worse(self):
        x = np.random.default_rng(1).normal(size=(40, 2000))
        off = [
            np.abs(compensation.means(streamed(x, 0.05, shares) - x)).mean()
            for shares in (compensation.NOT_CARRIED, Coefficients(0.1, 0.9, sign=1))
        ]
        assert off[1] > 1.5 * off[0]

    def test_nothing_is_carried_over_a_reset(self):
        x = np.random.default_rng(2).normal(size=(20, 30))
        whole = streamed(x, 0.05, Coefficients(0.1, 0.9))
        assert np.array_equal(whole[10:], streamed(x[10:], 0.05, Coefficients(0.1, 0.9)))
        assert not np.array_equal(whole[5:], streamed(x[5:], 0.05, Coefficients(0.1, 0.9))[: len(whole) - 5])

    def test_codes_saturate(self):
        assert compensation.quantized(np.array([1e3, -1e3, 0.26]), np.float64(0.5)).tolist() == [63.5, -63.5, 0.5]


def test_a_fit_takes_the_best_of_the_grid():
    stream, step = np.random.default_rng(3).normal(size=(10, 200)), np.float64(0.05)
    found = compensation.fitted(stream, step, grid=4)
    every = [Coefficients(alpha / 4, beta / 4) for alpha in range(4) for beta in range(5)]
    errors = [compensation.error_of_means(stream, step, pair) for pair in every]
    assert compensation.error_of_means(stream, step, found) == min(errors)
    assert found == Coefficients(0.0, 1.0), "all of the newest error, and no other"


PARAMS = {"strategies": {"linear": {"alpha": 0.1, "beta": 0.9}}, "layer": "linear"}


class TestPublished:
    def test_the_error_added_back_in_float_leaves_nothing_quantized(self):
        x = np.random.default_rng(4).normal(size=(10, 99)).astype(np.float32)
        base = np.zeros(99, np.float32)
        off = {
            form: kernels.stream(base, x, step=0.0625, form=form, **PARAMS)["off_grid"]
            for form in ("corrected", "float_output")
        }
        assert off["corrected"] == 0
        assert off["float_output"] > 0.4

    def test_an_input_shaped_error_fits_no_output_of_another_shape(self):
        random = np.random.default_rng(5)
        base, noise = random.normal(size=(4, 8)).astype(np.float32), np.zeros((10, 4, 8), np.float32)
        params = PARAMS | {"steps": {"input": 0.0625, "output": 0.0625}}
        weight = random.normal(size=(8, 5)).astype(np.float32)
        assert kernels.linear(base, noise, weight, form="corrected", **params)["means"].shape == (1, 4, 5)
        with pytest.raises(ValueError, match="broadcast"):
            kernels.linear(base, noise, weight, form="input_error", **params)


@pytest.mark.parametrize("case", ["per_layer", "device", "learned"])
def test_a_network_gains_what_its_suite_says(case):
    without, compensated = (mean_error(case, output) for output in ("without", "compensated"))
    assert 3 < without / compensated < 4.2


def mean_error(case, output):
    """Average over the seeds of the network's suite."""
    found = comparisons("integration/compensated_network")[case]
    values = [comparison.metrics["mean_abs_error"] for comparison in found if comparison.output == output]
    return sum(values) / len(values)
