"""Sentences on the shape of errors have its figures, and where the old rules misled they are right or silent."""

import re
from typing import get_args

import ml_dtypes
import numpy as np
import pytest

from precreg.measure.comparison import compare_arrays
from precreg.measure.fingerprints import find_fingerprints
from precreg.report.causes.fingerprints import (
    _WORDS,
    MAX_FINGERPRINTS,
    describe_fingerprint,
    describe_fingerprints,
    describe_near_zero,
)
from precreg.types.diagnosis import Fingerprint, FingerprintKind


def drawn(shape=(32, 203), seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def said(actual, exact):
    return describe_fingerprints(find_fingerprints("y", actual, exact))


def only(sentences, *parts):
    """Hold that one sentence was said, with these parts in order."""
    assert len(sentences) == 1, sentences
    assert re.search(".*".join(map(re.escape, parts)), sentences[0]), sentences


def test_every_kind_has_its_words():
    assert set(_WORDS) == set(get_args(FingerprintKind))


@pytest.mark.parametrize("kind", get_args(FingerprintKind))
def test_a_record_that_lacks_figures_is_still_described(kind):
    values = {"what": "nan_of_actual"} if kind == "non_finite" else {}
    assert ": look" in describe_fingerprint(Fingerprint(kind, "y", 0.97, values))


def wrong(change):
    actual = drawn().astype(np.float32)
    change(actual)
    return actual, drawn()


def zero_row(array):
    array[7] = 0


def wrong_channel(array):
    array[:, 17] *= np.float32(1.25)


def shifted_tail(array):
    array[:, 192:] = array[:, 191:-1].copy()


def nan_block(array):
    array[3, 2:7] = np.nan


PLANTED = {
    "factor": (
        lambda: ((drawn() * 64 / 63).astype(np.float32), drawn()),
        "results are 1.01587302 times the exact ones, which is 64 / 63: look for a count n in place of n - 1",
    ),
    "other factor": (
        lambda: ((drawn() * 1.2).astype(np.float32), drawn()),
        "nearly all results are 1.2 times the exact ones: look for a wrong constant",
    ),
    "offset": (
        lambda: ((drawn() - 0.25).astype(np.float32), drawn()),
        "nearly all results are 0.25 below the exact ones: look for a bias",
    ),
    "channel": (
        lambda: wrong(wrong_channel),
        "100 % of the squared error is at index 17 of axis 1, ",
    ),
    "zeros": (lambda: wrong(zero_row), "203 results are 0 where the exact ones have many values, 100 % of the error"),
    "tail": (
        lambda: wrong(shifted_tail),
        "results, from index 192 of axis 1 on, are those 1 before: look for an index that is off",
    ),
    "nan": (lambda: wrong(nan_block), "5 results are NaN where the exact ones are not: look for 0/0"),
    "bfloat16": (
        lambda: (drawn().astype(ml_dtypes.bfloat16).astype(np.float32), drawn()),
        "lie on the grid of bfloat16 with 8 significant bits, rounded to nearest: look for a copy or a conversion",
    ),
    "fixed point": (
        lambda: ((np.floor(drawn() * 64) / 64).astype(np.float32), drawn()),
        "100 % of the results are multiples of 0.01562, rounded down: look for a fixed-point format with 6 fraction",
    ),
    "transposition": (
        lambda: (drawn((40, 40)).T.astype(np.float32), drawn((40, 40))),
        "results are those with the axes 0, 1 swapped: look for the order of axes or indices",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_sentence_has_the_figures_of_the_shape_and_what_to_look_for(name):
    arrays, part = PLANTED[name]
    sentences = said(*arrays())
    assert part in sentences[0], sentences
    assert all(re.search(r"\d.*: look", text) for text in sentences)


def test_there_are_at_most_three_sentences():
    many = [Fingerprint("one_channel", "y", 1.0, {"axis": 1.0, "index": float(index)}) for index in range(9)]
    assert len(describe_fingerprints(many)) == MAX_FINGERPRINTS


# The answers that misled


@pytest.mark.parametrize("seed", range(3))
def test_a_dropped_epsilon_is_no_accumulated_rounding(seed):
    x = drawn((64, 768), seed)
    center, variance = x - x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    only(
        said((center / np.sqrt(variance)).astype(np.float32), center / np.sqrt(variance + 1e-5)), "times the exact ones"
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_saturated_end_of_sorted_results_is_no_last_block(seed):
    exact = np.sort(np.exp(3 * drawn((400,), seed)))
    only(said(np.minimum(exact, 448).astype(np.float32), exact), "results are 448, the largest float8_e4m3fn,")


def test_a_cast_of_an_input_of_a_product_is_named_and_that_of_a_sum_is_not_taken_for_rounding():
    x, y = drawn().astype(np.float32), (1 + abs(drawn(seed=1))).astype(np.float32)
    half = x.astype(np.float16).astype(np.float32)
    exact = x.astype(np.float64) * y.astype(np.float64)
    only(said(half * y, exact), "fit rounding to float16 or tf32", "an input or a factor that passes through")
    assert said(half @ y.T, x.astype(np.float64) @ y.T.astype(np.float64)) == []


def test_a_narrow_accumulator_is_no_published_rule():
    terms = np.random.default_rng(0).uniform(0, 1, (400, 64)).astype(np.float16)
    total = np.zeros(400, np.float16)
    for term in terms.T:
        total = total + term
    assert not any("published" in text for text in said(total, terms.astype(np.float64).sum(1)))


# Values near zero


@pytest.mark.parametrize("seed", range(5))
def test_relative_errors_near_zero(seed):
    exact = drawn(seed=seed)
    noise = 1e-5 * np.random.default_rng(seed + 100).standard_normal(exact.shape)
    comparison = compare_arrays((exact + noise).astype(np.float32), exact, rtol=1e-3, atol=1e-5)
    sentence = describe_near_zero(comparison)
    assert re.search(r"max_rel_error .* mean_magnitude .* with atol", sentence)


def test_errors_that_are_large_by_themselves_are_not_excused_by_small_references():
    exact = drawn()
    noise = 0.1 * np.random.default_rng(100).standard_normal(exact.shape)
    for actual in (exact + noise, exact):
        comparison = compare_arrays(actual.astype(np.float32), exact, rtol=1e-3, atol=1e-5)
        assert describe_near_zero(comparison) == ""


def test_whole_figures_may_be_integers_of_python():
    """Detectors count axes and elements in integers, which have no is_integer before Python 3.12."""
    rows = np.arange(1, 33)[:, None]
    exact = np.random.default_rng(0).standard_normal((32, 256))
    (found,) = find_fingerprints("out", (exact * (1 + 1e-3 * rows)).astype(np.float32), exact)
    assert describe_fingerprint(found).startswith("each row along axis 1 has its own factor, from 1.001 to 1.032: look")
