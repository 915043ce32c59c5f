"""Approximated functions: how near they come to mpmath's, and that more terms, steps or entries come nearer."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest

from precreg.arithmetic.devices.device import FUNCTION_METHODS, Approximation, Elementwise
from precreg.arithmetic.devices.elementwise import approximate_function
from precreg.arithmetic.formats import FORMATS, Rounding

SINGLE, DOUBLE = Elementwise(FORMATS["float32"]), Elementwise(FORMATS["float64"])
ROUNDOFF = 2.0**-24
ENOUGH = {
    "exp": 9, "exp2": 9, "log": 6, "log2": 6, "sin": 6, "cos": 6, "tanh": 10, "divide": 4, "reciprocal": 4, "sqrt": 5,
}  # fmt: skip
"""Terms or steps after which what is left out is below half an ulp of float32."""

WAYS = [(name, method) for name, methods in FUNCTION_METHODS.items() for method in methods]


def arguments(name, count=150):
    draw = np.random.default_rng(len(name))
    drawn = draw.uniform(-8, 8, count).astype(np.float32)
    if name in ("log", "log2", "sqrt"):
        drawn = np.ldexp(np.abs(drawn), draw.integers(-90, 90, count)).astype(np.float32)
    if name == "divide":
        return drawn, np.ldexp(drawn[::-1], draw.integers(-90, 90, count)).astype(np.float32)
    return (drawn,)


def exact(name, *values):
    """Return mpmath's function of numbers, to 80 digits."""
    function = {
        "exp2": lambda x: mpmath.mpf(2) ** x,
        "log2": lambda x: mpmath.log(x) / mpmath.log(2),
        "divide": lambda x, y: x / y,
        "reciprocal": lambda x: 1 / x,
    }.get(name) or getattr(mpmath, name)
    with mpmath.workdps(80):
        return [function(*(mpmath.mpf(float(x)) for x in numbers)) for numbers in zip(*values, strict=True)]


def worst(name, way, working, values):
    """Return the largest error: relative, or absolute where the function goes through zero between the arguments."""
    near = approximate_function(name, values, way, working)
    floor = 1 if name in ("sin", "cos", "log", "log2") else 0
    pairs = zip(near, exact(name, *values), strict=True)
    return max(float(abs(mpmath.mpf(float(a)) - r) / max(abs(r), floor)) for a, r in pairs)


@pytest.mark.parametrize("name", FUNCTION_METHODS)
def test_with_enough_terms_or_steps_only_the_roundings_are_left(name):
    way = Approximation(FUNCTION_METHODS[name][0], ENOUGH[name])
    error = worst(name, way, SINGLE, arguments(name))
    assert ROUNDOFF / 2 < error < 5 * ROUNDOFF
    much = Approximation(way.method, {"polynomial": 2 * way.size, "newton": way.size + 1}[way.method])
    assert worst(name, much, DOUBLE, arguments(name)) < 2e-14


@pytest.mark.parametrize(("name", "method"), WAYS)
def test_fewer_are_less_exact(name, method):
    sizes = {"polynomial": (1, 2, 3, 4), "newton": (0, 1, 2, 3), "table": (8, 32, 128, 512)}[method]
    errors = [worst(name, Approximation(method, size), DOUBLE, arguments(name)) for size in sizes]
    assert all(later < earlier / 3 for earlier, later in pairwise(errors)), errors


def test_what_is_left_out_is_what_the_series_leaves_out():
    """exp by 4 terms: at most r^4 / 4! relative to exp(r), with |r| <= ln(2) / 2."""
    error = worst("exp", Approximation("polynomial", 4), DOUBLE, arguments("exp"))
    assert (np.log(2) / 2) ** 4 / 24 / 3 < error < (np.log(2) / 2) ** 4 / 24 * np.sqrt(2)


def test_a_table_errs_by_the_curvature_between_its_entries():
    """Linear interpolation: h^2 / 8 of the second derivative; exp itself, relative to it."""
    error = worst("exp", Approximation("table", 64), DOUBLE, arguments("exp"))
    assert error == pytest.approx((0.7 / 64) ** 2 / 8, rel=0.1)


@pytest.mark.parametrize(("name", "method"), WAYS)
def test_zeros_infinities_and_nan_are_numpys(name, method):
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.5, 1.5], np.float32)
    values = tuple(part.ravel() for part in np.meshgrid(values, values)) if name == "divide" else (values,)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*(value.astype(np.float64) for value in values))
    near = approximate_function(name, values, Approximation(method, 3 if method == "newton" else 64), SINGLE)
    assert np.array_equal(np.isnan(near), np.isnan(expected))
    special = ~np.isfinite(expected) | (expected == 0)
    assert np.array_equal(np.signbit(near[special]), np.signbit(expected[special]))
    assert np.array_equal(near[special], expected[special], equal_nan=True)
    assert np.allclose(near[~special], expected[~special], rtol=0.02, atol=0.02)


def test_every_step_is_rounded_to_the_working_format():
    """Six bits at each step, cut off: too small by up to one of the last place for each of the steps."""
    working = Elementwise(FORMATS["float8_e3m4"], Rounding.TOWARD_ZERO)
    near = approximate_function(
        "exp", (np.linspace(0.02, 0.3, 50, dtype=np.float32),), Approximation("polynomial", 6), working
    )
    assert np.array_equal(near * 16, np.rint(near * 16)), "five bits of significand"
    assert np.all(near <= np.exp(np.linspace(0.02, 0.3, 50)))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_angles_are_reduced_as_small_ones_are(name):
    """Near multiples of pi / 2, too, where all of the sine is what the reduction leaves."""
    sizes = np.array([1e3, 1e5, 1e7, 1e12, 1e20, 1e30, 3e38])
    angles = (np.concatenate([sizes, np.rint(sizes[:3] / np.pi) * np.pi, [11.0, 355.0, 51819.0]])).astype(np.float32)
    near = approximate_function(name, (angles,), Approximation("polynomial", ENOUGH[name]), SINGLE)
    for value, expected in zip(near, exact(name, angles), strict=True):
        assert abs(mpmath.mpf(float(value)) - expected) < 5 * ROUNDOFF * abs(expected)


def test_odd_and_even_functions_stay_so():
    x = arguments("tanh")[0]
    for name, sign in (("sin", -1), ("tanh", -1), ("cos", 1)):
        for way in (Approximation("polynomial", 5), Approximation("table", 64)):
            left, right = (approximate_function(name, (value,), way, SINGLE) for value in (-x, x))
            if name != "cos" and way.method == "polynomial":
                assert np.array_equal(left, sign * right)
            assert np.allclose(left, sign * right, atol=1e-3)
