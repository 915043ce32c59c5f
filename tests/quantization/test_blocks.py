"""Block formats: MX and NVFP4 as their documents define them, against rationals and the dtypes of ml_dtypes."""

from fractions import Fraction
from math import floor, log2

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import precreg
from precreg.arithmetic import BLOCK_OPERANDS, round_blocks
from precreg.errors import UserError
from precreg.quantization.arrays import quantize_values
from precreg.quantization.codes import make_quantizer
from tests.quantization.plain import code_values, nearest_code

# OCP Microscaling Formats 1.0, table 1: the exponent of the largest number of each element.
EMAX = {"mxfp8_e4m3": 8, "mxfp8_e5m2": 15, "mxfp6_e2m3": 2, "mxfp6_e3m2": 4, "mxfp4": 2, "mxint8": 0}
ELEMENTS = {
    "mxfp8_e4m3": "float8_e4m3fn",
    "mxfp8_e5m2": "float8_e5m2",
    "mxfp6_e2m3": "float6_e2m3fn",
    "mxfp6_e3m2": "float6_e3m2fn",
    "mxfp4": "float4_e2m1fn",
}
SIZES = st.floats(-1e4, 1e4, width=32).filter(lambda x: x == 0 or abs(x) > 1e-10)


def elements(name):
    if name == "mxint8":
        return [Fraction(each, 64) for each in range(-127, 128)]
    return code_values(ELEMENTS[name])


@pytest.mark.parametrize("name", EMAX)
@given(values=arrays_of.arrays(np.float32, 32, elements=SIZES))
def test_a_block_of_mx_is_that_of_rationals(name, values):
    found = quantize_values(values, make_quantizer(name)).values
    largest = max(abs(Fraction(float(each))) for each in values)
    if not largest:
        assert not found.any()
        return
    # log2 of a float is exact at powers of two. Elsewhere, floor does not need its last bit.
    exponent = floor(log2(largest))
    exponent -= Fraction(2) ** exponent > largest
    scale = Fraction(2) ** (exponent - EMAX[name])
    expected = [scale * nearest_code(Fraction(float(each)) / scale, elements(name)) for each in values]
    assert [Fraction(each) for each in found] == expected


def test_blocks_run_along_the_other_axes_of_a_channel():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3, 80)).astype(np.float32)
    found = quantize_values(values, make_quantizer("mxfp4"))
    for row in range(3):
        for part in (slice(0, 32), slice(32, 64), slice(64, 80)):
            alone = quantize_values(values[row, part], make_quantizer("mxfp4"))
            assert np.array_equal(found.values[row, part], alone.values)
    assert len(found.scales.scale) == 9
    assert found.bits == pytest.approx(4 + 8 * 9 / 240)


def test_scales_of_mx_are_numbers_of_e8m0():
    values = (np.random.default_rng(1).standard_normal((8, 64)) * 1e20).astype(np.float32)
    scale = quantize_values(values, make_quantizer("mxfp8_e4m3")).scales.scale
    assert np.array_equal(scale.astype(ml_dtypes.float8_e8m0fnu).astype(np.float64), scale)


def test_nvfp4_has_two_levels_of_scales():
    values = np.random.default_rng(2).standard_normal((4, 48)).astype(np.float32)
    found = quantize_values(values, make_quantizer("nvfp4"))
    of_array = np.float32(np.abs(values).max() / (6 * 448)).astype(np.float64)
    for row in range(4):
        for block in range(3):
            part = values[row, 16 * block : 16 * block + 16].astype(np.float64)
            of_block = float((np.abs(part).max() / 6 / of_array).astype(ml_dtypes.float8_e4m3fn))
            scale = float(np.float32(of_block * of_array))
            quotients = (part / scale).astype(np.float32)
            # The cast of ml_dtypes saturates.
            expected = quotients.astype(ml_dtypes.float4_e2m1fn).astype(np.float64) * scale
            assert np.array_equal(found.values[row, 16 * block : 16 * block + 16], expected)
    assert found.bits == 4.5


def test_the_scale_of_a_tiny_block_of_nvfp4_underflows():
    values = np.ones((2, 16), np.float32)
    values[1] = 1e-9
    found = quantize_values(values, make_quantizer("nvfp4"))
    assert found.scales.scale[1] == 0
    assert not found.values[1].any()
    assert np.isfinite(found.values).all()


@pytest.mark.parametrize("name", BLOCK_OPERANDS)
@pytest.mark.parametrize("spread", [0, 4, 30])
def test_values_are_those_of_the_operands_of_devices(name, spread):
    generator = np.random.default_rng(spread)
    values = generator.standard_normal((5, 300)) * 10.0 ** generator.uniform(-spread, spread, (5, 300))
    values = values.astype(np.float32)
    found = quantize_values(values, make_quantizer(name)).values
    np.testing.assert_array_equal(found.astype(np.float32), round_blocks(values, BLOCK_OPERANDS[name]))


def test_a_scale_of_float32_counts_32_bits():
    assert quantize_values(np.ones((2, 256), np.float32), make_quantizer("fp8_1x128")).bits == 8.25


def test_a_block_format_has_no_other_granularity_or_calibration():
    found = precreg.quantize_array(np.random.default_rng(3).standard_normal((8, 64)).astype(np.float32), "mxfp6_e2m3")
    assert [(each.granularity, each.group) for each in found.granularities] == [("group", 32)]
    assert [each.method for each in found.calibrations] == ["block"]


@pytest.mark.parametrize("options", [{"zero_point": True}, {"group": 64, "granularity": "group"}])
def test_a_block_format_has_its_own_blocks(options):
    with pytest.raises(UserError, match="expected blocks of 32 without zero points, as mxfp4 has them"):
        make_quantizer("mxfp4", **options)


@pytest.mark.parametrize("options", [{"granularity": "channel"}, {"calibration": "mse"}, {"granularity": "tensor"}])
def test_options_that_a_block_format_ignores_are_refused(options):
    (given,) = (f"{name}={value}" for name, value in options.items())
    with pytest.raises(UserError, match=f"beside mxfp4, which has blocks of 32, but got {given}"):
        precreg.quantize_array(np.ones((2, 32), np.float32), "mxfp4", **options)
