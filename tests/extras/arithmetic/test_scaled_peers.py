"""Operands with scales of a tensor, a row or a group beside torch and torchao: their elements and their products."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchao.quantization import Int8Tensor, PerRow
from torchao.quantization.quant_primitives import (
    MappingType,
    choose_qparams_affine,
    dequantize_affine,
    quantize_affine,
)

from precreg.arithmetic import Rounding, matmul
from precreg.arithmetic.block_operand import SCALED_OPERANDS
from precreg.arithmetic.block_scaling import round_blocks, scale_blocks
from tests.arithmetic.test_scaled_operands import INT32, unit_of

NEAREST = Rounding.NEAREST_EVEN
FLOATS = {"fp8_tensor": torch.float8_e4m3fn, "fp8_e5m2_tensor": torch.float8_e5m2, "fp8_row": torch.float8_e4m3fn}
SHAPES = [(16, 64, 32), (16, 1024, 16), (3, 300, 5)]
# The unit roundoff of float32.
U = Fraction(1, 2**24)


def normal(*shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def exact_quotients(values, divisors):
    pairs = zip(values.ravel().tolist(), divisors.ravel().tolist(), strict=True)
    return [Fraction(value) / Fraction(divisor) for value, divisor in pairs]


def quantized_by_torch(values, operand, dtype):
    """Return torch's float8 elements of the rows of `values`, and its scales: amax / largest."""
    values = torch.from_numpy(values)
    amax = values.abs().amax() if operand.rows is None else values.abs().amax(1, keepdim=True)
    scales = amax / operand.element.largest
    return (values / scales).to(dtype), scales


def scaled_by_torch(a, b, name):
    """Return torch's elements of both operands, with the terms along the last axis, their scales and their product."""
    rows, columns = SCALED_OPERANDS[name]
    first, of_first = quantized_by_torch(a, rows, FLOATS[name])
    second, of_second = quantized_by_torch(b.T.copy(), columns, torch.float8_e4m3fn)
    of_columns = of_second if of_second.ndim == 0 else of_second.T.contiguous()
    product = torch._scaled_mm(first, second.T, of_first, of_columns, out_dtype=torch.float32)
    return first.float().numpy(), second.float().numpy(), of_first.numpy(), of_columns.numpy(), product.numpy()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FLOATS)
def test_fp8_of_normal_numbers_has_the_elements_and_scales_of_torch(name, shape):
    m, k, n = shape
    a, b = normal(m, k, seed=1), normal(k, n, seed=2)
    first, second, of_first, of_columns, _ = scaled_by_torch(a, b, name)
    for values, operand, elements, scales in zip(
        (a, b.T.copy()), SCALED_OPERANDS[name], (first, second), (of_first, of_columns.T), strict=True
    ):
        ours = scale_blocks(values, operand, NEAREST)
        np.testing.assert_array_equal(ours.elements, elements)
        np.testing.assert_array_equal(ours.scales, np.broadcast_to(scales, ours.scales.shape))


def fp8_near_ties(name, seed):
    """Return all numbers of a format of elements, and products of a scale and the middles between two of them."""
    largest = SCALED_OPERANDS[name].rows.element.largest
    numbers = torch.arange(256, dtype=torch.uint8).view(FLOATS[name]).double()
    numbers = np.unique(numbers[numbers.abs() <= largest].numpy())
    random = np.random.default_rng(seed)
    scales = (1 + random.random((8, 1))).astype(np.float32)
    values = (random.choice((numbers[1:] + numbers[:-1]) / 2, (8, 128)) * scales).astype(np.float32)
    values[:, :1] = largest * scales
    return numbers, values


@pytest.mark.parametrize("name", FLOATS)
@given(st.integers(0, 2**32))
def test_fp8_differs_from_torch_only_at_ties(name, seed):
    """torch rounds the quotient to float32 before it rounds to the element, and precreg rounds once."""
    numbers, values = fp8_near_ties(name, seed)
    elements, scales = quantized_by_torch(values, SCALED_OPERANDS[name].rows, FLOATS[name])
    theirs, ours = elements.float().numpy(), scale_blocks(values, SCALED_OPERANDS[name].rows, NEAREST)
    divisors = np.broadcast_to(scales.numpy(), values.shape)
    np.testing.assert_array_equal(ours.scales, divisors[:, :1])
    differing = ours.elements != theirs
    pairs = ours.elements[differing].astype(np.float64), theirs[differing].astype(np.float64)
    ranks = [np.searchsorted(numbers, each) for each in pairs]
    assert (np.abs(ranks[0] - ranks[1]) == 1).all()
    quotients = exact_quotients(values[differing], divisors[differing])
    for quotient, one, other in zip(quotients, *(each.tolist() for each in pairs), strict=True):
        assert abs(quotient - Fraction(one)) < abs(quotient - Fraction(other))
        assert abs(quotient - (Fraction(one) + Fraction(other)) / 2) <= U * abs(quotient)


@pytest.mark.parametrize("shape", [(16, 64, 32), (3, 30, 5)])
@pytest.mark.parametrize("name", FLOATS)
def test_products_that_are_exact_are_those_of_scaled_mm(name, shape):
    """Small integers, with the largest element in each row, have powers of two as scales: torch multiplies by them."""
    m, k, n = shape
    random = np.random.default_rng(3)
    a, b = random.integers(-8, 9, (m, k)).astype(np.float32), random.integers(-8, 9, (k, n)).astype(np.float32)
    rows, columns = SCALED_OPERANDS[name]
    # The largest elements meet zeros, so that no sum passes 2**24.
    a[:, :2], b[:2] = [rows.element.largest, 0], np.array([[0], [columns.element.largest]])
    exact = a.astype(np.float64) @ b.astype(np.float64)
    a, b = a * np.float32(0.5), b * np.float32(8)
    *_, product = scaled_by_torch(a, b, name)
    np.testing.assert_array_equal(product, exact * 4)
    np.testing.assert_array_equal(matmul(a, b, unit_of(name)), product)


def bound_of(roundings):
    """Return gamma: so many roundings to float32 change a product by at most this part of it (Higham, 2002, 3.1)."""
    return roundings * U / (1 - roundings * U)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FLOATS)
def test_products_of_normal_numbers_are_within_the_roundings_of_both(name, shape):
    """torch rounds at most k + 2 times, and precreg k + 1 times.

    On this CPU torch multiplies elements by their scales first: two scaled elements, their product, and k - 1 sums.
    precreg has exact products, k - 1 sums, the product of both scales, and the sum times it.
    """
    m, k, n = shape
    a, b = normal(m, k, seed=4), normal(k, n, seed=5)
    first, second, of_first, of_columns, product = scaled_by_torch(a, b, name)
    factors = of_first.astype(np.float64) * of_columns
    # float64 has each of these sums with 53 bits: its error is 2**-29 of the bounds.
    exact = factors * (first.astype(np.float64) @ second.T.astype(np.float64))
    magnitude = factors * (np.abs(first).astype(np.float64) @ np.abs(second).T.astype(np.float64))
    ours = matmul(a, b, unit_of(name))
    slack = 1 + 2.0**-20
    assert (np.abs(product - exact) <= slack * float(bound_of(k + 2)) * magnitude).all()
    assert (np.abs(ours - exact) <= slack * float(bound_of(k + 1)) * magnitude).all()


def test_int_mm_has_our_sums():
    """The 32 bits of a sum go to float32, and then times the product of both scales, each with one rounding."""
    a, b = normal(8, 20000, seed=6) + np.float32(2), normal(20000, 8, seed=7) + np.float32(2)
    rows, columns = (scale_blocks(values, SCALED_OPERANDS["int8_row"].rows, NEAREST) for values in (a, b.T.copy()))
    codes = [torch.from_numpy(each.elements).to(torch.int8) for each in (rows, columns)]
    sums = torch._int_mm(codes[0], codes[1].T.contiguous())
    assert sums.dtype == torch.int32
    assert int(sums.abs().max()) > 2**24  # float32 does not have all such integers
    np.testing.assert_array_equal(sums.numpy(), codes[0].numpy().astype(np.int64) @ codes[1].numpy().astype(np.int64).T)
    factors = (rows.scales * columns.scales.T).astype(np.float32)
    np.testing.assert_array_equal(matmul(a, b, unit_of("int8_row", INT32)), sums.numpy().astype(np.float32) * factors)


# torchao multiplies by 1 / scale, rounded to float32, and precreg divides with one rounding. Normal numbers seldom show
# it, so the inputs below are half integers times scales.


def near_ties(seed, shape, codes):
    """Return rows near ties of all `codes` but the largest, and the scale that each row gets, up to its last bits."""
    random = np.random.default_rng(seed)
    scales = (1 + random.random((shape[0], 1))).astype(np.float32)
    least = -random.integers(1, codes - 1, (shape[0], 1))
    return ((random.integers(0, codes, shape) + least + 0.5) * scales).astype(np.float32), scales, least


def rows_of_int8(seed):
    values, scales, _ = near_ties(seed, (8, 128), 126)
    values[:, 0] = 127 * scales[:, 0]
    return values


def groups_of_int4(seed, length):
    """Return values whose zero points are near ties, too: from code -0.5 to code 14.5."""
    values, scales, least = near_ties(seed, (512 // length, length), 15)
    values[:, :1], values[:, 1:2] = (least + 0.5) * scales, (least + 15.5) * scales
    return values.reshape(4, 128)


def quantized_by_torchao(values, scales, zero_points, length, limits):
    scales, zero_points = (torch.from_numpy(each) for each in (scales, zero_points))
    dtype = torch.uint8 if limits[0] == 0 else torch.int8
    codes = quantize_affine(torch.from_numpy(values), (1, length), scales, zero_points, dtype, *limits)
    return codes, dequantize_affine(codes, (1, length), scales, zero_points, dtype, *limits)


def assert_only_ties_differ(quotients, ours, theirs, roundings):
    """Check that ours are nearest, and that theirs are the other neighbour of a tie within so many roundings."""
    for quotient, one, other in zip(quotients, ours.ravel().tolist(), theirs.ravel().tolist(), strict=True):
        assert one == round(quotient)
        if other != one:
            tie = Fraction(int(one) + int(other), 2)
            assert abs(one - other) == 1
            assert abs(quotient - tie) <= ((1 + U) ** roundings - 1) * abs(quotient)


@given(st.integers(0, 2**32))
def test_int8_rows_differ_from_torchao_only_at_ties(seed):
    values = rows_of_int8(seed)
    ours = scale_blocks(values, SCALED_OPERANDS["int8_row"].rows, NEAREST)
    scales, zero_points = choose_qparams_affine(
        torch.from_numpy(values), MappingType.SYMMETRIC, (1, 128), torch.int8, -127, 127, keepdim=True
    )
    np.testing.assert_array_equal(ours.scales, scales.numpy())
    assert not zero_points.any()
    codes, theirs = quantized_by_torchao(values, scales.numpy(), zero_points.numpy(), 128, (-127, 127))
    quotients = exact_quotients(values, scales.numpy().repeat(128, 1))
    assert_only_ties_differ(quotients, ours.elements, codes.numpy(), 2)
    is_equal = ours.elements == codes.numpy()
    by_reciprocal = np.rint(values * (np.float32(1) / scales.numpy()))
    np.testing.assert_array_equal(codes.numpy(), by_reciprocal)
    # Equal codes give equal values, bit by bit.
    np.testing.assert_array_equal(ours.values(128)[is_equal], theirs.numpy()[is_equal])


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch 2.13 calls its own quantized tensors deprecated
@given(st.integers(0, 2**32))
def test_int8_rows_differ_from_quantize_per_channel_only_at_ties(seed):
    values = rows_of_int8(seed)
    ours = scale_blocks(values, SCALED_OPERANDS["int8_row"].rows, NEAREST)
    scales = torch.from_numpy(ours.scales[:, 0])
    codes = torch.quantize_per_channel(torch.from_numpy(values), scales, torch.zeros(8), 0, torch.qint8).int_repr()
    assert_only_ties_differ(exact_quotients(values, ours.scales.repeat(128, 1)), ours.elements, codes.numpy(), 2)


def zero_points_of(elements, length):
    """Return the zero points of blocks: the least value of a block has the code 0, if it is negative."""
    least = elements.reshape(elements.shape[0], -1, length).min(2)
    return np.maximum(-least, 0).astype(np.int32)


def int4_by_torchao(values, length):
    """Return the scales and zero points that torchao chooses for 4 bits."""
    limits = {"quant_min": 0, "quant_max": 15}
    chosen = choose_qparams_affine(
        torch.from_numpy(values), MappingType.ASYMMETRIC, (1, length), torch.uint8, keepdim=True, **limits
    )
    return [each.numpy() for each in chosen]


@pytest.mark.parametrize("length", [32, 64, 128])
@given(st.integers(0, 2**32))
def test_int4_groups_differ_from_torchao_only_at_ties(length, seed):
    values = groups_of_int4(seed, length)
    ours = scale_blocks(values, SCALED_OPERANDS[f"int4_g{length}"].columns, NEAREST)
    scales, zero_points = int4_by_torchao(values, length)
    np.testing.assert_array_equal(ours.scales, scales)
    # torchao rounds the quotient to float32 before it rounds to an integer.
    own = zero_points_of(ours.elements, length)
    least = values.reshape(4, -1, length).min(2)
    assert_only_ties_differ(exact_quotients(-least, scales), own, zero_points, 1)
    # With our zero points, codes differ as int8 codes do: by the reciprocal alone.
    codes, theirs = quantized_by_torchao(values, scales, own, length, (0, 15))
    below = own.repeat(length, 1)
    nearest = np.array([round(each) for each in exact_quotients(values, scales.repeat(length, 1))]).reshape(4, 128)
    np.testing.assert_array_equal(ours.elements, np.clip(nearest, -below, 15 - below))
    by_reciprocal = np.rint(values * (np.float32(1) / scales.repeat(length, 1)))
    np.testing.assert_array_equal(codes.numpy(), np.clip(by_reciprocal + below, 0, 15))
    is_equal = ours.elements + below == codes.numpy()
    assert np.abs(ours.elements + below - codes.numpy()).max() <= 1
    np.testing.assert_array_equal(ours.values(length)[is_equal], theirs.numpy()[is_equal])


def test_the_inputs_near_ties_have_codes_that_differ():
    """Count elements of seeds 0 to 7: the tests above would pass if no input reached a difference."""
    limits = {"int8_row": (-127, 127)} | {f"int4_g{length}": (0, 15) for length in (32, 64, 128)}
    counts = dict.fromkeys([*limits, *FLOATS], 0)
    for seed in range(8):
        for name in FLOATS:
            _, values = fp8_near_ties(name, seed)
            theirs, _ = quantized_by_torch(values, SCALED_OPERANDS[name].rows, FLOATS[name])
            ours = scale_blocks(values, SCALED_OPERANDS[name].rows, NEAREST).elements
            counts[name] += int((ours != theirs.float().numpy()).sum())
        for name, codes in limits.items():
            length = int(name.removeprefix("int4_g")) if codes[0] == 0 else 128
            values = groups_of_int4(seed, length) if codes[0] == 0 else rows_of_int8(seed)
            ours = scale_blocks(values, SCALED_OPERANDS[name].columns, NEAREST)
            zeros = zero_points_of(ours.elements, length) * (codes[0] == 0)
            theirs, _ = quantized_by_torchao(values, ours.scales.astype(np.float32), zeros, length, codes)
            counts[name] += int((ours.elements + zeros.repeat(length, 1) != theirs.numpy()).sum())
    assert min(counts.values()) > 400, counts


@pytest.mark.parametrize("length", [32, 64, 128])
@pytest.mark.parametrize("shift", [0, 0.7, 5])
def test_int4_groups_of_normal_numbers_have_the_values_of_torchao(length, shift):
    values = normal(256, 256, seed=8) + np.float32(shift)
    scales, zero_points = int4_by_torchao(values, length)
    codes, theirs = quantized_by_torchao(values, scales, zero_points, length, (0, 15))
    operand = SCALED_OPERANDS[f"int4_g{length}"].columns
    ours = scale_blocks(values, operand, NEAREST)
    np.testing.assert_array_equal(ours.scales, scales)
    np.testing.assert_array_equal(ours.elements, codes.numpy() - zero_points.repeat(length, 1))
    np.testing.assert_array_equal(round_blocks(values, operand), theirs.numpy())


def test_a_zero_point_that_torchao_rounds_twice():
    """The scale 1.4 is a little less than 1.4 in float32, so 3.5 / 1.4 is above 2.5, but float32 rounds it to 2.5."""
    values = np.linspace(-3.5, 17.5, 32, dtype=np.float32)[None]
    scales, zero_points = int4_by_torchao(values, 32)
    assert scales.tolist() == [[float(np.float32(1.4))]]
    ours = scale_blocks(values, SCALED_OPERANDS["int4_g32"].columns, NEAREST)
    assert (zero_points.item(), zero_points_of(ours.elements, 32).item()) == (2, 3)
    assert round(Fraction(7, 2) / Fraction(scales.item())) == 3


def test_the_primitives_of_torchao_have_the_smallest_normal_scale():
    """A row of zeros has the scale 2**-126 there and 1 here; smaller rows lose bits there alone."""
    values = np.zeros((2, 255), np.float32)
    values[1] = np.ldexp(np.arange(-127, 128, dtype=np.float32), -130)
    ours = scale_blocks(values, SCALED_OPERANDS["int8_row"].rows, NEAREST)
    scales, zero_points = choose_qparams_affine(
        torch.from_numpy(values), MappingType.SYMMETRIC, (1, 255), torch.int8, -127, 127, keepdim=True
    )
    codes, theirs = quantized_by_torchao(values, scales.numpy(), zero_points.numpy(), 255, (-127, 127))
    assert scales.tolist() == [[2.0**-126]] * 2
    assert ours.scales.tolist() == [[1], [2.0**-130]]
    assert codes.abs().amax(1).tolist() == [0, 8]
    np.testing.assert_array_equal(ours.values(255), values)
    assert not np.array_equal(theirs.numpy(), values)


def test_int8_tensors_of_torchao_have_the_code_minus_128_and_a_least_scale():
    """`Int8Tensor` has 255 steps, so its scale is amax / 127.5 and its largest value is not a code; least: 2**-23."""
    values = normal(4, 256, seed=9)
    values[3] *= np.float32(2.0**-20)
    theirs = Int8Tensor.from_hp(torch.from_numpy(values), PerRow())
    amax = np.abs(values).max(1, keepdims=True)
    least = np.float32(2.0**-23)
    np.testing.assert_array_equal(theirs.scale.numpy(), np.maximum(amax / np.float32(127.5), least))
    assert theirs.scale[3] == least
    ours = scale_blocks(values, SCALED_OPERANDS["int8_row"].rows, NEAREST)
    np.testing.assert_array_equal(ours.scales.astype(np.float32), amax / np.float32(127))
