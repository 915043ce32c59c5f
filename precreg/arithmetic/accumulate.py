"""Matrix products, dot products and totals as a unit computes them: formats and order are those of a `Unit`.

What is given is first rounded to the unit's input format, and what comes out to its output format. Between, terms are
added one by one in the unit's order (arithmetic/unit.py), each addition rounded once: not one bit depends on how
the work is split. precreg/arithmetic/arith_exact_sums.py is the same in rational arithmetic, and says what is drawn.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from precreg.arithmetic import arith_numpy_form_sums as numpy_sums
from precreg.arithmetic import forms
from precreg.arithmetic.arith_operations import carrier, widened
from precreg.arithmetic.arith_rounding import round_to
from precreg.arithmetic.formats import Format
from precreg.arithmetic.unit import Unit
from precreg.errors import UserError


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
    return _output(_form(unit).total(terms, unit), unit)


def _summed_products(a: NDArray[Any], b: NDArray[Any], unit: Unit) -> NDArray[Any]:
    """Return the product of (..., m, K) and (..., K, n) arrays of numbers of `unit.input`, with as many axes."""
    axes = max(a.ndim, b.ndim)
    a, b = (array.reshape((1,) * (axes - array.ndim) + array.shape) for array in (a, b))
    product: NDArray[Any] = _form(unit).matmul(a, b, unit)
    return product


def _form(unit: Unit) -> ModuleType:
    """Return the form that adds up as a unit does: the compiled core, where that can, or numpy's."""
    native = forms.native()
    return native if native is not None and native.sums(unit) else numpy_sums


def _converted(values: NDArray[Any], unit: Unit, stream: int) -> NDArray[Any]:
    if unit.width < 1:
        raise UserError(
            "bad-value", f"expected a unit that adds at least one term at a time but got width={unit.width}"
        )
    return _rounded(widened(values), unit.input, unit, stream)


def _output(sums: NDArray[Any], unit: Unit) -> NDArray[Any]:
    return _rounded(sums, unit.output, unit, 4)


def _rounded(values: NDArray[Any], format: Format, unit: Unit, stream: int) -> NDArray[Any]:
    """Convert to a format, with a stream of draws of its own. float32 may lack the largest number of a wider format."""
    wide = np.float64 if values.dtype == np.float64 else carrier(format)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        rounded = round_to(values.astype(wide, copy=False), format, unit.conversion, seed=unit.seed + stream)
        return rounded.astype(carrier(format), copy=False)
