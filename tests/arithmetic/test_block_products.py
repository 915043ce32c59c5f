"""Products of operands in blocks: bits of rational arithmetic, published scales, and the values of another library."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache

import gfloat
import numpy as np
import pytest
from gfloat import formats as gfloat_formats
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.arithmetic import operations, rounding_numpy, sums
from precreg.arithmetic.block_operand import BLOCK_OPERANDS, BlockOperand, ScaleRule, block_operand_named
from precreg.arithmetic.block_scaling import round_blocks, scale_blocks
from precreg.arithmetic.exact_blocks import exact_blocks, exact_scaled_matmul, exact_tensor_scale
from precreg.arithmetic.formats import FORMATS, Rounding, format_named
from precreg.arithmetic.sums import dot, matmul, total
from precreg.arithmetic.unit import Order, Promotion, Split, Unit, split_products
from precreg.errors import UserError
from tests.arithmetic.hard_operands import assert_same, hard

pytestmark = pytest.mark.usefixtures("every_form")

SINGLE = FORMATS["float32"]
ACCUMULATORS = (SINGLE, format_named("float32_m20"), FORMATS["bfloat16"])
by_operand = pytest.mark.parametrize("name", BLOCK_OPERANDS)


def plain_unit(operand):
    return Unit(SINGLE, SINGLE, SINGLE, promotion=Promotion(operand.length, SINGLE), blocks=operand)


def some_unit(operand, generator):
    def one(choices):
        return choices[generator.integers(len(choices))]

    if generator.integers(2):
        rule = operand.rule if operand.rule is ScaleRule.RATIO else one(list(ScaleRule)[:2])
        fields = operand.name, operand.element, int(generator.integers(1, 6)), rule, operand.scale
        operand = BlockOperand(*fields, has_tensor_scale=operand.has_tensor_scale)
    rounding, conversion, order = one(list(Rounding)), one(list(Rounding)), one(list(Order))
    promotion = Promotion(operand.length, one((*ACCUMULATORS, FORMATS["float16"])), one(list(Rounding)))
    width, seed = int(generator.integers(1, 6)), int(generator.integers(2**40))
    formats = SINGLE, one(ACCUMULATORS), SINGLE, None
    return Unit(*formats, rounding, conversion, order, width, seed, None, promotion, operand)


def some_numbers(generator, shape):
    if not generator.integers(5):
        return hard(np.float32, shape[0] * shape[1], generator).reshape(shape)
    numbers = generator.standard_normal(shape) * 2.0 ** generator.integers(-9, 9, shape)
    numbers *= 2.0 ** generator.integers(-140, 100) if generator.integers(2) else 1
    numbers[0] *= generator.integers(5) > 0
    if not generator.integers(4):
        numbers.flat[generator.integers(numbers.size)] = generator.choice([np.nan, np.inf, -np.inf])
    return numbers.astype(np.float32)


@cache
def drawn_product(name, seed):
    """Return a unit, two matrices and their product on rationals, which is the same for every form."""
    generator = np.random.default_rng([seed, 3])
    unit = some_unit(BLOCK_OPERANDS[name], generator)
    inner = int(generator.integers(1, 40))
    a, b = some_numbers(generator, (2, inner)), some_numbers(generator, (inner, 3))
    return unit, a, b, np.array(exact_scaled_matmul(a.tolist(), b.tolist(), unit))


@by_operand
@pytest.mark.parametrize("seed", range(12))
def test_products_are_those_on_rationals(name, seed):
    unit, a, b, expected = drawn_product(name, seed)
    assert_same(matmul(a, b, unit).astype(np.float64), expected)


@cache
def rounded_rows(name, rounding):
    """Return six rows and their values on rationals, which are the same for every form."""
    operand = BLOCK_OPERANDS[name]
    generator = np.random.default_rng(4)
    x = np.stack([some_numbers(generator, (1, 150))[0] for _ in range(6)])
    tensor = exact_tensor_scale(x.ravel().tolist(), operand)
    rows = []
    for index, row in enumerate(x.tolist()):
        elements, scales = exact_blocks(row, operand, rounding, tensor, 9, index * 150)
        factors = np.repeat(scales, operand.length)[:150]
        with np.errstate(over="ignore"):
            rows.append(np.array(elements, np.float32) * (factors * tensor).astype(np.float32))
    return x, np.array(rows, np.float64)


@by_operand
@pytest.mark.parametrize("rounding", Rounding)
def test_rounded_values_are_those_on_rationals(name, rounding):
    x, expected = rounded_rows(name, rounding)
    assert_same(round_blocks(x, BLOCK_OPERANDS[name], rounding, 9).astype(np.float64), expected)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("mxfp8_e4m3", "mxfp8_e4m3"),
        ("mxfp8_e5m2", "mxfp8_e5m2"),
        ("mxfp6_e2m3", "mxfp6_e2m3"),
        ("mxfp6_e3m2", "mxfp6_e3m2"),
        ("mxfp4", "mxfp4_e2m1"),
    ],
)
def test_values_are_those_of_gfloat(name, other):
    """gfloat is another implementation of the OCP formats, in Python floats."""
    operand, info = BLOCK_OPERANDS[name], getattr(gfloat_formats, f"format_info_{other}")
    generator = np.random.default_rng(5)
    for _ in range(40):
        x = (generator.standard_normal(32) * 2.0 ** generator.integers(-8, 8, 32)).astype(np.float32)
        scale = gfloat.compute_scale_amax(operand.element.max_exponent, x.astype(np.float64))
        codes = gfloat.encode_block(info, scale, x.astype(np.float64) / scale)
        expected = np.array(list(gfloat.decode_block(info, codes)))
        assert_same(round_blocks(x, operand).astype(np.float64), expected)


@pytest.mark.parametrize(
    ("amax", "floor", "covering"),
    [(448.0, 1.0, 1.0), (449.0, 1.0, 2.0), (511.0, 1.0, 2.0), (512.0, 2.0, 2.0), (1.0, 2.0**-8, 2.0**-8)],
)
def test_published_scales(amax, floor, covering):
    """OCP Microscaling v1.0, section 6.3: 2**(floor(log2(amax)) - 8) for e4m3. By it, 511 saturates to 448."""
    e4m3 = BLOCK_OPERANDS["mxfp8_e4m3"]
    up = BlockOperand("up", e4m3.element, 32, ScaleRule.COVERING)
    x = np.full((1, 32), amax, np.float32)
    assert scale_blocks(x, e4m3, Rounding.NEAREST_EVEN).scales.tolist() == [[floor]]
    assert scale_blocks(x, up, Rounding.NEAREST_EVEN).scales.tolist() == [[covering]]
    if amax == 511:
        assert round_blocks(x, e4m3)[0, 0] == 448
        assert round_blocks(x, up)[0, 0] == 512


def test_scales_of_nvfp4():
    """The largest element gets the largest scale, 448, and 6: amax is 6 * 448 tensor scales."""
    x = np.zeros((1, 32), np.float32)
    x[0, 0], x[0, 16] = 5376.0, 1.0
    blocks = scale_blocks(x, BLOCK_OPERANDS["nvfp4"], Rounding.NEAREST_EVEN)
    assert (blocks.tensor, blocks.scales[0, 0], blocks.elements[0, 0]) == (2.0, 448.0, 6.0)
    assert blocks.scales[0, 1] == 0.0859375, "1/12 in e4m3"
    assert blocks.elements[0, 16] == 6.0


@given(st.lists(st.floats(width=32, min_value=-(2.0**60), max_value=2.0**60), min_size=1, max_size=40))
def test_errors_are_bounded(numbers):
    """Without saturation an element of p bits is within 2**-p of itself, or within half a quantum of the block."""
    x = np.array(numbers, np.float32)
    for name in ("mxfp8_e4m3", "mxfp4", "mxint8"):
        operand = BLOCK_OPERANDS[name]
        covering = BlockOperand(name, operand.element, 32, ScaleRule.COVERING)
        blocks = scale_blocks(x, covering, Rounding.NEAREST_EVEN)
        scales = np.repeat(blocks.scales, 32)[: len(x)].tolist()
        for value, rounded, scale in zip(x.tolist(), blocks.values(32).tolist(), scales, strict=True):
            quantum = Fraction(operand.element.smallest_subnormal) * Fraction(scale)
            allowed = max(Fraction(2) ** -operand.element.precision * abs(Fraction(value)), quantum / 2)
            assert abs(Fraction(rounded) - Fraction(value)) <= allowed


@given(st.integers(-40, 40))
def test_powers_of_two_pass_through(exponent):
    x = np.random.default_rng(6).standard_normal((2, 64)).astype(np.float32)
    for name in ("mxfp8_e5m2", "mxfp4", "fp8_1x128"):
        operand = BLOCK_OPERANDS[name]
        assert_same(round_blocks(x * np.float32(2.0**exponent), operand), round_blocks(x, operand) * 2.0**exponent)


def test_errors_of_products_beside_each_other():
    """More bits are nearer; blocks of 16 with e4m3 scales are nearer than blocks of 32 with powers of two."""
    generator = np.random.default_rng(7)
    a, b = (generator.standard_normal(shape).astype(np.float32) for shape in ((48, 512), (512, 48)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    errors = {
        name: float(np.sqrt(np.mean((matmul(a, b, plain_unit(operand)) - exact) ** 2) / np.mean(exact**2)))
        for name, operand in BLOCK_OPERANDS.items()
    }
    assert errors["mxint8"] < errors["mxfp6_e2m3"] < errors["mxfp8_e5m2"] < errors["nvfp4"] < errors["mxfp4"] < 0.2
    assert errors["fp8_1x128"] < errors["mxfp8_e4m3"], "OCP's rule lets elements near amax saturate"


def test_batches_and_vectors():
    generator = np.random.default_rng(8)
    unit = plain_unit(BLOCK_OPERANDS["mxfp6_e3m2"])
    a, b = generator.standard_normal((2, 3, 70)), generator.standard_normal((70, 4))
    found = matmul(a, b, unit)
    assert found.shape == (2, 3, 4)
    assert_same(found[1], matmul(a[1], b, unit))
    assert_same(found[0, 2, 1], dot(a[0, 2].astype(np.float32), b[:, 1].astype(np.float32), unit))
    assert matmul(a[..., :0], b[:0], unit).tolist() == np.zeros((2, 3, 4)).tolist()


@by_operand
def test_threads_change_no_bit(name):
    """Rows are products of their own, apart from the scale of a tensor: 1, 2, 3 or 7 threads share them out."""
    generator = np.random.default_rng(10)
    operand = BLOCK_OPERANDS[name]
    a, b = (generator.standard_normal(shape).astype(np.float32) for shape in ((28, 150), (150, 3)))
    # One tensor scale for all parts: each row has the same amax.
    a[:, 0] = 8.0
    unit = plain_unit(operand)
    product, rounded = matmul(a, b, unit), round_blocks(a, operand)
    for threads in (1, 2, 3, 7):
        parts = np.array_split(a, threads)
        with ThreadPoolExecutor(threads) as pool:
            products = list(pool.map(lambda part: matmul(part, b, unit), parts))
            values = list(pool.map(lambda part: round_blocks(part, operand), parts))
        assert_same(np.concatenate(products), product)
        assert_same(np.concatenate(values), rounded)


@by_operand
@pytest.mark.parametrize("rounding", [Rounding.NEAREST_EVEN, Rounding.STOCHASTIC])
def test_chunks_change_no_bit(name, rounding, monkeypatch):
    generator = np.random.default_rng(11)
    operand = BLOCK_OPERANDS[name]
    a, b = (generator.standard_normal(shape).astype(np.float32) for shape in ((2, 150), (150, 3)))
    unit = replace(plain_unit(operand), rounding=rounding, conversion=rounding, seed=5)
    product, rounded = matmul(a, b, unit), round_blocks(a, operand, rounding, 5)
    for chunk in (1, 4, 30):
        monkeypatch.setattr(sums, "SUM_CHUNK", chunk)
        monkeypatch.setattr(operations, "OPERATION_CHUNK", chunk)
        monkeypatch.setattr(rounding_numpy, "BIT_ROUNDING_CHUNK", chunk)
        assert_same(matmul(a, b, unit), product)
        assert_same(round_blocks(a, operand, rounding, 5), rounded)


def test_a_block_with_nan_is_nan_and_no_other():
    x = np.ones((2, 96), np.float32)
    x[0, 40], x[1, 95] = np.nan, np.inf
    for name in ("mxfp8_e4m3", "fp8_1x128"):
        operand = BLOCK_OPERANDS[name]
        length = operand.length
        lost = np.isnan(round_blocks(x, operand))
        assert lost.any(axis=1).tolist() == [True, True]
        assert lost[0].tolist() == [40 // length == k // length for k in range(96)]
        assert np.isnan(matmul(x, np.ones((96, 1), np.float32), plain_unit(operand))).all()


MX = BLOCK_OPERANDS["mxfp4"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "expected a promotion of length=32, as the blocks of mxfp4 have, but got none"),
        ({"promotion": Promotion(16, SINGLE)}, "but got length=16"),
        ({"promotion": Promotion(32, SINGLE), "split": Split(2, split_products(2, 3))}, "but got a split"),
        (
            {"promotion": Promotion(32, FORMATS["float64"])},
            "of at most 24 bits for operands in blocks but got 53 bits",
        ),
    ],
)
def test_units_that_blocks_do_not_fit(fields, said):
    with pytest.raises(UserError, match=said) as caught:
        Unit(SINGLE, SINGLE, SINGLE, blocks=MX, **fields)
    assert caught.value.slug == "bad-value"


def test_names_and_units_of_sums():
    assert block_operand_named("mxfp4") is MX
    with pytest.raises(UserError, match=r'format=mxfp5.*did you mean "mxfp4"') as caught:
        block_operand_named("mxfp5")
    assert caught.value.slug == "unknown-format"
    with pytest.raises(UserError, match="which only products have"):
        total(np.ones(4), plain_unit(MX))
