"""Orders of sums, against loops over single numbers and against exact sums."""

import math

import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic.devices.array import NumpyArithmetic, plain_array, simulate_array
from tests.arithmetic.faults.planting import run, same_bits

RNG = np.random.default_rng(5)
X = RNG.normal(size=(6, 700)).astype(np.float32)
A, B = RNG.normal(size=(5, 90)).astype(np.float32), RNG.normal(size=(90, 4)).astype(np.float32)
ORDERS = ("naive_sum", "sum_reversed", "sum_in_halves", "sum_pairwise", "sum_in_float64")


def loop(terms):
    total = terms[0]
    for term in terms[1:]:
        total = np.float32(total + term)
    return total


def test_naive_is_a_plain_loop():
    expected = np.array([loop(row) for row in X])
    assert same_bits(run("naive_sum", lambda x: x.sum(-1), X), expected)
    assert not same_bits(X.sum(-1), expected)


def test_naive_products_are_a_plain_loop():
    expected = np.array([[loop(a * b) for b in B.T] for a in A])
    assert same_bits(run("naive_sum", np.matmul, A, B), expected)
    assert same_bits(run("naive_sum", np.dot, A, B), expected)
    assert same_bits(run("naive_sum", np.matmul, A[0], B), expected[0])
    assert same_bits(run("naive_sum", np.matmul, A, B[:, 1]), np.ascontiguousarray(expected[:, 1]))
    assert run("naive_sum", np.dot, A[0], B[:, 0]) == expected[0, 0]


def test_a_large_sum_swallows_small_terms():
    x = np.array([2.0**24, *[1.0] * 64], np.float32)
    assert run("naive_sum", np.sum, x) == 2.0**24
    assert run("sum_in_float64", np.sum, x) == math.fsum(x) == 2.0**24 + 64


def test_reversed_and_halved_by_hand():
    x = np.array([1.0, 2.0**-24, 2.0**-24, 2.0**-24], np.float32)
    assert run("sum_reversed", np.sum, x) == np.float32(1 + 3 * 2.0**-24)
    assert run("sum_in_halves", np.sum, x) == np.float32(1 + 2.0**-23)
    assert run("sum_pairwise", np.sum, x) == np.float32(1 + 2.0**-23)


def test_sums_on_their_way_out():
    expected = X.sum(-1).astype(np.float16).astype(np.float32)
    assert same_bits(run("hop_sums", lambda x: x.sum(-1), X), expected)
    half = X.astype(np.float16)
    assert same_bits(run("hop_sums", lambda x: x.sum(-1), half), half.sum(-1))


@pytest.mark.parametrize("function", [np.matmul, np.dot])
@pytest.mark.parametrize("name", [*ORDERS, "hop_sums", "narrow_bfloat16"])
def test_products_keep_the_dtype_that_numpy_gives_them(name, function):
    """numpy.matmul of bfloat16 gives float32, and numpy.dot bfloat16."""
    a, b = A.astype(ml_dtypes.bfloat16), B.astype(ml_dtypes.bfloat16)
    expected, found = function(a, b), run(name, function, a, b)
    assert found.dtype == expected.dtype
    if name in ORDERS[1:]:
        exact = a.astype(np.float64) @ b.astype(np.float64)
        assert np.abs(found - exact).mean() <= 1.2 * np.abs(expected - exact).mean()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "options",
    [{}, {"axis": 0}, {"axis": (0, 2)}, {"axis": -1, "keepdims": True}, {"dtype": np.float64}, {"axis": 1}],
    ids=str,
)
def test_any_axes_any_dtype(order, options):
    cube = RNG.normal(size=(3, 40, 17)).astype(np.float32)
    expected = cube.sum(**options)
    result = run(order, lambda x: x.sum(**options), cube)
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, cube.astype(np.float64).sum(**options), rtol=0, atol=2e-4)


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_no_plain_sum_is_handed_on(order):
    kept = X > 0
    assert same_bits(run(order, lambda x: x.sum(-1, where=kept), X), X.sum(-1, where=kept))
    assert same_bits(run(order, lambda x: x.sum(-1, initial=3), X), X.sum(-1, initial=3))
    assert same_bits(run(order, lambda x: x.max(-1), X), X.max(-1))
    assert run(order, lambda x: np.add.reduce((x > 0).astype(np.int64), axis=None), X) == kept.sum()


PRODUCTS = {
    "einsum": lambda a, b: np.einsum("ij,jk->ik", a, b),
    "inner": lambda a, b: np.inner(a, b.T),
    "tensordot": lambda a, b: np.tensordot(a, b, 1),
    "dot": lambda a, b: np.dot(a[None], b[None])[0, :, 0],
    "vdot": lambda a, b: np.array([[np.vdot(row, column) for column in b.T] for row in a]),
}


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_every_spelling_of_a_product_has_its_faults(product):
    """By loops over single numbers, and by a hop of what numpy gives, up to the order that numpy adds in."""
    expected = np.array([[loop(a * b) for b in B.T] for a in A])
    assert same_bits(run("naive_sum", product, A, B), expected)
    hopped = run("hop_sums", product, A, B)
    assert same_bits(hopped, hopped.astype(np.float16).astype(np.float32))
    np.testing.assert_allclose(hopped, A.astype(np.float64) @ B, rtol=2**-11, atol=1e-5)
    assert not same_bits(run("narrow_float16", product, A, B), product(A, B))


def test_norms_and_convolutions_are_sums():
    squares = np.array([loop(row * row) for row in X])
    assert same_bits(run("naive_sum", lambda x: np.linalg.norm(x, axis=1), X), np.sqrt(squares))
    x, y = X[0, :50], X[1, :7]
    expected = [loop([x[k + j] * y[6 - j] for j in range(7)]) for k in range(44)]
    assert run("naive_sum", lambda x, y: np.convolve(x, y, "valid"), x, y).tolist() == expected


def test_what_no_device_computes_numpy_does():
    kernels = (lambda x: np.linalg.norm(x[:, :6], 2), lambda x: np.einsum(x, [0, 1], [0]), lambda x: np.outer(x, x[0]))
    kernels += (lambda x: np.einsum("ij->i", x, dtype=np.float64),)
    for kernel in kernels:
        assert same_bits(run("naive_sum", kernel, X), np.asarray(kernel(X)))
    whole = np.arange(12).reshape(3, 4)
    assert np.array_equal(run("naive_sum", lambda w: np.einsum("ij,kj->ik", w, w), whole), whole @ whole.T)


@pytest.mark.parametrize("order", ["sum_reversed", "sum_in_halves", "sum_pairwise"])
def test_harmless_orders_are_of_equal_quality(order):
    x = RNG.normal(size=(4000, 300)).astype(np.float32)
    exact = x.astype(np.float64).sum(-1)
    result = run(order, lambda x: x.sum(-1), x)
    assert not same_bits(result, x.sum(-1))
    ratio = np.abs(result - exact).mean() / np.abs(x.sum(-1) - exact).mean()
    assert 0.7 < ratio < 1.1


@pytest.mark.parametrize("order", ["sum_in_halves", "sum_pairwise"])
def test_parts_of_narrow_products_are_not_rounded_to_storage(order):
    a, b = (RNG.normal(size=shape).astype(np.float16) for shape in ((40, 256), (256, 40)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    result = run(order, np.matmul, a, b)
    assert result.dtype == np.float16
    rounded_once = np.abs(exact.astype(np.float16) - exact).mean()
    assert np.abs(result - exact).mean() < 1.01 * rounded_once


@pytest.mark.parametrize("order", ["sum_reversed", "sum_in_halves", "sum_pairwise", "sum_in_float64"])
def test_products_of_matrices_in_other_orders(order):
    exact = A.astype(np.float64) @ B.astype(np.float64)
    result = run(order, np.matmul, A, B)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact, rtol=0, atol=1e-5)


def test_without_a_fault_the_bits_are_numpys():
    computing = NumpyArithmetic()
    result = np.matmul(simulate_array(A, computing), simulate_array(B, computing))
    assert same_bits(plain_array(result), A @ B)


@pytest.mark.parametrize("axis", [2, -3, (0, 0)], ids=str)
def test_an_axis_that_is_not_there_is_refused_as_by_numpy(axis):
    for name in ORDERS:
        with pytest.raises(ValueError, match="axis"):
            run(name, lambda x: x.sum(axis), X)
