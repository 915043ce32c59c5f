"""Which elements, scales and products of blocks are exact, in rational arithmetic on single numbers?

These functions are to block_scaling.py and sums.py what exact.py is to the other array functions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import copysign, inf, isfinite, nan

from msgspec.structs import replace

from precreg.arithmetic.block_operand import LEAST_SCALE, MOST_SCALE, WHOLE, BlockOperand, ScaleRule
from precreg.arithmetic.block_scaling import factor_format
from precreg.arithmetic.exact import (
    MatrixRows,
    exact_divide,
    exact_matmul,
    exact_multiply,
    exact_output,
    exact_promoted_dot,
    exact_random_bits,
    exact_round,
    exact_subtract,
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
    exponents = range(LEAST_SCALE, MOST_SCALE)
    exact = Fraction(largest)
    return 2.0 ** (LEAST_SCALE + bisect_left(exponents, True, key=lambda exponent: _is_scale(exact, exponent, operand)))


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
    row: Sequence[float],
    operand: BlockOperand,
    rounding: Rounding,
    tensor: float = 1.0,
    seed: int = 0,
    first: int = 0,
    sharing: MatrixRows = (),
) -> tuple[list[float], list[float]]:
    """Return the elements and the scales of a row. Element k draws by `seed` and index `first` + k.

    `sharing` has the other rows whose blocks share the scales of this one.
    """
    elements: list[float] = []
    scales: list[float] = []
    length = operand.run_of(len(row))
    for start in range(0, len(row), length):
        block = row[start : start + length]
        pool = [number for each in (row, *sharing) for number in each[start : start + length]]
        draws = [exact_random_bits(seed, k) for k in range(first + start, first + start + len(block))]
        if operand.has_zero_point:
            scale, zero_point = _exact_zero_point(pool, operand)
            found = _exact_codes(block, operand, rounding, scale, zero_point, draws)
        else:
            scale = exact_block_scale(pool, operand, tensor)
            found = _exact_elements(block, operand, rounding, exact_round(scale * tensor, _SINGLE), draws)
        elements += found
        scales.append(scale)
    return elements, scales


def _exact_elements(
    block: Sequence[float], operand: BlockOperand, rounding: Rounding, divisor: float, draws: Sequence[int]
) -> Iterator[float]:
    for number, draw in zip(block, draws, strict=True):
        if not number or not isfinite(number) or not divisor > 0 or divisor == inf:
            yield exact_round(copysign(0.0, number if isfinite(number) else 1.0), operand.element)
        else:
            yield exact_divide(number, divisor, operand.element, rounding, draw)


def _exact_zero_point(pool: Sequence[float], operand: BlockOperand) -> tuple[float, int]:
    """Return the scale and the zero point of a block; the scale is NaN if the block has NaN or an infinity."""
    if not all(map(isfinite, pool)):
        return nan, 0
    least, largest, most = min(0.0, *pool), max(0.0, *pool), int(operand.element.largest)
    ratio = exact_divide(exact_subtract(largest, least, _SINGLE), float(most), _SINGLE)
    scale = exact_round(ratio, operand.scale) or 1.0
    # A range beyond float32 has no scale.
    if not isfinite(scale):
        return nan, 0
    return scale, min(most, int(exact_divide(-least, scale, WHOLE)))


def _exact_codes(
    block: Sequence[float],
    operand: BlockOperand,
    rounding: Rounding,
    scale: float,
    zero_point: int,
    draws: Sequence[int],
) -> Iterator[float]:
    """Yield code less zero point for each number."""
    for number, draw in zip(block, draws, strict=True):
        usable = isfinite(number) and isfinite(scale)
        whole = int(exact_divide(number, scale, WHOLE, rounding, draw)) if usable else 0
        code = min(max(whole + zero_point, 0), int(operand.element.largest))
        yield float(code - zero_point)


_Side = list[tuple[list[float], list[float]]]


def _exact_side(rows: MatrixRows, operand: BlockOperand, unit: Unit, seed: int) -> tuple[_Side, float]:
    """Return elements and scales of each row of an operand, and the scale of its tensor."""
    single = [[exact_round(number, _SINGLE) for number in row] for row in rows]
    tensor = exact_tensor_scale([number for row in single for number in row], operand)
    size = operand.rows or max(1, len(single))
    side = []
    for index, row in enumerate(single):
        first = index // size * size
        others = [single[other] for other in range(first, min(first + size, len(single))) if other != index]
        side.append(exact_blocks(row, operand, unit.conversion, tensor, seed, index * len(row), others))
    return side, tensor


def _of_runs(scales: Sequence[float], operand: BlockOperand, terms: int, run: int) -> list[float]:
    return [scales[start // operand.run_of(terms)] for start in range(0, terms, run)]


def exact_scaled_matmul(a: MatrixRows, b: MatrixRows, unit: Unit) -> list[list[float]]:
    """Return the product of two matrices, given as rows, by a unit that reads operands in blocks."""
    operand, promotion = unit.blocks, unit.promotion
    assert operand is not None
    assert promotion is not None
    other, terms = unit.column_blocks or operand, len(b)
    columns = [list(column) for column in zip(*b, strict=True)]
    rows_side, tensor = _exact_side(a, operand, unit, unit.seed + 2)
    columns_side, other_tensor = _exact_side(columns, other, unit, unit.seed + 3)
    of_tensors = exact_multiply(tensor, other_tensor, _SINGLE)
    format, run = factor_format(promotion.format), promotion.run_of(terms)

    def number(i: int, j: int) -> float:
        (x, x_scales), (y, y_scales) = rows_side[i], columns_side[j]
        pairs = zip(_of_runs(x_scales, operand, terms, run), _of_runs(y_scales, other, terms, run), strict=True)
        factors = [exact_multiply(*pair, format) for pair in pairs]
        element = i * len(columns) + j
        total = exact_promoted_dot(x, y, unit, element, factors)
        if operand.has_tensor_scale:
            draw = exact_random_bits(unit.seed + 1, element)
            total = exact_multiply(total, of_tensors, promotion.format, promotion.rounding, draw)
        return exact_output(total, unit, element)

    return [[number(i, j) for j in range(len(columns))] for i in range(len(a))]


def exact_weight_matmul(a: MatrixRows, b: MatrixRows, unit: Unit) -> list[list[float]]:
    """Return the product of two matrices whose second one alone has scales: the unit rounds its values to `input`."""
    operand = unit.column_blocks
    assert operand is not None
    columns = [list(column) for column in zip(*b, strict=True)]
    side, _ = _exact_side(columns, operand, unit, unit.seed + 3)
    values = [
        [exact_multiply(element, scales[k // operand.run_of(len(b))], _SINGLE) for k, element in enumerate(elements)]
        for elements, scales in side
    ]
    return exact_matmul(a, [list(row) for row in zip(*values, strict=True)], replace(unit, column_blocks=None))
