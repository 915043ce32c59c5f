"""Products of split operands and sums with a total: bits of rational arithmetic, and errors that were published."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.exact import exact_dot, exact_matmul, exact_split
from precreg.arithmetic.formats import FORMATS, Rounding, format_named
from precreg.arithmetic.operations import carrier_dtype
from precreg.arithmetic.split_operands import split_values
from precreg.arithmetic.sums import dot, matmul, total
from precreg.arithmetic.unit import Order, Promotion, Split, Unit, product_counts, split_products
from precreg.errors import UserError
from tests.arithmetic.hard_operands import assert_same, hard

pytestmark = pytest.mark.usefixtures("every_form")

SINGLE, BRAIN, TF32 = FORMATS["float32"], FORMATS["bfloat16"], format_named("tf32")
INPUTS = (BRAIN, TF32, format_named("fp8_e4m3fn"), FORMATS["float16"])
ACCUMULATORS = (SINGLE, format_named("float32_m20"), BRAIN, FORMATS["float16"])
FLOAT32 = Unit(SINGLE, SINGLE, SINGLE)


def some_unit(generator):
    def one(choices):
        return choices[generator.integers(len(choices))]

    parts = int(generator.integers(2, 4))
    products = split_products(parts, one(product_counts(parts)), smallest_first=bool(generator.integers(2)))
    split = Split(parts, products, one([None, 1, 4, 8])) if generator.random() < 0.7 else None
    promotion = None
    if split is None or generator.integers(2):
        inner = Promotion(int(generator.integers(1, 5)), one(ACCUMULATORS), one(list(Rounding)))
        length, format = int(generator.integers(1, 9)), one(ACCUMULATORS)
        promotion = Promotion(length, format, one(list(Rounding)), one([None, inner]))
    rounding, conversion, order = one(list(Rounding)), one(list(Rounding)), one(list(Order))
    width, seed = int(generator.integers(1, 6)), int(generator.integers(2**60))
    formats = one(INPUTS), one(ACCUMULATORS), SINGLE, one([None, SINGLE, BRAIN])
    return Unit(*formats, rounding, conversion, order, width, seed, split, promotion)


@cache
def drawn_product(seed):
    """Return a unit, two matrices and their product on rationals, which is the same for every form."""
    generator = np.random.default_rng([seed, 21])
    unit = some_unit(generator)
    rows, inner, columns = (int(length) for length in generator.integers(1, [4, 20, 4]))
    if generator.integers(4):
        numbers = [
            generator.standard_normal(shape) * 2.0 ** generator.integers(-9, 9, shape)
            for shape in ((rows, inner), (inner, columns))
        ]
    else:
        numbers = [
            hard(np.float32, shape[0] * shape[1], generator).reshape(shape)
            for shape in ((rows, inner), (inner, columns))
        ]
    a, b = (each.astype(np.float32) for each in numbers)
    return unit, a, b, np.array(exact_matmul(a.tolist(), b.tolist(), unit))


@pytest.mark.parametrize("seed", range(120))
def test_products_are_those_on_rationals(seed):
    unit, a, b, expected = drawn_product(seed)
    product = matmul(a, b, unit)
    assert_same(product.astype(np.float64), expected)
    if product.size == 1:
        assert_same(dot(a[0], b[:, 0], unit), product[0, 0])


@given(st.floats(width=32), st.sampled_from(INPUTS), st.sampled_from(Rounding), st.integers(1, 4))
def test_parts_are_those_on_rationals(x, format, rounding, parts):
    draws = [0] * parts
    if rounding is not Rounding.STOCHASTIC:
        found = [float(part[0]) for part in split_values(np.array([x], np.float32), format, parts, rounding)]
        np.testing.assert_array_equal(found, exact_split(x, format, parts, rounding, draws))


@given(st.floats(width=32, min_value=2.0**-100, max_value=2.0**126), st.booleans())
def test_three_parts_of_bfloat16_are_the_number(x, is_negative):
    """24 bits are three times 8: Henry, Tang and Heinecke (2019). Two parts of tf32 leave at most 2**-22 of it."""
    x = -x if is_negative else x
    high, middle, low = exact_split(x, BRAIN, 3, Rounding.NEAREST_EVEN, [0] * 3)
    assert Fraction(high) + Fraction(middle) + Fraction(low) == Fraction(x)
    two = sum(map(Fraction, exact_split(x, TF32, 2, Rounding.NEAREST_EVEN, [0] * 2)))
    assert abs(two - Fraction(x)) <= Fraction(2) ** -23 * abs(Fraction(x))


def test_lists_of_products():
    assert split_products(2, 3) == ((1, 0), (0, 1), (0, 0)), "3xTF32 of CUTLASS: small big, big small, big big"
    assert split_products(3, 6) == ((2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0))
    assert split_products(3, 6, smallest_first=False) == split_products(3, 6)[::-1]
    assert {len(split_products(3, count)) for count in product_counts(3)} == {1, 3, 6, 8, 9}
    with pytest.raises(ValueError, match=r"expected one of \[1, 3, 4\] products of 2 parts but got 2"):
        split_products(2, 2)


def root_mean_square_error(unit, a, b):
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return float(np.sqrt(np.mean((matmul(a, b, unit) - exact) ** 2)))


def test_errors_beside_those_of_float32():
    """Published: bfloat16x3 with six products is as good as float32, and two parts are not (Henry et al. 2019).

    3xTF32 has about the error of float32, and plain TF32 a hundred times more (CUTLASS, example 27).
    """
    generator = np.random.default_rng(3)
    a, b = (
        generator.standard_normal((48, 700)).astype(np.float32),
        generator.standard_normal((700, 48)).astype(np.float32),
    )

    def error(name, parts, count, run=None):
        return root_mean_square_error(
            Unit(format_named(name), SINGLE, SINGLE, split=Split(parts, split_products(parts, count), run)), a, b
        )

    single = root_mean_square_error(FLOAT32, a, b)
    assert error("bf16", 3, 6) < single
    assert error("bf16", 3, 9) == pytest.approx(error("bf16", 3, 6), rel=0.01), "the three smallest add nothing"
    assert 3 * single < error("bf16", 2, 3) < 20 * single
    assert error("bf16", 1, 1) > 1000 * single
    assert single / 2 < error("tf32", 2, 3, run=8) < 2.5 * single
    assert root_mean_square_error(Unit(TF32, SINGLE, SINGLE), a, b) > 100 * single


def test_the_order_of_products_matters():
    """Small products that are added to a large sum lose their last bits; the paper adds them before it."""
    generator = np.random.default_rng(5)
    a, b = (generator.standard_normal(shape).astype(np.float32) for shape in ((32, 900), (900, 32)))

    def error(*, smallest_first):
        products = split_products(3, 6, smallest_first=smallest_first)
        return root_mean_square_error(Unit(BRAIN, SINGLE, SINGLE, split=Split(3, products)), a, b)

    assert 3 * error(smallest_first=True) < error(smallest_first=False)


def test_a_promotion_keeps_a_long_sum():
    """8192 ones in float16 stand still at 2048; totals in float32 of 128 terms each are exact."""
    half = FORMATS["float16"]
    ones = np.ones(8192, np.float16)
    assert dot(ones, ones, Unit(half, half, SINGLE)) == 2048
    assert dot(ones, ones, Unit(half, half, SINGLE, promotion=Promotion(128, SINGLE))) == 8192
    truncating = Unit(half, half, SINGLE, promotion=Promotion(128, half, "toward_zero"))
    assert dot(ones, ones, truncating) == 8192
    assert truncating.promotion.rounding is Rounding.TOWARD_ZERO


def test_a_promotion_by_hand():
    unit = Unit(SINGLE, BRAIN, SINGLE, promotion=Promotion(2, SINGLE))
    x = [256.0, 1.0, 256.0, 1.0, 1.0]
    assert exact_dot(x, [1.0] * 5, unit) == 512.0, "without its total: 256, 256, 512, 512, 512"
    assert dot(np.array(x), np.ones(5), unit) == 256 + 256 + 1


def test_batches_vectors_and_no_terms():
    generator = np.random.default_rng(4)
    unit = Unit(BRAIN, SINGLE, SINGLE, split=Split(3, split_products(3, 6), 4), promotion=Promotion(5, SINGLE))
    a, b = (
        generator.standard_normal((2, 1, 3, 9)).astype(np.float32),
        generator.standard_normal((4, 9, 2)).astype(np.float32),
    )
    found = matmul(a, b, unit)
    assert found.shape == (2, 4, 3, 2)
    assert_same(found[1, 2], matmul(a[1, 0], b[2], unit))
    assert_same(matmul(a[0, 0, 1], b[3], unit), found[0, 3, 1])
    assert matmul(a[..., :0], b[:, :0], unit).tolist() == np.zeros((2, 4, 3, 2)).tolist()
    assert matmul(a, b, unit).dtype == carrier_dtype(unit.output)


def test_infinities_have_no_parts():
    unit = Unit(BRAIN, SINGLE, SINGLE, split=Split(2, split_products(2, 3)))
    assert np.isnan(dot(np.array([np.inf]), np.array([1.0]), unit)), "the rest of an infinity is NaN"
    assert np.isnan(dot(np.array([3.4e38]), np.array([1.0]), unit)), (
        "float32 has it, and bfloat16 rounds it to infinity"
    )


@pytest.mark.parametrize("own", [{"split": Split(2, split_products(2, 3))}, {"promotion": Promotion(4, SINGLE)}])
def test_totals_refuse_units_of_products(own):
    with pytest.raises(UserError, match="which only products have") as caught:
        total(np.ones(4), Unit(BRAIN, SINGLE, SINGLE, **own))
    assert caught.value.slug == "bad-value"
