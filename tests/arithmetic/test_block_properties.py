"""Which properties do roundings to blocks and splits have, and which format lacks one?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.block_operand import BLOCK_OPERANDS, BlockOperand, ScaleRule
from precreg.arithmetic.block_scaling import round_blocks
from precreg.arithmetic.formats import Format, format_named
from precreg.arithmetic.split_operands import split_values
from precreg.storage import Array

FLOORS = [operand for operand in BLOCK_OPERANDS.values() if operand.rule is ScaleRule.FLOOR]
RATIOS = [operand for operand in BLOCK_OPERANDS.values() if operand.rule is ScaleRule.RATIO]
ALL = [*FLOORS, *RATIOS]
by_name = {"ids": lambda operand: operand.name}
seeds = st.integers(0, 2**32 - 1)


def draw_values(seed: int, count: int = 300) -> Array:
    """Return float32 values of 20 binades; 300 leaves a shorter last block in every format."""
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(count) * 2.0 ** generator.integers(-10, 10, count)).astype(np.float32)


def bits(values: Array) -> list[int]:
    return values.view(np.uint32).tolist()


@pytest.mark.parametrize("operand", FLOORS, **by_name)
@given(seed=seeds)
def test_the_floor_rule_is_idempotent(operand: BlockOperand, seed: int):
    once = round_blocks(draw_values(seed), operand)
    assert bits(round_blocks(once, operand)) == bits(once)


def test_float32_scales_survive_a_second_rounding():
    # Every significand of amax: 448 * (amax / 448) gives the same scale again. It need not do so for other numbers.
    amax = (np.arange(2**23, dtype=np.uint32) | np.uint32(127 << 23)).view(np.float32)
    scales = amax / np.float32(448)
    assert np.array_equal(scales * np.float32(448) / np.float32(448), scales)


@given(seed=seeds)
def test_fp8_with_float32_scales_is_idempotent(seed: int):
    operand = BLOCK_OPERANDS["fp8_1x128"]
    once = round_blocks(draw_values(seed), operand)
    assert bits(round_blocks(once, operand)) == bits(once)


def test_nvfp4_is_not_idempotent():
    # The second rounding takes its scales from rounded maxima, so its scales may differ.
    operand = BLOCK_OPERANDS["nvfp4"]
    once = [round_blocks(draw_values(seed), operand) for seed in range(50)]
    assert any((round_blocks(values, operand) != values).any() for values in once)


@pytest.mark.parametrize("operand", FLOORS, **by_name)
@given(seed=seeds, shift=st.integers(-40, 40))
def test_powers_of_two_scale_through(operand: BlockOperand, seed: int, shift: int):
    values, factor = draw_values(seed), np.float32(2.0**shift)
    assert bits(round_blocks(values * factor, operand)) == bits(round_blocks(values, operand) * factor)


@pytest.mark.parametrize("operand", ALL, **by_name)
@given(seed=seeds)
def test_signs_are_symmetric(operand: BlockOperand, seed: int):
    values = draw_values(seed)
    assert np.array_equal(round_blocks(-values, operand), -round_blocks(values, operand))


@pytest.mark.parametrize("operand", ALL, **by_name)
@given(seed=seeds)
def test_a_block_keeps_the_order(operand: BlockOperand, seed: int):
    values = np.sort(draw_values(seed, operand.length))
    assert (np.diff(round_blocks(values, operand)) >= 0).all()


@pytest.mark.parametrize(
    ("format", "parts", "digits"),
    [
        (format_named("bfloat16"), 2, 16),
        (format_named("bfloat16"), 3, None),
        (Format("tf32", 11, -126, float(2.0**128 - 2.0**117)), 2, 22),
        (Format("tf32", 11, -126, float(2.0**128 - 2.0**117)), 3, None),
    ],
    ids=["bfloat16x2", "bfloat16x3", "tf32x2", "tf32x3"],
)
@given(seed=seeds)
def test_splits_are_exact_or_within_their_digits(format: Format, parts: int, digits: int | None, seed: int):
    values = draw_values(seed)
    # float64 adds the parts without an error: their digits span at most 33 bits.
    total = sum(part.astype(np.float64) for part in split_values(values, format, parts))
    error = np.abs(total - values.astype(np.float64))
    assert (error <= (0.0 if digits is None else 2.0**-digits * np.abs(values.astype(np.float64)))).all()
