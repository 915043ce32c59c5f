"""Matrix products, dot products and totals as a unit computes them: formats and order are those of a `Unit`.

What is given is first rounded to the unit's input format, and what comes out to its output format. Between, terms are
added one by one in the unit's order (arithmetic/unit.py), each addition rounded once: not one bit depends on how
the work is split. precreg/arithmetic/exact.py is the same in rational arithmetic, and says what is drawn.

Sums by a unit, in numpy: a loop over terms, each step of which adds one to every partial sum of many outputs.

What a unit's orders mean, and which random bits its additions draw, stands in precreg/arithmetic/unit.py and
precreg/arithmetic/exact.py. Here partial sums are the first axis: runs, lanes or (pairwise) single terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precreg.arithmetic.formats import FORMATS, Format, Rounding
from precreg.arithmetic.operations import add, carrier_dtype, fma, multiply, operand_slice, tiles, widen_operand
from precreg.arithmetic.rounding import native_backend, round_to
from precreg.arithmetic.rounding_numpy import Start
from precreg.arithmetic.unit import Order, Unit
from precreg.errors import UserError

SUM_CHUNK = 2**15
"""Partial sums added to at a time: few enough that they stay in cache from term to term."""


Array = NDArray[Any]

_Step = Callable[[Array, list[Array], Start], Array]
"""Returns partial sums, with one term added to each: the operands are the terms, or the factors of which they are."""


def matmul_numpy(a: Array, b: Array, unit: Unit) -> Array:
    """Return the sums of products of (..., m, K) and (..., K, n) arrays, in `carrier(unit.accumulator)`.

    The numbers are of `unit.input`, and both arrays have as many axes; those before the last two broadcast.
    """
    left = np.ascontiguousarray(np.moveaxis(a, -1, 0))[..., :, None]
    right = np.ascontiguousarray(np.moveaxis(b, -2, 0))[..., None, :]
    return _summed([left, right], unit, _product_step(unit))


def total_numpy(x: Array, unit: Unit) -> Array:
    """Return the sums over the last axis, of numbers of `unit.input`, in `carrier(unit.accumulator)`."""

    def step(sums: Array, terms: list[Array], start: Start) -> Array:
        return _add(sums, terms[0], unit, start)

    return _summed([np.ascontiguousarray(np.moveaxis(x, -1, 0))], unit, step)


def _product_step(unit: Unit) -> _Step:
    """Choose how products are added: where float32 has them exactly, there is nothing to fuse."""
    if unit.product is None and not _has_exact_products(unit.input):

        def step(sums: Array, factors: list[Array], start: Start) -> Array:
            left, right = factors
            return fma(left, right, sums, unit.accumulator, unit.rounding, seed=unit.seed, start=start)

        return step
    product = FORMATS["float32"] if unit.product is None else unit.product
    rounding = Rounding.NEAREST_EVEN if unit.product is None else unit.rounding

    def step_of_two(sums: Array, factors: list[Array], start: Start) -> Array:
        left, right = factors
        terms = multiply(left, right, product, rounding, seed=unit.seed + 1, start=start)
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
    return add(x, y, unit.accumulator, unit.rounding, seed=unit.seed, start=start)


def _summed(operands: list[Array], unit: Unit, step: _Step) -> Array:
    """Add up operands along their first axis, for a tile of the outputs at a time."""
    count = len(operands[0])
    shape = np.broadcast_shapes(*(operand.shape[1:] for operand in operands))
    sums = np.empty(shape, carrier_dtype(unit.accumulator))
    firsts = np.arange(sums.size, dtype=np.uint64).reshape(shape) * np.uint64(count) if _is_drawn(unit) else None
    for tile in tiles(shape, max(1, SUM_CHUNK // max(1, _partial_sums(unit, count)))):
        parts = [operand[:, *operand_slice(operand.shape[1:], tile)] for operand in operands]
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
    sums = np.zeros((_partial_sums(unit, count), *shape), carrier_dtype(unit.accumulator))
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


def matmul(a: ArrayLike, b: ArrayLike, unit: Unit) -> NDArray[Any]:
    """Return the matrix product of (..., m, K) and (..., K, n) arrays, in `carrier(unit.output)`.

    Batches broadcast and vectors count as a row or a column, as numpy.matmul has it; no terms (K = 0) give +0. Raises
    ValueError where the shapes do not fit, and UserError (bad-value) for a unit without width.
    """
    left, right = np.asarray(a), np.asarray(b)
    if not (left.ndim and right.ndim) or left.shape[-1] != right.shape[max(0, right.ndim - 2)]:
        raise ValueError(f"expected shapes (..., m, K) and (..., K, n) but got {left.shape} and {right.shape}")
    rows = _converted(left, unit, 2).reshape(left.shape if left.ndim > 1 else (1, *left.shape))
    columns = _converted(right, unit, 3).reshape(right.shape if right.ndim > 1 else (*right.shape, 1))
    batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    product = _summed_products(rows, columns, unit)
    shape = (*batch, *rows.shape[-2:-1][: left.ndim > 1], *columns.shape[-1:][: right.ndim > 1])
    return _output(product.reshape(shape), unit)


def dot(a: ArrayLike, b: ArrayLike, unit: Unit) -> NDArray[Any]:
    """Return the sums of products over the last axis of two arrays, whose other axes broadcast.

    Raises ValueError where the shapes do not fit, and UserError (bad-value) for a unit without width.
    """
    left, right = np.asarray(a), np.asarray(b)
    if not (left.ndim and right.ndim) or left.shape[-1] != right.shape[-1]:
        raise ValueError(f"expected shapes (..., K) and (..., K) but got {left.shape} and {right.shape}")
    rows, columns = _converted(left, unit, 2)[..., None, :], _converted(right, unit, 3)[..., :, None]
    return _output(_summed_products(rows, columns, unit)[..., 0, 0], unit)


def total(x: ArrayLike, unit: Unit, axis: int = -1) -> NDArray[Any]:
    """Return the sums over one axis of an array.

    Raises ValueError where there is no such axis, and UserError (bad-value) for a unit without width.
    """
    terms = np.moveaxis(_converted(np.asarray(x), unit, 2), axis, -1)
    native = _native_for(unit)
    sums = total_numpy(terms, unit) if native is None else native.total_native(terms, unit)
    return _output(sums, unit)


def _summed_products(a: NDArray[Any], b: NDArray[Any], unit: Unit) -> NDArray[Any]:
    """Return the product of (..., m, K) and (..., K, n) arrays of numbers of `unit.input`, with as many axes."""
    axes = max(a.ndim, b.ndim)
    a, b = (array.reshape((1,) * (axes - array.ndim) + array.shape) for array in (a, b))
    native = _native_for(unit)
    product: NDArray[Any] = matmul_numpy(a, b, unit) if native is None else native.matmul_native(a, b, unit)
    return product


def _native_for(unit: Unit) -> ModuleType | None:
    """Return the compiled backend if it adds up as a unit does, else None: then the numpy backend serves."""
    native = native_backend()
    return native if native is not None and native.can_sum_native(unit) else None


def _converted(values: NDArray[Any], unit: Unit, stream: int) -> NDArray[Any]:
    if unit.width < 1:
        raise UserError(
            "bad-value", f"expected a unit that adds at least one term at a time but got width={unit.width}"
        )
    return _rounded(widen_operand(values), unit.input, unit, stream)


def _output(sums: NDArray[Any], unit: Unit) -> NDArray[Any]:
    return _rounded(sums, unit.output, unit, 4)


def _rounded(values: NDArray[Any], format: Format, unit: Unit, stream: int) -> NDArray[Any]:
    """Convert to a format, with a stream of draws of its own. float32 may lack the largest number of a wider format."""
    wide = np.float64 if values.dtype == np.float64 else carrier_dtype(format)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        rounded = round_to(values.astype(wide, copy=False), format, unit.conversion, seed=unit.seed + stream)
        return rounded.astype(carrier_dtype(format), copy=False)
