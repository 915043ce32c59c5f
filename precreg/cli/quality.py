"""Which arguments and which output have `precreg calibrate`, `precreg faults` and `precreg selftest`?

calibrate compares the bounds of cases with their noise. faults and selftest plant faults in cases: one lists the
effect of each fault, the other counts how many the gate catches.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isinf, isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.console import quiet_option, show_report, terminal_width
from precreg.cli.options import CaseOptions, dask_options, project_of_option, selection_options
from precreg.environment import limit_blas_threads
from precreg.errors import UserError
from precreg.quality import DEFAULT_REPLICATES, DEFAULT_SLACK, DEFAULT_VACUOUS

if TYPE_CHECKING:
    from precreg.arithmetic.faults import Fault
    from precreg.quality import CaseCalibration, Margins, Score, Uncalibrated, Unplanted
    from precreg.run import ClusterRequest, Plan
    from precreg.types import Case


def _factor(_context: click.Context, _option: click.Parameter, value: float) -> float:
    # nan passes every range, and inf every range without a maximum.
    if isnan(value) or isinf(value):
        raise click.BadParameter(f"{value} is not a finite number.")
    return value


@click.command("calibrate")
@selection_options
@click.option("--jobs", "-j", type=click.IntRange(0), help="Worker processes; 0 runs unprotected in this process.")
@dask_options
@click.option(
    "--replicates",
    type=click.IntRange(1),
    default=DEFAULT_REPLICATES,
    show_default=True,
    metavar="N",
    help="Runs with other seeds, and as many with inputs moved in their last bits.",
)
@click.option(
    "--slack",
    type=click.FloatRange(1),
    default=DEFAULT_SLACK,
    show_default=True,
    callback=_factor,
    metavar="RATIO",
    help="Propose a limit so many times above the noise.",
)
@click.option(
    "--vacuous",
    type=click.FloatRange(1),
    default=DEFAULT_VACUOUS,
    show_default=True,
    callback=_factor,
    metavar="RATIO",
    help="A limit is vacuous so many times above the largest noise.",
)
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Where this runs: a device's label.")
@click.option("--unsound", "unsound_alone", is_flag=True, help="Show only the bounds in the table that are not sound.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the proposals as tolerances of suites.")
@quiet_option("")
@click.pass_obj
def calibrate_command(
    given: Path | None,
    /,
    case_options: CaseOptions,
    jobs: int | None,
    cluster: ClusterRequest | None,
    replicates: int,
    slack: float,
    vacuous: float,
    environment: str | None,
    unsound_alone: bool,
    as_json: bool,
    as_yaml: bool,
) -> None:
    """Run replicates of the selected cases, and compare every bound with the noise that they show.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? []. Nothing is written.

    Exit codes: 1 a bound is broken or flaky; 2 nothing could be calibrated; 0 otherwise.
    """
    if as_json and as_yaml:
        raise click.UsageError("--json and --yaml exclude each other.")
    # First, because BLAS reads its variables when numpy is loaded. A case's own run has the bits of `precreg run` only
    # with as many threads.
    limit_blas_threads()
    from precreg.quality import Margins, calibration_exit_code
    from precreg.report import calibration_json, calibration_yaml, render_calibrations

    margins = Margins(slack, vacuous)
    found, left_out = calibrate_with_progress(
        project_of_option(given), case_options, jobs, cluster, replicates, margins, environment
    )
    if as_json:
        shown = calibration_json(found, left_out, replicates, margins) + "\n"
    elif as_yaml:
        shown = calibration_yaml(found)
    else:
        width = terminal_width(sys.stdout)
        shown = render_calibrations(found, left_out, all_shown=not unsound_alone, width=width)
    show_report(shown) if not (as_json or as_yaml) else click.echo(shown, nl=False)
    sys.exit(calibration_exit_code(found))


def calibrate_with_progress(
    project: Path,
    case_options: CaseOptions,
    jobs: int | None,
    cluster: ClusterRequest | None,
    replicates: int,
    margins: Margins,
    environment: str | None,
) -> tuple[list[CaseCalibration], list[Uncalibrated]]:
    """Calibrate the selected cases with progress on stderr; return calibrations in the order of the cases.

    With `jobs` None there are as many workers as processors. Raises UserError: nothing-selected, nothing-to-calibrate,
    and the errors of a run.
    """
    from precreg.cli.console import show_calibration_progress
    from precreg.quality import CaseCalibration, Uncalibrated, run_calibrations

    cases = _find_some(project, case_options)
    with _open_plan(project, jobs, cluster, environment) as plan:
        came = list(show_calibration_progress(run_calibrations(cases, plan, replicates, margins), len(cases)))
    order = {case.id: place for place, case in enumerate(cases)}
    # Workers finish in any order, and the output must not depend on it.
    came.sort(key=lambda each: order[each.case])
    found = [each for each in came if isinstance(each, CaseCalibration)]
    left_out = [each for each in came if isinstance(each, Uncalibrated)]
    # An empty table would look like a calibration without problems.
    if not found:
        from precreg.report import describe_uncalibrated

        first = left_out[0]
        others = f", and {len(left_out) - 1} more" if left_out[1:] else ""
        message = (
            f"expected a case whose noise can be measured but got {first.case}: {describe_uncalibrated(first)}{others}"
        )
        raise UserError("nothing-to-calibrate", message)
    return found, left_out


@click.command("faults")
@selection_options
@click.option("--fault", "names", multiple=True, metavar="NAME", help="Only this fault or harmless change.")
@click.option("--list", "listed", is_flag=True, help="List the faults and harmless changes, and plant none.")
@click.option("--jobs", "-j", type=click.IntRange(0), help="Worker processes; 0 runs unprotected in this process.")
@dask_options
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="Run only the first N seeds of a case.")
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Where this runs: a device's label.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--verbose", "-v", is_flag=True, help="Show faults without effect too.")
@quiet_option("")
@click.pass_obj
def faults_command(
    given: Path | None,
    /,
    case_options: CaseOptions,
    names: tuple[str, ...],
    listed: bool,
    jobs: int | None,
    cluster: ClusterRequest | None,
    seeds: int | None,
    environment: str | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Plant faults in the selected cases, judge each by the case's own baseline, and show which are caught.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? []. Nothing is written.

    Exit codes: 2 nothing could be judged; 0 otherwise.
    """
    limit_blas_threads()  # before numpy is loaded, as in calibrate_command
    from precreg.arithmetic.faults import FAULTS, HARMLESS_CHANGES, fault_named
    from precreg.report import render_faults, render_scores

    faults = [fault_named(name) for name in dict.fromkeys(names)] or [*FAULTS.values(), *HARMLESS_CHANGES.values()]
    if listed:
        from msgspec import json

        if as_json:
            click.echo(json.format(json.encode(faults), indent=2))
        else:
            show_report(render_faults(faults, terminal_width(sys.stdout)))
        return
    from precreg.quality import is_any_judged
    from precreg.report import scores_json

    scores, unplanted = plant_with_progress(
        project_of_option(given), case_options, faults, jobs, cluster, seeds, environment
    )
    if as_json:
        click.echo(scores_json(scores, unplanted))
    else:
        show_report(render_scores(scores, unplanted, all_shown=verbose, width=terminal_width(sys.stdout)))
    sys.exit(0 if is_any_judged(scores) else 2)


def _share(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    # nan passes every range, and no rate would ever break it.
    if value is not None and isnan(value):
        raise click.BadParameter("nan is not a share from 0 to 1.")
    return value


@click.command("selftest")
@selection_options
@click.option("--jobs", "-j", type=click.IntRange(0), help="Worker processes; 0 runs unprotected in this process.")
@dask_options
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="Run only the first N seeds of a case.")
@click.option("--environment", envvar="PRECREG_ENVIRONMENT", metavar="LABEL", help="Where this runs: a device's label.")
@click.option(
    "--at-least",
    type=click.FloatRange(0, 1),
    callback=_share,
    metavar="SHARE",
    help="Fail if fewer of the faults that make results worse are caught.",
)
@click.option(
    "--at-most",
    type=click.FloatRange(0, 1),
    callback=_share,
    metavar="SHARE",
    help="Fail if more of the harmless changes are flagged.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@quiet_option("")
@click.pass_obj
def selftest_command(
    given: Path | None,
    /,
    case_options: CaseOptions,
    jobs: int | None,
    cluster: ClusterRequest | None,
    seeds: int | None,
    environment: str | None,
    at_least: float | None,
    at_most: float | None,
    as_json: bool,
) -> None:
    """Plant every fault and every harmless change in every selected case, and print detection and false-alarm rates.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? []. Nothing is written.

    Exit codes: 1 a rate breaks --at-least or --at-most; 2 nothing could be judged; 0 otherwise.
    """
    limit_blas_threads()  # before numpy is loaded, as in calibrate_command
    from precreg.arithmetic.faults import FAULTS, HARMLESS_CHANGES
    from precreg.quality import broken_limits, is_any_judged, tally_scores
    from precreg.report import describe_broken_rate, render_tallies, scores_json

    faults = [*FAULTS.values(), *HARMLESS_CHANGES.values()]
    scores, unplanted = plant_with_progress(
        project_of_option(given), case_options, faults, jobs, cluster, seeds, environment
    )
    if as_json:
        click.echo(scores_json(scores, unplanted))
    else:
        show_report(render_tallies(scores, unplanted, terminal_width(sys.stdout)))
    problems = broken_limits(tally_scores("all", scores), at_least, at_most)
    for problem in problems:
        click.echo(describe_broken_rate(problem), err=True)
    # No judgement comes before broken limits: rates of nothing prove nothing.
    sys.exit(2 if not is_any_judged(scores) else 1 if problems else 0)


def plant_with_progress(
    project: Path,
    case_options: CaseOptions,
    faults: Sequence[Fault],
    jobs: int | None,
    cluster: ClusterRequest | None,
    seeds: int | None,
    environment: str | None,
) -> tuple[list[Score], list[Unplanted]]:
    """Plant faults in the selected cases with progress on stderr; return scores in the order of cases and faults.

    With `jobs` None there are as many workers as processors, and with `seeds` None every case runs all its seeds.
    Raises UserError: nothing-selected, and the errors of a run.
    """
    from precreg.baseline import Baselines
    from precreg.cli.console import show_score_progress
    from precreg.quality import Score, Unplanted, run_scores, unplantable_case

    cases = [_limit_seeds(case, seeds) for case in _find_some(project, case_options)]
    # A case without a plantable fault gives one answer, so the bar reaches its end.
    total = sum(1 if unplantable_case(case) is not None else len(faults) for case in cases)
    with _open_plan(project, jobs, cluster, environment) as plan:
        came = list(show_score_progress(run_scores(cases, faults, plan, Baselines(project)), total))
    order = {case.id: place for place, case in enumerate(cases)}
    by_fault = {fault.name: place for place, fault in enumerate(faults)}
    found = [each for each in came if isinstance(each, Score)]
    unplanted = [each for each in came if isinstance(each, Unplanted)]
    found.sort(key=lambda score: (order[score.case], by_fault[score.fault]))
    return found, sorted(unplanted, key=lambda each: order[each.case])


def _find_some(project: Path, case_options: CaseOptions) -> list[Case]:
    """Return the selected cases. Raises UserError: nothing-selected."""
    from precreg.cli.options import find_by_options
    from precreg.suite import no_case_error, project_cases

    cases = find_by_options(project, case_options)
    # A calibration or a rate of no case would look like a result.
    if not cases:
        raise no_case_error(project_cases(project).listed, case_options.changed_since)
    return cases


@contextmanager
def _open_plan(
    project: Path, jobs: int | None, cluster: ClusterRequest | None, environment: str | None
) -> Iterator[Plan]:
    """Yield the plan of a command with its workers; print which workers of a cluster were lost or refused.

    Raises UserError as `open_cluster` does.
    """
    from precreg.environment import count_processors, detect_environment
    from precreg.report import describe_cluster_warning
    from precreg.run import IN_PROCESS, Plan, open_cluster, start_fork_server

    jobs = count_processors() if jobs is None else jobs
    if cluster is None and jobs != IN_PROCESS:
        start_fork_server()
    here = detect_environment(environment)
    if cluster is None:
        yield Plan(project, here, jobs)
        return
    with open_cluster(cluster, project, here) as place:
        yield Plan(project, here, jobs, cluster=place)
        for warning in place.warnings():
            click.echo(f"precreg: {describe_cluster_warning(warning)}", err=True)


def _limit_seeds(case: Case, max_seeds: int | None) -> Case:
    from msgspec.structs import replace

    # Fewer seeds make a run cheaper. More than the baseline has would leave nothing to compare them with.
    return case if max_seeds is None else replace(case, seeds=min(case.seeds, max_seeds))
