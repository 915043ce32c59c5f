"""Swapped order and epsilons against the other spelling, to the bit; fused products against fractions."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

from precreg.arithmetic.faults.orders import is_epsilon
from precreg.arithmetic.faults.table import FAULTS, HARMLESS_CHANGES
from tests.arithmetic.faults.planting import run, same_bits

RNG = np.random.default_rng(11)
A, B, C = (RNG.uniform(0.5, 2, size=(40, 33)).astype(np.float32) for _ in range(3))
V = RNG.uniform(0, 1e-6, size=(40, 33)).astype(np.float32)


@pytest.mark.parametrize(
    ("written", "swapped"),
    [
        (lambda a, b, c: a / b * c, lambda a, b, c: a * c / b),
        (lambda a, b, c: c * (a / b), lambda a, b, c: a * c / b),
        (lambda a, b, c: a * b / c, lambda a, b, c: a * (b / c)),
        (lambda a, b, c: 0.1 * a / c, lambda a, b, c: 0.1 * (a / c)),
        (lambda a, b, c: 0.1 * (a / c), lambda a, b, c: a * 0.1 / c),
    ],
)
def test_a_swap_is_the_other_spelling(written, swapped):
    assert same_bits(run("swapped_order", written, A, B, C), swapped(A, B, C))
    assert not same_bits(written(A, B, C), swapped(A, B, C))


def test_a_quotient_that_was_written_to_is_no_quotient():
    def kernel(a, b, c):
        quotient = a / b
        quotient[0] = 1
        return quotient * c

    assert same_bits(run("swapped_order", kernel, A, B, C), kernel(A, B, C))


def test_epsilon_before_and_after_the_root():
    before, after = (lambda v: np.sqrt(v + 1e-5)), (lambda v: np.sqrt(v) + np.float32(1e-5))
    assert same_bits(run("dropped_epsilon", before, V), np.sqrt(V))
    assert same_bits(run("moved_epsilon", before, V), np.sqrt(V) + np.float32(1e-5))
    assert same_bits(run("moved_epsilon", after, V), np.sqrt(V + np.float32(1e-5)))


def test_epsilon_of_a_divisor():
    kernel = lambda a, v: a / (np.sqrt(v) + 1e-8)  # noqa: E731
    assert same_bits(run("dropped_epsilon", kernel, A, V), A / np.sqrt(V))
    assert run("dropped_epsilon", kernel, A[:1, :1], np.zeros((1, 1), np.float32)) == np.inf


def test_operations_in_place_are_known():
    """Kernels of optimizers write into their buffers; the operands are what they were before."""

    def root(v):
        v = v.copy()
        v += 1e-5
        return np.sqrt(v)

    def divisor(a, v):
        below = np.sqrt(v)
        below += 1e-8
        np.divide(a, below, out=below)
        return below

    def scaled(a, b, c):
        a = a.copy()
        a /= b
        a *= c
        return a

    assert same_bits(run("dropped_epsilon", root, V), np.sqrt(V))
    assert same_bits(run("moved_epsilon", root, V), np.sqrt(V) + np.float32(1e-5))
    assert same_bits(run("dropped_epsilon", divisor, A, V), A / np.sqrt(V))
    assert same_bits(run("swapped_order", scaled, A, B, C), A * C / B)


@pytest.mark.parametrize("logarithm", [np.log, np.log2, np.log10])
def test_epsilon_of_a_logarithm(logarithm):
    assert same_bits(run("dropped_epsilon", lambda v: logarithm(v + 1e-8), V), logarithm(V))


def test_what_is_no_epsilon_stays():
    for kernel in (lambda v: np.sqrt(v + 0.1), lambda v: np.sqrt(v + v), lambda v: v + 1e-5):
        for fault in ("dropped_epsilon", "moved_epsilon"):
            assert same_bits(run(fault, kernel, V), kernel(V))


def test_a_fused_product_is_rounded_once():
    result = run("fused", lambda a, b, c: a * b - c, A, B, C).ravel().tolist()
    for a, b, c, fused in zip(A.ravel().tolist(), B.ravel().tolist(), C.ravel().tolist(), result, strict=True):
        exact = Fraction(a) * Fraction(b) - Fraction(c)
        assert abs(Fraction(fused) - exact) <= Fraction(float(np.spacing(np.float32(abs(fused))))) / 2
    assert not same_bits(np.array(result, np.float32).reshape(A.shape), A * B - C)


def test_a_product_added_in_place_is_fused():
    def kernel(a, b, c):
        total = c.copy()
        total += a * b
        return total

    exact = A.astype(np.float64) * B + C
    assert same_bits(run("fused", kernel, A, B, C), exact.astype(np.float32))


@pytest.mark.parametrize("name", [*FAULTS, *HARMLESS_CHANGES])
def test_every_fault_leaves_what_it_cannot_act_on(name):
    """Whole numbers, in the narrowest of the formats, that are only compared and moved."""
    x = np.arange(16, dtype=np.float32).reshape(1, 16)
    kernel = lambda x: np.maximum(x[:, ::-1], x).T  # noqa: E731
    assert same_bits(np.ascontiguousarray(run(name, kernel, x)), np.ascontiguousarray(kernel(x)))


def test_a_complex_number_is_no_epsilon():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_epsilon(np.complex64(1e-6 + 1e-6j))
    assert is_epsilon(np.float32(1e-6))


def test_a_fused_sum_is_rounded_once():
    """x y + z lies below the middle of two float32 by 2^-54, which float64 does not see."""
    x, y, z = (np.float32([value]) for value in (2.0**-12 + 2.0**-27, 2.0**-12 - 2.0**-27, 1 + 2.0**-23))
    for kernel in (lambda x, y, z: x * y + z, lambda x, y, z: z + x * y, lambda x, y, z: z - -x * y):
        assert run("fused", kernel, x, y, z) == z
    assert run("fused", lambda x, y, z: x * y - z, x, y, -z) == z


def test_complex_numbers_are_not_fused():
    kernel = lambda a, b, c: (a * b + 1j * c).imag  # noqa: E731
    assert same_bits(run("fused", kernel, A, B, C), kernel(A, B, C))
