"""Sums, means, running sums and variances against rational arithmetic, plain loops, and their error bounds."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.suites.kernel_files import load
from tests.suites.measured import average, comparisons, largest

reductions = load("unit/kernels/reductions")
running = load("unit/kernels/cumsum")
variances = load("unit/kernels/variance")

UNIT_ROUNDOFF = {
    np.float16: Fraction(1, 2**11),
    ml_dtypes.bfloat16: Fraction(1, 2**8),
    np.float32: Fraction(1, 2**24),
    np.float64: Fraction(1, 2**53),
}
LENGTHS = [1, 2, 3, 7, 8, 9, 63, 64, 65, 200]


def exactly(values):
    return [Fraction(float(value)) for value in values]


def gamma(k, unit_roundoff):
    return k * unit_roundoff / (1 - k * unit_roundoff)


def rows(dtype, length, seed=0):
    random = np.random.default_rng(seed)
    kinds = [random.normal(size=(3, length)), random.uniform(1, 2, (3, length)), random.normal(100, 1, (2, length))]
    return np.concatenate(kinds).astype(dtype)


def sum_bound(method, terms, unit_roundoff):
    """The bounds of the kernel's docstring."""
    size, n = sum(map(abs, terms)), len(terms)
    chain = {"naive": n - 1, "eight_way": math.ceil(n / 8) + 2, "pairwise": math.ceil(math.log2(n))}
    if method == "compensated":
        return unit_roundoff * abs(sum(terms)) + gamma(n - 1, unit_roundoff) ** 2 * size
    return gamma(chain[method], unit_roundoff) * size


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", UNIT_ROUNDOFF)
@pytest.mark.parametrize("method", reductions.METHODS)
def test_sums_keep_their_bounds(method, dtype, length):
    x = rows(dtype, length)
    sums = reductions.total(x, method=method, accumulator="own")
    assert sums.dtype == dtype
    assert sums.shape == (8,)
    for row, total in zip(x, sums, strict=True):
        terms = exactly(row)
        assert abs(Fraction(float(total)) - sum(terms)) <= sum_bound(method, terms, UNIT_ROUNDOFF[dtype])


@pytest.mark.parametrize("dtype", UNIT_ROUNDOFF)
def test_sums_have_the_bits_of_plain_loops(dtype):
    x = rows(dtype, 37)
    for index, row in enumerate(x):
        lanes = [dtype(-0.0)] * 8
        total = row[0]
        for place, term in enumerate(row):
            total = total + term if place else total
            lanes[place % 8] = lanes[place % 8] + term
        merged = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))
        assert reductions.naive(x)[index] == total
        assert reductions.eight_way(x)[index] == merged
        assert reductions.pairwise(x)[index] == by_halves(list(row), dtype)
        assert reductions.compensated(x)[index] == neumaier(row, dtype)


def by_halves(terms, dtype):
    while len(terms) > 1:
        terms = [a + b for a, b in zip(terms[::2], [*terms[1::2], *[dtype(-0.0)] * (len(terms) % 2)], strict=True)]
    return terms[0]


def neumaier(row, dtype):
    """As Neumaier wrote it: by the larger of the two numbers, where the kernel takes Knuth's branch-free form."""
    total, lost = row[0], dtype(0)
    for term in row[1:]:
        added = total + term
        lost = lost + ((total - added) + term if abs(total) >= abs(term) else (term - added) + total)
        total = added
    return total + lost


@pytest.mark.parametrize("method", ["naive", "eight_way", "pairwise"])
@pytest.mark.parametrize("length", LENGTHS)
def test_negative_zeros_make_a_negative_zero(method, length):
    assert np.signbit(reductions.total(np.full((2, length), -0.0, np.float32), method=method, accumulator="own")).all()


def test_a_compensated_sum_overflows_to_infinity_and_not_to_nan():
    largest_number = np.finfo(np.float32).max
    x = np.array([[largest_number, largest_number, 1, -1], [-largest_number, -largest_number, 1, 1]], np.float32)
    with np.errstate(all="ignore"):
        assert list(reductions.compensated(x)) == [np.inf, -np.inf]


@pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
def test_the_exact_sum_is_exact_and_rounded_once(dtype):
    x = rows(np.float64, 100)
    x[0, :3] = 1e300, 1, -1e300
    for row, total in zip(x, reductions.exact_sum(x.astype(dtype)), strict=True):
        high = float(total)
        rounded = Fraction(high) + Fraction(float(total - dtype(high)))
        error = abs(rounded - sum(exactly(row)))
        assert error <= Fraction(float(np.finfo(dtype).eps)) / 2 * abs(rounded)


def test_figures_of_the_sums():
    size = {"ordinary": 800, "large_mean": 1e6}  # sum |x| of 1000 normal numbers, and of 1000 near 1000

    def units(method, values):
        return largest("unit/sum", f"float32-64x1000-{method}-{values}", "max_abs_error") / (size[values] * 2**-24)

    measured = [units(method, "ordinary") for method in ("naive", "eight_way", "pairwise")]
    assert measured == pytest.approx([1.6, 0.5, 0.15], rel=0.1)
    for method in ("naive", "eight_way", "pairwise"):
        assert largest("unit/sum", f"float32-64x1000-{method}-cancelling", "max_rel_error") > 1
    assert largest("unit/sum", "float32-64x1000-compensated-cancelling", "max_rel_error") < 1e-6
    assert largest("unit/sum", "float32-64x1000-compensated-ordinary", "max_ulp") <= 0.5
    overflowed = comparisons("unit/sum")["float32-64x1000-eight_way-extremes"]
    assert all(comparison.counts["nan_mismatched"] == 64 for comparison in overflowed)


@pytest.mark.parametrize(("dtype", "still"), [(np.float16, 4096), (ml_dtypes.bfloat16, 512)])
def test_narrow_sums_stand_still(dtype, still):
    x = np.random.default_rng(8).uniform(0.5, 1.5, (64, 8192)).astype(dtype)
    assert set(reductions.naive(x).astype(float)) == {still}


class TestMean:
    @pytest.mark.parametrize("method", ["sum_first", "running"])
    @pytest.mark.parametrize("dtype", UNIT_ROUNDOFF)
    def test_agrees_with_rationals(self, method, dtype):
        x = rows(dtype, 100)
        means = reductions.mean(x, method=method)
        assert means.dtype == dtype
        accumulator = max(np.dtype(dtype), np.dtype(np.float32), key=lambda d: d.itemsize).type
        for row, mean in zip(x, means, strict=True):
            terms = exactly(row)
            exact, size = sum(terms) / 100, max(map(abs, terms))
            allowed = UNIT_ROUNDOFF[dtype] * abs(exact) + 300 * UNIT_ROUNDOFF[accumulator] * size
            assert abs(Fraction(float(mean)) - exact) <= allowed

    def test_running_mean_does_not_overflow(self):
        x = np.full((1, 50), np.finfo(np.float32).max)
        assert reductions.mean(x, method="running") == x[0, 0]
        with np.errstate(over="ignore"):
            assert reductions.mean(x, method="sum_first") == np.inf

    def test_running_mean_costs_a_factor_ten(self):
        for values in ("ordinary", "large_mean"):
            sum_first, running_mean = (
                largest("unit/mean", f"float32-64x1000-{method}-{values}", "max_abs_error")
                for method in ("sum_first", "running")
            )
            assert 8 < running_mean / sum_first < 13

    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    def test_masked(self, dtype):
        x = rows(dtype, 24)
        lengths = np.array([0, 1, 2, 5, 8, 16, 23, 24], np.int32)
        for row, length in zip(x, lengths, strict=True):
            row[length:] = np.nan
        means = reductions.masked_mean(x, lengths)
        assert means.dtype == dtype
        assert means[0] == 0
        assert means[1] == x[1, 0]
        exact = reductions.exact_masked_mean(x.astype(np.float64), lengths)
        for row, length, mean, reference in zip(x, lengths, means, exact, strict=True):
            rational = sum(exactly(row[:length])) / max(int(length), 1)
            assert reference == pytest.approx(float(rational), rel=1e-15)
            assert mean == pytest.approx(float(rational), rel=6 * float(UNIT_ROUNDOFF[dtype]), abs=1e-6)
        assert np.isnan(reductions.masked_mean(x, lengths + 1)[:-1]).all(), "NaN within a row counts"


class TestCumsum:
    @pytest.mark.parametrize("length", [1, 63, 64, 65, 200])
    @pytest.mark.parametrize("dtype", UNIT_ROUNDOFF)
    @pytest.mark.parametrize("method", running.METHODS)
    def test_every_prefix_keeps_its_bound(self, method, dtype, length):
        x = rows(dtype, length)[::3]
        sums = running.cumsum(x, method=method, accumulator="own")
        assert (sums.shape, sums.dtype) == (x.shape, dtype)
        for row, prefixes in zip(x, sums, strict=True):
            total = size = Fraction(0)
            for k, (term, prefix) in enumerate(zip(exactly(row), prefixes, strict=True), start=1):
                total, size = total + term, size + abs(term)
                chain = k - 1 if method == "sequential" else min(k, 64) + math.ceil(k / 64)
                assert abs(Fraction(float(prefix)) - total) <= gamma(chain, UNIT_ROUNDOFF[dtype]) * size

    def test_the_last_prefix_is_the_naive_sum(self):
        x = rows(np.float32, 500)
        assert np.array_equal(running.cumsum(x, method="sequential", accumulator="own")[:, -1], reductions.naive(x))

    @pytest.mark.parametrize(("dtype", "still"), [(np.float16, 2048), (ml_dtypes.bfloat16, 256)])
    def test_numbers_below_one_stand_still(self, dtype, still):
        x = np.random.default_rng(9).uniform(0, 0.99, (16, 8192)).astype(dtype)
        sums = running.cumsum(x, method="sequential", accumulator="own")
        assert set(sums[:, -1].astype(float)) == {still}

    def test_blocks_have_a_sixth_of_the_error(self):
        for values in ("large_mean", "near_overflow"):
            sequential, blocked = (
                average("unit/cumsum", f"float32-24x4096-float32-{method}-{values}", "mean_abs_error")
                for method in ("sequential", "blocked")
            )
            assert 5 < sequential / blocked < 8


class TestVariance:
    @pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
    def test_exact_is_the_rational_variance_rounded_once(self, dtype):
        x = rows(np.float64, 30)
        for row, result in zip(x, variances.exact(x.astype(dtype), method="two_pass"), strict=True):
            terms = exactly(row)
            mean = sum(terms) / 30
            rational = sum((term - mean) ** 2 for term in terms) / 30
            high = float(result)
            error = abs(Fraction(high) + Fraction(float(result - dtype(high))) - rational)
            assert error <= Fraction(float(np.finfo(dtype).eps)) / 2 * rational

    @pytest.mark.parametrize("dtype", UNIT_ROUNDOFF)
    @pytest.mark.parametrize(("method", "power"), [("two_pass", 0), ("welford", 1), ("textbook", 2)])
    def test_errors_grow_with_their_power_of_the_condition(self, method, power, dtype):
        x = rows(dtype, 100)
        results = variances.variance(x, method=method)
        assert results.dtype == dtype
        exact = variances.exact(x.astype(np.float64), method=method)
        accumulator = max(np.dtype(dtype), np.dtype(np.float32), key=lambda d: d.itemsize).type
        unit, own = float(UNIT_ROUNDOFF[accumulator]), float(UNIT_ROUNDOFF[dtype])
        for row, result, reference in zip(x.astype(float), results.astype(float), exact, strict=True):
            condition = math.sqrt(1 + row.mean() ** 2 / reference) if reference else math.inf
            assert (
                abs(result - reference) <= (1.01 * own + 2 * 100 * unit * condition**power) * reference or not reference
            )

    @pytest.mark.parametrize("method", ["two_pass", "welford"])
    def test_what_does_not_vary_has_no_variance(self, method):
        for x in (np.full((2, 100), 0.1, np.float32), rows(np.float32, 1)):
            assert not variances.variance(x, method=method).any()

    def test_the_textbook_formula_turns_negative(self):
        x = np.random.default_rng(11).normal(1000, 1, (1000, 1000)).astype(np.float32)
        assert np.mean(variances.variance(x, method="textbook") < 0) == pytest.approx(1 / 6, abs=0.03)

    def test_figures(self):
        two_pass, welford, textbook = (
            average("unit/variance", f"float32-64x1000-{method}-large_mean", "mean_rel_error")
            for method in ("two_pass", "welford", "textbook")
        )
        assert 20 < welford / two_pass < 40
        assert textbook > 0.5
        ordinary = average("unit/variance", "float32-64x1000-two_pass-ordinary", "mean_rel_error")
        assert two_pass < 1.5 * ordinary
