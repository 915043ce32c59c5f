"""Sums of products by a unit, term after term in rational arithmetic: what the fast forms must give, bit for bit.

precreg/arithmetic/unit.py says what an order means. Stochastic rounding draws by seed and index (`exact_random_bits`):
element number i of the output, flat in C order, has the indices i * K + k of its K additions, and its merges of runs,
lanes or levels go on from k = K. Products draw by seed + 1 and the index of their addition; conversions draw by
seed + 2 (of the first operand), + 3 (of the second) and + 4 (of the result), each by the element's own flat index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from precreg.arithmetic.arith_exact_operations import exact_add, exact_fma, exact_multiply
from precreg.arithmetic.arith_exact_rounding import exact_random_bits, exact_round
from precreg.arithmetic.unit import Order, Unit

Rows = Sequence[Sequence[float]]


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


def exact_matmul(a: Rows, b: Rows, unit: Unit) -> list[list[float]]:
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
