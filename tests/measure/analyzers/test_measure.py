"""Analyzers at work: what they are given, what becomes of what they give, and that threads change no bit."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import precreg
from precreg.errors import UserError
from precreg.measure.analyzers import (
    ANALYZER_CHUNK,
    PIECE,
    ArrayPair,
    _piece_states,
    add_analyzer_metrics,
    load_analyzer,
)
from precreg.types.metric import Metric

ROUNDED_SUM = """\
class it:
    metrics = [Metric("sum", "value", "sum |a - r|, rounded at each step", "lower", "ours")]

    def start(self, shape, actual_dtype, reference_dtype):
        return np.float32(0)

    def add(self, state, actual, reference, offset):
        return state + np.abs(actual - reference).sum(dtype=np.float32)

    def merge(self, before, after):
        return before + after

    def finish(self, state):
        return {"sum": state}
"""
SEEN = """\
class it:
    metrics = [Metric("n", "1", "chunks", "lower", "ours")]
    seen = []

    def start(self, shape, actual_dtype, reference_dtype):
        self.seen.append((shape, actual_dtype, reference_dtype))
        return []

    def add(self, state, actual, reference, offset):
        return state + [(offset, actual.copy(), reference.copy())]

    def merge(self, before, after):
        return before + after

    def finish(self, state):
        self.seen += state
        return {"n": len(state)}


it = it()
"""


class Listed:
    """A chunked analyzer whose state is what it was given, in order."""

    metrics = (Metric("n", "1", "elements", "higher", "ours"),)

    def start(self, shape, actual_dtype, reference_dtype):
        return []

    def add(self, state, actual, reference, offset):
        return [*state, (offset, *zip(actual.tolist(), reference.tolist(), strict=True))]

    def merge(self, before, after):
        return before + after


def metrics(actual, reference, *analyzers, **settings):
    found = precreg.compare(actual, reference, analyzers=analyzers, **settings)
    ours = set(precreg.METRICS)
    return {name: value for name, value in found.metrics.items() if name not in ours}


def refused(actual, *analyzers):
    with pytest.raises(UserError) as caught:
        precreg.compare(actual, actual, analyzers=analyzers)
    return caught.value


def test_figures_stand_beside_ours_with_their_descriptions(whole):
    name = whole("return {'share': np.mean(actual != reference)}")
    found = precreg.compare([1.0, 2.0], [1.0, 3.0], analyzers=[name])
    assert list(found.metrics)[-1] == f"{name}.share"
    assert (found.metrics[f"{name}.share"], found.metrics["max_abs_error"]) == (0.5, 1.0)
    assert [metric.name for metric in found.described] == [f"{name}.share"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1", 1.0),
        ("np.float32(0.1)", float(np.float32(0.1))),
        ("np.array(3)", 3.0),
        ("np.longdouble(2)", 2.0),
        ("actual[0]", 1.5),
        ("True", 1.0),
        ("-2", -2.0),
    ],
)
def test_every_kind_of_number_is_taken(expression, value, whole):
    name = whole(f"return {{'share': {expression}}}")
    assert metrics(np.array([1.5], ml_dtypes.bfloat16), np.array([1.5]), name) == {f"{name}.share": value}


@pytest.mark.parametrize("expression", ["float('nan')", "float('-inf')", "np.float16('inf')", "10**400"])
def test_what_is_not_finite_is_absent(expression, whole):
    name = whole(f"return {{'share': {expression}}}")
    found = precreg.compare([1.0], [1.0], analyzers=[name])
    assert f"{name}.share" not in found.metrics
    assert found.described


def test_one_that_is_asked_for_twice_measures_once(whole):
    name = whole("return {'share': 0}")
    assert [metric.name for metric in precreg.compare([1.0], [1.0], analyzers=[name, name]).described] == [
        f"{name}.share"
    ]


def test_what_is_left_out_is_absent(whole):
    assert metrics([1.0], [1.0], whole("return {}")) == {}


@pytest.mark.parametrize("expression", ["'0.5'", "None", "1j", "np.complex64(1)", "actual", "[1]", "np.str_('1')"])
def test_what_is_no_number_is_refused(expression, whole):
    error = refused(np.ones(2), whole(f"return {{'share': {expression}}}"))
    assert error.slug == "bad-analyzer"
    assert "expected a number but got a" in error.message
    assert ".share=" in error.message


def test_what_was_not_declared_is_refused_with_the_nearest(whole):
    error = refused(np.ones(2), name := whole("return {'shares': 1}"))
    assert error.slug == "bad-analyzer"
    assert error.message == f'expected one of {name}.share but got {name}.shares=1; did you mean "{name}.share"?'
    assert "expected figures by name but got float64" in refused(np.ones(2), whole("return actual[0]")).message


def test_what_it_raises_is_told_and_is_the_cause(whole):
    error = refused(np.ones(2), name := whole("return {'share': 1 / 0}"))
    assert error.slug == "analyzer-failed"
    assert f"analyzer {name} to measure output out but it raised ZeroDivisionError: division by zero" in error.message
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_arrays_cannot_be_written_and_warn_of_nothing(whole, recwarn):
    assert "read-only" in refused(np.ones(2), whole("actual[0] = 5")).message
    assert metrics([0.0], [0.0], whole("return {'share': (actual / reference)[0]}")) == {}
    assert not recwarn.list


def test_nothing_is_called_without_elements_or_for_other_shapes(whole):
    name = whole("raise ValueError('called')")
    for actual, reference in (([], []), ([1.0], [1.0, 2.0])):
        found = precreg.compare(actual, reference, analyzers=[name])
        assert f"{name}.share" not in found.metrics
        assert len(found.described) == 1


def test_a_scalar_is_an_array_of_one(whole, brought):
    assert list(metrics(np.float32(2), 2.5, whole("return {'share': actual.ndim}")).values()) == [0]
    assert list(metrics(np.float32(2), 2.5, brought(ROUNDED_SUM)).values()) == [0.5]


def test_a_chunked_analyzer_is_told_shape_and_dtypes_and_gets_every_element_once_in_c_order(brought):
    name = brought(SEEN)
    base = np.arange(3 * 70_000, dtype=np.float32).reshape(70_000, 3)
    actual, reference = base.T, np.asfortranarray(base.T.astype(np.float64))
    assert not actual.flags.c_contiguous
    found = metrics(actual, reference, name)
    first, *chunks = load_analyzer(name).chunked.seen
    assert first == ((3, 70_000), "float32", "float64")
    assert [offset for offset, _, _ in chunks] == [0, ANALYZER_CHUNK, 2 * ANALYZER_CHUNK, 3 * ANALYZER_CHUNK]
    assert np.array_equal(np.concatenate([chunk for _, chunk, _ in chunks]), actual.reshape(-1))
    assert np.array_equal(np.concatenate([chunk for _, _, chunk in chunks]), reference.reshape(-1))
    assert list(found.values()) == [4]


@pytest.mark.parametrize("size", [1, ANALYZER_CHUNK, PIECE, 2 * PIECE + 3 * ANALYZER_CHUNK + 7])
def test_threads_change_no_bit_even_of_sums_that_round(size, brought):
    name = brought(ROUNDED_SUM)
    generator = np.random.default_rng(1)
    actual, reference = generator.random(size, np.float32), generator.random(size, np.float32)
    comparison = precreg.compare(actual[:1], reference[:1])
    sums = {
        add_analyzer_metrics(comparison, actual, reference, [name], threads).metrics[f"{name}.sum"]
        for threads in (1, 2, 5)
    }
    assert len(sums) == 1
    assert math.isclose(sums.pop(), float(np.abs(actual.astype(float) - reference).sum()), rel_tol=1e-3)


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 4), st.integers(1, 4))
def test_pieces_and_chunks_are_in_order_whatever_their_size(size, chunk, chunks_of_a_piece, threads):
    pair = ArrayPair(np.arange(size), -np.arange(size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("precreg.measure.analyzers.ANALYZER_CHUNK", chunk)
        patch.setattr("precreg.measure.analyzers.PIECE", chunk * chunks_of_a_piece)
        states = list(_piece_states(Listed(), pair, threads))
    given = [(offset, *pairs) for state in states for offset, *pairs in state]
    assert [offset for offset, *_ in given] == list(range(0, size, chunk))
    assert [pair for _, *pairs in given for pair in pairs] == [(at, -at) for at in range(size)]


def test_an_error_in_a_thread_is_told(brought):
    code = ROUNDED_SUM.replace("return state + np", "assert offset == 0, 'later'\n        return state + np")
    comparison, zeros = precreg.compare([1], [1]), np.zeros(2 * PIECE, np.int8)
    with pytest.raises(UserError, match="raised AssertionError: later"):
        add_analyzer_metrics(comparison, zeros, zeros, [brought(code)], 2)
