"""Recorded calls of numpy: they repeat bit by bit, and exact runs agree with mpmath."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.diagnose.reduction.numpy_chain import NumpyChain
from precreg.diagnose.reduction.steps import ExactRun, boundary_of
from precreg.shadow.numpy import CallRecorder


def recorded(function, **named):
    """Return the chain of a call, and its outputs, which must be those of a plain call."""
    recorder = CallRecorder()
    found = recorder.call(function, (), {name: np.array(value) for name, value in named.items()})
    plain = function(**{name: np.array(value) for name, value in named.items()})
    parts = plain if isinstance(plain, tuple) else (plain,)
    assert [np.asarray(each).tobytes() for each in found.values()] == [np.asarray(each).tobytes() for each in parts]
    from pathlib import Path

    return NumpyChain(recorder, Path("/nowhere")), found


def softmax(x):
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def written_in_place(x):
    out = np.zeros((x.shape[0], 2), x.dtype)
    for row in range(len(x)):
        out[row, 0] = x[row].sum()
        out[row] += 1
    out[:, 1] *= 3
    np.exp(out, out=out)
    return out


def views_of_one_memory(x):
    y = x.copy()
    turned, flat = y.T, y.reshape(-1)
    turned[0] = turned[1] * 2
    flat[::2] -= 1
    return y + turned.sum()


def scalars(x):
    total = x.dtype.type(0)
    for value in x[0]:
        total += value * value
    return np.sqrt(total), x / total


def library(x):
    middle = np.linalg.norm(x, axis=1)
    parts = np.stack([middle, np.sort(middle)[::-1]])
    return np.where(parts > 1, parts, 0), np.clip(parts, 0, 1), np.concatenate([parts, parts])[1:, ::-1]


@pytest.mark.parametrize("function", [softmax, written_in_place, views_of_one_memory, scalars, library])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_calls_repeat_bit_by_bit_and_all_own_errors_give_the_run(function, dtype):
    x = np.random.default_rng(3).standard_normal((4, 6)).astype(dtype)
    chain, found = recorded(function, x=x)
    assert all(map(chain.repeats, range(len(chain.steps))))
    exact = ExactRun(chain)
    assert exact.unknown == []
    every = exact.outputs(range(len(chain.steps)))
    for name, actual in found.items():
        wide = np.asarray(actual).astype(chain.wide)
        # The own errors are differences in the wide dtype, whose last bits may round.
        assert np.allclose(every[name], wide, rtol=1e-15, atol=0), name


def test_the_exact_outputs_agree_with_mpmath():
    x = np.random.default_rng(5).standard_normal((3, 8)).astype(np.float16) * 4
    chain, _ = recorded(softmax, x=x)
    found = ExactRun(chain).outputs()["out"]
    with mpmath.workdps(30):
        for row, given_row in zip(found, x, strict=True):
            weights = [mpmath.exp(mpmath.mpf(float(value))) for value in given_row]
            for one, weight in zip(row, weights, strict=True):
                assert abs(one - weight / mpmath.fsum(weights)) < 1e-14


def test_the_error_of_one_step_alone_is_that_of_a_run_that_rounds_there():
    """Round one step by hand in float64, and compare."""
    x = np.random.default_rng(5).standard_normal((3, 8)).astype(np.float16)
    chain, _ = recorded(softmax, x=x)
    (place,) = [place for place, step in enumerate(chain.steps) if step.name == "exp"]
    found = ExactRun(chain).outputs([place])["out"]
    wide = x.astype(np.float64)
    shifted = wide - wide.max(-1, keepdims=True)
    # The own error of exp, at the inputs that it had in float16.
    low = x - x.max(-1, keepdims=True)
    weights = np.exp(shifted) + (np.exp(low).astype(np.float64) - np.exp(low.astype(np.float64)))
    assert np.allclose(found, weights / weights.sum(-1, keepdims=True), rtol=1e-14, atol=0)


def test_an_overflow_is_an_error_and_equal_infinities_are_none():
    def masked(x):
        scores = np.where(np.tri(4, dtype=bool), x, -np.inf)
        return np.exp(scores), np.exp(x * 100)

    with np.errstate(all="ignore"):
        chain, _ = recorded(masked, x=np.full((4, 4), 0.5, np.float16))
    exact = ExactRun(chain)
    alone = exact.outputs(exact.rounding())
    assert np.isfinite(exact.outputs()["1"]).all()
    assert np.isinf(alone["1"]).all()
    assert np.isfinite(alone["0"]).all()


def test_the_boundary_has_what_is_read_and_what_others_read():
    chain, _ = recorded(softmax, x=np.ones((2, 3), np.float32))
    names = [step.name for step in chain.steps]
    assert names == ["max", "subtract", "exp", "sum", "divide"]
    boundary = boundary_of(chain, [1, 2])
    assert boundary.inputs == ("x", *chain.steps[0].makes)
    assert boundary.outputs == chain.steps[2].makes


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_views_are_read_from_the_memory_that_was_written(rows, columns, data):
    """Any slices of a written array, against plain numpy."""
    shape = (rows, columns, 3)
    start = [data.draw(st.integers(0, size - 1)) for size in shape]
    step = [data.draw(st.sampled_from([1, 2, -1])) for _ in shape]
    key = tuple(slice(one, None, by) for one, by in zip(start, step, strict=True))
    drop = data.draw(st.booleans())

    def function(x):
        y = x.copy()
        view = y.transpose(2, 0, 1)[::-1]
        part = y[key][0] if drop else y[key]
        view += 1
        return part * 2, view - 1

    chain, _ = recorded(function, x=np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    assert all(map(chain.repeats, range(len(chain.steps))))
