"""What is asked of a run, and which functions of other rooms does it call?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from precreg.run.cluster import ClusterRequest
from precreg.run.explanation import DiagnoseCase
from precreg.suite import Selection
from precreg.types import Case, CaseResult, RunRecord
from precreg.vcs import NamedCommit

# Values of --pair that are no revision. The first lets the accepted version judge the cases whose bits changed.
PAIR_AUTO, PAIR_OFF = "auto", "off"


class RunRequest(Struct, frozen=True, kw_only=True):
    """The arguments of one run, as the command line or pytest gives them."""

    # The folder that has suites/, absolute.
    project: Path
    selection: Selection = Selection()
    # The revision that `changed` was compared with, for the record alone.
    changed_since: str | None = None
    # Files relative to the project: only cases that depend on one of them run. None runs all that are selected.
    changed: frozenset[str] | None = None
    # The ids of cases that run before the others.
    failed_first: frozenset[str] = frozenset()
    # (i, n): part i of n.
    shard: tuple[int, int] | None = None
    # A label as `detect_environment` takes it.
    environment: str | None = None
    ci: bool = False
    # A case whose requirements are missing is an error, not skipped.
    require: bool = False
    # The commit whose baselines, bounds and definitions judge; None means the project's own.
    base: NamedCommit | None = None
    # The revision that runs side by side; PAIR_AUTO lets the accepted version judge the cases whose bits changed.
    pair: str | None = None
    # The commit that a merge request or a push compares with: the accepted version of PAIR_AUTO.
    pair_base: str | None = None
    # The most seeds of a pair, and the most seconds for a case and for the run; None means the defaults.
    max_seeds: int | None = None
    pair_seconds: float | None = None
    pair_run_seconds: float | None = None
    # A case that is not clear makes the exit code 2.
    strict: bool = False
    # Worker processes; 0 runs in this process, None takes one worker for each processor.
    jobs: int | None = None
    resume: bool = False
    # The cluster that runs the cases in place of `jobs`; None without one.
    cluster: ClusterRequest | None = None
    # Neither outcomes nor figures of earlier runs are reused, and none are kept.
    no_cache: bool = False
    # The folder of the reports, relative to the current folder.
    output: Path = Path("reports")
    # With a folder of its own for reports, a run also works in a project that cannot be written.
    needs_journal: bool = True
    # The most seconds for the diagnoses of failed cases; 0 diagnoses none.
    diagnose: float = 0.0
    junit_dialect: Literal["gitlab", "strict"] = "gitlab"


# Returns the lines of files that the present change touches; None without a change.
ChangedLines = Callable[[Collection[str]], Mapping[str, Sequence[range]] | None]


class RunOutputs(NamedTuple):
    """Functions of rooms above this one that a session calls. `precreg.report.RUN_OUTPUTS` lists them for all callers.

    `explain` diagnoses a failed case. `add_context` adds to the results that people look at, those of cases of a
    project, where their code is, which of its lines the change has, and which values they had before. `add_messages`
    writes the sentences of a record's facts. `make_folder` makes the folder of the reports; `write` fills it and
    returns the paths of the files.
    """

    explain: DiagnoseCase
    add_messages: Callable[[RunRecord], RunRecord]
    make_folder: Callable[[Path], None]
    write: Callable[[RunRecord, Path, Literal["gitlab", "strict"]], list[Path]]
    add_context: Callable[[RunRecord, Sequence[Case], Path, ChangedLines], RunRecord] = lambda record, *_: record


# Shows progress: takes the results as they come and their number, and passes the results through.
Progress = Callable[[Iterable[CaseResult], int], Iterator[CaseResult]]

# Prints the summary of a record; gets the paths of its reports, too.
Summarize = Callable[[RunRecord, list[Path]], None]
