"""Which sums, products and updates in place does a device compute, in the order and the formats of its table?

`Products` composes numpy's functions that sum products (dot, einsum, convolve, ...) of matmul, multiply and add.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from precreg.arithmetic.devices.elementwise import to_carrier
from precreg.arithmetic.operations import add, carrier_dtype
from precreg.arithmetic.rounding import round_to
from precreg.arithmetic.sums import dot, matmul
from precreg.arithmetic.sums import total as sum_products
from precreg.arithmetic.unit import Unit
from precreg.storage import Array

# Computes a function of elements on a device.
Apply = Callable[..., Any]

# Computes a method of a ufunc on a device: (function, method, inputs, options).
Ufunc = Callable[[np.ufunc, str, tuple[Any, ...], dict[str, Any]], Any]

# numpy's products that are ufuncs. numpy 1 has only the first.
MATRIX_UFUNCS = frozenset(getattr(np, name) for name in ("matmul", "vecdot", "matvec", "vecmat") if hasattr(np, name))


def reduce_add(unit: Unit, terms: Array, options: dict[str, Any], apply: Apply) -> Array:
    """Return numpy.add.reduce of `terms`, which have the dtype of the result. Axes are added in their C order.

    `where` replaces terms by zeros, and `initial` is added last.
    """
    if options.get("where", True) is not True:
        terms = np.where(options["where"], terms, terms.dtype.type(0))
    axes = reduction_axes(options.get("axis", 0), terms.ndim)
    shape = reduced_shape(terms.shape, axes, keepdims=bool(options.get("keepdims")))
    total = sum_products(to_carrier(flatten_reduced_axes(terms, axes)), unit).astype(terms.dtype).reshape(shape)
    initial = options.get("initial")
    if initial is None or initial is np._NoValue:
        return total
    return np.asarray(apply(np.add, np.asarray(initial, terms.dtype), total))


def accumulate_add(unit: Unit, terms: Array, axis: int) -> Array:
    """Return numpy.add.accumulate of `terms`."""
    # Every running sum is a result, so the order is sequential, whatever the unit's order for totals.
    along = np.moveaxis(to_carrier(terms), axis, 0)
    # The seeds of conversions follow exact.py: seed + 2 for the operand, seed + 4 for the result.
    read = round_to(along, unit.input, unit.conversion, seed=unit.seed + 2)
    sums = np.empty(along.shape, carrier_dtype(unit.accumulator))
    total: Any = 0.0
    for k in range(len(read)):
        total = add(total, read[k], unit.accumulator, unit.rounding, seed=unit.seed, start=k * read[k].size)
        sums[k] = total
    written = round_to(sums, unit.output, unit.conversion, seed=unit.seed + 4).astype(terms.dtype)
    return np.moveaxis(written, 0, axis)


def reduce_ufunc(function: np.ufunc, terms: Array, options: dict[str, Any], apply: Apply) -> Array:
    """Return the reduction by any other function of two numbers: one term after the other, from the first."""
    if options.get("where", True) is not True:
        terms = np.where(options["where"], terms, _identity(function, terms.dtype))
    axes = reduction_axes(options.get("axis", 0), terms.ndim)
    shape = reduced_shape(terms.shape, axes, keepdims=bool(options.get("keepdims")))
    along = np.moveaxis(flatten_reduced_axes(terms, axes), -1, 0)
    initial = options.get("initial")
    parts = [*along] if initial is None or initial is np._NoValue else [terms.dtype.type(initial), *along]
    if not parts:
        return np.full(shape, _identity(function, terms.dtype))
    result = reduce(lambda total, part: apply(function, total, part), parts)
    return np.broadcast_to(result, along.shape[1:]).reshape(shape)


def _identity(function: np.ufunc, dtype: np.dtype[Any]) -> Any:
    """Return the identity element of a function. Raises ValueError, as numpy does, for a function without one."""
    if function.identity is None:
        raise ValueError(f"expected terms, or a function with an identity, but got numpy.{function.__name__}")
    return dtype.type(function.identity)


def accumulate_ufunc(function: np.ufunc, terms: Array, axis: int, apply: Apply) -> Array:
    """Return the running results of any other function of two numbers."""
    along = np.moveaxis(terms, axis, 0).copy()
    for k in range(1, len(along)):
        along[k] = apply(function, along[k - 1], along[k])
    return np.moveaxis(along, 0, axis)


def apply_ufunc_at(function: np.ufunc, target: Array, indices: Any, values: tuple[Any, ...], apply: Apply) -> None:
    """Do the work of function.at: update elements in place, once per occurrence among the indices, in that order."""
    flat = np.arange(target.size).reshape(target.shape)[indices]
    operands = [np.broadcast_to(value, flat.shape).ravel() for value in values]
    flat = flat.ravel()
    # An element that occurs several times must be updated one by one. `rank` numbers the occurrences of each element;
    # all elements of one rank differ, and are updated at once.
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else order
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    for occurrence in range(int(rank.max(initial=-1)) + 1):
        chosen = rank == occurrence
        where = np.unravel_index(flat[chosen], target.shape)
        target[where] = apply(function, target[where], *(operand[chosen] for operand in operands))


def reduction_axes(requested_axes: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes of a reduction as non-negative numbers; None means all axes.

    Raises the errors of numpy for an axis out of range, and for an axis that occurs twice.
    """
    # A reduction of one element raises numpy's own errors, with its words.
    np.add.reduce(np.ones((1,) * ndim), axis=requested_axes)
    if requested_axes is None:
        return tuple(range(ndim))
    axes = requested_axes if isinstance(requested_axes, tuple) else (requested_axes,)
    return tuple(axis % ndim for axis in axes) if ndim else ()


def flatten_reduced_axes(terms: Array, axes: tuple[int, ...]) -> Array:
    """Return the terms with the reduced axes joined to one last axis, in C order."""
    others = [axis for axis in range(terms.ndim) if axis not in axes]
    count = prod(terms.shape[axis] for axis in axes)
    return terms.transpose(*others, *sorted(axes)).reshape(*(terms.shape[axis] for axis in others), count)


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], *, keepdims: bool) -> tuple[int, ...]:
    """Return the shape of the result of a reduction."""
    if keepdims:
        return tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    return tuple(length for axis, length in enumerate(shape) if axis not in axes)


def multiply_on_unit(unit: Unit, function: np.ufunc, a: Array, b: Array, dtype: np.dtype[Any]) -> Array:
    """Return numpy's matmul, vecdot, matvec or vecmat of two arrays, computed by a unit."""
    a, b = (to_carrier(operand.astype(dtype, copy=False)) for operand in (a, b))
    if function is np.matmul:
        product = matmul(a, b, unit)
    elif function.__name__ == "vecdot":
        product = dot(a, b, unit)
    elif function.__name__ == "matvec":
        product = matmul(a, b[..., :, None], unit)[..., 0]
    else:
        product = matmul(a[..., None, :], b, unit)[..., 0, :]
    return product.astype(dtype, copy=False)


class Products:
    """Compose numpy's compiled functions that sum products of a device's matmul, multiply and add.

    Methods have the names and parameters of numpy's functions. They raise NotImplementedError for options that are not
    composed of these operations.
    """

    def __init__(self, ufunc: Ufunc) -> None:
        self._ufunc = ufunc

    def _apply(self, function: np.ufunc, *inputs: Any) -> Array:
        return np.asarray(self._ufunc(function, "__call__", inputs, {}))

    def _sum(self, terms: Array, axes: Any, *, keepdims: bool = False) -> Array:
        return np.asarray(self._ufunc(np.add, "reduce", (terms,), {"axis": axes, "keepdims": keepdims}))

    def dot(self, a: Any, b: Any) -> Array:
        """Sum over the last axis of a and the second to last axis of b."""
        a, b = np.asarray(a), np.asarray(b)
        if a.ndim == 0 or b.ndim == 0:
            return self._apply(np.multiply, a, b)
        return self._contract_axes(a, b, (a.ndim - 1,), (max(b.ndim - 2, 0),))

    def inner(self, a: Any, b: Any) -> Array:
        """Sum over the last axes."""
        a, b = np.asarray(a), np.asarray(b)
        if a.ndim == 0 or b.ndim == 0:
            return self._apply(np.multiply, a, b)
        return self._contract_axes(a, b, (a.ndim - 1,), (b.ndim - 1,))

    def vdot(self, a: Any, b: Any) -> Array:
        """Sum over all elements, in C order."""
        return self._apply(np.matmul, np.ravel(a), np.ravel(b))

    def tensordot(self, a: Any, b: Any, axes: Any = 2) -> Array:
        """Sum over axes: the last of a with the first of b, or the axes of two lists."""
        a, b = np.asarray(a), np.asarray(b)
        if isinstance(axes, int | np.integer):
            return self._contract_axes(a, b, tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes)))
        of_a, of_b = ((given,) if isinstance(given, int | np.integer) else tuple(given) for given in axes)
        return self._contract_axes(a, b, reduction_axes(of_a, a.ndim), reduction_axes(of_b, b.ndim))

    def outer(self, a: Any, b: Any) -> Array:
        """Multiply each element of a by each element of b."""
        return self._apply(np.multiply, np.ravel(a)[:, None], np.ravel(b)[None, :])

    def cross(self, a: Any, b: Any, *, axis: int = -1) -> Array:
        """Return the cross product of vectors of three components."""
        x, y = (np.moveaxis(np.asarray(vectors), axis, -1) for vectors in (a, b))
        if x.shape[-1] != 3 or y.shape[-1] != 3:
            raise NotImplementedError("numpy.cross of other than three components is not simulated")
        next_, last = [1, 2, 0], [2, 0, 1]
        first = self._apply(np.multiply, x[..., next_], y[..., last])
        second = self._apply(np.multiply, x[..., last], y[..., next_])
        return np.moveaxis(self._apply(np.subtract, first, second), -1, axis)

    def convolve(self, a: Any, v: Any, mode: str = "full") -> Array:
        """Sum products of windows of the longer operand with the reversed shorter one; zeros extend both ends."""
        a, v = (np.atleast_1d(values) for values in (a, v))
        longer, shorter = (a, v) if len(a) >= len(v) else (v, a)
        return self._multiply_windows(longer, shorter[::-1], mode)

    def correlate(self, a: Any, v: Any, mode: str = "valid") -> Array:
        """Sum products of windows of a with v."""
        a, v = (np.atleast_1d(values) for values in (a, v))
        if len(a) >= len(v):
            return self._multiply_windows(a, v, mode)
        return self._multiply_windows(v, a, mode)[::-1]

    def norm(self, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
        """Return the square root of the sum of squares, the sum of magnitudes (1) or the largest magnitude (inf)."""
        x = np.asarray(x)
        # With two axes, 1, 2 and inf name norms of matrices, which need column sums or singular values.
        is_matrix_norm = (x.ndim > 1 if axis is None else isinstance(axis, tuple)) and ord is not None
        if ord in (None, "fro") or (ord == 2 and not is_matrix_norm):
            squares = self._sum(self._apply(np.multiply, x, x), axis, keepdims=keepdims)
            return self._apply(np.sqrt, squares)
        if ord == 1 and not is_matrix_norm:
            return self._sum(np.abs(x), axis, keepdims=keepdims)
        if ord == np.inf and not is_matrix_norm:
            return np.asarray(np.abs(x).max(axis, keepdims=keepdims))
        raise NotImplementedError(f"numpy.linalg.norm with ord={ord} is not simulated")

    def einsum(self, subscripts: Any, *operands: Any, optimize: Any = False) -> Array:
        """Multiply and sum by subscripts."""
        # Operands are contracted from left to right, whatever `optimize` says: a device has one documented order.
        if not isinstance(subscripts, str):
            raise NotImplementedError("numpy.einsum without a text of subscripts is not simulated")
        arrays = [np.asarray(operand) for operand in operands]
        np.einsum_path(subscripts, *arrays, optimize=False)  # raises numpy's errors for wrong subscripts
        *labels, wanted = _complete_labels(subscripts, arrays)
        result, own = self._reduce_alone(arrays[0], labels[0], set("".join([wanted, *labels[1:]])))
        for index, (other, theirs) in enumerate(zip(arrays[1:], labels[1:], strict=True), 2):
            later = set("".join([wanted, *labels[index:]]))
            other, theirs = self._reduce_alone(other, theirs, later | set(own))
            result, own = self._reduce_alone(result, own, later | set(theirs))
            result, own = self._multiply_pair(result, own, other, theirs, later)
        return result.transpose([own.index(label) for label in wanted])

    def _reduce_alone(self, array: Array, labels: str, needed: set[str]) -> tuple[Array, str]:
        """Take the diagonal of repeated labels, and sum over labels that nothing else needs."""
        unique = "".join(dict.fromkeys(labels))
        if unique != labels:
            array, labels = np.einsum(f"{labels}->{unique}", array), unique
        alone = tuple(axis for axis, label in enumerate(labels) if label not in needed)
        if alone:
            array = self._sum(array, alone)
        return array, "".join(label for label in labels if label in needed)

    def _multiply_pair(self, a: Array, in_a: str, b: Array, in_b: str, needed: set[str]) -> tuple[Array, str]:
        """Multiply two operands, and sum over the labels that they share and nothing later needs."""
        # The labels form three groups, so that one stacked matrix product does the work:
        # (batch, free in a, summed) times (batch, summed, free in b).
        both = [label for label in in_a if label in in_b]
        batch = "".join(label for label in both if label in needed)
        summed = "".join(label for label in both if label not in needed)
        free_a = "".join(label for label in in_a if label not in in_b)
        free_b = "".join(label for label in in_b if label not in in_a)
        size = dict(zip(in_a, a.shape, strict=True)) | {k: n for k, n in zip(in_b, b.shape, strict=True) if n != 1}
        left = _stack_matrices(a, in_a, (batch, free_a, summed), size)
        right = _stack_matrices(b, in_b, (batch, summed, free_b), size)
        product = self._apply(np.matmul if summed else np.multiply, left, right)
        labels = batch + free_a + free_b
        return product.reshape([size[label] for label in labels]), labels

    def _contract_axes(self, a: Array, b: Array, of_a: Sequence[int], of_b: Sequence[int]) -> Array:
        """Sum over pairs of axes. The result has the other axes of a first, then the other axes of b."""
        rest_a = [axis for axis in range(a.ndim) if axis not in of_a]
        rest_b = [axis for axis in range(b.ndim) if axis not in of_b]
        if [a.shape[axis] for axis in of_a] != [b.shape[axis] for axis in of_b]:
            raise ValueError(f"shapes {a.shape} and {b.shape} do not match on axes {tuple(of_a)} and {tuple(of_b)}")
        count = prod(a.shape[axis] for axis in of_a)
        shape_a, shape_b = [a.shape[axis] for axis in rest_a], [b.shape[axis] for axis in rest_b]
        left = a.transpose(*rest_a, *of_a).reshape(prod(shape_a), count)
        right = b.transpose(*of_b, *rest_b).reshape(count, prod(shape_b))
        return self._apply(np.matmul, left, right).reshape((*shape_a, *shape_b))

    def _multiply_windows(self, a: Array, v: Array, mode: str) -> Array:
        padding = {"valid": 0, "full": len(v) - 1, "same": len(v) - 1}[mode]
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(a, padding), len(v))
        result = self._apply(np.matmul, windows, v)
        # "same" is the centre of "full", as long as the longer operand.
        start = (len(v) - 1) // 2
        return result[start : start + len(a)] if mode == "same" else result


# numpy's compiled functions that sum products, and the methods of Products that compute them.
PRODUCTS = {
    **{
        getattr(np, name): name
        for name in ["dot", "inner", "vdot", "tensordot", "outer", "cross", "convolve", "correlate", "einsum"]
    },
    **{
        getattr(np.linalg, name): name.removeprefix("vector_")
        for name in ["norm", "vector_norm", "tensordot", "outer", "cross"]
        if hasattr(np.linalg, name)  # numpy 1 has only norm
    },
}


def _complete_labels(subscripts: str, arrays: Sequence[Array]) -> list[str]:
    """Return the labels of each operand and of the result, with labels of its own for each axis of an ellipsis."""
    text = subscripts.replace(" ", "")
    given, arrow, result = text.partition("->")
    free = [chr(code) for code in range(ord("a"), ord("z") + 1) if chr(code) not in text]
    free += [chr(code) for code in range(ord("A"), ord("Z") + 1) if chr(code) not in text]
    operands = given.split(",")
    hidden = [
        max(array.ndim - len(labels.replace("...", "")), 0) for labels, array in zip(operands, arrays, strict=True)
    ]
    # Ellipses broadcast from the right, so a shorter one takes the last labels of the longest.
    rest = "".join(free[: max(hidden)]) if "..." in given else ""
    shown = [labels.replace("...", rest[len(rest) - count :]) for labels, count in zip(operands, hidden, strict=True)]
    if not arrow:
        # Without an arrow, numpy keeps the labels that occur once, in alphabetical order.
        counted = given.replace(",", "").replace(".", "")
        result = "..." * bool(rest) + "".join(sorted(label for label in set(counted) if counted.count(label) == 1))
    return [*shown, result.replace("...", rest)]


def _stack_matrices(array: Array, labels: str, groups: tuple[str, str, str], size: dict[str, int]) -> Array:
    """Return an array as a stack of matrices, with one axis for each group of labels. Axes of length 1 broadcast."""
    order = "".join(groups)
    full = np.broadcast_to(
        array.transpose([labels.index(label) for label in order if label in labels]),
        [size[label] for label in order if label in labels],
    )
    return full.reshape([prod(size[label] for label in group) for group in groups])
