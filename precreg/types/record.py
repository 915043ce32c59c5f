"""What is stored: an accepted baseline, and the record of a run or of a comparison, all that reports are made from."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from precreg.types.case import Location, Role, Study, Tier, Tolerance
from precreg.types.metric import MetricDescription
from precreg.types.outcome import Comparison, Histogram, Outcome
from precreg.types.verdict import Finding, Verdict
from precreg.types.warning import ComparisonWarning, Orphan, RunWarning, StoredText

# Schema 2 stores facts where schema 1 stored sentences: orphans and warnings.
RECORD_SCHEMA = "precreg-record/2"
COMPARISON_SCHEMA = "precreg-comparison/2"

BASELINE_SCHEMA = "precreg-baseline/3"
"""Raised, with those of proposals and journals, when digests or figures get another meaning: old ones tell nothing."""


TEST_DEFINED_PREFIX = "pytest-"
"""What the definition digest of a case begins with that a hand-written test defines, and no suite."""


def is_test_defined(definition: str) -> bool:
    """Tell whether a case is defined by a hand-written test: only running the tests tells whether it is still there."""
    return definition.startswith(TEST_DEFINED_PREFIX)


NotNegative = Annotated[float, Meta(ge=0)]


class KeptSums(Struct, frozen=True, array_like=True):
    """The sums of some groups: the largest in size, and all of them in units of it, two digits of 64 each.

    What 0 is, and how a digit is written, measure/kept_groups.py knows.
    """

    largest: NotNegative
    shares: Annotated[str, Meta(pattern=r"^([A-Za-z0-9+/]{2})+\Z")]


class AxisSums(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Sums of errors in the groups of one axis (see AxisGroups), of which `joined` neighbours are one; seed by seed.

    None stands for sums that are beyond float64.
    """

    axis: Annotated[int, Meta(ge=0)]
    joined: Annotated[int, Meta(ge=1, le=16)]
    absolute: list[KeptSums | None]
    signed: list[KeptSums | None]
    squared: list[KeptSums | None]
    ulps: list[KeptSums | None]
    logs: list[KeptSums | None]


class BaselineOutput(Struct, frozen=True, forbid_unknown_fields=True):
    """One output as accepted: dtype, shape, and lists with one entry per seed."""

    dtype: str
    shape: tuple[int, ...]
    digests: list[str]
    metrics: dict[str, list[float | None]]


class AcceptedValue(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What was accepted of a case before: the means that tell of creep, seed by seed, by output and metric.

    `definition` is that of the case at the time; values of another definition are no part of one creep.
    """

    date: str
    author: str
    commit: str
    reason: str
    definition: str
    means: dict[str, dict[str, list[float | None]]]
    reach: dict[str, dict[str, NotNegative]] = field(default_factory=dict)
    """By output and metric, how sure the ratio to the value before is: it and its bounds differ by this, in logarithms.

    Of the first value of a definition, and where there are too few samples, nothing is said.
    """
    steps: int = 1
    """How many values were accepted from the one before it, which is kept, up to this one."""
    confirmation: str = ""


class BaselineEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One accepted case. `inputs` has one digest per seed; `fingerprint` is the id of the environment it ran in."""

    definition: str
    inputs: list[str]
    reason: str
    author: str
    date: str
    commit: str
    fingerprint: str
    duration_s: float
    outputs: dict[str, BaselineOutput]
    sketch: dict[str, Histogram] = field(default_factory=dict)
    groups: dict[str, list[AxisSums]] = field(default_factory=dict)
    """By output, what statistics judge by: along each axis; none where the line would be too long."""
    described: list[MetricDescription] = field(default_factory=list)
    """The metrics of analyzers among those that are kept; the file leaves it out where there are none."""
    reach: dict[str, dict[str, NotNegative]] = field(default_factory=dict)
    """How sure the ratio to the last of `accepted` is, as there; left out if empty."""
    confirmation: str = ""
    """How often the case was run again before it was accepted, and what that gave; left out where it was not."""
    accepted: list[AcceptedValue] = field(default_factory=list)
    """What was accepted of the case before, oldest first: the first, the smallest and the last; left out if empty."""


class Baseline(Struct, frozen=True):
    """An entry and the file it was found in, with the environment level (exact, family or generic) that matched."""

    entry: BaselineEntry
    environment: str
    file: str
    change: str = ""
    """What is different here from where it was accepted, in words; empty on the same fingerprint."""


FACTS_WITHOUT_EFFECT_ON_BITS = frozenset({"os"})


class Environment(Struct, frozen=True):
    """Where a run took place: label with its fallback chain, and a fingerprint that explains differing bits."""

    label: str
    chain: tuple[str, ...]
    fingerprint: str
    facts: dict[str, str]

    @property
    def decisive(self) -> dict[str, str]:
        """The facts that can change a result's bits, and that the fingerprint is made of."""
        return {name: self.facts[name] for name in sorted(self.facts) if name not in FACTS_WITHOUT_EFFECT_ON_BITS}


class GitState(Struct, frozen=True):
    """The commit that was run; None where there is no repository."""

    commit: str
    branch: str
    dirty: bool
    author: str


class FindingKind(StrEnum):
    """What a finding on a whole run is about; docs/integrity.md and docs/verdicts.md have the tables."""

    BASELINE_CHANGED = "baseline_changed"
    BASELINE_REMOVED = "baseline_removed"
    BOUND_LOOSENED = "bound_loosened"
    REGRESSION_LOOSENED = "regression_loosened"
    CASE_REMOVED = "case_removed"
    CASE_RENAMED = "case_renamed"
    CASE_REDEFINED = "case_redefined"
    CASE_SKIPPED = "case_skipped"
    CASE_INTRODUCED = "case_introduced"
    SEEDS_LOWERED = "seeds_lowered"
    REPEATS_LOWERED = "repeats_lowered"
    EXPECT_FAILURE_ADDED = "expect_failure_added"
    EXACT_DROPPED = "exact_dropped"
    DETERMINISM_DROPPED = "determinism_dropped"
    BUDGET_LOOSENED = "budget_loosened"
    SETTING_LOOSENED = "setting_loosened"
    REFERENCE_CHANGED = "reference_changed"
    HISTORY_REMOVED = "history_removed"
    BASE_UNREADABLE = "base_unreadable"
    ALLOWANCE_UNUSED = "allowance_unused"
    CREEP = "creep"
    COMBINED_LOSS = "combined_loss"


class RunFinding(Struct, frozen=True):
    """Something found about a whole run, and not about what one case computed: it fails the run, unless it is allowed.

    `about` is a case id, a suite (tier/suite), or a file. `factor` is how many times looser or worse, where there is a
    number for it. `allowed` is the reason that baselines/allow.yaml gives. `fails` is False for what is only told.
    """

    kind: FindingKind
    about: str
    message: str
    factor: float | None = None
    source: Location | None = None
    allowed: str | None = None
    fails: bool = True

    @property
    def binding(self) -> bool:
        """Tell whether the run fails for it."""
        return self.fails and self.allowed is None


class PairedRun(Struct, frozen=True):
    """How a case came out of a run of two versions side by side.

    `seeds` is how many were drawn of both versions. `clear` tells whether more could change nothing: the bits are the
    same, it is worse, or it is surely not worse by more than is material. `problem` says why the other version gave
    nothing to judge by, so that what was accepted judged; empty where it did.
    """

    seeds: int
    clear: bool
    problem: str = ""


class CaseResult(Struct, frozen=True):
    """One case of a run record: what it is, what was measured, the baseline's means, and the verdict."""

    id: str
    tier: Tier
    suite: str
    name: str
    source: Location
    role: Role
    definition: str
    parameters: dict[str, Any]
    tags: tuple[str, ...]
    outcome: Outcome
    verdict: Verdict
    tolerances: dict[str, Tolerance] = field(default_factory=dict)
    baseline: Baseline | None = None
    baseline_id: str = ""
    acceptable: bool = False
    """Whether the case as it is now could become its own baseline: sound, within tolerance, other than before."""
    paired: PairedRun | None = None
    """Set in a paired run. There `baseline` is what the other version gave, but where it gave nothing to judge by."""
    accepted: Baseline | None = None
    """What was accepted of the case, where the other version of a paired run judged in its place."""

    @property
    def stored(self) -> Baseline | None:
        """What was accepted of the case, whatever judged it."""
        return self.baseline if self.paired is None or self.paired.problem else self.accepted


class RunRecord(Struct, frozen=True):
    """A whole run. Every report is made from this alone, and shards merge into one."""

    schema: str
    precreg: str
    project: str
    started: str
    duration_s: float
    environment: Environment
    git: GitState | None
    selection: dict[str, Any]
    ci: bool
    results: tuple[CaseResult, ...]
    orphans: tuple[Orphan | StoredText, ...] = ()
    warnings: tuple[RunWarning, ...] = ()
    """What to look at: tolerances that hold nothing or cannot hold, what git refused, what could not be written."""
    exit_code: int = 0
    folder: str = ""
    """Where the project is in its repository: a path from the repository's root, empty if it is the root itself."""
    studies: tuple[Study, ...] = ()
    """What the results of suites are read for together, by suite."""
    findings: tuple[RunFinding, ...] = ()
    """What is wrong with the run as a whole: its bar was lowered, small losses add up."""
    against: str = ""
    """The commit whose baselines, tolerances and definitions judged; empty where those of the project did."""
    pair: str = ""
    """The commit whose code ran beside the working tree's, case by case, and judged it; empty where none did."""


class ComparisonSettings(Struct, frozen=True):
    """What a comparison of stored arrays was asked for: paths as they were given, and what chose and limits them.

    `actual`, `reference` and `benchmark` are files or folders; `mapping` is the file that pairs names. `limits` are
    rtol, atol, standard and bounds of the command line; `worst` is how many positions were kept of each pair.
    """

    actual: str
    reference: str
    role: Role = "reference"
    benchmark: str | None = None
    mapping: str | None = None
    select: tuple[str, ...] = ()
    project: str | None = None
    limits: dict[str, float | str] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict)
    """dtype, shape and byte_order of raw files, where they were said."""
    worst: int = 100
    analyzers: tuple[str, ...] = ()


class ComparedPair(Struct, frozen=True):
    """One array held against another: what was measured, what it was allowed, and the verdict.

    `actual` and `reference` are paths as shown to the user, with `:NAME` for an array of an archive; None for the
    side that is missing. `comparison` and `tolerance` are None where nothing could be measured: a side is missing or
    cannot be read. `benchmark` is another implementation's output, measured against the same reference, where one was
    given and could be measured.
    """

    name: str
    actual: str | None
    reference: str | None
    verdict: Verdict
    comparison: Comparison | None = None
    tolerance: Tolerance | None = None
    benchmark: Comparison | None = None
    benchmark_path: str | None = None
    benchmark_problem: str | None = None
    """Why the benchmark could not be measured, where one was there."""

    @property
    def described(self) -> tuple[MetricDescription, ...]:
        """Return the descriptions of the metrics of analyzers."""
        return () if self.comparison is None else self.comparison.described


class ComparisonRecord(Struct, frozen=True):
    """Two arrays, archives or folders, compared: every pair by name, and findings on the whole.

    `findings` say why nothing was compared where there is no pair: no name is on both sides, or none was selected.
    """

    schema: str
    precreg: str
    started: str
    duration_s: float
    settings: ComparisonSettings
    pairs: tuple[ComparedPair, ...]
    findings: tuple[Finding, ...] = ()
    warnings: tuple[ComparisonWarning, ...] = ()
    """What to look at: tolerances that hold nothing or cannot hold, and a benchmark that could not be measured."""
    exit_code: int = 0
