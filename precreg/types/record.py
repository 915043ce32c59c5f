"""Which values are stored: accepted baselines, and the records of runs that every report reads?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from precreg.types.case import Fact, Location, Role, Study, Tier, Tolerance
from precreg.types.cluster import ClusterWorker
from precreg.types.diagnosis import Diagnosis, OpaqueSubject
from precreg.types.metric import MetricDescription
from precreg.types.outcome import Execution, Histogram, Outcome, ReusedOutcomes
from precreg.types.pair import PairedFigure, PairEnd, RoundingShare
from precreg.types.verdict import EnvironmentDifference, Reason, Verdict
from precreg.types.warning import Orphan, RunFinding, RunWarning, StoredText

# Schema 2 stores facts where schema 1 stored sentences: orphans and warnings.
RECORD_SCHEMA = "precreg-record/2"
# A new meaning of digests or figures raises it together with the schemas of proposals and journals: old values would be
# compared with unlike ones. Schema 4 has the digests and figures of schema 3, in two files.
BASELINE_SCHEMA = "precreg-baseline/4"
# The definition digest of a test-defined case begins with it. No suite lists such a case, so only running the tests
# shows whether it still exists.
TEST_DEFINED_PREFIX = "pytest-"


def is_test_defined(definition: str) -> bool:
    """Return True if a test, and no suite, defines the case of a definition digest."""
    return definition.startswith(TEST_DEFINED_PREFIX)


NotNegative = Annotated[float, Meta(ge=0)]


class KeptSums(Struct, frozen=True, array_like=True):
    """The sums of some groups: the largest in size, and all of them in units of it, as two base-64 digits each.

    measure/groups.py encodes and decodes the digits.
    """

    largest: NotNegative
    shares: Annotated[str, Meta(pattern=r"^([A-Za-z0-9+/]{2})+\Z")]


class AxisSums(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The sums of errors in the groups of one axis (see AxisGroups), seed by seed; `joined` neighbours are one group.

    Sums beyond float64 are None.
    """

    axis: Annotated[int, Meta(ge=0)]
    joined: Annotated[int, Meta(ge=1, le=16)]
    absolute: list[KeptSums | None]
    signed: list[KeptSums | None]
    squared: list[KeptSums | None]
    ulps: list[KeptSums | None]
    logs: list[KeptSums | None]
    # Baselines of earlier versions lack these two.
    outward: list[KeptSums | None] = field(default_factory=list)
    squared_ulps: list[KeptSums | None] = field(default_factory=list)


class BaselineOutput(Struct, frozen=True, forbid_unknown_fields=True):
    """One accepted output: dtype, shape, and lists with one entry per seed."""

    dtype: str
    shape: tuple[int, ...]
    digests: list[str]
    metrics: dict[str, list[float | None]]


class AcceptedValue(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An earlier accepted value of a case: the means that show cumulative loss, seed by seed, by output and metric.

    `definition` is the case's definition at the time. Values of different definitions are not compared.
    """

    date: str
    author: str
    commit: str
    reason: str
    definition: str
    means: dict[str, dict[str, list[float | None]]]
    # By output and metric, the half-width of the confidence interval of log(ratio to the value before). The first value
    # of a definition has none, and too few samples give none.
    reach: dict[str, dict[str, NotNegative]] = field(default_factory=dict)
    # The number of accepted values since the one before it that is kept.
    steps: int = 1
    confirmation: str = ""


class KnownBad(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The wrong state in which a case was accepted, for a reason.

    `bounds` has the values, seed by seed, of the metrics whose bounds were broken, by output; metrics of alternatives
    begin with "either.". `nans` and `infinities` count the mismatched elements of each output, seed by seed.
    """

    # Empty until someone accepts the state.
    reason: str = ""
    bounds: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)
    nans: dict[str, list[Annotated[int, Meta(ge=0)]]] = field(default_factory=dict)
    infinities: dict[str, list[Annotated[int, Meta(ge=0)]]] = field(default_factory=dict)


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
    # By output and axis, the sample of the statistics; left out if the line in the file would be too long.
    groups: dict[str, list[AxisSums]] = field(default_factory=dict)
    # The analyzers' metrics among the kept ones; the file leaves out an empty list.
    described: list[MetricDescription] = field(default_factory=list)
    # The half-widths of the ratios to the last of `accepted`, as there; left out if empty.
    reach: dict[str, dict[str, NotNegative]] = field(default_factory=dict)
    # The number of reruns before acceptance and their result; left out without reruns.
    confirmation: str = ""
    # Earlier accepted values, oldest first: the first, the smallest and the last ones; left out if empty.
    accepted: list[AcceptedValue] = field(default_factory=list)
    # Set if the result was accepted although it is out of tolerance or has NaN.
    known: KnownBad | None = None
    # The processor's model that `duration_s` was measured on; old entries have none.
    processor: str = ""
    # The fingerprints of other environments that gave the same bits; left out if empty.
    seen: list[str] = field(default_factory=list)
    # A digest of all outputs of the reference or golden per seed, and the project's files that it opened, relative to
    # the project; a folder ends in a slash. Left out if unknown.
    oracle: list[str] = field(default_factory=list)
    oracle_files: list[str] = field(default_factory=list)


class Baseline(Struct, frozen=True):
    """An entry, its file, and the label of the environment (exact, family or generic) that has it."""

    entry: BaselineEntry
    environment: str
    file: str
    # The difference between this environment and the accepting one in words; empty until report/ writes it.
    change: str = ""
    # None where the baseline was accepted, and where its bits were seen again.
    difference: EnvironmentDifference | None = None


# These facts explain an environment to people and change no bit of a result. The processor's model acts through the
# kernels, instruction sets and libm that it makes libraries choose, and those are facts of their own.
FACTS_WITHOUT_EFFECT_ON_BITS = frozenset({"os", "cpu", "python_version", "thread_variables", "kernel_variables"})


# Names of further such facts, which a kind of subject gives, begin so: about_memory, about_clock.
EXPLAINING_PREFIX = "about_"


def decisive_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the facts that can change a result's bits, sorted by name."""
    return {
        name: facts[name]
        for name in sorted(facts)
        if name not in FACTS_WITHOUT_EFFECT_ON_BITS and not name.startswith(EXPLAINING_PREFIX)
    }


def facts_fingerprint(decisive: Mapping[str, str]) -> str:
    """Return the fingerprint of an environment with these decisive facts: eight hexadecimal digits of a digest."""
    # Eight digits keep a baseline readable. A project has few environments, so collisions are improbable.
    return sha256(repr(sorted(decisive.items())).encode()).hexdigest()[:8]


# A case that ran on a machine with other labels than the run's has them in this fact, the chain with spaces.
LABELS_FACT = f"{EXPLAINING_PREFIX}labels"
# A kind of subject gives this fact if it computed on an accelerator: the family and the model, "cuda NVIDIA H100".
ACCELERATOR_FACT = "accelerator"
# A kind of subject gives this fact of a reference that it computed in lower precision in part, and names the part.
NARROW_FACT = "narrow"
# The family of the labels of machines without an accelerator.
_CPU_FAMILY = "cpu"
_MAX_LABEL = 200


def case_chain(chain: tuple[str, ...], facts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the environments whose baselines and tolerances apply to a case, by the chain of the run and its facts.

    A case on an accelerator has the chain of the accelerator: its model, its family and generic. The chain of the run
    stays for all other cases, and wherever the user gave a label that is no processor's. A case that ran on another
    machine has the labels of that machine among its facts.
    """
    if not facts:
        return chain
    chain = tuple(facts[LABELS_FACT].split()) if LABELS_FACT in facts else chain
    model = re.sub(r"[^a-z0-9._]+", "-", facts.get(ACCELERATOR_FACT, "").lower()).strip("-._")[:_MAX_LABEL]
    if not model or chain[0].partition("-")[0] != _CPU_FAMILY:
        return chain
    return tuple(dict.fromkeys((model, model.partition("-")[0], chain[-1])))


class Environment(Struct, frozen=True):
    """The environment of a run: label with its fallback chain, and a fingerprint that explains differing bits."""

    label: str
    chain: tuple[str, ...]
    fingerprint: str
    facts: dict[str, str]
    # The fingerprints that baselines may have for this environment from before facts were effects.
    former: tuple[str, ...] = ()

    def has_seen(self, entry: BaselineEntry) -> bool:
        """Return whether an entry was accepted in this environment, or its bits were seen again here."""
        return not {self.fingerprint, *self.former}.isdisjoint((entry.fingerprint, *entry.seen))

    def has_accepted(self, entry: BaselineEntry) -> bool:
        """Return whether an entry was accepted in this environment."""
        return entry.fingerprint in (self.fingerprint, *self.former)

    def measured_time_of(self, entry: BaselineEntry) -> bool:
        """Return whether an entry's time was measured in this environment on this model of processor."""
        # A time of another machine says nothing about the code, even if its bits are the same. Old entries have no
        # model, and old fingerprints imply it.
        return self.has_accepted(entry) and entry.processor in ("", self.facts.get("cpu", ""))

    @property
    def decisive(self) -> dict[str, str]:
        """The facts that can change a result's bits; the fingerprint is their digest."""
        return decisive_facts(self.facts)

    def of_case(self, execution: Execution) -> Environment:
        """Return the environment in which a case of the run computed: with the facts of its kind, and by its chain."""
        given = execution.facts
        if all(self.facts.get(name) == fact for name, fact in given.items()):
            return self
        # An empty text marks a fact that the machine of the case lacks.
        facts = {name: fact for name, fact in {**self.facts, **given}.items() if fact or name not in given}
        chain = case_chain(self.chain, given)
        # A fact that only explains leaves the fingerprint as it is, which a stored record may have from others.
        decisive = decisive_facts(facts)
        if decisive == self.decisive:
            return replace(self, label=chain[0], chain=chain, facts=facts)
        return replace(
            self, label=chain[0], chain=chain, fingerprint=facts_fingerprint(decisive), facts=facts, former=()
        )


class GitState(Struct, frozen=True):
    """The commit of a run; a record has None outside a repository."""

    commit: str
    branch: str
    dirty: bool
    author: str


class ChosenRevision(Struct, frozen=True):
    """The revision that named a commit on the command line, or whose merge base with HEAD is the commit."""

    text: str
    merge_base: bool = False


class OtherVersionFailed(Fact, frozen=True, tag="failed"):
    """A failure of the other version; `message` quotes it."""

    reason: Reason
    message: str


class OtherVersionInputs(Fact, frozen=True, tag="other_inputs"):
    """Inputs that the other version reads from files, and that differ there."""


class OtherVersionOutputs(Fact, frozen=True, tag="absent_outputs"):
    """Outputs that the other version does not give, or gives in another shape or dtype."""

    absent: tuple[str, ...]


class KnownBadCase(Fact, frozen=True, tag="known_bad"):
    """A case that is declared known-bad, which another version that is as bad would pass."""


class NoAcceptedVersion(Fact, frozen=True, tag="no_accepted_version"):
    """No other version can be run: `cause` says why, `message` quotes git or the error."""

    cause: Literal["not_committed", "shallow", "no_git", "no_checkout", "no_workers"]
    message: str = ""


class FixedInputs(Fact, frozen=True, tag="fixed_inputs"):
    """Inputs that are the same at every seed, so that seeds are no sample."""


class PresentVersionFailed(Fact, frozen=True, tag="present_failed"):
    """A failure of the present version, or of the reference, on fresh inputs; `message` quotes it."""

    reason: Reason
    message: str


class UnsteadyVersion(Fact, frozen=True, tag="unsteady"):
    """An output with other bits in a second run on the same fresh inputs, of a case that is declared to repeat."""

    output: str


PairProblem = (
    OtherVersionFailed
    | OtherVersionInputs
    | OtherVersionOutputs
    | KnownBadCase
    | NoAcceptedVersion
    | FixedInputs
    | PresentVersionFailed
    | UnsteadyVersion
)


class PairedRun(Struct, frozen=True):
    """The result of running two versions of a case side by side.

    Both versions ran on `seeds` seeds: the case's own, or the fresh ones of the test. A `clear` result needs no further
    seeds: the bits are equal, a loss is proven, or a relevant one is excluded. `cause` is the reason why versions could
    not be compared on fresh inputs; without `judged`, the stored baseline judged.
    """

    seeds: int
    clear: bool
    # The sentence of the cause; empty until report/ writes it.
    problem: str = ""
    cause: PairProblem | None = None
    # The other version judged the case's own seeds. Old records say so by having no cause.
    judged: bool = False
    # The commit of the other version.
    commit: str = ""
    # The end of the test on fresh inputs; None if there was none.
    end: PairEnd | None = None
    # The most seeds that the budget allowed.
    max_seeds: int = 0
    figures: tuple[PairedFigure, ...] = ()
    shares: tuple[RoundingShare, ...] = ()
    # The seeds came from the cache of an earlier run.
    cached: bool = False

    @property
    def fell_back(self) -> bool:
        """Return True if the stored baseline judged."""
        # Old records have the sentence alone.
        return not self.judged and (self.cause is not None or bool(self.problem))


class EarlierValue(Struct, frozen=True, array_like=True):
    """The mean of a metric over the seeds at an earlier run; None if the case failed there without a value."""

    commit: str
    started: str
    value: float | None


class MetricHistory(Struct, frozen=True):
    """The values of the metric that failed a case, or of one that improved, at the runs before this one, oldest first.

    They are of this environment and definition. `limit` is the largest allowed value, or the smallest of a metric whose
    larger values are better; None where no single number limits the metric.
    """

    output: str
    metric: str
    values: tuple[EarlierValue, ...]
    limit: float | None = None


class SourceLinks(Struct, frozen=True):
    """Templates of URLs to a line of a file and to a commit, with {commit}, {path} and {line}; empty if unknown."""

    source: str = ""
    commit: str = ""


class CaseResult(Struct, frozen=True):
    """One case of a run record: its identity, measurements, baseline, and verdict."""

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
    # The present result could become the baseline: sound, within tolerance, and different from the stored one.
    acceptable: bool = False
    # The present result is wrong, and could become the baseline as a known-bad state alone.
    wrong_state: KnownBad | None = None
    # Set in a paired run. Its `baseline` is the other version's result, unless that version failed.
    paired: PairedRun | None = None
    # The stored baseline, if the other version of a paired run judged in its place.
    accepted: Baseline | None = None
    # The causes of a failure; None if the run did not diagnose the case.
    diagnosis: Diagnosis | None = None
    # Set for a failure whose subject has no operations that precreg sees.
    opaque: OpaqueSubject | UnsetType = UNSET
    # The line that defines the subject; unset for cases that passed, and where no file of the project defines it.
    subject: Location | UnsetType = UNSET
    # The line of the present change that a failure is shown at: of the subject, or of the cause. None if the change has
    # no such line; unset for cases that passed, and without a change.
    in_change: Location | UnsetType | None = UNSET
    # Unset for cases that passed, and without a history of the case.
    history: MetricHistory | UnsetType = UNSET

    @property
    def stored(self) -> Baseline | None:
        """The stored baseline of the case, in a paired run and in any other."""
        return self.baseline if self.paired is None or self.paired.fell_back else self.accepted


class RunDiagnoses(Struct, frozen=True):
    """The failed cases that a run diagnosed in its budget of `seconds`, with the `used` seconds, and the skipped cases.

    `problem` is the reason why no worker could start. `without_accepted` counts the diagnosed cases whose accepted
    version was missing on a worker of a cluster.
    """

    seconds: NotNegative
    used: NotNegative
    diagnosed: int
    not_reached: int
    problem: str = ""
    without_accepted: int = 0


class RunRecord(Struct, frozen=True):
    """A whole run. Every report reads this record alone, and the records of shards merge into one."""

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
    # Tolerances that admit everything or nothing, failures of git, and files that could not be written.
    warnings: tuple[RunWarning, ...] = ()
    exit_code: Annotated[int, Meta(ge=0, le=2)] = 0
    # The project's path from the repository's root; empty if it is the root.
    folder: str = ""
    studies: tuple[Study, ...] = ()
    # Findings on the whole run: looser acceptance criteria, combined and cumulative losses.
    findings: tuple[RunFinding, ...] = ()
    # The commit whose baselines, tolerances and definitions judged; empty if the working tree judged.
    against: str = ""
    # The commit whose code ran beside the working tree's and judged it, case by case; empty if none did.
    pair: str = ""
    # A case that is not clear makes the exit code 2.
    strict: bool = False
    # The revisions that named `against` and `pair`; None without them, and in old records.
    against_revision: ChosenRevision | None = None
    pair_revision: ChosenRevision | None = None
    # None if no case failed with errors to explain, if --diagnose is 0, and in old records.
    diagnosed: RunDiagnoses | None = None
    # Unset if neither CI nor a variable gives the addresses.
    links: SourceLinks | UnsetType = UNSET
    # The error of a history that the run could not read; unset without one.
    history_problem: str | UnsetType = UNSET
    # The workers of a cluster that ran cases, by the index of each outcome; unset without a cluster.
    workers: tuple[ClusterWorker, ...] | UnsetType = UNSET
    # Unset if no case reused an outcome.
    reused: ReusedOutcomes | UnsetType = UNSET
