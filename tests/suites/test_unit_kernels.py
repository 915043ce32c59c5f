"""The unit kernels against what was published, and against arithmetic that shares nothing with them."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tests.suites.kernel_files import load

adam = load("unit/kernels/apply_adam")
adam_oracles = load("unit/kernels/apply_adam_oracles")
cast_chain = load("unit/kernels/cast_chain")
layer_norm = load("unit/kernels/layer_norm")
softmax = load("unit/kernels/softmax")

ADAM = {"lr": 1e-4, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "step": 1000}


def adam_state(seed, shape=(768, 768)):
    random = np.random.default_rng(seed)
    w, m, g = (random.normal(0, std, shape).astype(np.float32) for std in (1, 0.23, 1))
    return w, m, random.uniform(0.58, 0.68, shape).astype(np.float32), g


def widened(arrays):
    return [array.astype(np.float64) for array in arrays]


class TestAdam:
    def test_standard_order_has_the_golden_bits(self):
        state = adam_state(0)
        actual = adam.apply_adam(*state, **ADAM, order="standard")
        golden = adam_oracles.golden(*state, **ADAM, order="standard")
        assert all(np.array_equal(actual[name].view(np.uint32), golden[name].view(np.uint32)) for name in "wmv")

    def test_swapped_order_matches_golden_at_99_993_percent(self):
        same = []
        for seed in range(4):
            state = adam_state(seed)
            actual = adam.apply_adam(*state, **ADAM, order="swapped")
            golden = adam_oracles.golden(*state, **ADAM, order="swapped")
            assert np.array_equal(actual["m"], golden["m"])
            same.append(np.mean(actual["w"] == golden["w"]))
        assert np.mean(same) == pytest.approx(0.99993, abs=2e-5)

    def test_both_orders_are_equally_accurate(self):
        state = adam_state(0)
        exact = adam_oracles.exact(*widened(state), **ADAM, order="standard")["w"]
        standard, swapped = (
            np.abs(adam.apply_adam(*state, **ADAM, order=order)["w"] - exact).mean()
            for order in ("standard", "swapped")
        )
        assert swapped / standard == pytest.approx(1, abs=1e-2)

    def test_exact_agrees_with_50_digits(self):
        state = widened(adam_state(0, (20,)))
        result = adam_oracles.exact(*state, **ADAM, order="standard")["w"]
        with mpmath.workdps(50):
            b1, b2, lr, eps = (mpmath.mpf(ADAM[name]) for name in ("beta1", "beta2", "lr", "eps"))
            for value, w, m, v, g in zip(result, *(map(mpmath.mpf, column) for column in state), strict=True):
                m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
                rate = lr * mpmath.sqrt(1 - b2**1000) / (1 - b1**1000)
                assert abs(value - (w - rate * m / (mpmath.sqrt(v) + eps))) < 1e-15


class TestCastChain:
    published = cast_chain.cast_chain(np.array([1.12156456132]), np.array([1.125]), np.array([0.12457275390625]))

    @pytest.mark.parametrize(
        ("name", "dtype", "value"),
        [
            ("single", "float32", "1.12156450748443603515625"),
            ("half", "float16", "1.12109375"),
            ("widened", "float32", "1.12109375"),
            ("sum_half", "float16", "1.25"),
            ("sum_single", "float32", "1.24957275390625"),
        ],
    )
    def test_published_decimals_are_exact(self, name, dtype, value):
        assert self.published[name].dtype == dtype
        assert Fraction(float(self.published[name][0])) == Fraction(value)

    def test_golden_is_the_published_table(self):
        golden = cast_chain.published(np.zeros(1), np.zeros(1), np.zeros(1))
        for name, array in self.published.items():
            assert golden[name].dtype == array.dtype
            assert golden[name] == array

    @pytest.mark.parametrize("to_half", [cast_chain.to_half, cast_chain.to_half_by_integers])
    def test_half_rounds_to_even_between_all_neighbours(self, to_half):
        codes = np.arange(0x7BFF, dtype=np.uint16)
        lower, upper = codes.view(np.float16).astype(np.float32), (codes + np.uint16(1)).view(np.float16)
        middle = (lower + upper.astype(np.float32)) / 2
        even = codes + (codes & 1)
        infinity = np.float32(np.inf)
        for sign in (np.float32(1), np.float32(-1)):
            bit = np.uint16(0x8000 if sign < 0 else 0)
            assert np.array_equal(to_half(sign * lower).view(np.uint16), codes | bit)
            assert np.array_equal(to_half(sign * middle).view(np.uint16), even | bit)
            assert np.array_equal(to_half(sign * np.nextafter(middle, 0 * middle)).view(np.uint16), codes | bit)
            assert np.array_equal(to_half(sign * np.nextafter(middle, infinity)).view(np.uint16), (codes + 1) | bit)

    @pytest.mark.parametrize("to_half", [cast_chain.to_half, cast_chain.to_half_by_integers])
    def test_half_overflows_from_65520_on(self, to_half):
        ends = np.array([65519.996, 65520, 1e30, np.inf, 2**-25, 1.0000001 * 2**-25, 1e-45], np.float32)
        assert list(to_half(ends)) == [65504, np.inf, np.inf, np.inf, 0, 2**-24, 0]

    @pytest.mark.parametrize("to_half", [cast_chain.double_to_half, cast_chain.double_to_half_by_integers])
    def test_a_double_rounds_once_between_all_neighbours(self, to_half):
        codes = np.arange(0x7BFF, dtype=np.uint16)
        lower, upper = (found.view(np.float16).astype(np.float64) for found in (codes, codes + np.uint16(1)))
        middle, zeros = (lower + upper) / 2, np.zeros(len(codes))
        for x, expected in (
            (lower, codes),
            (middle, codes + (codes & 1)),
            (np.nextafter(middle, 0), codes),
            (np.nextafter(middle, np.inf), codes + 1),
        ):
            assert np.array_equal(to_half(x, zeros, through="nothing").view(np.uint16), expected)
            assert np.array_equal(to_half(-x, -zeros, through="nothing").view(np.uint16), expected | 0x8000)
        ends = np.array([65519.99999, 65520, 1e300, np.inf, 2**-25, 2**-25 * (1 + 2**-52), 5e-324])
        assert list(to_half(ends, 0 * ends[:1], through="nothing")) == [65504, np.inf, np.inf, np.inf, 0, 2**-24, 0]

    def test_two_roundings_miss_what_lies_beside_a_tie(self):
        x, nudge = np.array([2049.0, 2051.0]), np.array([1e-6, -1e-6])
        assert list(cast_chain.double_to_half(x, nudge, through="nothing")) == [2050, 2050]
        assert list(cast_chain.double_to_half(x, nudge, through="float32")) == [2048, 2052]


class TestLayerNorm:
    def test_published_study_of_the_device_style(self):
        x = np.random.RandomState(42).randn(8, 128, 768).astype(np.float32)
        exact = layer_norm.exact(x.astype(np.float64), eps=1e-5, style="device")
        error = np.abs(layer_norm.layer_norm(x, eps=1e-5, style="device") - exact)
        assert np.sum(error > 1e-3) == pytest.approx(6858, abs=2)
        assert np.corrcoef(error.ravel(), np.abs(x).ravel())[0, 1] == pytest.approx(0.637, abs=5e-4)

    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    def test_plain_rounds_little_more_than_once(self, dtype):
        x = np.random.default_rng(1).normal(size=(3, 5, 63)).astype(dtype)
        result = layer_norm.layer_norm(x, eps=1e-5, style="plain")
        assert result.dtype == dtype
        np.testing.assert_allclose(result, by_fsum(x), rtol=0.51 * np.finfo(dtype).eps, atol=6e-7)

    def test_exact_agrees_with_correctly_rounded_sums(self):
        x = np.random.default_rng(2).normal(size=(3, 5, 63))
        np.testing.assert_allclose(layer_norm.exact(x, eps=1e-5, style="plain"), by_fsum(x), rtol=1e-12, atol=1e-14)


def by_fsum(x):
    rows = []
    for row in x.reshape(-1, x.shape[-1]).astype(np.float64):
        mean = math.fsum(row) / len(row)
        variance = math.fsum((value - mean) ** 2 for value in row) / len(row)
        rows.append((row - mean) / math.sqrt(variance + 1e-5))
    return np.reshape(rows, x.shape)


class TestSoftmax:
    def test_lanes_add_exactly_what_is_there(self):
        terms = np.random.default_rng(3).integers(0, 1000, (2, 3, 201)).astype(np.float32)
        assert np.array_equal(softmax.sum_in_lanes(terms)[..., 0], terms.astype(np.int64).sum(-1))

    def test_exact_agrees_with_50_digits(self):
        x = np.random.default_rng(4).normal(size=63)
        with mpmath.workdps(50):
            weights = [mpmath.exp(mpmath.mpf(value)) for value in x]
            expected = [float(weight / mpmath.fsum(weights)) for weight in weights]
        np.testing.assert_allclose(softmax.exact(x), expected, rtol=1e-14)

    @pytest.mark.parametrize("shape", [(4, 4096), (4, 64), (3, 5, 63)])
    def test_float16_accumulator_hides_inside_the_tolerance(self, shape, monkeypatch):
        xs = [np.random.default_rng(seed).normal(size=shape).astype(np.float16) for seed in range(3)]
        exact = [softmax.exact(x.astype(np.float64)) for x in xs]
        wide = [np.abs(softmax.softmax(x) - r) for x, r in zip(xs, exact, strict=True)]
        monkeypatch.setattr(softmax, "ACCUMULATOR", np.float16)
        narrow = [np.abs(softmax.softmax(x) - r) for x, r in zip(xs, exact, strict=True)]
        assert all((error <= 4e-3 * r + 1e-7).all() for error, r in zip(narrow, exact, strict=True))
        assert np.mean(narrow) / np.mean(wide) > 1.3
