import signal

import numpy as np
import pytest

from precreg.comparison import session as sharing
from precreg.comparison.measuring import ComparisonTerms, comparison_layers
from precreg.comparison.pairing import ArrayPlace, RawFormat, StoredPair
from precreg.comparison.session import MIN_PAIRS_TO_SHARE, compare_pairs
from precreg.types.verdict import Reason

TERMS = ComparisonTerms(comparison_layers(None, {}), (), "reference", 3)


@pytest.fixture
def pairs(write):
    """Pairs of which every tenth differs."""
    right = np.arange(12, dtype=np.float32)
    wrong = right + np.float32(1)
    places = [ArrayPlace(write(name, array), name, RawFormat()) for name, array in (("a.npy", right), ("b.npy", wrong))]
    return [
        StoredPair(f"{number:03}", places[number % 10 == 0], places[0]) for number in range(MIN_PAIRS_TO_SHARE + 37)
    ]


def test_processes_give_what_this_one_gives(pairs):
    alone = list(compare_pairs(pairs, TERMS, 0))
    shared = sorted(compare_pairs(pairs, TERMS, 2), key=lambda pair: pair.name)
    assert shared == alone
    assert [pair.name for pair in alone] == [pair.name for pair in pairs]
    assert sum(pair.verdict.reason is Reason.OUT_OF_TOLERANCE for pair in alone) == 11


def test_few_pairs_stay_in_this_process(pairs, monkeypatch):
    monkeypatch.setattr(sharing, "_shared", None)
    assert len(list(compare_pairs(pairs[: MIN_PAIRS_TO_SHARE - 1], TERMS, 2))) == MIN_PAIRS_TO_SHARE - 1


@pytest.mark.parametrize("number", [1, 63, 64, 1000, 10_000])
def test_batches_are_disjoint_and_complete(number):
    pairs = [StoredPair(str(index), None, None) for index in range(number)]
    batches = list(sharing._batches(pairs, 2))
    assert [pair for batch in batches for pair in batch] == pairs
    assert max(map(len, batches)) <= sharing.MAX_PAIR_BATCH
    assert len(batches) >= min(number, 16)


def test_giving_up_early_leaves_no_process(pairs):
    import multiprocessing

    results = compare_pairs(pairs, TERMS, 2)
    next(results)
    results.close()
    assert multiprocessing.active_children() == []


def test_an_interrupt_waits_until_the_pool_is_whole():
    done = []

    def interrupted():
        with sharing.defer_interrupts():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_an_interrupt_none_is_raised():
    with sharing.defer_interrupts():
        pass
