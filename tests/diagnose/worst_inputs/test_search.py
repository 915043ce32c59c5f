"""Searches of real cases find planted faults, and agree with exhaustive and published results."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precreg.arithmetic.exact import exact_ulp
from precreg.arithmetic.formats import FORMATS
from precreg.diagnose.worst_inputs.domain import DeclaredRange
from tests.diagnose.worst_inputs.made import drawn, found

PLANTED = """\
def subject(x):
    wide = np.exp2(x.astype(np.float64)).astype(x.dtype)
    return np.where(x.view(np.uint16) == {pattern}, wide * x.dtype.type(1.01), wide)


def exact(x):
    return np.exp2(x)
"""


@settings(max_examples=12)
@given(st.floats(-4, 4, width=16))
def test_a_fault_at_one_bit_pattern_of_float16_is_always_found(tmp_path_factory, value):
    pattern = int(np.float16(value).view(np.uint16))
    folder = tmp_path_factory.mktemp("planted")
    result = found(
        folder, PLANTED.format(pattern=pattern), 2**17, x=drawn([64, 64], "float16", "uniform: {low: -4, high: 4}")
    )
    search = result.search
    assert search.exhaustive
    assert search.strategy in ("exhaustive", "drawn", "random")
    assert search.error > 3
    assert search.values[0].bits == f"{pattern:04x}"
    assert search.trials == search.strategies[0].trials + 2 * 17409


def test_the_exhaustive_worst_error_is_that_of_exact_rationals(tmp_path):
    kernels = (
        "def subject(x):\n    return x / (np.float16(1) + abs(x))\n\n\ndef exact(x):\n    return x / (1 + abs(x))\n"
    )
    search = found(tmp_path, kernels, 2**17, x=drawn([1000], "float16", "uniform: {low: -2, high: 2}")).search
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    inside = every[np.abs(every) <= 2]
    worst = Fraction(0)
    for value, result in zip(inside, inside / (np.float16(1) + abs(inside)), strict=True):
        exact = Fraction(float(value)) / (1 + abs(Fraction(float(value))))
        worst = max(worst, abs(Fraction(float(result)) - exact) / exact_ulp(exact, FORMATS["float16"]))
    assert search.exhaustive
    assert search.error == pytest.approx(float(worst), rel=1e-9)


# Minimax-like polynomials of few bits: every operation is exact IEEE arithmetic, so the errors are the same everywhere.
ROUGH_LOG = """\
def subject(x):
    m, e = np.frexp(x)
    s = (m - np.float32(0.75)) / (m + np.float32(0.75))
    z = s * s
    odd = s * (np.float32(2) + z * (np.float32(0.66666) + z * np.float32(0.4)))
    return odd + np.float32(-0.28768207) + e.astype(np.float32) * np.float32(0.6931472)


def exact(x):
    return np.log(x)
"""


def test_a_search_reaches_the_worst_of_millions_of_numbers(tmp_path):
    search = found(
        tmp_path, ROUGH_LOG, 400_000, "max_abs_error", x=drawn([4096], "float32", "uniform: {low: 0.5, high: 1}")
    ).search
    patterns = np.arange(np.float32(0.5).view(np.uint32), np.float32(1.0).view(np.uint32) + 1, dtype=np.uint32)
    values = patterns.view(np.float32)
    namespace = {"np": np}
    exec(ROUGH_LOG, namespace)  # the kernels of the case
    errors = np.abs(namespace["subject"](values).astype(np.float64) - namespace["exact"](values.astype(np.float64)))
    # All 8,388,609 numbers of the range against 400,000 trials.
    assert search.error >= 0.999 * errors.max()
    assert search.ratio >= 1
    assert not search.exhaustive


def test_a_search_finds_the_zeros_where_range_reduction_fails(tmp_path):
    # Muller et al., Handbook of Floating-Point Arithmetic, 10.2: a multiple of a rounded pi loses all bits near zeros.
    kernels = (
        "def subject(x):\n    turns = np.rint(x / np.float32(np.pi))\n"
        "    rest = x - turns * np.float32(np.pi)\n"
        "    return np.where(turns % 2, -np.sin(rest), np.sin(rest)).astype(x.dtype)\n\n\n"
        "def exact(x):\n    return np.sin(x)\n"
    )
    search = found(tmp_path, kernels, 60_000, x=drawn([512], "float32", "uniform: {low: 0, high: 1000}")).search
    assert search.error > 1e5
    assert search.ratio >= 1
    (worst,) = search.values
    turns = worst.value / np.pi
    assert abs(turns - round(turns)) < 1e-4


VARIANCE = """\
def subject(x):
    return (x * x).mean(-1) - x.mean(-1) ** 2


def exact(x):
    return x.var(-1)
"""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_planted_cancellation_is_found(tmp_path, seed):
    search = found(
        tmp_path, VARIANCE, 6000, "max_rel_error", x=drawn([16, 32], "float32", "normal: {}"), seed=seed
    ).search
    assert search.error > 1
    assert search.ratio > 1e4
    assert search.trial_shape == (16,)


def test_a_difference_of_squares_of_two_inputs_is_worst_for_equal_sizes(tmp_path):
    kernels = "def subject(x, y):\n    return x * x - y * y\n\n\nexact = subject\n"
    search = found(
        tmp_path,
        kernels,
        20_000,
        x=drawn([64], "float32", "uniform: {low: 1, high: 2}"),
        y=drawn([64], "float32", "uniform: {low: 1, high: 2}"),
    ).search
    assert search.error > 1e6
    x, y = (value.value for value in search.values)
    assert x == pytest.approx(y, rel=1e-6)


def test_a_sum_in_float16_stops_growing(tmp_path):
    kernels = (
        "def subject(x):\n    return np.add.accumulate(x, axis=-1, dtype=x.dtype)[..., -1]\n\n\n"
        "def exact(x):\n    return x.sum(-1)\n"
    )
    search = found(tmp_path, kernels, 1500, x=drawn([8, 3000], "float16", "normal: {std: 0.1}")).search
    # 3000 equal terms end at 2048 of them: an error of about 952 / 2048 of the sum.
    assert search.error > 500
    assert search.ratio > 5


def test_equal_seeds_and_trials_give_equal_searches(tmp_path):
    inputs = {"x": drawn([64], "float32", "uniform: {low: 1, high: 2}")}
    kernels = "def subject(x):\n    return np.log(x)\n\n\nexact = subject\n"
    one, two = (found(tmp_path, kernels, 20_000, **inputs) for _ in range(2))
    assert one.search.error == two.search.error
    assert one.search.strategies == two.search.strategies
    assert one.search.random == two.search.random
    assert one.inputs["x"].tobytes() == two.inputs["x"].tobytes()


def test_the_arrays_found_have_the_error_at_the_place(tmp_path):
    kernels = "def subject(x):\n    return np.sqrt(x) - np.float32(1)\n\n\ndef exact(x):\n    return np.sqrt(x) - 1\n"
    result = found(tmp_path, kernels, 5000, x=drawn([8, 16], "float32", "uniform: {low: 0, high: 4}"))
    search, x = result.search, result.inputs["x"]
    assert x.shape == (8, 16)
    assert x.min() >= 0
    assert x.max() <= 4
    value = x[search.place]
    assert search.values[0].value == float(value)
    assert search.actual == float(np.sqrt(value) - np.float32(1))
    assert search.exact == float(np.sqrt(np.float64(value)) - 1)
    # The rest of the arrays has other inputs with large errors.
    errors = np.abs((np.sqrt(x) - np.float32(1)) - (np.sqrt(x.astype(np.float64)) - 1))
    assert np.count_nonzero(errors) > 100


def test_calls_that_fail_are_counted_and_the_search_goes_on(tmp_path):
    kernels = (
        "def subject(x):\n    if (x == 0).any():\n        raise ZeroDivisionError('a zero')\n    return 1 / x\n\n\n"
        "def exact(x):\n    return 1 / x\n"
    )
    search = found(tmp_path, kernels, 3000, x=drawn([16], "float32", "normal: {}")).search
    assert search.failed_calls > 0
    assert "a zero" in search.failure
    assert search.error > 0


def test_infinite_errors_leave_the_largest_finite_one_visible(tmp_path):
    kernels = (
        "def subject(x):\n    return np.square(x) / x\n\n\ndef exact(x):\n    return np.where(x == 0, np.nan, x)\n"
    )
    ranges = {"x": DeclaredRange(-1e30, 1e30, has_nan=False)}
    search = found(tmp_path, kernels, 4000, x=drawn([16], "float32", "normal: {}"), ranges=ranges).search
    assert search.error == float("inf")
    assert 0 < search.finite_error < float("inf")
    assert search.ranges[0].origin == "declared"


def test_nan_and_infinity_are_tried_only_if_declared(tmp_path):
    kernels = (
        "def subject(x):\n    return np.where(np.isfinite(x), x, 0).astype(x.dtype)\n\n\ndef exact(x):\n    return x\n"
    )
    inputs = {"x": drawn([2048], "float16", "normal: {}")}
    inside = found(tmp_path, kernels, 2**17, **inputs).search
    assert (inside.error, inside.exhaustive) == (0.0, True)
    declared = {"x": DeclaredRange(-float("inf"), float("inf"), has_nan=True)}
    outside = found(tmp_path, kernels, 2**17, ranges=declared, **inputs).search
    assert outside.error == float("inf")
    assert outside.values[0].value in ("inf", "-inf", "nan")
