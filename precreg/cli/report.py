"""Which reports need no run?

`precreg report` makes the reports again from records, and merges shards. `precreg power` computes, from its baseline,
the smallest loss that each case would detect.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.console import (
    color_option,
    format_option,
    print_summary,
    show_report,
    terminal_width,
    verbosity_options,
)
from precreg.cli.options import CaseOptions, project_of_option, select_by_options, selection_options
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.baseline import Baselines
    from precreg.report import JunitDialect, Language, Verbosity
    from precreg.types import BaselineEntry, Case, Environment
    from precreg.verdict import CasePower, PowerGap


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--output", type=click.Path(path_type=Path), help="The folder of the reports; reports/ in the project.")
@click.option("--junit-dialect", type=click.Choice(["gitlab", "strict"]), default="gitlab", help="Of junit.xml.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="The language of report.html.")
@color_option
@verbosity_options
@format_option
@click.pass_obj
def report_command(
    given: Path | None,
    /,
    runs: tuple[Path, ...],
    output: Path | None,
    junit_dialect: JunitDialect,
    lang: Language,
    verbosity: Verbosity,
    output_format: str,
) -> None:
    """Make the reports again from run records. RUN is a record.json or a folder that has one.

    The exit code is the merged run's.
    """
    from precreg.report import read_merged_run, write_reports

    record = read_merged_run(runs)
    # As after a run: a sharded job then has the same reports and the same exit code.
    written = write_reports(record, output or _folder(given), junit_dialect, lang)
    print_summary(record, written, verbosity=verbosity, output_format=output_format)
    # The job that merges shards is the gate, so it must fail as an unsharded run would.
    sys.exit(record.exit_code)


def _folder(given: Path | None) -> Path:
    """Return the project's reports/, or reports/ in the current folder: shards may be merged outside a project."""
    from precreg.report import reports_folder

    try:
        return reports_folder(project_of_option(given))
    except UserError:
        # A project that was named and is not there is a mistake.
        if given is not None:
            raise
        return Path("reports")


@click.command("power")
@selection_options
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Use the baselines of this label.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.pass_obj
def power_command(given: Path | None, /, case_options: CaseOptions, environment: str | None, as_json: bool) -> None:
    """Show the smallest loss that each case would detect, from its baseline. Nothing runs.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? [].
    """
    from precreg.environment import detect_environment, limit_blas_threads

    limit_blas_threads()  # before anything imports numpy: the environment must equal a run's
    from precreg.baseline import Baselines, read_environment_facts
    from precreg.report import power_json, render_power
    from precreg.suite import load_cases, no_case_error
    from precreg.verdict import case_alpha

    project = project_of_option(given)
    every = load_cases(project)
    cases = select_by_options(project, every, case_options)
    # A change may affect no case; any other empty selection is a misspelt name.
    if not cases and case_options.changed_since is None:
        raise no_case_error(every)
    here, baselines = detect_environment(environment), Baselines(project)
    number = baselines.number(here.chain)
    # As in a run: all baselines of the environment share one family-wise error level.
    alpha = case_alpha(number)
    known = read_environment_facts(project)
    powers = [_case_power(case, baselines, here, known, alpha) for case in cases]
    if as_json:
        click.echo(power_json(powers, alpha, number, here.label))
    else:
        show_report(render_power(powers, alpha, number, terminal_width(sys.stdout)))


def _case_power(
    case: Case, baselines: Baselines, environment: Environment, known: Mapping[str, Mapping[str, str]], alpha: float
) -> CasePower:
    """Return the detectable losses of one case, or the reason why there are none; `known` are facts by fingerprint."""
    from precreg.baseline import expected_environment
    from precreg.verdict import CasePower, PowerGap

    baseline = baselines.lookup(case.baseline_id, environment.chain)
    if baseline is None:
        return CasePower(case.id, gap=_without_baseline(case, environment))
    entry = baseline.entry
    # Sums of another definition are no evidence about this case.
    if entry.definition != case.baseline_definition:
        return CasePower(case.id, gap=PowerGap("redefined", baseline.file))
    is_seen = expected_environment(case, baseline, known, environment).has_seen(entry)
    return entry_power(case, entry, environment.chain, alpha, same_environment=is_seen)


def entry_power(
    case: Case, entry: BaselineEntry, chain: tuple[str, ...], alpha: float, *, same_environment: bool
) -> CasePower:
    """Return the detectable losses of a case by an entry of its definition, with the tolerances of the chain."""
    from precreg.tolerance import resolve_tolerance
    from precreg.verdict import CasePower, detectable_losses

    # Today's tolerances and not the accepted ones: the table answers which loss the next run would catch.
    tolerances = {
        name: resolve_tolerance(case.layers, name, output.dtype, chain) for name, output in entry.outputs.items()
    }
    losses = detectable_losses(case, entry, tolerances, alpha=alpha, same_environment=same_environment)
    return CasePower(case.id, losses, same_environment=same_environment)


def _without_baseline(case: Case, environment: Environment) -> PowerGap:
    from precreg.verdict import PowerGap

    if case.expect_failure is not None:
        return PowerGap("expected_failure")
    return PowerGap("no_baseline", ", ".join(environment.chain))
