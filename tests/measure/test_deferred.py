"""Figures that are computed when somebody reads them are those that compare_arrays computes at once."""

import copy
import pickle
import threading
from itertools import product

import ml_dtypes
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import precreg
from precreg.measure import compare_arrays, compare_on_demand
from precreg.measure import comparison as comparisons
from precreg.measure.chunks import IN_PLACE_CHUNK
from precreg.measure.deferred import DEFERRED_FIELDS, DeferredComparison, PendingFigures, complete_comparison
from precreg.types import Comparison

pytestmark = pytest.mark.skipif(comparisons.native is None, reason="no C++ compiler was there to build the core")

SETTINGS = {"rtol": 1e-3, "atol": 1e-6, "worst": 7}


def on_demand(actual, reference, **changed):
    return compare_on_demand(actual, reference, **{"threads": None, "regions": {}, **SETTINGS, **changed})


def at_once(actual, reference, **changed):
    return compare_arrays(actual, reference, **{**SETTINGS, **changed})


def draw(shape, dtype="float32", reference="float32"):
    generator = np.random.default_rng(len(shape))
    exact = generator.normal(size=shape)
    return (exact * (1 + generator.uniform(-1e-3, 1e-3, shape))).astype(dtype), exact.astype(reference)


def spoiled(pair):
    actual, reference = pair
    actual.flat[::5], reference.flat[::7], reference.flat[1::9] = np.nan, np.inf, 0
    return pair


DTYPES = ["float16", ml_dtypes.bfloat16, "float32", "float64", "int8", "int32", ml_dtypes.float8_e5m2]


@pytest.mark.parametrize(("dtype", "shape"), [*product(DTYPES, [(1,), (40,), (3, 1), (8, 16), (2, 3, 5)])])
@pytest.mark.parametrize("spoil", [False, True])
def test_fields_are_those_of_compare_arrays(dtype, shape, spoil):
    pair = draw(shape, dtype, "int32" if np.dtype(dtype).kind == "i" else "float64")
    if spoil and np.dtype(dtype).kind != "i":
        pair = spoiled(pair)
    found = on_demand(*pair)
    assert type(found) is DeferredComparison
    # repr distinguishes types and the signs of zeros, which == does not.
    assert repr(found) == repr(at_once(*pair))


@pytest.mark.parametrize("name", DEFERRED_FIELDS)
def test_each_deferred_field_is_computed_by_its_own_read(name):
    pair = spoiled(draw((4, 16)))
    found = on_demand(*pair)
    assert getattr(found, name) == getattr(at_once(*pair), name)
    assert type(found) is Comparison
    assert found == at_once(*pair)


@given(
    arrays.arrays(np.float32, st.integers(1, 200), elements=st.floats(width=32)),
    st.integers(-3, 3),
    st.integers(0, 50),
)
def test_any_numbers(reference, steps, worst):
    with np.errstate(all="ignore"):
        actual = reference * np.float32(1 + steps * 2**-23)
    # repr, because NaN differs from itself
    assert repr(on_demand(actual, reference, worst=worst)) == repr(at_once(actual, reference, worst=worst))


def test_arrays_may_change_after_the_call():
    actual, reference = spoiled(draw((30, 20)))
    kept = actual.copy(), reference.copy()
    found = precreg.compare(actual, reference, **SETTINGS)
    actual[...], reference[...] = 3, -1
    assert type(found) is DeferredComparison
    assert repr(found) == repr(precreg.compare(*kept, **SETTINGS))
    assert found.worst is not None
    assert found.worst.actual == [float(kept[0].flat[index]) for index in found.worst.index]


def test_regions_and_limits_of_a_standard_apply():
    pair = draw((50,), "float16", "float64")
    regions = {"small_bound": 0.5, "small_error": 1e-4}
    found = on_demand(*pair, regions=regions)
    assert found.metrics == at_once(*pair, regions=regions).metrics != at_once(*pair).metrics


def test_equality_repr_pickle_and_copies():
    pair = draw((20,))
    expected = at_once(*pair)
    assert on_demand(*pair) == expected
    assert expected == on_demand(*pair)
    assert on_demand(*pair) == on_demand(*pair)
    for equal in (expected, on_demand(*pair)):
        assert not on_demand(*pair) != equal  # noqa: SIM202  (msgspec has a comparison of its own for !=)
        assert not equal != on_demand(*pair)  # noqa: SIM202
    for other in (at_once(pair[1], pair[1]), on_demand(pair[1], pair[1]), "text"):
        assert on_demand(*pair) != other
        assert not on_demand(*pair) == other  # noqa: SIM201
        assert other != on_demand(*pair)
    assert repr(on_demand(*pair)) == repr(expected)
    assert list(on_demand(*pair).__rich_repr__()) == list(expected.__rich_repr__())
    for made in (
        pickle.loads(pickle.dumps(on_demand(*pair))),
        copy.copy(on_demand(*pair)),
        copy.deepcopy(on_demand(*pair)),
    ):
        assert made == expected
        assert type(complete_comparison(made)) is Comparison
    with pytest.raises(TypeError, match="unhashable"):
        hash(on_demand(*pair))


def test_replaced_fields_stay_and_the_others_are_computed():
    pair = draw((20,))
    made = msgspec.structs.replace(on_demand(*pair), seed=3, metrics={"max_ulp": 1.0})
    assert made == msgspec.structs.replace(at_once(*pair), seed=3, metrics={"max_ulp": 1.0})


def test_a_comparison_is_encoded_after_a_read_and_refused_before():
    pair = draw((20,))
    found = on_demand(*pair)
    for encode in (msgspec.json.encode, msgspec.msgpack.encode, msgspec.to_builtins):
        with pytest.raises(TypeError, match=r"first read them, as in: found\.metrics; msgspec\.json\.encode\(found\)"):
            encode(found)
    assert found.metrics
    assert msgspec.json.encode(found) == msgspec.json.encode(at_once(*pair))
    assert msgspec.structs.asdict(found) == msgspec.structs.asdict(at_once(*pair))


@pytest.mark.parametrize("name", ["metrics", "seed"])
def test_fields_cannot_be_set(name):
    found = on_demand(*draw((5,)))
    with pytest.raises(AttributeError, match="immutable"):
        setattr(found, name, {})


def test_threads_that_read_at_once_see_the_same_figures():
    pair = draw((64, 16))
    expected = at_once(*pair)
    for _ in range(50):
        found, seen, begin = on_demand(*pair), [], threading.Barrier(4)

        def read(found=found, seen=seen, begin=begin):
            begin.wait()
            seen.append((found.metrics, found.counts, found.groups, found.worst))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [(expected.metrics, expected.counts, expected.groups, expected.worst)] * 4


def not_in_order():
    actual, reference = draw((6, 8))
    yield "columns first", (np.asfortranarray(actual), reference)
    yield "a gap", (actual[:, ::2], reference[:, ::2])
    yield "another byte order", (actual.astype(">f4"), reference)
    unaligned = np.frombuffer(b"\0" + actual.tobytes(), np.float32, offset=1, count=actual.size)
    yield "not aligned", (unaligned, reference.reshape(-1))
    yield "complex", (actual + 0j, reference)
    yield "64-bit integers", (actual.astype(np.int64), reference)
    yield "another shape", (actual, reference[:3])
    yield "no element", (actual[:0], reference[:0])


@pytest.mark.parametrize(("name", "pair"), [pytest.param(*each, id=each[0]) for each in not_in_order()])
def test_other_arrays_are_measured_at_once(name, pair):
    found = on_demand(*pair)
    assert type(found) is Comparison
    assert repr(found) == repr(at_once(*pair))


def test_the_selected_backend_measures(monkeypatch):
    pair = draw((20,))
    monkeypatch.setenv("PRECREG_FORM", "numpy")
    found = on_demand(*pair)
    assert type(found) is Comparison
    monkeypatch.delenv("PRECREG_FORM")
    assert found.metrics == on_demand(*pair).metrics
    monkeypatch.setenv("PRECREG_FORM", "fortran")
    with pytest.raises(precreg.UserError, match="PRECREG_FORM=fortran"):
        on_demand(*pair)


def test_large_arrays_are_measured_at_once():
    actual = np.zeros(IN_PLACE_CHUNK + 1, np.float32)
    assert type(on_demand(actual, actual)) is Comparison
    assert type(on_demand(actual[1:], actual[1:])) is DeferredComparison


def test_pending_figures_are_shared_by_the_fields_and_hold_no_array():
    actual, reference = draw((20,))
    found = on_demand(actual, reference)
    held = {name: Comparison.__dict__[name].__get__(found) for name in DEFERRED_FIELDS}
    assert {type(value) for value in held.values()} == {PendingFigures}
    assert len(set(map(id, held.values()))) == 1
    # numpy refuses to resize an array to which anything refers.
    actual.resize((0,), refcheck=True)


def test_analyzers_get_the_figures():
    found = precreg.compare([1.0, 2.0], [1.0, 2.5])
    assert found.counts["n"] == 2
    assert found.metrics["max_abs_error"] == 0.5
