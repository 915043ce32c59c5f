"""Bounds of rounding errors: never below errors against exact rationals and mpmath, and equal to published values."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from precreg.arithmetic.formats import FORMATS, numpy_dtype
from precreg.shadow import Detail, Recorder
from precreg.shadow.numpy import NumpyEngine
from precreg.shadow.numpy.bounds import own_bound

DTYPES = ["float16", "bfloat16", "float32", "float64"]


def watched(function, *inputs):
    """Return the recorder, the steps of the tape, the output and its bound relative to its error."""
    recorder = Recorder(Detail.OWN)
    recorder.has_bounds = True
    engine = NumpyEngine(recorder)
    with np.errstate(all="ignore"), engine:
        out = function(*map(engine.wrap, inputs))
        shares = engine.shares({"out": out})
    for output, found in shares.items():
        recorder.set_shares(output, found)
    return recorder, [step for step, _ in engine.tape.steps], engine.unwrap(out), engine.shadow_of(out)


def last_bound(function, *inputs):
    """Return the result of a function of one rounding operation, and the bound of each element."""
    _, steps, out, _ = watched(function, *inputs)
    return np.asarray(out), own_bound(steps[-1], steps[-1].written[0])


def exact(array):
    return [Fraction(float(each)) for each in np.asarray(array, np.float64).ravel()]


def requires_within(result, bound, wanted):
    """Compare each element's error with its bound, in exact rationals."""
    assert bound is not None
    for value, limit, right in zip(np.ravel(result), np.ravel(bound), wanted, strict=True):
        if np.isfinite(np.float64(value)):
            assert abs(Fraction(float(value)) - right) <= Fraction(float(limit))


def numbers(dtype, size, scale=None):
    largest = scale or min(FORMATS[dtype].largest, 1e30) ** 0.25
    floats = st.floats(-largest, largest, allow_subnormal=False)
    return arrays.arrays(np.float64, size, elements=floats).map(lambda array: array.astype(numpy_dtype(dtype)))


@given(st.sampled_from(DTYPES), st.sampled_from(["sequential", "numpy", "axis0"]), st.data())
def test_sums_stay_within_the_bound_of_exact_rationals(dtype, order, data):
    x = data.draw(numbers(dtype, (3, data.draw(st.integers(1, 40)))))
    if order == "axis0":
        result, bound = last_bound(lambda x: np.sum(x, axis=0), x.T.copy())
    elif order == "numpy":
        result, bound = last_bound(lambda x: x.sum(axis=-1), x)
    else:
        result, bound = last_bound(lambda x: np.add.accumulate(x, axis=-1), x)
        result, bound = result[:, -1], None if bound is None else bound[:, -1]
    requires_within(result, bound, [sum(exact(row)) for row in x])


@given(st.sampled_from(["float16", "float32"]), st.data())
def test_sums_into_a_narrower_dtype_stay_within_the_bound(dtype, data):
    x = data.draw(numbers("float64", 20, 100.0))
    result, bound = last_bound(lambda x: np.sum(x, dtype=dtype), x)
    requires_within(result, bound, [sum(exact(x))])


@given(st.sampled_from(DTYPES), st.data())
def test_means_and_products_stay_within_the_bound_of_exact_rationals(dtype, data):
    size = data.draw(st.integers(1, 30))
    x, y = data.draw(numbers(dtype, (2, size))), data.draw(numbers(dtype, (size, 3)))
    result, bound = last_bound(lambda x: x.mean(axis=-1), x)
    requires_within(result, bound, [sum(exact(row)) / size for row in x])
    if dtype == "bfloat16":
        return  # ml_dtypes has no product of matrices
    result, bound = last_bound(lambda x, y: x @ y, x, y)
    columns = [exact(column) for column in y.T]
    wanted = [sum(a * b for a, b in zip(exact(row), column, strict=True)) for row in x for column in columns]
    requires_within(result, bound, wanted)
    result, bound = last_bound(lambda x, y: np.einsum("ij,jk->ik", x, y), x, y)
    requires_within(result, bound, wanted)


OPERATIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
}


@given(st.sampled_from(DTYPES), st.sampled_from([*OPERATIONS]), st.data())
def test_elementary_operations_stay_within_half_a_unit(dtype, name, data):
    a, b = data.draw(numbers(dtype, 8)), data.draw(numbers(dtype, 8))
    if name == "divide":
        b = np.where(b == 0, np.ones_like(b), b)
    result, bound = last_bound(OPERATIONS[name], a, b)
    requires_within(result, bound, [OPERATIONS[name](p, q) for p, q in zip(exact(a), exact(b), strict=True)])
    size = np.abs(result.astype(np.float64))
    ordinary = np.isfinite(size) & (size > 0.1)
    assert np.all(bound[ordinary] <= 1.01 * FORMATS[dtype].unit_roundoff * size[ordinary])


@given(st.sampled_from(["float16", "float32"]), st.sampled_from([*OPERATIONS]), st.floats(0.01, 10), st.data())
def test_the_rounding_of_a_constant_counts(dtype, name, constant, data):
    a = data.draw(numbers(dtype, 8))
    result, bound = last_bound(lambda a: OPERATIONS[name](a, constant), a)
    requires_within(result, bound, [OPERATIONS[name](each, Fraction(constant)) for each in exact(a)])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tanh", "log1p", "expm1", "cbrt", "sqrt", "square"])
def test_functions_stay_within_their_bound_of_mpmath(dtype, name):
    x = np.abs(np.random.default_rng(3).standard_normal(300) * 3).astype(dtype) + np.array(0.01, dtype)
    result, bound = last_bound(lambda x: getattr(np, name)(x), x)
    right = mpmath.mp.clone() if hasattr(mpmath.mp, "clone") else mpmath.mp
    with right.workdps(40):
        functions = {"square": lambda v: v * v, "cbrt": right.cbrt, "log1p": lambda v: right.log(1 + v)}
        function = functions.get(name, getattr(right, name, None))
        for value, given_, limit in zip(result, x, bound, strict=True):
            assert abs(right.mpf(float(value)) - function(right.mpf(float(given_)))) <= right.mpf(float(limit))


def test_the_bound_of_a_sum_is_highams_for_any_order():
    x = np.ones(101, np.float32)
    _, steps, _, _ = watched(lambda x: x.copy().sum(), x)
    found = own_bound(steps[-1], steps[-1].written[0])
    # Higham, 4.4: (n - 1) u sum |x|.
    assert float(found) == pytest.approx(100 * 2.0**-24 * 101, rel=1e-12)
    y = np.full((1, 50), 2.0, np.float32)
    _, steps, _, _ = watched(lambda y: y.copy() @ y.copy().T, y)
    # Higham, 3.5: n u |x| |y|, without the denominator 1 - n u.
    (found,) = own_bound(steps[-1], steps[-1].written[0]).ravel()
    assert found == pytest.approx(50 * 2.0**-24 * 200, rel=1e-6)


@given(st.sampled_from(["float16", "float32"]), st.integers(0, 10**6))
def test_a_chain_stays_within_its_bound(dtype, seed):
    x = np.random.default_rng(seed).standard_normal((4, 24)).astype(dtype)

    def normalized(x):
        centered = x - x.mean(-1, keepdims=True)
        return centered / np.sqrt((centered * centered).mean(-1, keepdims=True))

    recorder, _, out, shadow = watched(normalized, x)
    error = float(np.linalg.norm(np.asarray(out, np.float64) - shadow))
    times = recorder.output_bounds["out"]
    assert times >= 1.0
    # A bound of worst cases, and yet no number without meaning: errors of 24 terms are far below 100 units.
    assert times * error / np.linalg.norm(shadow) < 100 * FORMATS[dtype].unit_roundoff
    for operation in recorder.operations:
        assert operation.bound is not None
        assert operation.own.relative <= operation.bound * (1 + 4 * FORMATS[dtype].unit_roundoff)


def test_an_operation_without_a_bound_leaves_the_output_without_one():
    x = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    recorder, *_ = watched(lambda x: np.linalg.inv(x * x), x)
    assert "out" not in recorder.output_bounds
    bounds = {operation.name: operation.bound for operation in recorder.operations}
    assert bounds["multiply"] is not None
    assert bounds["inv"] is None


def test_a_plain_trace_has_no_bounds():
    recorder = Recorder(Detail.OWN)
    engine = NumpyEngine(recorder)
    with engine:
        out = engine.wrap(np.ones(5, np.float32)) * 0.1
        engine.shares({"out": out})
    assert recorder.operations[0].bound is None
    assert recorder.output_bounds == {}
    step, _ = engine.tape.steps[0]
    assert step.written[0].kept_result is None
