"""Where runs differ: against a plain loop over elements."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.run.case_run import (
    SubjectRun,
    array_difference,
    array_digests,
    combined_digests,
    first_differences,
    repeat_differences,
)
from precreg.types.outcome import RepeatDifference

NARROW = [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8, np.bool_]


def run(**arrays):
    return SubjectRun(arrays, array_digests(arrays))


def plainly(before, after):
    """Compare one element after the other by their bytes."""
    places = [place for place in np.ndindex(before.shape) if before[place].tobytes() != after[place].tobytes()]
    pairs = [(float(before[place]), float(after[place])) for place in places]
    distances = [abs(a - b) for a, b in pairs if np.isfinite(a) and np.isfinite(b)]
    return places[0], len(places), max(distances, default=None), len(pairs) - len(distances)


@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: np.dtype(dtype).name)
@given(data=st.data())
def test_says_what_a_loop_over_elements_finds(dtype, data):
    kind = np.dtype(dtype)
    shape = data.draw(st.sampled_from([(1,), (7,), (2, 3), (2, 1, 4)]))
    most = 1 if kind == np.bool_ else 2 ** (8 * kind.itemsize) - 1
    patterns = st.lists(st.integers(0, most), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))
    before, after = (
        np.array(data.draw(patterns), f"u{kind.itemsize}").view(kind).reshape(shape) for _ in ("before", "after")
    )
    found = list(repeat_differences(run(out=before), run(out=after), 3, 2))
    if before.tobytes() == after.tobytes():
        assert found == []
    else:
        place, differing, largest, non_finite = plainly(before, after)
        assert found == [RepeatDifference("out", 3, 2, place, differing, before.size, largest, non_finite)]


@pytest.mark.parametrize(
    ("before", "after", "largest", "non_finite"),
    [
        (0.0, -0.0, 0.0, 0),
        (1.0, np.nan, None, 1),
        (-np.inf, np.inf, None, 1),
        (-1.7e308, 1.7e308, None, 0),
        (np.longdouble(1), np.nextafter(np.longdouble(1), 2), float(np.finfo(np.longdouble).eps), 0),
        (3 + 4j, 0j, 5.0, 0),
        (np.int64(2**63 - 1), np.int64(-(2**63)), 2.0**64, 0),
    ],
)
def test_one_element(before, after, largest, non_finite):
    found = array_difference("out", 0, 4, np.array(before), np.array(after))
    assert found == RepeatDifference("out", 0, 4, (), 1, 1, largest, non_finite)


def test_unused_bits_of_a_longdouble_are_no_difference():
    before = np.array([1, 2], np.longdouble)
    after = before.copy()
    after.view(np.uint8).reshape(2, -1)[0, 10:] = 255
    assert list(repeat_differences(run(out=before), run(out=after), 0, 2)) == []
    after[1] = 3
    assert array_difference("out", 0, 2, before, after).place == (1,)


@pytest.mark.parametrize("other", [None, np.zeros((2, 2)), np.zeros(4, np.float32)])
def test_without_the_same_shape_and_dtype_there_is_no_place(other):
    assert array_difference("out", 0, 2, np.zeros(4), other) == RepeatDifference("out", 0, 2)


def test_outputs_stand_in_the_order_of_the_subject_with_their_first_difference():
    first = run(a=np.zeros(2), b=np.zeros(2), c=np.zeros(2))
    second = run(a=np.zeros(2), b=np.zeros(2), c=np.ones(2))
    third = run(a=np.zeros(2), b=np.ones(2), c=np.ones(2), d=np.ones(1))
    found = [*repeat_differences(first, second, 0, 2), *repeat_differences(first, third, 0, 3)]
    kept = first_differences(list("abc"), found)
    assert [(one.output, one.repeat) for one in kept] == [("b", 3), ("c", 2), ("d", 3)]


def test_digests_of_runs_are_one_where_all_agree_and_depend_on_each_run_where_not():
    same, other = run(a=np.zeros(3), b=np.zeros(2)), run(a=np.zeros(3), b=np.ones(2))
    assert combined_digests([same, same]) == same.digests
    mixed = [combined_digests(runs) for runs in ([same, other], [other, same], [same, same, other])]
    assert all(digests["a"] == same.digests["a"] for digests in mixed)
    assert len({digests["b"] for digests in (*mixed, same.digests, other.digests)}) == 5
    assert combined_digests([same, run(b=np.zeros(2))])["a"] != same.digests["a"], (
        "a run without the output is another one"
    )
