"""Matrix products and convolutions against integers, rational arithmetic and plain loops, and within their bounds."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.suites.kernel_files import load
from tests.suites.measured import average, comparisons

matmul = load("unit/kernels/matmul")
matmul_int8 = load("unit/kernels/matmul_int8")
conv2d = load("unit/kernels/conv2d")

NARROW = [np.float16, ml_dtypes.bfloat16]
U = Fraction(1, 2**24)


def pair(dtype, m, k, n, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(m, k)).astype(dtype), random.normal(size=(k, n)).astype(dtype)


def whole(random, shape, dtype):
    """Whole numbers that are exact in every format, and whose sums of products are exact in float32."""
    return random.integers(-15, 16, shape).astype(dtype)


def rationals(row):
    return [Fraction(float(value)) for value in row]


@pytest.mark.parametrize("k", [1, 15, 16, 17, 100])
@pytest.mark.parametrize("dtype", [*NARROW, np.float32])
class TestMatmul:
    def test_whole_numbers_are_multiplied_exactly(self, dtype, k):
        random = np.random.default_rng(1)
        a, b = whole(random, (5, k), dtype), whole(random, (k, 7), dtype)
        expected = a.astype(np.int64) @ b.astype(np.int64)
        product = matmul.matmul(a, b, accumulator="float32", output="float32")
        assert product.dtype == np.float32
        assert np.array_equal(product, expected)
        own = matmul.matmul(a, b, accumulator="float32", output="own")
        assert own.dtype == dtype
        assert np.array_equal(own, expected.astype(np.float32).astype(dtype))

    def test_error_keeps_the_bound_of_k_over_16_plus_4(self, dtype, k):
        a, b = pair(dtype, 3, k, 4)
        product = matmul.matmul(a, b, accumulator="float32", output="float32")
        chain = -(-k // 16) + 4 + (0 if dtype in NARROW else 1)  # products of float32 are rounded, too
        for i in range(3):
            for j in range(4):
                terms = [x * y for x, y in zip(rationals(a[i]), rationals(b[:, j]), strict=True)]
                error = abs(Fraction(float(product[i, j])) - sum(terms))
                assert error <= chain * U / (1 - chain * U) * sum(map(abs, terms))

    def test_exact_agrees_with_rationals(self, dtype, k):
        a, b = pair(dtype, 3, k, 4)
        exact = matmul.exact(a.astype(np.float64), b.astype(np.float64), accumulator="", output="")
        for i in range(3):
            for j in range(4):
                terms = [x * y for x, y in zip(rationals(a[i]), rationals(b[:, j]), strict=True)]
                assert abs(Fraction(exact[i, j]) - sum(terms)) <= k * Fraction(1, 2**53) * sum(map(abs, terms))


@pytest.mark.parametrize("dtype", NARROW)
def test_products_of_narrow_numbers_are_exact_in_float32(dtype):
    a, b = pair(dtype, 1, 5000, 1)
    a, b = a.ravel(), b.ravel()
    assert np.array_equal(a.astype(np.float32) * b.astype(np.float32), a.astype(np.float64) * b.astype(np.float64))


def test_a_block_is_added_by_halves():
    a, b = pair(np.float32, 1, 16, 1)
    terms = (a[0] * b[:, 0]).tolist()
    while len(terms) > 1:
        half = len(terms) // 2
        terms = [float(np.float32(x) + np.float32(y)) for x, y in zip(terms[:half], terms[half:], strict=True)]
    assert matmul.matmul(a, b, accumulator="float32", output="own")[0, 0] == np.float32(terms[0])


def test_an_own_accumulator_is_rounded_after_each_block():
    ones, small = np.ones((1, 48), np.float16), np.full((48, 1), 2**-16, np.float16)
    small[0] = 1
    narrow = matmul.matmul(ones, small, accumulator="own", output="own")
    assert narrow == 1, "a block adds at most 2^-12, and float16 has nothing between 1 and 1 + 2^-10"
    assert matmul.matmul(ones, small, accumulator="float32", output="float32") == 1 + 47 * 2**-16


@pytest.mark.parametrize(("dtype", "factor"), [("float16", 10.2), ("bfloat16", 11.9)])
def test_narrow_accumulators_cost_ten_to_twelve_times_the_error(dtype, factor):
    wide, narrow = (
        average("unit/matmul", f"{dtype}-k=256-{accumulator}-own-ordinary", "mean_ulp")
        for accumulator in ("float32", "own")
    )
    assert narrow / wide == pytest.approx(factor, rel=0.05)


def test_long_narrow_accumulators_cost_twelve_times_a_rounding():
    assert average("unit/matmul", "float16-k=8192-own-own-positive", "mean_ulp") == pytest.approx(12 / 4, rel=0.05)


@pytest.mark.parametrize(
    ("suite", "case"),
    [("matmul", "float16-k=256-float32-own"), ("conv2d", "float16-kernel=3-stride=1-padding=1-float32")],
)
def test_a_quarter_overflows_near_overflow(suite, case):
    comparison = comparisons(f"unit/{suite}")[f"{case}-near_overflow"][0]
    assert comparison.counts["inf_matched"] / comparison.counts["n"] == pytest.approx(0.25, abs=0.05)


class TestInt8:
    @pytest.mark.parametrize("k", [1, 16, 17, 500])
    def test_is_exact_in_int32(self, k):
        random = np.random.default_rng(4)
        a, b = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((5, k), (k, 6)))
        expected = a.astype(np.int64) @ b.astype(np.int64)
        product = matmul_int8.matmul(a, b, accumulator="int32")
        assert product.dtype == np.int32
        assert np.array_equal(product, expected)
        assert np.array_equal(matmul_int8.exact(a, b, accumulator="int32"), expected)

    @pytest.mark.parametrize(("accumulator", "most"), [("int32", 131071), ("float32", 1024), ("int16", 1)])
    def test_accumulators_hold_as_many_products_as_is_claimed(self, accumulator, most):
        limit = {"int32": 2**31 - 1, "float32": 2**24, "int16": 2**15 - 1}[accumulator]
        assert most * 2**14 <= limit < (most + 1) * 2**14
        k = min(most, 2048) // 16 * 16 or 1
        a = np.full((1, k), -128, np.int8)
        assert matmul_int8.matmul(a, a.T, accumulator=accumulator) == k * 2**14

    def test_float32_is_21_off_on_average(self):
        assert average("unit/matmul_int8", "k=8192-float32-large", "mean_abs_error") == pytest.approx(21, abs=0.5)


def convolved(x, weight, stride, padding):
    """The formula of the kernel's docstring, in Python's integers."""
    x = np.pad(x.astype(int), [(0, 0), (0, 0), (padding, padding), (padding, padding)]).tolist()
    filters = weight.astype(int).tolist()
    height, width = len(x[0][0]), len(x[0][0][0])
    rows, columns = len(filters[0][0]), len(filters[0][0][0])
    return [
        [
            [
                [
                    sum(
                        image[c][i + p][j + q] * one[c][p][q]
                        for c in range(len(one))
                        for p in range(rows)
                        for q in range(columns)
                    )
                    for j in range(0, width - columns + 1, stride)
                ]
                for i in range(0, height - rows + 1, stride)
            ]
            for one in filters
        ]
        for image in x
    ]


@pytest.mark.parametrize("dtype", [*NARROW, np.float32])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("window", [(1, 1), (3, 3), (2, 4)])
def test_convolution_of_whole_numbers_is_exact(window, stride, padding, dtype):
    random = np.random.default_rng(2)
    x, weight = whole(random, (2, 3, 7, 6), dtype), whole(random, (4, 3, *window), dtype)
    expected = np.array(convolved(x, weight, stride, padding))
    settings = {"stride": stride, "padding": padding, "accumulator": "float32"}
    actual = conv2d.conv2d(x, weight, **settings)
    assert actual.dtype == dtype
    assert np.array_equal(actual, expected.astype(np.float32).astype(dtype))
    exact = conv2d.exact(x.astype(np.float64), weight.astype(np.float64), **settings)
    assert np.array_equal(exact, expected)


def test_convolution_adds_in_the_order_of_its_loops():
    random = np.random.default_rng(3)
    x, weight = random.normal(size=(1, 2, 3, 3)).astype(np.float32), random.normal(size=(1, 2, 3, 3)).astype(np.float32)
    total = np.float32(0)
    for factor, value in zip(weight.ravel(), x.ravel(), strict=True):
        total = total + value * factor
    assert conv2d.conv2d(x, weight, stride=1, padding=0, accumulator="float32")[0, 0, 0, 0] == total


def test_a_narrow_accumulator_costs_a_convolution_six_times_the_error():
    case = "float16-kernel=3-stride=1-padding=1-{}".format
    narrow = average("unit/conv2d", case("own-positive"), "mean_ulp")
    assert narrow / average("unit/conv2d", case("float32-ordinary"), "mean_ulp") == pytest.approx(5.6, rel=0.05)
