"""Operands with scales of a tensor, a row or a group beside torch and torchao, which have CPU code of their own."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchao.quantization.quant_primitives import MappingType, choose_qparams_affine, quantize_affine

from precreg.arithmetic.block_operand import SCALED_OPERANDS
from precreg.arithmetic.block_scaling import scale_blocks
from precreg.arithmetic.formats import Rounding
from precreg.arithmetic.sums import matmul
from tests.arithmetic.test_scaled_operands import INT32, unit_of

NEAREST = Rounding.NEAREST_EVEN
seeds = st.integers(0, 2**32)


def sides(name, a, b):
    """Return our blocks of both operands; those of the second one by its columns."""
    rows, columns = SCALED_OPERANDS[name]
    return scale_blocks(a, rows, NEAREST), scale_blocks(np.ascontiguousarray(b.T), columns, NEAREST)


def scales_of(blocks):
    return torch.from_numpy(blocks.scales.astype(np.float32))


def quotients(values, blocks):
    """Return the elements that torch casts."""
    return (torch.from_numpy(values) / scales_of(blocks)).to(torch.float8_e4m3fn)


def fp8_numbers(seed, rows, spread):
    """Draw numbers whose scales are powers of two, and whose sums of products float32 has without rounding."""
    draws = np.random.default_rng(seed)
    numbers = draws.integers(-8, 9, (rows, 64)) * 16.0
    numbers[:, 0] = 448
    return (numbers * np.exp2(draws.integers(-spread, spread + 1, (rows, 1)))).astype(np.float32)


@given(seeds)
def test_fp8_with_scales_of_rows_is_that_of_torch(seed):
    a, b = fp8_numbers(seed, 16, 6), fp8_numbers(seed + 1, 32, 6).T
    first, second = sides("fp8_row", a, b)
    codes = quotients(a, first), quotients(np.ascontiguousarray(b.T), second)
    np.testing.assert_array_equal(codes[0].float().numpy(), first.elements)
    theirs = torch._scaled_mm(codes[0], codes[1].t(), scales_of(first), scales_of(second).t(), out_dtype=torch.float32)
    np.testing.assert_array_equal(matmul(a, b, unit_of("fp8_row")), theirs.numpy())


@given(seeds)
def test_fp8_with_scales_of_tensors_is_that_of_torch(seed):
    a, b = fp8_numbers(seed, 16, 0), fp8_numbers(seed + 1, 32, 0).T * np.float32(0.25)
    first, second = sides("fp8_tensor", a, b)
    codes = quotients(a, first), quotients(np.ascontiguousarray(b.T), second)
    scales = [scales_of(each)[0, 0].clone() for each in (first, second)]
    theirs = torch._scaled_mm(codes[0], codes[1].t(), *scales, out_dtype=torch.float32)
    np.testing.assert_array_equal(matmul(a, b, unit_of("fp8_tensor")), theirs.numpy())


@given(seeds)
def test_fp8_of_any_numbers_is_that_of_torch_within_the_rounding_of_sums(seed):
    draws = np.random.default_rng(seed)
    a, b = (draws.standard_normal(shape).astype(np.float32) for shape in ((16, 64), (64, 32)))
    first, second = sides("fp8_row", a, b)
    codes = [torch.from_numpy(each.elements).to(torch.float8_e4m3fn) for each in (first, second)]
    theirs = torch._scaled_mm(codes[0], codes[1].t(), scales_of(first), scales_of(second).t(), out_dtype=torch.float32)
    sizes = (np.abs(first.elements) @ np.abs(second.elements).T) * (first.scales * second.scales.T)
    # Each adds 64 products, and multiplies by two scales: at most 66 roundings of both.
    assert (np.abs(matmul(a, b, unit_of("fp8_row")) - theirs.numpy()) <= 2 * 66 * 2.0**-24 * sizes).all()


def test_a_quotient_that_torch_rounds_to_float32_first_may_cross_the_middle():
    """Ours is rounded once. Both are neighbours of the quotient, and few quotients are that near to the middle."""
    draws = np.random.default_rng(6153)
    values = [draws.standard_normal(shape).astype(np.float32) for shape in ((16, 64), (64, 32))][1].T.copy()
    blocks = scale_blocks(values, SCALED_OPERANDS["fp8_row"].rows, NEAREST)
    theirs = quotients(values, blocks).float().numpy()
    apart = theirs != blocks.elements
    exact = values.astype(np.float64)[apart] / np.broadcast_to(blocks.scales, values.shape)[apart]
    assert 0 < np.count_nonzero(apart) < 1e-3 * values.size
    ours_off, theirs_off = (np.abs(each[apart] - exact) for each in (blocks.elements, theirs))
    assert (ours_off <= theirs_off).all()
    np.testing.assert_allclose(ours_off, theirs_off, rtol=1e-5)


@given(seeds)
def test_int8_sums_are_those_of_torch(seed):
    draws = np.random.default_rng(seed)
    a, b = (draws.standard_normal(shape).astype(np.float32) for shape in ((32, 200), (200, 16)))
    first, second = sides("int8_row", a, b)
    codes = [torch.from_numpy(each.elements.astype(np.int8)) for each in (first, second)]
    sums = torch._int_mm(codes[0], codes[1].t().contiguous()).numpy()
    factors = (first.scales * second.scales.T).astype(np.float32)
    np.testing.assert_array_equal(matmul(a, b, unit_of("int8_row", INT32)), sums.astype(np.float32) * factors)


def affine(values, length):
    """Return scales, zero points and codes of torchao."""
    tensor, group = torch.from_numpy(values), (1, length)
    scales, zeros = choose_qparams_affine(
        tensor,
        MappingType.ASYMMETRIC,
        group,
        torch.uint8,
        quant_min=0,
        quant_max=15,
        eps=2.0**-149,
        scale_dtype=torch.float32,
        zero_point_dtype=torch.int32,
    )
    codes = quantize_affine(tensor, group, scales, zeros, torch.uint8, 0, 15)
    return scales.numpy(), zeros.numpy(), codes.numpy().astype(np.int64)


@pytest.mark.parametrize("length", [32, 64, 128])
@given(seeds)
def test_groups_with_zero_points_are_those_of_torchao(length, seed):
    """It multiplies by the reciprocal of the scale, which moves quotients at the middle of two codes."""
    draws = np.random.default_rng(seed)
    # Quarters have many such quotients.
    values = (draws.integers(-40, 60, (6, 256)) / 4 + draws.integers(-3, 4, (6, 1))).astype(np.float32)
    blocks = scale_blocks(values, SCALED_OPERANDS[f"int4_g{length}"].columns, NEAREST)
    scales, zeros, _ = affine(values, length)
    np.testing.assert_array_equal(blocks.scales.astype(np.float32), scales)
    # torchao rounds -least / scale to float32 first: 3.5 / 1.4 becomes 2.5, and its zero point 2, but 1.4 in float32 is
    # a little less, so the nearest integer is 3. float64 has no such quotient at a tie.
    least = np.minimum(values.reshape(6, -1, length).min(2), 0)
    nearest = np.rint(-least.astype(np.float64) / scales).astype(np.int32)
    np.testing.assert_array_equal(zeros, np.rint(-least / scales))
    arguments = (torch.from_numpy(each) for each in (scales, nearest))
    codes = quantize_affine(torch.from_numpy(values), (1, length), *arguments, torch.uint8, 0, 15).numpy()
    by, zero = (np.repeat(each, length, axis=1) for each in (scales, nearest))
    theirs = np.clip(np.rint(values * (np.float32(1) / by)) + zero, 0, 15)
    ours = np.clip(np.rint(values.astype(np.float64) / by) + zero, 0, 15)
    np.testing.assert_array_equal(codes, theirs)
    np.testing.assert_array_equal(blocks.elements + zero, ours)
    assert np.abs(theirs - ours).max() <= 1


def test_the_reciprocal_moves_some_codes():
    # The scale is 1.6 in float32, a little more than 1.6, so -12 is above the middle of -7 and -8 scales.
    values = np.linspace(-12, 12, 97).astype(np.float32)[None]
    values = np.pad(values, ((0, 0), (0, 31)))
    blocks = scale_blocks(values, SCALED_OPERANDS["int4_g128"].columns, NEAREST)
    _, zeros, codes = affine(values, 128)
    apart = codes - zeros != blocks.elements
    assert values[apart].tolist() == [-12.0]
