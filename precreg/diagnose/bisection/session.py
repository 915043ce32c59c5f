"""How does a search for the guilty change begin, and what does it need?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from precreg.diagnose.bisection.commits import commit_range, search_commits
from precreg.diagnose.bisection.judgement import SearchBudget, VersionJudge
from precreg.diagnose.bisection.log import SearchLog, open_log
from precreg.diagnose.bisection.packages import read_package_range, search_packages
from precreg.diagnose.bisection.process import CodeVersion
from precreg.diagnose.bisection.settings import read_settings, search_settings
from precreg.errors import UserError
from precreg.run import checked_out_version
from precreg.storage import temporary_folder
from precreg.types import Bisection, BisectionRule, BisectionStep, Case, Environment
from precreg.vcs import remove_abandoned_checkouts, unset_hook_variables

_Report = Callable[[BisectionStep], None]


class SearchRequest(Struct, frozen=True):
    """A search: the case, the rule if the user chose one, the budget of a paired test, and whether it goes on."""

    case: Case
    project: Path
    environment: Environment
    rule: BisectionRule | None = None
    budget: SearchBudget = SearchBudget()
    resume: bool = False


def bisect_commits(request: SearchRequest, good: str, bad: str, report: _Report) -> Bisection:
    """Search the commit between two revisions that made the case worse, and the part of it that does.

    Raises UserError: bad-bisection, unknown-revision and the other errors of `commit_range`, no-checkout,
    nothing-to-resume, locked, not-writable.
    """
    began = monotonic()
    _require_computed(request.case)
    unset_hook_variables()
    remove_abandoned_checkouts()
    ends = commit_range(request.project, good, bad)
    with _search(request, "commits", ends) as (judge, log):
        found = search_commits(request.case, request.project, judge, ends, log, report)
    return replace(found, seconds=monotonic() - began)


def bisect_packages(request: SearchRequest, packages: Sequence[str], report: _Report) -> Bisection:
    """Search the release of a package that made the case worse.

    Raises UserError: bad-bisection, no-releases, nothing-to-resume, locked, not-writable.
    """
    began = monotonic()
    _require_computed(request.case)
    ranges = [read_package_range(text) for text in packages]
    if len({each.name for each in ranges}) < len(ranges):
        raise UserError("bad-bisection", f"expected each package once but got packages={', '.join(packages)}")
    with _search(request, "packages", packages) as (judge, log):
        found = search_packages(request.case, request.project, judge, ranges, log, report)
    return replace(found, seconds=monotonic() - began)


def bisect_settings(
    request: SearchRequest, variables: Sequence[str], flags: Sequence[str], report: _Report
) -> Bisection:
    """Search the smallest set of variables and flags that makes the case worse.

    Raises UserError: bad-bisection, nothing-to-resume, locked, not-writable.
    """
    began = monotonic()
    _require_computed(request.case)
    settings = read_settings(request.case, variables, flags)
    with _search(request, "settings", settings) as (judge, log):
        found = search_settings(request.case, request.project, judge, settings, log, report)
    return replace(found, seconds=monotonic() - began)


def judge_working_tree(request: SearchRequest, good: str) -> BisectionStep:
    """Judge the working tree beside a good commit, as one step of `git bisect run`.

    A good version that is no measure gives its own step. Raises UserError: no-checkout, not-writable.
    """
    _require_computed(request.case)
    with temporary_folder() as folder, checked_out_version(request.project, good, good) as version:
        judge = _judge(request, folder)
        # The working tree has another commit at each step, and all of them need the same measure.
        end = judge.judge_good(CodeVersion(good, version.project, version.trees), computes_oracle=True)
        return judge.judge(CodeVersion("the working tree", request.project)) if end.verdict == "good" else end


@contextmanager
def _search(request: SearchRequest, kind: str, ends: Sequence[str]) -> Iterator[tuple[VersionJudge, SearchLog]]:
    """Give the judge and the log of a search; its identity is everything that decides about steps."""
    case = request.case
    identity = [kind, case.id, case.definition, request.rule or "", repr(request.budget), *ends]
    with temporary_folder() as folder, open_log(request.project, identity, resume=request.resume) as log:
        yield _judge(request, folder), log


def _judge(request: SearchRequest, folder: Path) -> VersionJudge:
    return VersionJudge(request.case, request.project, request.environment, request.budget, folder, request.rule)


def _require_computed(case: Case) -> None:
    if case.subject.kind in ("table", "files"):
        message = f"expected a case that computes its outputs but {case.id} has kind={case.subject.kind}"
        raise UserError("bad-bisection", message)
