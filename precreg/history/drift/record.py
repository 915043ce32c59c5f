"""Which findings does a drift monitor record?

Every drift report is made from a DriftRecord alone.
"""

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
    """Set the rules of a judgement.

    `window` is the number of recent runs that count. A change must last for `confirm` runs. `materiality` is the
    minimum relevant ratio of sizes.
    """

    window: int = 60
    confirm: int = 2
    materiality: float = 1.02


class DriftMode(StrEnum):
    """Name the rules for a series. They depend on the agreement of its own successive runs."""

    EXACT = "exactly"
    STATISTICAL = "statistically"
    FEW = "by wide bounds"


class DriftState(StrEnum):
    """Name the finding of an output or a metric, worst first."""

    DRIFT = "drift"
    UNMEASURED = "unmeasured"
    ABSENT = "absent"
    IMPROVED = "improved"
    TOO_FEW = "too few runs"
    STEADY = "steady"


class DriftChange(Struct, frozen=True):
    """Locate the change of a series: the last good run, the first bad run, their commits and their environment.

    `last_good` is None if every run in the window is worse. `environment` has the facts that differ between the two
    runs, such as `numpy 2.4.5 -> 2.4.6`.
    """

    last_good: int | None
    first_bad: int
    commits: str
    environment: tuple[str, ...] = ()


class Worsening(Struct, frozen=True):
    """Hold one reference value that a metric is worse than.

    `before` and `now` are in the metric's unit; `ratio` compares their sizes, and is None if the size before was 0.
    `a_run` is the growth per run (0.01 is 1 %) for the kind `creep`; None for other kinds, and if sizes include 0.
    """

    against: DriftReference
    kind: DriftKind
    before: float
    now: float
    ratio: float | None
    message: str
    change: DriftChange
    a_run: float | None = None


class MetricDrift(Struct, frozen=True):
    """Hold the finding of one metric of one output, with the mode and the number of runs of its judgement.

    `points` are the points that reports draw. `since` is the first run that did not measure the metric.
    """

    metric: str
    state: DriftState
    mode: DriftMode
    runs: int = 0
    worsenings: tuple[Worsening, ...] = ()
    message: str = ""
    points: tuple[HistoryPoint, ...] = ()
    since: int | None = None


class OutputDrift(Struct, frozen=True):
    """Hold the finding of one output of one case, with its metrics as evidence, worst first."""

    case: str
    output: str
    state: DriftState
    message: str
    metrics: tuple[MetricDrift, ...] = ()


class Anchor(Struct, frozen=True):
    """Hold a fixed reference: the name that the caller gave, its commit (or empty), and its runs."""

    name: str
    commit: str
    runs: tuple[int, ...]


class DriftRecord(Struct, frozen=True):
    """Hold every finding of one call of `precreg drift`. `runs` are the environment's runs, oldest first."""

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
    warnings: tuple[str, ...] = ()
    exit_code: int = 0


def drift_exit_code(states: Iterable[DriftState]) -> int:
    """Return 1 if an output drifts; otherwise 2 if an output is unmeasured or none could be judged; otherwise 0."""
    found = set(states)
    if DriftState.DRIFT in found:
        return 1
    judged = found & {DriftState.STEADY, DriftState.IMPROVED}
    return 2 if DriftState.UNMEASURED in found or not judged else 0
