"""Which series of a block of cases are plainly steady?

Most series of a history never come near a finding. This module recognises them as arrays, by conditions under which
`judge_metric` finds nothing, and leaves the others to `judge_metric`. So both roads give the same findings.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import isnan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from precreg.history.drift.judge import (
    MIN_AGREEING_RUNS,
    MIN_RUNS_FOR_STEP,
    DriftContext,
    comparable_places,
    flickers,
    is_other_code,
)
from precreg.history.drift.record import DriftMode, DriftState, MetricDrift
from precreg.history.drift.sizes import LARGE_STEP, drift_min_ratio, metric_order, metric_size
from precreg.history.packing import Form, PackedState, require_figures
from precreg.history.rows import stretches_of
from precreg.history.series import CaseBlock, StoredCase
from precreg.measure import metric_named
from precreg.types import Metric

if TYPE_CHECKING:
    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    Codes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
    Places = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

# Codes of one series of the screen.
UNDECIDED, UNMEASURED, CONSTANT, STEADY = range(4)


class ScreenedOutput(NamedTuple):
    """Hold the findings on one output, in the order of its metrics, and the metrics that `judge_metric` must judge."""

    found: tuple[MetricDrift, ...]
    left: tuple[str, ...]


class ScreenedCase(NamedTuple):
    """Hold a case whose runs share a definition and a form: its runs, and its outputs by name."""

    case: StoredCase
    runs: Sequence[int]
    outputs: Mapping[str, ScreenedOutput]


class _Stretches(NamedTuple):
    case: StoredCase
    ran: Sequence[int]
    states: Sequence[tuple[PackedState, Sequence[int]]]


def screen_block(block: CaseBlock, context: DriftContext) -> Iterator[ScreenedCase | StoredCase]:
    """Yield the cases of a block that ran, in their order: screened, or as they are stored if states differ in form."""
    found: dict[int, ScreenedCase] = {}
    groups: defaultdict[tuple[int, int], list[tuple[int, _Stretches]]] = defaultdict(list)
    for place, case in enumerate(block.cases):
        ran = case.ran[bisect_left(case.ran, block.start) :]
        if not ran:
            continue
        states = stretches_of(case.rows, ran)
        if len({(state.definition, state.form) for state, _ in states}) == 1:
            # Cases that ran in the same runs share one list.
            groups[states[0][0].form, id(case.ran)].append((place, _Stretches(case, ran, states)))
    for (form, _), members in groups.items():
        screened = _screen(block, block.texts.form(form), [one for _, one in members], context)
        found.update(zip((place for place, _ in members), screened, strict=True))
    for place, case in enumerate(block.cases):
        if case.ran and case.ran[-1] >= block.start:
            yield found.get(place, case)


def _screen(
    block: CaseBlock, form: Form, members: Sequence[_Stretches], context: DriftContext
) -> Iterator[ScreenedCase]:
    """Screen cases that ran in the same runs and have the same form."""
    judged = [(at, *pair) for at, pair in enumerate(form.pairs()) if metric_named(pair[1], form.described).judged]
    metrics = [metric_named(metric, form.described) for _, _, metric in judged]
    numbers = [block.runs.order[place] for place in members[0].ran]
    series = _Series.of(members, len(form.pairs()), [at for at, _, _ in judged], metrics)
    columns = _Columns(numbers, context)
    codes = series.codes(columns, context)
    counts = {CONSTANT: min(len(numbers), context.settings.window), STEADY: len(columns.window)}
    # Most cases have the same codes, and share their findings: 100,000 cases have a million metrics.
    known: dict[bytes, Mapping[str, ScreenedOutput]] = {}
    for one, row in zip(members, codes, strict=True):
        if (key := row.tobytes()) not in known:
            known[key] = dict(_findings([(output, metric) for _, output, metric in judged], row.tolist(), counts))
        yield ScreenedCase(one.case, numbers, known[key])


def _findings(
    pairs: Sequence[tuple[str, str]], codes: Sequence[int], counts: Mapping[int, int]
) -> Iterator[tuple[str, ScreenedOutput]]:
    for output in sorted({output for output, _ in pairs}):
        own = [(metric, code) for (named, metric), code in zip(pairs, codes, strict=True) if named == output]
        own.sort(key=lambda one: metric_order(one[0]))
        found = (
            MetricDrift(metric, DriftState.STEADY, DriftMode.EXACT, counts[code])
            for metric, code in own
            if code in counts
        )
        yield output, ScreenedOutput(tuple(found), tuple(metric for metric, code in own if code == UNDECIDED))


class _Columns:
    """Hold which of the runs of the cases are compared: the places of the window, and of the anchor."""

    def __init__(self, numbers: Sequence[int], context: DriftContext) -> None:
        runs = [context.runs[number] for number in numbers]
        places = comparable_places([run.fingerprint for run in runs])[-context.settings.window :]
        window = [runs[place] for place in places]
        self.window = np.array(places, np.int64)
        self.anchor = np.array([at for at, number in enumerate(numbers) if number in context.anchors], np.int64)
        self.same_machine = np.array([a.fingerprint == b.fingerprint for a, b in pairwise(window)], bool)
        self.same_code = np.array([not is_other_code(a, b) for a, b in pairwise(window)], bool)


class _Series(NamedTuple):
    """Hold the rows of some cases, one after the other, and which row each case has at each of its runs.

    `values`, `sizes` and `accepted` are by row and metric; `accepted` holds sizes.
    """

    metrics: Sequence[Metric]
    values: Floats
    sizes: Floats
    accepted: Floats
    equals_accepted: Flags
    begins: Places
    ends: Places
    at: Places

    @classmethod
    def of(cls, members: Sequence[_Stretches], width: int, wanted: Sequence[int], metrics: Sequence[Metric]) -> _Series:
        """Unpack the rows. Raises DamagedError."""
        states = [state for one in members for state, _ in one.states]
        for state in states:
            require_figures(state.figures, width)
        figures = np.frombuffer(b"".join(state.figures for state in states), "<f8").reshape(len(states), 2 * width)
        values, accepted = figures[:, wanted], figures[:, [width + at for at in wanted]]
        counts = np.array([len(one.states) for one in members], np.int64)
        ends = np.cumsum(counts)
        lengths = [len(places) for one in members for _, places in one.states]
        at = np.repeat(np.arange(len(states)), lengths).reshape(len(members), -1)
        equals = np.isnan(accepted) | (accepted == values)
        return cls(
            metrics,
            values,
            _sizes(metrics, values),
            _sizes(metrics, accepted),
            equals,
            ends - counts,
            ends - 1,
            at,
        )

    def codes(self, columns: _Columns, context: DriftContext) -> Codes:
        """Return the code of each case and metric."""
        missing = np.isnan(self.values)
        found = np.full((len(self.begins), len(self.metrics)), UNDECIDED, np.uint8)
        if not self.metrics:
            return found
        measured = ~np.logical_or.reduceat(missing, self.begins)
        found[np.logical_and.reduceat(missing, self.begins)] = UNMEASURED
        equal = np.minimum.reduceat(self.values, self.begins) == np.maximum.reduceat(self.values, self.begins)
        constant = equal & self.equals_accepted[self.ends] & (self.at.shape[1] >= context.settings.confirm)
        found[constant] = CONSTANT
        # A block of steady cases needs no window.
        left = np.flatnonzero((measured & ~constant).any(axis=1))
        if len(left) and len(columns.window) >= max(context.settings.confirm, 2):
            # A limit beyond the largest float64 is infinite, as in Python: nothing exceeds it.
            with np.errstate(over="ignore"):
                steady = self._is_steady(left, columns, context) & (measured & ~constant)[left]
            found[left] = np.where(steady, STEADY, found[left])
        return found

    def _is_steady(self, cases: Places, columns: _Columns, context: DriftContext) -> Flags:
        """Return which series are exact, and not worse than an accepted value, an anchor or a recent level.

        Each condition suffices for one step of `judge_metric` to find nothing, and is at least as strict as that step.
        """
        least = np.array([drift_min_ratio(metric, context.settings.materiality) for metric in self.metrics])
        rows = self.at[cases][:, columns.window]
        sizes, confirm = self.sizes[rows], context.settings.confirm
        latest, accepted = sizes[:, -confirm:], self.accepted[self.ends[cases]]
        now = latest.min(axis=1)
        found = now <= least * sizes.min(axis=1)
        if len(columns.window) >= MIN_RUNS_FOR_STEP:
            found &= sizes[:, -1] <= LARGE_STEP * sizes[:, -2]
        # Comparisons with NaN are false, so a missing accepted value is neither exceeded nor improved upon.
        found &= ~(now > least * accepted) & ~(least * latest.max(axis=1) < accepted)
        if len(columns.anchor):
            found &= now <= least * self.sizes[self.at[cases][:, columns.anchor]].min(axis=1)
        exact: Flags = self._is_exact(self.values[rows], found, columns)
        return exact

    def _is_exact(self, values: Floats, wanted: Flags, columns: _Columns) -> Flags:
        """Return which series `is_deterministic` calls so, among the wanted ones."""
        equal = values[:, 1:] == values[:, :-1]
        machine, code = columns.same_machine[:, None], columns.same_code[:, None]
        agree = (equal & machine).sum(axis=1)
        differ = (~equal & machine & code).sum(axis=1)
        pairs = int(columns.same_machine.sum())
        found: Flags = (2 * agree >= pairs) & (agree >= MIN_AGREEING_RUNS * differ) & wanted & (pairs > 0)
        # Three returns to earlier values take at least three changes.
        for case, metric in np.argwhere(found & ((~equal).sum(axis=1) >= 3)).tolist():
            found[case, metric] = not flickers(values[case, :, metric].tolist())
        return found


def _sizes(metrics: Sequence[Metric], values: Floats) -> Floats:
    """Return the size of each value as `metric_size` does, to the bit."""
    found = np.empty_like(values)
    for column, metric in enumerate(metrics):
        one = values[:, column]
        if metric.better == "higher":
            found[:, column] = np.where(np.isnan(one), one, np.maximum(1 - one, 0.0))
        elif metric.scale == "log2":
            # numpy's exp2 may differ from math.exp2 in the last bit.
            found[:, column] = [one if isnan(one) else metric_size(metric, one) for one in one.tolist()]
        else:
            found[:, column] = abs(one)
    return found
