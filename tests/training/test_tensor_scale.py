"""Losses of per-tensor scales equal conversions by ml_dtypes, and each scaling takes the scale that it describes."""

from math import inf, nan

import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic import format_named
from precreg.training.magnitudes import format_limits
from precreg.training.tensor_scale import highest_exponent, sweep_tensor_scales, take_sample
from tests.training.steps import MadeStep

RANDOM = np.random.default_rng(8)
DTYPES = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


def swept(*arrays, format="float8_e4m3fn", **settings):
    steps = [MadeStep(number, {"w": np.asarray(each)}) for number, each in enumerate(arrays)]
    (tensor,) = sweep_tensor_scales(steps, format, **settings).tensors
    return tensor


def converted(values, scale, format):
    """Return (zero, beyond, error energy) of a saturating conversion by ml_dtypes."""
    largest = float(ml_dtypes.finfo(DTYPES[format]).max)
    with np.errstate(over="ignore", invalid="ignore"):
        plain = (values * scale).astype(DTYPES[format]).astype(np.float64)
    is_beyond = ~np.isfinite(plain)
    result = np.where(is_beyond, np.copysign(largest, values), plain) / scale
    energy = ((result - values) ** 2).sum() / (values**2).sum()
    return np.count_nonzero((plain == 0) & (values != 0)), np.count_nonzero(is_beyond), energy


@pytest.mark.parametrize("format", DTYPES)
def test_constant_scales_equal_conversions(format):
    values = RANDOM.standard_normal(2000) * 10.0 ** RANDOM.integers(-6, 3, 2000)
    tensor = swept(values, format=format)
    for exponent, loss in zip(tensor.exponents, tensor.constant, strict=True):
        zero, beyond, energy = converted(values, 2.0**exponent, format)
        assert (loss.zero, loss.beyond) == (zero, beyond)
        assert loss.error_energy == pytest.approx(energy, rel=1e-9)
    errors = {e: loss.error_energy for e, loss in zip(tensor.exponents, tensor.constant, strict=True)}
    assert tensor.best == min(errors, key=errors.get)


@pytest.mark.parametrize("format", DTYPES)
def test_scalings_use_the_scales_that_they_describe(format):
    largest = float(ml_dtypes.finfo(DTYPES[format]).max)
    first, second, third = (RANDOM.standard_normal(500) * size for size in (1e-4, 3e-4, 1e-5))
    tensor = swept(first, second, third, format=format, history=1, margin=1)
    maxima = [np.abs(each).max() for each in (first, second, third)]
    delayed = [1.0, largest / maxima[0] / 2, largest / maxima[1] / 2]
    for scaling, scales in {
        "unscaled": [1.0] * 3,
        "amax": [largest / each for each in maxima],
        "delayed": delayed,
    }.items():
        parts = [converted(v, s, format) for v, s in zip((first, second, third), scales, strict=True)]
        found = tensor.scalings[scaling]
        assert (found.zero, found.beyond) == (sum(p[0] for p in parts), sum(p[1] for p in parts))


def test_delayed_scaling_overflows_where_a_tensor_grows():
    calm, loud = np.full(100, 1e-3), np.full(100, 1.0)
    tensor = swept(calm, loud, loud)
    assert tensor.scalings["amax"].beyond == 0
    assert tensor.scalings["delayed"].beyond == 100
    # A margin of 10 doublings covers the growth.
    assert swept(calm, loud, loud, margin=10).scalings["delayed"].beyond == 0


def test_a_long_history_keeps_a_large_element():
    arrays = [np.array([1.0]), np.array([1e-6]), np.array([1e-6])]
    short, long = swept(*arrays, history=1), swept(*arrays, history=2)
    # At 448 times 1e-6 becomes zero. The history of one step has forgotten the 1.0 in the third step.
    assert (short.scalings["delayed"].zero, long.scalings["delayed"].zero) == (1, 2)


@pytest.mark.parametrize(
    ("largest", "format", "exponent"),
    [(448.0, "e4m3fn", 0), (464.0, "e4m3fn", 0), (464.1, "e4m3fn", -1), (65519.0, "float16", 0), (1.0, "e5m2", 15)],
)
def test_the_highest_power_of_two(largest, format, exponent):
    assert highest_exponent(largest, format_limits(format_named(format)).beyond) == exponent


def test_zeros_and_elements_without_a_number():
    tensor = swept(np.zeros(3), np.array([nan, inf, 0.0]))
    assert (tensor.best, tensor.nonzero, tensor.nonfinite) == (None, 0, 2)
    assert {loss.error_energy for loss in tensor.scalings.values()} == {0.0}


def test_a_large_tensor_is_sampled_with_its_true_largest_element():
    values = np.full(10_000, 0.5)
    values[1234] = 100.0
    tensor = swept(values, elements=100)
    assert (tensor.elements, tensor.measured, tensor.largest) == (10_000, 100, 100.0)
    assert (take_sample(values, 100) == take_sample(values, 100)).all()
    assert (take_sample(values, 10_000) == values).all()
