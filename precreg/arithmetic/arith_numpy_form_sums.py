"""Sums by a unit, in numpy: a loop over terms, each step of which adds one to every partial sum of many outputs.

What a unit's orders mean, and which random bits its additions draw, stands in precreg/arithmetic/unit.py and
precreg/arithmetic/arith_exact_sums.py. Here partial sums are the first axis: runs, lanes or (pairwise) single terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import arith_operations as operations
from precreg.arithmetic.arith_operations import carrier, part, tiles
from precreg.arithmetic.formats import FORMATS, Format
from precreg.arithmetic.random_bits import Start
from precreg.arithmetic.roundings import Rounding
from precreg.arithmetic.unit import Order, Unit

CHUNK = 2**15
"""Partial sums added to at a time: few enough that they stay in cache from term to term."""


Array = NDArray[Any]

_Step = Callable[[Array, list[Array], Start], Array]
"""Returns partial sums, with one term added to each: the operands are the terms, or the factors of which they are."""


def matmul(a: Array, b: Array, unit: Unit) -> Array:
    """Return the sums of products of (..., m, K) and (..., K, n) arrays, in `carrier(unit.accumulator)`.

    The numbers are of `unit.input`, and both arrays have as many axes; those before the last two broadcast.
    """
    left = np.ascontiguousarray(np.moveaxis(a, -1, 0))[..., :, None]
    right = np.ascontiguousarray(np.moveaxis(b, -2, 0))[..., None, :]
    return _summed([left, right], unit, _product_step(unit))


def total(x: Array, unit: Unit) -> Array:
    """Return the sums over the last axis, of numbers of `unit.input`, in `carrier(unit.accumulator)`."""

    def step(sums: Array, terms: list[Array], start: Start) -> Array:
        return _add(sums, terms[0], unit, start)

    return _summed([np.ascontiguousarray(np.moveaxis(x, -1, 0))], unit, step)


def _product_step(unit: Unit) -> _Step:
    """Choose how products are added: where float32 has them exactly, there is nothing to fuse."""
    if unit.product is None and not _has_exact_products(unit.input):

        def step(sums: Array, factors: list[Array], start: Start) -> Array:
            left, right = factors
            return operations.fma(left, right, sums, unit.accumulator, unit.rounding, seed=unit.seed, start=start)

        return step
    product = FORMATS["float32"] if unit.product is None else unit.product
    rounding = Rounding.NEAREST_EVEN if unit.product is None else unit.rounding

    def step_of_two(sums: Array, factors: list[Array], start: Start) -> Array:
        left, right = factors
        terms = operations.multiply(left, right, product, rounding, seed=unit.seed + 1, start=start)
        return _add(sums, terms, unit, start)

    return step_of_two


@cache
def _has_exact_products(format: Format) -> bool:
    """Say whether every product of two numbers of a format is a number of float32."""
    wide = FORMATS["float32"]
    lowest = 2 * (format.min_exponent - format.precision + 1)
    fits = lowest >= wide.min_exponent - wide.precision + 1 and format.largest <= wide.largest**0.5
    return 2 * format.precision <= wide.precision and fits


def _add(x: Array, y: Array, unit: Unit, start: Start) -> Array:
    return operations.add(x, y, unit.accumulator, unit.rounding, seed=unit.seed, start=start)


def _summed(operands: list[Array], unit: Unit, step: _Step) -> Array:
    """Add up operands along their first axis, for a tile of the outputs at a time."""
    count = len(operands[0])
    shape = np.broadcast_shapes(*(operand.shape[1:] for operand in operands))
    sums = np.empty(shape, carrier(unit.accumulator))
    firsts = np.arange(sums.size, dtype=np.uint64).reshape(shape) * np.uint64(count) if _is_drawn(unit) else None
    for tile in tiles(shape, max(1, CHUNK // max(1, _partial_sums(unit, count)))):
        parts = [operand[:, *part(operand.shape[1:], tile)] for operand in operands]
        draws = _Draws(None if firsts is None else firsts[tile])
        sums[tile] = _merged(_added(parts, sums[tile].shape, unit, step, draws), unit, count, draws)
    return sums


def _is_drawn(unit: Unit) -> bool:
    return unit.rounding is Rounding.STOCHASTIC


class _Draws(NamedTuple):
    """The indices by which additions draw: each output's first, or None where the rounding draws nothing."""

    firsts: NDArray[np.uint64] | None

    def of(self, additions: range) -> Start:
        """Return the index of each of some additions, for every output."""
        if self.firsts is None:
            return 0
        numbers = np.asarray(additions, np.uint64).reshape(-1, *[1] * self.firsts.ndim)
        return self.firsts + numbers


def _partial_sums(unit: Unit, count: int) -> int:
    """Return how many partial sums there are, of `count` terms."""
    if unit.order is Order.SEQUENTIAL:
        return 1
    if unit.order is Order.PAIRWISE:
        return count
    return min(unit.width, count) if unit.order is Order.LANES else -(-count // unit.width)


def _steps(unit: Unit, count: int) -> Iterator[range]:
    """Yield which terms are added at a time: one to each partial sum, but for the last ones that have no more."""
    if unit.order is Order.SEQUENTIAL:
        return (range(k, k + 1) for k in range(count))
    if unit.order is Order.PAIRWISE:
        return iter([range(count)])
    if unit.order is Order.LANES:
        return (range(k, min(k + unit.width, count)) for k in range(0, count, unit.width))
    return (range(k, count, unit.width) for k in range(min(unit.width, count)))


def _added(operands: list[Array], shape: tuple[int, ...], unit: Unit, step: _Step, draws: _Draws) -> Array:
    """Return the partial sums of all terms, by their first axis."""
    count = len(operands[0])
    sums = np.zeros((_partial_sums(unit, count), *shape), carrier(unit.accumulator))
    for terms in _steps(unit, count):
        here = slice(terms.start, terms.stop, terms.step)
        active = sums[: len(terms)]
        active[...] = step(active, [operand[here] for operand in operands], draws.of(terms))
    return sums


def _merged(sums: Array, unit: Unit, count: int, draws: _Draws) -> Array:
    """Return the total of partial sums: added in their order, or in pairs, level by level."""
    if unit.order is Order.PAIRWISE:
        return _merged_in_pairs(sums, unit, count, draws)
    if unit.order is Order.SEQUENTIAL:
        return np.asarray(sums[0])
    merged = np.zeros((1, *sums.shape[1:]), sums.dtype)
    for index, partial in enumerate(sums[:, None], count):
        merged = _add(merged, partial, unit, draws.of(range(index, index + 1)))
    return np.asarray(merged[0])


def _merged_in_pairs(sums: Array, unit: Unit, count: int, draws: _Draws) -> Array:
    if not len(sums):
        return np.zeros(sums.shape[1:], sums.dtype)
    while len(sums) > 1:
        pairs = len(sums) // 2
        additions = range(count, count + pairs)
        merged = _add(sums[: 2 * pairs : 2], sums[1 : 2 * pairs : 2], unit, draws.of(additions))
        sums = np.concatenate([merged, sums[2 * pairs :]])
        count += pairs
    return np.asarray(sums[0])
