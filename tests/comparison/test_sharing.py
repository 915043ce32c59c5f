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
from precreg.comparison.sharing import MIN_PAIRS_TO_SHARE, compare_pairs, pair_batches
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
    monkeypatch.setattr(sharing, "LocalPlace", None)
    assert len(list(compare_pairs(pairs[: MIN_PAIRS_TO_SHARE - 1], TERMS, 2))) == MIN_PAIRS_TO_SHARE - 1


RIGHT = np.arange(12, dtype=np.float32)
KINDS = {
    "equal": (RIGHT, RIGHT, Reason.IDENTICAL),
    "small error": (RIGHT * np.float32(1 + 2**-22), RIGHT, Reason.WITHIN_TOLERANCE),
    "large error": (RIGHT + 1, RIGHT, Reason.OUT_OF_TOLERANCE),
    "nan": (np.full(12, np.nan, np.float32), RIGHT, Reason.NON_FINITE_MISMATCH),
    "shape": (RIGHT[:5], RIGHT, Reason.SHAPE_MISMATCH),
    "rank": (RIGHT, RIGHT.reshape(3, 4), Reason.SHAPE_MISMATCH),
    "empty": (RIGHT[:0], RIGHT[:0], Reason.EMPTY),
    "wider reference": (RIGHT, RIGHT.astype(np.float64), Reason.IDENTICAL),
    "fortran": (np.asfortranarray(RIGHT.reshape(3, 4)), RIGHT.reshape(3, 4), Reason.IDENTICAL),
    "big-endian": (RIGHT.astype(">f4"), RIGHT, Reason.IDENTICAL),
    "integers": (np.arange(12), np.arange(12), Reason.IDENTICAL),
    "missing": (None, RIGHT, Reason.MISSING_OUTPUT),
    "additional": (RIGHT, None, Reason.MISSING_OUTPUT),
    "structured": (np.zeros(3, [("a", "<f4")]), RIGHT, Reason.SUBJECT_ERROR),
    "pickled": (b"\x80\x04N.", RIGHT, Reason.SUBJECT_ERROR),
    "truncated": (b"\x93NUMPY\x01\x00\x76\x00{", RIGHT, Reason.SUBJECT_ERROR),
    "unreadable reference": (RIGHT, b"", Reason.REFERENCE_ERROR),
}


def test_every_kind_of_pair_is_the_same_from_processes(write):
    def place(name, content):
        return None if content is None else ArrayPlace(write(name, content), name, RawFormat())

    pairs = [
        StoredPair(f"{kind} {copy}", place(f"a{copy}.{kind}.npy", actual), place(f"r{copy}.{kind}.npy", reference))
        for copy in range(5)
        for kind, (actual, reference, _) in KINDS.items()
    ]
    alone = list(compare_pairs(pairs, TERMS, 0))
    shared = {pair.name: pair for pair in compare_pairs(pairs, TERMS, 2)}
    assert [shared[pair.name] for pair in pairs] == alone
    for pair in alone:
        assert pair.verdict.reason is KINDS[pair.name[:-2]][2], pair
        assert pair.verdict.message


def test_pairs_with_many_positions_go_one_by_one(pairs):
    shared = list(compare_pairs(pairs, TERMS._replace(worst=100_000), 2))
    assert sorted(pair.name for pair in shared) == [pair.name for pair in pairs]
    assert {len(batch) for batch in pair_batches(pairs, TERMS._replace(worst=100_000), 2)} == {1}
    assert [pair for batch in pair_batches(pairs, TERMS, 2) for pair in batch] == pairs
    assert {len(batch) for batch in pair_batches(pairs, TERMS, 2)} == {6, 5}


class Deadly(NamedTuple):
    """A place that ends the process that loads it."""

    end: Callable[[], object]
    shown: str = "deadly"
    path: str = "deadly"
    takes_any_shape: bool = False

    def stream(self, other=None):
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
