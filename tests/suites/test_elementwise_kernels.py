"""The elementwise kernels: exact forms against 60 digits, kernels against exact forms, and every figure they claim."""

import math

import mpmath
import numpy as np
import pytest

from tests.suites.kernel_files import load

newton_sqrt = load("unit/kernels/newton_sqrt")
exp = load("unit/kernels/exp")
rsqrt = load("unit/kernels/rsqrt")
sigmoid = load("unit/kernels/sigmoid")
silu = load("unit/kernels/silu")
gelu = load("unit/kernels/gelu")

EVERY_HALF = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
HALVES = EVERY_HALF[np.isfinite(EVERY_HALF)]
ROOTS = np.sqrt(0.5), np.sqrt(2)


@pytest.fixture(autouse=True)
def as_in_a_run():
    with np.errstate(all="ignore"):
        yield


def in_ulp(actual, exact):
    """The errors in units of the last place of the actual's dtype, where both are finite."""
    spacing = np.spacing(np.abs(exact).astype(actual.dtype)).astype(exact.dtype)
    finite = np.isfinite(actual) & np.isfinite(spacing)
    return (np.abs(actual.astype(exact.dtype) - exact) / spacing)[finite]


def spread(low, high, dtype=np.float64, count=4001):
    """Positive numbers from low to high, their logarithms evenly spread."""
    with mpmath.workdps(30):
        return np.array(
            [float(mpmath.mpf(low) * (mpmath.mpf(high) / low) ** (i / (count - 1))) for i in range(count)], dtype
        )


def digits(function, values, bits=200):
    """Evaluate a function of mpmath with as many bits, each result rounded once."""
    with mpmath.workprec(bits):
        return np.array([float(function(mpmath.mpf(float(value)))) for value in values])


class TestNewtonSqrt:
    @staticmethod
    def steps_needed(n, start):
        """How many steps until each x is within 1 ULP of its root."""
        n = np.atleast_1d(n)
        x, root = newton_sqrt.STARTS[start](n), np.sqrt(n)
        needed = np.full(n.shape, -1)
        for step in range(600):
            needed[(needed < 0) & (np.abs(x - root) <= np.spacing(root))] = step
            x = n.dtype.type(0.5) * (x + n / x)
        return needed

    @pytest.mark.parametrize(
        ("dtype", "n", "steps"),
        [
            (np.float32, 1e-20, 38),
            (np.float32, 3e38, 67),
            (np.float64, 1e-38, 69),
            (np.float64, 1e300, 502),
            (np.float64, 2, 5),
            (np.float64, 20, 6),
        ],
    )
    def test_steps_from_half(self, dtype, n, steps):
        assert self.steps_needed(dtype(n), "half") == [steps]

    def test_six_steps_from_half_reach_float64_for_moderate_n_only(self):
        assert self.steps_needed(spread(0.5, 32), "half").max() == 6
        assert self.steps_needed(spread(100, 1e4), "half").min() > 6

    def test_ten_steps_from_half_are_enough_for_the_range_that_is_claimed(self):
        assert self.steps_needed(spread(3e-4, 3e4, np.float32), "half").max() <= 10
        assert (self.steps_needed(np.array([1e-4, 1e5], np.float32), "half") > 10).all()

    @pytest.mark.parametrize(
        ("dtype", "low", "high", "steps"),
        [(np.float16, 6e-8, 65504, 3), (np.float32, 1.4e-45, 3.4e38, 4), (np.float64, 5e-324, 1.79e308, 5)],
    )
    def test_half_of_the_exponent_is_near_every_root(self, dtype, low, high, steps):
        n = spread(low, high, dtype)
        assert self.steps_needed(n, "halved_exponent").max() == steps
        guess = newton_sqrt.halved_exponent(n).astype(np.longdouble)
        ratio = guess / np.sqrt(n.astype(np.longdouble))
        assert ratio.min() >= ROOTS[0] * (1 - 1e-6)
        assert ratio.max() <= ROOTS[1] * (1 + 1e-6)

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_within_three_quarters_of_an_ulp(self, dtype):
        ends = np.finfo(dtype)
        n = spread(float(ends.smallest_subnormal), float(ends.max) * 0.999, dtype)
        actual = newton_sqrt.newton_sqrt(n, start="halved_exponent", steps=10)
        with mpmath.workprec(200):
            roots = [mpmath.sqrt(mpmath.mpf(float(value))) for value in n]
            errors = [abs(mpmath.mpf(float(a)) - r) / float(np.spacing(a)) for a, r in zip(actual, roots, strict=True)]
        assert max(errors) <= 0.7502

    @pytest.mark.parametrize("start", ["half", "halved_exponent"])
    def test_zeros_and_infinity_are_their_own_roots(self, start):
        ends = np.array([0.0, -0.0, np.inf], np.float32)
        assert newton_sqrt.newton_sqrt(ends, start=start, steps=10).tobytes() == ends.tobytes()

    def test_half_of_the_smallest_subnormal_is_zero(self):
        smallest = np.array([np.finfo(np.float32).smallest_subnormal])
        assert newton_sqrt.half(smallest) == 0
        assert newton_sqrt.newton_sqrt(smallest, start="half", steps=10) == np.inf

    def test_exact_is_correctly_rounded(self):
        n = spread(1e-320, 1e308, count=200)
        assert np.array_equal(newton_sqrt.exact(n, start="half", steps=10), digits(mpmath.sqrt, n, 400))


class TestExp:
    def test_exact_agrees_with_60_digits(self):
        x = np.concatenate([np.linspace(-110, 90, 400), spread(1e-9, 0.5, count=100)])
        np.testing.assert_array_max_ulp(exp.exact(x), digits(mpmath.exp, x), 1)

    def test_float16_is_rounded_as_if_once_on_every_number(self):
        result, exact = exp.exp(HALVES), exp.exact(HALVES.astype(np.float64))
        assert in_ulp(result, exact).max() < 0.5002
        assert np.array_equal(np.isinf(result), np.isinf(exact.astype(np.float16)))

    def test_float32_on_a_million_patterns(self):
        x = np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
        result, exact = exp.exp(x), np.exp(x.astype(np.float64))
        assert in_ulp(result, exact).max() < 0.97
        assert np.array_equal(np.isnan(result), np.isnan(x))
        assert np.array_equal(np.isinf(result), exact.astype(np.float32) == np.inf)

    def test_accuracy_is_as_claimed(self):
        errors = in_ulp(exp.exp(x := np.linspace(-87, 88.7, 100_001, dtype=np.float32)), np.exp(x.astype(np.float64)))
        assert errors.mean() == pytest.approx(0.27, abs=0.005)
        assert 0.9 < errors.max() < 0.97

    def test_ends(self):
        ends = np.array([0.0, -0.0, np.inf, -np.inf, 88.72, 88.73, -103.9, -104, 1e38, -1e38, np.nan], np.float32)
        expected = [1, 1, np.inf, 0, np.exp(88.72), np.inf, 1.4e-45, 0, np.inf, 0, np.nan]
        np.testing.assert_allclose(exp.exp(ends), np.array(expected).astype(np.float32), rtol=3e-6)

    def test_the_parts_of_ln_2(self):
        assert float(exp.LN_2_HIGH) * 2**9 == 355, "9 bits"
        with mpmath.workprec(100):
            rest = mpmath.log(2) - mpmath.mpf(float(exp.LN_2_HIGH)) - mpmath.mpf(float(exp.LN_2_LOW))
        assert abs(rest) < 2**-36

    def test_ln_2_in_one_part_costs_more_the_larger_x(self, monkeypatch):
        x = np.linspace(-80, 80, 10_001, dtype=np.float32)
        monkeypatch.setattr(exp, "LN_2_HIGH", np.float32(math.log(2)))
        monkeypatch.setattr(exp, "LN_2_LOW", np.float32(0))
        result = exp.exp(x)
        errors = in_ulp(result, np.exp(x.astype(np.float64)))
        assert errors[abs(x) < 2].mean() < 1 < 10 < errors[abs(x) > 60].mean()


class TestRsqrt:
    def test_exact_agrees_with_60_digits(self):
        x = spread(1e-45, 3.4e38, count=300)
        np.testing.assert_array_max_ulp(rsqrt.exact(x, method="plain"), digits(lambda v: 1 / mpmath.sqrt(v), x), 1)

    def test_guess_and_steps_are_as_claimed(self):
        x = spread(1.2e-38, 3.4e38, np.float32)
        true, y = 1 / np.sqrt(x.astype(np.float64)), (np.int32(rsqrt.GUESS) - (x.view(np.int32) >> 1)).view(np.float32)
        before = np.abs(y / true - 1)
        assert 0.03 < before.max() < 0.035
        for least in (1e-9, 1e-7):
            y = y * (1.5 - (0.5 * x * y) * y)
            after = np.abs(y / true - 1)
            assert (after <= 1.55 * before**2 + 3e-7).all()
            before = after
            assert after.max() > least
        assert after.max() < 5e-6, "two steps: enough for float16, not for float32"

    @pytest.mark.parametrize(("method", "worst"), [("newton", 2.2), ("plain", 1.5)])
    def test_float32_over_the_whole_range(self, method, worst):
        x = spread(1.4e-45, 3.4e38, np.float32, 20_001)
        assert in_ulp(rsqrt.rsqrt(x, method=method), rsqrt.exact(x.astype(np.float64), method=method)).max() < worst

    def test_float16_is_rounded_as_if_once_on_every_number(self):
        assert in_ulp(rsqrt.rsqrt(HALVES, method="newton"), 1 / np.sqrt(HALVES.astype(np.float64))).max() < 0.501

    def test_half_of_a_small_number_would_lose_its_last_bit(self, monkeypatch):
        x = spread(1.18e-38, 2.35e-38, np.float32)
        exact = rsqrt.exact(x.astype(np.float64), method="newton")
        assert in_ulp(rsqrt.rsqrt(x, method="newton"), exact).max() < 2.2
        monkeypatch.setattr(rsqrt, "SMALL", np.finfo(np.float32).smallest_normal)
        assert in_ulp(rsqrt.rsqrt(x, method="newton"), exact).max() > 2.5

    @pytest.mark.parametrize("method", ["newton", "plain"])
    def test_ends(self, method):
        ends = np.array([0.0, -0.0, np.inf, -1, -np.inf, np.nan], np.float32)
        assert np.array_equal(
            rsqrt.rsqrt(ends, method=method), np.array([np.inf, -np.inf, 0, *[np.nan] * 3], np.float32), equal_nan=True
        )


def logistic(x):
    return 1 / (1 + mpmath.exp(-x))


class TestSigmoid:
    X = np.concatenate([np.linspace(-110, 110, 441), [1e-45, -1e-45, 3e38, -3e38]])

    def test_exact_agrees_with_60_digits(self):
        np.testing.assert_allclose(sigmoid.exact(self.X), digits(logistic, self.X), rtol=1e-15)

    def test_float32_within_the_tolerance_of_the_suite(self):
        x = np.linspace(-103, 20, 100_001, dtype=np.float32)
        np.testing.assert_allclose(sigmoid.sigmoid(x), sigmoid.exact(x.astype(np.float64)), rtol=5e-7, atol=3e-45)

    def test_both_sides_add_up_to_one(self):
        x = np.linspace(0, 100, 10_001, dtype=np.float32)
        np.testing.assert_allclose(sigmoid.sigmoid(x) + sigmoid.sigmoid(-x), 1, rtol=2.4e-7)

    def test_what_the_other_forms_lose(self):
        x = np.array([-89, -20], np.float32)
        in_one_piece = 1 / (1 + np.exp(-x))
        cancelled = 1 - sigmoid.sigmoid(-x)
        assert in_one_piece[0] == 0 < sigmoid.sigmoid(x)[0]
        assert cancelled[1] == 0
        assert abs(cancelled[1] - sigmoid.sigmoid(x)[1]) < 6e-8

    def test_ends(self):
        ends = np.array([np.inf, -np.inf, 0.0, -0.0, np.nan], np.float16)
        assert np.array_equal(sigmoid.sigmoid(ends), np.array([1, 0, 0.5, 0.5, np.nan], np.float16), equal_nan=True)


class TestSilu:
    def test_exact_agrees_with_60_digits(self):
        x = TestSigmoid.X
        np.testing.assert_allclose(silu.exact(x), digits(lambda v: v * logistic(v), x), rtol=1e-15)

    def test_float32_within_the_tolerance_of_the_suite(self):
        x = np.linspace(-108, 20, 100_001, dtype=np.float32)
        np.testing.assert_allclose(silu.silu(x), silu.exact(x.astype(np.float64)), rtol=6e-7, atol=1.5e-43)

    def test_minus_zero_at_minus_infinity(self):
        for function in (silu.silu, silu.exact):
            result = function(np.array([-np.inf, -3e38, np.inf], np.float32))
            assert np.array_equal(result, [0, 0, np.inf])
            assert list(np.signbit(result)) == [True, True, False]

    def test_two_operators_are_less_precise_than_one(self):
        x = np.random.default_rng(0).normal(0, 3, 20_000).astype(np.float16)
        exact = silu.exact(x.astype(np.float64))
        one, two = silu.silu(x), (x.astype(np.float32) * sigmoid.sigmoid(x)).astype(np.float16)
        assert in_ulp(two, exact).mean() / in_ulp(one, exact).mean() == pytest.approx(1.35, abs=0.1)


def erf_form(x):
    return x / 2 * mpmath.erfc(-x / mpmath.sqrt(2))


def tanh_form(x):
    return x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)))


class TestGelu:
    X = np.concatenate([np.linspace(-14.5, 14.5, 581), [1e-45, -1e-45, 30, -1e-6]])

    @pytest.mark.parametrize(("form", "true"), [("erf", erf_form), ("tanh", tanh_form)])
    def test_each_exact_form_agrees_with_60_digits(self, form, true):
        np.testing.assert_allclose(gelu.exact(self.X, form=form), digits(true, self.X, 600), rtol=1e-12, atol=1e-300)

    def test_the_forms_differ_by_as_much_as_claimed(self):
        x = np.linspace(-6, 6, 20_001)
        apart = np.abs(gelu.exact(x, form="erf") - gelu.exact(x, form="tanh")).max()
        assert apart == pytest.approx(4.7e-4, abs=5e-6)

    @pytest.mark.parametrize(("form", "rtol"), [("erf", 2e-6), ("tanh", 1.6e-5)])
    def test_float32_within_the_tolerance_of_the_suite(self, form, rtol):
        x = np.linspace(-14.5, 14.5, 100_001, dtype=np.float32)
        exact = gelu.exact(x.astype(np.float64), form=form)
        np.testing.assert_allclose(gelu.gelu(x, form=form), exact, rtol=rtol, atol=1e-42)

    def test_the_polynomial_of_the_tail_is_as_good_as_published(self):
        x = np.linspace(0, 14, 701)
        t = 1 / (1 + x / math.sqrt(8))
        approximated = t * np.exp(np.polyval(gelu.ERFC_COEFFICIENTS, t) - x * x / 2)
        assert np.abs(approximated / digits(lambda v: mpmath.erfc(v / mpmath.sqrt(2)), x) - 1).max() < 1.2e-7

    @pytest.mark.parametrize("form", ["erf", "tanh"])
    def test_one_plus_cancels(self, form):
        x = np.linspace(-10, -5.6, 1000).astype(np.float32)
        erf = np.array([math.erf(value / math.sqrt(2)) for value in x]).astype(np.float32)
        u = np.float32(gelu.SQRT_2_OVER_PI) * (x + np.float32(gelu.CUBIC) * x**3)
        assert (np.float32(1) + {"erf": erf, "tanh": np.tanh(u)}[form] == 0).all()
        assert (gelu.gelu(x, form=form) < 0).all()

    @pytest.mark.parametrize("form", ["erf", "tanh"])
    def test_ends(self, form):
        for function in (gelu.gelu, gelu.exact):
            result = function(np.array([-np.inf, -3e38, -0.0, 0.0, np.inf, np.nan], np.float32), form=form)
            assert np.array_equal(result, [0, 0, 0, 0, np.inf, np.nan], equal_nan=True)
            assert list(np.signbit(result[:4])) == [True, True, True, False]
