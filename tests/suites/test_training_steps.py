"""Optimizers against rational and 50-digit arithmetic, the loss scale as a machine of states."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tests.suites.kernel_files import load

optimizers = load("networks/optimizers")
oracles = load("integration/kernels/training_steps_oracles")
scaler = load("integration/kernels/dynamic_loss_scale")
steps = load("integration/kernels/training_steps")

LossScale = optimizers.LossScale
PARAMS = {"rates": {"adam": 1e-3, "sgd": 1}, "max_norm": 0.004}


@pytest.fixture(autouse=True)
def _quiet():
    """As precreg runs kernels: an overflow is a fact, and no warning."""
    with np.errstate(all="ignore"):
        yield


def gradients(seed, count, shape=(5, 3)):
    return list(np.random.default_rng(seed).normal(0, 1e-3, (count, *shape)))


def after_updates(optimizer, given, lr, max_norm=np.inf):
    state = optimizers.start([np.zeros_like(given[0])], LossScale(1.0), optimizer)
    for gradient in given:
        state = optimizers.step(state, [gradient], optimizers.Rule(optimizer, lr, max_norm))
    return state


class TestOptimizers:
    def test_adam_agrees_with_50_digits(self):
        given = gradients(0, 7)
        moved = after_updates("adam", given, 0.1).weights[0]
        with mpmath.workdps(50):
            b1, b2 = mpmath.mpf("0.9"), mpmath.mpf("0.999")
            for place in np.ndindex(moved.shape):
                m = v = w = mpmath.mpf(0)
                for t, gradient in enumerate(given, start=1):
                    g = mpmath.mpf(gradient[place])
                    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
                    w -= mpmath.mpf("0.1") * m / (1 - b1**t) / (mpmath.sqrt(v / (1 - b2**t)) + mpmath.mpf("1e-8"))
                assert moved[place] == pytest.approx(float(w), rel=1e-12, abs=1e-14)

    def test_the_first_step_of_adam_is_the_rate_whatever_the_gradient(self):
        moved = after_updates("adam", [np.array([1e-3, -1e3, 1e5])], 0.25).weights[0]
        np.testing.assert_allclose(moved, [-0.25, 0.25, -0.25], rtol=2e-5)

    def test_sgd_agrees_with_rational_arithmetic(self):
        given = gradients(1, 9)
        moved = after_updates("sgd", given, 0.5).weights[0]
        for place in np.ndindex(moved.shape):
            velocity = w = Fraction(0)
            for gradient in given:
                velocity = Fraction("0.9") * velocity + Fraction(gradient[place])
                w -= velocity / 2
            assert abs(Fraction(moved[place]) - w) < abs(w) * Fraction(1, 10**13) + Fraction(1, 10**17)

    @pytest.mark.parametrize(("optimizer", "oracle"), [("adam", "Adam"), ("sgd", "Momentum")])
    def test_recurrences_equal_the_oracles_weighted_sums(self, optimizer, oracle):
        given, rule = gradients(2, 30), getattr(oracles, oracle)(0.5)
        moved = -sum(rule.update(gradient) for gradient in given)
        np.testing.assert_allclose(after_updates(optimizer, given, 0.5).weights[0], moved, rtol=1e-10, atol=1e-13)

    def test_clipping_scales_all_gradients_together(self):
        given = [np.array([3.0, 0.0]), np.array([[4.0]])]
        assert optimizers.clipped(given, 5.0) is given, "a norm that is just reached is not cut"
        clipped = optimizers.clipped(given, 2.5)
        assert [array.tolist() for array in clipped] == [[1.5, 0.0], [[2.0]]]
        assert np.array_equal(optimizers.clipped([np.zeros(3)], 1.0)[0], np.zeros(3))


class TestLossScale:
    def test_halves_at_overflow_and_doubles_after_the_interval(self):
        scale, seen = LossScale(1024.0, interval=3), []
        for overflowed in [True, True, False, False, True, False, False, False, False, False, False]:
            scale = scale.after(overflowed=overflowed)
            seen.append(scale.value)
        assert seen == [512, 256, 256, 256, 128, 128, 128, 256, 256, 256, 512]

    def test_a_static_scale_stays(self):
        assert LossScale(8.0).after(overflowed=True) == LossScale(8.0) == LossScale(8.0).after(overflowed=False)

    @pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
    def test_one_bad_number_skips_the_step_for_all_weights(self, bad):
        state = optimizers.start([np.ones(3, np.float32), np.ones(2, np.float32)], LossScale(4.0, 5), "adam")
        given = [np.array([1, bad, 1], np.float16), np.ones(2, np.float16)]
        skipped = optimizers.step(state, given, optimizers.Rule("adam", 0.1, 1.0))
        assert skipped == state._replace(scale=LossScale(2.0, 5))

    def test_powers_of_two_change_no_gradient_that_float16_holds(self):
        gradient = np.random.default_rng(3).normal(0, 1e-2, 1000).astype(np.float32)
        held = gradient[np.abs(gradient) > 2**-14].astype(np.float16)
        for power in range(15):
            scaled = (held.astype(np.float32) * np.float32(2**power)).astype(np.float16)
            state = optimizers.start([np.zeros(len(held), np.float32)], LossScale(2.0**power), "sgd")
            assert np.array_equal(optimizers.unscaled([scaled], state)[0], held.astype(np.float32))

    def test_scaling_carries_what_float16_would_lose(self):
        gradient = np.full(4, 2**-26, np.float32)
        state = optimizers.start([np.zeros(4, np.float32)], LossScale(2.0**15), "sgd")
        scaled = (gradient * np.float32(2**15)).astype(np.float16)
        assert np.array_equal(optimizers.unscaled([scaled], state)[0], gradient)
        assert not gradient.astype(np.float16).any()

    def test_a_stream_that_overflows_at_once_comes_down_and_goes_up(self):
        stream = np.full((12, 2), 1.0, np.float32)
        outputs = scaler.scaled_updates(stream, initial=2.0**17, interval=4, lr=1.0)
        exact = scaler.scaled_updates_exact(stream.astype(np.float64), initial=2.0**17, interval=4, lr=1.0)
        powers = [16, 15, 15, 15, 15, 16, 15, 15, 15, 15, 16, 15]
        assert np.log2(outputs["scales"]).tolist() == np.log2(exact["scales"]).tolist() == powers
        np.testing.assert_allclose(outputs["moved"], exact["moved"], rtol=1e-6)


def batches(seed):
    random = np.random.default_rng(seed)
    shapes = [((24, 32, 16), 1), ((24, 32, 4), 0.01), ((16, 24), 0.25), ((24, 4), 0.001)]
    return [random.normal(0, std, shape).astype(np.float32) for shape, std in shapes]


class TestTrainingSteps:
    def test_gradients_of_both_agree_with_finite_differences(self):
        x, target, w1, w2 = (array.astype(np.float64) for array in batches(0))
        w2 = 100 * w2
        _, (gradient1, gradient2) = steps.loss_and_scaled_gradients(x[0], target[0], [w1, w2], 1.0)
        joined = oracles.backward(x[0], target[0], np.concatenate([w1.ravel(), w2.ravel()]), w1.shape, w2.shape)[1]
        np.testing.assert_allclose(
            np.concatenate([gradient1.ravel(), gradient2.ravel()]), joined, rtol=1e-10, atol=1e-15
        )
        for weight, gradient, place in [(w1, gradient1, (3, 7)), (w2, gradient2, (11, 2))]:
            losses = []
            for size in (1e-6, -2e-6):
                weight[place] += size
                losses.append(np.mean((np.tanh(x[0] @ w1) @ w2 - target[0]) ** 2))
            assert gradient[place] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-5, abs=1e-9)

    @pytest.mark.parametrize("optimizer", ["adam", "sgd"])
    def test_scaling_is_worth_a_factor_of_ten(self, optimizer):
        inputs = batches(1)
        off = {}
        for scaling in ("unscaled", "static", "dynamic"):
            params = PARAMS | {"optimizer": optimizer, "precision": "float16", "scaling": scaling}
            exact = oracles.training_steps(*(array.astype(np.float64) for array in inputs), **params)
            actual = steps.training_steps(*inputs, **params)
            assert np.array_equal(actual["scales"], exact["scales"])
            off[scaling] = np.median(np.abs(actual["moved1"] / exact["moved1"] - 1))
        assert off["unscaled"] > 10 * max(off["static"], off["dynamic"])

    def test_the_first_dynamic_steps_are_skipped(self):
        inputs = batches(2)
        params = PARAMS | {"optimizer": "sgd", "precision": "float16", "scaling": "dynamic"}
        scales = steps.training_steps(*inputs, **params)["scales"]
        assert scales[0] == 2**29
        assert (np.diff(scales) > 0).any(), "and it grows again"
