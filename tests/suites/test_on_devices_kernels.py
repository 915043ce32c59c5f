"""The operators of devices and their references, which take other formulas, are in float64 what mpmath computes."""

import mpmath
import numpy as np
import pytest

from tests.suites.kernel_files import load

OPERATORS = load("unit/kernels/on_devices")
X = np.random.default_rng(5).normal(1, 2, (3, 7))


def dot(row, column):
    return mpmath.fsum(a * b for a, b in zip(row, column, strict=True))


def normalized(row):
    mean = mpmath.fsum(row) / len(row)
    variance = mpmath.fsum((value - mean) ** 2 for value in row) / len(row)
    return [(value - mean) / mpmath.sqrt(variance + mpmath.mpf(1) / 64) for value in row]


def shares(row):
    powers = [mpmath.exp(value) for value in row]
    return [power / mpmath.fsum(powers) for power in powers]


@pytest.mark.parametrize("form", ["product", "exact_product"])
def test_a_product_is_the_sum_of_products(form):
    found = getattr(OPERATORS, form)(X, X.T)
    with mpmath.workdps(30):
        np.testing.assert_allclose(found, [[float(dot(a, b)) for b in X] for a in X], rtol=1e-14)


@pytest.mark.parametrize("form", ["layer_norm", "exact_layer_norm"])
def test_a_normalized_row_has_mean_0_and_variance_1(form):
    found = getattr(OPERATORS, form)(X, eps=1 / 64)
    with mpmath.workdps(30):
        np.testing.assert_allclose(found, [[float(value) for value in normalized(row)] for row in X], rtol=1e-13)


@pytest.mark.parametrize("form", ["softmax", "exact_softmax"])
def test_a_softmax_is_the_share_of_each_power_of_e(form):
    found = getattr(OPERATORS, form)(X)
    with mpmath.workdps(30):
        np.testing.assert_allclose(found, [[float(value) for value in shares(row)] for row in X], rtol=1e-14)
