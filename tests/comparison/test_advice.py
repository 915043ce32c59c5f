"""Advice names the cause that was planted, with its numbers, and says nothing of results that are rounded right."""

import re

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.arithmetic.faults.planting import misaligned_tail
from precreg.arithmetic.formats import Rounding, format_of
from precreg.arithmetic.rounding import round_to
from precreg.comparison.advice import ADVICE_THRESHOLDS, MAX_ADVICE, advise_comparison
from tests.comparison.made import failed, measured, missing, passed, reshaped, rounded

SEEDS = range(5)


def drawn(seed=0, shape=(32, 203)):
    return np.random.default_rng(seed).standard_normal(shape)


def told(actual, reference):
    return advise_comparison(measured(actual, reference))


def only(said, *parts):
    """Hold that one sentence was said, with these parts in order."""
    assert len(said) == 1, said
    assert re.search(".*".join(map(re.escape, parts)), said[0]), said


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("values", [drawn, lambda seed: np.exp(8 * drawn(seed)), lambda seed: abs(drawn(seed)) + 1])
def test_correct_rounding_gives_no_advice(values, dtype, seed):
    with np.errstate(over="ignore"):
        assert told(values(seed).astype(dtype), values(seed)) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("compute", [np.exp, np.tanh, np.square, lambda x: x * 3 - x, lambda x: x / (np.abs(x) + 1)])
def test_float32_results_of_a_few_roundings_give_no_advice(compute, seed):
    x = drawn(seed).astype(np.float32)
    assert told(compute(x), compute(x.astype(np.float64))) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_single_wrong_element_is_no_pattern(seed):
    reference = drawn(seed)
    actual = reference.astype(np.float32)
    actual[-1, -1] += 1
    assert told(actual, reference) == []


def test_identical_missing_and_reshaped_pairs_give_no_advice():
    assert told(drawn(), drawn()) == []
    assert advise_comparison(passed().comparison) == advise_comparison(reshaped().comparison) == []
    assert missing().comparison is None


@pytest.mark.parametrize("dtype", [np.int32, np.bool_, np.complex64, np.longdouble])
def test_other_numbers_than_real_floats_are_only_told_what_holds_for_them(dtype):
    reference = (100 * drawn()).astype(dtype)
    assert told(reference + dtype(1) if dtype is not np.bool_ else ~reference, reference) in ([], [SHIFTED])


SHIFTED = (
    "errors have one sign, 6,496 above the reference and 0 below, bias 1"
    ": look for a rounding to one side, or for a wrong constant"
)


def test_nan_of_the_actual():
    actual, reference = rounded()
    actual[1, 2, 3:8] = np.nan
    only(told(actual, reference), "5 elements are NaN on one side, in the actual at 5 of 5", "0/0")


def test_nan_that_is_swallowed():
    actual, reference = rounded()
    reference[1, 2, 3:5] = np.nan
    only(told(actual, reference), "2 elements are NaN on one side, in the reference at 2 of 2", "skips NaN")


def test_overflow():
    actual, reference = rounded()
    actual[0, 0, :3] = np.inf
    only(told(actual, reference), "the actual alone is infinite", "at 3 of 3", "widen the accumulator")


def test_saturation():
    reference = np.geomspace(1, 1e6, 200)
    with np.errstate(over="ignore"):
        actual = np.minimum(reference.astype(np.float16), np.float16(65504))
    number = np.count_nonzero(reference >= 65520)
    only(told(actual, reference), f"the actual is 65504, the largest float16, at {number} of {number}", "saturates")


def test_flush_to_zero():
    reference = np.geomspace(1e-6, 1, 400)
    actual = reference.astype(np.float16)
    flushed = (abs(actual) < np.float16(2.0**-14)) & (actual != 0)
    actual[flushed] = 0
    said = told(actual, reference)
    assert said[0].startswith(f"{np.count_nonzero(flushed)} results are 0 where the reference is subnormal in float16")


def test_flushed_results_are_not_said_to_be_missing():
    reference = np.geomspace(1e-6, 1e-3, 400)
    actual = reference.astype(np.float16)
    actual[actual < np.float16(2.0**-14)] = 0
    said = told(actual, reference)
    assert "flush to zero" in said[0]
    assert not any("never written" in text for text in said)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_few_zeros_among_the_worst_are_chance(seed):
    reference = abs(drawn(seed))
    actual = (reference + 0.1 * np.random.default_rng(seed + 100).standard_normal(reference.shape)).astype(np.float32)
    actual[3, :5] = 0
    assert not any("never written" in text for text in told(actual, reference))


def test_a_few_elements_show_no_pattern():
    reference = drawn(shape=(99,))
    assert told((reference * 0.99).astype(np.float32)[:20], reference[:20]) == []
    assert not any("factor" in text for text in told((reference * 0.99).astype(np.float32), reference))


def test_rows_never_written():
    reference = drawn()
    actual = reference.astype(np.float32)
    actual[7] = 0
    only(told(actual, reference), "100 of the 100 worst positions are 0", "never written")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_misaligned_tail(seed):
    reference = drawn(seed)
    askew = misaligned_tail(reference.astype(np.float32), block=16)
    only(told(askew, reference), "errors along axis 1 are", "times those before from index 190 to the end (203)")


def test_a_tail_of_several_groups_and_an_exact_rest():
    reference = drawn(shape=(160, 8)).astype(np.float32)
    actual = reference.copy()
    actual[128:] *= np.float32(1.01) + np.arange(8, dtype=np.float32) / 64
    only(told(actual, reference), "errors along axis 0 are the only ones from index 120 to the end (160)")


def test_a_slope_is_no_tail():
    reference = np.tile(np.linspace(1, 100, 320), (8, 1))
    actual = (reference * (1 + drawn(shape=reference.shape) * 1e-4)).astype(np.float32)
    assert not any("axis" in text for text in told(actual, reference))


@pytest.mark.parametrize("factor", [0.99, 1.002])
def test_a_wrong_factor(factor):
    reference = drawn()
    only(told((reference * factor).astype(np.float32), reference), "relative errors are the same", "wrong factor")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("values", [drawn, lambda seed: np.exp(drawn(seed)), lambda seed: 3 + abs(drawn(seed)) * 4])
@pytest.mark.parametrize(
    ("name", "called", "dtype"),
    [
        ("float16", "float16 or tf32", np.float32),
        ("bfloat16", "bfloat16", np.float32),
        ("bfloat16", "bfloat16", np.float16),
        ("float32", "float32", np.float64),
        ("float8_e4m3fn", "float8_e4m3", np.float32),
    ],
)
def test_a_hop_through_a_narrower_format(name, called, dtype, values, seed):
    reference = values(seed).astype(dtype)
    narrow = round_to(reference.astype(np.float64), replace(format_of(name), min_exponent=-126)).astype(dtype)
    said = told(narrow, reference)
    precision = format_of(name).precision
    only(said, f"those of rounding to {called}: p50", f"unit roundoff 2^-{precision}", "conversion")


@pytest.mark.parametrize("seed", SEEDS)
def test_errors_as_large_as_a_hops_that_are_spread_otherwise_are_none(seed):
    reference = 1 + abs(drawn(seed))
    random = np.random.default_rng(seed + 100)
    for errors in (random.uniform(-1, 1, reference.shape), random.standard_normal(reference.shape) / 3.3):
        for unit in np.geomspace(2.0**-14, 2.0**-6, 33):
            assert not any("rounding to" in text for text in told(reference * (1 + errors * unit), reference))


@pytest.mark.parametrize("seed", SEEDS)
def test_truncation_of_numbers_of_both_signs(seed):
    reference = drawn(seed)
    cut = round_to(reference, format_of("float32"), Rounding.TOWARD_ZERO).astype(np.float32)
    only(told(cut, reference), "100 of the 100 worst positions are nearer to 0", "truncation")


@pytest.mark.parametrize("rounding", [Rounding.UP, Rounding.DOWN])
def test_rounding_to_one_side(rounding):
    reference = drawn()
    actual = round_to(reference, format_of("float32"), rounding).astype(np.float32)
    number = {Rounding.UP: "6,496 above", Rounding.DOWN: "0 above"}[rounding]
    only(told(actual, reference), "errors have one sign", number, "rounding to one side")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_narrow_accumulator(seed):
    terms = np.exp(np.random.default_rng(seed).uniform(-3, 3, (400, 1))) * (1 + abs(drawn(seed, (400, 64))))
    terms = terms.astype(np.float16)
    total = np.zeros(400, np.float16)
    for term in terms.T:
        total = total + term
    said = told(total, terms.astype(np.float64).sum(1))
    only(said, "errors grow with |value|, correlation 0.", "only a rule", "widen the accumulator")


@pytest.mark.parametrize("seed", SEEDS)
def test_errors_of_the_outputs_own_rounding_do_not_accumulate(seed):
    """They grow with the value, too: a correlation alone says nothing."""
    x = np.exp(1.5 * drawn(seed)).astype(np.float32)
    factors = np.float32(1.1), np.float32(1.3)
    comparison = measured(x * factors[0] * factors[1], x.astype(np.float64) * float(factors[0]) * float(factors[1]))
    assert comparison.metrics["max_ulp"] > 0.5
    assert comparison.metrics["error_magnitude_correlation"] > 0.7
    assert not any("grow" in text for text in advise_comparison(comparison))


@pytest.mark.parametrize("seed", SEEDS)
def test_relative_errors_near_zero(seed):
    reference = drawn(seed)
    noise = 1e-5 * np.random.default_rng(seed + 100).standard_normal(reference.shape)
    only(told((reference + noise).astype(np.float32), reference), "max_rel_error", "mean_magnitude", "with atol")


def test_errors_that_are_large_by_themselves_are_not_excused_by_small_references():
    reference = drawn()
    noise = 0.1 * np.random.default_rng(100).standard_normal(reference.shape)
    assert told((reference + noise).astype(np.float32), reference) == []


EXTREME = [0.0, -0.0, 5e-324, 1e-310, 1e-30, 1.0, -3.0, 1e30, 1.7e308, -1.7e308, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble", "complex64", "int8", "bool"])
@pytest.mark.parametrize("seed", SEEDS)
def test_any_comparison_can_be_advised_on(seed, dtype):
    random = np.random.default_rng(seed)
    for size in (0, 1, 40, 300):
        numbers = EXTREME[: random.integers(1, len(EXTREME) + 1)]
        with np.errstate(all="ignore"):
            actual, reference = (random.choice(numbers, size).astype(dtype) for _ in range(2))
        said = told(actual, reference)
        assert len(said) <= MAX_ADVICE
        assert all(re.search(r"\d.*: \w", text) for text in said)


def test_there_are_at_most_three_sentences():
    actual, reference = (np.repeat(side, 20, axis=2) for side in rounded())
    with np.errstate(over="ignore"):
        reference[0, 0, :4], actual[0, 0, :4] = 1e6, 65504
    actual[0, 0, 5], actual[0, 1, 5] = np.nan, np.inf
    actual[..., 190:] = 0
    said = told(actual, reference)
    assert len(said) == MAX_ADVICE
    assert "NaN" in said[0]
    assert "infinite" in said[1]
    assert "65504" in said[2]


def test_every_sentence_has_a_number_and_says_what_to_look_at():
    said = advise_comparison(failed().comparison)
    assert said
    assert all(re.search(r"\d.*: \w", text) for text in said)


def test_facts_that_are_absent_give_no_advice():
    comparison = measured(*rounded())
    bare = replace(comparison, metrics={"max_ulp": 9.0}, counts={}, worst=None, non_finite=None, groups=())
    assert advise_comparison(bare) == []


def test_every_threshold_has_its_reason():
    assert all(threshold.why for threshold in ADVICE_THRESHOLDS.values())
