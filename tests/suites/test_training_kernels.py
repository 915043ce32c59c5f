"""The training kernels: lost updates in rational numbers, gradients by finite differences, what precision costs."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.suites.kernel_files import load

step = load("integration/kernels/mixed_precision_step")
network = load("model/kernels/small_network")
oracles = load("model/kernels/small_network_oracles")

NARROW = {np.float16: Fraction(1, 2**11), ml_dtypes.bfloat16: Fraction(1, 2**8)}
"""Half a unit in the last place of 1.125."""


@pytest.mark.parametrize("dtype", NARROW)
class TestLostUpdates:
    def test_a_narrow_weight_never_moves(self, dtype):
        weight, gradient = np.array([1.125], dtype), np.array([0.00041999], dtype)
        moved = step.repeated_update(weight, gradient, additions=100, weights="narrow")
        assert Fraction(float(gradient[0])) < NARROW[dtype]
        assert Fraction(float(moved[0])) == Fraction("1.125")

    def test_a_master_weight_moves_by_all_of_them(self, dtype):
        weight, gradient = np.array([1.125], dtype), np.array([0.00041999], dtype)
        moved = step.repeated_update(weight, gradient, additions=100, weights="master")
        exact = Fraction("1.125") + 100 * Fraction(float(gradient[0]))
        assert abs(Fraction(float(moved[0])) - exact) < 100 * Fraction(1, 2**24)
        assert float(exact) == step.repeated_update_exact(
            weight.astype(np.float64), gradient.astype(np.float64), additions=100, weights="master"
        )


def layers(seed):
    random = np.random.default_rng(seed)
    shapes = [((32, 64), 1), ((32, 8), 1), ((64, 48), 0.125), ((48, 8), 0.144)]
    return [random.normal(0, std, shape).astype(np.float32) for shape, std in shapes]


class TestTrainingStep:
    def test_exact_gradients_agree_with_finite_differences(self):
        x, target, w1, w2 = (array.astype(np.float64) for array in layers(0))

        def loss(w1, w2):
            return np.mean((np.maximum(x @ w1, 0) @ w2 - target) ** 2)

        exact = step.training_step_exact(x, target, w1, w2, precision="float16", lr=0.01, weights="master")
        for place in [(0, 0), (17, 7), (47, 3)]:
            nudge = np.zeros_like(w1)
            nudge[place] = 1e-6
            assert exact["gradient1"][place] == pytest.approx(
                (loss(w1 + nudge, w2) - loss(w1 - nudge, w2)) / 2e-6, abs=1e-8
            )
            nudge = np.zeros_like(w2)
            nudge[place] = 1e-6
            assert exact["gradient2"][place] == pytest.approx(
                (loss(w1, w2 + nudge) - loss(w1, w2 - nudge)) / 2e-6, abs=1e-8
            )
        assert np.array_equal(exact["w1"], w1 - 0.01 * exact["gradient1"])

    @pytest.mark.parametrize("precision", ["float16", "bfloat16"])
    @pytest.mark.parametrize("seed", range(3))
    def test_master_weights_keep_what_narrow_weights_lose(self, seed, precision):
        inputs, params = layers(seed), {"precision": precision, "lr": 0.01}
        exact = step.training_step_exact(*(array.astype(np.float64) for array in inputs), **params, weights="master")
        master, narrow = (step.training_step(*inputs, **params, weights=weights) for weights in ("master", "narrow"))
        for name in ("w1", "w2"):
            kept, lost = (np.mean(np.abs(result[name] - exact[name])) for result in (master, narrow))
            assert lost > 50 * kept

    @pytest.mark.parametrize(("size", "lost"), [(1e-4, lambda g: g == 0), (5e3, np.isinf)])
    def test_bfloat16_gradients_neither_underflow_nor_overflow_where_float16_ones_do(self, size, lost):
        x, target, w1, w2 = layers(4)
        inputs = [x * np.float32(size), target * np.float32(size), w1, w2]
        exact = step.training_step_exact(*inputs, precision="float16", lr=0.01, weights="master")
        shares = {}
        for precision in ("float16", "bfloat16"):
            with np.errstate(all="ignore"):
                found = step.training_step(*inputs, precision=precision, lr=0.01, weights="master")
            gradients = np.concatenate([found[name].astype(np.float64).ravel() for name in ("gradient1", "gradient2")])
            exacts = np.concatenate([exact[name].ravel() for name in ("gradient1", "gradient2")])
            shares[precision] = np.mean(lost(gradients) & (exacts != 0))
        assert shares["float16"] > 0.3
        assert shares["bfloat16"] == 0

    def test_matrix_product_rounds_the_sum_once(self):
        random = np.random.default_rng(5)
        a, b = (
            random.integers(-40, 40, (5, 33)).astype(np.float16),
            random.integers(-40, 40, (33, 7)).astype(np.float16),
        )
        exact = a.astype(np.int64) @ b.astype(np.int64)
        assert np.array_equal(step.matrix_product(a, b), exact.astype(np.float16))


def start(seed):
    random = np.random.default_rng(seed)
    shapes = [((256, 2), 1), ((512, 2), 1), ((2, 16), 1), ((16,), 0.1), ((16, 1), 0.25)]
    return [random.normal(0, std, shape).astype(np.float32) for shape, std in shapes]


class TestSmallNetwork:
    def test_gradients_agree_with_finite_differences(self):
        points, _, *weights = (array.astype(np.float64) for array in start(0))
        signs = network.labels(points)
        _, gradients = network.loss_and_gradients(points, signs, weights)
        for index, gradient in enumerate(gradients):
            place = (0,) * gradient.ndim
            losses = []
            for size in (1e-6, -1e-6):
                moved = [array.copy() for array in weights]
                moved[index][place] += size
                losses.append(network.loss_and_gradients(points, signs, moved)[0])
            assert gradient[place] == pytest.approx((losses[0] - losses[1]) / 2e-6, abs=1e-8)

    @pytest.mark.parametrize("seed", range(2))
    def test_training_arrives_unless_updates_are_lost(self, seed):
        inputs = start(seed)
        exact = oracles.train(*(array.astype(np.float64) for array in inputs), lr=0.02, steps=800, precision="single")
        assert exact["losses"][-1] < 0.4 * exact["losses"][0]
        assert exact["accuracy"] > 0.9
        worst = {}
        for precision in network.FORMATS:
            result = network.train(*inputs, lr=0.02, steps=800, precision=precision)
            worst[precision] = np.max(np.abs(result["losses"] - exact["losses"]) / exact["losses"])
            assert {array.dtype.name for array in result.values()} == {"float32"}
        assert worst["single"] < 1e-5
        assert worst["mixed"] < 2e-3
        assert worst["mixed_bfloat16"] < 1e-2 < worst["half"]
