"""Which number does a value become when it is converted through several formats, and which if converted at once?

Every conversion rounds, so a chain of them may end at another number than the direct conversion.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import count
from math import nan
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from precreg.arithmetic.bits import (
    Anatomy,
    ExactNumber,
    decode_fields,
    describe_number,
    exact_decimal,
    is_finite,
    parse_number,
    parse_pattern,
    rounding_errors,
    split_pattern,
)
from precreg.arithmetic.exact import (
    exact_add,
    exact_divide,
    exact_multiply,
    exact_random_bits,
    exact_round,
    exact_subtract,
)
from precreg.arithmetic.formats import FORMATS, Format, Rounding
from precreg.errors import UserError

if TYPE_CHECKING:
    # At run time, fixed_point brings numpy, which `precreg bits` needs for integers alone.
    from precreg.arithmetic.fixed_point import FixedPoint

_ON_RATIONALS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
OPERATORS = tuple(_ON_RATIONALS)

# The IEEE 754 results for zeros, infinities and NaN, which rationals lack.
_ON_SPECIAL_VALUES: dict[str, Callable[[float, float, Format, Rounding], float]] = {
    "+": exact_add,
    "-": exact_subtract,
    "*": exact_multiply,
    "/": exact_divide,
}


class Expression(NamedTuple):
    """Hold a value as the user wrote it, or two values and an operator."""

    first: str
    operator: str = ""
    second: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, self))


class ConversionChain(Struct, frozen=True):
    """Describe the conversions of a value through formats. `precreg bits --json` prints these fields."""

    # The expression, as the user wrote it.
    asked: str
    rounding: Rounding
    # The two operands of an operation, rounded to the first format.
    operands: tuple[str, str] | None
    # The number after each conversion, in order.
    hops: tuple[Anatomy, ...]
    # The exact value converted to the last format at once; None after a single conversion or stochastic rounding.
    direct: str | None


def convert_through(
    expression: Expression, targets: tuple[Format | FixedPoint, ...], rounding: Rounding, seed: int = 0
) -> ConversionChain:
    """Return the conversions of a value through the targets. Operands are rounded to the first target before.

    Stochastic rounding draws by `seed` and the number of roundings before.
    Raises UserError: bad-value for text that is not a number, bad-scale for NaN in fixed point.
    """
    draws = (exact_random_bits(seed, index) for index in count())
    start, operands = _evaluate(expression, targets[0], rounding, draws)
    value, conversions = start, []
    for target in targets:
        value, described = _convert(value, target, rounding, draws)
        conversions.append(described)
    if operands is None:
        conversions[0] = _keep_nan_pattern(conversions[0], expression.first, start, targets[0])
    direct = None
    # Another draw would give another direct conversion, so stochastic rounding has none to compare with.
    if len(targets) > 1 and rounding is not Rounding.STOCHASTIC:
        direct = _convert(start, targets[-1], rounding, count())[1].value
    return ConversionChain(str(expression), rounding, operands, tuple(conversions), direct)


def _evaluate(
    expression: Expression, target: Format | FixedPoint, rounding: Rounding, draws: Iterator[int]
) -> tuple[ExactNumber, tuple[str, str] | None]:
    """Return the exact value of an expression, and its operands if it is an operation."""
    first = _parse(expression.first, target)
    if not expression.operator:
        return first, None
    x = _convert(first, target, rounding, draws)[0]
    y = _convert(_parse(expression.second, target), target, rounding, draws)[0]
    return _compute(expression.operator, x, y, rounding), (exact_decimal(x), exact_decimal(y))


def _parse(text: str, target: Format | FixedPoint) -> ExactNumber:
    """Parse a number, or a bit pattern of the target."""
    pattern = parse_pattern(text)
    if pattern is None:
        return parse_number(text)
    if not isinstance(target, Format):
        raise UserError(
            "bad-value",
            f"expected a number for fixed point but got value={text}",
            hint="write the number itself: precreg bits 1.12 --format int8",
        )
    return decode_fields(split_pattern(pattern, target), target)


def _keep_nan_pattern(described: Anatomy, text: str, value: ExactNumber, target: Format | FixedPoint) -> Anatomy:
    """Describe a NaN by the pattern that the user gave: a format has many NaN, and decoding loses the pattern."""
    pattern = parse_pattern(text)
    if pattern is None or value == value or not isinstance(target, Format):
        return described
    return describe_number(nan, nan, target, split_pattern(pattern, target))


def _compute(operator: str, x: ExactNumber, y: ExactNumber, rounding: Rounding) -> ExactNumber:
    """Return the exact result of an operation."""
    if is_finite(x) and is_finite(y) and (operator != "/" or y):
        exact = _ON_RATIONALS[operator](Fraction(x), Fraction(y))
        if exact:
            return exact
    # float64 loses nothing here: the result is zero, an infinity or NaN, and depends on signs and the rounding alone.
    return _ON_SPECIAL_VALUES[operator](float(x), float(y), FORMATS["float64"], rounding)


def _convert(
    value: ExactNumber, target: Format | FixedPoint, rounding: Rounding, draws: Iterator[int]
) -> tuple[ExactNumber, Anatomy]:
    if isinstance(target, Format):
        rounded = exact_round(value, target, rounding, next(draws))
        return rounded, describe_number(rounded, value, target)
    return _convert_to_fixed_point(value, target, rounding, next(draws))


def _convert_to_fixed_point(
    value: ExactNumber, fixed: FixedPoint, rounding: Rounding, draw: int
) -> tuple[ExactNumber, Anatomy]:
    from precreg.arithmetic.fixed_point import exact_quantize

    integer = exact_quantize(value, fixed, rounding, draw)
    step = 1 / Fraction(fixed.scale)
    bits = f"{integer % 2**fixed.bits:0{fixed.bits}b}"  # the modulus makes two's complement
    below = exact_decimal((integer - 1) * step) if integer > fixed.smallest else None
    above = exact_decimal((integer + 1) * step) if integer < fixed.largest else None
    shown = exact_decimal(integer * step)
    pattern = f"0x{int(bits, 2):0{fixed.bits // 4}x}"
    error = rounding_errors(integer * step, value, step)
    return integer * step, Anatomy(
        f"int{fixed.bits}", shown, "integer", bits[0], None, None, bits[1:], pattern, below, above, error
    )
