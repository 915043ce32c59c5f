"""Evidence: bits, correlation and rest of a rewrite, against sums in exact rationals and numpy's own correlation."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from precreg.diagnose.evidence import error_to_explain, is_exact, measure_evidence, with_ordinary_rounding
from tests.diagnose.bases import normal

NUMBERS = st.floats(-100, 100, width=32)


def evidence(target, base, made):
    return measure_evidence(error_to_explain({"out": target}, {"out": base}), {"out": made})


@given(*(arrays(np.float32, 6, elements=NUMBERS) for _ in range(3)))
def test_counts_and_rest_are_those_of_exact_rationals(target, base, made):
    found = evidence(target, base, made)
    rows = [tuple(map(Fraction, map(float, row))) for row in zip(target, base, made, strict=True)]
    assert found.elements == 6
    assert found.differing == sum(t != b for t, b, _ in rows)
    assert found.reproduced == sum(t == m for t, _, m in rows)
    assert found.explained == sum(t == m != b for t, b, m in rows)
    wanted = sum((t - b) ** 2 for t, b, _ in rows)
    left = sum((t - m) ** 2 for t, _, m in rows)
    if wanted:
        assert found.remaining == pytest.approx(float(left / wanted) ** 0.5, rel=1e-9, abs=1e-12)


def test_the_correlation_is_that_of_the_errors():
    base, wanted, made = normal(500), normal(500, seed=1), normal(500, seed=2)
    made = wanted + made
    found = evidence(base + wanted, base, base + made)
    # Errors are small against nothing: float32 rounds both sums, so the figures agree to its precision.
    cosine = wanted @ made / np.sqrt((wanted @ wanted) * (made @ made))
    assert found.correlation == pytest.approx(float(cosine), rel=1e-5)


def test_the_same_bits_are_exact_and_leave_nothing():
    base = normal(50)
    target = base + np.float32(1)
    found = evidence(target, base, target.copy())
    assert is_exact(found)
    assert (found.remaining, found.correlation) == (0.0, 1.0)


def test_nan_equals_nan_and_nothing_else():
    base, target = np.array([1, 2, 3], np.float32), np.array([np.nan, 2, 3], np.float32)
    assert is_exact(evidence(target, base, target.copy()))
    found = evidence(target, base, np.array([np.inf, 2, 3], np.float32))
    assert (found.reproduced, found.explained) == (2, 0)
    assert found.remaining > 0


def test_numbers_at_the_ends_of_float64_have_a_rest():
    base = np.array([1e300, 1e-300, 0.0])
    target = np.array([1.5e300, 1e-300, 5e-324])
    found = evidence(target, base, np.array([1.5e300, 1e-300, 0.0]))
    assert found.explained == 1
    assert found.remaining == pytest.approx(0, abs=1e-12)


def test_each_output_counts_the_same_whatever_its_scale():
    base = {"large": normal(50) * np.float32(1e6), "small": normal(50, seed=1)}
    target = {"large": base["large"] + np.float32(1e3), "small": base["small"] + np.float32(1)}
    error = error_to_explain(target, base)
    only_large = measure_evidence(error, {**base, "large": target["large"]})
    only_small = measure_evidence(error, {**base, "small": target["small"]})
    assert only_large.remaining == pytest.approx(0.5**0.5, rel=1e-3)
    assert only_small.remaining == pytest.approx(0.5**0.5, rel=1e-3)


def test_an_output_that_only_the_rewrite_changes_is_not_explained():
    base = {"a": normal(50), "b": normal(50, seed=1)}
    target = {**base, "a": base["a"] + np.float32(1)}
    made = {"a": target["a"], "b": base["b"] + np.float32(1)}
    found = measure_evidence(error_to_explain(target, base), made)
    assert not is_exact(found)
    assert found.remaining == pytest.approx(1)


def test_ordinary_rounding_needs_no_explanation():
    base = {"wrong": normal(50), "right": normal(50, seed=1)}
    target = {
        "wrong": base["wrong"] + np.float32(1),
        "right": np.nextafter(base["right"], np.float32(9)).astype(np.float32),
    }
    made = {**base, "wrong": target["wrong"]}
    plain = error_to_explain(target, base)
    assert measure_evidence(plain, made).remaining == pytest.approx(0.5**0.5)
    assert measure_evidence(with_ordinary_rounding(plain), made).remaining < 0.2


def test_a_lost_output_explains_nothing():
    base = {"a": normal(5), "b": normal(5, seed=1)}
    target = {name: array + np.float32(1) for name, array in base.items()}
    found = measure_evidence(error_to_explain(target, base), {"a": target["a"]})
    assert (found.reproduced, found.remaining) == (0, float("inf"))


def test_complex_numbers_and_integers_have_errors_too():
    base = normal(20).astype(np.complex64)
    assert is_exact(evidence(base + np.complex64(1j), base, base + np.complex64(1j)))
    whole = np.arange(20)
    found = evidence(whole + 2, whole, whole + 1)
    assert (found.explained, found.remaining) == (0, 0.5)
