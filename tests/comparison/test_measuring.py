import sys
from pathlib import Path

import numpy as np
import pytest

from precreg.arithmetic.formats import numpy_dtype
from precreg.comparison.pairing import ArrayPlace, RawFormat, StoredPair, pair_arrays, read_side
from precreg.comparison.session import KEPT_PAIR_POSITIONS, ComparisonTerms, compare_pair, comparison_layers
from precreg.measure.comparison import compare_arrays, summarize_arrays
from precreg.measure.figures import SUMMARY_METRICS
from precreg.types.verdict import Reason, Status

R = np.random.default_rng(0).standard_normal((8, 16))
A = R.astype(np.float32)
RAW = RawFormat("float32")


def terms(role="reference", worst=100, **limits):
    return ComparisonTerms(comparison_layers(None, limits), (), role, worst)


def one(actual, reference, benchmark=None, terms=terms(), raw=RAW):  # noqa: B008  (never changed)
    third = None if benchmark is None else read_side(Path(benchmark), raw)
    (pair,) = pair_arrays(read_side(Path(actual), raw), read_side(Path(reference), raw), {}, third)
    return compare_pair(pair, terms)


@pytest.fixture
def sides(write):
    write("a.npy", A)
    write("r.npy", R)
    return write


def test_a_pair_that_passes_keeps_a_few_positions(sides):
    sides("b.npy", A * np.float32(1 + 1e-7))
    found = one("b.npy", "r.npy")
    assert (found.verdict.status, found.verdict.reason) == (Status.PASSED, Reason.WITHIN_TOLERANCE)
    assert len(found.comparison.worst.index) == KEPT_PAIR_POSITIONS
    assert len(one("b.npy", "r.npy", terms=terms()._replace(keep_all=True)).comparison.worst.index) == 100


def test_a_pair_that_fails_keeps_all_that_were_asked_for(sides):
    found = one("a.npy", "r.npy", terms=terms(rtol=0.0, atol=0.0))
    assert found.verdict.reason is Reason.OUT_OF_TOLERANCE
    assert len(found.comparison.worst.index) == 100
    assert len(one("a.npy", "r.npy", terms=terms(rtol=0.0, atol=0.0, worst=7)).comparison.worst.index) == 7


def test_the_verdict_speaks_of_no_seed_and_does_not_repeat_the_name(sides):
    found = one("a.npy", "r.npy", terms=terms(rtol=0.0, atol=0.0))
    assert found.name == found.comparison.output == "a"
    for finding in found.verdict.findings:
        assert (finding.output, finding.seed) == ("", None)
    assert found.verdict.message.startswith("match_ratio is ")


def test_a_dtype_that_differs_is_a_finding_against_a_golden_alone(sides):
    assert one("a.npy", "r.npy").verdict.reason is Reason.IDENTICAL
    assert one("a.npy", "r.npy", terms=terms("golden")).verdict.reason is Reason.DTYPE_MISMATCH
    sides("g.npy", A)
    assert one("a.npy", "g.npy", terms=terms("golden")).verdict.status is Status.PASSED


TRAPS = {
    "another infinity": (np.inf, -np.inf, Reason.NON_FINITE_MISMATCH),
    "NaN where there is a number": (np.nan, 1.0, Reason.NON_FINITE_MISMATCH),
    "a number where there is NaN": (1.0, np.nan, Reason.NON_FINITE_MISMATCH),
    "NaN on both sides": (np.nan, np.nan, Reason.IDENTICAL),
    "zero against minus zero": (0.0, -0.0, Reason.WITHIN_TOLERANCE),
}


@pytest.mark.parametrize("name", TRAPS)
def test_what_other_tools_let_pass(write, name):
    ours, theirs, reason = TRAPS[name]
    write("a.npy", np.array([1, ours], np.float32))
    write("r.npy", np.array([1, theirs]))
    assert one("a.npy", "r.npy").verdict.reason is reason


@pytest.mark.parametrize(
    ("actual", "reference", "reason"),
    [
        (A[:4], R, Reason.SHAPE_MISMATCH),
        (A[:, :1], R, Reason.SHAPE_MISMATCH),
        (A.reshape(-1), R, Reason.SHAPE_MISMATCH),
        (A[:0], R[:0], Reason.EMPTY),
        (np.full(3, np.nan, np.float32), np.full(3, np.nan), Reason.EMPTY),
    ],
)
def test_nothing_passes_by_absence(write, actual, reference, reason):
    write("a.npy", actual)
    write("r.npy", reference)
    found = one("a.npy", "r.npy")
    assert (found.verdict.status, found.verdict.reason) == (Status.FAILED, reason)


def test_differences_are_not_taken_in_the_dtype_of_the_files(write):
    write("a.npy", np.array([0, 5], np.uint8))
    write("r.npy", np.array([1, 5], np.uint8))
    assert one("a.npy", "r.npy").comparison.metrics["max_abs_error"] == 1


def test_a_side_that_is_missing(sides):
    place = read_side(Path("a.npy"), RAW).arrays["a"]
    for pair, says in ((StoredPair("y", place, None), "reference"), (StoredPair("y", None, place), "actual")):
        found = compare_pair(pair, terms())
        assert (found.verdict.status, found.verdict.reason) == (Status.FAILED, Reason.MISSING_OUTPUT)
        assert found.verdict.message == f"the {says} side has no array 'y'"
        assert found.comparison is None
        assert found.tolerance is None


@pytest.mark.parametrize(("side", "reason"), [("actual", Reason.SUBJECT_ERROR), ("reference", Reason.REFERENCE_ERROR)])
def test_a_side_that_cannot_be_read_is_an_error_whatever_the_other_is(write, side, reason):
    broken = ArrayPlace(write("broken.npy", b"no array"), "shown.npy", RAW)
    for other in (None, ArrayPlace(write("a.npy", A), "a.npy", RAW)):
        pair = StoredPair("y", broken, other) if side == "actual" else StoredPair("y", other, broken)
        found = compare_pair(pair, terms())
        assert (found.verdict.status, found.verdict.reason) == (Status.ERROR, reason)
        assert found.verdict.message.startswith("shown.npy: expected a .npy file")


@pytest.mark.parametrize(("actual", "reference"), [("a.bin", "g.npy"), ("g.npy", "a.bin"), ("a.bin", "g.bin")])
def test_raw_bytes_take_the_shape_of_the_other_side(write, actual, reference):
    for path in {actual, reference}:
        write(path, A)
    found = one(actual, reference)
    assert found.verdict.reason is Reason.IDENTICAL
    assert found.comparison.shape == ((128,) if actual.endswith("bin") and reference.endswith("bin") else (8, 16))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int16", "complex64"])
@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_raw_bytes_of_either_byte_order(write, dtype, byte_order):
    array = np.round(R).astype(numpy_dtype(dtype))
    swapped = array.byteswap() if (byte_order == "big") == (sys.byteorder == "little") else array
    write("a.bin", swapped)
    write("r.npy", array.astype(np.complex128))
    found = one("a.bin", "r.npy", raw=RawFormat(dtype, None, byte_order))
    assert (found.comparison.dtype, found.verdict.reason) == (dtype, Reason.IDENTICAL)


def test_raw_bytes_of_another_number_have_another_shape(write):
    write("a.bin", A[:4])
    write("g.npy", A)
    assert one("a.bin", "g.npy").verdict.reason is Reason.SHAPE_MISMATCH


def test_a_benchmark_is_measured_beside_and_judged_by_nothing(sides):
    sides("b.npy", (A * 2).astype(np.float32))
    found = one("a.npy", "r.npy", "b.npy")
    assert found.verdict.status is Status.PASSED
    assert found.benchmark.metrics["max_rel_error"] == pytest.approx(1)
    assert found.benchmark_path == "b.npy"


def test_a_benchmark_of_another_shape_is_told(sides):
    sides("b.npy", A[:4])
    found = one("a.npy", "r.npy", "b.npy")
    assert found.benchmark is None
    assert found.benchmark_problem == "b.npy: expected shape (8, 16) but got shape=(4, 16)"


def test_a_benchmark_that_is_wrongly_not_finite_is_told(sides):
    broken = A.copy()
    broken[0, 0] = np.inf
    sides("b.npy", broken)
    found = one("a.npy", "r.npy", "b.npy")
    assert "mare_ratio" not in found.comparison.metrics
    assert found.benchmark_problem.startswith(
        "b.npy: expected NaN and infinities where the reference has them but 1 of"
    )


JUDGED = terms(rtol=1.0)._replace(alpha=0.1 / 32, regression=True)


@pytest.mark.parametrize(
    ("size", "reason", "nearer"),
    [(1.58, Reason.REGRESSED, "benchmark"), (0.5, Reason.IMPROVED, "actual"), (1.0, Reason.WITHIN_TOLERANCE, None)],
)
def test_a_benchmark_judges_if_it_is_to(sides, size, reason, nearer):
    """The benchmark's own bits pass, and nothing about averages is said."""
    sides("before.npy", (R * (1 + 1e-3 * R)).astype(np.float32))
    sides("after.npy", (R * (1 + 1e-3 * size * R)).astype(np.float32))
    found = one("after.npy", "r.npy", "before.npy", JUDGED)
    assert found.verdict.reason is reason
    assert found.difference.nearer == (nearer or "same_bits")
    assert found.comparison.metrics["mean_abs_error_ratio"] == pytest.approx(size, rel=1e-3)
    assert one("after.npy", "r.npy", "before.npy", terms(rtol=1.0)).verdict.reason is Reason.WITHIN_TOLERANCE


@pytest.mark.parametrize(
    ("benchmark", "words"),
    [
        ("short.npy", "short.npy: expected shape (8, 16) but got shape=(4, 16)"),
        ("nan.npy", "nan.npy: expected NaN and infinities where the reference has them"),
    ],
)
def test_a_benchmark_that_is_to_judge_and_cannot_is_an_error(sides, benchmark, words):
    sides("short.npy", A[:4])
    sides("nan.npy", np.where(R > 1, np.nan, A))
    found = one("a.npy", "r.npy", benchmark, JUDGED)
    assert (found.verdict.status, found.verdict.reason) == (Status.ERROR, Reason.BENCHMARK_ERROR)
    assert words in found.verdict.message


def test_members_of_archives_lie_anywhere_in_their_files(write):
    """The arrays of a zip file or of .safetensors need not begin where their dtype may lie in memory."""
    write("a.npz", {"odd": np.arange(3, dtype=np.int8), "y": A})
    write("r.safetensors", {"a": np.arange(3, dtype=np.int8), "y": A})
    found = one("a.npz:y", "r.safetensors:y")
    assert found.verdict.reason is Reason.IDENTICAL


def test_without_details_a_pair_has_the_verdict_and_the_metrics_of_a_summary(sides):
    sides("b.npy", A * np.float32(1 + 1e-6))
    sides("wrong.npy", A * np.float32(1.5))
    for file in ("b.npy", "wrong.npy"):
        plain = one(file, "r.npy")
        brief = one(file, "r.npy", terms=terms()._replace(details=False))
        assert brief.verdict == plain.verdict
        if plain.verdict.status is Status.FAILED:
            assert brief == plain
        else:
            assert brief.comparison.counts == plain.comparison.counts
            assert brief.comparison.places == plain.comparison.places
            assert brief.comparison.metrics.items() <= plain.comparison.metrics.items()
            assert set(brief.comparison.metrics) == SUMMARY_METRICS


def test_a_bound_on_another_metric_is_measured_without_details(sides):
    sides("b.npy", A * np.float32(1 + 1e-6))
    for limit, status in ((1000, Status.PASSED), (1, Status.FAILED)):
        found = one("b.npy", "r.npy", terms=terms(max_ulp=limit)._replace(details=False))
        assert found.verdict == one("b.npy", "r.npy", terms=terms(max_ulp=limit)).verdict
        assert found.verdict.status is status


@pytest.mark.parametrize("shape", [(0,), (), (1,), (3, 0, 2), (2, 3, 4, 5)])
def test_a_summary_of_any_shape_agrees_with_the_whole(shape):
    random = np.random.default_rng(1)
    for dtype in (np.float16, np.float32, np.int8, np.complex64, bool):
        a, r = (random.normal(size=shape).astype(dtype) for _ in range(2))
        whole = compare_arrays(a, r, rtol=1e-3, atol=1e-3)
        brief = summarize_arrays(a, r, rtol=1e-3, atol=1e-3)
        assert (brief.counts, brief.places, brief.shape) == (whole.counts, whole.places, whole.shape)
        assert brief.metrics == {name: value for name, value in whole.metrics.items() if name in SUMMARY_METRICS}
