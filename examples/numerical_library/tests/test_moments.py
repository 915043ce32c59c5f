"""The tests that the library had before precreg, and one that uses the fixture `precision`."""

import numpy as np
import pytest

from moments import correlation, mean, variance


@pytest.fixture
def samples():
    return np.random.default_rng(0).normal(10, 1, size=(8, 500))


def test_mean(samples):
    np.testing.assert_allclose(mean(samples), np.mean(samples, axis=-1), rtol=1e-9)


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-4), ("float64", 1e-9)])
def test_variance(samples, dtype, rtol):
    np.testing.assert_allclose(variance(samples.astype(dtype)), np.var(samples, axis=-1), rtol=rtol)


def test_correlation_of_a_sample_with_itself_is_one(samples):
    np.testing.assert_allclose(correlation(samples, samples), 1, rtol=1e-9)


def draw(rng):
    x, noise = rng.normal(10, 1, size=(2, 32, 500))
    return {"x": x.astype(np.float32), "y": (x + noise).astype(np.float32)}


def wide_correlation(x, y):
    return correlation(x.astype(np.float64), y.astype(np.float64))


def test_correlation_is_as_precise_as_before(precision):
    precision.check(correlation, reference=wide_correlation, inputs=draw, rtol=1e-4)
