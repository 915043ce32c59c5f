"""Short series and short iterations are as wrong as the table says, against numpy's float64 and mpmath."""

import math

import mpmath
import numpy as np
import pytest

from precreg.arithmetic.faults.results import short_exp, short_log, short_sin, short_tanh
from tests.arithmetic.faults.planting import run, same_bits

SERIES = {
    "exp": (short_exp, np.exp, np.linspace(-80, 80, 20001)),
    "log": (short_log, np.log, np.geomspace(1.42, 1e30, 20001)),
    "tanh": (short_tanh, np.tanh, np.linspace(0.01, 9, 20001)),
    "sin": (short_sin, np.sin, np.linspace(0.01, 3.13, 20001)),
}


@pytest.mark.parametrize("name", SERIES)
def test_a_series_is_a_term_short(name):
    """More than a unit of float32 (6e-8) off, and no more than the table says."""
    short, true, x = SERIES[name]
    worst = np.max(np.abs(short(x) - true(x)) / np.abs(true(x)))
    assert 2e-7 < worst < 5.1e-6


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sin", "cos"])
def test_series_beside_mpmath(name):
    function = getattr(np, name)
    x = np.array([0.3, 0.8, 1.4, 2.6, *([1e5, 1e20, 3e38] if name in ("sin", "cos") else [])], np.float32)
    result = run("fewer_terms", function, x)
    with mpmath.workdps(80):
        exact = [float(getattr(mpmath, name)(mpmath.mpf(float(value)))) for value in x]
    np.testing.assert_allclose(result, exact, rtol=6e-6)
    assert result.dtype == np.float32
    assert not same_bits(result, function(x))


def test_special_values_stay():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    for fault, function in (("fewer_terms", np.exp), ("fewer_terms", np.tanh), ("fewer_newton_steps", np.sqrt)):
        with np.errstate(all="ignore"):
            assert same_bits(run(fault, function, x), function(x))
    with np.errstate(all="ignore"):
        assert same_bits(run("fewer_newton_steps", lambda x: 1 / x, x), 1 / x)


def test_two_steps_of_newton():
    x = np.geomspace(1e-30, 1e30, 20001)
    for kernel, worst in ((lambda x: 3 / x, 1.2e-5), (lambda x: -x / 7, 1.2e-5), (np.sqrt, 1.5e-6)):
        errors = np.abs(run("fewer_newton_steps", kernel, x) - kernel(x)) / np.abs(kernel(x))
        assert errors.max() <= 1.05 * worst
    assert np.max(np.abs(run("fewer_newton_steps", np.sqrt, x) / np.sqrt(x) - 1)) > 1e-6


def test_another_library_rounds_once():
    x = np.linspace(0.1, 5, 300, dtype=np.float32)
    expected = np.array([np.float32(math.exp(float(value))) for value in x])
    assert same_bits(run("another_library", np.exp, x), expected)
