"""The record of one run from its beginning to its reports; the command and the pytest plugin both compose it here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from precreg import __version__, vcs
from precreg.baseline.proposal import Proposal
from precreg.baseline.store import Baselines
from precreg.errors import UserError
from precreg.execute.environment import detect
from precreg.execute.failure import encodable
from precreg.pipeline import warnings
from precreg.records import RECORD_SCHEMA, CaseResult, GitState, RunRecord, is_handwritten
from precreg.types import Case, Reason
from precreg.verdict.exit_code import NOTHING_TO_JUDGE, exit_code


def begin(project: Path, selection: dict[str, Any], *, environment: str | None, ci: bool) -> RunRecord:
    """Record what is known before the first case runs. `selection` is what was asked for; what is empty is left out.

    `environment` is a label as `detect` takes it. What git refuses is a warning of the record.
    """
    git, refused = _git_state(project)
    return RunRecord(
        schema=RECORD_SCHEMA,
        precreg=__version__,
        project=encodable(project.name),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=0.0,
        environment=detect(environment),
        git=git,
        selection={name: value for name, value in selection.items() if value},
        ci=ci,
        results=(),
        warnings=refused,
    )


def finish(
    begun: RunRecord,
    cases: Iterable[Case],
    results: Iterable[CaseResult],
    *,
    duration_s: float,
    noticed: Iterable[str] = (),
) -> RunRecord:
    """Complete a record with what came of its cases. `noticed` are warnings of the one who ran them."""
    ordered = tuple(sorted(results, key=lambda result: result.id))
    return replace(
        begun,
        results=ordered,
        duration_s=round(duration_s, 3),
        warnings=(*begun.warnings, *noticed, *warnings(cases, ordered)),
        exit_code=exit_code((result.verdict for result in ordered), empty=NOTHING_TO_JUDGE),
    )


def with_orphans(record: RunRecord, every: Iterable[Case], baselines: Baselines) -> RunRecord:
    """Add the baselines that none of a project's cases looks up, each with the new case that is defined like it.

    Only a run of every case can tell. Baselines of hand-written tests are no orphans: no suite tells of those.
    """
    new = {result.definition: result.id for result in record.results if result.verdict.reason is Reason.NEW}
    orphans = baselines.orphans({case.baseline_id for case in every}, record.environment.chain)
    named = (
        f"{place} (now {new[entry.definition]})" if entry.definition in new else str(place)
        for place, entry in orphans.items()
    )
    return replace(record, orphans=tuple(named))


def gone(waiting: dict[str, Proposal], every: Sequence[Case]) -> set[str]:
    """Return the ids of proposals that no case of the project has any more; those of hand-written tests stay."""
    known = {case.id for case in every}
    return {id for id, proposal in waiting.items() if id not in known and not is_handwritten(proposal.entry.definition)}


def _git_state(project: Path) -> tuple[GitState | None, tuple[str, ...]]:
    """Return the state of the repository, or a warning in git's words where there is one that git refuses."""
    try:
        return vcs.state(project), ()
    except UserError as problem:
        return None, (f"the commit is not known: {' '.join(problem.message.split())}",)
