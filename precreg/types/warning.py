"""Facts about a run or a comparison that a person should look at; report/warnings.py writes their sentences.

A record stores these facts and no words, so that reports can sort, place and count them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

from msgspec import Struct

from precreg.types.case import Location

_F = TypeVar("_F")


class Fact(Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """The base of all facts: `kind` names the struct in JSON."""


class StoredText(Fact, frozen=True, tag="text"):
    """A sentence of a record of schema 1, which stored sentences in place of facts."""

    text: str


class Orphan(Fact, frozen=True, tag="orphan"):
    """A baseline that no case looks up: the case's id, and the file from the project's root.

    `renamed` is the id of a new case with the same definition, empty if there is none.
    """

    case: str
    file: str
    renamed: str = ""


class UnlistedDtype(Fact, frozen=True, tag="unlisted_dtype"):
    """A standard that has no limits for the dtype of an output."""

    standard: str
    dtype: str


class RtolBelowUlp(Fact, frozen=True, tag="rtol_below_ulp"):
    """An rtol that rounding alone can break: `ulp` is 1 ULP of the dtype, relative to the value."""

    rtol: float
    source: Location
    dtype: str
    ulp: float


class AtolBelowHalfUlp(Fact, frozen=True, tag="atol_below_half_ulp"):
    """An atol, without rtol, that only exact values meet: `half_ulp` belongs to `magnitude`, the mean |reference|."""

    atol: float
    source: Location
    dtype: str
    half_ulp: float
    magnitude: float


class VacuousTolerance(Fact, frozen=True, tag="vacuous_tolerance"):
    """A tolerance that admits twice the reference: its limits by metric, and the source of the first.

    `magnitude` is the mean |reference|, if atol admits it only because values are so small.
    """

    limits: tuple[tuple[str, float], ...]
    source: Location
    magnitude: float | None = None


class UnmatchedOutput(Fact, frozen=True, tag="unmatched_output"):
    """A layer of a suite that names an output its case does not have; `outputs` are those it has."""

    output: str
    layer: str
    source: Location
    outputs: tuple[str, ...] = ()


ToleranceFact = UnlistedDtype | RtolBelowUlp | AtolBelowHalfUlp | VacuousTolerance | UnmatchedOutput


class ToleranceWarning(Fact, frozen=True, tag="tolerance"):
    """A fact about a tolerance, with the first case that has it; in a comparison, the first pair by name.

    `outputs` are the outputs concerned, empty if all are.
    """

    case: str
    fact: ToleranceFact
    outputs: tuple[str, ...] = ()


class UnmetThreshold(Fact, frozen=True, tag="unmet_threshold"):
    """A threshold of PRECISION_THRESHOLDS that does not apply to some outputs.

    `cause` is unmatched if no bound asks for a match ratio, and looser if the project's bound is tighter.
    """

    metric: str
    limit: float
    layer: str
    cause: Literal["unmatched", "looser"]


class UnknownCommit(Fact, frozen=True, tag="unknown_commit"):
    """A repository that git refuses to read; `problem` is git's message."""

    problem: str


class UnwritableFolder(Fact, frozen=True, tag="unwritable_folder"):
    """A working folder that cannot be written: the run keeps no journal and proposes nothing."""

    folder: str


class SkippedFiles(Fact, frozen=True, tag="skipped_files"):
    """Files of one side of a comparison in no format of arrays: the first few, and the number of the others."""

    files: tuple[str, ...]
    others: int = 0


class MissingBenchmark(Fact, frozen=True, tag="missing_benchmark"):
    """Pairs for which the benchmark's side has no array: the first few, and the number of the others."""

    benchmark: str
    pairs: tuple[str, ...]
    others: int = 0


class UnmeasuredBenchmark(Fact, frozen=True, tag="unmeasured_benchmark"):
    """A benchmark's array that could not be measured; `problem` says why."""

    pair: str
    problem: str


RunWarning = ToleranceWarning | UnmetThreshold | UnknownCommit | UnwritableFolder | StoredText

ComparisonWarning = ToleranceWarning | SkippedFiles | MissingBenchmark | UnmeasuredBenchmark | StoredText


def read_facts(stored: Iterable[_F | str]) -> tuple[_F | StoredText, ...]:
    """Return stored facts as they are, and each sentence of a record of schema 1 as a StoredText."""
    return tuple(StoredText(fact) if isinstance(fact, str) else fact for fact in stored)
