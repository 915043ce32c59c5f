"""Are the totals of values beside their shadows those of plain numpy, however the calls divide the rows?"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.measure.shadows import computed_by_core

native = pytest.importorskip("precreg.measure.native", reason="no C++ compiler was there to build the core")

NORMAL = float(np.finfo(np.float32).smallest_normal)
RARE = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-45, NORMAL, 3e38, 1.0]


@st.composite
def shadowed(draw, dtype=np.float32):
    """Return values, shadows and exact results on the same inputs, in rows."""
    shape = draw(st.sampled_from([(1, 1), (3, 1), (1, 7), (4, 8), (5, 13), (2, 255), (3, 256), (2, 600)]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    exact = generator.standard_normal(shape) * 10.0 ** draw(st.integers(-8, 8))
    own = exact * (1 + 1e-8 * generator.standard_normal(shape))
    actual = own.astype(dtype)
    for _ in range(draw(st.integers(0, 3))):
        place = tuple(int(generator.integers(length)) for length in shape)
        actual[place] = draw(st.sampled_from(RARE))
    return actual, exact, own


def totals(actual, exact, own, cuts=()):
    sums = native.ShadowSums(actual.shape[-1], NORMAL)
    places = [0, *sorted({cut % (len(actual) + 1) for cut in cuts}), len(actual)]
    for low, high in itertools.pairwise(places):
        sums.add(actual[low:high], exact[low:high], None if own is None else own[low:high])
    return sums.totals()


def assert_differences(found, one, other):
    errors = one.astype(np.float64) - other
    with np.errstate(all="ignore"):
        by_row = np.sum(errors * errors, axis=-1)
    assert found.squares == pytest.approx(float(by_row.sum()), rel=1e-12, nan_ok=True)
    if np.isfinite(by_row).all():
        assert found.worst_row == pytest.approx(float(by_row.max()), rel=1e-12)
        assert found.largest == float(np.abs(errors).max())


@settings(max_examples=60, deadline=None)
@given(shadowed(), st.booleans())
def test_totals_are_those_of_numpy(values, has_own):
    actual, exact, own = values
    found = totals(actual, exact, own if has_own else None)
    assert_differences(found.total, actual, exact)
    assert found.scale == pytest.approx(float(np.sum(exact * exact)), rel=1e-12)
    if has_own:
        assert_differences(found.own, actual, own)
        assert_differences(found.inherited, own, exact)
        assert found.own_scale == pytest.approx(float(np.sum(own * own)), rel=1e-12)
    sizes = np.abs(actual.astype(np.float64))
    finite = sizes[np.isfinite(sizes) & (sizes > 0)]
    assert (found.smallest, found.most) == (
        float(finite.min(initial=math.inf)) if finite.size else 0.0,
        float(finite.max(initial=0.0)),
    )
    assert (found.nan, found.inf) == (int(np.isnan(sizes).sum()), int(np.isinf(sizes).sum()))
    assert (found.zeros, found.subnormal) == (int((sizes == 0).sum()), int((finite < NORMAL).sum()))


@settings(max_examples=40, deadline=None)
@given(shadowed(np.float64), st.lists(st.integers(0, 10), max_size=3))
def test_any_division_into_rows_gives_the_same_bits(values, cuts):
    assert repr(totals(*values, cuts)) == repr(totals(*values))


@pytest.mark.parametrize("cut", [8, 64, 504])
def test_a_row_may_be_divided_after_any_eighth_element(cut):
    generator = np.random.default_rng(1)
    exact = generator.standard_normal(777)
    actual = exact.astype(np.float32)
    whole, parts = (native.ShadowSums(777, NORMAL) for _ in range(2))
    whole.add(actual, exact)
    parts.add(actual[:cut], exact[:cut], ends_row=False)
    parts.add(actual[cut:], exact[cut:])
    assert parts.totals() == whole.totals()


def squares(values):
    return [sum(Fraction(float(each)) ** 2 for each in row) for row in values]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (2, 3), (5, 4), (7, 13), (6, 30), (1, 5000), (900, 5)])
def test_sums_are_those_of_rationals(shape, dtype):
    rng = np.random.default_rng(sum(shape))
    actual = rng.standard_normal(shape).astype(dtype)
    actual[rng.random(shape) < 0.2] = 0
    exact = actual + 1e-7 * rng.standard_normal(shape)
    own = actual + 1e-8 * rng.standard_normal(shape)
    sums, alone = (native.ShadowSums(shape[1], NORMAL) for _ in range(2))
    stored = np.empty(shape, np.float32)
    sums.add(actual, exact, own, stored)
    assert np.array_equal(stored, (actual - own).astype(np.float32))
    found = sums.totals()
    for one, errors in zip(found[:3], (actual - exact, actual - own, own - exact), strict=True):
        rows = squares(errors)
        assert one.squares == pytest.approx(float(sum(rows)), rel=1e-13)
        assert one.worst_row == pytest.approx(float(max(rows)), rel=1e-13)
        assert one.largest == np.abs(errors).max()
    assert found.scale == pytest.approx(float(sum(squares(exact))), rel=1e-13)
    assert found.own_scale == pytest.approx(float(sum(squares(own))), rel=1e-13)
    alone.add(actual, exact, None, stored)
    assert alone.totals().total == found.total
    assert np.array_equal(stored, (actual - exact).astype(np.float32))


def test_masks_have_neither_differences_nor_sizes():
    actual = np.array([[1.0, -np.inf, -3e38, np.inf, 2.0]], np.float32)
    exact = np.array([[1.5, -np.inf, -1e39, 1e31, 2.0]])
    errors = np.empty((1, 5), np.float32)
    sums = native.ShadowSums(5, NORMAL)
    sums.add(actual, exact, exact, errors)
    found = sums.totals()
    assert found.total == found.own == (0.25, 0.25, 0.5)
    assert found.inherited == (0.0, 0.0, 0.0)
    assert found.scale == found.own_scale == 1.5**2 + 4
    assert errors.tolist() == [[-0.5, 0, 0, 0, 0]]
    assert (found.inf, found.most) == (2, np.float32(3e38))


@pytest.mark.parametrize("other", [-1e31, math.inf, math.nan, 1.0])
def test_a_large_value_on_one_side_alone_is_an_error(other):
    found = totals(np.array([[1.0, -1e31, 1.0]]), np.array([[1.0, other, 1.0]]), None)
    assert not found.total.squares < 1e60 or other == -1e31


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 5, 6])
def test_values_that_are_not_finite_are_in_the_sums_and_counted(value, place):
    actual, exact = np.ones((1, 7), np.float32), np.ones((1, 7))
    actual[0, place] = value
    found = totals(actual, exact, None)
    assert not found.total.squares < 1e60
    assert (found.nan, found.inf) == ((1, 0) if math.isnan(value) else (0, 1))


MASKS = st.sampled_from([-math.inf, math.inf, -3e38, 3e38, 2e30])


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([(1, 1), (9, 1), (8, 3), (40, 7), (5, 13), (3, 1030), (2, 4100)]),
    st.sampled_from([np.float32, np.float64]),
    st.lists(st.tuples(st.integers(0, 10**6), MASKS), max_size=9),
    st.booleans(),
    st.lists(st.integers(0, 40), max_size=3),
)
def test_masks_add_as_much_as_zeros(shape, dtype, masks, has_own, cuts):
    rng = np.random.default_rng(len(masks))
    exact = rng.standard_normal(shape)
    own = exact * (1 + 1e-8 * rng.standard_normal(shape))
    masked = own.astype(dtype), exact, own
    plain = [each.copy() for each in masked]
    for place, value in masks:
        for each, other in zip(masked, plain, strict=True):
            each.flat[place % each.size], other.flat[place % each.size] = value, 0
        masked[1].flat[place % exact.size] *= 1.25
    found, expected = (
        totals(*masked[:2], own if has_own else None, cuts),
        totals(*plain[:2], plain[2] if has_own else None),
    )
    assert repr(found[:5]) == repr(expected[:5])


@pytest.mark.parametrize("columns", [3, 8, 700])
def test_operations_leave_masks_out(columns):
    x = np.random.default_rng(1).standard_normal((3, columns)).astype(np.float32)
    low = [x, np.zeros_like(x)]
    low[1][1, 2:] = -math.inf
    exact = [each.astype(np.float64) * (1 + 1e-9) for each in low]
    found = computed_by_core("add", low, exact, columns)
    assert found.errors[1, 2:].tolist() == [0.0] * (columns - 2)
    assert found.totals == totals(low[0] + low[1], found.exact, found.own)
    assert 0 < found.totals.total.squares < 1


REPEATED = {
    "never": lambda x: x,
    "everywhere": lambda x: x[:1, :1],
    "in_row": lambda x: x[:, :1],
    "in_column": lambda x: x[:1],
}


@pytest.mark.parametrize("columns", [1, 7, 8, 700])
@pytest.mark.parametrize("how", REPEATED)
@pytest.mark.parametrize("operation", native.SHADOW_OPERATIONS)
def test_operations_have_the_bits_of_numpy(operation, how, columns):
    generator = np.random.default_rng(columns)
    low = [np.abs(generator.standard_normal((3, columns))).astype(np.float32) for _ in range(2)]
    low[1] = np.ascontiguousarray(REPEATED[how](low[1]))
    exact = [each * (1 + 1e-9 * generator.standard_normal(each.shape)) for each in low]
    found = computed_by_core(operation, low, exact, columns, ("never", how))
    count = 1 if operation == "sqrt" else 2
    function = getattr(np, operation)
    own = function(*[each.astype(np.float64) for each in low[:count]])
    actual = function(*low[:count])
    assert np.array_equal(found.exact, function(*exact[:count]))
    assert np.array_equal(found.own, own)
    assert np.array_equal(found.errors, (actual - own).astype(np.float32))
    assert found.totals == totals(actual, found.exact, own)


def test_without_inexact_inputs_the_own_error_is_the_total_one():
    low = [np.array([[1.5, 2.5, 1 / 3]], np.float32)] * 2
    found = computed_by_core("divide", low, None, 3)
    assert np.array_equal(found.exact, low[0].astype(np.float64) / low[1])
    assert np.array_equal(found.errors, (low[0] / low[1] - found.exact).astype(np.float32))
    assert found.totals.own == (0.0, 0.0, 0.0)


WRONG = {
    "other sizes": lambda sums, x: sums.add(x.astype(np.float32), x[:-1]),
    "other items": lambda sums, x: sums.add(x.astype(np.float16), x),
    "few own results": lambda sums, x: sums.add(x, x, x[:1]),
    "errors of float64": lambda sums, x: sums.add(x, x, None, x.copy()),
    "not contiguous": lambda sums, x: sums.add(np.zeros(2 * x.size)[::2], x),
    "few operands": lambda sums, x: sums.compute(
        "add", [native.ShadowOperand(None, x[:2], "never")], x.astype(np.float32), x.copy(), has_own=False
    ),
    "no operands": lambda sums, x: sums.compute(
        "add", [native.ShadowOperand(None, None, "never")], x.astype(np.float32), x.copy(), has_own=False
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_do_not_fit_are_refused(name):
    with pytest.raises((ValueError, BufferError)):
        WRONG[name](native.ShadowSums(4, NORMAL), np.arange(8.0))
