"""What a run says of changes that it pairs with the accepted version: fresh seeds until a sequential test ends.

The rules are those of verdict/pair.py, with the default budget of seeds. Time plays no part here: these operators take
milliseconds a seed, so seeds alone bound a pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from detecting.measured import ORIGINAL, Sample, digest
from detecting.operator import Array, Operator
from detecting.rules import PROMISED, baseline_of, tolerance_of, verdict
from precreg.measure import measure_seed
from precreg.run import MAX_SEEDS
from precreg.types import PAIRED_LOSS, PairEnd, Reason, SeedFigures, Verdict
from precreg.verdict import PairedOutput, SeedPair, case_alpha, conclude_pair, judge_look, unclear_verdict
from precreg.verdict.statistics import looks

FURTHER = 100_000
"""The fresh seeds of trials begin here: neither trials themselves nor labels have them."""

COMMIT = "the original"


class Paired(NamedTuple):
    """The verdict on a change at the end of its pair, the fresh seeds that took, and how it ended."""

    verdict: Verdict
    seeds: int
    end: PairEnd


class Fresh:
    """The figures of an operator and its changes at the fresh seeds of one trial, drawn as far as they are needed."""

    def __init__(self, operator: Operator, trial: int) -> None:
        self._operator, self._first = operator, FURTHER + trial * MAX_SEEDS
        self._computes = {ORIGINAL: operator.original, **operator.changes()}
        self._drawn: dict[str, list[tuple[str, SeedFigures]]] = {name: [] for name in self._computes}
        self._known: dict[int, tuple[tuple[Array, ...], Array]] = {}
        self.dtype = ""

    def pairs(self, change: str, seeds: int) -> list[SeedPair]:
        """Return the figures of the original and of a change at the first seeds."""
        sides = zip(self._draw(ORIGINAL, seeds), self._draw(change, seeds), strict=True)
        return [SeedPair(old[1], new[1], old[0] == new[0]) for old, new in sides]

    def _draw(self, name: str, seeds: int) -> list[tuple[str, SeedFigures]]:
        drawn = self._drawn[name]
        for place in range(len(drawn), seeds):
            inputs, exact = self._truth(place)
            with np.errstate(all="ignore"):
                output = self._computes[name](*inputs)
            self.dtype = str(output.dtype)
            drawn.append((digest(output), measure_seed(output, exact)))
        return drawn[:seeds]

    def _truth(self, place: int) -> tuple[tuple[Array, ...], Array]:
        if place not in self._known:
            inputs = self._operator.inputs(self._first + place)
            with np.errstate(all="ignore"):
                self._known[place] = inputs, self._operator.exact(*inputs)
        return self._known[place]


def paired(operator: Operator, own: Mapping[str, Sequence[Sample]], trial: int) -> dict[str, Paired]:
    """Judge every change of an operator by the original, each in a run of its own; `own` are their seeds of a trial."""
    fresh = Fresh(operator, trial)
    baseline = baseline_of(own[ORIGINAL])
    return {name: _judged(fresh, name, verdict(own[name], baseline), len(own[name])) for name in operator.changes()}


def _judged(fresh: Fresh, change: str, first: Verdict, own_seeds: int) -> Paired:
    if first.reason is Reason.IDENTICAL:
        return Paired(first, own_seeds, "same_bits")
    if first.reason not in (Reason.WITHIN_TOLERANCE, Reason.IMPROVED):
        return Paired(first, own_seeds, "worse")
    every = looks(MAX_SEEDS)
    alpha = case_alpha(PROMISED) / len(every)
    for seeds in every:
        pairs = fresh.pairs(change, seeds)
        min_loss = tolerance_of(fresh.dtype).regression[PAIRED_LOSS]
        outputs = [PairedOutput("out", fresh.dtype, "int" in fresh.dtype, min_loss, pairs)]
        look = judge_look(outputs, alpha, COMMIT)
        if look.end is not None:
            return Paired(conclude_pair(first, look, outputs, COMMIT), seeds, look.end)
    return Paired(unclear_verdict(first, outputs, COMMIT, "max_seeds", alpha), seeds, "not_clear")
