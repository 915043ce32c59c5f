"""The store of calls: no two alike, the extremes kept, bounded in number and bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.suite.capture.calls import CallStore, CapturedCall, call_key, range_of

MAGNITUDES = st.floats(-300, 300).map(lambda power: 10.0**power)


def call_of(*numbers, dtype=np.float64, **params):
    return CapturedCall({"x": np.array(numbers, dtype)}, params, {"out": np.array(numbers, dtype)})


def offer(store, *calls):
    for call in calls:
        if (key := store.place_for(call)) is not None:
            store.keep(key, call)
    return store


def kept(store):
    return [call.inputs["x"].tolist() for call in store.calls]


def test_calls_of_one_range_are_alike_and_others_are_not():
    ends = [call_of(1e-9), call_of(1e9)]
    store = offer(
        CallStore(20, 1 << 20), *ends, *(call_of(*each) for each in ([1.5], [1.4], [1e3], [-1.5], [1.5, 1.5]))
    )
    assert kept(store) == [[1e-9], [1e9], [1.5], [1e3], [-1.5], [1.5, 1.5]]
    assert (store.seen, store.alike, store.dropped) == (7, 1, 0)


def test_dtypes_parameters_and_special_values_make_calls_differ():
    calls = [call_of(1.0), call_of(1.0, dtype=np.float32), call_of(1.0, axis=0), call_of(np.nan), call_of(0.0)]
    assert len({call_key(call) for call in calls}) == 5


@given(st.lists(MAGNITUDES, min_size=1, max_size=40), st.integers(4, 8))
def test_the_largest_and_the_smallest_are_always_kept(magnitudes, limit):
    store = offer(CallStore(limit, 1 << 20), *(call_of(each) for each in magnitudes))
    found = [value for (value,) in kept(store)]
    assert len(found) <= limit
    assert max(found) == max(magnitudes)
    assert min(found) == min(magnitudes)
    assert store.seen == len(magnitudes) == len(found) + store.alike + store.dropped


def test_nan_and_most_zeros_take_the_place_of_an_ordinary_call():
    ordinary = [call_of(2.0**power, 2.0**power) for power in range(0, 40, 4)]
    store = offer(CallStore(6, 1 << 20), *ordinary, call_of(np.nan, 1.0), call_of(0.0, 0.0), call_of(5e3, 1.0))
    found = [str(each) for each in kept(store)]
    assert "[nan, 1.0]" in found
    assert "[0.0, 0.0]" in found
    assert str([2.0**36] * 2) in found
    assert len(found) == 6
    assert store.dropped > 0


def test_other_shapes_take_the_place_of_other_ranges():
    ranges = [call_of(2.0**power) for power in range(0, 80, 4)]
    shapes = [call_of(*[2.0] * length) for length in range(2, 6)]
    found = kept(offer(CallStore(6, 1 << 20), *ranges, *shapes))
    assert {len(each) for each in found} == {1, 2, 3, 4, 5}
    assert [1.0] in found
    assert [2.0**76] in found
    assert len(found) == 6


def test_bytes_are_bounded():
    store = offer(CallStore(20, 1000), call_of(*range(50)), call_of(*range(60)), call_of(1.0))
    assert [len(each) for each in kept(store)] == [50, 1]
    assert store.too_large == 1
    assert sum(call.nbytes for call in store.calls) <= 1000


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, np.complex64])
def test_every_dtype_has_a_range(dtype):
    found = range_of([np.array([0, 1], dtype)])
    assert (found.largest, found.smallest, found.zeros) == (1.0, 1.0, 0.5)
    assert range_of([np.zeros(0, dtype)]).largest == 0


def test_a_spool_gives_another_process_the_kept_calls_and_the_counts(tmp_path):
    store = CallStore(2, 1 << 20)
    store.spool, store.spool_prefix = tmp_path, "7"
    offer(store, call_of(1.0, axis=[0, 1]), call_of(1.1, axis=[0, 1]), call_of(1e3), call_of(1e6), call_of(1e2))
    store.leave_counts(tmp_path, {"odd": 2}, "k.py", is_torch=False)
    other = CallStore(20, 1 << 20)
    (counts,) = other.take_spooled(tmp_path)
    assert kept(other) == kept(store)
    assert [call.params for call in other.calls] == [call.params for call in store.calls]
    assert [call.outputs["out"].tolist() for call in other.calls] == kept(store)
    assert (other.seen, other.alike, other.dropped) == (store.seen, store.alike, store.dropped) == (5, 0, 3)
    assert (counts.problems, counts.file) == ({"odd": 2}, "k.py")
