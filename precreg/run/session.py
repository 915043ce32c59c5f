"""The record of one run from its beginning to its reports; the command and the pytest plugin both compose it here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from precreg import __version__
from precreg.baseline import BaselineLookup, Baselines, Proposal, explain_baseline, read_environment_facts
from precreg.baseline.integrity import add_allowance_reasons
from precreg.environment import detect_environment, project_name
from precreg.errors import UserError
from precreg.run.pipeline import judge_outcome, run_warnings
from precreg.subject import escape_surrogates
from precreg.types import (
    RECORD_SCHEMA,
    Baseline,
    Case,
    CaseResult,
    GitState,
    Orphan,
    Outcome,
    Reason,
    RunRecord,
    RunWarning,
    UnknownCommit,
    is_test_defined,
)
from precreg.vcs import git_state, project_folder
from precreg.verdict import NOTHING_TO_JUDGE, Policy, combined_losses, run_exit_code


def begin_record(project: Path, selection: dict[str, Any], *, environment: str | None, ci: bool) -> RunRecord:
    """Record what is known before the first case runs. `selection` is what was asked for; what is empty is left out.

    `environment` is a label as `detect` takes it. What git refuses is a warning of the record.
    """
    git, refused = _git_state(project)
    return RunRecord(
        schema=RECORD_SCHEMA,
        precreg=__version__,
        project=escape_surrogates(project_name(project, os.environ)),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=0.0,
        environment=detect_environment(environment),
        git=git,
        selection={name: value for name, value in selection.items() if value},
        ci=ci,
        folder=escape_surrogates(project_folder(project)),
        results=(),
        warnings=refused,
    )


def finish_record(
    begun: RunRecord,
    cases: Iterable[Case],
    results: Iterable[CaseResult],
    *,
    project: Path,
    duration_s: float,
    noticed: Iterable[RunWarning] = (),
) -> RunRecord:
    """Complete a record with what came of its cases. `noticed` are warnings of the one who ran them.

    Raises UserError (bad-allowance) where suites became worse as a whole, and what allows it cannot be read.
    """
    ordered = tuple(sorted(results, key=lambda result: result.id))
    ran = tuple(cases)
    studies = {case.study.suite: case.study for case in ran if case.study is not None}
    combined = add_allowance_reasons(project, [*combined_losses(ordered, begun.environment.fingerprint)])
    findings = (*begun.findings, *combined)
    return replace(
        begun,
        results=ordered,
        findings=findings,
        duration_s=round(duration_s, 3),
        warnings=(*begun.warnings, *noticed, *run_warnings(ran, ordered)),
        exit_code=run_exit_code((result.verdict for result in ordered), findings=findings, empty=NOTHING_TO_JUDGE),
        studies=tuple(studies[suite] for suite in sorted(studies)),
    )


def add_orphans(record: RunRecord, every: Iterable[Case], baselines: Baselines) -> RunRecord:
    """Add the baselines that none of a project's cases looks up, each with the new case that is defined like it.

    Only a run of every case can tell. Baselines of hand-written tests are no orphans: no suite tells of those.
    """
    new = {result.definition: result.id for result in record.results if result.verdict.reason is Reason.NEW}
    found = baselines.orphans({case.baseline_id for case in every}, record.environment.chain)
    orphans = (Orphan(place.id, place.file, new.get(entry.definition, "")) for place, entry in found.items())
    return replace(record, orphans=tuple(orphans))


def stale_proposals(waiting: dict[str, Proposal], every: Sequence[Case]) -> set[str]:
    """Return the ids of proposals that no case of the project has any more; those of hand-written tests stay."""
    known = {case.id for case in every}
    return {
        id for id, proposal in waiting.items() if id not in known and not is_test_defined(proposal.entry.definition)
    }


class CaseJudge:
    """Judges the cases of one project one by one, in this process; every file of baselines is read once."""

    def __init__(
        self, project: Path, *, environment: str | None, ci: bool, baselines: BaselineLookup | None = None
    ) -> None:
        """Detect the environment as `detect` does; `baselines` are else the project's. Raises UserError (bad-value)."""
        self.project, self.environment = project, detect_environment(environment)
        self.baselines: BaselineLookup = Baselines(project) if baselines is None else baselines
        self.policy = Policy(ci=ci, baselines=self.baselines.number(self.environment.chain))

    def run(self, case: Case) -> CaseResult:
        """Run a case unprotected, measure it and judge it. A timeout is not enforced."""
        from precreg.run.worker import run_in_process

        return self.judge(case, next(run_in_process([case], self.project, self.environment.chain)))

    def judge(self, case: Case, outcome: Outcome) -> CaseResult:
        """Judge what was measured. Raises UserError for baselines that cannot be read."""
        return judge_outcome(case, self.baseline(case), outcome, self.environment, self.policy)

    def baseline(self, case: Case) -> Baseline | None:
        """Look up what was accepted of a case."""
        found = self.baselines.lookup(case.baseline_id, self.environment.chain)
        return explain_baseline(found, self._facts, self.environment)

    @cached_property
    def _facts(self) -> dict[str, dict[str, str]]:
        return read_environment_facts(self.project)


def _git_state(project: Path) -> tuple[GitState | None, tuple[UnknownCommit, ...]]:
    """Return the state of the repository, or a warning in git's words where there is one that git refuses."""
    try:
        return git_state(project), ()
    except UserError as problem:
        return None, (UnknownCommit(" ".join(problem.message.split())),)
