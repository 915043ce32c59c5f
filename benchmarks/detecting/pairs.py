"""What does a run say of changes that passed with other bits, and how many fresh seeds and seconds does that take?

The path is that of precreg/run/pairs/accepted_version.py and escalation.py, with the default budget: the accepted
version judges the own seeds here, then both versions run on fresh seeds until the sequential test ends. A change has a
run of its own, so the budget of a run plays no part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from statistics import median
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from detecting.measured import digest
from detecting.operator import Operator
from detecting.rules import PROMISED, tolerance_of
from precreg.measure import measure_pair, measure_seed
from precreg.run import pair_budget
from precreg.types import PAIRED_LOSS, EndedBy, PairEnd, Reason, Verdict
from precreg.verdict import PairedOutput, SeedPair, case_alpha, conclude_pair, judge_look, unclear_verdict
from precreg.verdict.statistics import FIRST_LOOK, looks

# Neither trials themselves nor labels have these seeds.
FIRST_FRESH_SEED, SEEDS_OF_TRIAL = 100_000, 25_000

COMMIT = "the original"
BUDGET = pair_budget(None, None, None)


class Paired(NamedTuple):
    """The verdict on a change at the end of its run, its fresh seeds, their seconds of one core, and how it ended."""

    verdict: Verdict
    seeds: int
    seconds: float
    end: PairEnd


class Fresh:
    """The figures of an operator and its changes at the fresh seeds of one trial, drawn as far as they are needed."""

    def __init__(self, operator: Operator, trial: int) -> None:
        """Begin with no seed. Each trial has seeds of its own."""
        self._operator, self._first = operator, FIRST_FRESH_SEED + trial * SEEDS_OF_TRIAL
        self.pairs: dict[str, list[SeedPair]] = {change: [] for change in operator.changes()}
        # Of both versions and the reference, seed by seed.
        self.seconds: dict[str, list[float]] = {change: [] for change in operator.changes()}
        self.dtype = ""

    def draw(self, changes: Iterable[str], seeds: int) -> None:
        """Draw until these changes have so many seeds; inputs, reference and original run once for all of them."""
        missing = {change: len(self.pairs[change]) for change in changes}
        for place in range(min(missing.values(), default=seeds), seeds):
            self._draw_place(place, [change for change, drawn in missing.items() if drawn <= place])

    def _draw_place(self, place: int, changes: Iterable[str]) -> None:
        inputs, to_draw = _timed(lambda: self._operator.inputs(self._first + place))
        exact, to_refer = _timed(lambda: self._operator.exact(*inputs))

        accepted, to_run = _timed(lambda: self._operator.original(*inputs))
        alone, to_measure = _timed(lambda: measure_seed(accepted, exact))
        self.dtype = str(accepted.dtype)
        # Each version draws the inputs, and the present one alone runs the reference.
        shared = 2 * to_draw + to_refer + to_run
        bits = digest(accepted)
        for change in changes:
            present, own_run = _timed(partial(self._operator.changes()[change], *inputs))
            # The same bits are measured once.
            both, own_measure = (alone, alone), to_measure
            if not (same := digest(present) == bits):
                both, own_measure = _timed(partial(measure_pair, accepted, present, exact))
            self.pairs[change].append(SeedPair(*both, same))
            self.seconds[change].append(shared + own_run + own_measure)

    def output(self, change: str, seeds: int) -> PairedOutput:
        """Return the one output of a change with its first seeds."""
        min_loss = tolerance_of(self.dtype).regression[PAIRED_LOSS]
        return PairedOutput("out", self.dtype, "int" in self.dtype, min_loss, self.pairs[change][:seeds])


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and its processor time, which a busy machine does not prolong."""
    began = process_time()
    with np.errstate(all="ignore"):
        result = work()
    return result, process_time() - began


def goes_on(verdict: Verdict) -> bool:
    """Return True for a change that passed with other bits."""
    return verdict.reason in (Reason.WITHIN_TOLERANCE, Reason.IMPROVED)


def paired(operator: Operator, first: Mapping[str, Verdict], trial: int) -> dict[str, Paired]:
    """Judge every change of an operator by the original; `first` are the verdicts on their own seeds."""
    fresh = Fresh(operator, trial)
    found = {change: on_own_seeds(verdict) for change, verdict in first.items() if not goes_on(verdict)}
    planned = dict.fromkeys((change for change in first if change not in found), BUDGET.seeds)
    for seeds in looks(BUDGET.seeds):
        going = [change for change, most in planned.items() if change not in found and seeds <= most]
        fresh.draw(going, seeds)
        if seeds == FIRST_LOOK:
            planned = {change: affordable(median(fresh.seconds[change])) for change in going}
        for change in going:
            ended = judged(fresh, change, first[change], seeds, planned[change])
            if ended is not None:
                found[change] = ended
    return {change: found[change] for change in first}


def on_own_seeds(verdict: Verdict) -> Paired:
    """Return the end of a change that needs no fresh seed: the same bits, or a loss on the own seeds."""
    return Paired(verdict, 0, 0.0, "same_bits" if verdict.reason is Reason.IDENTICAL else "worse")


def affordable(seconds: float) -> int:
    """Return the last look that the budget of a case allows, at so many seconds a seed."""
    return max(looks(int(min(BUDGET.seeds, BUDGET.case_seconds / seconds))), default=FIRST_LOOK)


def judged(fresh: Fresh, change: str, first: Verdict, seeds: int, planned: int) -> Paired | None:
    """Return the end of a change after a look at so many seeds; None if another look is planned."""
    alpha = case_alpha(PROMISED) / len(looks(planned))
    outputs = [fresh.output(change, seeds)]
    look = judge_look(outputs, alpha, COMMIT)
    seconds = sum(fresh.seconds[change][:seeds])
    if look.end is not None:
        return Paired(conclude_pair(first, look, outputs, COMMIT), seeds, seconds, look.end)
    if seeds < planned:
        return None
    ended_by: EndedBy = "max_seeds" if planned == max(looks(BUDGET.seeds)) else "case_seconds"
    return Paired(unclear_verdict(first, outputs, COMMIT, ended_by, alpha, look.findings), seeds, seconds, "not_clear")
