"""The kernels of studies against rational arithmetic, and what their study finds on this machine."""

from fractions import Fraction
from math import isclose, prod

import numpy as np
import pytest

from tests.suites.kernel_files import load

GROWTH, FORMS = load("unit/kernels/error_growth"), load("unit/kernels/optimisations")


def drawn(*shape, low, high, seed=3):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def test_a_chain_of_products_is_rounded_once_an_operation():
    x, factors = drawn(2, 4, 4, low=1, high=2), drawn(3, 2, 4, 4, low=0.75, high=1.25)
    found = GROWTH.chain(x, factors, operation="multiply")
    for place in np.ndindex(x.shape):
        value = x[place]
        for factor in factors:
            value = np.float32(float(value) * float(factor[place]))  # exact in float64, then rounded
        assert found[place] == value


@pytest.mark.parametrize("operation", ["multiply", "matmul"])
def test_the_exact_chain_is_exact_enough(operation):
    x, factors = drawn(1, 4, 4, low=1, high=2), drawn(6, 1, 4, 4, low=0.75, high=1.25)
    found = GROWTH.exact_chain(x.astype(np.float64), factors.astype(np.float64), operation=operation)[0]
    whole = [[Fraction(float(value)) for value in row] for row in x[0]]
    for factor in factors[:, 0]:
        rows = [[Fraction(float(value)) for value in row] for row in factor]
        if operation == "multiply":
            whole = [[a * b for a, b in zip(*pair, strict=True)] for pair in zip(whole, rows, strict=True)]
        else:
            columns = list(zip(*whole, strict=True))
            whole = [[sum(a * b for a, b in zip(row, column, strict=True)) / 4 for column in columns] for row in rows]
    assert all(
        isclose(value, exact, rel_tol=1e-14)
        for value, exact in zip(found.flat, (float(value) for row in whole for value in row), strict=True)
    )
    assert np.allclose(GROWTH.chain(x, factors, operation=operation)[0], found, rtol=1e-6, atol=0)


@pytest.mark.parametrize("form", FORMS.FORMS)
def test_every_form_is_the_weighted_sum(form):
    x, weights = drawn(5, 48, low=-1, high=1), drawn(48, low=0.5, high=1.5)
    found = FORMS.weighted_sum(x, weights, scale=2.5, optimisation=form)
    exact = [
        float(
            sum(prod((Fraction(float(a)), Fraction(float(w)))) for a, w in zip(row, weights, strict=True))
            / Fraction(5, 2)
        )
        for row in x
    ]
    assert found.dtype == np.float32
    assert np.allclose(found, exact, rtol=0, atol=2e-2 if form == "fp16" else 3e-6)
    wide = FORMS.exact_weighted_sum(x.astype(np.float64), weights.astype(np.float64), scale=2.5, optimisation=form)
    assert np.allclose(wide, exact, rtol=0, atol=1e-14)


def test_merged_access_has_the_bits_of_the_plain_form_and_the_others_have_not():
    x, weights = drawn(64, 256, low=-1, high=1), drawn(256, low=0.5, high=1.5)
    found = {form: FORMS.weighted_sum(x, weights, scale=3.7, optimisation=form).tobytes() for form in FORMS.FORMS}
    assert [form for form, bits in found.items() if bits == found["none"]] == ["none", "merged_access"]


def test_eight_partial_sums_are_more_precise_than_one():
    x, weights = drawn(256, 1024, low=-1, high=1), drawn(1024, low=0.5, high=1.5)
    exact = FORMS.exact_weighted_sum(x.astype(float), weights.astype(float), scale=3.7, optimisation="none")
    errors = {
        form: np.abs(FORMS.weighted_sum(x, weights, scale=3.7, optimisation=form) - exact).mean()
        for form in ("none", "unrolled", "fp16")
    }
    assert errors["unrolled"] < 0.6 * errors["none"]
    assert errors["fp16"] > 1000 * errors["none"]
