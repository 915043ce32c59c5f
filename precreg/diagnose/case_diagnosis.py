"""Why does one case fail? The steps of a diagnosis, and which cause it names."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from msgspec.structs import replace

from precreg.diagnose.rewrites import suggested_rewrites
from precreg.diagnose.search import SearchResult, explains_most
from precreg.diagnose.tasks import (
    ACCEPTED_FILE,
    ACTUAL_FILE,
    BaseResult,
    DiagnosisTask,
    SearchAnswer,
    error_shapes,
    with_commit,
)
from precreg.diagnose.undone import undo_changes
from precreg.diagnose.unit_explanation import explain_by_units
from precreg.errors import UserError
from precreg.run import checked_out_version, prepare_cases, run_in_workers
from precreg.storage import read_npz
from precreg.types import (
    Case,
    Cause,
    Diagnosis,
    DiagnosisBase,
    DiagnosisStatus,
    ErrorKind,
    Fingerprint,
    TriedBase,
    UnitExplanation,
)
from precreg.vcs import git_state, unset_hook_variables

# Rewrites of the accepted version get this part of the time: equal bits are the strongest evidence.
_ACCEPTED_SHARE = 0.5
# Statements of the change are undone in this part of the time, each in a process of its own.
_UNDO_SHARE = 0.3
# Unit cases that explain a larger case are searched in this part of the time.
_UNITS_SHARE = 0.7
# The case is traced in at most this part of the time that is left.
_TRACE_SHARE = 0.15
_MIN_SECONDS = 1.0
# A larger case keeps its explanation if the search for rewrites takes so many times its seconds.
_KILL_AFTER = 1.15
# This order decides between equally good causes: the accepted version is most like the subject, and a place in the
# subject itself is where its author looks.
_ORDER: tuple[DiagnosisBase, ...] = ("accepted", "subject", "golden", "reference")


def diagnose_case(
    case: Case,
    project: Path,
    *,
    seed: int,
    chain: tuple[str, ...],
    seconds: float,
    accepted: str | None,
    units: Sequence[Case] = (),
) -> Diagnosis:
    """Return the causes of a case's errors at one seed, found within about `seconds`.

    `accepted` is the commit of the accepted version, if one is known. `units` are unit cases that may explain a larger
    case, the first choice first. A failure of the case is a status and no exception. Raises UserError (no-workers), and
    the errors of building the case's programs.
    """
    began = monotonic()
    prepare_cases([case], project)
    state = git_state(project)
    with TemporaryDirectory(prefix="precreg-diagnosis-") as folder:
        task = DiagnosisTask(project, seed, chain, seconds, Path(folder))
        (measured,) = run_in_workers([case], task, 1)
        found = Diagnosis(
            case=case.id,
            seed=seed,
            commit="" if state is None else state.commit,
            status="unknown",
            fingerprints=measured.fingerprints,
        )
        if measured.problem:
            return replace(found, status="failed", problem=measured.problem, seconds=monotonic() - began)
        if not measured.repeats:
            return replace(_not_repeating(found, case, task, measured), seconds=monotonic() - began)
        explained_by = _explained(case, task, accepted, units)
        found = replace(found, explained_by=explained_by, error_kind=_error_kind(case, task, began))
        left = max(_MIN_SECONDS, seconds - (monotonic() - began))
        # A run kills a diagnosis that takes a third longer, with the explanations that it has.
        deadline = began + _KILL_AFTER * seconds if units else inf
        suggested = suggested_rewrites(measured.fingerprints)
        task = task._replace(suggested=suggested, seconds=left, deadline=deadline)
        results = _search_bases(case, task, accepted, measured)
        measured = replace(measured, fingerprints=_shapes(task, measured))
    concluded = _concluded(found, measured, results)
    is_late = monotonic() >= deadline
    return replace(concluded, seconds=monotonic() - began, out_of_time=concluded.out_of_time or is_late)


def _explained(
    case: Case, task: DiagnosisTask, accepted: str | None, units: Sequence[Case]
) -> tuple[UnitExplanation, ...]:
    """Return the unit cases that explain a larger case. They come before rewrites, which a large case has many of."""
    if accepted is None or not units:
        return ()
    try:
        seconds = _UNITS_SHARE * task.seconds
        return explain_by_units(case, units, task.project, seed=task.seed, accepted=accepted, seconds=seconds)
    except UserError as problem:
        if problem.slug not in ("no-checkout", "no-git"):
            raise
        return ()


def _shapes(task: DiagnosisTask, measured: SearchAnswer) -> tuple[Fingerprint, ...]:
    """Return the shapes of the errors or, within the tolerance, of the change since the accepted version."""
    if not measured.is_accurate or not (task.folder / ACCEPTED_FILE).exists():
        return measured.fingerprints
    return error_shapes(*(read_npz(task.folder / name, name) for name in (ACTUAL_FILE, ACCEPTED_FILE)))


def _error_kind(case: Case, task: DiagnosisTask, began: float) -> ErrorKind:
    """Return whether rounding or the formula explains more of the errors; unknown if a trace takes too long."""
    left = task.seconds - (monotonic() - began)
    (answer,) = run_in_workers([case], task._replace(traces=True, seconds=_TRACE_SHARE * left), 1)
    return answer.error_kind


def _not_repeating(found: Diagnosis, case: Case, task: DiagnosisTask, measured: SearchAnswer) -> Diagnosis:
    """Return the diagnosis of a case whose second run differs from the first one.

    If the first run of another process has the bits of the first one, the process keeps something between two calls.
    """
    (fresh,) = run_in_workers([case], task, 1)
    cause = measured.difference
    if cause is not None and fresh.digest == measured.digest:
        cause = replace(cause, rewrite="left_by_earlier_call")
    return replace(found, status="nondeterministic", causes=() if cause is None else (cause,))


def _search_bases(case: Case, task: DiagnosisTask, accepted: str | None, measured: SearchAnswer) -> list[BaseResult]:
    """CauseSearch the accepted version first, and then the bases of the present version unless the cause is known."""
    began = monotonic()
    results = []
    if accepted is not None:
        results = [_search_accepted(case, task, accepted)]
        if results[0].is_same and measured.is_accurate:
            return results
    if any(_is_settled(each) for each in results):
        return results
    if accepted is not None and not results[0].is_same and not results[0].tried.problem:
        undone = _undo(case, task, accepted)
        results += undone
        if undone and undone[0].found.causes:
            return results
    oracle: DiagnosisBase = "golden" if case.role == "golden" else "reference"
    bases: tuple[DiagnosisBase, ...] = (oracle, "subject")
    if accepted is None and measured.is_accurate and case.role == "golden":
        return results
    if monotonic() + _MIN_SECONDS > task.deadline:
        return results
    left = max(1.0, task.seconds - (monotonic() - began))
    (answer,) = run_in_workers([case], task._replace(bases=bases, seconds=left), 1)
    if answer.problem:
        return [*results, BaseResult(TriedBase(oracle, problem=answer.problem))]
    return [*results, *answer.bases]


def _search_accepted(case: Case, task: DiagnosisTask, commit: str) -> BaseResult:
    """CauseSearch the rewrites of the accepted version, in a worker on its checkout."""
    unset_hook_variables()
    share = _ACCEPTED_SHARE * task.seconds
    try:
        with checked_out_version(task.project, commit, commit) as version:
            there = task._replace(project=version.project, trees=version.trees, bases=("accepted",), seconds=share)
            (answer,) = run_in_workers([case], there, 1)
    except UserError as problem:
        if problem.slug not in ("no-checkout", "no-git"):
            raise
        return BaseResult(TriedBase("accepted", commit, problem=problem.message))
    if answer.problem or not answer.bases:
        return BaseResult(TriedBase("accepted", commit, problem=answer.problem))
    return with_commit(answer.bases[0], commit)


def _undo(case: Case, task: DiagnosisTask, accepted: str) -> list[BaseResult]:
    """Undo the changed statements one by one; return the result of the subject that is rewritten so."""
    try:
        found = undo_changes(case, task, accepted, _UNDO_SHARE * task.seconds)
    except UserError as problem:
        if problem.slug not in ("no-checkout", "no-git"):
            raise
        return []
    if not found.causes:
        return []
    tried = TriedBase("subject", places=len(found.causes), tried=found.runs, hypotheses=found.runs)
    return [BaseResult(tried, SearchResult(causes=found.causes, tried=found.runs, hypotheses=found.runs))]


def _is_settled(result: BaseResult) -> bool:
    causes = result.found.causes
    return bool(causes) and causes[-1].evidence.reproduced == causes[-1].evidence.elements


def _concluded(found: Diagnosis, measured: SearchAnswer, results: Sequence[BaseResult]) -> Diagnosis:
    """Return the diagnosis with the best cause of all bases, and its status."""
    bases = tuple(each.tried for each in results)
    out_of_time = any(each.found.out_of_time for each in results)
    found = replace(found, bases=bases, out_of_time=out_of_time)
    if measured.is_accurate and all(each.is_same for each in results):
        return replace(found, status="passed", fingerprints=())
    found = replace(found, fingerprints=measured.fingerprints)
    with_causes = [each for each in results if each.found.causes]
    if not with_causes:
        return found
    best = min(with_causes, key=lambda each: _quality(each.found.causes))
    others = [each for result in with_causes if result is not best for each in result.found.causes[:1]]
    runners_up = sorted((*best.found.runners_up, *others), key=lambda each: each.evidence.remaining)
    status = _status(best.found.causes)
    return replace(
        found,
        status=status,
        # More time would find nothing better than a cause that explains all bits.
        out_of_time=out_of_time and not _is_settled(best),
        causes=best.found.causes,
        runners_up=tuple(runners_up[:5]),
        cleared=best.found.cleared,
    )


def _quality(causes: tuple[Cause, ...]) -> tuple[bool, float, int]:
    evidence = causes[-1].evidence
    is_partial = evidence.reproduced < evidence.elements
    return is_partial, round(evidence.remaining, 2), _ORDER.index(causes[0].base)


def _status(causes: tuple[Cause, ...]) -> DiagnosisStatus:
    if not explains_most(causes[-1]):
        return "partial"
    return "found" if len(causes) == 1 else "several"
