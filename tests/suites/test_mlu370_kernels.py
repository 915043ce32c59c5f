"""What an MLU370-like device does, in numbers worked out by hand, and training runs against finite differences."""

from fractions import Fraction

import numpy as np
import pytest

from tests.suites.kernel_files import load
from tests.suites.measured import comparisons

kernels = load("unit/kernels/mlu370")
training = load("model/kernels/mlu370_training")
epochs = load("networks/epochs")
noisy = load("model/kernels/noisy_updates")
oracles = load("model/kernels/mlu370_training_oracles")


class TestOracles:
    @pytest.mark.parametrize(
        ("number", "kept"),
        [
            (Fraction(2**21 + 1), 2**21),
            (Fraction(2**21 - 1), 2**21 - 1),
            (-Fraction(2**22 - 1, 2), Fraction(-(2**22 - 2), 2)),
            (Fraction(1, 2**126), Fraction(1, 2**126)),
            (Fraction(2**30 - 1, 2**156), 0),
        ],
    )
    def test_cut_keeps_21_bits_toward_zero_and_flushes(self, number, kept):
        assert kernels.cut(number) == kept

    def test_bits_and_whole_numbers_agree_on_the_bias(self):
        x = (2.0**23 + np.arange(8 * 50)).astype(np.float32)
        found = kernels.times_one_by_bits(x, np.float32(1))
        assert found["mean_error"] == -7 / 16
        assert found["products"].tolist() == [value // 8 * 8 for value in x.tolist()]
        rounded = kernels.times_one(x, np.float32(1))
        assert rounded["mean_error"] == 0


class TestAlign:
    def test_one_beside_eight_is_an_eighth(self):
        one, eight = np.array([1.0]), np.array([8.0])
        right, published = (kernels.align(one, eight, form=form) for form in ("binary", "published"))
        assert (right["aligned"][0], right["sum"][0]) == (0.125, 9.0)
        assert published["aligned"][0] == pytest.approx(0.000125, rel=1e-15)
        assert published["sum"][0] == pytest.approx(8.001, rel=1e-15)


def drawn(seed, steps):
    random = np.random.default_rng(seed)
    shapes = [((512, 2), 1), ((300, 2), 1), ((2, 16), 1), ((16,), 0.1), ((16, 1), 0.25)]
    return [*(random.normal(0, std, shape) for shape, std in shapes), np.zeros((steps, 64))]


class TestTraining:
    def test_gradients_agree_with_finite_differences(self):
        x, _, *weights, _ = drawn(0, 1)
        _, gradients = training.loss_and_gradients(x, training.labels(x), weights)
        for which, place in [(0, (1, 3)), (1, (5,)), (2, (7, 0))]:
            losses = []
            for size in (1e-6, -2e-6):
                weights[which][place] += size
                losses.append(training.loss_and_gradients(x, training.labels(x), weights)[0])
            weights[which][place] += 1e-6
            assert gradients[which][place] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-5)

    def test_float64_and_its_oracle_train_alike(self):
        inputs, params = drawn(1, 80), {"lr": 0.5, "epochs": 10, "target": 0.69}
        found, exact = training.train(*inputs, **params), oracles.train(*inputs, **params)
        np.testing.assert_allclose(found["losses"], exact["losses"], rtol=1e-6)
        assert found["accuracy"] == exact["accuracy"]
        assert found["steps"] == pytest.approx(float(exact["steps"]), rel=1e-9)

    @pytest.mark.parametrize(("losses", "steps"), [([1, 0.5, 0.25], 12.0), ([1, 0.75, 0.6], 0), ([0.4, 0.3], 0)])
    def test_steps_until_a_loss(self, losses, steps):
        assert epochs.steps_until(np.array(losses), 0.5, 8) == pytest.approx(2 * 8 if steps == 12.0 else steps)

    def test_truncation_raises_the_loss_in_every_epoch_at_the_end(self):
        plain = comparisons("model/mlu370_training")["mlu370-plain"]
        biases = [found.metrics["bias"] for found in plain if found.output == "losses"]
        assert min(biases) > 0

    def test_noise_of_one_sign_moves_weights_and_of_both_does_not(self):
        random = np.random.default_rng(2)
        signed, e = np.zeros((1024, 4), np.float32), random.uniform(1e-7, 1e-5, (1600, 4)).astype(np.float32)
        signs = random.choice(np.float32([-1, 1]), e.shape)
        one, both = (noisy.descend(signed, noise, 0.1, 100)[1] for noise in (e, e * signs))
        assert np.all(one < -1600 * 4e-6)
        assert np.abs(both).max() < 5e-4
