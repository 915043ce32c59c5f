"""Which sums, dot products and matrix products does a unit compute, in its formats and its order?

A unit rounds operands to its input format and results to its output format. Between, it adds term after term in the
order of the unit (unit.py), and rounds each addition once. So no bit depends on chunks or threads. exact.py computes
the same in rational arithmetic, and lists the indices by which stochastic rounding draws.

The numpy backend loops over terms: each step adds one term to every partial sum of many outputs. The first axis of
`sums` counts partial sums: runs, lanes or, for pairwise order, single terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import prod
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precreg.arithmetic.block_operand import BlockOperand
from precreg.arithmetic.block_scaling import ScaledBlocks, block_factors, scale_blocks
from precreg.arithmetic.exact import unit_of_run
from precreg.arithmetic.formats import FORMATS, Format, Rounding
from precreg.arithmetic.operations import add, carrier_dtype, fma, multiply, operand_slice, tiles, widen_operand
from precreg.arithmetic.rounding import native_backend, round_to
from precreg.arithmetic.rounding_numpy import Start
from precreg.arithmetic.split_operands import order_parts, split_values
from precreg.arithmetic.unit import Order, Unit
from precreg.errors import UserError
from precreg.storage import Array

# Partial sums that a step updates. 256 KiB of float64 stay in the L2 cache from term to term.
SUM_CHUNK = 2**15

# Conversions draw with seeds of their own. Otherwise they would share random bits with additions (seed) and products
# (seed + 1) of the same index. exact.py adds the same numbers.
_FIRST_OPERAND, _SECOND_OPERAND, _RESULT = 2, 3, 4

# Adds one term to each partial sum. The operands are the terms themselves, or the two factors of every term.
_Step = Callable[[Array, list[Array], Start], Array]


def matmul(a: ArrayLike, b: ArrayLike, unit: Unit) -> Array:
    """Return the matrix product of (..., m, K) and (..., K, n) arrays, in `carrier_dtype(unit.output)`.

    Batches broadcast, and vectors act as a row or a column, as in numpy.matmul. K = 0 gives +0.
    Raises ValueError if the shapes do not match, and UserError (bad-value) for a unit of width 0.
    """
    left, right = np.asarray(a), np.asarray(b)
    if not (left.ndim and right.ndim) or left.shape[-1] != right.shape[max(0, right.ndim - 2)]:
        raise ValueError(f"expected shapes (..., m, K) and (..., K, n) but got {left.shape} and {right.shape}")
    rows = left.reshape(left.shape if left.ndim > 1 else (1, *left.shape))
    columns = right.reshape(right.shape if right.ndim > 1 else (*right.shape, 1))
    batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    product = _multiply(rows, columns, unit)
    # A vector's axis of length 1 goes again.
    shape = (*batch, *rows.shape[-2:-1][: left.ndim > 1], *columns.shape[-1:][: right.ndim > 1])
    return _round_result(product.reshape(shape), unit)


def dot(a: ArrayLike, b: ArrayLike, unit: Unit) -> Array:
    """Return the sums of products over the last axis of two arrays; the other axes broadcast.

    Raises ValueError if the shapes do not match, and UserError (bad-value) for a unit of width 0.
    """
    left, right = np.asarray(a), np.asarray(b)
    if not (left.ndim and right.ndim) or left.shape[-1] != right.shape[-1]:
        raise ValueError(f"expected shapes (..., K) and (..., K) but got {left.shape} and {right.shape}")
    return _round_result(_multiply(left[..., None, :], right[..., :, None], unit)[..., 0, 0], unit)


def total(x: ArrayLike, unit: Unit, axis: int = -1) -> Array:
    """Return the sums over one axis of an array.

    Raises ValueError for an axis out of range, and UserError (bad-value) for a unit of width 0, or of
    products alone.
    """
    _check_width(unit)
    if unit.split or unit.promotion or unit.blocks:
        raise UserError(
            "bad-value",
            "expected a unit of sums but got one with a split, a promotion or blocks, which only products have",
            hint="add with a unit of its own: Unit(format, accumulator, format)",
        )
    terms = np.moveaxis(_read_operand(np.asarray(x), unit, _FIRST_OPERAND), axis, -1)
    native = _native_backend_for(unit)
    sums = total_numpy(terms, unit) if native is None else native.total_native(terms, unit)
    return _round_result(sums, unit)


def _multiply(a: Array, b: Array, unit: Unit) -> Array:
    """Return the product of (..., m, K) and (..., K, n) operands, before its conversion to `unit.output`."""
    _check_width(unit)
    if unit.blocks is not None:
        return _multiply_blocks(a, b, unit)
    if unit.column_blocks is not None:
        b = _read_values(b, unit.column_blocks, unit)
    if unit.split is None:
        rows, columns = _read_operand(a, unit, _FIRST_OPERAND), _read_operand(b, unit, _SECOND_OPERAND)
    else:
        split, conversion = unit.split, (unit.input, unit.split.parts, unit.conversion)
        chosen = [list(side) for side in zip(*split.products, strict=True)]
        parts = split_values(widen_operand(a), *conversion, unit.seed + _FIRST_OPERAND)
        rows = order_parts(parts, chosen[0], split, -1)
        parts = split_values(widen_operand(b), *conversion, unit.seed + _SECOND_OPERAND)
        columns = order_parts(parts, chosen[1], split, -2)
    return _sum_products(rows, columns, unit) if unit.promotion is None else _promote(rows, columns, unit)


def _read_values(b: Array, operand: BlockOperand, unit: Unit) -> Array:
    """Return the numbers that the blocks along the columns of `b` have: each element times its scale."""
    columns = _scale_columns(b, operand, unit)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.swapaxes(columns.values(operand.run_of(b.shape[-2])), -1, -2)


def _scale_columns(b: Array, operand: BlockOperand, unit: Unit) -> ScaledBlocks:
    """Return the blocks along the columns of `b`, with the terms as the last axis."""
    return scale_blocks(np.swapaxes(widen_operand(b), -1, -2), operand, unit.conversion, unit.seed + _SECOND_OPERAND)


def _multiply_blocks(a: Array, b: Array, unit: Unit) -> Array:
    """Return the product of operands in blocks; the blocks of `b` are along its columns."""
    operand, promotion = unit.blocks, unit.promotion
    assert operand is not None
    assert promotion is not None
    other = unit.column_blocks or operand
    terms, run = a.shape[-1], promotion.run_of(a.shape[-1])
    rows = scale_blocks(widen_operand(a), operand, unit.conversion, unit.seed + _FIRST_OPERAND)
    columns = _scale_columns(b, other, unit)
    scales = _of_runs(rows.scales, operand, terms, run), _of_runs(columns.scales, other, terms, run)
    total = _promote(rows.elements, np.swapaxes(columns.elements, -1, -2), unit, scales)
    if not operand.has_tensor_scale:
        return total
    of_tensors = multiply(np.float32(rows.tensor), np.float32(columns.tensor), FORMATS["float32"])
    return multiply(total, of_tensors, promotion.format, promotion.rounding, seed=unit.seed + 1)


def _of_runs(scales: Array, operand: BlockOperand, terms: int, run: int) -> Array:
    """Return the scale of each run of terms: blocks of the other operand may be shorter."""
    found: Array = np.repeat(scales, -(-operand.run_of(terms) // run), axis=-1)[..., : -(-terms // run)]
    return found


def _promote(a: Array, b: Array, unit: Unit, scales: tuple[Array, Array] | None = None) -> Array:
    """Return the product as `_sum_products` does, with a total to which the sum of each run of terms goes.

    `scales` has the scales (..., m, runs) and (..., n, runs) by which each sum is multiplied first.
    """
    assert unit.promotion is not None
    format, rounding = unit.promotion.format, unit.promotion.rounding
    length = unit.promotion.run_of(a.shape[-1])
    starts = range(0, a.shape[-1], length)
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    total = np.zeros(shape, carrier_dtype(format))
    firsts = _Draws.for_outputs(shape, len(starts), rounding).firsts
    for run, start in enumerate(starts):
        of_run = unit_of_run(unit, run)
        left, right = a[..., start : start + length], b[..., start : start + length, :]
        partial = _sum_products(left, right, of_run) if of_run.promotion is None else _promote(left, right, of_run)
        if scales is not None:
            # float64 has the product of a sum and a factor, each of 24 bits at most; see Unit and Promotion.
            if unit.sum_format.precision > FORMATS["float32"].precision:
                partial = round_to(partial, format)
            partial = partial * block_factors(scales[0][..., run], scales[1][..., run], format)
        draws = 0 if firsts is None else firsts + np.uint64(run)
        total = add(total, partial, format, rounding, seed=unit.seed, start=draws)
    return total


def _sum_products(a: Array, b: Array, unit: Unit) -> Array:
    """Return the product of (..., m, K) and (..., K, n) arrays, whose elements are numbers of `unit.input`."""
    # Both backends expect the same number of axes, so the shorter shape gets leading axes of length 1.
    axes = max(a.ndim, b.ndim)
    a, b = (array.reshape((1,) * (axes - array.ndim) + array.shape) for array in (a, b))
    native = _native_backend_for(unit)
    product: Array = matmul_numpy(a, b, unit) if native is None else native.matmul_native(a, b, unit)
    return product


def _native_backend_for(unit: Unit) -> ModuleType | None:
    """Return the compiled backend if it is in use and can sum in the way of this unit, else None."""
    native = native_backend()
    return native if native is not None and native.can_sum_native(unit) else None


def _check_width(unit: Unit) -> None:
    if unit.width < 1:
        raise UserError(
            "bad-value",
            f"expected a unit that adds at least one term at a time but got width={unit.width}",
            hint="write a width of 1 or more: width: 16",
        )


def _read_operand(values: Array, unit: Unit, seed_offset: int) -> Array:
    return _convert(widen_operand(values), unit.input, unit, seed_offset)


def _round_result(sums: Array, unit: Unit) -> Array:
    return _convert(sums, unit.output, unit, _RESULT)


def _convert(values: Array, format: Format, unit: Unit, seed_offset: int) -> Array:
    # float32 may lack the largest number of a wider format, so float64 values are rounded before they are narrowed.
    wide = np.float64 if values.dtype == np.float64 else carrier_dtype(format)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        rounded = round_to(values.astype(wide, copy=False), format, unit.conversion, seed=unit.seed + seed_offset)
        return rounded.astype(carrier_dtype(format), copy=False)


def matmul_numpy(a: Array, b: Array, unit: Unit) -> Array:
    """Return the products of (..., m, K) and (..., K, n) arrays, in `carrier_dtype(unit.accumulator)`.

    The elements are numbers of `unit.input`, and both arrays have the same number of axes. Batches broadcast.
    """
    # With K as first axis in memory, each step reads one contiguous slice of every operand.
    left = np.ascontiguousarray(np.moveaxis(a, -1, 0))[..., :, None]
    right = np.ascontiguousarray(np.moveaxis(b, -2, 0))[..., None, :]
    return _sum_first_axis([left, right], unit, _make_product_step(unit))


def total_numpy(x: Array, unit: Unit) -> Array:
    """Return the sums over the last axis of numbers of `unit.input`, in `carrier_dtype(unit.accumulator)`."""

    def step(sums: Array, terms: list[Array], start: Start) -> Array:
        return _add(sums, terms[0], unit, start)

    return _sum_first_axis([np.ascontiguousarray(np.moveaxis(x, -1, 0))], unit, step)


def _make_product_step(unit: Unit) -> _Step:
    """Return the step that adds a product: by fma, or by a multiplication and an addition."""
    if unit.product is None and not _has_exact_products(unit.input):

        def fused_step(sums: Array, factors: list[Array], start: Start) -> Array:
            left, right = factors
            return fma(left, right, sums, unit.accumulator, unit.rounding, seed=unit.seed, start=start)

        return fused_step
    # A fused unit whose products are float32 numbers rounds nothing by multiplying in float32, and fma is slower.
    product = FORMATS["float32"] if unit.product is None else unit.product
    rounding = Rounding.NEAREST_EVEN if unit.product is None else unit.rounding

    def separate_step(sums: Array, factors: list[Array], start: Start) -> Array:
        left, right = factors
        terms = multiply(left, right, product, rounding, seed=unit.seed + 1, start=start)
        return _add(sums, terms, unit, start)

    return separate_step


@cache
def _has_exact_products(format: Format) -> bool:
    """Return whether every product of two numbers of a format is a float32."""
    # Significands multiply to twice the bits, smallest subnormals to twice the exponent, largest numbers to a square.
    wide = FORMATS["float32"]
    lowest = 2 * (format.min_exponent - format.precision + 1)
    fits = lowest >= wide.min_exponent - wide.precision + 1 and format.largest <= wide.largest**0.5
    return 2 * format.precision <= wide.precision and fits


def _add(x: Array, y: Array, unit: Unit, start: Start) -> Array:
    return add(x, y, unit.accumulator, unit.rounding, seed=unit.seed, start=start)


class _Draws(NamedTuple):
    """Hold the first index by which each output draws, or None if the rounding is not stochastic."""

    firsts: NDArray[np.uint64] | None

    @classmethod
    def for_outputs(cls, shape: tuple[int, ...], count: int, rounding: Rounding) -> _Draws:
        """Return the draws of outputs that `count` additions make, in C order."""
        if rounding is not Rounding.STOCHASTIC:
            return cls(None)
        return cls(np.arange(prod(shape), dtype=np.uint64).reshape(shape) * np.uint64(count))

    def of(self, additions: range) -> Start:
        """Return the indices of some additions, (additions, ...outputs)."""
        if self.firsts is None:
            return 0
        numbers = np.asarray(additions, np.uint64).reshape(-1, *[1] * self.firsts.ndim)
        return self.firsts + numbers


def _sum_first_axis(operands: list[Array], unit: Unit, step: _Step) -> Array:
    """Sum over the first axis of the operands, for a tile of outputs at a time."""
    count = len(operands[0])
    shape = np.broadcast_shapes(*(operand.shape[1:] for operand in operands))
    sums = np.empty(shape, carrier_dtype(unit.accumulator))
    firsts = _Draws.for_outputs(shape, count, unit.rounding).firsts
    for tile in tiles(shape, max(1, SUM_CHUNK // max(1, _count_partial_sums(unit, count)))):
        parts = [operand[:, *operand_slice(operand.shape[1:], tile)] for operand in operands]
        draws = _Draws(None if firsts is None else firsts[tile])
        partial_sums = _add_terms(parts, sums[tile].shape, unit, step, draws)
        sums[tile] = _merge(partial_sums, unit, count, draws)
    return sums


def _count_partial_sums(unit: Unit, count: int) -> int:
    """Return the number of partial sums of `count` terms."""
    if unit.order is Order.SEQUENTIAL:
        return 1
    if unit.order is Order.PAIRWISE:
        return count
    return min(unit.width, count) if unit.order is Order.LANES else -(-count // unit.width)


def _terms_of_steps(unit: Unit, count: int) -> Iterator[range]:
    """Yield the terms that a step adds: one to each partial sum, except to the last ones that have run out of terms."""
    if unit.order is Order.SEQUENTIAL:
        return (range(k, k + 1) for k in range(count))
    if unit.order is Order.PAIRWISE:
        return iter([range(count)])
    if unit.order is Order.LANES:
        return (range(k, min(k + unit.width, count)) for k in range(0, count, unit.width))
    # Blocks: step k takes term k of every run. The last run may be shorter, and drops out of the last steps.
    return (range(k, count, unit.width) for k in range(min(unit.width, count)))


def _add_terms(operands: list[Array], shape: tuple[int, ...], unit: Unit, step: _Step, draws: _Draws) -> Array:
    """Return the partial sums of all terms, (partial sums, *shape)."""
    count = len(operands[0])
    sums = np.zeros((_count_partial_sums(unit, count), *shape), carrier_dtype(unit.accumulator))
    for terms in _terms_of_steps(unit, count):
        here = slice(terms.start, terms.stop, terms.step)
        active = sums[: len(terms)]
        active[...] = step(active, [operand[here] for operand in operands], draws.of(terms))
    return sums


def _merge(sums: Array, unit: Unit, count: int, draws: _Draws) -> Array:
    """Return the total of partial sums: sequentially, or for pairwise order level by level.

    Merges draw by the indices that follow the `count` terms.
    """
    if unit.order is Order.SEQUENTIAL:
        return np.asarray(sums[0])
    if unit.order is not Order.PAIRWISE:
        # A total begins at +0, as every partial sum does: a single partial sum of -0 becomes +0.
        merged = np.zeros((1, *sums.shape[1:]), sums.dtype)
        for index, partial in enumerate(sums[:, None], count):
            merged = _add(merged, partial, unit, draws.of(range(index, index + 1)))
        return np.asarray(merged[0])
    if not len(sums):
        return np.zeros(sums.shape[1:], sums.dtype)
    while len(sums) > 1:
        pairs = len(sums) // 2
        merged = _add(sums[: 2 * pairs : 2], sums[1 : 2 * pairs : 2], unit, draws.of(range(count, count + pairs)))
        sums = np.concatenate([merged, sums[2 * pairs :]])
        count += pairs
    return np.asarray(sums[0])
