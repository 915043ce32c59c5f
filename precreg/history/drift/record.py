"""What a drift monitor found, as values: from a DriftRecord alone every report is made."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from precreg.history.series import HistoryPoint, HistoryRun

DRIFT_SCHEMA = "precreg-drift/1"


DriftReference = Literal["baseline", "anchor", "recent runs"]

DriftKind = Literal["step", "creep", "level"]


class DriftSettings(Struct, frozen=True):
    """How drift is judged: the recent runs that count, how many runs confirm a change, and the ratio that matters."""

    window: int = 60
    confirm: int = 2
    materiality: float = 1.02


class DriftMode(StrEnum):
    """By which rules a series was judged: its own runs show whether it repeats."""

    EXACT = "exactly"
    STATISTICAL = "statistically"
    FEW = "by wide bounds"


class DriftState(StrEnum):
    """What becomes of an output (or metric), worst first."""

    DRIFT = "drift"
    UNMEASURED = "unmeasured"
    ABSENT = "absent"
    IMPROVED = "improved"
    TOO_FEW = "too few runs"
    STEADY = "steady"


class DriftChange(Struct, frozen=True):
    """Where a series became worse: the last run before and the first after it, their commits, and the environment.

    `last_good` is None where every run that is looked at is worse. `environment` lists the facts that differ between
    the two runs, as `numpy 2.4.5 -> 2.4.6`.
    """

    last_good: int | None
    first_bad: int
    commits: str
    environment: tuple[str, ...] = ()


class Worsening(Struct, frozen=True):
    """One comparison that a metric did not stand: values are in the metric's unit, the ratio is of their sizes.

    `ratio` is None where the value before was perfect. `a_run` is the growth per run of a creep (0.01 is 1 %), None
    for other kinds, and where sizes include 0.
    """

    against: DriftReference
    kind: DriftKind
    before: float
    now: float
    ratio: float | None
    change: DriftChange
    a_run: float | None = None


class MetricDrift(Struct, frozen=True):
    """One metric of one output: how it was judged, over how many runs, and what was found.

    `points` are kept for what is drawn. `since` is the first run that did not measure it. `accepted` and `now` are the
    values of an improvement, None in every other state.
    """

    metric: str
    state: DriftState
    mode: DriftMode
    runs: int = 0
    worsenings: tuple[Worsening, ...] = ()
    points: tuple[HistoryPoint, ...] = ()
    since: int | None = None
    accepted: float | None = None
    now: float | None = None


class OutputDrift(Struct, frozen=True):
    """One output of one case: the finding, with the metrics that are its evidence, worst first.

    `last_run` is the number of the last run of an output that is absent, None in every other state.
    """

    case: str
    output: str
    state: DriftState
    metrics: tuple[MetricDrift, ...] = ()
    last_run: int | None = None


class Anchor(Struct, frozen=True):
    """The frozen point of comparison: as it was named, its commit where it has one, and its runs in the history."""

    name: str
    commit: str
    runs: tuple[int, ...]


class DriftRecord(Struct, frozen=True):
    """Everything that one call of `precreg drift` found. `runs` are those of the environment, oldest first.

    `other_environments` are the labels whose runs the history has and this call did not judge.
    """

    schema: str
    precreg: str
    project: str
    made: str
    environment: str
    settings: DriftSettings
    runs: tuple[HistoryRun, ...]
    anchor: Anchor | None
    results: tuple[OutputDrift, ...]
    modes: dict[str, int]
    other_environments: tuple[str, ...] = ()
    exit_code: int = 0


def drift_exit_code(states: Iterable[DriftState]) -> int:
    """Return 1 if anything drifts, otherwise 2 if anything is no longer measured or nothing could be judged, else 0."""
    found = set(states)
    if DriftState.DRIFT in found:
        return 1
    judged = found & {DriftState.STEADY, DriftState.IMPROVED}
    return 2 if DriftState.UNMEASURED in found or not judged else 0
