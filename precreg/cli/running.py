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
from precreg.baseline.proposal import propose
from precreg.baseline.store import Baselines
from precreg.cli.options import RunOptions
from precreg.cli.progress import shown
from precreg.cli.selecting import selected
from precreg.errors import UserError
from precreg.execute import journal
from precreg.execute.environment import detect
from precreg.execute.failure import encodable
from precreg.execute.run import IN_PROCESS, Plan
from precreg.execute.worker_process import prepare
from precreg.pipeline import results, warnings
from precreg.report import terminal
from precreg.report.files import make_folder, write_reports
from precreg.suite.expand import load_cases
from precreg.suite.select import shard
from precreg.types import RECORD_SCHEMA, Case, CaseResult, Environment, Reason, RunRecord
from precreg.verdict.exit_code import NOTHING_TO_JUDGE, exit_code
from precreg.verdict.judge import Policy
from precreg.writing import WORKING_FOLDER

SEARCH_FOR_GARBAGE = 50_000
"""Objects made until garbage is searched for: a run keeps nearly all that it makes, and its values have no cycles."""


def run_and_report(project: Path, options: RunOptions) -> int:
    """Run what is selected, write reports and proposals, print the summary, and return the exit code."""
    began = perf_counter()
    gc.set_threshold(SEARCH_FOR_GARBAGE)
    if options.jobs != IN_PROCESS:
        prepare()
    every = load_cases(project)
    cases = _chosen(project, every, options)
    if not cases and options.shard is None:
        click.echo(f"no case depends on what changed since {options.asked.changed_since}")
        return NOTHING_TO_JUDGE
    folder = options.output or Path(os.path.relpath(project / "reports"))
    make_folder(folder)
    environment, baselines = detect(options.environment), Baselines(project)
    record = _record(project, _results(project, cases, environment, baselines, options), environment, options)
    record = replace(record, warnings=warnings(cases, record.results))
    if len(cases) == len(every):
        record = replace(record, orphans=_orphans(record, every, baselines))
    record = replace(record, duration_s=round(perf_counter() - began, 3))
    propose(project, record.results, environment, record.git, options.environment)
    written = write_reports(record, folder, options.junit_dialect)
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


def _results(
    project: Path, cases: list[Case], environment: Environment, baselines: Baselines, options: RunOptions
) -> list[CaseResult]:
    plan = _plan(project, environment, len(cases), options)
    policy = Policy(ci=options.ci, require=options.require)
    try:
        return sorted(shown(results(cases, plan, policy, baselines), len(cases)), key=lambda result: result.id)
    finally:
        if plan.journal is not None:
            plan.journal.close()


def _plan(project: Path, environment: Environment, cases: int, options: RunOptions) -> Plan:
    """Plan for as many workers as there are processors, unless told otherwise, and open this shard's journal."""
    asked = options.jobs
    jobs = min(cases, (os.cpu_count() or 1) if asked is None else asked)
    name = "journal.jsonl" if options.shard is None else "journal-{}-of-{}.jsonl".format(*options.shard)
    path = Path(os.path.relpath(project / WORKING_FOLDER / name))
    header = journal.header(project, environment)
    if options.resume:
        kept, done = journal.resume(path, header)
        return Plan(project, environment, jobs, kept, done)
    return Plan(project, environment, jobs, journal.start(path, header))


def _record(project: Path, results: list[CaseResult], environment: Environment, options: RunOptions) -> RunRecord:
    selection = asdict(options.asked)
    if options.shard is not None:
        selection["shard"] = "{}/{}".format(*options.shard)
    return RunRecord(
        schema=RECORD_SCHEMA,
        precreg=__version__,
        project=encodable(project.name),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=0.0,
        environment=environment,
        git=vcs.state(project),
        selection={name: value for name, value in selection.items() if value},
        ci=options.ci,
        results=tuple(results),
        exit_code=exit_code((result.verdict for result in results), empty=NOTHING_TO_JUDGE),
    )
