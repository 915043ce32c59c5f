"""Linear algebra in double-double: against exact rationals and mpmath, to about 100 bits before the last rounding."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic import double_double as dd

FINITE = st.floats(-1e100, 1e100, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-100)
PAIRS = st.tuples(FINITE, st.floats(-1, 1)).map(lambda pair: dd._normalized(pair[0], pair[0] * pair[1] * 2.0**-53))
LONG_ULP = float(np.finfo(np.longdouble).eps)


def exact(pairs):
    return Fraction(float(pairs.high)) + Fraction(float(pairs.low))


@given(FINITE, FINITE)
def test_sums_and_products_with_their_errors_are_exact(a, b):
    assert exact(dd.two_sum(a, b)) == Fraction(a) + Fraction(b)
    assert exact(dd.two_product(a, b)) == Fraction(a) * Fraction(b)


@given(PAIRS, PAIRS)
def test_operations_have_a_hundred_bits(a, b):
    assert abs(exact(dd.add_pairs(a, b)) - (exact(a) + exact(b))) <= abs(exact(a) + exact(b)) / 2**100
    assert abs(exact(dd.multiply_pairs(a, b)) - exact(a) * exact(b)) <= abs(exact(a) * exact(b)) / 2**100
    if exact(b):
        quotient = exact(a) / exact(b)
        assert abs(exact(dd.divide_pairs(a, b)) - quotient) <= abs(quotient) / 2**98
    if exact(a) > 0:
        root = exact(dd.root_of_pairs(a))
        assert abs(root * root - exact(a)) <= exact(a) / 2**98


def matrix_of(size, seed=0):
    return np.random.default_rng(seed).normal(size=(size, size))


def as_mpmath(array):
    return mpmath.matrix(np.atleast_2d(array).tolist())


def distance(found, wanted):
    """Return the largest distance, relative to the largest element."""
    with mpmath.workdps(60):
        differences = [abs(mpmath.mpf(str_exactly(f)) - w) for f, w in zip(found.ravel(), wanted, strict=True)]
        return float(max(differences) / max(map(abs, wanted)))


def str_exactly(value):
    numerator, denominator = value.as_integer_ratio()
    return mpmath.mpf(int(numerator)) / int(denominator)


@pytest.mark.parametrize("size", [1, 2, 7, 20])
def test_systems_inverses_and_determinants_are_those_of_mpmath(size):
    a, b = matrix_of(size), matrix_of(size, 1)[0]
    with mpmath.workdps(60):
        solved = list(mpmath.lu_solve(as_mpmath(a), mpmath.matrix(b.tolist())))
        inverse = list(as_mpmath(a) ** -1)
        determinant = [mpmath.det(as_mpmath(a))]
    # 2^-100 times a condition of 2^20 is below the spacing of longdouble.
    assert distance(dd.solve(a, b), solved) <= LONG_ULP
    assert distance(dd.inv(a), inverse) <= LONG_ULP
    assert distance(np.asarray(dd.det(a)), determinant) <= LONG_ULP
    assert dd.solve(a, matrix_of(size, 2)[:, :1]).shape == (size, 1)


def test_a_hilbert_matrix_has_digits_that_longdouble_loses():
    size = 10
    hilbert = 1 / (np.arange(size)[:, None] + np.arange(size) + 1.0)
    with mpmath.workdps(80):
        inverse = list(as_mpmath(hilbert) ** -1)
    # Its condition is 1.6e13, 2^44: 106 bits leave 60.
    assert distance(dd.inv(hilbert), inverse) < 2.0**-54


@pytest.mark.parametrize("size", [1, 3, 12])
def test_a_factor_of_cholesky(size):
    a = matrix_of(size) @ matrix_of(size).T + np.eye(size)
    a = (a + a.T) / 2
    with mpmath.workdps(60):
        wanted = list(mpmath.cholesky(as_mpmath(a)))
    assert distance(dd.cholesky(a), wanted) <= LONG_ULP


def test_products_and_sums_that_cancel():
    a = np.array([1e16, 1.0, -1e16, 3.0])
    assert dd.wide_sum(a) == 4
    assert dd.wide_matmul(a, np.ones(4)) == 4
    rows = np.random.default_rng(3).normal(size=(5, 9))
    exact_rows = [np.sum([Fraction(x) for x in row]) for row in rows.tolist()]
    found = dd.wide_sum(rows, axis=1)
    assert found.shape == (5,)
    assert all(
        abs(Fraction(*map(int, f.as_integer_ratio())) - e) <= abs(e) * 2**-63
        for f, e in zip(found, exact_rows, strict=True)
    )
    assert dd.wide_sum(np.zeros((0, 3)), axis=0).tolist() == [0, 0, 0]
    assert dd.wide_matmul(rows, rows[0]).shape == (5,)
    product = [sum(Fraction(x) * Fraction(y) for x, y in zip(rows[1], rows[2], strict=True))]
    assert abs(Fraction(*map(int, dd.wide_matmul(rows, rows.T)[1, 2].as_integer_ratio())) - product[0]) < Fraction(
        1, 2**60
    )


def test_longdouble_inputs_keep_their_bits():
    third = np.longdouble(1) / 3
    assert dd.wide_sum(np.array([third])) == third
    assert np.isinf(dd.wide_sum(np.array([np.inf])))


def test_singular_and_indefinite_matrices_are_refused_as_numpy_does():
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        dd.solve(np.zeros((2, 2)), np.ones(2))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        dd.cholesky(-np.eye(2))
    assert dd.det(np.zeros((2, 2))) == 0


@pytest.mark.parametrize("function", [dd.solve, dd.inv, dd.det, dd.cholesky])
@pytest.mark.parametrize("shape", [(), (3,), (3, 4), (4, 3), (2, 3, 3)])
def test_another_shape_than_one_square_matrix_is_refused(function, shape):
    rest = (np.ones(shape[:1]),) if function is dd.solve else ()
    with pytest.raises(np.linalg.LinAlgError, match="one square matrix"):
        function(np.ones(shape), *rest)


@pytest.mark.parametrize("shape", [(), (2,), (4,), (4, 1), (1, 3)])
def test_a_right_side_of_another_length_is_refused(shape):
    with pytest.raises(np.linalg.LinAlgError, match="3 rows"):
        dd.solve(np.eye(3), np.ones(shape))


@pytest.mark.parametrize(
    ("a", "b"), [((2, 3), (4, 5)), ((2, 3), (1, 5)), ((3,), ()), ((2, 2, 3), (3, 2)), ((3,), (2,))]
)
def test_a_product_of_shapes_that_do_not_fit_is_refused(a, b):
    with pytest.raises(ValueError, match="common length"):
        dd.wide_matmul(np.ones(a), np.ones(b))
