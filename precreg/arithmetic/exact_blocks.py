"""Which elements, scales and products of blocks are exact, in rational arithmetic on single numbers?

These functions are to block_scaling.py and sums.py what exact.py is to the other array functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import copysign, inf, isfinite, nan

from precreg.arithmetic.block_operand import LEAST_SCALE, MOST_SCALE, BlockOperand, ScaleRule
from precreg.arithmetic.block_scaling import factor_format
from precreg.arithmetic.exact import (
    MatrixRows,
    exact_divide,
    exact_multiply,
    exact_output,
    exact_promoted_dot,
    exact_random_bits,
    exact_round,
)
from precreg.arithmetic.formats import FORMATS, Rounding
from precreg.arithmetic.unit import Unit

_SINGLE = FORMATS["float32"]


def exact_block_scale(block: Sequence[float], operand: BlockOperand, tensor: float = 1.0) -> float:
    """Return the scale of a block: NaN if it has NaN or an infinity."""
    if not all(map(isfinite, block)):
        return nan
    largest = max(map(abs, block))
    if operand.rule is ScaleRule.RATIO:
        if not largest:
            return 1.0
        ratio = exact_divide(largest, operand.element.largest, _SINGLE)
        return exact_round(exact_divide(ratio, tensor, _SINGLE), operand.scale)
    exponent = LEAST_SCALE
    while exponent < MOST_SCALE and not _is_scale(Fraction(largest), exponent, operand):
        exponent += 1
    return 2.0**exponent


def _is_scale(largest: Fraction, exponent: int, operand: BlockOperand) -> bool:
    """Return whether 2**exponent is a scale by the rule; the least such exponent is the scale."""
    scaled = largest / Fraction(2) ** exponent
    if operand.rule is ScaleRule.COVERING:
        return scaled <= Fraction(operand.element.largest)
    return scaled < Fraction(2) ** (operand.element.max_exponent + 1)


def exact_tensor_scale(values: Sequence[float], operand: BlockOperand) -> float:
    """Return the scale of a whole array in float32: 1 without one, for zeros, and without a finite amax."""
    largest = max(map(abs, values), default=0.0)
    if not operand.has_tensor_scale or not largest or not all(map(isfinite, values)):
        return 1.0
    return exact_divide(largest, operand.element.largest * operand.scale.largest, _SINGLE) or 1.0


def exact_blocks(
    row: Sequence[float], operand: BlockOperand, rounding: Rounding, tensor: float = 1.0, seed: int = 0, first: int = 0
) -> tuple[list[float], list[float]]:
    """Return the elements and the scales of a row. Element k draws by `seed` and index `first` + k."""
    elements, scales = [], []
    for start in range(0, len(row), operand.length):
        block = row[start : start + operand.length]
        scales.append(exact_block_scale(block, operand, tensor))
        divisor = exact_round(scales[-1] * tensor, _SINGLE)
        for k, number in enumerate(block, first + start):
            draw = exact_random_bits(seed, k)
            if not number or not isfinite(number) or not divisor > 0 or divisor == inf:
                elements.append(exact_round(copysign(0.0, number if isfinite(number) else 1.0), operand.element))
            else:
                elements.append(exact_divide(number, divisor, operand.element, rounding, draw))
    return elements, scales


def exact_scaled_matmul(a: MatrixRows, b: MatrixRows, unit: Unit) -> list[list[float]]:
    """Return the product of two matrices, given as rows, by a unit that reads operands in blocks."""
    operand, promotion = unit.blocks, unit.promotion
    assert operand is not None
    assert promotion is not None
    sides, tensors = [], []
    columns = [list(column) for column in zip(*b, strict=True)]
    for rows, seed in ((a, unit.seed + 2), (columns, unit.seed + 3)):
        single = [[exact_round(number, _SINGLE) for number in row] for row in rows]
        tensor = exact_tensor_scale([number for row in single for number in row], operand)
        tensors.append(tensor)
        sides.append(
            [
                exact_blocks(row, operand, unit.conversion, tensor, seed, index * len(row))
                for index, row in enumerate(single)
            ]
        )
    of_tensors = exact_multiply(tensors[0], tensors[1], _SINGLE)

    def number(i: int, j: int) -> float:
        (x, x_scales), (y, y_scales) = sides[0][i], sides[1][j]
        format = factor_format(promotion.format)
        factors = [exact_multiply(*pair, format) for pair in zip(x_scales, y_scales, strict=True)]
        element = i * len(columns) + j
        total = exact_promoted_dot(x, y, unit, element, factors)
        if operand.has_tensor_scale:
            draw = exact_random_bits(unit.seed + 1, element)
            total = exact_multiply(total, of_tensors, promotion.format, promotion.rounding, draw)
        return exact_output(total, unit, element)

    return [[number(i, j) for j in range(len(columns))] for i in range(len(a))]
