"""Formats of blocks beside torchao, torch and pychop, which convert on the CPU in code of their own."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pychop import mx_quantize
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.mx_tensor import to_dtype, to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale

from precreg.arithmetic import round_to
from precreg.arithmetic.block_operand import BLOCK_OPERANDS, ScaleRule
from precreg.arithmetic.block_scaling import round_blocks, scale_blocks
from precreg.arithmetic.formats import Rounding, format_named

ELEMENTS = {
    "mxfp8_e4m3": torch.float8_e4m3fn,
    "mxfp8_e5m2": torch.float8_e5m2,
    "mxfp4": torch.float4_e2m1fn_x2,
}
MODES = {ScaleRule.FLOOR: ScaleCalculationMode.FLOOR, ScaleRule.COVERING: ScaleCalculationMode.RCEIL}


def blocks(seed, shift):
    """Draw bits of float16, which have many ties, times a power of two: their scales are above the least one."""
    values = np.random.default_rng(seed).integers(0, 2**16, (8, 64), np.uint16).view(np.float16)
    return np.ldexp(np.where(np.isfinite(values), values, np.float16(0)).astype(np.float32), shift)


@pytest.mark.parametrize("rule", MODES)
@pytest.mark.parametrize("name", ELEMENTS)
@given(st.integers(0, 2**32), st.integers(-60, 60))
def test_ocp_formats_have_the_values_of_torchao(name, rule, seed, shift):
    values = blocks(seed, shift)
    values[0, :32] = 0
    scales, codes = to_mx(torch.from_numpy(values), ELEMENTS[name], 32, MODES[rule])
    theirs = to_dtype(codes, scales, ELEMENTS[name], 32, torch.float32).numpy()
    ours = round_blocks(values, replace(BLOCK_OPERANDS[name], rule=rule))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp8_e5m2"])
def test_at_the_least_scale_torchao_gives_half(name):
    """It divides by 2**-126, the smallest normal float32, and multiplies by the stored 2**-127."""
    values = np.full((1, 32), 2.0**-127, np.float32)
    scales, codes = to_mx(torch.from_numpy(values), ELEMENTS[name], 32)
    theirs = to_dtype(codes, scales, ELEMENTS[name], 32, torch.float32).numpy()
    ours = round_blocks(values, BLOCK_OPERANDS[name])
    np.testing.assert_array_equal(ours, values)
    np.testing.assert_array_equal(theirs, values / 2)


@given(st.integers(0, 2**32))
def test_nvfp4_has_the_codes_and_scales_of_torchao(seed):
    random = np.random.default_rng(seed)
    values = (random.standard_normal((8, 64)) * np.exp2(random.integers(-5, 6, (8, 4))).repeat(16, 1)).astype(
        np.float32
    )
    tensor = per_tensor_amax_to_scale(torch.from_numpy(values).abs().max())
    theirs = NVFP4Tensor.to_nvfp4(torch.from_numpy(values), per_tensor_scale=tensor)
    ours = scale_blocks(values, BLOCK_OPERANDS["nvfp4"], Rounding.NEAREST_EVEN)
    assert ours.tensor == float(tensor)
    np.testing.assert_array_equal(ours.scales, theirs.scale.float().numpy().reshape(ours.scales.shape))
    # Divided by their scales, which float32 rounds once, the values are the elements.
    factors = (theirs.scale.float() * tensor).numpy().reshape(8, 4).repeat(16, 1)
    elements = np.rint(2 * theirs.dequantize(torch.float32).numpy() / factors) / 2
    np.testing.assert_array_equal(ours.elements, elements)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_fp8_with_a_scale_for_the_tensor_is_torch_s_cast_of_the_quotient(name):
    values = torch.randn(100, 100, generator=torch.Generator().manual_seed(1))
    format = format_named(f"{name}_sat")
    scale = values.abs().max() / format.largest
    theirs = (values / scale).to(getattr(torch, name)).float().numpy()
    np.testing.assert_array_equal(round_to((values / scale).numpy(), format), theirs)


@pytest.mark.parametrize("name", [name for name in BLOCK_OPERANDS if name.startswith("mx")])
@given(st.integers(0, 2**32), st.integers(-60, 60))
def test_ocp_formats_have_the_values_of_pychop(name, seed, shift):
    values = blocks(seed, shift)
    values[0, :32] = 0
    theirs = np.asarray(mx_quantize(values.ravel(), {"mxfp4": "mxfp4_e2m1"}.get(name, name), block_size=32))
    theirs = theirs.reshape(values.shape)
    ours = scale_blocks(values, BLOCK_OPERANDS[name], Rounding.NEAREST_EVEN)
    if name == "mxint8":
        # pychop keeps the code -128, whose magnitude no positive code has; the specification leaves it open.
        theirs = np.maximum(theirs, -127 / 64 * ours.scales.repeat(32, -1))
    np.testing.assert_array_equal(ours.values(32).astype(np.float32), theirs)


def test_mxint8_of_pychop_has_the_code_minus_128():
    values = np.full((1, 32), -1.999, np.float32)
    np.testing.assert_array_equal(round_blocks(values, BLOCK_OPERANDS["mxint8"]), np.full((1, 32), -127 / 64))
    np.testing.assert_array_equal(mx_quantize(values.ravel(), "mxint8", block_size=32), np.full(32, -2.0))
