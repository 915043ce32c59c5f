"""What a command was asked for, as values with types. Imported before anything else, so it imports next to nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple


class Asked(NamedTuple):
    """Which cases: every kind that is named narrows the selection."""

    patterns: tuple[str, ...]
    tiers: tuple[str, ...]
    suites: tuple[str, ...]
    tags: tuple[str, ...]
    changed_since: str | None


class RunOptions(NamedTuple):
    """How they are run. `shard` is (i, n); None stands for "not said" and leaves the choice to the run.

    `pair` is the revision whose code runs side by side; then up to `max_seeds` are drawn, for up to `pair_seconds`.

    `changed` are the files that changed since `asked.changed_since`, relative to the project, where they are known.

    `base` is the commit by whose baselines, tolerances and definitions is judged; None stands for the project's own.
    """

    asked: Asked
    shard: tuple[int, int] | None
    jobs: int | None
    resume: bool
    ci: bool
    require: bool
    environment: str | None
    output: Path | None
    junit_dialect: Literal["gitlab", "strict"]
    verbose: bool
    pair: str | None = None
    max_seeds: int | None = None
    pair_seconds: float | None = None
    changed: frozenset[str] | None = None
    base: str | None = None


class DriftOptions(NamedTuple):
    """How a history is held against itself. `place` is that of the history, None for the project's own."""

    patterns: tuple[str, ...]
    place: str | None
    anchor: str | None
    window: int
    materiality: float
    confirm: int
    environment: str | None
    output: Path | None


class Sides(NamedTuple):
    """What is held against what; `golden` says that the reference is in the actual's own dtype."""

    actual: Path
    reference: Path
    golden: bool


class Raw(NamedTuple):
    """What raw files hold, as far as it was said."""

    dtype: str | None
    reference_dtype: str | None
    shape: tuple[int, ...] | None
    byte_order: Literal["little", "big"]


class Outputs(NamedTuple):
    """Where the record and the page go, if anywhere; `-` is stdout."""

    json: Path | None
    report: Path | None
