"""`precreg report`: the reports once more, from records alone; shards become one run.

`precreg power`: the smallest loss that would be caught, case by case, from what baselines keep.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from precreg.baseline import Baselines
from precreg.cli.options import CaseOptions, project_of_option, reports_folder, select_by_options, selection_options
from precreg.environment import detect_environment
from precreg.errors import UserError
from precreg.report import JunitDialect, power_json, read_merged_run, render_power, render_run_terminal, write_reports
from precreg.suite import load_cases, no_case_error
from precreg.tolerance import resolve_tolerance
from precreg.types import Case, Environment
from precreg.verdict import CasePower, case_alpha, detectable_losses


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--output", type=click.Path(path_type=Path), help="The folder of the reports; reports/ in the project.")
@click.option("--junit-dialect", type=click.Choice(["gitlab", "strict"]), default="gitlab", help="Of junit.xml.")
@click.option("--verbose", "-v", is_flag=True, help="Show the cases that passed, too.")
@click.pass_obj
def report_command(
    given: Path | None, /, runs: tuple[Path, ...], output: Path | None, junit_dialect: JunitDialect, verbose: bool
) -> None:
    """Make the reports again from run records. RUN is a record.json or a folder that has one.

    The exit code is that of the merged run.
    """
    record = read_merged_run(runs)
    written = write_reports(record, output or _folder(given), junit_dialect)
    click.echo(render_run_terminal(record, colour=sys.stdout.isatty(), verbose=verbose, reports=written), nl=False)
    sys.exit(record.exit_code)


def _folder(given: Path | None) -> Path:
    """Choose the project's reports/; records may be merged where no project is, and then that of the current folder."""
    try:
        return reports_folder(project_of_option(given))
    except UserError:
        if given is not None:
            raise
        return Path("reports")


@click.command("power")
@selection_options
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Whose baselines: a device's label.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.pass_obj
def power_command(given: Path | None, /, asked: CaseOptions, environment: str | None, as_json: bool) -> None:
    """Tell the smallest loss of each case that would be caught, from what its baseline keeps. Nothing is run.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? [].
    """
    project = project_of_option(given)
    every = load_cases(project)
    cases = select_by_options(project, every, asked)
    if not cases and asked.changed_since is None:
        raise no_case_error(every, asked.patterns)
    here, baselines = detect_environment(environment), Baselines(project)
    number = baselines.number(here.chain)
    level = case_alpha(number)
    powers = [_power(case, baselines, here, level) for case in cases]
    click.echo(
        power_json(powers, level, number, here.label) if as_json else render_power(powers, level, number), nl=as_json
    )


def _power(case: Case, baselines: Baselines, environment: Environment, level: float) -> CasePower:
    baseline = baselines.lookup(case.baseline_id, environment.chain)
    if baseline is None:
        return CasePower(case.id, why=_without_baseline(case, environment))
    entry = baseline.entry
    if entry.definition != case.baseline_definition:
        return CasePower(case.id, why=f"defined otherwise than it was accepted in {baseline.file}")
    tolerances = {
        name: resolve_tolerance(case.layers, name, output.dtype, environment.chain)
        for name, output in entry.outputs.items()
    }
    same = entry.fingerprint == environment.fingerprint
    losses = detectable_losses(case, entry, tolerances, alpha=level, same_environment=same)
    return CasePower(case.id, losses, same_environment=same)


def _without_baseline(case: Case, environment: Environment) -> str:
    if case.expect_failure is not None:
        return "expected to fail, which needs no baseline"
    return f"no baseline in {', '.join(environment.chain)}"
