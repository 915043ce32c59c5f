"""Do operations in one pass give the shadows, figures and shares of the general way?"""

import math

import numpy as np
import pytest

from benchmarks.shadow.arrays import KERNELS, inputs
from precreg.measure import shadow_core
from precreg.shadow import Detail, Recorder
from precreg.shadow.numpy import NumpyEngine

needs_core = pytest.mark.skipif(shadow_core() is None, reason="no C++ compiler was there to build the core")


def with_rare_values(x):
    """Divide by zero, overflow, mask, and pass NaN on."""
    y = x * np.float32(1e30) * x
    z = np.sqrt(x) - y
    return z / (x - x) + np.log(np.abs(x)) * 2 + 1


def with_repeated_operands(x):
    """Repeat one element, a column, a row, and elements of no use for the core."""
    row, column = x[:1] * 1.5, x[:, :1] - np.float32(0.1)
    y = (x + row) * column - row[0] / 3
    z = column * row + y[0, 0] * x
    return np.hypot(z, 2.0) + x.T[: len(x), :1] + np.arctan2(x, y) ** 2 - np.exp2(row + column)


def of_small_arrays(x):
    """Compute on arrays of one element, of one axis and of no element."""
    one = x[:1, :1] / 3
    line = x[0] * one[0] + x[0, 1]
    return np.concatenate([line - x[1], (x[:0] + 1).ravel(), (one * one)[0]])


def in_place(x):
    """Write to a result while its old values are on the tape."""
    y = x / 3
    z = y * y
    y[0] = z[1]
    y -= z
    return y * x + np.exp(-np.abs(y))


EDGES = {each.__name__: each for each in (with_rare_values, with_repeated_operands, of_small_arrays, in_place)}


def traced(function, arrays, form, monkeypatch, detail=Detail.OWN):
    monkeypatch.setenv("PRECREG_FORM", form)
    recorder = Recorder(detail)
    with np.errstate(all="ignore"), NumpyEngine(recorder) as engine:
        result = function(*map(engine.wrap, arrays))
        shares = engine.shares({"out": result})
    return recorder, np.asarray(engine.unwrap(result)), engine.shadow_of(result), shares


def assert_same(one, other, rel):
    """Compare numbers in the facts of two operations; whatever else they have is equal."""
    if isinstance(one, float) and isinstance(other, float):
        assert one == pytest.approx(other, rel=rel, nan_ok=True)
    elif hasattr(one, "__struct_fields__"):
        for name in one.__struct_fields__:
            if name != "number" or one.number != other.number:
                assert_same(getattr(one, name), getattr(other, name), rel)
    else:
        assert one == other


def assert_same_traces(function, arrays, monkeypatch, detail=Detail.OWN):
    fast, plain = (traced(function, arrays, form, monkeypatch, detail) for form in ("native", "numpy"))
    assert np.array_equal(fast[1], plain[1], equal_nan=True)
    assert np.array_equal(fast[2], plain[2], equal_nan=True)
    assert len(fast[0].operations) == len(plain[0].operations) > 0 or detail == Detail.OUTPUTS
    for one, other in zip(fast[0].operations, plain[0].operations, strict=True):
        assert_same(one, other, 1e-9)
    assert fast[0].events == plain[0].events
    assert fast[3].keys() == plain[3].keys()
    for output, shares in fast[3].items():
        scale = math.fsum(map(abs, shares.values()))
        assert shares == pytest.approx(plain[3][output], abs=1e-9 * scale)


@needs_core
@pytest.mark.parametrize("detail", [Detail.OUTPUTS, Detail.TOTALS, Detail.OWN, Detail.ELEMENTS])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_have_the_traces_of_the_general_way(kernel, detail, monkeypatch):
    arrays = [array[:, :32] if kernel != "linear" else array for array in inputs(kernel, (16, 48))]
    assert_same_traces(KERNELS[kernel], [np.ascontiguousarray(each) for each in arrays], monkeypatch, detail)


@needs_core
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", EDGES)
def test_edges_have_the_traces_of_the_general_way(name, dtype, monkeypatch):
    x = np.random.default_rng(3).standard_normal((6, 40)).astype(dtype)
    x[1, 2], x[3, 4], x[5, 6] = 0.0, 1e-7, -1.0
    assert_same_traces(EDGES[name], [x], monkeypatch)


@needs_core
def test_a_kept_shadow_outlives_its_array(monkeypatch):
    monkeypatch.setenv("PRECREG_FORM", "native")
    x = np.random.default_rng(4).standard_normal((128, 256)).astype(np.float32)
    kept, expected = [], []

    class Keeper:
        def see(self, observed):
            kept.append(observed.exact)
            expected.append(observed.exact.copy())

    with NumpyEngine(Recorder(Detail.OWN, [Keeper()]), shares=False) as engine:
        value = engine.wrap(x)
        for _ in range(6):
            value = value * np.float32(0.5) - value
    assert len(kept) == 12
    assert all(np.array_equal(one, other) for one, other in zip(kept, expected, strict=True))


@needs_core
def test_dead_arrays_lend_the_memory_of_their_shadows(monkeypatch):
    monkeypatch.setenv("PRECREG_FORM", "native")
    x = np.random.default_rng(4).standard_normal((128, 256)).astype(np.float32)
    with NumpyEngine(Recorder(Detail.OWN), shares=False) as engine:
        value = engine.wrap(x)
        places = set()
        for _ in range(20):
            value = value * np.float32(0.5)
            memory = engine.memories.find(value.view_plain())
            places.add(memory.twin.ctypes.data)
    assert len(places) <= 4
