import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.suite.inputs.distributions import evaluate_polynomial, portable_exp2, portable_log, portable_log2

mpmath.mp.prec = 160
POSITIVE = st.floats(5e-324, 1.7e308)


def error_in_ulp(actual, exact):
    """Return |actual - exact| in units of the spacing of float64 at the actual number."""
    return float(abs(mpmath.mpf(float(actual)) - exact) / mpmath.mpf(float(np.spacing(abs(actual)))))


@given(POSITIVE)
def test_log_is_within_4_ulp(x):
    assert error_in_ulp(portable_log(np.array([x]))[0], mpmath.log(x)) < 4


@given(st.floats(0.5, 2.0))
def test_log_is_within_4_ulp_around_one(x):
    assert error_in_ulp(portable_log(np.array([x]))[0], mpmath.log(x)) < 4


@given(POSITIVE)
def test_log2_is_within_5_ulp(x):
    assert error_in_ulp(portable_log2(np.array([x]))[0], mpmath.log(x, 2)) < 5


@given(st.floats(-1022, 1023.9))
def test_exp2_is_within_2_ulp(x):
    assert error_in_ulp(portable_exp2(np.array([x]))[0], mpmath.power(2, x)) < 2


def test_powers_of_two_are_exact():
    exponents = np.arange(-1022.0, 1024.0)
    np.testing.assert_array_equal(portable_exp2(exponents), [2.0 ** int(k) for k in exponents])
    np.testing.assert_array_equal(portable_log2(portable_exp2(exponents)), exponents)


@pytest.mark.parametrize("count", [2, 3, 8, 11])
def test_polynomials_are_evaluated_at_once(count):
    coefficients = np.arange(1.0, 2 * count + 1).reshape(count, 2, 1)
    x = np.array([0.0, 1.0, -2.0, 0.5])
    expected = [[sum(c * v**k for k, c in enumerate(coefficients[:, row, 0])) for v in x] for row in (0, 1)]
    np.testing.assert_array_equal(evaluate_polynomial(x, coefficients), expected)
