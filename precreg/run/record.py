"""Which record does a run begin with, and which one does it leave?"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from precreg import __version__
from precreg.baseline.integrity import add_allowance_reasons
from precreg.environment import detect_environment, project_name, source_links, with_accelerators
from precreg.errors import UserError
from precreg.run.pipeline import run_warnings
from precreg.subject import escape_surrogates
from precreg.types import (
    RECORD_SCHEMA,
    Case,
    CaseResult,
    GitState,
    RunRecord,
    RunWarning,
    UnknownCommit,
    has_unclaimed_files,
)
from precreg.vcs import git_state, project_folder
from precreg.verdict import NOTHING_TO_JUDGE, combined_losses, pooled_losses, run_exit_code


def begin_record(project: Path, selection: dict[str, Any], *, environment: str | None, ci: bool) -> RunRecord:
    """Return the record of a run before its first case. Empty values of `selection` are left out.

    `environment` is a label as `detect_environment` takes it. If git refuses to read the repository, the record has a
    warning and no commit. Raises UserError (bad-value) for the label, and for a template of links that is no URL.
    """
    git, warnings = _git_state(project)
    return RunRecord(
        schema=RECORD_SCHEMA,
        precreg=__version__,
        project=escape_surrogates(project_name(project, os.environ)),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=0.0,
        environment=with_accelerators(detect_environment(environment)),
        git=git,
        selection={name: value for name, value in selection.items() if value},
        ci=ci,
        folder=escape_surrogates(project_folder(project)),
        links=source_links(os.environ) or UNSET,
        results=(),
        warnings=warnings,
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
    """Complete a record with the results of its cases, sorted by id. `noticed` are further warnings.

    Raises UserError (bad-allowance) if suites regressed as a whole and the allowances cannot be read.
    """
    ordered = tuple(sorted(results, key=lambda result: result.id))
    ran = tuple(cases)
    studies = {case.study.suite: case.study for case in ran if case.study is not None}
    losses = (*combined_losses(ordered, begun.environment), *pooled_losses(ordered))
    # Only a loss needs the allowances, so that a mistake in them stops no other run.
    findings = (*begun.findings, *(add_allowance_reasons(project, losses) if losses else ()))
    warnings = (*begun.warnings, *noticed, *run_warnings(ran, ordered))
    return replace(
        begun,
        results=ordered,
        findings=findings,
        duration_s=round(duration_s, 3),
        warnings=warnings,
        exit_code=run_exit_code(
            (result.verdict for result in ordered),
            findings=findings,
            empty=NOTHING_TO_JUDGE,
            strict=begun.strict,
            unclaimed=has_unclaimed_files(warnings),
        ),
        studies=tuple(studies[suite] for suite in sorted(studies)),
    )


def _git_state(project: Path) -> tuple[GitState | None, tuple[UnknownCommit, ...]]:
    """Return the state of the repository; or None and a warning in git's words, if git refuses to read it."""
    try:
        return git_state(project), ()
    except UserError as problem:
        return None, (UnknownCommit(" ".join(problem.message.split())),)
