"""Fields of a Comparison from the compiled core: those that Python computes from the same tally, in every bit."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from precreg.measure.comparison import comparison_fields, fields_found
from precreg.measure.metrics import REGIONS, regions_of
from precreg.measure.pairing import pairing_of
from precreg.measure.tally import PLACE_NAMES, MeasureRules
from tests.measure.patterns import from_bits

native = pytest.importorskip("precreg.measure.native", reason="no C++ compiler was there to build the core")

BIT_NAMES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint16", "int32", "bool")
PATTERNS = st.lists(
    st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 0x3FF0 << 48, 0x3F80_0000, 0x7C00, 1 << 63, 0x7FF0 << 48]),
    min_size=1,
    max_size=24,
)


def both(actual, reference, *, rtol=1e-3, atol=1e-6, worst=5, regions=()):
    """Return the fields by the core, None if it left them to Python, and the fields by Python."""
    rules = MeasureRules(rtol, atol, worst, regions)
    capsule = native.measure_found(actual, reference, rules)
    pairing = pairing_of(actual.dtype, reference.dtype)
    by_python = comparison_fields(native.read_found(capsule), pairing, regions_of(pairing.dtype, regions))
    assert repr(fields_found(capsule, pairing, regions_of(pairing.dtype, regions))) == repr(by_python)
    return native.describe_found(capsule), by_python


def require_same(actual, reference, **rules):
    found, expected = both(actual, reference, **rules)
    # repr distinguishes types, the order of keys, and every bit of a float.
    assert found is None or repr(found) == repr(expected)
    return found


@given(st.sampled_from(BIT_NAMES), PATTERNS, st.data())
def test_any_bits(name, patterns, data):
    actual = from_bits(patterns, name)
    others = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=len(patterns), max_size=len(patterns)))
    reference = data.draw(st.sampled_from([from_bits(others, name), actual, actual.astype(np.float64)]))
    assume(native.native_plan(actual.dtype, reference.dtype, ()) is not None)
    require_same(actual, reference)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.floats(0, 1e-2), st.integers(-2, 3))
def test_errors_of_usual_size(values, noise, worst):
    reference = np.array(values)
    require_same((reference * (1 + noise * np.sin(reference))).astype(np.float32), reference, worst=worst)


@pytest.mark.parametrize(("dtype", "shape"), [*product(REGIONS, [(), (1,), (40,), (3, 1), (8, 160), (2, 3, 5, 20)])])
def test_every_region_and_shape(dtype, shape):
    drawn = np.random.default_rng(len(shape))
    reference = drawn.normal(size=shape) * 2.0 ** drawn.integers(-30, 3, shape)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    actual = np.asarray(reference * (1 + drawn.uniform(-1e-2, 1e-2, shape))).astype(kind)
    assert require_same(actual, reference) or not shape or shape == (1,)
    require_same(actual, reference, regions=(("threshold_bound", 0.0), ("small_bound", 0.5)))


@pytest.mark.parametrize("n", [1, 2, 99, 100, 5000, 70_000])
def test_every_size(n):
    reference = np.random.default_rng(n).normal(size=n)
    assert require_same(reference.astype(np.float16), reference) or n < 3


def test_usual_arrays_leave_nothing_to_python():
    reference = np.random.default_rng(1).normal(size=(4, 250))
    for actual in (reference.astype(np.float32), reference.copy(), np.full_like(reference, np.nan)):
        assert both(actual, reference)[0] is not None
    found = both(reference.astype(np.float32), reference)[0]
    assert set(found.places) == set(PLACE_NAMES)


@pytest.mark.parametrize(
    ("actual", "reference"),
    [
        ([1.7e308, 1.0], [-1.7e308, 1.0]),
        ([1e-170, 1.0], [2e-170, 1.0]),
        ([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]),
        ([3.0, 3.0], [2.0, 2.0]),
    ],
)
def test_sums_that_cancel_or_overflow_are_left_to_python(actual, reference):
    found, expected = both(np.array(actual), np.array(reference))
    assert found is None
    assert expected.metrics["equal_share"] < 1.0


def test_without_finite_pairs_shares_alone_are_metrics():
    found = require_same(np.full(3, np.nan), np.full(3, np.inf))
    assert found.metrics["non_finite_mismatch_share"] == 1.0
    assert "mean_abs_error" not in found.metrics
    assert found.histogram is None


def test_wrong_names_are_refused():
    capsule = native.measure_found(np.ones(2), np.ones(2), MeasureRules(0.0, 0.0, 1))
    for names in ((("a",), (), ()), (native.FIGURES, (), ())):
        with pytest.raises(ValueError, match="expected a name for each figure, count and place"):
            native._core.describe(capsule, *names)
    with pytest.raises(ValueError, match="PyCapsule"):
        native._core.describe(object(), (), (), ())
