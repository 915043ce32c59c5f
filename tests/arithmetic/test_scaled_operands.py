"""Products of operands with scales of a tensor, a row, a square or a group: bits of rationals and of integers."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.arithmetic.block_operand import BLOCK_OPERANDS, SCALED_OPERANDS, common_run
from precreg.arithmetic.block_scaling import round_blocks, scale_blocks
from precreg.arithmetic.exact_blocks import exact_scaled_matmul, exact_weight_matmul
from precreg.arithmetic.formats import FORMATS, Format, Rounding, format_named
from precreg.arithmetic.sums import matmul
from precreg.arithmetic.unit import Order, Promotion, Unit
from tests.arithmetic.hard_operands import assert_same
from tests.arithmetic.test_block_products import some_numbers

pytestmark = pytest.mark.usefixtures("every_form")

SINGLE, BRAIN = FORMATS["float32"], FORMATS["bfloat16"]
INT32 = Format("int32", 31, 30, 2.0**31 - 1)
OWN = {name: pair for name, pair in SCALED_OPERANDS.items() if name not in BLOCK_OPERANDS}
NEAREST = Rounding.NEAREST_EVEN
by_name = pytest.mark.parametrize("name", OWN)


def unit_of(name, accumulator=SINGLE, **more):
    rows, columns = SCALED_OPERANDS[name]
    if rows is None:
        return Unit(BRAIN, accumulator, SINGLE, column_blocks=columns, **more)
    promotion = Promotion(common_run(rows, columns), SINGLE)
    return Unit(rows.element, accumulator, SINGLE, promotion=promotion, blocks=rows, column_blocks=columns, **more)


def drawn_unit(name, generator):
    """Return a unit with blocks, roundings and formats of its own."""

    def one(choices):
        return choices[generator.integers(len(choices))]

    unit = unit_of(name, one((SINGLE, BRAIN, format_named("float32_m20"))))
    unit = replace(
        unit, rounding=one(list(Rounding)), conversion=one(list(Rounding)), seed=int(generator.integers(2**40))
    )
    length, rows = int(generator.integers(1, 8)), one((1, 2, None))
    short = replace(unit.column_blocks, length=one((None, length)), rows=rows)
    if unit.blocks is None:
        return replace(unit, column_blocks=short)
    first = replace(unit.blocks, length=one((None, length, 3 * length)), rows=one((1, 2, None)))
    promotion = Promotion(common_run(first, short), one((SINGLE, BRAIN)), one(list(Rounding)))
    order = one((Order.SEQUENTIAL, Order.LANES))
    wide = one((unit.accumulator, INT32)) if "int8" in name else unit.accumulator
    return replace(unit, blocks=first, column_blocks=short, promotion=promotion, order=order, width=3, accumulator=wide)


@cache
def drawn_product(name, seed):
    """Return a unit, two matrices and their product on rationals, which is the same for every form."""
    generator = np.random.default_rng([seed, 5])
    unit = drawn_unit(name, generator)
    inner = int(generator.integers(1, 30))
    a, b = some_numbers(generator, (3, inner)), some_numbers(generator, (inner, 5))
    exact = exact_weight_matmul if unit.blocks is None else exact_scaled_matmul
    return unit, a, b, np.array(exact(a.tolist(), b.tolist(), unit))


@by_name
@pytest.mark.parametrize("seed", range(12))
def test_products_are_those_on_rationals(name, seed):
    unit, a, b, expected = drawn_product(name, seed)
    assert_same(matmul(a, b, unit).astype(np.float64), expected)


def numbers_of(*shape, seed=6):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_int8_by_row_is_the_product_of_integers():
    a, b = numbers_of(5, 300), numbers_of(300, 4, seed=7)
    scales = [np.abs(each).max(axis, keepdims=True) / np.float32(127) for each, axis in ((a, 1), (b, 0))]
    codes = [np.rint(each / scale).astype(np.int64) for each, scale in zip((a, b), scales, strict=True)]
    expected = (codes[0] @ codes[1]).astype(np.float32) * (scales[0] * scales[1])
    assert_same(matmul(a, b, unit_of("int8_row", INT32)), expected)


def test_sums_of_integers_need_no_order_and_no_rounding():
    a, b = numbers_of(3, 4000), numbers_of(4000, 2, seed=8)
    plain = matmul(a, b, unit_of("int8_tensor", INT32))
    for order in Order:
        assert_same(matmul(a, b, unit_of("int8_tensor", INT32, order=order, width=7, rounding="toward_zero")), plain)


@pytest.mark.parametrize("length", [32, 64, 128])
def test_zero_points_are_those_of_integer_units(length):
    """Integer units multiply codes, and subtract zero point times the sum of the other codes: exactly the same."""
    a, b = numbers_of(4, 300), numbers_of(300, 6, seed=9) + np.float32(0.7)
    scale_of_rows = np.abs(a).max(1, keepdims=True) / np.float32(127)
    codes_of_rows = np.rint(a / scale_of_rows).astype(np.int64)
    total = np.zeros((4, 6), np.float32)
    for start in range(0, 300, length):
        block = b[start : start + length]
        least, largest = np.minimum(block.min(0), 0), np.maximum(block.max(0), 0)
        scale = (largest - least) / np.float32(15)
        zero = np.rint(-least / scale).astype(np.int64)
        codes = np.clip(np.rint(block / scale).astype(np.int64) + zero, 0, 15)
        rows = codes_of_rows[:, start : start + length]
        whole = rows @ codes - rows.sum(1, keepdims=True) * zero
        total = (total + whole.astype(np.float64) * (scale_of_rows * scale)).astype(np.float32)
    assert_same(matmul(a, b, unit_of(f"int8_int4_g{length}", INT32)), total)


def test_weights_alone_are_rounded_to_the_format_of_the_others():
    a, b = numbers_of(3, 96), numbers_of(96, 5, seed=10)
    values = round_blocks(b.T.copy(), SCALED_OPERANDS["int4_g32"].columns).T
    assert_same(matmul(a, b, unit_of("int4_g32")), matmul(a, values, Unit(BRAIN, SINGLE, SINGLE)))


@given(st.lists(st.floats(width=32, min_value=-(2.0**40), max_value=2.0**40), min_size=1, max_size=40), st.booleans())
def test_values_of_zero_points_are_near(numbers, positive):
    """Without overflow a value is within half a scale, and half a scale more where the zero point was rounded."""
    x = np.abs(np.array(numbers, np.float32)) if positive else np.array(numbers, np.float32)
    operand = SCALED_OPERANDS["int4_g64"].columns
    blocks = scale_blocks(x[None], operand, NEAREST)
    scale = Fraction(float(blocks.scales[0, 0]))
    for value, element in zip(x.tolist(), blocks.elements[0].tolist(), strict=True):
        assert element == int(element)
        assert abs(Fraction(element) * scale - Fraction(value)) <= scale * Fraction(1001, 1000)
    assert blocks.elements.max() - blocks.elements.min() <= 15


def test_a_scale_belongs_to_its_rows():
    x = numbers_of(4, 256)
    x[3, 7] = 100
    by_row = scale_blocks(x, SCALED_OPERANDS["fp8_row"].rows, NEAREST).scales
    by_tensor = scale_blocks(x, SCALED_OPERANDS["fp8_tensor"].rows, NEAREST).scales
    by_square = scale_blocks(np.tile(x, (40, 1)), SCALED_OPERANDS["fp8_128x128"].columns, NEAREST).scales
    assert by_row.shape == (4, 1)
    assert by_row[:3].max() < 0.01 < by_row[3, 0]
    assert np.unique(by_tensor).tolist() == [by_row[3, 0]]
    assert by_square.shape == (160, 2)
    assert len(np.unique(by_square[:128], axis=0)) == len(np.unique(by_square[128:], axis=0)) == 1


@pytest.mark.parametrize(("name", "lost"), [("fp8_row", [False, True]), ("fp8_tensor", [True, True])])
def test_nan_reaches_what_its_scale_reaches(name, lost):
    a, b = numbers_of(2, 40), numbers_of(40, 3)
    a[1, 5] = np.nan
    assert np.isnan(matmul(a, b, unit_of(name))).all(axis=1).tolist() == lost


@by_name
def test_no_terms_are_zero(name):
    assert matmul(np.ones((2, 0)), np.ones((0, 3)), unit_of(name)).tolist() == [[0.0] * 3] * 2


def test_lengths_that_do_not_fit():
    first, second = BLOCK_OPERANDS["mxfp4"], replace(BLOCK_OPERANDS["mxfp4"], length=12)
    with pytest.raises(ValueError, match="one divides the other but got"):
        common_run(first, second)
