"""What does a worker do for a diagnosis?

One worker runs the present version: it finds the result to explain, and rewrites the subject and its oracle. Another
one runs the accepted version, and rewrites it. So a subject that crashes ends no command.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct, msgpack, structs

from precreg.diagnose.bases import (
    CaseRun,
    case_call,
    gives_target,
    hypotheses_of,
    oracle_base,
    oracle_outputs,
    prepare_base,
    run_case_at,
    subject_base,
)
from precreg.diagnose.changed_lines import ChangedLines
from precreg.diagnose.engine import ArrayRewriting
from precreg.diagnose.evidence import error_to_explain, measure_evidence
from precreg.diagnose.executed import note_functions
from precreg.diagnose.places import described_key
from precreg.diagnose.repeats import first_difference
from precreg.diagnose.search import Base, CauseSearch, SearchResult
from precreg.errors import UserError
from precreg.measure import share_of_tolerance
from precreg.measure.fingerprints import find_fingerprints
from precreg.run import Arrays, array_digests, combine_digests, run_subject_once
from precreg.shadow import Detail, Recorder, TraceSettings, is_formula_dominant, trace_case
from precreg.storage import read_npz, write_npz
from precreg.subject import Call, CaseFailed, TreePair, blame_failures, redirect_imports
from precreg.tolerance import resolve_tolerance
from precreg.types import Case, Cause, DiagnosisBase, ErrorKind, Failure, Fingerprint, Reason, TriedBase

# Seconds in which a worker can start, and say that its time is up.
_ANSWER_SECONDS = 0.2
ACTUAL_FILE = "actual.npz"
# The results of the accepted version, which rewrites of the subject should restore.
ACCEPTED_FILE = "accepted.npz"


class BaseResult(Struct, frozen=True):
    """The search of one base: its causes and its tried rewrites."""

    tried: TriedBase
    found: SearchResult = SearchResult()
    # The base gives the bits of the result to explain without any rewrite.
    is_same: bool = False


class SearchAnswer(Struct, frozen=True):
    """The answer of a worker about one case."""

    case: str
    bases: tuple[BaseResult, ...] = ()
    error_kind: ErrorKind = "unknown"
    repeats: bool = True
    # A digest of all outputs of the first run in this worker's process.
    digest: str = ""
    # The operation at which a second run in the same process differs, with the name of the reason.
    difference: Cause | None = None
    # All outputs are within the case's tolerance, or equal the golden's.
    is_accurate: bool = False
    # The shapes of the errors against the oracle.
    fingerprints: tuple[Fingerprint, ...] = ()
    # The watched functions that ran, as "file.py:function".
    executed: tuple[str, ...] = ()
    problem: str = ""


class DiagnosisTask(NamedTuple):
    """Measure and search one seed of a case. With `trees` the project is the checkout of the accepted version.

    `folder` holds the result to explain, for all workers. `bases` names the bases to search; without
    any the worker only measures.
    """

    project: Path
    seed: int
    chain: tuple[str, ...]
    seconds: float
    folder: Path
    bases: tuple[DiagnosisBase, ...] = ()
    trees: TreePair | None = None
    # Names of rewrites that the shape of the error suggests.
    suggested: frozenset[str] = frozenset()
    # Trace the case alone, in a worker that may be killed: a trace takes hundreds of times as long as the case.
    traces: bool = False
    # The time by the monotonic clock at which every worker is killed.
    deadline: float = inf

    def prepare(self) -> None:
        """Lead imports to the other version, if this is its worker."""
        if self.trees is not None:
            redirect_imports(self.trees)

    def run(self, case: Case, printed: Callable[[], str]) -> SearchAnswer:
        """Return the worker's result for a case."""
        try:
            with np.errstate(all="ignore"):
                if self.traces:
                    return SearchAnswer(case.id, error_kind=self._error_kind(case))
                return self._measure(case) if not self.bases else self._search(case)
        except CaseFailed as failed:
            return SearchAnswer(case.id, problem=failed.failure.message)
        except UserError as error:
            return SearchAnswer(case.id, problem=error.message)

    def _measure(self, case: Case) -> SearchAnswer:
        run = run_case_at(case, self.project, self.seed)
        with open(self.folder / ACTUAL_FILE, "wb") as stream:
            write_npz(stream, run.actual)
        return SearchAnswer(
            case.id,
            repeats=run.repeats,
            digest=combine_digests(array_digests(run.actual)),
            difference=None if run.repeats else _difference(run),
            is_accurate=_is_accurate(run, self.chain),
            fingerprints=error_shapes(run.actual, run.oracle),
        )

    def _error_kind(self, case: Case) -> ErrorKind:
        """Return whether rounding or the formula explains more of the errors, if the case can be traced."""
        recorder = Recorder(Detail.TOTALS)
        try:
            settings = TraceSettings(None, False, self.chain)
            trace = trace_case(case, self.project, self.seed, recorder, settings)
        except UserError:
            return "unknown"
        known = [each for each in trace.outputs if each.formula is not None and each.rounding is not None]
        if not known:
            return "unknown"
        return "formula" if any(is_formula_dominant(each, case.role) for each in known) else "rounding"

    def _search(self, case: Case) -> SearchAnswer:
        actual = read_npz(self.folder / ACTUAL_FILE, ACTUAL_FILE)
        call = case_call(case, self.project, self.seed)
        found: list[BaseResult] = []
        deadline = monotonic() + self.seconds
        for place, name in enumerate(self.bases):
            # The time that is left goes to the bases that are left, in equal parts.
            part = (deadline - monotonic()) / (len(self.bases) - place)
            base = oracle_base(case, call) if name in ("golden", "reference") else subject_base(name, case, call)
            if base is None:
                found.append(BaseResult(TriedBase(name, problem="recorded")))
                continue
            if self.trees is not None:
                base = self._accepted(base, self.trees)
            target, is_exact = self._target(case, call, name, actual)
            prepared = PreparedSearch(base, target, is_exact, self.suggested)
            found.append(search_base(prepared, monotonic() + part))
        return SearchAnswer(case.id, tuple(found))

    def _accepted(self, base: Base, trees: TreePair) -> Base:
        """Store the results of the accepted version, and let its places know the lines that changed since."""
        # An engine may refuse a plain run, and an empty file would be no result.
        with suppress(Exception):
            outputs = base.compute()
            with open(self.folder / ACCEPTED_FILE, "wb") as stream:
                write_npz(stream, outputs)
        root = trees.own / self.project.relative_to(trees.other)
        return base._replace(changes=ChangedLines(trees.other, trees.own), present_root=root)

    def _target(self, case: Case, call: Call, name: DiagnosisBase, actual: Arrays) -> tuple[Arrays, bool]:
        """Return the result that rewrites of a base should give, and whether it or the base is nearly exact.

        That is the subject's, or for a subject that is rewritten itself the accepted version's or the oracle's.
        """
        if name != "subject":
            return actual, name == "reference"
        if (self.folder / ACCEPTED_FILE).exists():
            accepted = read_npz(self.folder / ACCEPTED_FILE, ACCEPTED_FILE)
            if error_to_explain(accepted, actual).differing:
                return accepted, False
        oracle = oracle_outputs(case, call, self.seed)
        return error_to_explain(actual, oracle).base, case.role != "golden"

    def decoder(self) -> msgpack.Decoder[SearchAnswer]:
        """Return the decoder of answers."""
        return msgpack.Decoder(SearchAnswer)

    def item_key(self, case: Case) -> str:
        """Return the id of a case."""
        return case.id

    def answer_key(self, answer: SearchAnswer) -> str:
        """Return the id of an answer's case."""
        return answer.case

    def timeout_s(self, case: Case) -> float:
        """Return the time of the search and of the runs before it, or of the trace."""
        longest = self.seconds if self.traces else self.seconds + 10 * case.timeout_s
        return max(_ANSWER_SECONDS, min(longest, self.deadline - monotonic()))

    def give_up(self, case: Case, failure: Failure) -> SearchAnswer:
        """Return the answer of a worker that died."""
        return SearchAnswer(case.id, problem=failure.message)


class OutputsTask(NamedTuple):
    """Run the subject of a case once in a checkout, and store its outputs in a file.

    The answer names the functions of the `watched` files that ran.
    """

    project: Path
    seed: int
    file: Path
    trees: TreePair
    watched: tuple[str, ...] = ()
    # A run that takes longer gives no outputs.
    seconds: float = inf

    def prepare(self) -> None:
        """Lead imports to the checkout."""
        redirect_imports(self.trees)

    def run(self, case: Case, printed: Callable[[], str]) -> SearchAnswer:
        """Store the outputs, or return the reason why there are none."""
        try:
            with np.errstate(all="ignore"), blame_failures(Reason.SUBJECT_ERROR):
                call = case_call(case, self.project, self.seed)
                with note_functions(self.trees.other, self.watched) as executed:
                    outputs = run_subject_once(case, call).arrays
            with open(self.file, "wb") as stream:
                write_npz(stream, outputs)
        except CaseFailed as failed:
            return SearchAnswer(case.id, problem=failed.failure.message)
        except UserError as error:
            return SearchAnswer(case.id, problem=error.message)
        return SearchAnswer(case.id, executed=tuple(sorted(executed)))

    def decoder(self) -> msgpack.Decoder[SearchAnswer]:
        """Return the decoder of answers."""
        return msgpack.Decoder(SearchAnswer)

    def item_key(self, case: Case) -> str:
        """Return the id of a case."""
        return case.id

    def answer_key(self, answer: SearchAnswer) -> str:
        """Return the id of an answer's case."""
        return answer.case

    def timeout_s(self, case: Case) -> float:
        """Return the timeout of a case, or the time that is left."""
        return min(case.timeout_s, self.seconds)

    def give_up(self, case: Case, failure: Failure) -> SearchAnswer:
        """Return the answer of a worker that died."""
        return SearchAnswer(case.id, problem=failure.message)


class PreparedSearch(NamedTuple):
    """Hold a base, the result that its rewrites should give, and the names of rewrites to try first.

    `is_exact` is true if one of both results is nearly exact.
    """

    base: Base
    target: Arrays
    is_exact: bool
    suggested: frozenset[str]


def search_base(search: PreparedSearch, deadline: float) -> BaseResult:
    """Search the rewrites of one base that give a result. A base that fails says so."""
    name = search.base.name
    try:
        prepared = prepare_base(search.base, search.target, is_exact=search.is_exact)
    # User code may raise any exception, such as a reference that refuses numbers of float32.
    except Exception as error:
        return BaseResult(TriedBase(name, problem=f"{type(error).__name__}: {error}"))
    if not prepared.error.target:
        return BaseResult(TriedBase(name, problem="no output of the same name and shape"))
    if gives_target(prepared, search.target):
        return BaseResult(TriedBase(name, places=len(prepared.places)), is_same=True)
    if prepared.error.is_ordinary:
        return BaseResult(TriedBase(name, places=len(prepared.places), problem="ordinary rounding"))
    hypotheses = hypotheses_of(prepared, search.suggested)
    found = CauseSearch(prepared.base, prepared.error, prepared.places, hypotheses, deadline).run()
    tried = TriedBase(name, places=len(prepared.places), tried=found.tried, hypotheses=found.hypotheses)
    return BaseResult(tried, found)


def _is_accurate(run: CaseRun, chain: tuple[str, ...]) -> bool:
    """Return whether every output equals the golden's, or meets the case's tolerance."""
    paired = error_to_explain(run.actual, run.oracle)
    if set(paired.target) != set(run.oracle) or set(run.actual) != set(run.oracle):
        return False
    if run.case.role == "golden":
        return paired.differing == 0
    return all(_meets(run, name, chain) for name in run.actual)


def error_shapes(actual: Arrays, right: Arrays) -> tuple[Fingerprint, ...]:
    """Return the shapes of the errors of all outputs, the surest first; outputs that are no numbers have none."""
    found: list[Fingerprint] = []
    for name in actual.keys() & right.keys():
        with suppress(UserError):
            found += find_fingerprints(name, actual[name], right[name])
    return tuple(sorted(found, key=lambda each: (-each.certainty, each.output)))


def _meets(run: CaseRun, name: str, chain: Sequence[str]) -> bool:
    actual, exact = run.actual[name], run.oracle[name]
    tolerance = resolve_tolerance(run.case.layers, name, str(actual.dtype), tuple(chain))
    share: Any = share_of_tolerance(actual, exact, tolerance.rtol.limit, tolerance.atol.limit)
    return bool(share <= 1)


def _difference(run: CaseRun) -> Cause | None:
    """Return the operation at which a second run departs from the first one, if numpy computes it."""
    base = subject_base("subject", run.case, run.call)
    engine = base.engine
    found = None
    if isinstance(engine, ArrayRewriting):
        with suppress(Exception):
            found = first_difference(engine.compute, base.inputs, base.params, engine.arithmetic)
    if found is None:
        return None
    options: dict[str, float | str] = {} if found.operand is None else {"operand": found.operand}
    evidence = measure_evidence(error_to_explain(run.actual, run.again), run.actual)
    return Cause("differs_between_runs", options, described_key(found.key, base.root), "subject", evidence)


def with_commit(result: BaseResult, commit: str) -> BaseResult:
    """Return the result of the accepted version with its commit."""
    return structs.replace(result, tried=structs.replace(result.tried, commit=commit))
