"""Which reports need no run?

`precreg report` makes the reports again from records, merges shards, and compares two runs. `precreg power` computes,
from its baseline, the smallest loss that each case would detect.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.console import (
    color_option,
    has_colour,
    print_summary,
    show_report,
    terminal_width,
    verbosity_options,
)
from precreg.cli.options import CaseOptions, find_by_options, project_of_option, selection_options
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.baseline import Baselines
    from precreg.report import ComparedPaths, JunitDialect, Language, RunComparison, Verbosity
    from precreg.types import BaselineEntry, Case, Environment
    from precreg.verdict import CasePower, PowerGap

_COMPARISON_FORMATS = ("markdown", "json", "html")
_COMPARE_EXAMPLE = "precreg report --compare reports earlier/reports"


@click.command("report")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--compare", is_flag=True, help="Compare two runs instead: the first RUN is the new one, the second one is earlier."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="The folder of the reports; reports/ in the project. Of --compare: a file in place of stdout.",
)
@click.option("--junit-dialect", type=click.Choice(["gitlab", "strict"]), default="gitlab", help="Of junit.xml.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="The language of the HTML page.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "github", *_COMPARISON_FORMATS]),
    default="text",
    help="github adds annotations, and appends summary.md to GITHUB_STEP_SUMMARY; the last three are of --compare.",
)
@color_option
@verbosity_options
@click.pass_obj
def report_command(
    given: Path | None,
    /,
    runs: tuple[Path, ...],
    compare: bool,
    output: Path | None,
    junit_dialect: JunitDialect,
    lang: Language,
    verbosity: Verbosity,
    output_format: str,
) -> None:
    """Make the reports again from run records. RUN is a record.json or a folder that has one.

    The exit code is the merged run's. Of --compare: 1 if a case that passed fails now, or is significantly worse;
    otherwise 2 if a case could not be compared; otherwise 0.
    """
    from precreg.report import read_merged_run, write_reports

    _require_fitting_options(runs, compare, output_format)
    if compare:
        current, baseline = runs
        sys.exit(compare_and_print(current, baseline, output_format=output_format, output=output, language=lang))
    record = read_merged_run(runs)
    # As after a run: a sharded job then has the same reports and the same exit code.
    written = write_reports(record, output or _folder(given), junit_dialect, lang)
    print_summary(record, written, verbosity=verbosity, output_format=output_format)
    # The job that merges shards is the gate, so it must fail as an unsharded run would.
    sys.exit(record.exit_code)


def _require_fitting_options(runs: Sequence[Path], compare: bool, output_format: str) -> None:
    """Refuse options that exclude each other. Raises UserError (bad-option)."""
    if compare and len(runs) != 2:
        named = f": {', '.join(map(str, runs))}" if runs else ""
        merged = "; merge the shards of each run first: precreg report part1 part2 --output merged"
        hint = f"name the new run, then the earlier one: {_COMPARE_EXAMPLE}{merged if len(runs) > 2 else ''}"
        raise UserError("bad-option", f"expected two runs to compare but got {len(runs)}{named}", hint=hint)
    if compare and output_format == "github":
        hint = "write --format markdown: precreg report --compare A B --format markdown >> $GITHUB_STEP_SUMMARY"
        raise UserError("bad-option", "expected a format of comparisons but got --format github", hint=hint)
    if not runs:
        hint = f"name the folder of its reports: precreg report reports; two runs: {_COMPARE_EXAMPLE}"
        raise UserError("bad-option", "expected the record of a run but got none", hint=hint)
    if not compare and output_format in _COMPARISON_FORMATS:
        hint = f"compare two runs ({_COMPARE_EXAMPLE}), or leave it out: precreg report reports writes every report"
        raise UserError("bad-option", f"expected --compare beside --format {output_format}", hint=hint)


@click.command("compare_with_baseline")
@click.option("--current", required=True, type=click.Path(path_type=Path), metavar="RUN", help="The new run.")
@click.option("--baseline", required=True, type=click.Path(path_type=Path), metavar="RUN", help="The earlier run.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", *_COMPARISON_FORMATS]),
    default="text",
    help="Of the output. Default: text.",
)
@click.option("--output", type=click.Path(path_type=Path), help="A file in place of stdout.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="The language of the HTML page.")
@color_option
def compare_with_baseline_command(
    current: Path, baseline: Path, output_format: str, output: Path | None, lang: Language
) -> None:
    """Compare two runs, as precreg report --compare does. RUN is a record.json or a folder that has one.

    Exit codes: 1 if a case that passed fails now, or is significantly worse; otherwise 2 if a case could not be
    compared; otherwise 0.
    """
    sys.exit(compare_and_print(current, baseline, output_format=output_format, output=output, language=lang))


def compare_and_print(
    current: Path, baseline: Path, *, output_format: str, output: Path | None, language: Language
) -> int:
    """Compare two run records, print or write the result, and return the exit code.

    Raises:
        UserError: as `read_merged_run` and `compare_records`; not-comparable for one file twice; not-writable.
    """
    from precreg.report import ComparedPaths, compare_records, find_record, read_merged_run
    from precreg.storage import replace_file, report_write_errors

    files = [find_record(path) for path in (current, baseline)]
    if files[0].exists() and files[1].exists() and files[0].samefile(files[1]):
        hint = f"name the new record, then the earlier one: {_COMPARE_EXAMPLE}"
        raise UserError("not-comparable", "expected two records but got one twice", file=str(files[0]), hint=hint)
    comparison = compare_records(*(read_merged_run([path]) for path in (current, baseline)))
    paths = ComparedPaths(*(path.as_posix() for path in (current, baseline)))
    text = _comparison_text(comparison, paths, output_format, language, to_file=output is not None)
    if output is None:
        click.echo(text, nl=False)
    else:
        with report_write_errors(str(output)):
            replace_file(output, text.encode())
    return comparison.exit_code


def _comparison_text(
    comparison: RunComparison, paths: ComparedPaths, output_format: str, language: Language, *, to_file: bool
) -> str:
    from precreg.report import (
        comparison_json,
        render_two_runs_html,
        render_two_runs_markdown,
        render_two_runs_terminal,
    )

    if output_format == "json":
        return comparison_json(comparison, paths)
    if output_format == "markdown":
        return render_two_runs_markdown(comparison, paths)
    if output_format == "html":
        return render_two_runs_html(comparison, paths, language)
    if to_file:
        return render_two_runs_terminal(comparison, paths)
    return render_two_runs_terminal(comparison, paths, width=terminal_width(sys.stdout), colour=has_colour(sys.stdout))


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
    from precreg.verdict import case_alpha

    project = project_of_option(given)
    # A change may affect no case; any other empty selection is a misspelt name.
    cases = find_by_options(project, case_options)
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
