"""Which change made a case worse? `precreg bisect`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from precreg.cli.bisect_precision import precision_options, run_precision_bisection
from precreg.cli.console import show_report
from precreg.cli.options import config_option, project_of_option
from precreg.cli.trace import choose_case
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.diagnose.bisection import SearchRequest
    from precreg.types import Bisection, BisectionRule, BisectionStep

# Exit codes. --step has the codes of `git bisect run`, which gives up at 128.
_FOUND, _NOT_FOUND, _NOT_JUDGED = 0, 1, 2
_STEP_CODES = {"good": 0, "bad": 1, "cannot_run": 125, "unclear": 125}
_GIVE_UP = 128


@click.command("bisect")
@click.argument("pattern", metavar="CASE")
@click.option("--good", metavar="REVISION", help="A commit at which the case was good.")
@click.option("--bad", metavar="REVISION", help="A later one; . is the working tree. Default: HEAD.")
@click.option("--step", is_flag=True, help="Judge the working tree beside --good, as git bisect run wants it.")
@click.option(
    "--package", "packages", metavar="NAME==GOOD..BAD", multiple=True, help="Search releases of a package; repeatable."
)
@click.option(
    "--variable", "variables", metavar="NAME=VALUE", multiple=True, help="Search environment variables; repeatable."
)
@click.option("--flags", multiple=True, metavar="TEXT", help="Search flags of compilers, in a program's build.")
@click.option(
    "--rule",
    type=click.Choice(["loss", "bits"]),
    help="Bad is a loss against the good version, or any other bits. Default: loss, or bits without a loss at the end.",
)
@click.option("--max-seeds", type=click.IntRange(0), help="The most fresh seeds of one paired test. Default: 640.")
@click.option("--pair-seconds", type=click.FloatRange(0), help="The most seconds of one paired test. Default: 20.")
@click.option("--precision", is_flag=True, help="Find the parts that need a wider dtype, with the options below.")
@precision_options
@click.option("--resume", is_flag=True, help="Go on with an interrupted search: the log has its steps.")
@click.option("--json", type=click.Path(path_type=Path), metavar="FILE", help="Write the result as JSON; - is stdout.")
@click.option("--environment", metavar="LABEL", help="The label of this environment, for tolerances.")
@config_option
@click.pass_obj
def bisect_command(
    given: Path | None,
    /,
    pattern: str,
    precision: bool,
    bound: str | None,
    metric: str | None,
    limit: float | None,
    wide: str,
    write: Path | None,
    **options: Any,
) -> None:
    """Find the change that made a case worse, and prove it by undoing it.

    CASE is a case's id, or a pattern that matches one case. Exit codes: 0 the change is found; 1 good and bad do not
    differ; 2 the search could not judge. With --step: 0 good, 1 bad, 125 cannot be judged, 128 no good version.

    With --precision, find the smallest set of modules, nodes or operations that need a wider dtype for the bounds of
    CASE to hold: 0 a set was found, or none is needed; 1 no small set keeps the bound.
    """
    from precreg.environment import limit_blas_threads

    limit_blas_threads()
    chosen = _Options(**options)
    of_precision = {"--bound": bound, "--metric": metric, "--limit": limit, "--write": write}
    if precision:
        chosen.require_none()
        more = {"bound": bound, "metric": metric, "limit": limit, "wide": wide, "write": write}
        sys.exit(
            run_precision_bisection(given, pattern, environment=chosen.environment, json=chosen.json, **more)  # type: ignore[arg-type]
        )
    if needless := [name for name, value in of_precision.items() if value is not None]:
        raise UserError("bad-bisection", f"expected --precision with {needless[0]} but got none")
    chosen.require_one_kind()
    if chosen.step:
        sys.exit(_step_code(given, pattern, chosen))
    _show(_search(_request(given, pattern, chosen), chosen), chosen.json)


class _Options(NamedTuple):
    """Hold the options of the command."""

    good: str | None
    bad: str | None
    step: bool
    packages: tuple[str, ...]
    variables: tuple[str, ...]
    flags: tuple[str, ...]
    rule: BisectionRule | None
    max_seeds: int | None
    pair_seconds: float | None
    resume: bool
    json: Path | None
    environment: str | None

    def _kinds(self) -> list[str]:
        """Return the searches that the options name."""
        given = {
            "--good": self.good is not None or self.bad is not None,
            "--package": bool(self.packages),
            "--variable": bool(self.variables or self.flags),
        }
        return [name for name, is_given in given.items() if is_given]

    def require_none(self) -> None:
        """Refuse options of another search beside --precision. Raises UserError: bad-bisection."""
        if kinds := self._kinds():
            raise UserError("bad-bisection", f"expected --precision alone but got {kinds[0]}, too")

    def require_one_kind(self) -> None:
        """Refuse options of two searches, and none. Raises UserError: bad-bisection."""
        kinds = self._kinds()
        if len(kinds) != 1:
            got = " and ".join(kinds) or "none of them"
            expected = "expected one of --good REVISION, --package, --variable or --flags, and --precision"
            raise UserError("bad-bisection", f"{expected} but got {got}", hint="write --good v1.0 --bad HEAD")
        if self.good is None and (self.bad is not None or self.step):
            raise UserError("bad-bisection", "expected --good REVISION but got none", hint="write --good v1.0")


def _request(given: Path | None, pattern: str, options: _Options) -> SearchRequest:
    from precreg.diagnose.bisection import SearchBudget, SearchRequest
    from precreg.environment import detect_environment

    project = project_of_option(given)
    case = choose_case(project, pattern)
    default = SearchBudget()
    budget = SearchBudget(
        default.seeds if options.max_seeds is None else options.max_seeds,
        default.seconds if options.pair_seconds is None else options.pair_seconds,
    )
    environment = detect_environment(options.environment)
    return SearchRequest(case, project, environment, options.rule, budget, options.resume)


def _search(request: SearchRequest, options: _Options) -> Bisection:
    from precreg.diagnose.bisection import bisect_commits, bisect_packages, bisect_settings

    if options.packages:
        return bisect_packages(request, options.packages, _report)
    if options.variables or options.flags:
        return bisect_settings(request, options.variables, options.flags, _report)
    assert options.good is not None
    return bisect_commits(request, options.good, options.bad or "HEAD", _report)


def _step_code(given: Path | None, pattern: str, options: _Options) -> int:
    """Return the exit code of one step of `git bisect run`."""
    from precreg.diagnose.bisection import judge_working_tree
    from precreg.vcs import commit_of

    assert options.good is not None
    try:
        good = commit_of(project_of_option(given), options.good)
    except UserError as mistake:
        # Without a good version no commit can be judged.
        click.echo(str(mistake), err=True)
        return _GIVE_UP
    try:
        step = judge_working_tree(_request(given, pattern, options), good)
    except UserError as mistake:
        # The suites of this commit may lack the case, or not load.
        click.echo(str(mistake), err=True)
        return _STEP_CODES["cannot_run"]
    _report(step)
    return _GIVE_UP if step.version == good else _STEP_CODES[step.verdict]


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
    show_report(render_bisection(found) + "\n", err=json == Path("-"))
    codes = {"found": _FOUND, "no_difference": _NOT_FOUND, "no_loss": _NOT_FOUND}
    sys.exit(codes.get(found.status, _NOT_JUDGED))
