"""Spacing and rounding of one number in rational arithmetic: slow, and short enough to be checked by eye.

Operations on two or three numbers in rational arithmetic, rounded once: slow, and short enough to be checked by eye.

Infinities, NaN and signed zeros follow IEEE 754-2019, sections 6 and 7: a sum that is exactly zero is +0, but -0 where
the rounding is down, unless both terms are zeros of one sign.

Sums of products by a unit, term after term in rational arithmetic: what the fast forms must give, bit for bit.

precreg/arithmetic/unit.py says what an order means. Stochastic rounding draws by seed and index (`exact_random_bits`):
element number i of the output, flat in C order, has the indices i * K + k of its K additions, and its merges of runs,
lanes or levels go on from k = K. Products draw by seed + 1 and the index of their addition; conversions draw by
seed + 2 (of the first operand), + 3 (of the second) and + 4 (of the result), each by the element's own flat index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import copysign, inf, isfinite, isinf, isnan, isqrt, nan

from precreg.arithmetic.formats import Format, Rounding, overflow_results
from precreg.arithmetic.unit import Order, Unit


def exact_ulp(value: Fraction, format: Format) -> Fraction:
    """Return the spacing of `format` in the binade of |value|, as `precreg.arithmetic.rounding.ulp` does."""
    binade = min(max(_binade(value), format.min_exponent), format.max_exponent) if value else format.min_exponent
    return Fraction(2) ** (binade - format.precision + 1)


def exact_round(
    value: float | Fraction, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return `value` rounded to a number of `format`, as `precreg.arithmetic.rounding.round_to` does for arrays.

    `draw` are the 24 random bits of stochastic rounding.
    """
    if not isinstance(value, Fraction):
        if isnan(value):
            return value
        if isinf(value):
            return copysign(format.overflow, value)
    exact = Fraction(value)
    quantum = Fraction(2) ** ((max(_binade(exact), format.min_exponent) if exact else 0) - format.precision + 1)
    magnitude = round_to_integer(exact / quantum, rounding, draw) * quantum
    sign = -1.0 if exact < 0 else copysign(1.0, 0.0 if isinstance(value, Fraction) else value)
    if magnitude > format.largest:
        return copysign(overflow_results(format, rounding)[exact > 0], sign)
    if not format.subnormals and magnitude < format.smallest_normal:
        magnitude = Fraction(0)
    return copysign(float(magnitude), sign) if magnitude or format.negative_zero else 0.0


def round_to_integer(quotient: Fraction, rounding: Rounding, draw: int = 0) -> int:
    """Return the magnitude of what a number is rounded to among the integers; its sign matters to up and down."""
    low, rest = divmod(abs(quotient.numerator), quotient.denominator)
    inexact, over_half = rest > 0, 2 * rest - quotient.denominator
    upward = {
        Rounding.NEAREST_EVEN: over_half > 0 or (over_half == 0 and low % 2 == 1),
        Rounding.NEAREST_AWAY: over_half >= 0,
        Rounding.TOWARD_ZERO: False,
        Rounding.UP: inexact and quotient > 0,
        Rounding.DOWN: inexact and quotient < 0,
        Rounding.AWAY: inexact,
        Rounding.ODD: inexact and low % 2 == 0,
        Rounding.STOCHASTIC: (rest << 24) // quotient.denominator > draw,
    }
    return low + upward[rounding]


def exact_random_bits(seed: int, index: int) -> int:
    """Return the 24 random bits of one index, as numpy_form/random_bits.py does: SplitMix64."""
    mixed = (seed + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
    return (mixed ^ mixed >> 31) >> 40


def _binade(value: Fraction) -> int:
    """Return the e of 2**e <= |value| < 2**(e + 1), for a value that is not zero."""
    near = value.numerator.bit_length() - value.denominator.bit_length()
    return near if abs(value) >= Fraction(2) ** near else near - 1


_MORE_BITS = 60
"""How many bits more than a format has are kept of a square root: stochastic rounding looks at 24 of them."""


def exact_add(x: float, y: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0) -> float:
    """Return x + y, rounded to `format`; `draw` are the 24 random bits of stochastic rounding, here and below."""
    return exact_fma(x, 1.0, y, format, rounding, draw)


def exact_subtract(
    x: float, y: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return x - y, rounded to `format`."""
    return exact_fma(x, 1.0, -y, format, rounding, draw)


def exact_multiply(
    x: float, y: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return x * y, rounded to `format`."""
    if not (isfinite(x) and isfinite(y) and x and y):
        return exact_round(x * y, format, rounding, draw)
    return exact_round(Fraction(x) * Fraction(y), format, rounding, draw)


def exact_divide(
    x: float, y: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return x / y, rounded to `format`: an infinity for a finite x that is not zero by zero."""
    if isfinite(x) and isfinite(y) and x and y:
        return exact_round(Fraction(x) / Fraction(y), format, rounding, draw)
    return exact_round(_special_quotient(x, y), format, rounding, draw)


def exact_sqrt(x: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0) -> float:
    """Return the square root of x, rounded to `format`: NaN below zero, and -0 of -0."""
    if not (isfinite(x) and x > 0):
        return exact_round(nan if x < 0 else x, format, rounding, draw)
    return exact_round(_root(Fraction(x), format.precision + _MORE_BITS), format, rounding, draw)


def exact_fma(
    x: float, y: float, z: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return x * y + z, rounded once to `format` (fused multiply-add)."""
    if not (isfinite(x) and isfinite(y)):
        return exact_round(x * y + z, format, rounding, draw)
    if not isfinite(z):
        return exact_round(z, format, rounding, draw)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact:
        return exact_round(exact, format, rounding, draw)
    one_sign = copysign(1.0, x) * copysign(1.0, y) == copysign(1.0, z)
    zero = copysign(0.0, z) if one_sign else -0.0 if rounding is Rounding.DOWN else 0.0
    return exact_round(zero, format, rounding, draw)


def _special_quotient(x: float, y: float) -> float:
    """Return x / y where one of them is a zero, an infinity or NaN."""
    if isnan(x) or isnan(y) or (isinf(x) and isinf(y)) or (x == 0 and y == 0):
        return nan
    magnitude = inf if isinf(x) or y == 0 else 0.0
    return copysign(magnitude, copysign(1.0, x) * copysign(1.0, y))


def _root(square: Fraction, bits: int) -> Fraction:
    """Return the root of a positive number, or, if it has more than `bits` bits, a number between the two nearest.

    No number of `bits` bits lies between that one and the root (a sticky bit), so both are rounded alike.
    """
    shift = bits + max(0, square.denominator.bit_length() - square.numerator.bit_length())
    scaled, rest = divmod(square.numerator << 2 * shift, square.denominator)
    root = isqrt(scaled)
    sticky = rest != 0 or root * root != scaled
    return Fraction(2 * root + sticky, 2 << shift)


MatrixRows = Sequence[Sequence[float]]


def exact_total(terms: Sequence[float], unit: Unit, element: int = 0) -> float:
    """Return the sum of numbers of `unit.input`, in the accumulator's format."""

    def step(partial: float, k: int, draw: int) -> float:
        return exact_add(partial, terms[k], unit.accumulator, unit.rounding, draw)

    return _summed(len(terms), step, unit, element)


def exact_dot(x: Sequence[float], y: Sequence[float], unit: Unit, element: int = 0) -> float:
    """Return the sum of the products of numbers of `unit.input`, in the accumulator's format."""

    def step(partial: float, k: int, draw: int) -> float:
        if unit.product is None:
            return exact_fma(x[k], y[k], partial, unit.accumulator, unit.rounding, draw)
        product_draw = exact_random_bits(unit.seed + 1, element * len(x) + k)
        product = exact_multiply(x[k], y[k], unit.product, unit.rounding, product_draw)
        return exact_add(partial, product, unit.accumulator, unit.rounding, draw)

    return _summed(len(x), step, unit, element)


def exact_matmul(a: MatrixRows, b: MatrixRows, unit: Unit) -> list[list[float]]:
    """Return the product of two matrices, given as rows, with the conversions on the way in and out."""
    inner, columns = len(b), len(b[0])
    left = _converted([number for row in a for number in row], unit, unit.seed + 2)
    right = _converted([number for row in b for number in row], unit, unit.seed + 3)

    def number(i: int, j: int) -> float:
        element = i * columns + j
        return exact_output(
            exact_dot(left[i * inner : (i + 1) * inner], right[j::columns], unit, element), unit, element
        )

    return [[number(i, j) for j in range(columns)] for i in range(len(a))]


def exact_output(total: float, unit: Unit, element: int = 0) -> float:
    """Return a total, a number of the accumulator, in the output's format."""
    return exact_round(total, unit.output, unit.conversion, exact_random_bits(unit.seed + 4, element))


def _converted(numbers: Iterable[float], unit: Unit, seed: int) -> list[float]:
    return [
        exact_round(number, unit.input, unit.conversion, exact_random_bits(seed, index))
        for index, number in enumerate(numbers)
    ]


def _summed(count: int, step: Callable[[float, int, int], float], unit: Unit, element: int) -> float:
    """Add `count` terms, each by `step`, to the partial sums they belong to, and merge those."""
    sums = []
    for terms in _partial_sums(unit, count):
        partial = 0.0
        for k in terms:
            partial = step(partial, k, exact_random_bits(unit.seed, element * count + k))
        sums.append(partial)
    return _merged(sums, unit, (element + 1) * count)


def _partial_sums(unit: Unit, count: int) -> list[range]:
    """Return which terms each partial sum takes, in its order."""
    if unit.order is Order.SEQUENTIAL:
        return [range(count)]
    if unit.order is Order.PAIRWISE:
        return [range(k, k + 1) for k in range(count)]
    if unit.order is Order.BLOCKS:
        return [range(k, min(k + unit.width, count)) for k in range(0, count, unit.width)]
    return [range(lane, count, unit.width) for lane in range(min(unit.width, count))]


def _merged(sums: list[float], unit: Unit, index: int) -> float:
    """Add partial sums: in pairs, level by level, or in their order to a total; merges draw from `index` on."""

    def add(x: float, y: float) -> float:
        nonlocal index
        index += 1
        return exact_add(x, y, unit.accumulator, unit.rounding, exact_random_bits(unit.seed, index - 1))

    if unit.order is Order.PAIRWISE:
        while len(sums) > 1:
            pairs = [add(x, y) for x, y in zip(sums[::2], sums[1::2], strict=False)]
            sums = pairs + sums[len(pairs) * 2 :]
        return sums[0] if sums else 0.0
    if unit.order is Order.SEQUENTIAL:
        return sums[0]
    total = 0.0
    for partial in sums:
        total = add(total, partial)
    return total
