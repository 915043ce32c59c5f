"""Which results do common functions of linear algebra have in 106 bits, on every platform?

A number is an unevaluated sum of two float64, high + low with |low| <= ulp(high) / 2. All steps are error-free
transformations (Dekker, A floating-point technique for extending the available precision, 1971; Knuth), without fused
multiply-add. These functions are references for float64 code where numpy.linalg refuses longdouble, or where longdouble
is float64. Each takes arrays of float64 or longdouble and returns longdouble.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Longs = NDArray[np.longdouble]

# 2**27 + 1 splits 53 bits into 26 and 26 (Dekker).
_SPLITTER = 134217729.0


class Pairs(NamedTuple):
    """Numbers of double-double arithmetic: arrays of the leading and the trailing parts."""

    high: Reals
    low: Reals

    def at(self, *index: Any) -> Pairs:
        """Return the numbers at an index of the arrays."""
        return Pairs(self.high[index], self.low[index])

    def put(self, value: Pairs, *index: Any) -> None:
        """Replace the numbers at an index."""
        self.high[index], self.low[index] = value

    def copy(self) -> Pairs:
        """Return a copy of the numbers."""
        return Pairs(self.high.copy(), self.low.copy())


def split_exactly(array: Any) -> Pairs:
    """Return numbers of float64 or longdouble as pairs: exactly, up to the 107th bit of a longdouble."""
    wide = np.asarray(array)
    high = wide.astype(np.float64)
    with np.errstate(invalid="ignore"):
        low = (wide - high).astype(np.float64)
    # The rest of an infinity is NaN, and would spoil it.
    return Pairs(high, np.where(np.isfinite(high), low, 0.0))


def join_pairs(pairs: Pairs) -> Longs:
    """Return pairs as longdouble, rounded once."""
    joined: Longs = pairs.high.astype(np.longdouble) + pairs.low.astype(np.longdouble)
    return joined


def two_sum(a: Any, b: Any) -> Pairs:
    """Return a + b rounded, and its rounding error: their sum is exact (Knuth)."""
    total = a + b
    part = total - a
    return Pairs(total, (a - (total - part)) + (b - part))


def two_product(a: Any, b: Any) -> Pairs:
    """Return a * b rounded, and its rounding error: their sum is exact below overflow and underflow (Dekker)."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return Pairs(product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low))


def _halves(a: Any) -> tuple[Any, Any]:
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


def _normalized(high: Any, low: Any) -> Pairs:
    total = high + low
    return Pairs(total, low - (total - high))


def add_pairs(a: Pairs, b: Pairs) -> Pairs:
    """Return a + b with a relative error below 2^-104, also where they cancel (accurate addition of Li et al.)."""
    high, error = two_sum(a.high, b.high)
    low, rest = two_sum(a.low, b.low)
    high, error = _normalized(high, error + low)
    return _normalized(high, error + rest)


def negate_pairs(a: Pairs) -> Pairs:
    """Return -a."""
    return Pairs(-a.high, -a.low)


def multiply_pairs(a: Pairs, b: Pairs) -> Pairs:
    """Return a * b with a relative error below 2^-102."""
    high, error = two_product(a.high, b.high)
    return _normalized(high, error + (a.high * b.low + a.low * b.high))


def divide_pairs(a: Pairs, b: Pairs) -> Pairs:
    """Return a / b with a relative error below 2^-100: three quotients of float64, each of the rest."""
    first = a.high / b.high
    rest = add_pairs(a, negate_pairs(multiply_pairs(b, _plain(first))))
    second = rest.high / b.high
    rest = add_pairs(rest, negate_pairs(multiply_pairs(b, _plain(second))))
    return add_pairs(_normalized(first, second), _plain(rest.high / b.high))


def root_of_pairs(a: Pairs) -> Pairs:
    """Return the square root with a relative error below 2^-100: one step of Newton's method (Karp and Markstein)."""
    root = np.sqrt(a.high)
    rest = add_pairs(a, negate_pairs(two_product(root, root)))
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(root > 0, rest.high / (2.0 * root), 0.0)
    return _normalized(root, step)


def _plain(values: Any) -> Pairs:
    return Pairs(values, np.zeros_like(values))


def wide_sum(a: Any, axis: int | None = None) -> Longs:
    """Return the sum over an axis, or of all elements."""
    pairs = split_exactly(a)
    if axis is None:
        pairs, axis = Pairs(pairs.high.ravel(), pairs.low.ravel()), 0
    moved = Pairs(np.moveaxis(pairs.high, axis, 0), np.moveaxis(pairs.low, axis, 0))
    return join_pairs(_total(moved))


def _total(terms: Pairs) -> Pairs:
    """Return the sum over the first axis, by halves."""
    while len(terms.high) > 1:
        half = len(terms.high) // 2
        pairs = add_pairs(terms.at(slice(0, half)), terms.at(slice(half, 2 * half)))
        rest = terms.at(slice(2 * half, None))
        terms = Pairs(np.concatenate([pairs.high, rest.high]), np.concatenate([pairs.low, rest.low]))
    if not len(terms.high):
        return _plain(np.zeros(terms.high.shape[1:]))
    return terms.at(0)


def wide_matmul(a: Any, b: Any) -> Longs:
    """Return the product of matrices or vectors, as numpy.matmul for at most two axes each.

    Raises ValueError for other shapes.
    """
    left, right = split_exactly(a), split_exactly(b)
    shapes = left.high.shape, right.high.shape
    # numpy would broadcast some of these shapes, and the product would lack rows.
    if not all(0 < len(shape) <= 2 for shape in shapes) or shapes[0][-1] != shapes[1][0]:
        raise ValueError(f"expected vectors or matrices with one common length but got shapes {shapes}")
    return join_pairs(_product(left, right))


def _product(a: Pairs, b: Pairs) -> Pairs:
    left = Pairs(*(np.atleast_2d(part) for part in a))
    right = Pairs(*(part[:, np.newaxis] if part.ndim == 1 else part for part in b))
    shape = (*a.high.shape[:-1], *b.high.shape[1:])
    total = _plain(np.zeros((left.high.shape[0], right.high.shape[1])))
    for place in range(left.high.shape[1]):
        column = left.at(slice(None), slice(place, place + 1))
        total = add_pairs(total, multiply_pairs(column, right.at(slice(place, place + 1))))
    return Pairs(total.high.reshape(shape), total.low.reshape(shape))


def _square(a: Any) -> Pairs:
    """Return one square matrix as pairs. Raises numpy.linalg.LinAlgError for other shapes."""
    matrix = split_exactly(a)
    shape = matrix.high.shape
    if len(shape) != 2 or shape[0] != shape[1]:
        raise np.linalg.LinAlgError(f"expected one square matrix but got shape {shape}: call it for each matrix")
    return matrix


def solve(a: Any, b: Any) -> Longs:
    """Return x with a x = b, by elimination with partial pivoting, for one square matrix.

    Raises numpy.linalg.LinAlgError for a singular matrix, and for other shapes.
    """
    matrix, right = _square(a), split_exactly(b)
    if not 0 < right.high.ndim <= 2 or len(right.high) != len(matrix.high):
        raise np.linalg.LinAlgError(f"expected {len(matrix.high)} rows of b but got shape {right.high.shape}")
    columns = Pairs(*(part[:, np.newaxis] if part.ndim == 1 else part for part in right))
    found = _eliminate(matrix, columns)[0]
    return join_pairs(found).reshape(right.high.shape)


def inv(a: Any) -> Longs:
    """Return the inverse of one square matrix. Raises numpy.linalg.LinAlgError for a singular matrix."""
    matrix = _square(a)
    return join_pairs(_eliminate(matrix, _plain(np.eye(len(matrix.high))))[0])


def det(a: Any) -> Longs:
    """Return the determinant of one square matrix."""
    matrix = _square(a)
    try:
        determinant = _eliminate(matrix, _plain(np.zeros((len(matrix.high), 0))))[1]
    except np.linalg.LinAlgError:
        return np.zeros((), np.longdouble)
    return join_pairs(determinant)


def _eliminate(matrix: Pairs, right: Pairs) -> tuple[Pairs, Pairs]:
    """Return the solution for all columns, and the determinant."""
    matrix, right = matrix.copy(), right.copy()
    size = len(matrix.high)
    determinant = _plain(np.ones(()))
    for place in range(size):
        pivot = place + int(np.argmax(np.abs(matrix.high[place:, place])))
        if matrix.high[pivot, place] == 0:
            raise np.linalg.LinAlgError("Singular matrix")
        if pivot != place:
            for each in (*matrix, *right):
                each[[place, pivot]] = each[[pivot, place]]
            determinant = negate_pairs(determinant)
        determinant = multiply_pairs(determinant, matrix.at(place, place))
        below = slice(place + 1, None)
        factors = negate_pairs(divide_pairs(matrix.at(below, slice(place, place + 1)), matrix.at(place, place)))
        for numbers in (matrix, right):
            numbers.put(
                add_pairs(numbers.at(below), multiply_pairs(factors, numbers.at(slice(place, place + 1)))), below
            )
    for place in range(size - 1, -1, -1):
        known = right.at(place)
        for later in range(place + 1, size):
            known = add_pairs(known, negate_pairs(multiply_pairs(matrix.at(place, later), right.at(later))))
        right.put(divide_pairs(known, matrix.at(place, place)), place)
    return right, determinant


def cholesky(a: Any) -> Longs:
    """Return the lower triangular factor of one symmetric positive definite matrix, read from its lower half.

    Raises numpy.linalg.LinAlgError for another matrix.
    """
    matrix = _square(a).copy()
    size = len(matrix.high)
    factor = _plain(np.zeros((size, size)))
    for place in range(size):
        pivot = matrix.at(place, place)
        if not pivot.high > 0:
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        below = slice(place, None)
        column = divide_pairs(matrix.at(below, place), root_of_pairs(pivot))
        factor.put(column, below, place)
        products = multiply_pairs(Pairs(*(part[:, np.newaxis] for part in column)), column)
        matrix.put(add_pairs(matrix.at(below, below), negate_pairs(products)), below, below)
    return join_pairs(factor)
