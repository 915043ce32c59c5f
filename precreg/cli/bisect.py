"""Which change made a case worse? `precreg bisect`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.options import config_option, project_of_option
from precreg.cli.trace import choose_case
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.types import Bisection, BisectionRule, BisectionStep

# Exit codes. Those of --step are those of `git bisect run`; it gives up at 128.
_FOUND, _NOT_FOUND, _NOT_JUDGED = 0, 1, 2
_STEP_CODES = {"good": 0, "bad": 1, "cannot_run": 125, "unclear": 125}
_GIVE_UP = 128


@click.command("bisect")
@click.argument("pattern", metavar="CASE")
@click.option("--good", metavar="REVISION", help="A commit at which the case was good.")
@click.option(
    "--bad", metavar="REVISION", default="HEAD", show_default=True, help="A later one; . is the working tree."
)
@click.option(
    "--rule",
    type=click.Choice(["loss", "bits"]),
    help="Bad is a loss against the good version, or any other bits. Default: loss, or bits without a loss at the end.",
)
@click.option("--max-seeds", type=click.IntRange(0), help="The most fresh seeds of one paired test. Default: 640.")
@click.option("--pair-seconds", type=click.FloatRange(0), help="The most seconds of one paired test. Default: 20.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted search: the log has its steps.")
@click.option("--json", type=click.Path(path_type=Path), metavar="FILE", help="Write the result as JSON; - is stdout.")
@click.option("--environment", metavar="LABEL", help="The label of this environment, for tolerances.")
@config_option
@click.pass_obj
def bisect_command(
    given: Path | None,
    /,
    pattern: str,
    good: str | None,
    bad: str,
    rule: BisectionRule | None,
    max_seeds: int | None,
    pair_seconds: float | None,
    resume: bool,
    json: Path | None,
    environment: str | None,
) -> None:
    """Find the change that made a case worse, and prove it by undoing it.

    CASE is a case's id, or a pattern that matches one case. Exit codes: 0 the change is found; 1 good and bad do not
    differ; 2 the search could not judge.
    """
    from precreg.diagnose.bisection import SearchBudget, SearchRequest, bisect_commits
    from precreg.environment import detect_environment, limit_blas_threads

    limit_blas_threads()
    project = project_of_option(given)
    case = choose_case(project, pattern)
    default = SearchBudget()
    budget = SearchBudget(
        default.seeds if max_seeds is None else max_seeds, default.seconds if pair_seconds is None else pair_seconds
    )
    request = SearchRequest(case, project, detect_environment(environment), rule, budget, resume)
    if good is None:
        raise UserError("bad-bisection", "expected --good REVISION but got none; example: --good v1.0 --bad HEAD")
    _show(bisect_commits(request, good, bad, _report), json)


def _report(step: BisectionStep) -> None:
    from precreg.report import describe_bisection_step

    click.echo(describe_bisection_step(step), err=True)


def _show(found: Bisection, json: Path | None) -> None:
    from precreg.report import bisection_json, render_bisection
    from precreg.storage import replace_file, report_write_errors

    if json is not None and json != Path("-"):
        with report_write_errors(str(json)):
            replace_file(json, bisection_json(found))
    if json == Path("-"):
        click.echo(bisection_json(found), nl=False)
    click.echo(render_bisection(found), err=json == Path("-"))
    codes = {"found": _FOUND, "no_difference": _NOT_FOUND, "no_loss": _NOT_FOUND}
    sys.exit(codes.get(found.status, _NOT_JUDGED))
