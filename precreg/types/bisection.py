"""Which change made a case worse: a commit with its statements, a release of a package, or a setting?

A version is a commit, a set of pinned packages, or a set of variables and compiler flags. A step runs the case by one
version, and judges it beside the good version.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from precreg.types.verdict import Reason

BISECTION_SCHEMA = "precreg-bisection/1"

BisectionKind = Literal["commits", "packages", "settings"]

# - good, bad: as git bisect has them
# - cannot_run: the case fails at this version, so the search skips it
# - unclear: the paired test neither proved nor excluded a loss, so the search skips it
VersionVerdict = Literal["good", "bad", "cannot_run", "unclear"]

# The evidence of a verdict: bits of the good or the bad version, other bits than the good version's, a verdict on the
# seeds of the case, a paired test on fresh seeds, or a failure.
VersionEvidence = Literal["good_bits", "bad_bits", "other_bits", "own_seeds", "fresh_seeds", "failure"]

# - found: one change is to blame
# - candidates: only skipped versions are left, and one of them is to blame
# - no_difference: good and bad give the same bits
# - no_loss: the bits differ, and no loss is proven; bits cannot decide, because repeats differ
# - good_fails, bad_fails: the case cannot run at this end
# - good_is_bad: the good version breaks a bound of the case itself
# - nondeterministic: repeats of the good version differ, although the case declares that they do not
BisectionStatus = Literal[
    "found",
    "candidates",
    "no_difference",
    "no_loss",
    "good_fails",
    "bad_fails",
    "good_is_bad",
    "nondeterministic",
]

# Versions are bad if they lose precision against the good one, or if their bits differ from it.
BisectionRule = Literal["loss", "bits"]

# The parts of a commit that are undone, from coarse to fine. "lines" belong to a file that is not Python.
ChangeLevel = Literal["file", "function", "statement", "operation", "lines"]


class BisectionStep(Struct, frozen=True):
    """The judgement of one version. `reason` comes from the verdict beside the good version, if it exists.

    `seeds` counts the fresh seeds of a paired test. `message` quotes the failure of a version that cannot run. `logged`
    says that the log of an interrupted search has the step.
    """

    version: str
    verdict: VersionVerdict
    evidence: VersionEvidence
    reason: Reason | None = None
    message: str = ""
    seeds: int = 0
    seconds: float = 0.0
    logged: bool = False


class CodeChange(Struct, frozen=True):
    """One part of the guilty change. `line` belongs to the bad version; `bad` and `good` are the sources of both.

    A whole file has no sources, and neither has a part that one version lacks.
    """

    level: ChangeLevel
    file: str
    function: str = ""
    line: int = 0
    bad: str = ""
    good: str = ""


class NarrowingLevel(Struct, frozen=True):
    """One round of delta debugging: the parts of a level, the runs, and the parts whose undoing restores the result."""

    level: ChangeLevel
    parts: int
    runs: int
    kept: tuple[CodeChange, ...]


class GuiltyCommit(Struct, frozen=True):
    """A commit, as git describes it. `files` are those that it changed."""

    commit: str
    subject: str
    author: str
    date: str
    parent: str
    files: tuple[str, ...] = ()


class GuiltyRelease(Struct, frozen=True):
    """The last good and the first bad release of a package; `candidates` lie between them, and none could run."""

    package: str
    good: str
    bad: str
    candidates: tuple[str, ...] = ()


class Bisection(Struct, frozen=True, kw_only=True):
    """The result of a search for the change that made one case worse."""

    schema: str = BISECTION_SCHEMA
    case: str
    kind: BisectionKind
    status: BisectionStatus
    good: str
    bad: str
    rule: BisectionRule = "loss"
    # Both ends first.
    ends: tuple[BisectionStep, ...] = ()
    steps: tuple[BisectionStep, ...] = ()
    # The versions between the ends, the bad one included.
    versions: int = 0
    commit: GuiltyCommit | None = None
    # The commits that contain the guilty one, if steps had to be skipped.
    candidates: tuple[GuiltyCommit, ...] = ()
    releases: tuple[GuiltyRelease, ...] = ()
    # Variables as NAME=VALUE, and flags.
    settings: tuple[str, ...] = ()
    narrowings: tuple[NarrowingLevel, ...] = ()
    # The smallest set of parts whose undoing restores the result.
    changes: tuple[CodeChange, ...] = ()
    # The run of the bad version with these changes undone.
    proof: BisectionStep | None = None
    # The log, relative to the project.
    log: str = ""
    seconds: float = 0.0
