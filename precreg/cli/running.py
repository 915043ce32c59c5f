"""What `precreg run` does when there is something to run. Apart from run.py, so that nothing is imported in vain."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import click
from msgspec.structs import replace

from precreg import __version__, vcs
from precreg.baseline.proposal import pending, propose
from precreg.baseline.store import Baselines
from precreg.cli.options import RunOptions
from precreg.cli.progress import shown
from precreg.cli.selecting import reports_folder, selected
from precreg.errors import UserError
from precreg.execute import journal
from precreg.execute.environment import detect, limit_blas_threads
from precreg.execute.failure import encodable
from precreg.execute.run import IN_PROCESS, Plan
from precreg.execute.worker_process import prepare
from precreg.pipeline import results, warnings
from precreg.records import RECORD_SCHEMA, CaseResult, Environment, GitState, RunRecord
from precreg.report import terminal
from precreg.report.files import make_folder, write_reports
from precreg.suite.expand import load_cases
from precreg.suite.select import shard
from precreg.types import Case, Reason
from precreg.verdict.exit_code import NOTHING_TO_JUDGE, exit_code
from precreg.verdict.judge import Policy
from precreg.writing import WORKING_FOLDER

SEARCH_FOR_GARBAGE = 50_000
"""Objects made until garbage is searched for: a run keeps nearly all that it makes, and its values have no cycles."""

NOTHING_KEPT = f"{WORKING_FOLDER}/ cannot be written: the run has no journal to resume from, and proposes nothing"


def run_and_report(project: Path, options: RunOptions) -> int:
    """Run what is selected, write reports and proposals, print the summary, and return the exit code."""
    limit_blas_threads()
    began = perf_counter()
    gc.set_threshold(SEARCH_FOR_GARBAGE)
    if options.jobs != IN_PROCESS:
        prepare()
    every = load_cases(project)
    cases = _chosen(project, every, options)
    if not cases and options.shard is None:
        click.echo(f"no case depends on what changed since {options.asked.changed_since}")
        return NOTHING_TO_JUDGE
    waiting = pending(project)  # read now, so that a damaged file stops a run that has not begun
    folder = options.output or reports_folder(project)
    make_folder(folder)
    begun, baselines = _begun(project, options), Baselines(project)
    plan = _plan(project, begun.environment, len(cases), options)
    record = _finished(begun, cases, _results(cases, plan, baselines, options), plan)
    whole = len(cases) == len(every)
    if whole:
        record = replace(record, orphans=_orphans(record, every, baselines))
    record = replace(record, duration_s=round(perf_counter() - began, 3))
    written = write_reports(record, folder, options.junit_dialect)
    try:
        if plan.journal is not None:
            gone = set(waiting) - {case.id for case in every} if whole else ()
            propose(project, record.results, record.environment, record.git, options.environment, gone)
    finally:
        text = terminal.render(record, colour=sys.stdout.isatty(), verbose=options.verbose, reports=written)
        click.echo(text, nl=False)
    return record.exit_code


def _orphans(record: RunRecord, every: list[Case], baselines: Baselines) -> tuple[str, ...]:
    """Name the baselines that no case looks up, each with the new case that is defined like it, if there is one."""
    new = {result.definition: result.id for result in record.results if result.verdict.reason is Reason.NEW}
    orphans = baselines.orphans({case.baseline_id for case in every}, record.environment.chain)
    return tuple(
        f"{place} (now {new[entry.definition]})" if entry.definition in new else str(place)
        for place, entry in orphans.items()
    )


def _chosen(project: Path, every: list[Case], options: RunOptions) -> list[Case]:
    """Return the selected cases of this shard; to select none is a mistake unless a change selects them."""
    cases = selected(project, every, options.asked)
    if not cases and options.asked.changed_since is None:
        raise UserError("nothing-selected", f"expected at least one of {len(every)} cases to be selected but got none")
    return cases if options.shard is None else shard(cases, *options.shard)


def _results(cases: list[Case], plan: Plan, baselines: Baselines, options: RunOptions) -> list[CaseResult]:
    policy = Policy(ci=options.ci, require=options.require)
    try:
        return sorted(shown(results(cases, plan, policy, baselines), len(cases)), key=lambda result: result.id)
    finally:
        if plan.journal is not None:
            plan.journal.close()


def _plan(project: Path, environment: Environment, cases: int, options: RunOptions) -> Plan:
    """Plan for as many workers as there are processors, unless told otherwise, and open this shard's journal."""
    jobs = min(cases, _processors() if options.jobs is None else options.jobs)
    name = "journal.jsonl" if options.shard is None else "journal-{}-of-{}.jsonl".format(*options.shard)
    path = Path(os.path.relpath(project / WORKING_FOLDER / name))
    header = journal.header(project, environment)
    if options.resume:
        kept, done = journal.resume(path, header)
        return Plan(project, environment, jobs, kept, done)
    return Plan(project, environment, jobs, _journal(path, header, options))


def _processors() -> int:
    """Count the processors that this process may use: in a container they are often fewer than the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _journal(path: Path, header: journal.Header, options: RunOptions) -> journal.Journal | None:
    """Start the journal; a run whose reports go elsewhere does without it where the project cannot be written."""
    try:
        return journal.start(path, header)
    except UserError as problem:
        if problem.slug != "not-writable" or options.output is None:
            raise
        return None


def _begun(project: Path, options: RunOptions) -> RunRecord:
    """Record what is known before the first case runs."""
    selection = asdict(options.asked)
    if options.shard is not None:
        selection["shard"] = "{}/{}".format(*options.shard)
    git, refused = _git_state(project)
    return RunRecord(
        schema=RECORD_SCHEMA,
        precreg=__version__,
        project=encodable(project.name),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=0.0,
        environment=detect(options.environment),
        git=git,
        selection={name: value for name, value in selection.items() if value},
        ci=options.ci,
        results=(),
        warnings=refused,
    )


def _git_state(project: Path) -> tuple[GitState | None, tuple[str, ...]]:
    """Return the state of the repository, or a warning in git's words where there is one that git refuses."""
    try:
        return vcs.state(project), ()
    except UserError as problem:
        return None, (f"the commit is not known: {' '.join(problem.message.split())}",)


def _finished(begun: RunRecord, cases: list[Case], results: list[CaseResult], plan: Plan) -> RunRecord:
    return replace(
        begun,
        results=tuple(results),
        warnings=(*begun.warnings, *([] if plan.journal else [NOTHING_KEPT]), *warnings(cases, results)),
        exit_code=exit_code((result.verdict for result in results), empty=NOTHING_TO_JUDGE),
    )
