"""`precreg run`: the options, and the answer to the question asked most often, whether there is anything to run.

What `precreg run` does when there is something to run. Apart from run.py, so that nothing is imported in vain.

`precreg run --pair REVISION`: the other version in a checkout of its own, for as long as both are run.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Set
from contextlib import contextmanager
from math import isnan
from os.path import realpath
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from precreg.cli.options import (
    CaseOptions,
    RunOptions,
    parse_shard,
    project_of_option,
    select_by_options,
    selection_options,
)
from precreg.environment import in_ci
from precreg.errors import UserError
from precreg.report import render_run_terminal
from precreg.run import Journal, JournalHeader, journal_header, resume_journal, start_journal
from precreg.storage import WORKING_FOLDER
from precreg.vcs import (
    base_commit,
    changed_files,
    checkout_commit,
    commit_has_path,
    no_case_affected,
    resolve_revision,
    unset_hook_variables,
    worktree_root,
)

if TYPE_CHECKING:
    from precreg.baseline import BaselineLookup
    from precreg.run import OtherVersion, PairBudget, Plan
    from precreg.types import Case, CaseResult, Environment


def _seconds(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    """Refuse what no bound of a range refuses. Raises click.BadParameter."""
    if value is not None and isnan(value):
        raise click.BadParameter(f"{value} is no time.")
    return value


@click.command("run")
@selection_options
@click.option("--shard", metavar="I/N", callback=parse_shard, help="Part I of N; or CI_NODE_INDEX/CI_NODE_TOTAL.")
@click.option("--jobs", "-j", type=click.IntRange(0), help="Worker processes; 0 runs unprotected in this process.")
@click.option("--resume", is_flag=True, help="Go on with the run that was interrupted.")
@click.option("--ci/--no-ci", default=None, help="In CI a case without a baseline fails. Default: the variable CI.")
@click.option("--require", is_flag=True, help="A case whose requirements are missing is an error, not skipped.")
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Where this runs: a device's label.")
@click.option("--output", type=click.Path(path_type=Path), help="The folder of the reports; reports/ in the project.")
@click.option("--junit-dialect", type=click.Choice(["gitlab", "strict"]), default="gitlab", help="Of junit.xml.")
@click.option(
    "--against",
    metavar="REVISION",
    default="auto",
    help="Judge by the baselines and bounds of this commit, or of its merge base: REVISION...; or off. Default: auto,"
    " the base of the merge request in its pipeline, and off elsewhere.",
)
@click.option("--pair", metavar="REVISION", help="Run that version, too, side by side, and judge by what it gives.")
@click.option("--max-seeds", type=click.IntRange(1), help="In a pair: so many at most, until it is clear. Default: 32.")
@click.option(
    "--pair-seconds",
    type=click.FloatRange(0),
    callback=_seconds,
    help="In a pair: so long at most, for a case. Default: 2.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show the cases that passed, too.")
@click.pass_obj
def run_command(given: Path | None, /, asked: CaseOptions, ci: bool | None, against: str, **others: Any) -> None:
    """Run the cases, judge them against tolerances and baselines, and write reports.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? [].
    """
    project = project_of_option(given)
    since = asked.changed_since
    changed = None if since is None else frozenset(changed_files(project, since))
    ci, base = in_ci(os.environ) if ci is None else ci, base_commit(project, against)
    options = RunOptions(asked, ci=ci, changed=changed, base=base, **others)
    read = None
    if changed is not None and options.shard is None and base is None:  # a case may be gone, or ask for less
        if not changed:
            click.echo(f"nothing changed since {since}: no case to run")
            return
        read = _read(project, asked, changed)
        if read is None:
            click.echo(f"no case depends on what changed since {since}")
            return

    sys.exit(run_and_report(project, options, read))


def _read(project: Path, asked: CaseOptions, changed: Set[str]) -> list[Case] | None:
    """Return all cases of the project, or None where none that is asked for depends on what changed."""
    if not asked.suites and not asked.tags and no_case_affected(project, changed):  # the names may be misspelled
        return None
    from precreg.vcs import load_cases_and_index

    every = load_cases_and_index(project)
    return every if select_by_options(project, every, asked, changed) else None


DEFAULT_MAX_SEEDS, DEFAULT_MAX_SECONDS = 32, 2.0


def require_pairable(options: RunOptions) -> None:
    """Refuse what a paired run cannot do, and what only a paired run does. Raises UserError (bad-pair)."""
    from precreg.run import IN_PROCESS

    if options.pair is None:
        if options.max_seeds is not None or options.pair_seconds is not None:
            alone = "--max-seeds" if options.max_seeds is not None else "--pair-seconds"
            raise UserError("bad-pair", f"expected --pair REVISION, which draws more seeds, beside {alone}")
        return
    if options.jobs == IN_PROCESS:
        raise UserError("bad-pair", "expected worker processes, of each version its own, but got --jobs 0")
    if options.resume:
        raise UserError("bad-pair", "expected to run both versions side by side but got --resume: one ran before")


def pair_budget_of(options: RunOptions) -> PairBudget:
    """Return how many seeds a paired run draws, and for how long."""
    from precreg.run import PairBudget

    return PairBudget(
        DEFAULT_MAX_SEEDS if options.max_seeds is None else options.max_seeds,
        DEFAULT_MAX_SECONDS if options.pair_seconds is None else options.pair_seconds,
    )


def other_commit(project: Path, revision: str) -> str:
    """Return the commit that the revision names, which has the project.

    Raises:
        UserError: no-git, unknown-revision, no-merge-base; bad-pair.
    """
    unset_hook_variables()
    commit, root = resolve_revision(project, revision), worktree_root(project)
    suites = (_folder(project, root) / "suites").as_posix()
    if not commit_has_path(root, commit, suites):
        raise UserError("bad-pair", f"expected a commit with {suites}/ but got pair={revision}: {commit[:8]} has none")
    return commit


@contextmanager
def other_version(project: Path, revision: str, commit: str) -> Iterator[OtherVersion]:
    """Check the commit out into a temporary folder, which is removed in the end. Raises UserError (no-checkout)."""
    from precreg.run import OtherVersion
    from precreg.subject import TreePair

    root = worktree_root(project)
    with checkout_commit(root, commit) as tree:
        own, other = Path(realpath(root)), Path(realpath(tree))
        yield OtherVersion(revision, commit, other / _folder(project, root), TreePair(own, other))


def _folder(project: Path, root: Path) -> Path:
    return Path(realpath(project)).relative_to(realpath(root))


SEARCH_FOR_GARBAGE = 50_000
"""Objects made until garbage is searched for: a run keeps nearly all that it makes, and its values have no cycles."""


def run_and_report(project: Path, options: RunOptions, read: list[Case] | None = None) -> int:
    """Run what is selected, write reports and proposals, print the summary, and return the exit code.

    `read` are all cases of the project, where they were read already.
    """
    from msgspec.structs import replace

    from precreg.baseline import Baselines, find_cumulative_losses, pending_proposals, update_proposals
    from precreg.baseline.integrity import acceptance_criteria
    from precreg.cli.options import reports_folder
    from precreg.environment import limit_blas_threads
    from precreg.report import make_reports_folder, write_reports
    from precreg.run import IN_PROCESS, add_orphans, begin_record, finish_record, stale_proposals, start_fork_server
    from precreg.suite import load_cases
    from precreg.types import UnwritableFolder

    limit_blas_threads()
    began = perf_counter()
    require_pairable(options)
    gc.set_threshold(SEARCH_FOR_GARBAGE)
    if options.jobs != IN_PROCESS:
        start_fork_server()
    every = load_cases(project) if read is None else read
    baselines = Baselines(project)
    judging = acceptance_criteria(project, options.base, every, baselines)
    cases = _chosen(project, judging.cases, options)
    waiting = pending_proposals(project)  # read now, so that a damaged file stops a run that has not begun
    folder = options.output or reports_folder(project)
    make_reports_folder(folder)
    begun = begin_record(project, _selection(options), environment=options.environment, ci=options.ci)
    found = (*judging.findings, *find_cumulative_losses(project, every, begun.environment.chain))
    begun = replace(begun, findings=found, against=judging.commit)
    if options.pair is not None:
        begun = replace(begun, pair=other_commit(project, options.pair))
    plan = _plan(project, begun.environment, len(cases), options)
    ran = _results(cases, plan, judging.baselines, options, begun.pair)
    noticed = [] if plan.journal else [UnwritableFolder(WORKING_FOLDER)]
    record = finish_record(begun, cases, ran, project=project, duration_s=perf_counter() - began, noticed=noticed)
    dropped: set[str] = set()
    if len(cases) == len(every):
        record, dropped = add_orphans(record, every, baselines), stale_proposals(waiting, every)
    written = write_reports(record, folder, options.junit_dialect)
    try:
        if plan.journal is not None:
            update_proposals(project, record.results, record.environment, record.git, options.environment, dropped)
    finally:
        text = render_run_terminal(record, colour=sys.stdout.isatty(), verbose=options.verbose, reports=written)
        click.echo(text, nl=False)
    return record.exit_code


def _selection(options: RunOptions) -> dict[str, Any]:
    shard = None if options.shard is None else "{}/{}".format(*options.shard)
    return options.asked._asdict() | {"shard": shard}


def _chosen(project: Path, every: list[Case], options: RunOptions) -> list[Case]:
    """Return the selected cases of this shard; to select none is a mistake unless a change selects them."""
    from precreg.cli.options import select_by_options
    from precreg.suite import no_case_error, shard_cases

    cases = select_by_options(project, every, options.asked, options.changed)
    if not cases and options.asked.changed_since is None:
        raise no_case_error(every, options.asked.patterns)
    return cases if options.shard is None else shard_cases(cases, *options.shard)


def _results(
    cases: list[Case], plan: Plan, baselines: BaselineLookup, options: RunOptions, commit: str
) -> list[CaseResult]:
    from precreg.cli.progress import show_progress
    from precreg.run import paired_results, run_and_judge
    from precreg.verdict import Policy

    number = baselines.number(plan.environment.chain)
    policy = Policy(ci=options.ci, require=options.require, baselines=number)
    try:
        if options.pair is None:
            return list(show_progress(run_and_judge(cases, plan, policy, baselines), len(cases)))
        effort = pair_budget_of(options)
        with other_version(plan.project, options.pair, commit) as version:
            return list(show_progress(paired_results(cases, plan, policy, baselines, version, effort), len(cases)))
    finally:
        if plan.journal is not None:
            plan.journal.close()


def _plan(project: Path, environment: Environment, cases: int, options: RunOptions) -> Plan:
    """Plan for as many workers as there are processors, unless told otherwise, and open this shard's journal."""
    from precreg.environment import count_processors
    from precreg.run import Plan

    jobs = min(cases, count_processors() if options.jobs is None else options.jobs)
    name = "journal.jsonl" if options.shard is None else "journal-{}-of-{}.jsonl".format(*options.shard)
    path = Path(os.path.relpath(project / WORKING_FOLDER / name))
    header = journal_header(project, environment, options.base or "")
    if options.resume:
        kept, done = resume_journal(path, header)
        return Plan(project, environment, jobs, kept, done)
    return Plan(project, environment, jobs, _journal(path, header, options))


def _journal(path: Path, header: JournalHeader, options: RunOptions) -> Journal | None:
    """Start the journal; a run whose reports go elsewhere does without it where the project cannot be written."""
    try:
        return start_journal(path, header)
    except UserError as problem:
        if problem.slug != "not-writable" or options.output is None:
            raise
        return None
