"""Which values does a comparison of stored arrays give?"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from precreg.types.case import Role, Tolerance
from precreg.types.diagnosis import Fingerprint
from precreg.types.metric import MetricDescription
from precreg.types.outcome import Comparison
from precreg.types.pair import BenchmarkDifference
from precreg.types.verdict import Finding, Verdict
from precreg.types.warning import ComparisonWarning

# Schema 2 stores facts where schema 1 stored sentences: warnings.
COMPARISON_SCHEMA = "precreg-comparison/2"

# The source of the order of execution: the names with their numbers by value, a file of names, the topology of an ONNX
# model, or the JSON of a dump of msprobe.
OrderSource = Literal["names", "file", "onnx", "msprobe"]


class SomeNames(Struct, frozen=True):
    """The first few of many names, and the number of the others."""

    names: tuple[str, ...] = ()
    others: int = 0

    @property
    def count(self) -> int:
        """Return the number of all names."""
        return len(self.names) + self.others


class ExecutionOrder(Struct, frozen=True):
    """The order of the pairs of a record: the order of execution, as far as `source` knows it.

    `files` have the order, as the user named them; none if the names have it. `unused` are names of the order that no
    pair has. `unordered` are pairs that the order lacks: they come last, by name.
    """

    source: OrderSource = "names"
    files: tuple[str, ...] = ()
    unused: SomeNames = SomeNames()
    unordered: SomeNames = SomeNames()


class ComparisonSettings(Struct, frozen=True):
    """The request for a comparison of stored arrays: the paths as the user wrote them, selection, and limits.

    `actual`, `reference` and `benchmark` are files or folders. `mapping` is the file that pairs names. `limits` are
    rtol, atol, standard and bounds of the command line. The record keeps `worst` positions of each pair.
    """

    actual: str
    reference: str
    role: Role = "reference"
    benchmark: str | None = None
    mapping: str | None = None
    select: tuple[str, ...] = ()
    project: str | None = None
    limits: dict[str, float | str] = field(default_factory=dict)
    # The dtype, shape and byte_order of raw files, as far as the command line has them.
    raw: dict[str, str] = field(default_factory=dict)
    worst: int = 100
    analyzers: tuple[str, ...] = ()
    # The rule of regressions judges each pair by its benchmark.
    regression: bool = False
    # The file with the order of execution, as the user named it.
    order: str | None = None


class ComparedPair(Struct, frozen=True):
    """Two compared arrays: measurements, tolerance, and verdict.

    `actual` and `reference` are paths for the user, with `:NAME` for an array of an archive; None for a missing side.
    `comparison` and `tolerance` are None if a side is missing or unreadable. `benchmark` has the measurements of
    another implementation's output against the same reference; None without a readable one.
    """

    name: str
    actual: str | None
    reference: str | None
    verdict: Verdict
    comparison: Comparison | None = None
    tolerance: Tolerance | None = None
    benchmark: Comparison | None = None
    benchmark_path: str | None = None
    # The reason why a given benchmark could not be measured.
    benchmark_problem: str | None = None
    # The nearer to the reference: the actual or the benchmark.
    difference: BenchmarkDifference | None = None
    # The losses against the benchmark by the rule of regressions; a part of the verdict only if the benchmark judges.
    regressed: tuple[Finding, ...] = ()
    # The shapes of the errors of a pair that failed, the surest first.
    fingerprints: tuple[Fingerprint, ...] = ()

    @property
    def described(self) -> tuple[MetricDescription, ...]:
        """Return the descriptions of the metrics of analyzers."""
        return () if self.comparison is None else self.comparison.described


class ComparisonRecord(Struct, frozen=True):
    """A comparison of two arrays, archives or folders: every pair in order, and findings on the whole.

    Without a pair, `findings` give the reason: no name is on both sides, or the selection is empty.
    """

    schema: str
    precreg: str
    started: str
    duration_s: float
    settings: ComparisonSettings
    pairs: tuple[ComparedPair, ...]
    findings: tuple[Finding, ...] = ()
    # Tolerances that admit everything or nothing, and a benchmark that could not be measured.
    warnings: tuple[ComparisonWarning, ...] = ()
    exit_code: int = 0
    # Records of earlier versions have the order of names.
    order: ExecutionOrder = ExecutionOrder()
