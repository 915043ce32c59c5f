"""Which facts about a whole run or comparison should a person look at?

Warnings, orphans and findings on a run have fields, so that reports can sort, place and count them. report/ writes
their sentences.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, TypeVar

from msgspec import Struct

from precreg.types.case import Fact, Location
from precreg.types.oracle import OracleFact

_F = TypeVar("_F")


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


class UncheckedBounds(Fact, frozen=True, tag="unchecked_bounds"):
    """Bounds that nothing checks, because the table of a case has no figure of their metrics."""

    metrics: tuple[str, ...]
    source: Location
    table: str


ToleranceFact = UncheckedBounds | UnlistedDtype | RtolBelowUlp | AtolBelowHalfUlp | VacuousTolerance | UnmatchedOutput


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
    # The file that has the threshold; empty for the variable.
    file: str = ""


class UnknownCommit(Fact, frozen=True, tag="unknown_commit"):
    """A repository that git refuses to read; `problem` is git's message."""

    problem: str


class UnwritableFolder(Fact, frozen=True, tag="unwritable_folder"):
    """A working folder that cannot be written: the run keeps no journal and proposes nothing."""

    folder: str


class UnclaimedFiles(Fact, frozen=True, tag="unclaimed_files"):
    """Changed files that no case is known to depend on: the first few, and the number of the others."""

    files: tuple[str, ...]
    others: int = 0


class SameOracles(Fact, frozen=True, tag="same_oracles"):
    """Cases whose reference or golden may have changed since the base, and gives the same bits.

    They were compared at the seeds of each case, and at `fresh` further ones.
    """

    cases: int
    fresh: int


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


class ShadowingFiles(Fact, frozen=True, tag="shadowing_files"):
    """Files that user code finds under the names of Python's modules or of libraries that precreg needs.

    The first few files, relative to the project, and the number of the others.
    """

    files: tuple[str, ...]
    others: int = 0


class NarrowReference(Fact, frozen=True, tag="narrow_reference"):
    """References that are no wider than the float64 outputs of their cases: the first case, and the number of cases.

    The suite asked for float64, the kind of the reference has no wider dtype, or longdouble is float64 on the platform.
    """

    case: str
    cases: int
    cause: Literal["asked", "kind", "platform"]


class NarrowPart(Fact, frozen=True, tag="narrow_part"):
    """References that their kind computed in lower precision in part: the first case, the part, the number of cases."""

    case: str
    part: str
    cases: int


class EmptyPasses(Fact, frozen=True, tag="empty_passes"):
    """Cases with outputs without a finite element, as the golden wants them: the first case, and the number of cases.

    Nothing but shapes, dtypes, and the places of NaN and infinities was compared in these outputs.
    """

    case: str
    cases: int


_ProjectWarning = UnknownCommit | UnwritableFolder | UnclaimedFiles | ShadowingFiles | SameOracles
_ReferenceWarning = NarrowReference | NarrowPart | EmptyPasses
RunWarning = ToleranceWarning | UnmetThreshold | _ProjectWarning | _ReferenceWarning | StoredText

ComparisonWarning = ToleranceWarning | SkippedFiles | MissingBenchmark | UnmeasuredBenchmark | StoredText


def has_unclaimed_files(warnings: Iterable[RunWarning]) -> bool:
    """Return whether changed files belong to no case."""
    return any(isinstance(fact, UnclaimedFiles) for fact in warnings)


def read_facts(stored: Iterable[_F | str]) -> tuple[_F | StoredText, ...]:
    """Return stored facts as they are, and each sentence of a record of schema 1 as a StoredText."""
    return tuple(StoredText(fact) if isinstance(fact, str) else fact for fact in stored)


class FindingKind(StrEnum):
    """The kind of a finding on a whole run; docs/integrity.md and docs/verdicts.md have the tables."""

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
    KNOWN_BAD_ACCEPTED = "known_bad_accepted"
    SETTING_LOOSENED = "setting_loosened"
    REFERENCE_CHANGED = "reference_changed"
    HISTORY_REMOVED = "history_removed"
    BASE_UNREADABLE = "base_unreadable"
    ALLOWANCE_UNUSED = "allowance_unused"
    CREEP = "creep"
    COMBINED_LOSS = "combined_loss"


class BaselineRemoved(Fact, frozen=True, tag="baseline_removed"):
    """An entry that was removed from its file; `date` is the day of its acceptance, empty if unknown."""

    file: str
    date: str


class BaselineChanged(Fact, frozen=True, tag="baseline_changed"):
    """An entry with changed parts, and the average that grew most: the factor of the finding is its growth."""

    file: str
    parts: tuple[str, ...]
    metric: str = ""
    output: str = ""


class HistoryRemoved(Fact, frozen=True, tag="history_removed"):
    """An entry that lost earlier accepted values."""

    file: str


class FirstBaseline(Fact, frozen=True, tag="first_baseline"):
    """A first entry of a known case in an environment."""

    environment: str


class CloserBaseline(Fact, frozen=True, tag="closer_baseline"):
    """A new entry that takes precedence over the one of the environment `former`, which judged."""

    file: str
    former: str


class BorrowedBaseline(Fact, frozen=True, tag="borrowed_baseline"):
    """A case that another case's baseline judges now; `former` is empty if its own did before."""

    lender: str
    former: str = ""


class KnownBadAccepted(Fact, frozen=True, tag="known_bad_accepted"):
    """An entry that newly accepts a wrong result as known bad, for the reason `why`."""

    file: str
    why: str


BaselineEntryFact = BaselineRemoved | BaselineChanged | HistoryRemoved | KnownBadAccepted
BaselineFact = BaselineEntryFact | FirstBaseline | CloserBaseline | BorrowedBaseline


class CaseRemoved(Fact, frozen=True, tag="case_removed"):
    """A case that its suite no longer has."""

    source: Location


class CaseRenamed(Fact, frozen=True, tag="case_renamed"):
    """A case of the base under another id."""

    former: str


class CaseIntroduced(Fact, frozen=True, tag="case_introduced"):
    """A case that the base does not have."""


class CaseRedefined(Fact, frozen=True, tag="case_redefined"):
    """A case whose definition changed in part under the same id."""

    parts: tuple[str, ...]


CaseFact = CaseRemoved | CaseRenamed | CaseIntroduced | CaseRedefined | OracleFact


class LoweredCount(Fact, frozen=True, tag="lowered_count"):
    """Fewer seeds or repeats."""

    setting: Literal["seeds", "repeats"]
    now: int
    before: int


class AnalyzerDropped(Fact, frozen=True, tag="analyzer_dropped"):
    """An analyzer that no longer measures a case."""

    analyzer: str


class ExpectFailureAdded(Fact, frozen=True, tag="expect_failure_added"):
    """A case that is newly declared known-bad, for the reason `why`."""

    why: str


class DeclarationDropped(Fact, frozen=True, tag="declaration_dropped"):
    """A case that lost `exact: true`, or became `deterministic: false`."""

    setting: Literal["exact", "deterministic"]


class LooserTime(Fact, frozen=True, tag="looser_time"):
    """A larger ratio of times, or none; or a longer timeout in seconds."""

    setting: Literal["time_ratio", "timeout"]
    before: float
    now: float | None = None


class SkipAdded(Fact, frozen=True, tag="skip_added"):
    """A requirement without which a case is skipped, or a lost tag, so that a selection by it leaves the case out."""

    setting: Literal["requires", "tags"]
    name: str


SettingFact = LoweredCount | AnalyzerDropped | ExpectFailureAdded | DeclarationDropped | LooserTime | SkipAdded


class LooserScope(Struct, frozen=True, omit_defaults=True):
    """The first few dtypes, outputs or environments to which a looser setting applies, and the number of the others.

    An output "" means all outputs that no layer names.
    """

    names: tuple[str, ...]
    others: int = 0


class LooserLimit(Fact, frozen=True, tag="looser_limit"):
    """A limit that is looser than before; None means no limit.

    `before` is the number of alternatives of which one had to hold, or `now` the number of one that is weaker than
    every former one. A region has other constants, or the shipped ones.
    """

    key: str
    sort: Literal["bound", "growth", "region", "alternatives"]
    before: float | None = None
    now: float | None = None
    at_least: bool = False
    scopes: tuple[LooserScope, ...] = ()


class ThresholdsFreed(Fact, frozen=True, tag="thresholds_freed"):
    """A permission for PRECISION_THRESHOLDS to replace any bound."""


class UnreadableBase(Fact, frozen=True, tag="unreadable_base"):
    """Files of the base that cannot be read for one reason, in the words of the error."""

    problem: str
    files: int = 1


class UnusedAllowance(Fact, frozen=True, tag="unused_allowance"):
    """An entry of baselines/allow.yaml that nothing uses, or whose change is `merged`."""

    change: FindingKind
    case: str
    merged: bool = False


class CumulativeLoss(Fact, frozen=True, tag="cumulative_loss"):
    """The ratio of one metric to the value accepted on `date` for `reason`, which is at least the rounding floor.

    `steps` of the kept values were accepted since. `lower` is the lower bound of the factor, and 0 if it is not known.
    `allowed` is the factor of the budget.
    """

    output: str
    metric: str
    factor: float
    lower: float
    current: float
    before: float
    date: str
    reason: str
    steps: int
    allowed: float | None = None


class CombinedLoss(Fact, frozen=True, tag="combined_loss"):
    """The growth of a metric over the cases of a suite together; `lower` is its lower bound.

    `dtype` is set if the outputs of one dtype are together, and `small` if they are too small for a statistic.
    """

    cases: int
    metric: str
    factor: float
    lower: float
    p_value: float
    dtype: str = ""
    small: bool = False


class PooledLoss(Fact, frozen=True, tag="pooled_loss"):
    """The growth of a metric over the cases of a suite and dtype together, on fresh inputs; `lower` is its lower bound.

    `factor` is over the accepted version.
    """

    cases: int
    dtype: str
    metric: str
    factor: float
    lower: float
    p_value: float


CriteriaFact = LooserLimit | ThresholdsFreed | UnreadableBase | UnusedAllowance
LossFact = CumulativeLoss | CombinedLoss | PooledLoss
RunFindingFact = BaselineFact | CaseFact | SettingFact | CriteriaFact | LossFact


class RunFinding(Struct, frozen=True):
    """A finding on a whole run; it fails the run unless baselines/allow.yaml allows it.

    `about` is a case id, a suite (tier/suite), or a file. `factor` is the ratio of looseness or loss, if there is one.
    `allowed` is the reason in baselines/allow.yaml. `fails` is False for a finding that is only reported. `fact` has
    the ingredients of the message; None in old records.
    """

    kind: FindingKind
    about: str
    # Empty until report/ writes it.
    message: str = ""
    factor: float | None = None
    source: Location | None = None
    allowed: str | None = None
    fails: bool = True
    fact: RunFindingFact | None = None

    @property
    def binding(self) -> bool:
        """Return True if the finding fails the run."""
        return self.fails and self.allowed is None
