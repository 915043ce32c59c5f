"""The order of pairs and the last sentence, which every report shares."""

import pytest
from msgspec.structs import replace

from precreg.comparison.summary import comparison_exit_sentence, sort_pairs
from precreg.types.verdict import Finding, Reason, Status, Verdict
from tests.comparison.made import failed, identical, missing, passed, record_of, reshaped


def matching(name, share, ratio=None):
    pair = failed(name, ratio)
    return replace(pair, comparison=replace(pair.comparison, metrics={"match_ratio": share}))


def test_what_was_not_measured_comes_first_then_the_fewest_matches_then_names():
    pairs = [passed("a"), matching("b", 0.99), matching("d", 0.5), matching("c", 0.5), missing("z"), reshaped("y")]
    assert [pair.name for pair in sort_pairs(pairs)] == ["y", "z", "c", "d", "b", "a"]


def test_a_larger_ratio_to_what_is_allowed_comes_before_fewer_matches():
    pairs = [matching("near", 0.1, ratio=1.5), matching("far", 0.9, ratio=40.0)]
    assert [pair.name for pair in sort_pairs(pairs)] == ["far", "near"]


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([identical()], "the pair is within tolerance"),
        ([failed()], "the pair fails: out_of_tolerance"),
        ([passed("a"), failed("b")], "1 of 2 pairs fails: 1 out_of_tolerance"),
        ([failed("a"), failed("b"), missing("c")], "3 of 3 pairs fail: 2 out_of_tolerance, 1 missing_output"),
        ([passed(f"{number}") for number in range(1200)], "all 1,200 pairs are within tolerance"),
    ],
)
def test_the_sentence_counts_what_failed_and_why(pairs, sentence):
    assert comparison_exit_sentence(record_of(*pairs)) == sentence


def test_a_pair_that_could_not_be_judged_did_not_fail():
    pair = replace(missing(), verdict=Verdict(Status.ERROR, Reason.REFERENCE_ERROR, "cannot be read"))
    assert comparison_exit_sentence(record_of(pair)) == "the pair could not be judged: reference_error"


def test_without_a_pair_the_sentence_says_why():
    assert comparison_exit_sentence(record_of()) == "nothing was compared"
    assert comparison_exit_sentence(record_of(findings=(Finding(Reason.EMPTY, "no name is on both sides"),))) == (
        "no name is on both sides"
    )
