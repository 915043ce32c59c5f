"""A number on its way through formats: every hop with its rounding, beside the rounding that goes there directly."""

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
    from precreg.arithmetic.fixed_point import FixedPoint


_ON_RATIONALS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}

_OTHERWISE: dict[str, Callable[[float, float, Format, Rounding], float]] = {
    "+": exact_add,
    "-": exact_subtract,
    "*": exact_multiply,
    "/": exact_divide,
}
"""What IEEE 754 says of zeros, infinities and NaN."""


OPERATORS = tuple(_ON_RATIONALS)


class Expression(NamedTuple):
    """A value as it was written, or two and an operator."""

    first: str
    operator: str = ""
    second: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, self))


class ConversionChain(Struct, frozen=True):
    """What was asked for, and its hops in order; `operands` are the two of an operation, in the first format.

    `direct` is what the exact value rounds to in the last format, where it has been through others before.
    """

    asked: str
    rounding: Rounding
    operands: tuple[str, str] | None
    hops: tuple[Anatomy, ...]
    direct: str | None


def convert_through(
    asked: Expression, targets: tuple[Format | FixedPoint, ...], rounding: Rounding, seed: int = 0
) -> ConversionChain:
    """Return the hops of a value through the targets. Operands of an operation are rounded to the first target before.

    Stochastic rounding draws by `seed` and the number of roundings before. Raises UserError (bad-value) for what
    is no number, and bad-scale for NaN in fixed point.
    """
    draws = (exact_random_bits(seed, index) for index in count())
    start, operands = _start(asked, targets[0], rounding, draws)
    value, hops = start, []
    for target in targets:
        value, seen = _hop(value, target, rounding, draws)
        hops.append(seen)
    if operands is None:
        hops[0] = _with_its_own_bits(hops[0], asked.first, start, targets[0])
    return ConversionChain(str(asked), rounding, operands, tuple(hops), _direct(start, targets, rounding))


def _start(
    asked: Expression, target: Format | FixedPoint, rounding: Rounding, draws: Iterator[int]
) -> tuple[ExactNumber, tuple[str, str] | None]:
    """Return the exact value that is to be rounded, and the operands it comes from."""
    first = _read(asked.first, target)
    if not asked.operator:
        return first, None
    x = _hop(first, target, rounding, draws)[0]
    y = _hop(_read(asked.second, target), target, rounding, draws)[0]
    return _combined(asked.operator, x, y, rounding), (exact_decimal(x), exact_decimal(y))


def _read(text: str, target: Format | FixedPoint) -> ExactNumber:
    """Read a number, or a pattern of the target."""
    pattern = parse_pattern(text)
    if pattern is None:
        return parse_number(text)
    if not isinstance(target, Format):
        raise UserError("bad-value", f"expected a number for fixed point but got value={text}")
    return decode_fields(split_pattern(pattern, target), target)


def _with_its_own_bits(seen: Anatomy, text: str, value: ExactNumber, target: Format | FixedPoint) -> Anatomy:
    """Keep the pattern of a NaN that was given as a pattern: NaN has many."""
    pattern = parse_pattern(text)
    if pattern is None or value == value or not isinstance(target, Format):
        return seen
    return describe_number(nan, nan, target, split_pattern(pattern, target))


def _combined(operator: str, x: ExactNumber, y: ExactNumber, rounding: Rounding) -> ExactNumber:
    if is_finite(x) and is_finite(y) and (operator != "/" or y):
        exact = _ON_RATIONALS[operator](Fraction(x), Fraction(y))
        if exact:
            return exact
    return _OTHERWISE[operator](float(x), float(y), FORMATS["float64"], rounding)


def _hop(
    value: ExactNumber, target: Format | FixedPoint, rounding: Rounding, draws: Iterator[int]
) -> tuple[ExactNumber, Anatomy]:
    if isinstance(target, Format):
        rounded = exact_round(value, target, rounding, next(draws))
        return rounded, describe_number(rounded, value, target)
    return _fixed_hop(value, target, rounding, next(draws))


def _fixed_hop(value: ExactNumber, fixed: FixedPoint, rounding: Rounding, draw: int) -> tuple[ExactNumber, Anatomy]:
    from precreg.arithmetic.fixed_point import exact_quantize

    integer = exact_quantize(value, fixed, rounding, draw)
    step = 1 / Fraction(fixed.scale)
    bits = f"{integer % 2**fixed.bits:0{fixed.bits}b}"
    below = exact_decimal((integer - 1) * step) if integer > fixed.smallest else None
    above = exact_decimal((integer + 1) * step) if integer < fixed.largest else None
    shown = exact_decimal(integer * step)
    pattern = f"0x{int(bits, 2):0{fixed.bits // 4}x}"
    error = rounding_errors(integer * step, value, step)
    return integer * step, Anatomy(
        f"int{fixed.bits}", shown, "integer", bits[0], None, None, bits[1:], pattern, below, above, error
    )


def _direct(start: ExactNumber, targets: tuple[Format | FixedPoint, ...], rounding: Rounding) -> str | None:
    """Return what the last target makes of the exact value itself, unless it is chance."""
    if len(targets) == 1 or rounding is Rounding.STOCHASTIC:
        return None
    return _hop(start, targets[-1], rounding, count())[1].value
