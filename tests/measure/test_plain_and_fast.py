"""compare() against exact rational arithmetic, on bit patterns of every kind of dtype."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precreg.measure.comparison import compare_arrays
from tests.measure.plain import float_of, log2, plain_compare, root

DTYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "int8": np.int8,
    "uint8": np.uint8,
    "int64": np.int64,
    "bool": np.bool_,
    "complex64": np.complex64,
}
ONE = np.float64(1).view(np.uint64).item()


def beyond_float64(*arrays):
    """Whether differences may be smaller than any float64, as those of long doubles are: they count as the smallest."""
    with np.errstate(all="ignore"):
        wide = [array.astype(np.longdouble) for array in arrays if array.dtype.kind not in "c"]
        error = np.abs(wide[0] - wide[1]) if len(wide) == 2 else np.ones(1)
        return bool(((error > 0) & (error < np.finfo(np.float64).tiny)).any())


def from_bits(patterns, name):
    dtype = np.dtype(DTYPES[name])
    if name == "bool":
        return np.array([pattern % 2 for pattern in patterns], np.bool_)
    size = dtype.itemsize
    return np.frombuffer(b"".join((p % 2 ** (8 * size)).to_bytes(size, "little") for p in patterns), dtype)


def bit_patterns(count, near):
    """Patterns anywhere in 64 bits, and a few steps from interesting places: `near` among them."""
    places = st.sampled_from(
        [0, 1, 2**7, 2**15, 2**31, 2**63, 2**64 - 1, ONE, 0x7FF0 << 48, 0x7F80_0000, 0x7C00, *near]
    )
    close = st.builds(lambda place, step: (place + step) % 2**64, places, st.integers(-3, 3))
    return st.lists(st.integers(0, 2**64 - 1) | close, min_size=count, max_size=count)


@st.composite
def pairs(draw, name):
    """An actual of the dtype, and a reference: of the same dtype, or in float64 (longdouble for float64 itself)."""
    count = draw(st.integers(1, 12))
    patterns = draw(bit_patterns(count, ()))
    actual = from_bits(patterns, name)
    if draw(st.booleans()):
        return actual, from_bits(draw(bit_patterns(count, patterns)), name)
    wide = np.complex128 if name == "complex64" else np.longdouble if name == "float64" else np.float64
    if draw(st.booleans()) and name != "complex64":
        return actual, from_bits(draw(bit_patterns(count, ())), "float64")
    scale = 1 + np.array(draw(st.lists(st.integers(-4, 4), min_size=count, max_size=count))) * 2.0**-20
    with np.errstate(all="ignore"):
        return actual, actual.astype(wide) * scale.astype(wide)


def agree(measured, expected, slack, largest=1e300):
    """A figure and its exact value; beyond `largest` a sum may overflow on the way, which makes the figure absent."""
    exact = math.nan if expected is None else float_of(expected)
    if measured is None:
        return not abs(exact) < largest
    return math.isclose(measured, exact, rel_tol=1e-12, abs_tol=slack)


@pytest.mark.parametrize("name", DTYPES)
def test_what_is_measured_is_what_the_definitions_say(name):
    @settings(max_examples=120, deadline=None)
    @given(pairs(name), st.sampled_from([(0.0, 1.0), (1e-3, 1e-5), (0.5, 0.25)]))
    def check(pair, tolerances):
        rtol, atol = tolerances
        with np.errstate(all="ignore"):
            fast, plain = compare_arrays(*pair, rtol=rtol, atol=atol), plain_compare(*pair, rtol, atol)
        assert fast.counts == plain["counts"]
        assert (fast.non_finite.index if fast.non_finite else []) == plain["non_finite"]
        if not beyond_float64(*pair):
            check_metrics(fast, plain)
            check_places(fast, plain, name)

    check()


def test_a_square_beyond_float64_leaves_its_root_out():
    pair = np.array([2.0**-562]), np.zeros(1)  # 2^512 ULP
    fast = compare_arrays(*pair, rtol=0.0, atol=1.0)
    assert fast.metrics["max_ulp"] == fast.metrics["mean_ulp"] == 2.0**512
    assert "rms_ulp" not in fast.metrics
    check_metrics(fast, plain_compare(*pair, 0.0, 1.0))


def slack_of(metric, plain, dtype):
    """What cancellation may cost: of signed errors in a mean, of |a| - |r| for complex numbers, of log2 near 1.

    Squares of errors below 1e-162 ULP are 0 in float64, which only integers near a subnormal reference have.
    """
    if metric in ("bias", "outward_bias"):
        figures = plain["metrics"]
        sizes = float_of(figures["mean_magnitude"] or 0) if dtype == "complex64" else 0.0
        return 1e-12 * float_of(figures["mean_abs_error"] or 0) + 1e-15 * sizes
    return {"mean_log2_ulp": 1e-12, "rms_ulp": 1e-160}.get(metric, 1e-322)


def check_metrics(fast, plain):
    for metric, exact in plain["metrics"].items():
        # The sum of squares overflows where the root is far below the largest float64.
        largest = 1e150 if metric == "rms_ulp" else 1e300
        assert agree(fast.metrics.get(metric), exact, slack_of(metric, plain, fast.dtype), largest), metric
    for metric, exact in plain["percentiles"].items():
        check_percentile(fast.metrics.get(metric), exact, metric)
    check_mean_log2(fast.metrics.get("mean_log2_ulp"), plain["mean_log2_ulp"])
    check_second_degree(fast.metrics, plain["second_degree"])
    for metric, (values, bound) in plain["shares"].items():
        if not values:
            assert metric not in fast.metrics
            continue
        certain = sum(value > bound * (1 + 1e-14) for value in values) / len(values)
        possible = sum(value > bound * (1 - 1e-14) for value in values) / len(values)
        assert certain <= fast.metrics[metric] <= possible, metric
    ratios, matched = plain["matching"]
    matching = fast.metrics["match_ratio"] * fast.counts["n"]
    assert sum(r <= 1 - 1e-14 for r in ratios) + matched - 1e-6 <= matching
    assert matching <= sum(r <= 1 + 1e-14 for r in ratios) + matched + 1e-6


def check_percentile(measured, exact, metric):
    """A percentile is rounded up by less than a 128th; subnormal ones to the end of the first bin."""
    true = math.nan if exact is None else float_of(exact)
    if measured is None:
        assert not true < 1e308, metric
    else:
        assert true * (1 - 1e-15) <= measured <= true * (1 + 2**-7) + 1.8e-310, metric


def check_mean_log2(measured, exact):
    """The logarithm of what is rounded up by less than a 128th."""
    if exact is None or measured is None:
        assert measured is None
    else:
        assert exact - 1e-12 <= measured <= exact + math.log2(1 + 2**-7)


def check_second_degree(metrics, sums):
    dd, rr, rd = sums["dd"], sums["rr"], sums["rd"]
    if not sums["n"] or metrics.get("max_abs_error") is None or "rms_error" not in metrics:
        return
    assert agree(metrics.get("diff1"), sums["d"] / (sums["r"] + Fraction(1e-9)), 1e-322)
    assert agree(metrics.get("diff2"), root(dd / (rr + Fraction(1e-9))), 1e-322)
    if dd and rr:
        decibels = 10 * (log2(rr) - log2(dd)) * math.log10(2)
        assert metrics["snr"] == pytest.approx(decibels, rel=1e-9, abs=1e-9)
        assert metrics["effective_bits"] == pytest.approx(min((log2(rr) - log2(dd)) / 2, 53), rel=1e-9, abs=1e-9)
    aa = rr + 2 * rd + dd
    if aa > 0 and rr > 0 and "cosine" in metrics:
        sine2 = (rr * dd - rd * rd) / (aa * rr)
        cosine = float((rr + rd) / root(aa * rr))
        distance = float(sine2) / (1 + cosine) if cosine >= 0 else 1 - cosine
        lost = float(rr / aa) * 2**-50  # actuals far smaller than the references are lost in rounded products
        assert metrics["cosine"] == pytest.approx(cosine, abs=1e-9 + lost)
        assert metrics["cosine_distance"] == pytest.approx(distance, rel=1e-9, abs=1e-12 + lost)


def check_places(fast, plain, name):
    worst = fast.worst.index if fast.worst else []
    assert (sorted(worst) == sorted(plain["worst"])) if name == "complex64" else (worst == plain["worst"])
    if fast.histogram is None:
        assert fast.counts["finite"] == 0
        return
    zeros, bins = plain["histogram"]
    assert fast.histogram.zeros == zeros
    if name == "complex64":  # an absolute value may round into the next bin
        assert sum(fast.histogram.counts) == sum(bins.values())
    else:
        assert dict(zip(fast.histogram.bins, fast.histogram.counts, strict=True)) == bins
