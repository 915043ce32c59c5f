"""Which faults and harmless changes alter sums and sums of products: their order, accumulator or buffers?

A sum adds n terms, in their order, along the last axis.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.devices import (
    PRODUCTS,
    Arithmetic,
    NumpyArithmetic,
    Products,
    flatten_reduced_axes,
    is_floating,
    reduced_shape,
    reduction_axes,
)
from precreg.arithmetic.faults.fault import ArithmeticLayer, is_narrower
from precreg.arithmetic.formats import numpy_dtype
from precreg.storage import Array

# Sums the last axis of (..., n) terms, n >= 1, in their dtype.
Total = Callable[[Arithmetic, Array], Array]

# Multiplies (..., m, n) by (..., n, k) matrices of one floating dtype, in this dtype.
Product = Callable[[Arithmetic, Array, Array], Array]

# numpy's compiled functions that sum products; outer and cross multiply, but do not sum along an axis.
_CONTRACTIONS = {function: name for function, name in PRODUCTS.items() if name not in ("outer", "cross")}

# The previous additions among which an addition finds its running sum: loops keep two or three sums at a time.
MAX_REMEMBERED_SUMS = 4


class SummedBy(ArithmeticLayer):
    """Compute sums over axes (numpy.add.reduce) and products of matrices in another way.

    Sums with `where` or `initial`, sums of integers, and functions outside `Products` stay unchanged.
    """

    def __init__(self, inner: Arithmetic, total: Total, product: Product) -> None:
        super().__init__(inner)
        self._total, self._product = total, product

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Sum or multiply in the way of this layer."""
        if function is np.add and method == "reduce" and (parsed := parse_sum_terms(self.inner, inputs, options)):
            totals = self._total(self.inner, parsed.terms)
            return np.asarray(totals).reshape(parsed.shape)
        if function is np.matmul and method == "__call__" and not options and _are_matrices(inputs):
            return self._multiply(_matmul, *inputs)
        return super().ufunc(function, method, inputs, options)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Multiply in the way of this layer if the function sums products."""
        if function is np.dot and not options and _are_matrices(inputs) and all(array.ndim <= 2 for array in inputs):
            return self._multiply(_dot, *inputs)
        if function in _CONTRACTIONS and _has_one_float_dtype(inputs):
            # The arithmetic below computes calls that Products does not compose, or with parameters it lacks.
            with suppress(NotImplementedError, TypeError):
                return getattr(Products(self.ufunc), _CONTRACTIONS[function])(*inputs, **options)
        return super().contraction(function, inputs, options)

    def _multiply(self, product: Product, a: Array, b: Array) -> Array:
        """Multiply in the way of this layer, in the dtype of `product`, the operation that the kernel called."""
        # numpy.matmul widens bfloat16 and numpy.dot does not. If the arithmetic below widens, numpy computes there.
        one = np.ones((1, 1), a.dtype)
        dtype = product(self.inner, one, one).dtype
        inner = self.inner if dtype == a.dtype else NumpyArithmetic()
        left = (a[None, :] if a.ndim == 1 else a).astype(dtype, copy=False)
        right = (b[:, None] if b.ndim == 1 else b).astype(dtype, copy=False)
        result = self._product(inner, left, right)
        result = result if result.dtype == dtype else inner.cast(result, dtype)
        result = result[..., 0] if b.ndim == 1 else result
        return result[..., 0, :] if a.ndim == 1 and b.ndim > 1 else result[..., 0] if a.ndim == 1 else result


class _ParsedSum(NamedTuple):
    """Hold the terms (..., n) of a sum over axes, and the shape of its result."""

    terms: Array
    shape: tuple[int, ...]


def parse_sum_terms(inner: Arithmetic, inputs: tuple[Any, ...], options: dict[str, Any]) -> _ParsedSum | None:
    """Return terms and shape of a call of numpy.add.reduce, or None for a sum that no fault alters."""
    terms = np.asarray(inputs[0])
    plain_options = options.get("where", True) is True and options.get("initial") is None
    dtype = np.dtype(options.get("dtype") or terms.dtype)
    if not (plain_options and is_floating(terms.dtype) and is_floating(dtype)):
        return None
    axes = reduction_axes(options.get("axis", 0), terms.ndim)
    if prod(terms.shape[axis] for axis in axes) < 2:
        return None
    if dtype != terms.dtype:
        terms = inner.cast(terms, dtype)
    return _ParsedSum(
        flatten_reduced_axes(terms, axes), reduced_shape(terms.shape, axes, keepdims=bool(options.get("keepdims")))
    )


def _has_one_float_dtype(inputs: tuple[Any, ...]) -> bool:
    """Return whether the arrays of a contraction have one dtype, of numpy's own floats: some functions widen others."""
    dtypes = {operand.dtype for operand in inputs if isinstance(operand, np.ndarray)}
    return len(dtypes) == 1 and dtypes.pop().kind == "f"


def _are_matrices(inputs: tuple[Any, ...]) -> bool:
    """Return whether both operands are floating arrays of one dtype, with at least two terms to sum."""
    a, b = inputs
    has_one_dtype = all(isinstance(array, np.ndarray) and array.ndim for array in inputs) and a.dtype == b.dtype
    return has_one_dtype and is_floating(a.dtype) and a.shape[-1] > 1


def _add(inner: Arithmetic, x: Array, y: Array) -> Array:
    return np.asarray(inner.ufunc(np.add, "__call__", (x, y), {}))


def _matmul(inner: Arithmetic, a: Array, b: Array) -> Array:
    return np.asarray(inner.ufunc(np.matmul, "__call__", (a, b), {}))


def _dot(inner: Arithmetic, a: Array, b: Array) -> Array:
    return np.asarray(inner.contraction(np.dot, (a, b), {}))


def _sum(inner: Arithmetic, terms: Array) -> Array:
    return np.asarray(inner.ufunc(np.add, "reduce", (terms,), {"axis": -1}))


def _outer(inner: Arithmetic, a: Array, b: Array, k: int) -> Array:
    """Return the k-th terms of all elements of a product of matrices."""
    return np.asarray(inner.ufunc(np.multiply, "__call__", (a[..., :, k, None], b[..., k, None, :]), {}))


def sum_naive(inner: Arithmetic) -> ArithmeticLayer:
    """Add term after term to one sum, as a simple loop does, also in products of matrices."""

    def total(inner: Arithmetic, terms: Array) -> Array:
        return np.asarray(inner.ufunc(np.add, "accumulate", (terms,), {"axis": -1}))[..., -1]

    def product(inner: Arithmetic, a: Array, b: Array) -> Array:
        running = _outer(inner, a, b, 0)
        for k in range(1, a.shape[-1]):
            running = _add(inner, running, _outer(inner, a, b, k))
        return running

    return SummedBy(inner, total, product)


def sum_in_reverse(inner: Arithmetic) -> ArithmeticLayer:
    """Add the same terms from the last to the first."""
    return SummedBy(
        inner,
        lambda inner, terms: _sum(inner, terms[..., ::-1]),
        lambda inner, a, b: _matmul(inner, a[..., ::-1], b[..., ::-1, :]),
    )


def _permuted(inner: Arithmetic, order: Callable[[int], NDArray[np.intp]]) -> ArithmeticLayer:
    """Add the same terms, by the same unit of a device, in the order of the n indices that `order(n)` gives."""
    # numpy computes dtypes without an entry, and sums pairwise only along terms that are contiguous in memory (notes of
    # numpy.sum).
    return SummedBy(
        inner,
        lambda inner, terms: _sum(inner, np.ascontiguousarray(terms[..., order(terms.shape[-1])])),
        lambda inner, a, b: _matmul(inner, a[..., order(a.shape[-1])], b[..., order(a.shape[-1]), :]),
    )


def sum_in_halves(inner: Arithmetic) -> ArithmeticLayer:
    """Add the first half of the terms, then the second half, and then both sums.

    On a device, the halves change places instead.
    """
    # A device keeps partial sums in the accumulator of its unit, where no layer reaches them. Adding the two sums of
    # halves on its vector unit would round them once more, and lose precision.
    if not isinstance(inner, NumpyArithmetic):
        return _permuted(inner, lambda n: np.roll(np.arange(n), n // 2))

    def total(inner: Arithmetic, terms: Array) -> Array:
        half = terms.shape[-1] // 2
        return _add(inner, _sum(inner, terms[..., :half]), _sum(inner, terms[..., half:]))

    def product(inner: Arithmetic, a: Array, b: Array) -> Array:
        half = a.shape[-1] // 2
        return _add(
            inner, _matmul(inner, a[..., :half], b[..., :half, :]), _matmul(inner, a[..., half:], b[..., half:, :])
        )

    return SummedBy(inner, with_float32_parts(total), with_float32_parts(product))


def sum_pairwise(inner: Arithmetic) -> ArithmeticLayer:
    """Add neighbours, level by level, down to single terms (Higham, Accuracy and Stability, 2002, 4.1).

    Products of matrices are computed in quarters, which are added pairwise. On a device (see `sum_in_halves`), every
    second term comes first.
    """
    if not isinstance(inner, NumpyArithmetic):
        return _permuted(inner, lambda n: np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)]))

    def total(inner: Arithmetic, terms: Array) -> Array:
        while (n := terms.shape[-1]) > 1:
            pairs = _add(inner, terms[..., : n - n % 2 : 2], terms[..., 1::2])
            terms = np.concatenate([pairs, terms[..., n - n % 2 :]], axis=-1)
        return terms[..., 0]

    def product(inner: Arithmetic, a: Array, b: Array) -> Array:
        bounds = [a.shape[-1] * quarter // 4 for quarter in range(5)]
        runs = [(start, end) for start, end in itertools.pairwise(bounds) if start < end]
        parts = [_matmul(inner, a[..., start:end], b[..., start:end, :]) for start, end in runs]
        return total(inner, np.stack(parts, axis=-1))

    return SummedBy(inner, with_float32_parts(total), with_float32_parts(product))


def with_float32_parts(compute: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function that computes on float32 copies of narrower terms, and rounds the result once."""
    # Otherwise partial sums would be rounded to the narrow storage once more, and lose precision.

    def computed(inner: Arithmetic, *operands: Array) -> Array:
        dtype, wide = operands[0].dtype, np.dtype(np.float32)
        if not is_narrower(dtype, wide):
            return compute(inner, *operands)
        return inner.cast(compute(inner, *(operand.astype(wide) for operand in operands)), dtype)

    return computed


def sum_in_float64(inner: Arithmetic) -> ArithmeticLayer:
    """Add in float64, and round the sum once."""
    wide = np.dtype(np.float64)
    return SummedBy(
        inner,
        lambda inner, terms: inner.cast(_sum(inner, terms.astype(wide)), terms.dtype),
        lambda inner, a, b: inner.cast(_matmul(inner, a.astype(wide), b.astype(wide)), a.dtype),
    )


def sum_through_narrower(inner: Arithmetic, *, format: str) -> ArithmeticLayer:
    """Pass every sum through a narrower dtype, as through a buffer of that dtype."""
    narrow = numpy_dtype(format)

    def cast_sum(inner: Arithmetic, totals: Array) -> Array:
        return inner.cast(inner.cast(totals, narrow), totals.dtype)

    return SummedBy(
        inner,
        lambda inner, terms: cast_sum(inner, _sum(inner, terms)),
        lambda inner, a, b: cast_sum(inner, _matmul(inner, a, b)),
    )


class NarrowAccumulator(ArithmeticLayer):
    """Round every partial sum to a narrower dtype, in sums over axes, products of matrices, running sums and loops.

    An addition belongs to a loop if an operand has the bits of one of the last MAX_REMEMBERED_SUMS results.
    """

    def __init__(self, inner: Arithmetic, *, format: str) -> None:
        super().__init__(inner)
        self._narrow = numpy_dtype(format)
        self._sums = SummedBy(inner, self._total, self._product)
        self._recent: deque[Array] = deque(maxlen=MAX_REMEMBERED_SUMS)

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Sum in the narrow accumulator."""
        if function is np.add and method == "accumulate" and is_floating(inputs[0].dtype):
            return self._accumulate(inputs[0], options)
        if function is np.add and method == "__call__":
            return self._add_in_loop(inputs, options)
        return self._sums.ufunc(function, method, inputs, options)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Multiply and sum in the narrow accumulator."""
        return self._sums.contraction(function, inputs, options)

    def _round(self, sums: Array) -> Array:
        if is_narrower(self._narrow, sums.dtype):
            return self.inner.cast(self.inner.cast(sums, self._narrow), sums.dtype)
        return sums

    def _add_in_loop(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = super().ufunc(np.add, "__call__", inputs, options)
        if not (isinstance(result, np.ndarray | np.generic) and is_floating(result.dtype)):
            return result
        total = np.asarray(result)
        if any(_same_bits(operand, recent) for operand in inputs for recent in self._recent):
            total = self._round(total)
        self._recent.append(total)
        return total

    def _accumulate(self, terms: Array, options: dict[str, Any]) -> Array:
        along = np.moveaxis(np.array(terms, dtype=options.get("dtype")), options.get("axis", 0), 0)
        for k in range(1, len(along)):
            along[k] = self._round(np.asarray(self.apply(np.add, along[k - 1], along[k])))
        return np.moveaxis(along, 0, options.get("axis", 0))

    def _total(self, inner: Arithmetic, terms: Array) -> Array:
        running = terms[..., 0]
        for k in range(1, terms.shape[-1]):
            running = self._round(np.asarray(self.apply(np.add, running, terms[..., k])))
        return running

    def _product(self, inner: Arithmetic, a: Array, b: Array) -> Array:
        running = np.asarray(self.apply(np.multiply, a[..., :, 0, None], b[..., 0, None, :]))
        for k in range(1, a.shape[-1]):
            term = self.apply(np.multiply, a[..., :, k, None], b[..., k, None, :])
            running = self._round(np.asarray(self.apply(np.add, running, term)))
        return running


class StaleBuffer(ArithmeticLayer):
    """Begin each sum over axes, and each running sum, with a small share of the sum before it instead of zero.

    The buffer outlives a call of the subject, and the first sum finds it clean. So repeats of a case differ.
    """

    def __init__(self, inner: Arithmetic, *, share: float) -> None:
        super().__init__(inner)
        self._share, self._left = share, 0.0

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Begin with the rest in the buffer, and leave the last sum there."""
        is_sum = function is np.add and method == "reduce" and parse_sum_terms(self.inner, inputs, options) is not None
        is_running = function is np.add and method == "accumulate" and is_floating(inputs[0].dtype)
        result = super().ufunc(function, method, inputs, options)
        if not (is_sum or is_running):
            return result
        result = np.asarray(result)
        sums = np.asarray(self.apply(np.add, result, result.dtype.type(self._left)))
        last = float(sums.flat[-1]) if sums.size else 0.0
        # An infinity or NaN would make every later result useless, which no gate could miss.
        self._left = self._share * last if np.isfinite(last) else 0.0
        return sums


def _same_bits(operand: Any, recent: Array) -> bool:
    if not isinstance(operand, np.ndarray) or operand.shape != recent.shape or operand.dtype != recent.dtype:
        return False
    return bool(operand.size) and operand.tobytes() == recent.tobytes()
