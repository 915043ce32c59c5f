import itertools
import math

import ml_dtypes
import msgspec
import numpy as np
import pytest

from precreg.errors import UserError
from precreg.measure.comparison import compare_arrays
from precreg.measure.groups import GROUP_SUMS
from precreg.measure.metrics import COUNT_DESCRIPTIONS, METRICS
from precreg.types.outcome import Comparison

UNDEFINED = {"error_magnitude_correlation"}
"""Not defined where all references are the same."""


def measure(actual, reference, **options):
    return compare_arrays(actual, reference, **({"rtol": 0.0, "atol": 0.0} | options))


# Traps met in tools of this kind.


def test_trap_plus_infinity_against_minus_infinity_is_a_mismatch():
    comparison = measure(np.array([np.inf, -np.inf]), np.array([-np.inf, -np.inf]), atol=math.inf)
    assert (comparison.counts["inf_mismatched"], comparison.counts["inf_matched"]) == (1, 1)
    assert comparison.metrics["match_ratio"] == 0.5
    assert comparison.non_finite.index == [0]
    assert (comparison.non_finite.actual, comparison.non_finite.reference) == (["inf"], ["-inf"])


@pytest.mark.parametrize("nan_in_actual", [True, False])
def test_trap_a_nan_on_one_side_hides_no_other_element(nan_in_actual):
    clean, spoilt = np.array([1.0, 2.0, 3.0]), np.array([1.5, np.nan, 3.0])
    comparison = measure(spoilt, clean) if nan_in_actual else measure(clean, spoilt)
    assert comparison.metrics["max_abs_error"] == 0.5
    assert comparison.metrics["match_ratio"] == pytest.approx(1 / 3)
    assert comparison.counts["nan_mismatched"] == 1
    assert comparison.worst.index == [0]


def test_trap_no_metric_is_nan_or_infinite():
    comparison = measure(np.array([1e308, np.nan]), np.array([-1e308, 1.0]))
    assert "mse" not in comparison.metrics
    assert all(map(math.isfinite, comparison.metrics.values()))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_trap_an_empty_array_has_no_match_ratio(shape):
    comparison = measure(np.zeros(shape), np.zeros(shape))
    assert comparison.metrics == {}
    assert comparison.counts == dict.fromkeys(COUNT_DESCRIPTIONS, 0)


def test_trap_all_nan_leaves_no_error_that_a_bound_could_pass():
    comparison = measure(np.full(4, np.nan), np.ones(4))
    shares = {"match_ratio": 0.0, "equal_share": 0.0, "differing_bits_share": 1.0, "non_finite_mismatch_share": 1.0}
    assert comparison.metrics == shares
    assert comparison.histogram is None


def test_trap_zero_references_make_no_huge_relative_error():
    comparison = measure(np.array([1e-3, 2.0]), np.array([0.0, 2.0]))
    assert comparison.metrics["max_rel_error"] == 0.0
    assert comparison.counts["zero_references"] == 1
    assert "max_rel_error" not in measure(np.ones(2), np.zeros(2)).metrics


def test_trap_unsigned_integers_are_promoted_before_they_are_subtracted():
    comparison = measure(np.array([0], np.uint8), np.array([1], np.uint8))
    assert (comparison.metrics["bias"], comparison.metrics["max_abs_error"]) == (-1.0, 1.0)


def test_trap_float16_is_promoted_before_it_is_subtracted():
    comparison = measure(np.array([6e4], np.float16), np.array([-6e4], np.float16))
    assert comparison.metrics["max_abs_error"] == 120000.0


def test_trap_a_uniform_change_by_a_thousandth_is_measured():
    reference = np.linspace(1, 2, 50)
    metrics = measure((reference * 1.001).astype(np.float32), reference, rtol=2e-3).metrics
    assert metrics["match_ratio"] == 1.0
    assert metrics["mean_rel_error"] == pytest.approx(1e-3, rel=1e-3)


def test_trap_small_figures_are_not_rounded_away():
    assert measure(np.array([1e-300]), np.array([2e-300])).metrics["rms_error"] == 1e-300


def test_an_element_at_the_tolerance_itself_matches():
    actual, reference = np.array([1.5, 3.0, 3.1]), np.array([1.0, 2.0, 2.0])
    assert measure(actual, reference, rtol=0.25, atol=0.25).metrics["match_ratio"] == pytest.approx(1 / 3)
    assert measure(actual, reference, atol=0.5).metrics["match_ratio"] == pytest.approx(1 / 3)
    assert measure(actual, reference, rtol=0.5).metrics["match_ratio"] == pytest.approx(2 / 3)


# Finiteness, in the output's dtype.


def test_a_reference_beyond_float16_matches_an_infinity():
    comparison = measure(np.array([np.inf, 65504], np.float16), np.array([7e4, 7e4]))
    assert (comparison.counts["inf_matched"], comparison.counts["inf_mismatched"]) == (1, 1)
    assert comparison.metrics["equal_share"] == 0.5


def test_a_reference_beyond_e4m3fn_matches_nan_for_the_format_has_no_infinity():
    comparison = measure(np.array([np.nan, 448], ml_dtypes.float8_e4m3fn), np.array([1e6, 460.0]))
    assert comparison.counts["nan_matched"] == 1
    assert comparison.metrics["equal_share"] == 1.0


def test_a_non_finite_integer_reference_is_a_mismatch():
    comparison = measure(np.array([1, 2], np.int32), np.array([np.nan, np.inf]))
    assert (comparison.counts["nan_mismatched"], comparison.counts["inf_mismatched"]) == (1, 1)


def test_a_nan_equals_a_nan_with_another_payload():
    negative = np.array([0xFFC00001], np.uint32).view(np.float32)
    assert measure(negative, np.array([np.nan], np.float32)).metrics["equal_share"] == 1.0


def test_zeros_of_different_sign_are_exact_but_not_identical():
    comparison = measure(np.array([-0.0]), np.array([0.0]))
    assert (comparison.counts["exact_matches"], comparison.metrics["equal_share"]) == (1, 0.0)


# Integers, booleans, complex numbers, longdouble.

INT64 = np.iinfo(np.int64)


@pytest.mark.parametrize(
    ("actual", "reference", "difference"),
    [
        (np.array([2**53 + 1]), np.array([2**53]), 1),
        (np.array([INT64.max]), np.array([INT64.min]), 2**64 - 1),
        (np.array([2**64 - 1], np.uint64), np.array([2**64 - 2], np.uint64), 1),
        (np.array([2**64 - 1], np.uint64), np.array([-1]), 2**64),
        (np.array([INT64.max]), np.array([INT64.max - 3], np.uint64), 3),
        (np.array([-(2**31)], np.int32), np.array([2**31], np.int64), -(2**32)),
        (np.array([True]), np.array([False]), 1),
    ],
)
def test_integer_differences_are_exact(actual, reference, difference):
    comparison = measure(actual, reference)
    assert comparison.metrics["bias"] == float(difference)
    assert comparison.metrics["max_ulp"] == float(abs(difference))
    assert comparison.metrics["equal_share"] == 0.0
    assert comparison.worst.actual == [int(actual[0])]


def test_complex_errors_are_absolute_values_in_ulps_of_the_component():
    comparison = measure(np.array([3 + 4j], np.complex64), np.array([3 + 4j + (3 + 4j) * 2.0**-20]))
    assert comparison.metrics["max_abs_error"] == 5 * 2.0**-20
    assert comparison.metrics["max_ulp"] == 5 * 2.0**-20 / 2.0**-21
    assert comparison.metrics["bias"] == pytest.approx(-5 * 2.0**-20)
    assert comparison.worst.actual == ["(3+4j)"]


def test_complex_infinities_match_by_component():
    infinite = np.array([complex(np.inf, 1), complex(np.inf, 1), complex(np.nan, np.inf)])
    comparison = measure(infinite, np.array([complex(np.inf, 2), complex(1, np.inf), complex(0, np.nan)]))
    found = {name: comparison.counts[name] for name in ("inf_matched", "inf_mismatched", "nan_matched")}
    assert found == {"inf_matched": 1, "inf_mismatched": 1, "nan_matched": 1}


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="longdouble is no wider than float64 here")
def test_a_longdouble_reference_sees_a_fraction_of_a_float64_ulp():
    reference = np.longdouble(1) + np.longdouble(2) ** -54
    comparison = measure(np.array([1.0]), np.array([reference]))
    assert comparison.metrics["max_ulp"] == 0.25
    assert comparison.worst.reference == [str(reference)]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="longdouble is no wider than float64 here")
def test_a_longdouble_has_the_name_that_suites_give_it():
    values = np.ones(2, np.longdouble)
    comparison = measure(values, values)
    assert (comparison.dtype, comparison.reference_dtype) == ("longdouble", "longdouble")


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="longdouble is no wider than float64 here")
def test_a_longdouble_reference_is_rounded_to_float16_once():
    above_the_midpoint = np.longdouble(1) + np.longdouble(2) ** -11 + np.longdouble(2) ** -63
    comparison = measure(np.array([1 + 2.0**-10], np.float16), np.array([above_the_midpoint]))
    assert comparison.metrics["equal_share"] == 1.0


# ULP and published examples.


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_neighbours_are_one_ulp_apart(dtype):
    reference = np.array([1.0, 1.5, -3.0], dtype)
    bits = reference.view(f"u{reference.itemsize}")
    metrics = measure((bits + 1).view(dtype), reference).metrics
    assert (metrics["max_ulp"], metrics["mean_ulp"], metrics["share_above_1_ulp"]) == (1.0, 1.0, 0.0)


def test_shares_count_what_is_above_the_bound_and_not_at_it():
    errors_in_ulps = np.array([32.0, 32.5, 1.0, 1.5])
    metrics = measure(np.ones(4, np.float32), 1 + errors_in_ulps * 2.0**-23).metrics
    assert (metrics["share_above_32_ulp"], metrics["share_above_1_ulp"]) == (0.25, 0.75)


def test_at_a_zero_reference_the_ulp_is_the_smallest_subnormal():
    assert measure(np.array([2.0**-24], np.float16), np.array([0.0])).metrics["max_ulp"] == 1.0


def test_the_published_cast_chain_has_its_published_errors():
    value = np.array([1.12156456132])
    to_float32, to_float16 = value.astype(np.float32), value.astype(np.float16)
    assert (to_float32[0].item(), to_float16[0].item()) == (1.12156450748443603515625, 1.12109375)
    assert measure(to_float32, value).metrics["max_abs_error"] == 1.12156456132 - 1.12156450748443603515625
    metrics = measure(to_float16, value).metrics
    assert metrics["max_abs_error"] == 1.12156456132 - 1.12109375
    assert metrics["max_ulp"] == (1.12156456132 - 1.12109375) * 2**10
    assert metrics["equal_share"] == 1.0


def test_the_published_float16_sum_is_wrong_by_less_than_half_an_ulp():
    operands = np.array([1.125, 0.12457275390625])
    total = operands.astype(np.float16).sum(keepdims=True, dtype=np.float16)
    comparison = measure(total, operands.sum(keepdims=True))
    assert (total[0], comparison.worst.reference) == (1.25, [1.24957275390625])
    assert comparison.metrics["max_abs_error"] == 0.00042724609375
    assert comparison.metrics["max_ulp"] == 0.4375
    assert measure(operands.astype(np.float32).sum(keepdims=True), operands.sum(keepdims=True)).worst is None


# Positions, heat, shapes.


def test_worst_are_ordered_by_error_and_then_by_index():
    errors = np.array([0, 3, 1, 3, 2, 3, 0], np.float32)
    assert measure(errors, np.zeros(7), worst=4).worst.index == [1, 3, 5, 4]
    assert measure(errors, np.zeros(7)).worst.index == [1, 3, 5, 4, 2]
    assert measure(errors, np.zeros(7), worst=0).worst is None
    assert measure(errors, errors).worst is None


def test_positions_count_the_elements_that_are_not_finite():
    actual = np.array([[np.nan, 1.0], [np.nan, 2.5]])
    comparison = measure(actual, np.array([[0.0, 1.0], [np.nan, 2.0]]), worst=1)
    assert (comparison.worst.index, comparison.non_finite.index) == ([3], [0])


def test_positions_hold_values_that_read_back_exactly():
    actual = np.array([0.1], np.float32)
    assert measure(actual, np.array([0.2])).worst.actual == [actual[0].item()]


def test_heat_is_the_mean_error_along_the_last_axis():
    actual = np.arange(12.0).reshape(2, 2, 3)
    assert measure(actual, np.zeros_like(actual)).heat == [4.5, 5.5, 6.5]
    actual[0, 0] = np.nan
    actual[:, :, 2] = np.nan
    assert measure(actual, np.zeros_like(actual)).heat == [6.0, 7.0, 0.0]
    assert measure(np.ones(5), np.zeros(5)).heat is None


def test_heat_has_at_most_16_groups_that_differ_by_one_column():
    error = np.random.default_rng(0).random((3, 150))
    heat = measure(error, np.zeros_like(error)).heat
    edges = [150 * group // 16 for group in range(17)]
    assert heat == pytest.approx([error[:, low:high].mean() for low, high in itertools.pairwise(edges)])


def test_shapes_are_recorded_and_never_broadcast():
    comparison = measure(np.ones((3, 1)), np.ones((1, 3)))
    assert (comparison.shape, comparison.reference_shape) == ((3, 1), (1, 3))
    assert (comparison.metrics, comparison.counts, comparison.histogram) == ({}, {}, None)


# Memory layouts.


def rearranged(array, folder):
    spread = np.zeros((8, 20), array.dtype)
    spread[::2, ::2] = array
    np.save(folder / "array.npy", array)
    frozen = array.copy()
    frozen.flags.writeable = False
    return {
        "strided": spread[::2, ::2],
        "reversed": array[::-1, ::-1].copy()[::-1, ::-1],
        "fortran": np.asfortranarray(array),
        "swapped": array.astype(array.dtype.newbyteorder()),
        "read-only": frozen,
        "memory-mapped": np.load(folder / "array.npy", mmap_mode="r"),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.complex64])
def test_memory_layout_changes_nothing(dtype, tmp_path):
    generator = np.random.default_rng(1)
    actual, reference = ((generator.normal(size=(4, 10)) * 100).astype(dtype) for _ in "ar")
    expected = measure(actual, reference)
    for layout, other in rearranged(actual, tmp_path).items():
        assert measure(other, reference) == expected, layout
    for layout, other in rearranged(reference, tmp_path).items():
        assert measure(actual, other) == expected, layout


def test_scalars_are_arrays_without_axes():
    comparison = measure(np.float32(1.5), 1.0)
    assert (comparison.shape, comparison.worst.index, comparison.heat) == ((), [0], None)
    assert comparison.metrics["max_abs_error"] == 0.5


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "complex64", "longdouble"])
def test_the_sums_of_groups_are_the_means_of_the_whole(dtype):
    generator = np.random.default_rng(8)
    reference = (generator.normal(size=(30, 40)) * 50).astype(dtype)
    actual = (reference * (1 + generator.normal(size=(30, 40)) * 1e-3)).astype(dtype)
    actual[3], actual[5, 7] = reference[3], 0 if dtype == "int32" else np.nan
    comparison = measure(actual, reference)
    n, metrics = comparison.counts["finite"], comparison.metrics
    for groups in comparison.groups:
        assert sum(groups.n) == n
        averages = dict.fromkeys(GROUP_SUMS) | {
            "absolute": metrics["mean_abs_error"],
            "signed": metrics["bias"],
            "outward": metrics["outward_bias"],
            "squared": metrics["mse"],
            "ulps": metrics["mean_ulp"],
            "squared_ulps": metrics["rms_ulp"] ** 2,
            "logs": metrics["mean_log2_ulp"],
        }
        for name, average in averages.items():
            of = getattr(groups, name)
            assert math.fsum(of) / n == pytest.approx(average, rel=1e-12, abs=1e-12), name


def test_inputs_are_left_as_they_are():
    actual, reference = np.array([2.0, np.nan, 1.0]), np.array([3.0, np.inf, 1.0])
    measure(actual, reference)
    np.testing.assert_array_equal(actual, [2.0, np.nan, 1.0])
    np.testing.assert_array_equal(reference, [3.0, np.inf, 1.0])


# The record.


def test_a_comparison_names_the_known_metrics_in_order_and_survives_json():
    comparison = measure(np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3)), output="loss", seed=3)
    assert list(comparison.metrics) == [
        name
        for name, metric in METRICS.items()
        if not metric.needs_benchmark and not metric.needs_samples and name not in UNDEFINED
    ]
    assert list(comparison.counts) == list(COUNT_DESCRIPTIONS)
    assert (comparison.output, comparison.seed, comparison.dtype) == ("loss", 3, "float32")
    assert msgspec.json.decode(msgspec.json.encode(comparison), type=Comparison) == comparison


@pytest.mark.parametrize(
    "bad",
    [np.array([None]), np.array(["1"]), np.array([(1.0,)], [("x", "f4")]), np.array(["2020-01-01"], "datetime64[D]")],
)
def test_what_is_no_number_is_refused_by_name(bad):
    with pytest.raises(UserError, match="got dtype=") as caught:
        measure(np.ones(1), bad)
    assert caught.value.slug == "bad-value"


def test_a_floating_point_format_without_known_spacing_is_refused():
    with pytest.raises(UserError) as caught:
        measure(np.ones(1, ml_dtypes.float8_e8m0fnu), np.ones(1))
    assert caught.value.slug == "unknown-dtype"
