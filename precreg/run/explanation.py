"""Which failed cases of a run are diagnosed, in which order, and in which time?

The worst case of each suite and reason comes first, then the others, the largest loss first. A case may take half of
the time that is left, so that one without a cause in reach leaves time for the others. The last cases may take all of
it. The function that diagnoses is of a room above this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil, inf
from pathlib import Path
from time import monotonic
from typing import NamedTuple, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.run.case_run import suite_folder
from precreg.run.pairs import Announce, DiagnosisAnnouncement, find_accepted_commit
from precreg.run.pipeline import IN_PROCESS
from precreg.run.workers import Deadline, RunPlace
from precreg.subject import declared_dependencies, opaque_form, parts_command
from precreg.types import (
    Baseline,
    Case,
    CaseResult,
    Diagnosis,
    Failure,
    OpaqueSubject,
    Reason,
    RunDiagnoses,
    Status,
    is_test_defined,
)
from precreg.vcs import run_git
from precreg.verdict import largest_loss

# The default of `precreg run --diagnose`. A test compares the text of the option with it.
DIAGNOSE_SECONDS = 30.0

# Failures of these reasons have a result whose errors a cause could explain. The others lack a result or a baseline, or
# took too long.
_EXPLAINABLE = frozenset(
    {Reason.REGRESSED, Reason.OUT_OF_TOLERANCE, Reason.NON_FINITE_MISMATCH, Reason.NONDETERMINISTIC}
)

# Cases with these verdicts may have other bits than their baseline.
_MAY_HAVE_CHANGED = frozenset(
    {Reason.WITHIN_TOLERANCE, Reason.NOT_CLEAR, Reason.IMPROVED, Reason.KNOWN_BAD, Reason.EXPECTED_FAILURE}
)

# The part of the time left that a case may take while others wait.
_SHARE = 0.5
# The part of a run's time for all subjects whose operations precreg cannot see. Rewrites of their inputs, outputs and
# references rarely explain them: none of some 3,000 rewrites explained four losses of a kernel in C.
_OPAQUE_SHARE = 1 / 3
# The worst failures of programs get the commit that was accepted: each costs some calls of git.
_MAX_COMMITS = 50
# The part of a case's time in which causes are searched. The case runs before that, and a case whose time is up is
# killed with all that was found.
_SEARCH_SHARE = 0.75
# Seconds in which a worker answers that the time was up before it began the case.
_ANSWER_SECONDS = 1.0
# No diagnosis takes less: each starts several processes. On a cluster only the cases that this allows are prepared.
_FEWEST_SECONDS = 1.0
# Characters of an exception in a record.
_MAX_PROBLEM = 500


class DiagnoseCase(Protocol):
    """The function that diagnoses one case; a failure of the case is a result of it and no exception.

    It runs the case in a worker of its own, and searches for about so many seconds. `accepted` is the commit of the
    accepted version; None if there is none. `units` are the unit cases that may explain a larger case.
    """

    def __call__(
        self,
        case: Case,
        project: Path,
        *,
        seed: int,
        chain: tuple[str, ...],
        seconds: float,
        accepted: str | None,
        units: Sequence[Case],
    ) -> Diagnosis:
        """Return the causes of the errors of a case at a seed."""


class DiagnosisPlan(NamedTuple):
    """The place and the means of the diagnoses of a run: the most `seconds`, and the workers.

    `base` is the commit that a merge request or a push compares with; None if there is none.
    """

    project: Path
    chain: tuple[str, ...]
    seconds: float
    place: RunPlace
    base: str | None


class FailedCase(NamedTuple):
    """A case to diagnose at a seed. Its accepted version is the commit that judged it, or the baseline's commit.

    Another `environment` than the one with this fingerprint may give the case other bits; empty for the workers' own.
    """

    case: Case
    seed: int
    judged_by: str
    baseline: Baseline | None
    # No other case waits for the time that it leaves.
    is_last: bool = False
    # Unit cases of the run that may explain a larger case, the largest loss first.
    units: tuple[Case, ...] = ()
    most_seconds: float = inf
    environment: str = ""
    # The end of the time for all cases of the run.
    deadline: Deadline = Deadline(inf)


class DiagnosedCase(Struct, frozen=True):
    """The diagnosis of a case; None if the time was up before it began.

    `lacks_accepted` says that the repository of the worker has no accepted version, so that nothing compared it.
    """

    case: str
    diagnosis: Diagnosis | None
    lacks_accepted: bool = False


# The results of a run with the diagnoses of failed cases, and the counts of these; None without such cases.
Explained = tuple[tuple[CaseResult, ...], RunDiagnoses | None]


def is_explainable(result: CaseResult) -> bool:
    """Return whether a case of a suite failed with errors that a cause could explain."""
    verdict = result.verdict
    return verdict.status is Status.FAILED and verdict.reason in _EXPLAINABLE and not is_test_defined(result.definition)


def count_diagnoses(results: Sequence[CaseResult]) -> tuple[int, int]:
    """Count the cases that were diagnosed, and those that failed and were not; without those that need no search."""
    failed = [result for result in results if is_explainable(result) and not _has_figures(result)]
    reached = sum(result.diagnosis is not None for result in failed)
    return reached, len(failed) - reached


def _has_figures(result: CaseResult) -> bool:
    return result.opaque is not UNSET and result.opaque.form == "figures"


def explain_failures(
    cases: Sequence[Case],
    results: Sequence[CaseResult],
    plan: DiagnosisPlan,
    explain: DiagnoseCase,
    announce: Announce | None,
) -> Explained:
    """Diagnose the failed cases of a run, the largest loss first, until the time is up.

    Figures of whole procedures get the command that measures their parts, and cost no time. Nothing is lost: a failure
    of the diagnoses themselves is in the counts, and the results stay.
    """
    results = _with_opaque_subjects(cases, results, plan)
    if plan.seconds > 0:
        results = _with_skipped(cases, results)
    failed = _failed_cases(cases, results, plan) if plan.seconds > 0 else []
    if not failed:
        return tuple(results), None
    if announce is not None:
        announce(DiagnosisAnnouncement(len(failed), plan.seconds))
    began, found, problem, without = monotonic(), dict[str, Diagnosis](), "", 0
    try:
        for answer in _run(failed, plan, explain):
            if answer.diagnosis is not None:
                found[answer.case] = answer.diagnosis
                without += answer.lacks_accepted
    except UserError as error:
        # The run has its results, and no cause is worth losing them.
        problem = error.message
    explained = _with_diagnoses(results, found)
    used = round(monotonic() - began, 3)
    return explained, RunDiagnoses(plan.seconds, used, *count_diagnoses(explained), problem, without)


def skipped_diagnosis(case: Case, seed: int) -> Diagnosis | None:
    """Return the diagnosis of a case without a search, if its outputs are figures of a whole run.

    No rewrite of one operation explains them, and each hypothesis would cost a training. Its `opaque` is unset.
    """
    has_figures = opaque_form(case.subject) == "figures"
    return Diagnosis(case=case.id, seed=seed, status="unknown") if has_figures else None


def _with_skipped(cases: Sequence[Case], results: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
    """Add the diagnoses that need no search."""
    items = [_failed_case(case, result) for case, result in _diagnosis_order(cases, results)]
    found = {item.case.id: skipped_diagnosis(item.case, item.seed) for item in items}
    return _with_diagnoses(results, {id: each for id, each in found.items() if each is not None})


def _with_diagnoses(results: Sequence[CaseResult], found: Mapping[str, Diagnosis]) -> tuple[CaseResult, ...]:
    return tuple(
        replace(each, diagnosis=with_opaque_subject(found[each.id], each.opaque)) if each.id in found else each
        for each in results
    )


def with_opaque_subject(found: Diagnosis, opaque: OpaqueSubject | UnsetType) -> Diagnosis:
    """Return a diagnosis with the subject whose operations precreg cannot see.

    A cause that explains a part of a program's errors becomes a runner-up.
    """
    # Each case of a kernel in C that sums in float32 had another such cause, all of them wrong: reversed inputs removed
    # 6.9 % of the errors.
    if opaque is not UNSET and opaque.form == "program" and found.status == "partial":
        found = replace(found, status="unknown", causes=(), runners_up=(*found.causes, *found.runners_up))
    return replace(found, opaque=opaque)


def _with_opaque_subjects(
    cases: Sequence[Case], results: Sequence[CaseResult], plan: DiagnosisPlan
) -> tuple[CaseResult, ...]:
    """Add the subjects without visible operations to the failures, with the commits that accepted the worst ones."""
    found: dict[str, OpaqueSubject] = {}
    for case, result in _diagnosis_order(cases, results):
        item = _failed_case(case, result)

        def find_commit(item: FailedCase = item) -> str | None:
            return _accepted_commit(item, plan.project, plan.base) if len(found) < _MAX_COMMITS else None

        subject = opaque_subject(case, plan.project, find_commit)
        if subject is not UNSET:
            found[case.id] = subject
    return tuple(replace(each, opaque=found[each.id]) if each.id in found else each for each in results)


def opaque_subject(case: Case, project: Path, find_accepted: Callable[[], str | None]) -> OpaqueSubject | UnsetType:
    """Return the subject of a case if precreg cannot see its operations, with the commit of its accepted version."""
    form = opaque_form(case.subject)
    if form is None:
        return UNSET
    if form == "figures":
        # The accepted version of a figure says little: the command measures the parts of the present one.
        return OpaqueSubject(form, arguments=parts_command(case.subject, case.directory))
    has_sources = form == "program" and _has_sources(case, project)
    return OpaqueSubject(form, (find_accepted() if has_sources else None) or "")


def _has_sources(case: Case, project: Path) -> bool:
    """Return whether the project has a file that a program is made of."""
    declared = declared_dependencies(case.subject.kind, case.subject.spec, suite_folder(project, case.directory))
    return declared is None or bool(declared.files)


def _diagnosis_order(cases: Sequence[Case], results: Sequence[CaseResult]) -> list[tuple[Case, CaseResult]]:
    by_id: Mapping[str, Case] = {case.id: case for case in cases}
    failed = _worst_first(result for result in results if result.id in by_id)
    # Cases of one suite that fail for one reason mostly have one cause, so the worst of each stand in for the others.
    leaders = {(one.tier, one.suite, one.verdict.reason): one.id for one in reversed(failed)}
    failed.sort(key=lambda result: leaders[(result.tier, result.suite, result.verdict.reason)] != result.id)
    return [(by_id[result.id], result) for result in failed]


def _failed_cases(cases: Sequence[Case], results: Sequence[CaseResult], plan: DiagnosisPlan) -> list[FailedCase]:
    """Return the cases to diagnose, in their order."""
    by_id: Mapping[str, Case] = {case.id: case for case in cases}
    failed = [(case, result) for case, result in _diagnosis_order(cases, results) if not _has_figures(result)]
    last, deadline = len(failed) - max(1, plan.place.jobs), Deadline(plan.seconds)
    units = tuple(by_id[result.id] for result in _changed_units(results) if result.id in by_id)
    opaque = sum(result.opaque is not UNSET for _, result in failed)
    return [
        _failed_case(case, result)._replace(
            is_last=place >= last,
            units=() if result.tier == "unit" else units,
            most_seconds=inf if result.opaque is UNSET else _OPAQUE_SHARE * plan.seconds / opaque,
            environment=plan.place.fingerprint_of(result.outcome),
            deadline=deadline,
        )
        for place, (case, result) in enumerate(failed)
    ]


def _accepted_commit(item: FailedCase, project: Path, base: str | None) -> str | None:
    """Return the commit of the accepted version; None if git does not know it."""
    if item.judged_by:
        return item.judged_by
    if item.baseline is None:
        return None
    try:
        found = find_accepted_commit(project, item.case.baseline_id, item.baseline, base)
    except UserError:
        return None
    return found if isinstance(found, str) else None


def _worst_first(results: Iterable[CaseResult]) -> list[CaseResult]:
    """Return the failures that a cause could explain, the largest loss first."""
    failed = filter(is_explainable, results)
    return sorted(failed, key=lambda result: (-largest_loss(result.verdict), result.id))


def _changed_units(results: Sequence[CaseResult]) -> list[CaseResult]:
    """Return the unit cases whose results may have changed: those that failed, the largest loss first, and others."""
    units = [each for each in results if each.tier == "unit" and not is_test_defined(each.definition)]
    failed = _worst_first(units)
    passed = [each for each in units if each.verdict.reason in _MAY_HAVE_CHANGED]
    return [*failed, *sorted(passed, key=lambda result: result.id)]


def _failed_case(case: Case, result: CaseResult) -> FailedCase:
    own = [comparison.seed for comparison in result.outcome.comparisons]
    # Findings are sorted worst first. Those on averages, and on fresh inputs, have no seed of the case.
    found = (finding.seed for finding in result.verdict.findings if finding.seed in own)
    seed = next(found, min(own, default=0)) or 0
    judged_by = "" if result.paired is None or result.paired.fell_back else result.paired.commit
    return FailedCase(case, seed, judged_by, result.stored)


def _run(failed: Sequence[FailedCase], plan: DiagnosisPlan, explain: DiagnoseCase) -> Iterator[DiagnosedCase]:
    task, place = ExplanationTask(plan.project, plan.chain, explain, plan.base), plan.place
    if place.jobs == IN_PROCESS:
        return map(task.explain_case, failed)
    if not place.builds_here:
        failed = _with_commits(failed[: ceil(place.jobs * plan.seconds / _FEWEST_SECONDS)], plan)
        task = task._replace(commits=tuple(dict.fromkeys(each.judged_by for each in failed if each.judged_by)))
    return place.run(failed, task, until=failed[0].deadline)


def _with_commits(failed: Sequence[FailedCase], plan: DiagnosisPlan) -> list[FailedCase]:
    """Return cases with the commits of their accepted versions, which no git on another machine has to find."""
    commits = [_accepted_commit(item, plan.project, plan.base) for item in failed]
    return [item._replace(judged_by=commit or "", baseline=None) for item, commit in zip(failed, commits, strict=True)]


def _has_commit(project: Path, commit: str) -> bool:
    try:
        return run_git(project, "cat-file", "-e", f"{commit}^{{commit}}").returncode == 0
    except UserError:  # without git
        return False


class ExplanationTask(NamedTuple):
    """The diagnoses of failed cases, as the task of workers, which a case that exceeds its time ends.

    A worker on another machine needs the files of `commits`, and a repository that has them.
    """

    project: Path
    chain: tuple[str, ...]
    explain: DiagnoseCase
    base: str | None
    commits: tuple[str, ...] = ()

    def prepare(self) -> None:
        """Prepare nothing: no user code runs in this process."""

    def run(self, item: FailedCase, _printed: Callable[[], str]) -> DiagnosedCase:
        """Diagnose a case."""
        return self.explain_case(item)

    def explain_case(self, item: FailedCase) -> DiagnosedCase:
        """Diagnose a case, if there is time left."""
        seconds = self._seconds(item)
        if seconds <= 0:
            return DiagnosedCase(item.case.id, None)
        accepted = _accepted_commit(item, self.project, self.base)
        lacks_accepted = accepted in self.commits and not _has_commit(self.project, accepted)
        found = self._diagnose(item, _SEARCH_SHARE * seconds, None if lacks_accepted else accepted)
        return DiagnosedCase(item.case.id, found, lacks_accepted)

    def _diagnose(self, item: FailedCase, seconds: float, accepted: str | None) -> Diagnosis:
        try:
            found = self.explain(
                item.case,
                self.project,
                seed=item.seed,
                chain=self.chain,
                seconds=seconds,
                accepted=accepted,
                units=item.units,
            )
            # The record has to be read again: JSON has neither NaN nor lone surrogates.
            return msgspec.json.decode(msgspec.json.encode(found), type=Diagnosis)
        except Exception as error:
            problem = " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_PROBLEM]
            return Diagnosis(case=item.case.id, seed=item.seed, status="failed", problem=problem)

    def _seconds(self, item: FailedCase) -> float:
        """Return the time that a case may take from now on."""
        left = item.deadline.left
        return min(item.most_seconds, left if item.is_last else _SHARE * left)

    def decoder(self) -> msgspec.msgpack.Decoder[DiagnosedCase]:
        """Return the decoder of answers."""
        return msgspec.msgpack.Decoder(DiagnosedCase)

    def item_key(self, item: FailedCase) -> str:
        """Return the id of a case."""
        return item.case.id

    def answer_key(self, answer: DiagnosedCase) -> str:
        """Return the id of a diagnosed case."""
        return answer.case

    def timeout_s(self, item: FailedCase) -> float:
        """Return the time after which a worker is killed."""
        return max(self._seconds(item), _ANSWER_SECONDS)

    def give_up(self, item: FailedCase, failure: Failure) -> DiagnosedCase:
        """Return the diagnosis of a case whose time was up, or whose worker died."""
        found = Diagnosis(case=item.case.id, seed=item.seed, status="failed")
        if failure.reason is Reason.TIMED_OUT:
            return DiagnosedCase(item.case.id, replace(found, out_of_time=True))
        return DiagnosedCase(item.case.id, replace(found, problem=failure.message))
