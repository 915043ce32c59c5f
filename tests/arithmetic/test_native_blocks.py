"""The core's roundings to blocks: the bits of rational arithmetic and refused arguments."""

from fractions import Fraction
from math import frexp

import numpy as np
import pytest

from precreg.arithmetic import _core
from precreg.arithmetic.exact import exact_divide, exact_round
from precreg.arithmetic.formats import FORMATS, Rounding
from precreg.arithmetic.rounding_numpy import round_bits
from tests.arithmetic.computed import BLOCK_ELEMENTS, BLOCK_ROUNDINGS
from tests.arithmetic.hard_operands import assert_same

native = pytest.importorskip("precreg.arithmetic.native", reason="no C++ compiler was there to build the core")

E8M0 = (-127, 127)
MXFP8 = native.block_plan(BLOCK_ELEMENTS[0], Rounding.NEAREST_EVEN, "floor", E8M0, 32)


def exponent_of(block, element, rule):
    """Return the exponent of the scale of a block of float32 numbers, in rational arithmetic."""
    largest = max(map(abs, block))
    binade = frexp(largest)[1] - 1 if largest else -1000
    exponent = max(-127, binade - element.max_exponent)
    beyond = Fraction(largest) > Fraction(element.largest) * Fraction(2) ** exponent
    return exponent + (rule == "covering" and beyond and exponent < 127 - element.max_exponent)


def exact_blocks(row, element, rounding, rule, length):
    found = []
    for start in range(0, len(row), length):
        block = row[start : start + length]
        exponent = exponent_of(block, element, rule)
        for number in block:
            scaled = exact_round(Fraction(number) / Fraction(2) ** exponent, element, rounding) if number else number
            zero = 0.0 if not element.negative_zero else scaled if number == 0 else np.copysign(0.0, number)
            found.append(scaled * 2.0**exponent if scaled else zero)
    return found


def by_numpy(x, element, rounding, rule, length):
    """Round rows in blocks in float64, where scaling by powers of two is exact."""
    results = np.empty_like(x)
    for start in range(0, x.shape[1], length):
        block = x[:, start : start + length].astype(np.float64)
        largest = np.abs(block).max(1, keepdims=True)
        binades = np.where(largest > 0, np.frexp(largest)[1] - 1, -1000)
        exponents = np.maximum(-127, binades - element.max_exponent)
        is_beyond = (largest > np.ldexp(element.largest, exponents)) & (exponents < 127 - element.max_exponent)
        exponents += is_beyond & (rule == "covering")
        results[:, start : start + length] = np.ldexp(
            round_bits(np.ldexp(block, -exponents), element, rounding), exponents
        )
    return results


def rows(generator, count, columns):
    """Return rows of numbers of any size, of zeros, and of numbers that lie beside each other."""
    numbers = generator.standard_normal((count, columns)) * 2.0 ** generator.integers(-6, 6, (count, columns))
    numbers *= 2.0 ** generator.integers(-149, 118, (count, 1))
    numbers[0], numbers[1], numbers[2, : columns // 2] = 0.0, -0.0, 0.0
    numbers[3] = 3.4e38
    return numbers.astype(np.float32)


def bits(array):
    return array.astype(np.float32).view(np.uint32)


@pytest.mark.parametrize("rule", native.SCALE_RULES)
@pytest.mark.parametrize("element", BLOCK_ELEMENTS, ids=lambda element: element.name)
def test_blocks_are_those_on_rationals(element, rule):
    generator = np.random.default_rng(1)
    x = rows(generator, 8, 37)
    for rounding in BLOCK_ROUNDINGS:
        for length in (1, 5, 16, 32, 40):
            found, left = native.round_blocks_native(x, native.block_plan(element, rounding, rule, E8M0, length))
            expected = np.array([exact_blocks(row, element, rounding, rule, length) for row in x.tolist()])
            np.testing.assert_array_equal(bits(found), bits(expected), err_msg=f"{rounding} {length}")
            assert left == 0


@pytest.mark.parametrize("element", BLOCK_ELEMENTS, ids=lambda element: element.name)
def test_every_pattern_of_16_bits_beside_every_scale(element):
    """bfloat16 has the exponents of float32: each of its numbers is alone in a block, and beside a larger one."""
    patterns = np.arange(2**16, dtype=np.uint32)
    numbers = (patterns << 16).view(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    for factor in (1.0, 3.0, 20.0, 2.0**9):
        with np.errstate(over="ignore"):
            beside = (np.abs(numbers) * np.float32(factor)).astype(np.float32)
        kept = np.isfinite(beside)
        x = np.stack([numbers[kept], beside[kept]], 1)
        for rounding, rule in (("nearest_even", "floor"), ("nearest_even", "covering"), ("toward_zero", "floor")):
            found, left = native.round_blocks_native(x, native.block_plan(element, Rounding(rounding), rule, E8M0, 2))
            np.testing.assert_array_equal(bits(found), bits(by_numpy(x, element, Rounding(rounding), rule, 2)))
            assert left == 0


def test_blocks_with_nan_or_infinities_are_counted_and_left_to_the_caller():
    x = np.ones((4, 100), np.float32)
    x[0, 3], x[1, 99], x[2, 32], x[2, 40] = np.nan, np.inf, -np.inf, np.nan
    found, left = native.round_blocks_native(x, MXFP8)
    assert left == 3
    assert found[3].tolist() == [1.0] * 100
    assert found[1, :96].tolist() == [1.0] * 96


@pytest.mark.parametrize("shift", [0, 1, 16])
def test_large_arrays_which_go_past_the_caches(shift):
    x = np.random.default_rng(2).standard_normal((2**11, 544 + shift)).astype(np.float32)
    found, left = native.round_blocks_native(x, MXFP8)
    assert left == 0
    for row in (0, 700, 2**11 - 1):
        alone, _ = native.round_blocks_native(x[row : row + 1], MXFP8)
        np.testing.assert_array_equal(bits(found[row : row + 1]), bits(alone))
    results = np.full(x.size + 64, np.float32(7))
    for start in (0, 1, 16):
        _core.round_blocks(x, results[start : start + x.size], x.shape[1], MXFP8)
        assert results[start : start + x.size].tobytes() == found.tobytes()
        assert np.all(results[start + x.size :] == 7)


def test_in_place_and_shapes():
    x = np.random.default_rng(3).standard_normal((6, 70)).astype(np.float32)
    expected, _ = native.round_blocks_native(x[::2, ::-1], MXFP8)
    own = np.ascontiguousarray(x[::2, ::-1])
    _core.round_blocks(own, own, 70, MXFP8)
    assert own.tobytes() == expected.tobytes()
    for shape in ((0, 5), (3, 0), (0, 0)):
        assert native.round_blocks_native(np.empty(shape, np.float32), MXFP8)[0].shape == shape


def test_what_the_core_leaves_to_numpy():
    e4m3 = BLOCK_ELEMENTS[0]
    assert native.block_plan(e4m3, Rounding.UP, "floor", E8M0, 32) is None, "a number below all others would go up"
    assert native.block_plan(e4m3, Rounding.STOCHASTIC, "floor", E8M0, 32) is None
    assert native.block_plan(e4m3, Rounding.NEAREST_EVEN, "ratio", E8M0, 32) is None
    assert native.block_plan(e4m3, Rounding.NEAREST_EVEN, "floor", (-200, 127), 32) is None
    assert native.block_plan(FORMATS["float64"], Rounding.NEAREST_EVEN, "floor", E8M0, 32) is None
    assert native.block_plan(FORMATS["float16"], Rounding.NEAREST_EVEN, "floor", E8M0, 32) is None, "2**-24"


@pytest.mark.parametrize(
    "arguments",
    [
        (np.ones(4, np.float32), np.ones(5, np.float32), 4, MXFP8),
        (np.ones(4, np.float32), np.ones(4, np.float32), 3, MXFP8),
        (np.ones(4, np.float32), np.ones(4, np.float32), 0, MXFP8),
        (np.ones(4, np.float32), np.ones(4, np.float32), -4, MXFP8),
        (np.ones(3, np.int8), np.ones(3, np.int8), 1, MXFP8),
        (np.ones(4, np.float32), np.ones(4, np.float32), 4, MXFP8[:-1]),
        (np.ones(4, np.float32), np.ones(4, np.float32), 4, bytes(len(MXFP8))),
        (np.ones(4, np.float32), np.ones(4, np.float32), 4, b"\xff" * len(MXFP8)),
    ],
)
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(ValueError, match="expected"):
        _core.round_blocks(*arguments)


def quotients(x, divisors, factors, element, rounding, length):
    """Return the quotients of blocks in rational arithmetic."""
    found = np.empty_like(x)
    for row, column in np.ndindex(*x.shape):
        number, block = float(x[row, column]), column // length
        down, up = float(divisors[row, block]), factors[row, block]
        number = number if np.isfinite(number) else 0.0
        scaled = exact_divide(number, down, element, rounding)
        with np.errstate(invalid="ignore"):  # the factor may be NaN or zero
            found[row, column] = np.float32(scaled) * up
    return found


@pytest.mark.parametrize("element", BLOCK_ELEMENTS, ids=lambda element: element.name)
def test_quotients_are_those_on_rationals(element):
    """Also beside ties: the divisor times a tie of the format, and the float32 numbers next to it."""
    generator = np.random.default_rng(5)
    divisors = (generator.random((12, 5)) * 2.0 ** generator.integers(-59, 20, (12, 5))).astype(np.float32)
    divisors = np.maximum(divisors, np.float32(2.0**-60))
    divisors[0, 0], divisors[1, 1] = np.inf, 1.0
    factors = divisors.copy()
    factors[2, 2], factors[3, 3] = np.nan, 0.0
    ties = (generator.integers(0, 2 ** (element.precision + 1), (12, 37)) + 0.5) * element.smallest_subnormal
    by = np.repeat(np.minimum(divisors, 1e30), 8, axis=1)[:, :37]
    x = (ties * by * generator.choice([-1, 1], (12, 37))).astype(np.float32)
    for side in (0, -np.inf, np.inf):
        given = np.nextafter(x, np.float32(side)) if side else x
        given[4, :3] = np.nan, np.inf, -np.inf
        for rounding in BLOCK_ROUNDINGS:
            found = native.round_quotients_native(given, divisors, factors, element, rounding, 8)
            expected = quotients(given, divisors, factors, element, rounding, 8)
            assert_same(found, expected)


def test_largest_magnitudes():
    x = np.random.default_rng(6).standard_normal((7, 100)).astype(np.float32)
    x[0, 99], x[1, 0], x[2] = -np.inf, np.nan, -0.0
    for length in (1, 7, 16, 32, 100, 1000):
        expected = np.maximum.reduceat(np.abs(x), np.arange(0, 100, length), axis=1)
        assert_same(native.block_maxima_native(x, length), expected)
    assert native.block_maxima_native(np.empty((0, 5), np.float32), 2).shape == (0, 3)


def test_quotients_that_the_core_leaves_to_numpy():
    x, ones = np.ones((1, 4), np.float32), np.ones((1, 1), np.float32)
    e4m3 = BLOCK_ELEMENTS[0]
    assert native.round_quotients_native(x, ones, ones, e4m3, Rounding.UP, 4) is None
    assert native.round_quotients_native(x, ones * np.float32(2.0**-61), ones, e4m3, Rounding.NEAREST_EVEN, 4) is None
    assert native.round_quotients_native(x, ones, ones, FORMATS["float32"], Rounding.NEAREST_EVEN, 4) is None


PACKED = native._packed(np.dtype(np.float32), BLOCK_ELEMENTS[0])
ROW, ONE = np.ones(4, np.float32), np.ones(1, np.float32)


@pytest.mark.parametrize(
    "arguments",
    [
        (ROW, ONE, ONE, np.ones(5, np.float32), 4, 4, PACKED, 0),
        (ROW, ROW, ONE, ROW.copy(), 4, 4, PACKED, 0),
        (ROW, ONE, ROW, ROW.copy(), 4, 4, PACKED, 0),
        (ROW, ONE, ONE, ROW.copy(), 3, 4, PACKED, 0),
        (ROW, ONE, ONE, ROW.copy(), 0, 4, PACKED, 0),
        (ROW, ONE, ONE, ROW.copy(), 4, 0, PACKED, 0),
        (ROW, ONE, ONE, ROW.copy(), 4, 4, PACKED, 3),
        (ROW, ONE, ONE, ROW.copy(), 4, 4, PACKED, -1),
        (ROW, ONE, ONE, ROW.copy(), 4, 4, PACKED[:-1], 0),
        (ROW, ONE, ONE, ROW.copy(), 4, 4, bytes(len(PACKED)), 0),
    ],
)
def test_wrong_quotients_are_refused(arguments):
    with pytest.raises(ValueError, match="expected"):
        _core.round_quotients(*arguments)


@pytest.mark.parametrize("arguments", [(ROW, ONE, 4, 0), (ROW, ONE, 0, 4), (ROW, ROW.copy(), 4, 4), (ROW, ONE, 3, 4)])
def test_wrong_maxima_are_refused(arguments):
    with pytest.raises(ValueError, match="expected"):
        _core.block_maxima(*arguments)
