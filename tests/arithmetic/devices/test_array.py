"""Simulated arrays behave as numpy's do, and stay simulated wherever numbers are computed or moved."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic.devices.array import (
    COMPILED_FUNCTIONS,
    NumpyArithmetic,
    SimulatedArray,
    plain_array,
    simulate_array,
)
from tests.arithmetic.devices.on_devices import on, same_bits

X = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)


class Traced(NumpyArithmetic):
    """Writes down what it is asked for."""

    def __init__(self):
        self.asked = []

    def ufunc(self, function, method, inputs, options):
        self.asked.append(function.__name__)
        assert not any(isinstance(value, SimulatedArray) for value in inputs)
        return super().ufunc(function, method, inputs, options)

    def contraction(self, function, inputs, options):
        self.asked.append(function.__name__)
        return super().contraction(function, inputs, options)

    def cast(self, values, dtype):
        self.asked.append(f"cast to {dtype}")
        return super().cast(values, dtype)


@pytest.fixture
def traced():
    return Traced()


@pytest.fixture
def x(traced):
    return simulate_array(X.copy(), traced)


MOVES = {
    "slice": lambda x: x[1:, ::2],
    "element": lambda x: x[1, 2],
    "mask": lambda x: x[x > 0],
    "where": lambda x: np.where(x > 0, x, 0.0),
    "concatenate": lambda x: np.concatenate([x, np.ones((1, 4), np.float32)]),
    "stack": lambda x: np.stack([x, x], axis=-1),
    "block": lambda x: np.block([[x, x], [x, x]]),
    "pad": lambda x: np.pad(x, 1),
    "take": lambda x: np.take_along_axis(x, np.argsort(x, 1), 1),
    "reshape": lambda x: x.reshape(-1, 2).T.swapaxes(0, 1),
    "split": lambda x: np.split(x, 2, axis=1)[1],
    "select": lambda x: np.select([x > 1, x < 0], [x, -x], 0.5),
    "sorted": lambda x: np.sort(x, axis=1),
    "repeat": lambda x: np.tile(np.repeat(x, 2, axis=0), 2),
    "like": lambda x: np.zeros_like(x),
    "copy": lambda x: copy.deepcopy(copy.copy(x.copy())),
    "flat": lambda x: x.ravel()[:3],
    "rows": lambda x: next(iter(x)),
    "broadcast": lambda x: np.broadcast_to(x, (2, 3, 4)),
    "squeeze": lambda x: np.expand_dims(x, 0).squeeze(),
    "triangle": lambda x: np.tril(x),
    "diagonal": lambda x: np.diagonal(x),
    "clip": lambda x: x.clip(-1, 1),
    "nan_to_num": lambda x: np.nan_to_num(x),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_what_moves_numbers_keeps_their_arithmetic(move, x, traced):
    moved = move(x)
    assert type(moved) is SimulatedArray
    assert moved.arithmetic is traced
    assert same_bits(moved, move(X))
    traced.asked.clear()
    _ = moved * 2
    assert traced.asked == ["multiply"]


COMPUTED = {
    "x * y": (lambda x: x * x, {"multiply"}),
    "2 - x": (lambda x: 2 - x, {"subtract"}),
    "-x": (lambda x: -x, {"negative"}),
    "abs": (abs, {"absolute"}),
    "x ** 2": (lambda x: x**2, {"square"}),
    "x @ y": (lambda x: x @ x.T, {"matmul"}),
    "dot": (lambda x: x.dot(x.T), {"dot"}),
    "einsum": (lambda x: np.einsum("ij,kj->ik", x, x), {"einsum"}),
    "tensordot": (lambda x: np.tensordot(x, x), {"tensordot"}),
    "inv": (lambda x: np.linalg.inv(x[:, :3]), {"inv"}),
    "norm": (lambda x: np.linalg.norm(x, axis=1), {"norm"}),
    "sum": (lambda x: x.sum(1), {"add"}),
    "builtin sum": (lambda x: sum(x[0]), {"add"}),
    "mean": (lambda x: x.mean(), {"add", "divide"}),
    "std": (lambda x: x.std(0), {"add", "divide", "subtract", "square", "multiply", "sqrt"}),
    "trace": (lambda x: x.trace(), {"add"}),
    "round": (lambda x: x.round(1), {"multiply", "rint", "divide"}),
    "round to tens": (lambda x: np.round(x, -1), {"multiply", "rint", "divide"}),
    "cumsum": (lambda x: x.cumsum(), {"add"}),
    "ptp": (lambda x: np.ptp(x), {"maximum", "minimum", "subtract"}),
    "diff": (lambda x: np.diff(x), {"subtract"}),
    "gradient": (lambda x: np.gradient(x[0]), {"subtract", "divide"}),
    "average": (lambda x: np.average(x, weights=np.abs(X)), {"multiply", "add", "divide"}),
    "along an axis": (lambda x: np.apply_along_axis(lambda row: row * 2, 1, x), {"multiply"}),
    "median": (lambda x: np.median(x, axis=1), {"add", "divide"}),
    "quantile": (lambda x: np.quantile(x, 0.3), {"subtract", "multiply", "add"}),
    "float16": (lambda x: x.astype(np.float16), {"cast to float16"}),
    "bfloat16": (lambda x: x.astype(ml_dtypes.bfloat16) + 1, {"cast to bfloat16", "add"}),
}


CAST_BACK = {"cast to float32"} if np.lib.NumpyVersion(np.__version__) < "2.0.0" else set()
"""numpy 1 divides an array of no axes by a Python integer in float64."""


@pytest.mark.parametrize(("compute", "asked"), COMPUTED.values(), ids=COMPUTED)
def test_what_computes_asks_the_arithmetic(compute, asked, x, traced):
    computed = compute(x)
    assert type(computed) is SimulatedArray
    assert computed.arithmetic is traced
    assert same_bits(computed, compute(X))
    assert asked & set(traced.asked)
    assert set(traced.asked) <= asked | {"isnan", "count_nonzero"} | CAST_BACK


def test_comparisons_and_integers_are_plain(x):
    for result in (x > 0, np.isnan(x), np.argmax(x, axis=1), x.astype(np.int32), np.searchsorted(x[0], 0.0), x.any()):
        assert not isinstance(result, SimulatedArray)
    assert list(range(5))[np.argmax(x[0])] == np.argmax(X[0])


def test_single_elements_serve_as_numbers(x):
    total = x.sum()
    assert isinstance(total, np.ndarray)
    assert total.shape == ()
    assert float(total) == X.sum()
    assert bool(total < 100)
    assert f"{total:.3f}" == f"{X.sum():.3f}"
    assert total.item() == X.sum().item()
    assert np.float32(1) + total == np.float32(1) + X.sum()
    assert max(x[0, 0], x[0, 1]) == max(X[0, 0], X[0, 1])
    assert (round(x[0, 0]), round(x[0, 0], 2)) == (round(X[0, 0]), round(X[0, 0], 2))


def test_operators_in_place_write_into_the_array(x, traced):
    before = x
    x += 1
    x *= X
    x[0] -= 2
    assert x is before
    expected = (X + 1) * X
    expected[0] -= 2
    assert same_bits(x, expected)
    assert set(traced.asked) == {"add", "multiply", "subtract"}


def test_out_and_where(x):
    place = np.full((3, 4), 7, np.float32)
    assert np.add(x, 1, out=place, where=X > 0) is place
    assert same_bits(place, np.where(X > 0, X + 1, np.float32(7)))
    total = np.zeros(3, np.float32)
    np.add.reduce(x, axis=1, where=X > 0, out=total)
    assert same_bits(total, X.sum(1, where=X > 0))
    whole, part = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32)
    assert np.modf(x, out=(part, whole))[1] is whole
    assert same_bits(part + whole, X)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
@pytest.mark.parametrize(
    "fold",
    [
        lambda x, out: np.add.reduce(x, axis=0, out=out[0]),
        lambda x, out: np.mean(x, axis=0, out=out[0]),
        lambda x, out: x.prod(0, out=out[0]),
        lambda x, out: np.cumsum(x, axis=0, out=out),
        lambda x, out: np.add.reduceat(x, [0, 40, 70], axis=0, out=out[:3]),
    ],
)
def test_terms_are_folded_in_the_dtype_of_the_place_too(fold, dtype, traced):
    terms = np.random.default_rng(3).uniform(0.5, 1.5, (100, 4)).astype(np.float32)
    expected, place = np.zeros((100, 4), dtype), np.zeros((100, 4), dtype)
    fold(terms, expected)
    fold(simulate_array(terms, traced), place)
    assert same_bits(place, expected)


def test_a_third_operand_of_a_product_is_where_it_goes(x, traced):
    place = np.zeros((3, 3), np.float32)
    assert np.dot(x, x.T, place) is place
    assert same_bits(place, X @ X.T)
    table = simulate_array(np.zeros((12, 2), np.float32), traced)
    assert np.outer(x, x[:2, 0], table) is table
    assert same_bits(table, np.outer(X, X[:2, 0]))
    assert same_bits(np.dot(x, x.T, None), X @ X.T)


def test_what_is_stored_in_another_dtype_is_cast_by_the_arithmetic(x, traced):
    half = simulate_array(np.zeros((3, 4), np.float16), traced)
    np.add(x, 1, out=half)
    half[0] = x[0]
    np.copyto(half, x, where=X > 0)
    assert traced.asked.count("cast to float16") == 3
    half *= x
    np.copyto(dst=half, src=x)
    assert traced.asked.count("cast to float16") == 5
    with pytest.raises(TypeError, match="according to the rule 'safe'"):
        x.astype(np.float16, casting="safe")
    with pytest.raises(TypeError, match="cannot cast float32 to the output's int32"):
        np.add(x, 1, out=np.zeros((3, 4), np.int32))
    integers = np.ones((3, 4), np.int64)
    with pytest.raises(TypeError, match="same_kind"):
        integers += x
    np.add(x, 1, out=np.zeros((3, 4), np.int32), casting="unsafe")


def test_asarray_and_float_leave_the_arithmetic(x, traced):
    for left in (np.asarray(x) * 2, np.array(x) + 1, float(x[0, 0]) * 2, x.tolist()[0][0] * 2, np.float32(x[0, 0]) * 2):
        assert not isinstance(left, SimulatedArray)
    assert isinstance(np.asanyarray(x), SimulatedArray)
    assert traced.asked == []


def test_a_plain_array_that_meets_a_simulated_one_is_computed_with_it(x, traced):
    buffer = np.zeros((3, 4), np.float32)
    buffer = buffer + x
    assert isinstance(buffer, SimulatedArray)
    assert traced.asked == ["add"]


def test_it_is_shown_as_a_plain_array_is(x):
    assert repr(x) == repr(X)
    assert str(x) == str(X)
    assert "Simulated" not in repr(x.astype(ml_dtypes.bfloat16))


def test_views_share_memory(x):
    view = x[1]
    view[:] = 5
    x[2, 3] = 6
    assert plain_array(x)[1].tolist() == [5, 5, 5, 5]
    assert plain_array(x)[2, 3] == 6


def test_bits_are_seen_as_integers(x):
    assert np.array_equal(plain_array(x.view(np.uint32) >> 23), X.view(np.uint32) >> 23)


def test_pickles_are_plain(x):
    read = pickle.loads(pickle.dumps(x))
    assert type(read) is np.ndarray
    assert same_bits(read, X)


def test_bfloat16_and_smaller(traced):
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        x = simulate_array(X.astype(dtype), traced)
        result = (x + x) * x
        assert result.dtype == dtype
        assert isinstance(result, SimulatedArray)
        assert same_bits(result, (X.astype(dtype) + X.astype(dtype)) * X.astype(dtype))


def test_named_tuples_and_lists_of_results(x):
    q, r = np.linalg.qr(x)
    assert isinstance(q, SimulatedArray)
    assert isinstance(r, SimulatedArray)
    assert all(isinstance(part, SimulatedArray) for part in np.array_split(x, 2))
    values, counts = np.unique(x, return_counts=True)
    assert isinstance(values, SimulatedArray)
    assert not isinstance(counts, SimulatedArray)


def test_which_functions_of_numpy_compute_on_plain_copies():
    """Every public function that computes on arrays, tried: either it asks the arithmetic, or it is in COMPILED."""
    square, row = np.eye(3, dtype=np.float32) * 2, np.arange(1, 4, dtype=np.float32)
    one = "cumsum cumprod mean std var sum prod trace diff gradient sinc i0 trapezoid nansum nanmean nanstd ptp average"
    tried = {getattr(np, name, None): (square if name == "trace" else row,) for name in one.split()}
    tried |= {getattr(np, name): (row, row) for name in ("polyval", "polyadd", "polysub", "kron")}
    tried |= {np.linalg.matrix_power: (square, 3), np.linalg.multi_dot: ([square, square],)}
    for function, arguments in tried.items():
        if function is None:
            continue
        traced = Traced()
        function(*(_given(value, traced) for value in arguments))
        assert traced.asked, function
        assert function not in COMPILED_FUNCTIONS


def _given(value, arithmetic):
    if isinstance(value, list):
        return [simulate_array(array, arithmetic) for array in value]
    return simulate_array(value, arithmetic) if isinstance(value, np.ndarray) else value


def test_a_device_computes_an_operator_as_it_stands():
    """The whole of a LayerNorm on a device differs from numpy's, and by no more than its precision explains."""

    def layer_norm(x):
        centered = x - x.mean(-1, keepdims=True)
        return centered / np.sqrt((centered * centered).mean(-1, keepdims=True) + np.float32(1e-5))

    here, there = layer_norm(X), plain_array(layer_norm(on("mlu370", X)))
    assert 2**-22 < np.abs(here - there).max() < 2**-16
