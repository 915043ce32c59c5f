import os
import shlex
import signal
import tempfile
from collections.abc import Callable
from errno import EMFILE
from functools import partial
from threading import Timer
from typing import NamedTuple

import numpy as np
import pytest

from precreg.comparison import sharing
from precreg.comparison.pairing import ArrayPlace, RawFormat, StoredPair
from precreg.comparison.session import ComparisonTerms, comparison_layers
from precreg.comparison.sharing import MIN_PAIRS_TO_SHARE, compare_pairs
from precreg.errors import UserError
from precreg.types.verdict import Reason, Status
from tests.processes import workers_of

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
    monkeypatch.setattr(sharing, "run_in_workers", None)
    assert len(list(compare_pairs(pairs[: MIN_PAIRS_TO_SHARE - 1], TERMS, 2))) == MIN_PAIRS_TO_SHARE - 1


class Deadly(NamedTuple):
    """A place that ends the process that loads it."""

    end: Callable[[], object]
    shown: str = "deadly"
    takes_any_shape: bool = False

    def load(self, other=None):
        self.end()


def exit_with_words():
    print("last words")
    os._exit(3)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (os.abort, "killed by SIGABRT"),
        (exit_with_words, "exited with code 3"),
        (partial(int, "no number"), "exited with code 1"),
    ],
    ids=["abort", "exit", "exception"],
)
def test_a_process_that_dies_costs_its_pair_alone(pairs, capfd, end, message):
    name = "it's [50]"
    pairs[50] = pairs[50]._replace(name=name, actual=Deadly(end))
    compared = {pair.name: pair for pair in compare_pairs(pairs, TERMS, 2)}
    assert len(compared) == len(pairs)
    verdict = compared.pop(name).verdict
    assert (verdict.status, verdict.reason) == (Status.ERROR, Reason.CRASHED)
    assert verdict.message == f"{message}; compare it alone to see why: --select {shlex.quote(name)}"
    assert {pair.verdict.status for pair in compared.values()} == {Status.PASSED, Status.FAILED}
    assert capfd.readouterr() == ("", "")


def test_processes_that_cannot_start_are_one_error(pairs, monkeypatch):
    def no_file():
        raise OSError(EMFILE, os.strerror(EMFILE))

    monkeypatch.setattr(tempfile, "TemporaryFile", no_file)
    with pytest.raises(UserError, match="Too many open files") as caught:
        list(compare_pairs(pairs, TERMS, 2))
    assert caught.value.slug == "no-workers"


def test_giving_up_early_leaves_no_process(pairs):
    results = compare_pairs(pairs, TERMS, 2)
    next(results)
    results.close()
    assert workers_of(os.getpid()) == []


def compare_until_interrupted(pairs, after_s):
    Timer(after_s, os.kill, (os.getpid(), signal.SIGINT)).start()
    while True:
        list(compare_pairs(pairs, TERMS, 2))


@pytest.mark.parametrize("milliseconds", [1, 2, 3, 5, 8, 13, 21, 34])
def test_an_interrupt_at_any_moment_leaves_no_process(pairs, capfd, milliseconds):
    # The server runs already, so that the interrupts come while it forks workers, and later.
    assert len(list(compare_pairs(pairs, TERMS, 2))) == len(pairs)
    with pytest.raises(KeyboardInterrupt):
        compare_until_interrupted(pairs, milliseconds / 1000)
    assert workers_of(os.getpid()) == []
    assert capfd.readouterr() == ("", "")
