"""What `precreg run` does when there is something to run. Apart from run.py, so that nothing is imported in vain."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import click
from msgspec.structs import replace

from precreg.baseline.creeping import crept
from precreg.baseline.integrity.against import bar
from precreg.baseline.proposal import pending, propose
from precreg.baseline.store import Baselines, Lookup
from precreg.cli.options import RunOptions
from precreg.cli.paired import effort_of, other_commit, other_version, require_pairable
from precreg.cli.progress import shown
from precreg.cli.selecting import reports_folder, selected
from precreg.environment.environment import limit_blas_threads
from precreg.environment.processors import processors
from precreg.errors import UserError
from precreg.report import report_terminal as terminal
from precreg.report.report_files import make_folder, write_reports
from precreg.run import journal
from precreg.run.pipeline import results
from precreg.run.run import IN_PROCESS, Plan
from precreg.run.session import begin, finish, gone, with_orphans
from precreg.run.versions import paired_results
from precreg.run.worker_process import prepare
from precreg.storage.writing import WORKING_FOLDER
from precreg.suite.expand import load_cases
from precreg.suite.select import none_selected, shard
from precreg.types.records import CaseResult, Environment
from precreg.types.types import Case
from precreg.verdict.judge import Policy

SEARCH_FOR_GARBAGE = 50_000
"""Objects made until garbage is searched for: a run keeps nearly all that it makes, and its values have no cycles."""


NOTHING_KEPT = f"{WORKING_FOLDER}/ cannot be written: the run has no journal to resume from, and proposes nothing"


def run_and_report(project: Path, options: RunOptions, read: list[Case] | None = None) -> int:
    """Run what is selected, write reports and proposals, print the summary, and return the exit code.

    `read` are all cases of the project, where they were read already.
    """
    limit_blas_threads()
    began = perf_counter()
    require_pairable(options)
    gc.set_threshold(SEARCH_FOR_GARBAGE)
    if options.jobs != IN_PROCESS:
        prepare()
    every = load_cases(project) if read is None else read
    baselines = Baselines(project)
    judging = bar(project, options.base, every, baselines)
    cases = _chosen(project, judging.cases, options)
    waiting = pending(project)  # read now, so that a damaged file stops a run that has not begun
    folder = options.output or reports_folder(project)
    make_folder(folder)
    begun = begin(project, _selection(options), environment=options.environment, ci=options.ci)
    found = (*judging.findings, *crept(project, every, begun.environment.chain))
    begun = replace(begun, findings=found, against=judging.commit)
    if options.pair is not None:
        begun = replace(begun, pair=other_commit(project, options.pair))
    plan = _plan(project, begun.environment, len(cases), options)
    ran = _results(cases, plan, judging.baselines, options, begun.pair)
    noticed = [] if plan.journal else [NOTHING_KEPT]
    record = finish(begun, cases, ran, project=project, duration_s=perf_counter() - began, noticed=noticed)
    dropped: set[str] = set()
    if len(cases) == len(every):
        record, dropped = with_orphans(record, every, baselines), gone(waiting, every)
    written = write_reports(record, folder, options.junit_dialect)
    try:
        if plan.journal is not None:
            propose(project, record.results, record.environment, record.git, options.environment, dropped)
    finally:
        text = terminal.render(record, colour=sys.stdout.isatty(), verbose=options.verbose, reports=written)
        click.echo(text, nl=False)
    return record.exit_code


def _selection(options: RunOptions) -> dict[str, Any]:
    shard = None if options.shard is None else "{}/{}".format(*options.shard)
    return options.asked._asdict() | {"shard": shard}


def _chosen(project: Path, every: list[Case], options: RunOptions) -> list[Case]:
    """Return the selected cases of this shard; to select none is a mistake unless a change selects them."""
    cases = selected(project, every, options.asked, options.changed)
    if not cases and options.asked.changed_since is None:
        raise none_selected(every, options.asked.patterns)
    return cases if options.shard is None else shard(cases, *options.shard)


def _results(cases: list[Case], plan: Plan, baselines: Lookup, options: RunOptions, commit: str) -> list[CaseResult]:
    number = baselines.number(plan.environment.chain)
    policy = Policy(ci=options.ci, require=options.require, baselines=number)
    try:
        if options.pair is None:
            return list(shown(results(cases, plan, policy, baselines), len(cases)))
        effort = effort_of(options)
        with other_version(plan.project, options.pair, commit) as version:
            return list(shown(paired_results(cases, plan, policy, baselines, version, effort), len(cases)))
    finally:
        if plan.journal is not None:
            plan.journal.close()


def _plan(project: Path, environment: Environment, cases: int, options: RunOptions) -> Plan:
    """Plan for as many workers as there are processors, unless told otherwise, and open this shard's journal."""
    jobs = min(cases, processors() if options.jobs is None else options.jobs)
    name = "journal.jsonl" if options.shard is None else "journal-{}-of-{}.jsonl".format(*options.shard)
    path = Path(os.path.relpath(project / WORKING_FOLDER / name))
    header = journal.header(project, environment, options.base or "")
    if options.resume:
        kept, done = journal.resume(path, header)
        return Plan(project, environment, jobs, kept, done)
    return Plan(project, environment, jobs, _journal(path, header, options))


def _journal(path: Path, header: journal.Header, options: RunOptions) -> journal.Journal | None:
    """Start the journal; a run whose reports go elsewhere does without it where the project cannot be written."""
    try:
        return journal.start(path, header)
    except UserError as problem:
        if problem.slug != "not-writable" or options.output is None:
            raise
        return None
