"""How is a case traced by another version of the code, in a process of its own?"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, msgpack
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.run import checked_out_version, draw_inputs, run_in_workers, suite_folder
from precreg.shadow.alignment import SketchedTrace, SketchListener
from precreg.shadow.case_trace import TraceSettings, trace_case
from precreg.shadow.formula import known_values
from precreg.shadow.recorder import Recorder
from precreg.shadow.versions import compare_versions
from precreg.subject import TreePair, redirect_imports
from precreg.types import Case, Failure, Trace, VersionDifference
from precreg.vcs import named_commit, unset_hook_variables


class _Answer(Struct, frozen=True):
    """The trace of a case with the sketches of its exact values, or the reason for its absence."""

    case: str
    trace: Trace | None = None
    sketched: SketchedTrace | None = None
    problem: str = ""


class _TraceTask(NamedTuple):
    """Trace one seed of a case in the checkout of another version, as the task of a worker."""

    project: Path
    trees: TreePair
    seed: int
    settings: TraceSettings

    def prepare(self) -> None:
        """Lead imports to the other version."""
        redirect_imports(self.trees)

    def run(self, case: Case, printed: Callable[[], str]) -> _Answer:
        """Return the trace of a case."""
        listener = SketchListener()
        try:
            trace = trace_case(case, self.project, self.seed, Recorder(listeners=[listener]), self.settings)
        except UserError as error:
            return _Answer(case.id, problem=error.message)
        return _Answer(case.id, trace, listener.trace_of(trace.operations))

    def decoder(self) -> msgpack.Decoder[_Answer]:
        """Return the decoder of answers."""
        return msgpack.Decoder(_Answer)

    def item_key(self, case: Case) -> str:
        """Return the id of a case."""
        return case.id

    def answer_key(self, answer: _Answer) -> str:
        """Return the id of an answer's case."""
        return answer.case

    def timeout_s(self, case: Case) -> float:
        """Return infinity: a user waits for one trace, and can interrupt it."""
        return inf

    def give_up(self, case: Case, failure: Failure) -> _Answer:
        """Return the answer of a worker that died."""
        return _Answer(case.id, problem=failure.message)


def trace_against(
    case: Case,
    project: Path,
    trace: Trace,
    own: SketchedTrace,
    revision: str,
    settings: TraceSettings,
    commit: str | None = None,
) -> Trace:
    """Return the trace of a case with its difference from another version, which runs in a worker process.

    `own` are the trace's operations with sketches, as a SketchListener collects them. `commit` is that of the revision;
    None looks it up. Raises UserError: unknown-revision and the other errors of `named_commit`; no-checkout;
    trace-failed, if the other version fails.
    """
    unset_hook_variables()
    commit = commit or named_commit(project, revision).commit
    # Nothing compares the shares of two versions.
    own_settings = settings._replace(dtype=trace.dtype, shares=False, dumps=None)
    with checked_out_version(project, revision, commit) as version:
        task = _TraceTask(version.project, version.trees, trace.seed, own_settings)
        (answer,) = run_in_workers([case], task, 1)
    if answer.trace is None or answer.sketched is None:
        raise UserError("trace-failed", f"expected a trace at {revision} ({commit[:8]}) but {answer.problem}")
    found = VersionDifference(revision=revision, commit=commit, outputs=answer.trace.outputs)
    inputs = draw_inputs(case, trace.seed, suite_folder(project, case.directory), project)
    return replace(trace, against=compare_versions(trace, own, answer.sketched, known_values(inputs), found))
