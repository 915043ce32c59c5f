"""The counts of benchmarks/divergence_study.py, and its pairs."""

from collections import Counter

import pytest

from benchmarks.divergence_study import FAMILIES, Pair, Rates, rates, study, verdict

PAIRS = {
    "reordered": Pair("train", {}, {}, "chaos"),
    "the same": Pair("train", {}, {}, "identical"),
    "narrow": Pair("train", {}, {}, "loss"),
}


def test_wrong_verdicts_are_counted_by_the_kind_of_pair():
    counts = {
        "reordered": Counter({("chaos", "none"): 5, ("loss", "start"): 2, ("unclear", "level"): 1}),
        "the same": Counter({("identical", "none"): 7, ("loss", "growth"): 1}),
        "narrow": Counter(
            {("loss", "start"): 3, ("chaos", "none"): 2, ("identical", "none"): 1, ("unclear", "level"): 2}
        ),
    }
    assert rates(PAIRS, counts) == Rates(
        reordered=16, false_losses=3, unclear_reordered=1, losing=8, false_chaos=3, unclear_losing=2
    )


def test_a_part_of_the_pairs_has_rates_of_its_own():
    assert rates(PAIRS, {"narrow": Counter({("loss", "start"): 3})}) == Rates(0, 0, 0, 3, 0, 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_has_pairs_of_both_kinds(family):
    expected = Counter(pair.expected for pair in FAMILIES[family].pairs.values())
    assert set(expected) == {"identical", "chaos", "loss"}
    assert all(pair.other or pair.device for pair in FAMILIES[family].pairs.values() if pair.expected != "identical")


def test_a_pair_of_networks_is_judged():
    family = FAMILIES["networks"]
    assert verdict(family, family.pairs["the same run"], 1)[0] == "identical"
    assert list(study(family, range(1), "no scale").values()) == [Counter({("loss", "start"): 1})]
