"""How does a search for the guilty change begin, and what does it need?"""

from __future__ import annotations

from pathlib import Path
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from precreg.diagnose.bisection.commits import Report, commit_range, search_commits
from precreg.diagnose.bisection.judgement import SearchBudget, VersionJudge
from precreg.diagnose.bisection.log import open_log
from precreg.errors import UserError
from precreg.storage import temporary_folder
from precreg.types import Bisection, BisectionRule, Case, Environment
from precreg.vcs import unset_hook_variables


class SearchRequest(Struct, frozen=True):
    """A search: the case, the rule if the user chose one, the budget of a paired test, and whether it goes on."""

    case: Case
    project: Path
    environment: Environment
    rule: BisectionRule | None = None
    budget: SearchBudget = SearchBudget()
    resume: bool = False


def bisect_commits(request: SearchRequest, good: str, bad: str, report: Report) -> Bisection:
    """Search the commit between two revisions that made the case worse. Raises UserError: see `search_commits`."""
    began = monotonic()
    _require_computed(request.case)
    unset_hook_variables()
    ends = commit_range(request.project, good, bad)
    identity = ["commits", request.case.id, request.case.definition, request.rule or "", *ends]
    with temporary_folder() as folder, open_log(request.project, identity, resume=request.resume) as log:
        judge = make_judge(request, folder)
        found = search_commits(request.case, request.project, judge, ends, log, report)
    return replace(found, seconds=monotonic() - began)


def make_judge(request: SearchRequest, folder: Path) -> VersionJudge:
    """Return the judge of versions for a request."""
    return VersionJudge(request.case, request.project, request.environment, request.budget, folder, request.rule or "")


def _require_computed(case: Case) -> None:
    if case.subject.kind in ("table", "files"):
        message = f"expected a case that computes its outputs but {case.id} has kind={case.subject.kind}"
        raise UserError("bad-bisection", message)
