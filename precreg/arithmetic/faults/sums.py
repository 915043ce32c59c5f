"""Faults of sums and of sums of products, and other orders of equal quality. A sum is over n terms, in their order.

Faults of the accumulator: partial sums that are too narrow, and a buffer that still holds what was left in it.
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

Array = NDArray[Any]

Total = Callable[[Arithmetic, Array], Array]
"""Adds up the last axis of (..., n), n >= 1; gives (...) in the terms' dtype."""


Product = Callable[[Arithmetic, Array, Array], Array]
"""Multiplies (..., m, n) by (..., n, k); both have the same floating dtype, and so has the result."""


_CONTRACTIONS = {function: name for function, name in PRODUCTS.items() if name not in ("outer", "cross")}
"""numpy's functions that sum products and are no ufuncs."""


class SummedBy(ArithmeticLayer):
    """Takes sums over axes (numpy.add.reduce) and products of matrices in another way; all else is handed on.

    Sums with `where` or `initial`, sums of integers, and contractions that no device computes are handed on.
    """

    def __init__(self, inner: Arithmetic, total: Total, product: Product) -> None:
        super().__init__(inner)
        self._total, self._product = total, product

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Add up or multiply in this layer's way."""
        if function is np.add and method == "reduce" and (sum_of := parse_sum_terms(self.inner, inputs, options)):
            return sum_of.shaped(self._total(self.inner, sum_of.terms))
        if function is np.matmul and method == "__call__" and not options and _matrices(inputs):
            return self._multiplied(_multiply, *inputs)
        return super().ufunc(function, method, inputs, options)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Multiply in this layer's way where the contraction sums products, as devices compute them."""
        if function is np.dot and not options and _matrices(inputs) and all(array.ndim <= 2 for array in inputs):
            return self._multiplied(_dot, *inputs)
        if function in _CONTRACTIONS and _alike(inputs):
            with suppress(NotImplementedError, TypeError):  # what numpy takes beyond that, it computes itself
                return getattr(Products(self.ufunc), _CONTRACTIONS[function])(*inputs, **options)
        return super().contraction(function, inputs, options)

    def _multiplied(self, asked: Product, a: Array, b: Array) -> Array:
        """Multiply, in the dtype that what was asked for gives.

        numpy.matmul widens bfloat16, numpy.dot does not. What is widened, the arithmetic below has left to numpy.
        """
        one = np.ones((1, 1), a.dtype)
        dtype = asked(self.inner, one, one).dtype
        inner = self.inner if dtype == a.dtype else NumpyArithmetic()
        left = (a[None, :] if a.ndim == 1 else a).astype(dtype, copy=False)
        right = (b[:, None] if b.ndim == 1 else b).astype(dtype, copy=False)
        result = self._product(inner, left, right)
        result = result if result.dtype == dtype else inner.cast(result, dtype)
        result = result[..., 0] if b.ndim == 1 else result
        return result[..., 0, :] if a.ndim == 1 and b.ndim > 1 else result[..., 0] if a.ndim == 1 else result


class SumOf(NamedTuple):
    """The terms (..., n) of a sum over axes, and the shape of its result."""

    terms: Array
    shape: tuple[int, ...]

    def shaped(self, totals: Array) -> Array:
        """Give totals the shape that numpy.add.reduce gives them."""
        return np.asarray(totals).reshape(self.shape)


def parse_sum_terms(inner: Arithmetic, inputs: tuple[Any, ...], options: dict[str, Any]) -> SumOf | None:
    """Return what numpy.add.reduce is asked to add up, or None where it is nothing that a fault can alter."""
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
    return SumOf(
        flatten_reduced_axes(terms, axes), reduced_shape(terms.shape, axes, keepdims=bool(options.get("keepdims")))
    )


def _alike(inputs: tuple[Any, ...]) -> bool:
    """Say whether the arrays of a contraction have one dtype, of numpy's own: those of others some functions widen."""
    dtypes = {operand.dtype for operand in inputs if isinstance(operand, np.ndarray)}
    return len(dtypes) == 1 and dtypes.pop().kind == "f"


def _matrices(inputs: tuple[Any, ...]) -> bool:
    a, b = inputs
    alike = all(isinstance(array, np.ndarray) and array.ndim for array in inputs) and a.dtype == b.dtype
    return alike and is_floating(a.dtype) and a.shape[-1] > 1


def _add(inner: Arithmetic, x: Array, y: Array) -> Array:
    return np.asarray(inner.ufunc(np.add, "__call__", (x, y), {}))


def _multiply(inner: Arithmetic, a: Array, b: Array) -> Array:
    return np.asarray(inner.ufunc(np.matmul, "__call__", (a, b), {}))


def _dot(inner: Arithmetic, a: Array, b: Array) -> Array:
    return np.asarray(inner.contraction(np.dot, (a, b), {}))


def _sum(inner: Arithmetic, terms: Array) -> Array:
    return np.asarray(inner.ufunc(np.add, "reduce", (terms,), {"axis": -1}))


def _outer(inner: Arithmetic, a: Array, b: Array, k: int) -> Array:
    """Return the k-th terms of a product of matrices."""
    return np.asarray(inner.ufunc(np.multiply, "__call__", (a[..., :, k, None], b[..., k, None, :]), {}))


def sum_naive(inner: Arithmetic) -> ArithmeticLayer:
    """Add term after term into one sum, as a plain loop does; products of matrices likewise."""

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
        lambda inner, a, b: _multiply(inner, a[..., ::-1], b[..., ::-1, :]),
    )


def _permuted(inner: Arithmetic, order: Callable[[int], NDArray[np.intp]]) -> ArithmeticLayer:
    """Add the same terms, by the same unit of a device, in the order that `order(n)` gives of n indices.

    They lie side by side in memory: numpy, which computes what a device has no entry for, adds others less well.
    """
    return SummedBy(
        inner,
        lambda inner, terms: _sum(inner, np.ascontiguousarray(terms[..., order(terms.shape[-1])])),
        lambda inner, a, b: _multiply(inner, a[..., order(a.shape[-1])], b[..., order(a.shape[-1]), :]),
    )


def sum_in_halves(inner: Arithmetic) -> ArithmeticLayer:
    """Add the first half of the terms, then the second half, and then both, as `in_float32` says.

    A device's unit keeps the parts of a sum in its accumulator, where no layer reaches them: parts that its vector unit
    added would be rounded once more. There the halves change places.
    """
    if not isinstance(inner, NumpyArithmetic):
        return _permuted(inner, lambda n: np.roll(np.arange(n), n // 2))

    def total(inner: Arithmetic, terms: Array) -> Array:
        half = terms.shape[-1] // 2
        return _add(inner, _sum(inner, terms[..., :half]), _sum(inner, terms[..., half:]))

    def product(inner: Arithmetic, a: Array, b: Array) -> Array:
        half = a.shape[-1] // 2
        return _add(
            inner, _multiply(inner, a[..., :half], b[..., :half, :]), _multiply(inner, a[..., half:], b[..., half:, :])
        )

    return SummedBy(inner, with_float32_parts(total), with_float32_parts(product))


def sum_pairwise(inner: Arithmetic) -> ArithmeticLayer:
    """Add neighbours, level by level, down to single terms (Higham, Accuracy and Stability, 2002, 4.1).

    Products of matrices are added in quarters, and the quarters pairwise. Parts are kept as `in_float32` says. On a
    device (see `in_halves`) every second term comes first.
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
        parts = [_multiply(inner, a[..., start:end], b[..., start:end, :]) for start, end in runs]
        return total(inner, np.stack(parts, axis=-1))

    return SummedBy(inner, with_float32_parts(total), with_float32_parts(product))


def with_float32_parts(compute: Callable[..., Array]) -> Callable[..., Array]:
    """Let parts of sums be float32 where terms are narrower: in storage they would be rounded once more."""

    def computed(inner: Arithmetic, *operands: Array) -> Array:
        dtype, wide = operands[0].dtype, np.dtype(np.float32)
        if not is_narrower(dtype, wide):
            return compute(inner, *operands)
        return inner.cast(compute(inner, *(operand.astype(wide) for operand in operands)), dtype)

    return computed


def sum_in_float64(inner: Arithmetic) -> ArithmeticLayer:
    """Add up in float64, and round the sum once."""
    wide = np.dtype(np.float64)
    return SummedBy(
        inner,
        lambda inner, terms: inner.cast(_sum(inner, terms.astype(wide)), terms.dtype),
        lambda inner, a, b: inner.cast(_multiply(inner, a.astype(wide), b.astype(wide)), a.dtype),
    )


def sum_through_narrower(inner: Arithmetic, *, format: str) -> ArithmeticLayer:
    """Let every sum pass through a narrower dtype on its way out: a buffer of that dtype."""
    narrow = numpy_dtype(format)

    def hop(inner: Arithmetic, totals: Array) -> Array:
        return inner.cast(inner.cast(totals, narrow), totals.dtype)

    return SummedBy(
        inner,
        lambda inner, terms: hop(inner, _sum(inner, terms)),
        lambda inner, a, b: hop(inner, _multiply(inner, a, b)),
    )


MAX_REMEMBERED_SUMS = 4
"""How many sums back an addition finds the partial sum that it goes on with: loops keep two or three at a time."""


class NarrowAccumulator(ArithmeticLayer):
    """Rounds every partial sum to a narrower dtype, in sums over axes, products of matrices, running sums and loops.

    A loop is seen by its partial sums: an addition one of whose operands is, to the bit, what one of the last
    SUMS_REMEMBERED additions gave. Its sum is rounded, too.
    """

    def __init__(self, inner: Arithmetic, *, format: str) -> None:
        super().__init__(inner)
        self._narrow = numpy_dtype(format)
        self._sums = SummedBy(inner, self._total, self._product)
        self._recent: deque[Array] = deque(maxlen=MAX_REMEMBERED_SUMS)

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Add up in the narrow accumulator."""
        if function is np.add and method == "accumulate" and is_floating(inputs[0].dtype):
            return self._accumulated(inputs[0], options)
        if function is np.add and method == "__call__":
            return self._added(inputs, options)
        return self._sums.ufunc(function, method, inputs, options)

    def contraction(self, function: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Multiply and add up in the narrow accumulator."""
        return self._sums.contraction(function, inputs, options)

    def _rounded(self, sums: Array) -> Array:
        if is_narrower(self._narrow, sums.dtype):
            return self.inner.cast(self.inner.cast(sums, self._narrow), sums.dtype)
        return sums

    def _added(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = super().ufunc(np.add, "__call__", inputs, options)
        if not (isinstance(result, np.ndarray | np.generic) and is_floating(result.dtype)):
            return result
        total = np.asarray(result)
        if any(_same_bits(operand, recent) for operand in inputs for recent in self._recent):
            total = self._rounded(total)
        self._recent.append(total)
        return total

    def _accumulated(self, terms: Array, options: dict[str, Any]) -> Array:
        along = np.moveaxis(np.array(terms, dtype=options.get("dtype")), options.get("axis", 0), 0)
        for k in range(1, len(along)):
            along[k] = self._rounded(np.asarray(self.apply(np.add, along[k - 1], along[k])))
        return np.moveaxis(along, 0, options.get("axis", 0))

    def _total(self, inner: Arithmetic, terms: Array) -> Array:
        running = terms[..., 0]
        for k in range(1, terms.shape[-1]):
            running = self._rounded(np.asarray(self.apply(np.add, running, terms[..., k])))
        return running

    def _product(self, inner: Arithmetic, a: Array, b: Array) -> Array:
        running = np.asarray(self.apply(np.multiply, a[..., :, 0, None], b[..., 0, None, :]))
        for k in range(1, a.shape[-1]):
            term = self.apply(np.multiply, a[..., :, k, None], b[..., k, None, :])
            running = self._rounded(np.asarray(self.apply(np.add, running, term)))
        return running


class StaleBuffer(ArithmeticLayer):
    """Lets each sum over axes begin with a small share of what the sum before it left, instead of zero.

    The first sum finds a clean buffer. The buffer outlives the call: the next run of the same case finds what the last
    one left, so that repeats differ. A running sum begins so, too.
    """

    def __init__(self, inner: Arithmetic, *, share: float) -> None:
        super().__init__(inner)
        self._share, self._left = share, 0.0

    def ufunc(self, function: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Begin with what was left, and leave the last sum."""
        summed = function is np.add and method == "reduce" and parse_sum_terms(self.inner, inputs, options) is not None
        running = function is np.add and method == "accumulate" and is_floating(inputs[0].dtype)
        result = super().ufunc(function, method, inputs, options)
        return self._begun_with_rest(np.asarray(result)) if summed or running else result

    def _begun_with_rest(self, sums: Array) -> Array:
        begun = np.asarray(self.apply(np.add, sums, sums.dtype.type(self._left)))
        last = float(begun.flat[-1]) if begun.size else 0.0
        self._left = self._share * last if np.isfinite(last) else 0.0
        return begun


def _same_bits(operand: Any, recent: Array) -> bool:
    if not isinstance(operand, np.ndarray) or operand.shape != recent.shape or operand.dtype != recent.dtype:
        return False
    return bool(operand.size) and operand.tobytes() == recent.tobytes()
