"""Sums of arrays by a unit against the same on rationals, bit for bit; published sums; shapes as numpy has them."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic import sums as numpy_sums
from precreg.arithmetic.exact import exact_dot, exact_matmul, exact_output, exact_random_bits, exact_round, exact_total
from precreg.arithmetic.formats import FORMATS, Format, Rounding, format_named, parse_format
from precreg.arithmetic.operations import carrier_dtype
from precreg.arithmetic.sums import dot, matmul, total
from precreg.arithmetic.unit import Order, Unit
from precreg.errors import UserError
from tests.arithmetic.hard_operands import assert_same, hard

pytestmark = pytest.mark.usefixtures("every_form")

NAMES = ("float16", "bfloat16", "float32", "float64", "tf32", "float32_m20", "fp8_e4m3fn", "fp8_e5m2fnuz", "fp16_sat")
FORMATS_OF_UNITS = [*map(format_named, NAMES), Format("forty", 40, -200, 2.0**200)]
BY_ORDER = pytest.mark.parametrize("order", Order)
FLOAT32 = Unit(FORMATS["float32"], FORMATS["float32"], FORMATS["float32"])
IN_FLOAT16 = Unit(FORMATS["float16"], FORMATS["float16"], FORMATS["float16"])
EXACT = Unit(FORMATS["float64"], FORMATS["float64"], FORMATS["float64"])


def some_unit(generator, order):
    def one(choices):
        return choices[generator.integers(len(choices))]

    accumulator = one(FORMATS_OF_UNITS)
    product = one([None, accumulator, one(FORMATS_OF_UNITS)])
    rounding, conversion = one(list(Rounding)), one(list(Rounding))
    width, seed = int(generator.integers(1, 6)), int(generator.integers(2**63))
    return Unit(
        one(FORMATS_OF_UNITS), accumulator, one(FORMATS_OF_UNITS), product, rounding, conversion, order, width, seed
    )


def some_numbers(generator, shape):
    """Return numbers of moderate size, some zeros among them, or any numbers at all."""
    dtype = [np.float32, np.float64][generator.integers(2)]
    if not generator.integers(4):
        return hard(dtype, int(np.prod(shape)), generator).reshape(shape)
    numbers = generator.standard_normal(shape) * 2.0 ** generator.integers(-12, 6, shape)
    return (numbers * generator.choice([1, 1, 1, 0, -0.0], shape)).astype(dtype)


def converted(values, unit, stream):
    """Round a flat array to the input format, one by one."""
    return [
        exact_round(value, unit.input, unit.conversion, exact_random_bits(unit.seed + stream, index))
        for index, value in enumerate(values.ravel().tolist())
    ]


@cache
def drawn_product(order, seed):
    """Return a unit, two matrices and their product on rationals, which is the same for every form."""
    generator = np.random.default_rng([seed, 1])
    unit = some_unit(generator, order)
    rows, inner, columns = (int(length) for length in generator.integers(1, [4, 12, 4]))
    a, b = some_numbers(generator, (rows, inner)), some_numbers(generator, (inner, columns))
    return unit, a, b, np.array(exact_matmul(a.tolist(), b.tolist(), unit))


@BY_ORDER
@pytest.mark.parametrize("seed", range(40))
def test_matrix_products_are_those_on_rationals(order, seed):
    unit, a, b, expected = drawn_product(order, seed)
    product = matmul(a, b, unit)
    assert product.dtype == carrier_dtype(unit.output)
    assert_same(product.astype(np.float64), expected)


@cache
def drawn_sums(order, seed):
    """Return a unit, two arrays, and the totals and dots on rationals, which are the same for every form."""
    generator = np.random.default_rng([seed, 2])
    unit = some_unit(generator, order)
    x, y = some_numbers(generator, (3, 7)), some_numbers(generator, (3, 7))
    left, right = converted(x, unit, 2), converted(y, unit, 3)
    rows = [slice(7 * element, 7 * element + 7) for element in range(3)]
    sums = [exact_output(exact_total(left[row], unit, at), unit, at) for at, row in enumerate(rows)]
    dots = [exact_output(exact_dot(left[row], right[row], unit, at), unit, at) for at, row in enumerate(rows)]
    return unit, x, y, np.array(sums), np.array(dots)


@BY_ORDER
@pytest.mark.parametrize("seed", range(20))
def test_totals_and_dots_are_those_on_rationals(order, seed):
    unit, x, y, sums, dots = drawn_sums(order, seed)
    assert_same(total(x, unit).astype(np.float64), sums)
    assert_same(dot(x, y, unit).astype(np.float64), dots)


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=9),
    st.sampled_from(FORMATS_OF_UNITS),
    st.sampled_from(Order),
    st.sampled_from(Rounding),
)
def test_totals_of_any_numbers(terms, accumulator, order, rounding):
    unit = Unit(FORMATS["float32"], accumulator, accumulator, rounding=rounding, order=order, width=3)
    assert_same(total(np.array(terms, np.float32), unit), np.array(exact_total(terms, unit)))


@BY_ORDER
@pytest.mark.parametrize("rounding", [Rounding.NEAREST_EVEN, Rounding.STOCHASTIC])
def test_tiles_change_no_bit(order, rounding, monkeypatch):
    generator = np.random.default_rng(8)
    a, b = generator.standard_normal((3, 5, 11)), generator.standard_normal((11, 4))
    unit = Unit(FORMATS["bfloat16"], format_named("tf32"), FORMATS["float16"], None, rounding, order=order, width=4)
    whole = matmul(a, b, unit)
    monkeypatch.setenv("PRECREG_FORM", "numpy")
    for chunk in (1, 7, 30):
        monkeypatch.setattr(numpy_sums, "SUM_CHUNK", chunk)
        assert_same(matmul(a, b, unit), whole)


FITTING = (
    *(((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4,))),
    *(((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((6, 3, 4), (2, 1, 4, 5))),
    *(((0, 4), (4, 5)), ((3, 0), (0, 5)), ((0,), (0,)), ((2, 0, 3, 4), (1, 4, 1)), ((2, 3, 0), (2, 0, 1))),
)


@pytest.mark.parametrize(("left", "right"), FITTING)
@BY_ORDER
def test_shapes_are_those_of_numpy(left, right, order):
    """Small whole numbers, whose sums are exact in any order."""
    generator = np.random.default_rng(9)
    a, b = generator.integers(-9, 10, left).astype(np.float32), generator.integers(-9, 10, right).astype(np.float32)
    unit = Unit(FORMATS["float16"], FORMATS["float32"], FORMATS["float32"], order=order, width=3)
    expected = np.asarray(np.matmul(a, b))
    product = matmul(a, b, unit)
    assert product.shape == expected.shape
    assert_same(product, expected + 0.0)


@pytest.mark.parametrize(
    ("left", "right"), [((3, 4), (5, 4)), ((4,), (5,)), ((), (4,)), ((4,), ()), ((2, 3, 4), (3, 4, 5))]
)
def test_shapes_that_do_not_fit_are_refused(left, right):
    with pytest.raises(ValueError, match="shape"):
        matmul(np.ones(left), np.ones(right), FLOAT32)
    with pytest.raises(ValueError, match="shape"):
        dot(np.ones((*left, 7)), np.ones((*right, 6)), FLOAT32)


def test_totals_over_any_axis():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in (0, 1, 2, -1, -3):
        assert_same(total(x, FLOAT32, axis), x.sum(axis))
    assert_same(total(np.ones((3, 0)), FLOAT32), np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="axis 3"):
        total(x, FLOAT32, 3)


def test_dots_broadcast():
    x, y = np.arange(12.0).reshape(3, 4), np.arange(8.0).reshape(2, 1, 4)
    assert_same(dot(x, y, EXACT), (x * y).sum(-1))
    with pytest.raises(ValueError, match="shape mismatch"):
        dot(np.ones((3, 4)), np.ones((2, 4)), EXACT)


def test_a_unit_adds_at_least_one_term_at_a_time():
    with pytest.raises(UserError, match="width=0") as caught:
        total(np.ones(3), Unit(*[FORMATS["float16"]] * 3, order=Order.LANES, width=0))
    assert caught.value.slug == "bad-value"


def test_float32_sums_are_those_of_a_plain_loop():
    terms = np.random.default_rng(10).standard_normal((5, 1000)).astype(np.float32)
    sums = np.zeros(5, np.float32)
    for column in terms.T:
        sums += column
    assert_same(total(terms, FLOAT32), sums)
    assert_same(total(terms, FLOAT32), np.add.accumulate(terms, axis=1)[:, -1])


def test_eight_lanes_are_nearer_than_one_sum_that_swallows():
    """A large term, and after it ten thousand that one accumulator of float32 no longer sees: a published study."""
    terms = np.full(10_001, 1e-4, np.float32)
    terms[0] = 1e4
    exact = 1e4 + 1e4 * float(terms[1])
    naive = total(terms, FLOAT32)
    lanes = total(terms, Unit(*[FORMATS["float32"]] * 3, order=Order.LANES, width=8))
    assert naive == np.float32(1e4)
    assert abs(lanes - exact) < 0.15 < abs(naive - exact)


@pytest.mark.parametrize(
    ("order", "expected"),
    [(Order.SEQUENTIAL, 2048.0), (Order.BLOCKS, 8192.0), (Order.LANES, 8192.0), (Order.PAIRWISE, 8192.0)],
)
def test_float16_stands_still_at_2048(order, expected):
    """A published figure: 8192 ones in float16, one by one, in runs of 64, in 64 lanes, in pairs."""
    unit = Unit(*[FORMATS["float16"]] * 3, order=order, width=64)
    assert total(np.ones(8192), unit) == expected


def test_published_sums():
    """1.125 + 0.12457275390625 in float16, and 2**0 aligned to the exponent of 2**3: 1/8 of it, not 0.000125."""
    weights = np.array([1.125, 0.12457275390625])
    assert total(weights, IN_FLOAT16) == 1.25
    assert total(weights, FLOAT32) == 1.24957275390625
    assert 2.0**0 / 2.0**3 == 0.125
    assert total(np.array([8.0, 1.0]), Unit(*[Format("three bits", 3, -20, 2.0**20)] * 3)) == 8.0
    assert total(np.array([8.0, 1.0]), Unit(*[Format("four bits", 4, -20, 2.0**20)] * 3)) == 9.0


def test_products_that_are_exact_are_added_at_once():
    """(1 + 2**-10) * (1 - 2**-10) - 1 is -2**-20; rounded to float16 by itself, the product is 1."""
    a, b = np.array([-1.0, 1 + 2.0**-10]), np.array([1.0, 1 - 2.0**-10])
    half = FORMATS["float16"]
    assert dot(a, b, IN_FLOAT16) == -(2.0**-20)
    assert dot(a, b, Unit(half, half, half, product=half)) == 0


def test_the_largest_number_of_a_format_is_kept_where_float32_lacks_it():
    forty = Format("forty", 40, -126, 2.0**8 - 2.0**-32, overflow=2.0**8 - 2.0**-32)
    beyond = np.array([np.inf, 1e6, -300.0, 1.5], np.float32)
    for unit in (Unit(forty, EXACT.input, EXACT.output), Unit(FLOAT32.input, FLOAT32.accumulator, forty)):
        assert total(beyond[:, None], unit).tolist() == [forty.largest, forty.largest, -forty.largest, 1.5]
        assert matmul(beyond[:, None], np.ones((1, 1), np.float32), unit)[0, 0] == forty.largest


def test_formats_whose_largest_square_float64_lacks():
    wide = parse_format("wide", {"precision": 8, "min_exponent": 0, "max_exponent": 1023})
    unit = Unit(wide, FORMATS["float32"], FORMATS["float32"])
    assert float(dot(np.array([3.0, 0.25]), np.array([5.0, 4.0]), unit)) == 16.0
    assert float(dot(np.array([2.0**100]), np.array([2.0**100]), unit)) == np.inf


def test_roundings_and_orders_may_be_named():
    named = Unit(*[FORMATS["bfloat16"]] * 3, rounding="up", conversion="down", order="pairwise")
    meant = Unit(*[FORMATS["bfloat16"]] * 3, rounding=Rounding.UP, conversion=Rounding.DOWN, order=Order.PAIRWISE)
    terms = np.linspace(0.1, 1, 9)
    assert_same(total(terms, named), total(terms, meant))
    assert named == meant
    for field, slug in (("rounding", "unknown-rounding"), ("conversion", "unknown-rounding"), ("order", "bad-value")):
        with pytest.raises(UserError, match=r"expected one of .* but got .*=blocky") as caught:
            Unit(*[FORMATS["bfloat16"]] * 3, **{field: "blocky"})
        assert caught.value.slug == slug
