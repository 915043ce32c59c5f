"""Which steps turn one request into the record of a run?

`run_session` composes all stages on one screen: load, select, judge by the base, run, judge, report, propose. pytest
runs cases one by one as its own items, so it takes the same steps from a `Session`: begin, judge each case, finish.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from precreg.baseline import (
    BASELINES_FOLDER,
    Baselines,
    find_cumulative_losses,
    losses_elsewhere,
    pending_proposals,
    sort_proposals,
    update_proposals,
)
from precreg.baseline.integrity import AcceptanceCriteria, acceptance_criteria
from precreg.environment import (
    count_processors,
    limit_blas_threads,
)
from precreg.errors import UserError
from precreg.run.cluster import ClusterPlace, open_cluster
from precreg.run.explanation import DiagnosisPlan, Explained, explain_failures
from precreg.run.journal import journal_header, resume_journal, start_journal
from precreg.run.orphans import add_orphans, add_vanished_rows
from precreg.run.packed import pack_results
from precreg.run.pairs import (
    Announce,
    OracleAnnouncement,
    checked_out_version,
    judge_changed_cases,
    other_commit,
    pair_budget,
    paired_results,
)
from precreg.run.pipeline import IN_PROCESS, CaseJudge, Plan, run_and_judge
from precreg.run.record import begin_record, finish_record
from precreg.run.request import PAIR_AUTO, Progress, RunOutputs, RunRequest, Summarize
from precreg.run.reuse import OUTCOMES_FILE, OutcomeCache
from precreg.run.scope import RequestScope, read_scope
from precreg.run.workers import LocalPlace, RunPlace
from precreg.storage import WORKING_FOLDER, remove_abandoned_files
from precreg.subject import escape_surrogates, forget_failed_builds, shadowing_files
from precreg.suite import load_cases, no_case_error, select_cases, shard_cases
from precreg.types import (
    Case,
    CaseResult,
    ChosenRevision,
    OracleFact,
    RunRecord,
    RunWarning,
    SameOracles,
    ShadowingFiles,
    UnclaimedFiles,
    UnwritableFolder,
)
from precreg.vcs import (
    MAX_UNCLAIMED,
    NamedCommit,
    affected_cases,
    changed_lines,
    remove_abandoned_checkouts,
    review_base,
    unclaimed_files,
)
from precreg.verdict import Policy

# Python searches for garbage after so many new objects. A run keeps nearly all objects that it makes, and its values
# have no cycles, so the default of Python, below 3,000, would search the same objects again and again.
GARBAGE_THRESHOLD = 50_000

# Files that a warning names; it counts the others.
MAX_FILES = 10


def run_session(
    request: RunRequest,
    outputs: RunOutputs,
    *,
    progress: Progress,
    summarize: Summarize,
    announce: Announce,
    every: list[Case] | None = None,
) -> RunRecord:
    """Run the selected cases of a project, write its reports and proposals, and return the record.

    `announce` gets the budget before another version runs, and then its progress. `every` are all cases of the project,
    if the caller has read them already. Raises UserError before anything runs for suites, baselines and proposals that
    cannot be read; after the run for files that cannot be written.
    """
    began = perf_counter()
    limit_blas_threads()
    gc.set_threshold(GARBAGE_THRESHOLD)
    has_outcomes = _reuses(request) and (request.project / OUTCOMES_FILE).is_file()
    if request.jobs != IN_PROCESS and request.cluster is None and not has_outcomes:
        from precreg.run.workers import start_fork_server

        # First, because it starts while the suites are read. With outcomes of earlier runs there may be nothing to run.
        start_fork_server()
    read, left_out = read_scope(request) if every is None else RequestScope(every, 0)
    every = add_vanished_rows(read, request.project, request.environment)
    session = Session(request, outputs, every=every, began=began)
    cases = _select(session.criteria.cases, request)
    pending_proposals(request.project)  # a damaged file stops a run that has not begun
    outputs.make_folder(request.output)
    session.begin(_selection(request))
    session.add_cumulative_losses(every)
    session.add_unclaimed_files(every)
    complete = len(cases) == len(every) + left_out
    with session.connected():
        results = session.run(cases, progress, announce)
        return session.finish(cases, results, folder=request.output, summarize=summarize, complete=complete)


def _select(every: list[Case], request: RunRequest) -> list[Case]:
    """Return the cases of this shard, in the order in which they run.

    Raises UserError where no case is selected, unless a change selects them.
    """
    cases = select_cases(every, request.selection)
    if request.changed is not None:
        cases = affected_cases(cases, request.changed, request.project)
    if not cases and request.changed_since is None:
        raise no_case_error(every)
    mine = cases if request.shard is None else shard_cases(cases, *request.shard)
    # Sorting keeps the order of equal keys.
    return sorted(mine, key=lambda case: case.id not in request.failed_first)


def _selection(request: RunRequest) -> dict[str, Any]:
    """Return the selection as records store it."""
    names = ("patterns", "tiers", "suites", "tags")
    shard = None if request.shard is None else "{}/{}".format(*request.shard)
    selected = {name: getattr(request.selection, name) for name in names}
    last_failed = request.selection.last_failed is not None
    return {**selected, "changed_since": request.changed_since, "last_failed": last_failed, "shard": shard}


class Session:
    """One run of one project, in steps: begin, judge each case, finish. Making one reads nothing."""

    def __init__(
        self, request: RunRequest, outputs: RunOutputs, *, every: list[Case] | None = None, began: float | None = None
    ) -> None:
        """Prepare a run. `every` are all cases of the project; `began` is the time by perf_counter, now by default."""
        self.request, self._outputs = request, outputs
        self._every, self._began = every, perf_counter() if began is None else began
        self._baselines = Baselines(request.project)
        # Without a journal the working folder cannot be written, so the run proposes nothing.
        self._is_writable = True
        self._announce: Announce | None = None
        self._cluster: ClusterPlace | None = None
        self._cache: OutcomeCache | None = None

    @cached_property
    def criteria(self) -> AcceptanceCriteria:
        """Return the cases and baselines that judge. Raises UserError as `acceptance_criteria` does."""
        project, base, every = self.request.project, self.request.base, self._every
        if every is None:
            # pytest reads the suites that it collects, one by one: without a base nothing needs the others.
            every = [] if base is None else load_cases(project)
        return acceptance_criteria(project, None if base is None else base.commit, every, self._baselines)

    @cached_property
    def judge(self) -> CaseJudge:
        """Return the judge of single cases. Raises UserError (bad-value) for the label of the environment."""
        request = self.request
        return CaseJudge(
            request.project, environment=request.environment, ci=request.ci, baselines=self.criteria.baselines
        )

    def begin(self, selection: Mapping[str, Any]) -> None:
        """Begin the record with everything that is known before the first case runs."""
        request = self.request
        _remove_abandoned(request.project, request.output)
        begun = begin_record(request.project, dict(selection), environment=request.environment, ci=request.ci)
        self.record = replace(
            begun,
            against=self.criteria.commit,
            against_revision=None if request.base is None else _chosen(request.base),
            strict=request.strict,
        )

    def add_cumulative_losses(self, every: Sequence[Case]) -> None:
        """Add a finding for each cumulative loss beyond its budget; all cases of the project state the budgets."""
        found = find_cumulative_losses(self.request.project, every, self.record.environment.chain)
        self.record = replace(self.record, findings=(*self.record.findings, *found))

    def add_unclaimed_files(self, every: Sequence[Case]) -> None:
        """Add a warning that names the changed files of a selection by changes that belong to no case."""
        files = unclaimed_files(every, self.request.changed or frozenset(), self.request.project)
        if files:
            shown = tuple(map(escape_surrogates, files[:MAX_UNCLAIMED]))
            fact = UnclaimedFiles(shown, len(files) - len(shown))
            self.record = replace(self.record, warnings=(*self.record.warnings, fact))

    def run(self, cases: Sequence[Case], progress: Progress, announce: Announce) -> list[CaseResult]:
        """Run and judge cases in worker processes, or in this one without them; keep a journal.

        With `pair` in the request, another version of the code runs side by side: a given one judges all cases, and the
        accepted one those whose bits changed. Raises UserError as `resume_journal`, `other_commit` and `run_and_judge`
        do.
        """
        request, self._announce = self.request, announce
        if request.pair not in (None, PAIR_AUTO):
            named = other_commit(request.project, request.pair)
            self.record = replace(self.record, pair=named.commit, pair_revision=_chosen(named))
        policy = replace(self.judge.policy, require=request.require)
        with closing(self._open_plan(len(cases))) as plan:
            if self.record.pair:
                return self._run_beside(cases, plan, policy, progress, announce)
            judged = run_and_judge(cases, plan, policy, self.criteria.baselines)
            results = list(progress(pack_results(judged, len(cases)), len(cases)))
            if request.pair is None:
                return results
            base = request.pair_base
            budget = pair_budget(request.max_seeds, request.pair_seconds, request.pair_run_seconds)
            return list(judge_changed_cases(cases, results, plan, policy, base=base, budget=budget, announce=announce))

    def _run_beside(
        self, cases: Sequence[Case], plan: Plan, policy: Policy, progress: Progress, announce: Announce
    ) -> list[CaseResult]:
        """Run all cases by the other version of the request, too, and judge them by it."""
        request, baselines = self.request, self.criteria.baselines
        assert request.pair is not None
        budget = pair_budget(request.max_seeds, request.pair_seconds, request.pair_run_seconds)
        with checked_out_version(plan.project, request.pair, self.record.pair) as version:
            results = paired_results(cases, plan, policy, baselines, version, budget, announce)
            return list(progress(results, len(cases)))

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Connect to the cluster of the request, if any. Raises UserError as `open_cluster` does."""
        request = self.request
        if request.cluster is None:
            yield
            return
        with open_cluster(request.cluster, request.project, self.record.environment) as self._cluster:
            yield

    def _open_plan(self, cases: int) -> Plan:
        """Choose the number of workers, by default one for each processor, and open the journal of this shard."""
        request, environment = self.request, self.record.environment
        jobs = min(cases, self._jobs)
        reuse, use_caches = self._open_cache(jobs), not request.no_cache
        plan = Plan(request.project, environment, jobs, reuse=reuse, use_caches=use_caches)
        name = "journal.jsonl" if request.shard is None else "journal-{}-of-{}.jsonl".format(*request.shard)
        path = Path(os.path.relpath(request.project / WORKING_FOLDER / name))
        header = journal_header(request.project, environment, "" if request.base is None else request.base.commit)
        if request.resume:
            journal, done = resume_journal(path, header)
            return self._with_cluster(replace(plan, journal=journal, done=done))
        try:
            return self._with_cluster(replace(plan, journal=start_journal(path, header)))
        except UserError as problem:
            if problem.slug != "not-writable" or request.needs_journal:
                raise
            self._is_writable = False
            return self._with_cluster(plan)

    def _with_cluster(self, plan: Plan) -> Plan:
        """Return a plan with the cluster, whose workers the journal and the record name."""
        journal = plan.journal
        known = () if journal is None else journal.workers
        if known:
            self.record = replace(self.record, workers=known)
        if self._cluster is None:
            return plan
        self._cluster.keep_table(known, (lambda _: None) if journal is None else journal.append)
        return replace(plan, cluster=self._cluster)

    def _open_cache(self, jobs: int) -> OutcomeCache | None:
        """Open the kept outcomes of earlier runs; None for a run that reuses none."""
        if jobs == IN_PROCESS or not _reuses(self.request):
            return None
        git = self.record.git
        try:
            self._cache = OutcomeCache(
                self.request.project,
                self.record.environment,
                started=self.record.started,
                commit="" if git is None else git.commit,
            )
        except OSError:
            # The project cannot be written: the run reuses nothing, and says so where it keeps no journal.
            return None
        return self._cache

    def _decide_oracles(self, results: Sequence[CaseResult]) -> Iterator[RunWarning]:
        """Add the findings of the criteria to the record; results decide which references changed.

        Yields the number of references that may have changed and give the same bits.
        """
        criteria, facts = self.criteria, dict[str, OracleFact | None]()
        if criteria.sides is not None:
            # Late, because most runs have no base.
            from precreg.run.oracle_change import ORACLE_SECONDS, decide_oracles, find_candidates

            request, whole = self.request, self.request.shard is None
            environment = self.record.environment
            candidates = find_candidates(criteria.sides, results, environment, self._place, whole=whole)
            if candidates and self._announce is not None:
                self._announce(OracleAnnouncement(len(candidates), criteria.commit, ORACLE_SECONDS))
            decided = decide_oracles(request.project, criteria.commit, candidates, self._place)
            facts = decided.facts
            if decided.same:
                yield SameOracles(decided.same, decided.fresh)
        self.record = replace(self.record, findings=(*criteria.decided_findings(facts), *self.record.findings))

    def finish(
        self,
        cases: Sequence[Case],
        results: Iterable[CaseResult],
        *,
        folder: Path,
        summarize: Summarize,
        complete: bool,
    ) -> RunRecord:
        """Complete the record with the results, write its reports into `folder`, and propose what differs.

        `complete` says that `cases` are all cases of the project: only then baselines and proposals of other cases
        are orphans. Raises UserError: bad-allowance, not-writable; the summary is printed if proposals fail.
        """
        request = self.request
        results, diagnosed = self._explain(cases, tuple(results))
        notices: list[RunWarning] = [*self._decide_oracles(results)]
        if not self._is_writable:
            notices.append(UnwritableFolder(WORKING_FOLDER))
        notices += _shadowing(request.project, cases)
        if self._cluster is not None:
            notices += self._cluster.warnings()
            self.record = replace(self.record, workers=self._cluster.table)
        duration_s = perf_counter() - self._began
        found = (*losses_elsewhere(request.project, cases, results, self.record), *self.criteria.unconfirmed(results))
        reused = (None if self._cache is None else self._cache.counts()) or UNSET
        begun = replace(self.record, findings=(*self.record.findings, *found), diagnosed=diagnosed, reused=reused)
        record = finish_record(begun, cases, results, project=request.project, duration_s=duration_s, noticed=notices)
        if complete:
            record = add_orphans(record, cases, self._baselines)
        record = self._outputs.add_context(record, cases, request.project, self._changed_lines)
        record = self._outputs.add_messages(record)
        written = self._outputs.write(record, folder, request.junit_dialect)
        try:
            self._propose(record, cases, complete)
        finally:
            summarize(record, written)
        return record

    def _propose(self, record: RunRecord, cases: Sequence[Case], complete: bool) -> None:
        """Write the proposals of a record; if `cases` are complete, remove the proposals of absent cases."""
        if not self._is_writable:
            return
        project = self.request.project
        # Proposals of another branch stay, although no suite may have their cases here.
        dropped = sort_proposals(project, {case.id: case for case in cases}).gone if complete else {}
        level = self.request.environment
        update_proposals(project, record.results, record.environment, record.git, level, dropped, cases)

    def _explain(self, cases: Sequence[Case], results: Sequence[CaseResult]) -> Explained:
        request = self.request
        base = request.pair_base or (None if request.base is None else request.base.commit)
        plan = DiagnosisPlan(request.project, self.record.environment.chain, request.diagnose, self._place, base)
        return explain_failures(cases, results, plan, self._outputs.explain, self._announce)

    def _changed_lines(self, files: Collection[str]) -> Mapping[str, Sequence[range]] | None:
        if self.record.git is None:
            return None
        try:
            base = self.record.against or review_base(self.request.project)
            return changed_lines(self.request.project, base, files)
        except UserError:
            # A shallow clone may lack the base. Lines of a change only place the marks of a review.
            return None

    @property
    def _place(self) -> RunPlace:
        return LocalPlace(self._jobs) if self._cluster is None else self._cluster

    @property
    def _jobs(self) -> int:
        return count_processors() if self.request.jobs is None else self.request.jobs


def _reuses(request: RunRequest) -> bool:
    """Return whether a request allows outcomes of earlier runs: not in CI, on a cluster, or beside another version."""
    # What a case used is observed in workers of this machine.
    is_local = not request.ci and request.cluster is None
    return is_local and not request.no_cache and request.pair in (None, PAIR_AUTO)


def _chosen(named: NamedCommit) -> ChosenRevision:
    return ChosenRevision(escape_surrogates(named.revision), named.is_merge_base)


def _remove_abandoned(project: Path, output: Path) -> None:
    """Remove the temporary files and checkouts that killed runs of this user left."""
    working, baselines = project / WORKING_FOLDER, project / BASELINES_FOLDER
    for folder in (output, *working.glob("**/"), *baselines.glob("**/")):
        remove_abandoned_files(folder)
    remove_abandoned_checkouts()
    forget_failed_builds(project)


def _shadowing(project: Path, cases: Sequence[Case]) -> list[ShadowingFiles]:
    """Return a warning that names the modules on the search paths of cases that shadow others; none without any."""
    files = shadowing_files(project, {case.directory for case in cases})
    return [ShadowingFiles(tuple(files[:MAX_FILES]), max(0, len(files) - MAX_FILES))] if files else []
