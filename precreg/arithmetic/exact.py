"""Which ULP, rounding, result and sum are exact, in rational arithmetic on single numbers?

These functions are slow, and short enough to verify by reading. The tests compare all array functions with them.

Infinities, NaN and signed zeros follow IEEE 754-2019, sections 6 and 7. A sum that is exactly zero is +0, or -0 if the
rounding is down. If both terms are zeros of one sign, it keeps that sign.

Stochastic rounding draws by seed and index (`exact_random_bits`). For output element i, flat in C order, with K terms:

- addition k draws by `seed` and index i * K + k; merges of runs, lanes or levels continue from k = K;
- its product draws by `seed + 1` and the same index;
- conversions draw by `seed + 2` (first operand), `+ 3` (second operand) and `+ 4` (result), and the element's index.
  Part p of a split operand of N elements draws by N * p more.
- run r of a unit with a total draws by `run_seed(seed, r)` and the indices of a sum of its own length. Of R runs, the
  addition of run r to the total draws by `seed` and index i * R + r.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import copysign, inf, isfinite, isinf, isnan, isqrt, nan

from msgspec.structs import replace

from precreg.arithmetic.formats import FORMATS, Format, Rounding, overflow_results
from precreg.arithmetic.unit import Order, Unit

MatrixRows = Sequence[Sequence[float]]

# The bits of a square root beyond the precision of the format. Stochastic rounding compares 24 of them.
_EXTRA_ROOT_BITS = 60


def exact_ulp(value: Fraction, format: Format) -> Fraction:
    """Return the spacing of `format` in the binade of |value|, as `precreg.arithmetic.rounding.ulp` does."""
    binade = min(max(_binade(value), format.min_exponent), format.max_exponent) if value else format.min_exponent
    return Fraction(2) ** (binade - format.precision_at(binade) + 1)


def exact_round(
    value: float | Fraction, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return `value` rounded to a number of `format`, as `precreg.arithmetic.rounding.round_to` does.

    `draw` has the 24 random bits of stochastic rounding.
    """
    if not isinstance(value, Fraction):
        if isnan(value):
            return value
        if isinf(value):
            return copysign(format.overflow, value)
    exact = Fraction(value)
    # Below the normal numbers the spacing stays at the smallest subnormal.
    binade = max(_binade(exact), format.min_exponent) if exact else 0
    quantum = Fraction(2) ** (binade - format.precision_at(binade) + 1)
    magnitude = round_to_integer(exact / quantum, rounding, draw) * quantum
    # A Fraction has no -0, so the sign of a float zero comes from the float.
    sign = -1.0 if exact < 0 else copysign(1.0, 0.0 if isinstance(value, Fraction) else value)
    if magnitude > format.largest:
        return copysign(overflow_results(format, rounding)[exact > 0], sign)
    if not format.subnormals and magnitude < format.smallest_normal:
        magnitude = Fraction(0)
    return copysign(float(magnitude), sign) if magnitude or format.negative_zero else 0.0


def round_to_integer(quotient: Fraction, rounding: Rounding, draw: int = 0) -> int:
    """Return the magnitude of a number rounded to an integer. Rounding up and down depend on the sign of the number."""
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
    """Return the 24 random bits of one index, by SplitMix64, as rounding_numpy.random_bits does for arrays."""
    mixed = (seed + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
    return (mixed ^ mixed >> 31) >> 40


def run_seed(seed: int, run: int) -> int:
    """Return the seed of a run of terms. Runs within runs get seeds of their own, too."""
    # The multiplier of a generator of 64 bits (Steele and Vigna, Computationally easy, spectrally good multipliers for
    # congruential pseudorandom number generators, 2022); without it, run 1 of run 0 would draw as run 0 of run 1.
    return (seed * 0xD1342543DE82EF95 + run + 1) % 2**64


def unit_of_run(unit: Unit, run: int) -> Unit:
    """Return the unit that adds the products of one run: elements alone, without scales, with the inner total."""
    inner = None if unit.promotion is None else unit.promotion.inner
    return replace(unit, blocks=None, column_blocks=None, promotion=inner, seed=run_seed(unit.seed, run))


def _binade(value: Fraction) -> int:
    """Return e with 2**e <= |value| < 2**(e + 1), for a value other than zero."""
    # The bit lengths give e or e + 1, since numerator and denominator each lie within their own power of two.
    near = value.numerator.bit_length() - value.denominator.bit_length()
    return near if abs(value) >= Fraction(2) ** near else near - 1


def exact_add(x: float, y: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0) -> float:
    """Return x + y, rounded to `format`. `draw` has the random bits of stochastic rounding, here and below."""
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
    # Python's own product is exact for zeros, infinities and NaN, and has the sign that IEEE 754 requires.
    if not (isfinite(x) and isfinite(y) and x and y):
        return exact_round(x * y, format, rounding, draw)
    return exact_round(Fraction(x) * Fraction(y), format, rounding, draw)


def exact_divide(
    x: float, y: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return x / y, rounded to `format`. A finite x other than zero, divided by zero, gives an infinity."""
    if isfinite(x) and isfinite(y) and x and y:
        return exact_round(Fraction(x) / Fraction(y), format, rounding, draw)
    # Python raises ZeroDivisionError for x / 0.0, so the cases of IEEE 754 are written out.
    if isnan(x) or isnan(y) or (isinf(x) and isinf(y)) or (x == 0 and y == 0):
        return exact_round(nan, format, rounding, draw)
    magnitude = inf if isinf(x) or y == 0 else 0.0
    quotient = copysign(magnitude, copysign(1.0, x) * copysign(1.0, y))
    return exact_round(quotient, format, rounding, draw)


def exact_sqrt(x: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0) -> float:
    """Return the square root of x, rounded to `format`: NaN below zero, and -0 for -0."""
    if not (isfinite(x) and x > 0):
        return exact_round(nan if x < 0 else x, format, rounding, draw)
    return exact_round(_root(Fraction(x), format.precision + _EXTRA_ROOT_BITS), format, rounding, draw)


def exact_fma(
    x: float, y: float, z: float, format: Format, rounding: Rounding = Rounding.NEAREST_EVEN, draw: int = 0
) -> float:
    """Return x * y + z, rounded once to `format` (fused multiply-add)."""
    if not (isfinite(x) and isfinite(y)):
        return exact_round(x * y + z, format, rounding, draw)
    # x * y may overflow in float64 although it is finite, and an infinity of the other sign would then give NaN.
    if not isfinite(z):
        return exact_round(z, format, rounding, draw)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact:
        return exact_round(exact, format, rounding, draw)
    has_one_sign = copysign(1.0, x) * copysign(1.0, y) == copysign(1.0, z)
    zero = copysign(0.0, z) if has_one_sign else -0.0 if rounding is Rounding.DOWN else 0.0
    return exact_round(zero, format, rounding, draw)


def _root(square: Fraction, bits: int) -> Fraction:
    """Return the root of a positive number if it has at most `bits` bits, else a number that rounds in the same way.

    The second number lies between the same two neighbours of `bits` bits as the root.
    """
    shift = bits + max(0, square.denominator.bit_length() - square.numerator.bit_length())
    scaled, rest = divmod(square.numerator << 2 * shift, square.denominator)
    root = isqrt(scaled)
    # A sticky bit, as in hardware: one more bit, set if anything was cut off.
    sticky = rest != 0 or root * root != scaled
    return Fraction(2 * root + sticky, 2 << shift)


def exact_total(terms: Sequence[float], unit: Unit, element: int = 0) -> float:
    """Return the sum of numbers of `unit.input`, in the accumulator's format."""

    def step(partial: float, k: int, draw: int) -> float:
        return exact_add(partial, terms[k], unit.accumulator, unit.rounding, draw)

    return _sum_terms(len(terms), step, unit, element)


def exact_dot(x: Sequence[float], y: Sequence[float], unit: Unit, element: int = 0) -> float:
    """Return the sum of the products of numbers of `unit.input`, in the accumulator's format."""

    def step(partial: float, k: int, draw: int) -> float:
        if unit.product is None:
            return exact_fma(x[k], y[k], partial, unit.accumulator, unit.rounding, draw)
        product_draw = exact_random_bits(unit.seed + 1, element * len(x) + k)
        product = exact_multiply(x[k], y[k], unit.product, unit.rounding, product_draw)
        return exact_add(partial, product, unit.accumulator, unit.rounding, draw)

    return _sum_terms(len(x), step, unit, element)


def exact_matmul(a: MatrixRows, b: MatrixRows, unit: Unit) -> list[list[float]]:
    """Return the product of two matrices, given as rows, with the unit's conversions of operands and result."""
    inner, columns = len(b), len(b[0])
    left = exact_read([number for row in a for number in row], unit, unit.seed + 2)
    right = exact_read([number for row in b for number in row], unit, unit.seed + 3)

    def number(i: int, j: int) -> float:
        element = i * columns + j
        terms = [
            (first[i * inner : (i + 1) * inner], second[j::columns]) for first, second in _pairs(left, right, unit)
        ]
        x, y = (_in_order_of_addition(side, unit, inner) for side in zip(*terms, strict=True))
        return exact_output(exact_promoted_dot(x, y, unit, element), unit, element)

    return [[number(i, j) for j in range(columns)] for i in range(len(a))]


def exact_promoted_dot(
    x: Sequence[float], y: Sequence[float], unit: Unit, element: int = 0, factors: Sequence[float] | None = None
) -> float:
    """Return the sum of products in the format of the unit's total, or of its accumulator without one.

    `factors` has the product of the scales of each run; the default is 1.
    """
    if unit.promotion is None:
        return exact_dot(x, y, unit, element)
    length, format = unit.promotion.run_of(len(x)), unit.promotion.format
    starts = range(0, len(x), length)
    total = 0.0
    for run, start in enumerate(starts):
        of_run = unit_of_run(unit, run)
        partial = exact_promoted_dot(x[start : start + length], y[start : start + length], of_run, element)
        if factors is not None and unit.sum_format.precision > FORMATS["float32"].precision:
            partial = exact_round(partial, format)
        draw = exact_random_bits(unit.seed, element * len(starts) + run)
        factor = 1.0 if factors is None else factors[run]
        total = exact_fma(partial, factor, total, format, unit.promotion.rounding, draw)
    return total


def exact_split(x: float, format: Format, parts: int, rounding: Rounding, draws: Sequence[int]) -> list[float]:
    """Return the parts of a number: x, rounded to float32, in `format`; then the rest of it in `format`; and so on."""
    rest, found = exact_round(x, FORMATS["float32"]), []
    for part in range(parts):
        found.append(exact_round(rest, format, rounding, draws[part]))
        rest = exact_subtract(rest, found[-1], FORMATS["float32"])
    return found


def exact_read(numbers: Sequence[float], unit: Unit, seed: int) -> list[list[float]]:
    """Return the parts of numbers as the unit reads them: a list for each part, and one list without a split."""
    if unit.split is None:
        return [_convert(numbers, unit, seed)]
    parts, count = unit.split.parts, len(numbers)
    split = [
        exact_split(
            number,
            unit.input,
            parts,
            unit.conversion,
            [exact_random_bits(seed, part * count + index) for part in range(parts)],
        )
        for index, number in enumerate(numbers)
    ]
    return [[found[part] for found in split] for part in range(parts)]


def _pairs(left: list[list[float]], right: list[list[float]], unit: Unit) -> list[tuple[list[float], list[float]]]:
    products = ((0, 0),) if unit.split is None else unit.split.products
    return [(left[i], right[j]) for i, j in products]


def _in_order_of_addition(parts: Sequence[Sequence[float]], unit: Unit, count: int) -> list[float]:
    """Return the factors of all products in one list: run after run of terms, and in each run product after product."""
    run = max(1, count if unit.split is None else unit.split.run or count)
    return [factor for start in range(0, count, run) for part in parts for factor in part[start : start + run]]


def exact_output(total: float, unit: Unit, element: int = 0) -> float:
    """Return a total, a number of the accumulator, rounded to the output's format."""
    return exact_round(total, unit.output, unit.conversion, exact_random_bits(unit.seed + 4, element))


def _convert(numbers: Iterable[float], unit: Unit, seed: int) -> list[float]:
    return [
        exact_round(number, unit.input, unit.conversion, exact_random_bits(seed, index))
        for index, number in enumerate(numbers)
    ]


def _sum_terms(count: int, step: Callable[[float, int, int], float], unit: Unit, element: int) -> float:
    """Add `count` terms by `step` to their partial sums, and return the total of these."""
    sums = []
    for terms in _terms_of_partial_sums(unit, count):
        partial = 0.0
        for k in terms:
            partial = step(partial, k, exact_random_bits(unit.seed, element * count + k))
        sums.append(partial)
    return _merge(sums, unit, (element + 1) * count)


def _terms_of_partial_sums(unit: Unit, count: int) -> list[range]:
    """Return the terms of each partial sum, in the order of addition."""
    if unit.order is Order.SEQUENTIAL:
        return [range(count)]
    if unit.order is Order.PAIRWISE:
        return [range(k, k + 1) for k in range(count)]
    if unit.order is Order.BLOCKS:
        return [range(k, min(k + unit.width, count)) for k in range(0, count, unit.width)]
    return [range(lane, count, unit.width) for lane in range(min(unit.width, count))]


def _merge(sums: list[float], unit: Unit, index: int) -> float:
    """Return the total of partial sums: in pairs, level by level, or sequentially. Merges draw from `index` on."""

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
