"""Which facts does a drift monitor record?

Every report of drift is made from a DriftRecord alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from precreg.history.runs import HistoryRun
from precreg.history.series import HistoryPoint

DRIFT_SCHEMA = "precreg-drift/1"
# Names in the record are printed as they are, so reports and drift.json have the same words.
DriftReference = Literal["baseline", "anchor", "recent runs"]
# Records before 0.1 say creep where later ones say slope.
DriftKind = Literal["step", "slope", "level", "creep"]


class DriftSettings(Struct, frozen=True):
    """Hold the settings: the number of recent runs, the runs that confirm a change, and the smallest relevant ratio."""

    # Two months of nightly runs. The false alarms in docs/drift-statistics.md were measured with histories of 60 runs.
    window: int = 60
    # Two, because an outlier is mostly a single run: with 1 every outlier would be drift.
    confirm: int = 2
    materiality: float = 1.02


class DriftMode(StrEnum):
    """Name the rules by which a series was judged. Its own runs show whether it repeats."""

    EXACT = "exactly"
    STATISTICAL = "statistically"
    FEW = "by wide bounds"


class DriftState(StrEnum):
    """Name the state of an output or a metric, worst first."""

    DRIFT = "drift"
    UNMEASURED = "unmeasured"
    ABSENT = "absent"
    IMPROVED = "improved"
    TOO_NOISY = "too noisy"
    TOO_FEW = "too few runs"
    STEADY = "steady"


class DriftChange(Struct, frozen=True):
    """Hold the place where a series became worse: the runs before and after it, their commits, and the environment.

    `last_good` is None if every run of the window is worse. `environment` lists the facts that differ between the two
    runs, such as `numpy 2.4.5 -> 2.4.6`.
    """

    last_good: int | None
    first_bad: int
    commits: str
    environment: tuple[str, ...] = ()


class Worsening(Struct, frozen=True):
    """Hold one comparison that shows a loss. Values are in the metric's unit; the ratio compares their sizes.

    `ratio` is None if the value before was perfect. `a_run` is the growth per run of a slope (0.01 is 1 %). It is None
    for other kinds, and if a size is 0.
    """

    against: DriftReference
    kind: DriftKind
    before: float
    now: float
    ratio: float | None
    change: DriftChange
    a_run: float | None = None


class NoiseFact(Struct, frozen=True):
    """Hold why noise hides a rise: the correlation of neighbouring runs, and the growth of late noise."""

    correlation: float
    growth: float


class MetricDrift(Struct, frozen=True):
    """Hold the finding on one metric of one output, its mode, and the number of runs.

    `points` are empty for a metric without a chart. `since` is the first run that did not measure the metric.
    `accepted` and `now` are the values of an improvement, and `improved` is the place where it began:
    `first_bad` is its first better run. `noise` is the reason of the state `too noisy`. They are None in other states.
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
    improved: DriftChange | None = None
    noise: NoiseFact | None = None


class OutputDrift(Struct, frozen=True):
    """Hold the finding on one output of one case, with its metrics as the evidence, worst first.

    `last_run` is the number of the last run of an output that is absent, None in every other state.
    """

    case: str
    output: str
    state: DriftState
    metrics: tuple[MetricDrift, ...] = ()
    last_run: int | None = None


class Anchor(Struct, frozen=True):
    """Hold a frozen point of comparison: its name, its commit, empty if unknown, and its runs in the history."""

    name: str
    commit: str
    runs: tuple[int, ...]


class DriftRecord(Struct, frozen=True):
    """Hold all results of one call of `precreg drift`. `runs` are the runs of the environment, oldest first.

    `other_environments` has the labels of the history that this call did not judge. `without_points` counts by state
    the outputs beyond the limits of a record: their points are in the history alone.
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
    without_points: dict[str, int] = {}


def drift_exit_code(states: Iterable[DriftState]) -> int:
    """Return 1 if anything drifts, otherwise 2 if a series ended or nothing could be judged, else 0."""
    found = set(states)
    if DriftState.DRIFT in found:
        return 1
    # A history that shows nothing yet must not look like a pass, so it has its own exit code. A loss has priority: 1 is
    # the code that fails a job for its numbers.
    judged = found & {DriftState.STEADY, DriftState.IMPROVED}
    return 2 if DriftState.UNMEASURED in found or not judged else 0
