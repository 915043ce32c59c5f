"""The softmax family, the normalizations and the loss: exact forms against 60 digits, and every figure they claim."""

import math

import mpmath
import numpy as np
import pytest

from tests.suites.kernel_files import load

log_softmax = load("unit/kernels/log_softmax")
log_sum_exp = load("unit/kernels/log_sum_exp")
softmax = load("unit/kernels/softmax")
layer_norm = load("unit/kernels/layer_norm")
rms_norm = load("unit/kernels/rms_norm")
batch_norm = load("unit/kernels/batch_norm")
cross_entropy = load("unit/kernels/cross_entropy")

INFINITY = np.inf
BATCH_NORM = {"eps": 1e-5, "momentum": 0.1}


@pytest.fixture(autouse=True)
def as_in_a_run():
    with np.errstate(all="ignore"):
        yield


def normal(shape, mean=0.0, std=1.0, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(mean, std, shape).astype(dtype)


def masked(x, share, seed=1):
    return np.where(np.random.default_rng(seed).random(x.shape) < share, x.dtype.type(-INFINITY), x)


def true_log_sum_exp(row):
    """The logarithm of a row's sum of exponentials as a number of mpmath."""
    return mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(float(value))) for value in row))


ROWS = {
    "ordinary": normal((3, 40)),
    "wide": normal((3, 40), std=100),
    "large_mean": normal((3, 40), mean=1000, std=2),
    "masked": masked(normal((3, 40)), 0.8),
    "far": np.array([[0, -3e38, 1e-45, -0.0], [-1e5, -1e5, 1e5, 0]], np.float32),
}


@pytest.mark.parametrize("name", ROWS)
class TestAgainst60Digits:
    def test_log_softmax(self, name):
        x = ROWS[name].astype(np.float64)
        with mpmath.workdps(60):
            expected = [[float(mpmath.mpf(v) - true_log_sum_exp(row)) for v in row] for row in x]
        np.testing.assert_allclose(log_softmax.exact(x), expected, rtol=1e-14, atol=1e-14)

    def test_log_sum_exp(self, name):
        x = ROWS[name].astype(np.float64)
        with mpmath.workdps(60):
            expected = [float(true_log_sum_exp(row)) for row in x]
        np.testing.assert_allclose(log_sum_exp.exact(x), expected, rtol=1e-15)

    def test_softmax(self, name):
        x = ROWS[name].astype(np.float64)
        with mpmath.workdps(60):
            expected = [[float(mpmath.exp(mpmath.mpf(v) - true_log_sum_exp(row))) for v in row] for row in x]
        np.testing.assert_allclose(softmax.exact(x), expected, rtol=1e-13)

    def test_cross_entropy(self, name):
        x = ROWS[name].astype(np.float64)
        labels = np.arange(len(x))
        with mpmath.workdps(60):
            expected = [float(true_log_sum_exp(row) - mpmath.mpf(row[k])) for k, row in enumerate(x)]
        result = cross_entropy.exact(x, labels, reduction="mean")
        np.testing.assert_allclose(result["losses"], expected, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(result["mean"], np.mean(expected), rtol=1e-14)


@pytest.mark.parametrize("name", ROWS)
class TestKernelsNearTheirExactForms:
    def test_log_softmax(self, name):
        x = ROWS[name]
        exact = log_softmax.exact(x.astype(np.float64)).astype(np.float32)
        np.testing.assert_allclose(log_softmax.log_softmax(x), exact, rtol=5e-7, atol=1e-6)

    def test_log_sum_exp(self, name):
        x = ROWS[name]
        np.testing.assert_allclose(
            log_sum_exp.log_sum_exp(x), log_sum_exp.exact(x.astype(np.float64)), rtol=3e-7, atol=1e-6
        )

    def test_cross_entropy_is_the_negated_log_softmax(self, name):
        x = ROWS[name]
        labels = np.arange(len(x))
        losses = cross_entropy.cross_entropy(x, labels, reduction="none")["losses"]
        picked = log_softmax.exact(x.astype(np.float64))[labels, labels]
        np.testing.assert_allclose(losses, -picked.astype(np.float32), rtol=5e-7, atol=1e-6)


class TestLogSoftmax:
    def test_logarithm_of_a_softmax_that_underflows(self):
        x = ROWS["wide"]
        assert np.isinf(np.log(softmax.softmax(x))).any()
        assert np.isfinite(log_softmax.log_softmax(x)).all()

    def test_maximum_and_logarithm_in_one_number_are_rounded_to_the_ulp_of_the_maximum(self):
        x = ROWS["large_mean"]
        exact = log_softmax.exact(x.astype(np.float64))
        together = x - (x.max(-1, keepdims=True) + np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)))
        apart = np.abs(log_softmax.log_softmax(x) - exact).max()
        assert np.abs(together - exact).max() > 10 * apart


class TestLogSumExp:
    def test_one_pass_over_any_number_of_blocks(self):
        for width in (1, 63, 64, 65, 129, 1000):
            x = normal((20, width), std=3, seed=width)
            np.testing.assert_allclose(
                log_sum_exp.log_sum_exp(x), log_sum_exp.exact(x.astype(np.float64)), rtol=3e-7, atol=1e-6
            )

    def test_rows_of_infinities(self):
        x = np.zeros((4, 129), np.float32)
        x[0] = -INFINITY
        x[1, 5], x[2, 128] = INFINITY, INFINITY
        x[3, :100] = -INFINITY
        expected = [-INFINITY, INFINITY, INFINITY, math.log(29)]
        for function in (log_sum_exp.log_sum_exp, log_sum_exp.exact):
            np.testing.assert_allclose(function(x), expected, rtol=1e-7)

    def test_the_largest_number_comes_in_the_last_block(self):
        x = np.zeros((1, 129), np.float32)
        x[0, 128] = 200
        assert log_sum_exp.log_sum_exp(x) == 200


class TestSoftmaxEdges:
    def test_a_row_that_is_masked_everywhere_is_nan(self):
        x = np.full((1, 5), -INFINITY, np.float32)
        assert np.isnan(softmax.softmax(x)).all()
        assert np.isnan(softmax.exact(x.astype(np.float64))).all()

    def test_masked_places_are_zero_and_the_others_are_as_if_alone(self):
        x = masked(normal((50, 129)), 0.9)
        result = softmax.softmax(x)
        assert (result[np.isinf(x)] == 0).all()
        alone = [softmax.exact(row[np.isfinite(row)].astype(np.float64)) for row in x]
        np.testing.assert_allclose(result[np.isfinite(x)], np.concatenate(alone), rtol=1e-6)


class TestLayerNormEdges:
    def test_the_device_style_cancels_where_the_mean_is_160_deviations(self):
        x = normal((64, 129), 16, 0.1)
        exact = layer_norm.exact(x.astype(np.float64), eps=1e-5, style="plain")
        device, plain = (np.abs(layer_norm.layer_norm(x, eps=1e-5, style=s) - exact) for s in ("device", "plain"))
        assert np.isnan(device).any()
        assert np.nanmean(device) > 0.1
        assert plain.max() < 1e-4

    def test_equal_rows_are_zero_but_for_the_rounding_of_the_mean(self):
        x = np.full((2, 129), 0.1, np.float32)
        exact = layer_norm.exact(x.astype(np.float64), eps=1e-5, style="plain")
        assert np.abs(exact).max() < 1e-12
        assert np.abs(layer_norm.layer_norm(x, eps=1e-5, style="plain")).max() < 1e-5


class TestRmsNorm:
    GAIN = normal(129, 1, 0.1)

    @pytest.mark.parametrize(("mean", "std"), [(0, 1), (0, 1e-3), (1000, 1), (0, 1e18)])
    def test_against_correctly_rounded_sums(self, mean, std):
        x = normal((8, 129), mean, std)
        rows = [math.sqrt(math.fsum(float(v) ** 2 for v in row) / 129 + 1e-6) for row in x]
        expected = x.astype(np.float64) / np.array(rows)[:, None] * self.GAIN
        exact = rms_norm.exact(x.astype(np.float64), self.GAIN.astype(np.float64), eps=1e-6)
        np.testing.assert_allclose(exact, expected, rtol=1e-14)
        np.testing.assert_allclose(rms_norm.rms_norm(x, self.GAIN, eps=1e-6), expected, rtol=1e-6)

    def test_rows_of_zeros_keep_their_signs(self):
        zeros = np.array([[0.0, -0.0] * 64 + [0.0]], np.float32)
        assert rms_norm.rms_norm(zeros, np.ones(129, np.float32), eps=1e-6).tobytes() == zeros.tobytes()

    def test_squares_overflow_where_claimed(self):
        ones = np.ones(129, np.float32)
        for size, survives in ((1.8e19, True), (1.9e19, False)):
            x = np.zeros((1, 129), np.float32)
            x[0, 0] = size
            assert (rms_norm.rms_norm(x, ones, eps=1e-6)[0, 0] > 11) == survives

    def test_half_of_eps_is_all_that_its_place_costs_on_ordinary_rows(self):
        x = normal((64, 4096)).astype(np.float64)
        root = np.sqrt(np.square(x).mean(-1))
        inside, outside = np.sqrt(np.square(root) + 1e-6), root + 1e-6
        np.testing.assert_allclose(outside / inside - 1, 0.5e-6, rtol=0.1)


class TestBatchNorm:
    X = normal((16, 24, 8, 8), 3, 2)
    CHANNEL = (normal(24, 1, 0.1, 2), normal(24, 0, 0.1, 3), normal(24, 0, 0.1, 4), np.abs(normal(24, 1, 0.3, 5)))

    def widened(self):
        return [array.astype(np.float64) for array in (self.X, *self.CHANNEL)]

    def test_training_against_correctly_rounded_sums(self):
        result = batch_norm.exact_training(*self.widened(), **BATCH_NORM)
        gain, bias, running_mean, running_variance = self.CHANNEL
        for channel in (0, 11, 23):
            values = [float(v) for v in self.X[:, channel].ravel()]
            mean = math.fsum(values) / 1024
            squares = math.fsum((v - mean) ** 2 for v in values)
            y = (values[7] - mean) / math.sqrt(squares / 1024 + 1e-5) * float(gain[channel]) + float(bias[channel])
            assert result["y"][:, channel].ravel()[7] == pytest.approx(y, rel=1e-13)
            assert result["running_mean"][channel] == pytest.approx(0.9 * running_mean[channel] + 0.1 * mean, rel=1e-7)
            unbiased = 0.9 * float(running_variance[channel]) + 0.1 * squares / 1023
            assert result["running_variance"][channel] == pytest.approx(unbiased, rel=1e-13)

    def test_kernels_near_their_exact_forms(self):
        trained = batch_norm.training(self.X, *self.CHANNEL, **BATCH_NORM)
        exact = batch_norm.exact_training(*self.widened(), **BATCH_NORM)
        for name in exact:
            np.testing.assert_allclose(trained[name], exact[name], rtol=5e-7, atol=2e-6)
        inferred = batch_norm.inference(self.X, *self.CHANNEL, **BATCH_NORM)
        np.testing.assert_allclose(
            inferred, batch_norm.exact_inference(*self.widened(), **BATCH_NORM), rtol=5e-7, atol=2e-6
        )

    def test_inference_by_the_statistics_of_the_batch_is_training(self):
        wide = self.widened()
        mean, variance = wide[0].mean((0, 2, 3)), wide[0].var((0, 2, 3))
        np.testing.assert_allclose(
            batch_norm.exact_inference(*wide[:3], mean, variance, **BATCH_NORM),
            batch_norm.exact_training(*wide, **BATCH_NORM)["y"],
            rtol=1e-12,
            atol=1e-12,
        )

    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    def test_dtypes_are_those_of_the_inputs(self, dtype):
        x, gain, bias = (array.astype(dtype) for array in (self.X, *self.CHANNEL[:2]))
        trained = batch_norm.training(x, gain, bias, *self.CHANNEL[2:], **BATCH_NORM)
        assert [trained[name].dtype for name in ("y", "running_mean")] == [dtype, np.float32]
        assert batch_norm.inference(x, gain, bias, *self.CHANNEL[2:], **BATCH_NORM).dtype == dtype


class TestCrossEntropy:
    def test_rows_that_are_left_out_do_not_count(self):
        x, labels = normal((6, 5)), np.array([0, -1, 3, 4, -1, 2])
        kept = labels >= 0
        for function in (cross_entropy.cross_entropy, cross_entropy.exact):
            result = function(x, labels, reduction="mean")
            assert (result["losses"][~kept] == 0).all()
            assert result["mean"] == pytest.approx(result["losses"][kept].mean(), rel=1e-6)
            alone = function(x[kept], labels[kept], reduction="mean")
            assert np.array_equal(alone["losses"], result["losses"][kept])

    def test_a_label_that_is_masked_costs_infinity(self):
        x = np.array([[0, -INFINITY, 1]], np.float32)
        for function in (cross_entropy.cross_entropy, cross_entropy.exact):
            assert function(x, np.array([1]), reduction="none")["losses"] == INFINITY

    def test_the_mean_of_no_rows_is_nan(self):
        for function in (cross_entropy.cross_entropy, cross_entropy.exact):
            assert np.isnan(function(normal((2, 5)), np.array([-1, -1]), reduction="mean")["mean"])

    def test_a_small_number_under_the_logarithm_hides_large_losses(self):
        x = ROWS["wide"]
        labels = x.argmin(-1)
        plausible = -np.log(softmax.softmax(x)[np.arange(3), labels] + np.float32(1e-9))
        assert plausible.max() < 21
        assert cross_entropy.cross_entropy(x, labels, reduction="none")["losses"].min() > 200

    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    def test_losses_are_float32(self, dtype):
        result = cross_entropy.cross_entropy(normal((4, 5)).astype(dtype), np.arange(4), reduction="mean")
        assert {result[name].dtype for name in ("losses", "mean")} == {np.dtype(np.float32)}
