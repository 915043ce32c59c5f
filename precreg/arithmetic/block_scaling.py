"""Which elements and scales do the blocks of an array have, and which factor has the product of two blocks?"""

from __future__ import annotations

from functools import cache
from math import ldexp
from typing import Any, NamedTuple

import numpy as np

from precreg.arithmetic.block_operand import LEAST_SCALE, MOST_SCALE, WHOLE, BlockOperand, ScaleRule
from precreg.arithmetic.formats import Format, Rounding
from precreg.arithmetic.operations import divide
from precreg.arithmetic.rounding import native_backend, round_to
from precreg.storage import Array


class ScaledBlocks(NamedTuple):
    """Hold the blocks of an array along its last axis.

    `elements` is float32, in the shape of the array. `scales` is float64, with one number for each block. `tensor` is
    the scale of the whole array, or 1.
    """

    elements: Array
    scales: Array
    tensor: float

    def values(self, length: int) -> Array:
        """Return the float32 numbers that the blocks stand for: each element times its factor, rounded once."""
        factors = np.repeat(_factors(self.scales, self.tensor), length, axis=-1)[..., : self.elements.shape[-1]]
        values: Array = self.elements * factors
        return values


def _factors(scales: Array, tensor: float) -> Array:
    """Return the scale of each block times the scale of the tensor, rounded once to float32."""
    # The scale of the tensor is a float32, so a product in float32 and one in float64 round to the same number.
    factors: Array = (scales * tensor).astype(np.float32, copy=False)
    return factors


def scale_blocks(values: Array, operand: BlockOperand, rounding: Rounding, seed: int = 0) -> ScaledBlocks:
    """Return the blocks of float32 values along the last axis. Every quotient by a scale is rounded once.

    Stochastic rounding draws by the C-order index of each element.
    """
    with np.errstate(all="ignore"):
        values = np.ascontiguousarray(values, np.float32)
        if operand.has_zero_point:
            return _scale_from_zero_points(values, operand, rounding, seed)
        scales, tensor = _choose_scales(values, operand)
        divisors, ones = _divisors(scales, tensor), np.ones(scales.shape, np.float32)
        elements = _round_quotients(values, divisors, ones, operand, rounding)
        if elements is None:
            elements = _divide_elements(values, divisors, operand, operand.element, rounding, seed)
        return ScaledBlocks(elements, scales.astype(np.float64, copy=False), tensor)


def _divide_elements(
    values: Array, divisors: Array, operand: BlockOperand, format: Format, rounding: Rounding, seed: int
) -> Array:
    """Return each finite value over the divisor of its block, rounded once; zeros for the others."""
    finite = _or_else(values, np.isfinite(values), 0)
    quotients = divide(finite, _of_elements(divisors, values, operand), format, rounding, seed=seed)
    return quotients.astype(np.float32)


def _of_elements(of_blocks: Array, values: Array, operand: BlockOperand) -> Array:
    """Return the number of its block for each of the values."""
    found: Array = np.repeat(of_blocks, operand.run_of(values.shape[-1]), axis=-1)[..., : values.shape[-1]]
    return found


def _scale_from_zero_points(values: Array, operand: BlockOperand, rounding: Rounding, seed: int) -> ScaledBlocks:
    """Return blocks whose elements are codes less the zero point of their block."""
    largest = _extremes_of_blocks(values, operand)
    least = -_extremes_of_blocks(-values, operand)
    most = np.float32(operand.element.largest)
    ratios = round_to((largest - least) / most, operand.scale).astype(np.float32)
    scales = _or_else(ratios, ratios > 0, 1)
    zero_points = np.clip(divide(-least, scales, WHOLE), 0, most)
    is_usable = np.isfinite(scales)
    divisors = _or_else(scales, is_usable, np.inf)
    whole = _divide_elements(values, divisors, operand, WHOLE, rounding, seed)
    below = _of_elements(_or_else(zero_points, np.isfinite(zero_points), 0), values, operand)
    # An integer has no negative zero, and -0 + 0 is +0.
    elements = (np.clip(whole, -below, most - below) + 0).astype(np.float32)
    return ScaledBlocks(elements, _or_else(scales, is_usable, np.nan).astype(np.float64), 1.0)


def _extremes_of_blocks(values: Array, operand: BlockOperand) -> Array:
    """Return the largest value of each block, at least 0; NaN and infinities of either sign win."""
    if not values.shape[-1]:
        return np.zeros((*values.shape[:-1], 0), np.float32)
    starts = np.arange(0, values.shape[-1], operand.run_of(values.shape[-1]))
    winning = _or_else(values, np.isfinite(values), np.inf)
    return _share_rows(np.maximum(np.maximum.reduceat(winning, starts, axis=-1), 0), operand.rows)


def _share_rows(largest: Array, rows: int | None) -> Array:
    """Return the largest number among the rows that share a scale, for each row."""
    if rows == 1 or largest.ndim < 2 or not largest.size:
        return largest
    count = largest.shape[-2]
    size = count if rows is None else rows
    shared = np.maximum.reduceat(largest, np.arange(0, count, size), axis=-2)
    repeated: Array = np.repeat(shared, size, axis=-2)[..., :count, :]
    return repeated


# Blocks whose scales are chosen at a time: 64 KiB of float32. Temporary arrays of this size stay in the caches, and the
# allocator keeps them. Blocks of 16 have a scale for every 16 elements, and whole arrays of them took half of the time.
_BLOCKS = 2**14


def _factors_of_blocks(values: Array, operand: BlockOperand) -> tuple[Array, Array]:
    """Return the divisor of the elements of each block, and the factor of its codes."""
    largest, tensor = _largest_and_tensor_scale(values, operand)
    divisors, factors = np.empty(largest.shape, np.float32), np.empty(largest.shape, np.float32)
    flat = [each.reshape(-1) for each in (largest, divisors, factors)]
    for start in range(0, largest.size, _BLOCKS):
        part, *into = (each[start : start + _BLOCKS] for each in flat)
        scales = _usable_scales(part, operand, tensor)
        into[0][:], into[1][:] = _divisors(scales, tensor), _factors(scales, tensor)
    return divisors, factors


def _choose_scales(values: Array, operand: BlockOperand) -> tuple[Array, float]:
    largest, tensor = _largest_and_tensor_scale(values, operand)
    return _usable_scales(largest, operand, tensor), tensor


def _largest_and_tensor_scale(values: Array, operand: BlockOperand) -> tuple[Array, float]:
    largest = _share_rows(_largest_of_blocks(values, operand.run_of(values.shape[-1])), operand.rows)
    return largest, _tensor_scale(largest, operand)


def _usable_scales(largest: Array, operand: BlockOperand, tensor: float) -> Array:
    """Return the scales of blocks: NaN for those with NaN or an infinity."""
    scales = _scales(largest, operand, tensor)
    return _or_else(scales, np.isfinite(largest), np.nan)


def _or_else(values: Array, is_used: Array, number: float) -> Array:
    """Return the values where they are used, and a number elsewhere."""
    # numpy.where takes five times as long as a division, and most arrays have no zeros or infinities.
    return values if is_used.all() else np.where(is_used, values, values.dtype.type(number))


def _divisors(scales: Array, tensor: float) -> Array:
    """Return the divisors of blocks. Without a usable scale they are infinite, so that all elements are zeros."""
    factors = _factors(scales, tensor)
    return _or_else(factors, (factors > 0) & (factors < np.inf), np.inf)


def _round_quotients(
    values: Array, divisors: Array, factors: Array, operand: BlockOperand, rounding: Rounding
) -> Array | None:
    """Round quotients by the compiled core; return None if it is not in use or lacks them."""
    native = native_backend()
    if native is None or not values.ndim:
        return None
    rounded: Array | None = native.round_quotients_native(
        values, divisors, factors, operand.element, rounding, operand.run_of(values.shape[-1])
    )
    return rounded


def block_factors_of(largest: Array, operand: BlockOperand) -> Array:
    """Return the float32 number for which an element 1 of each block stands, by the largest magnitudes of all blocks.

    It is the scale of the block times that of the tensor, and 0 if both underflow: then all elements are zeros.
    """
    with np.errstate(over="ignore"):
        largest = largest.astype(np.float32) if operand.rule is ScaleRule.RATIO else largest
        tensor = _tensor_scale(largest, operand)
        return _factors(_scales(largest, operand, tensor), tensor)


def round_blocks(
    values: Array, operand: BlockOperand, rounding: Rounding = Rounding.NEAREST_EVEN, seed: int = 0
) -> Array:
    """Return float32 values rounded to numbers of blocks along the last axis: element times scale, in float32.

    The compiled core serves scales that are powers of two, with the roundings of `block_plan`.
    """
    values = np.asarray(values, np.float32)
    native = native_backend()
    plan = None
    length = operand.run_of(values.shape[-1] if values.ndim else 1)
    if native is not None and values.ndim and operand.rule is not ScaleRule.RATIO and operand.rows == 1:
        exponents = (LEAST_SCALE, MOST_SCALE)
        plan = native.block_plan(operand.element, rounding, operand.rule.value, exponents, length)
    if native is not None and plan is not None:
        rounded: Array
        rounded, left_out = native.round_blocks_native(values, plan)
        if left_out:
            # A block with NaN or an infinity is NaN as a whole.
            is_lost = ~np.isfinite(_largest_of_blocks(values, length))
            rounded[_of_elements(is_lost, values, operand)] = np.nan
        return rounded
    if native is not None and values.ndim and operand.rule is ScaleRule.RATIO and not operand.has_zero_point:
        with np.errstate(all="ignore"):
            quotients = _round_quotients(values, *_factors_of_blocks(values, operand), operand, rounding)
        if quotients is not None:
            return quotients
    with np.errstate(over="ignore"):
        return scale_blocks(values, operand, rounding, seed).values(length)


def _largest_of_blocks(values: Array, length: int) -> Array:
    """Return the largest magnitude of each block; NaN and infinities win."""
    count = values.shape[-1]
    if not count:
        return np.zeros((*values.shape[:-1], 0), np.float32)
    native = native_backend()
    largest: Array
    if native is not None and values.ndim:
        largest = native.block_maxima_native(values, length)
        return largest
    largest = np.maximum.reduceat(np.abs(values), np.arange(0, count, length), axis=-1)
    return largest


def _tensor_scale(largest: Array, operand: BlockOperand) -> float:
    """Return amax / (largest element * largest scale) in float32; 1 for zeros, and without a finite amax."""
    if not operand.has_tensor_scale:
        return 1.0
    scale = np.float32(np.max(largest, initial=0)) / np.float32(operand.element.largest * operand.scale.largest)
    return float(scale) if np.isfinite(scale) and scale > 0 else 1.0


def _scales(largest: Array, operand: BlockOperand, tensor: float) -> Array:
    if operand.rule is ScaleRule.RATIO:
        ratios = largest / np.float32(operand.element.largest)
        # Blocks of zeros get the scale 1, so that no quotient is 0/0.
        of_tensor = _or_else(ratios / np.float32(tensor), largest > 0, 1)
        # float32 has these scales, and half the memory of float64 to pass through.
        scales: Array = round_to(of_tensor, operand.scale).astype(np.float32, copy=False)
        return scales
    wide = largest.astype(np.float64)
    binades = np.where(wide > 0, np.frexp(wide)[1] - 1, LEAST_SCALE)
    exponents = np.maximum(binades - operand.element.max_exponent, LEAST_SCALE)
    if operand.rule is ScaleRule.COVERING:
        exponents = exponents + (wide > np.ldexp(operand.element.largest, exponents))
    powers: Array = np.ldexp(1.0, np.minimum(exponents, MOST_SCALE))
    return powers


@cache
def factor_format(accumulator: Format) -> Format:
    """Return the format of the product of two scales: the precision of a total, with the exponents of float64.

    A unit adds the exponents of scales outside its float32 path, so their product neither overflows nor underflows.
    """
    return Format("factor", accumulator.precision, -1022, ldexp(1.0, 1023))


def block_factors(row_scales: Array, column_scales: Array, accumulator: Format) -> Array:
    """Return the factor of each pair of a row's block and a column's block, in float64."""
    # Two scales have at most 24 bits each, so float64 has their product.
    products: Any = row_scales[..., :, None] * column_scales[..., None, :]
    return round_to(products, factor_format(accumulator))
