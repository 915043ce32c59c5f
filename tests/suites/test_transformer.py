"""The transformer's layers, block and training: against high precision, whole Jacobians and finite differences."""

import math

import ml_dtypes
import mpmath
import numpy as np
import pytest

from tests.suites.kernel_files import load

formats = load("networks/formats")
layers = load("networks/layers")
block = load("integration/kernels/transformer_block")
oracles = load("integration/kernels/transformer_block_oracles")
transformer = load("model/kernels/small_transformer")

NARROW = [np.float16, ml_dtypes.bfloat16]
SIZE = 1e-6


def slope_at(loss, array, place):
    """The central difference of a loss by one element."""
    kept = array[place]
    array[place] = kept + SIZE
    above = loss()
    array[place] = kept - SIZE
    below = loss()
    array[place] = kept
    return (above - below) / (2 * SIZE)


class TestProduct:
    def test_integers_are_exact(self):
        random = np.random.default_rng(0)
        a, b = (random.integers(-40, 40, shape).astype(np.float16) for shape in [(2, 3, 5, 33), (2, 3, 33, 7)])
        assert np.array_equal(formats.product(a, b), a.astype(np.int64) @ b.astype(np.int64))

    @pytest.mark.parametrize("dtype", NARROW)
    def test_narrow_products_are_exact_before_they_are_added(self, dtype):
        a, b = (np.random.default_rng(seed).normal(size=(9, 1)).astype(dtype) for seed in (1, 2))
        assert np.array_equal(formats.product(a, b.T), a.astype(np.float64) * b.T.astype(np.float64))

    def test_terms_are_added_in_their_order(self):
        terms = np.array([[2**24, 1, -(2**24), 1]], np.float32)
        assert formats.product(terms, np.ones((4, 1), np.float32)) == 1, "1 is lost against 2^24, and added once"


class TestLayers:
    @pytest.mark.parametrize("x", [-8.0, -1.5, -1e-3, 0.0, 0.7, 6.0])
    def test_gelu_and_its_slope_agree_with_50_digits(self, x):
        def exact(x):
            return x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)))

        with mpmath.workdps(50):
            value, slope = float(exact(mpmath.mpf(x))), float(mpmath.diff(exact, mpmath.mpf(x)))
        assert layers.gelu(np.array([x]))[0] == pytest.approx(value, rel=1e-13, abs=1e-15)
        assert layers.gelu_back(np.ones(1), np.array([x]))[0] == pytest.approx(slope, rel=1e-12, abs=1e-13)

    @pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
    def test_norms_agree_with_sums_that_are_rounded_once(self, norm):
        random = np.random.default_rng(3)
        x, gain = random.normal(2, 1, (5, 17)), random.normal(size=17)
        for row, actual in zip(x, layers.normalize(x, gain, norm)[0], strict=True):
            mean = math.fsum(row) / 17 if norm == "layer_norm" else 0
            deviation = math.sqrt(math.fsum((row - mean) ** 2) / 17 + 1e-5)
            np.testing.assert_allclose(actual, (row - mean) / deviation * gain, rtol=1e-12)

    @pytest.mark.parametrize("dtype", [*NARROW, np.float32])
    def test_all_that_rests_is_in_the_format_of_the_inputs(self, dtype):
        outputs = block.transformer_block(**block_inputs(0, dtype), heads=2, norm="layer_norm")
        assert {array.dtype for array in outputs.values()} == {np.dtype(dtype)}


def block_inputs(seed, dtype=np.float64):
    random = np.random.default_rng(seed)
    shapes = {"x": (2, 5, 8), "dy": (2, 5, 8), "gain1": (8,), "w_qkv": (8, 24), "w_out": (8, 8)}
    shapes |= {"gain2": (8,), "w_up": (8, 16), "w_down": (16, 8)}
    return {name: random.normal(0, 0.5, shape).astype(dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
class TestBlock:
    def test_equals_the_chain_of_whole_jacobians(self, norm):
        inputs = block_inputs(1)
        exact = oracles.transformer_block(**inputs, heads=2, norm=norm)
        actual = block.transformer_block(**inputs, heads=2, norm=norm)
        assert list(actual) == list(exact)
        for name, values in exact.items():
            np.testing.assert_allclose(actual[name], values, rtol=1e-10, atol=1e-13)

    @pytest.mark.parametrize("module", [block, oracles], ids=["kernel", "oracle"])
    def test_gradients_agree_with_finite_differences(self, norm, module):
        inputs = block_inputs(2)
        gradients = module.transformer_block(**inputs, heads=2, norm=norm)

        def loss():
            return np.sum(inputs["dy"] * module.transformer_block(**inputs, heads=2, norm=norm)["y"])

        for name in [name for name in inputs if name != "dy"]:
            for seed in range(3):
                place = tuple(np.random.default_rng(seed).integers(0, inputs[name].shape))
                assert gradients[f"d{name}"][place] == pytest.approx(slope_at(loss, inputs[name], place), abs=1e-8)

    @pytest.mark.parametrize("dtype", NARROW)
    def test_a_narrow_accumulator_costs_more_than_the_tenth_that_a_baseline_allows(self, norm, dtype, monkeypatch):
        def narrow_product(a, b):
            total = np.zeros((), dtype)
            for k in range(a.shape[-1]):
                total = total + a[..., :, k, None] * b[..., k, None, :]
            return total.astype(np.float32)

        inputs = block_inputs(3, dtype)
        widened = {name: array.astype(np.float64) for name, array in inputs.items()}
        exact = oracles.transformer_block(**widened, heads=2, norm=norm)
        wide = block.transformer_block(**inputs, heads=2, norm=norm)
        monkeypatch.setitem(block.block.dense.__globals__, "product", narrow_product)
        narrow = block.transformer_block(**inputs, heads=2, norm=norm)
        for name in ("dx", "dw_up", "dw_down"):
            errors = [np.mean(np.abs(outputs[name].astype(float) - exact[name])) for outputs in (wide, narrow)]
            assert errors[1] > 1.1 * errors[0]


def training_inputs(seed, steps, dtype=np.float32):
    random = np.random.default_rng(seed)
    shapes = {"tokens": ((9, 16), 1), "places": ((8, 16), 1), "gain1": ((16,), 0), "w_qkv": ((16, 48), 0.25)}
    shapes |= {"w_out": ((16, 16), 0.25), "gain2": ((16,), 0), "w_up": ((16, 32), 0.25), "w_down": ((32, 16), 0.18)}
    shapes |= {"gain": ((16,), 0), "head": ((16, 9), 0.25)}
    weights = {
        name: (random.normal(0, std, shape) if std else np.ones(shape)).astype(dtype)
        for name, (shape, std) in shapes.items()
    }
    return random.integers(1, 9, (steps, 24, 4)), random.integers(1, 9, (256, 4)), weights


class TestSmallTransformer:
    def test_reads_a_sequence_and_predicts_it_backwards(self):
        assert transformer.written(np.array([[1, 2, 3, 4]])).tolist() == [[1, 2, 3, 4, 0, 4, 3, 2]]
        assert transformer.reversed_tokens(np.array([[1, 2, 3, 4]])).tolist() == [[4, 3, 2, 1]]

    def test_an_answer_depends_on_nothing_after_it(self):
        _, held_out, weights = training_inputs(0, 1, np.float64)
        model = transformer.as_model(transformer.ordered(**weights), np.float64)
        read = transformer.written(held_out[:1])
        scores, _ = transformer.forward(model, read)
        read[:, 6:] = 0
        again, _ = transformer.forward(model, read)
        assert np.array_equal(scores[:, :2], again[:, :2])
        assert not np.array_equal(scores[:, 2:], again[:, 2:])

    def test_gradients_agree_with_finite_differences(self):
        sequences, _, weights = training_inputs(1, 1, np.float64)
        stored, targets = transformer.ordered(**weights), sequences[0][:, ::-1]

        def loss():
            scores, _ = transformer.forward(transformer.as_model(stored, np.float64), transformer.written(sequences[0]))
            return transformer.cross_entropy(scores, targets)[0]

        model = transformer.as_model(stored, np.float64)
        scores, saved = transformer.forward(model, transformer.written(sequences[0]))
        gradients = transformer.backward(transformer.cross_entropy(scores, targets)[1], model, saved)
        for weight, gradient in zip(stored, gradients, strict=True):
            assert weight.shape == gradient.shape
            place = tuple(np.random.default_rng(2).integers(0, weight.shape))
            assert gradient[place] == pytest.approx(slope_at(loss, weight, place), abs=1e-8)

    def test_training_arrives_in_every_mixed_precision_and_not_with_bfloat16_weights(self):
        sequences, held_out, weights = training_inputs(3, 120)
        widened = {name: array.astype(np.float64) for name, array in weights.items()}
        exact = transformer.exact(sequences, held_out, lr=0.01, precision="float32", **widened)
        assert exact["losses"][0] > 2 > 0.01 > exact["losses"][-1]
        assert exact["accuracy"] == 1
        worst = {}
        for precision in transformer.PRECISIONS:
            actual = transformer.train(sequences, held_out, lr=0.01, precision=precision, **weights)
            worst[precision] = np.max(np.abs(actual["losses"] / exact["losses"] - 1))
            assert {array.dtype.name for array in actual.values()} == {"float32"}
        assert worst["float32"] < 5e-5
        assert worst["float16"] < 2e-2
        assert worst["bfloat16"] < 0.1 < 0.5 < worst["bfloat16_weights"]
