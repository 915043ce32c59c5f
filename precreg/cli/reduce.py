"""Which smallest part of a case still fails? `precreg reduce`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from precreg.cli.console import show_report
from precreg.cli.options import config_option, project_of_option
from precreg.cli.trace import choose_case
from precreg.errors import UserError

_STDOUT = Path("-")
_EXIT_CODES = {"reduced": 0, "whole": 1, "passed": 1}


@click.command("reduce")
@click.argument("pattern", metavar="CASE")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Reduce the inputs of this seed.")
@click.option(
    "--output",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reduced"),
    show_default=True,
    help="The project of the reduced suite.",
)
@click.option("--parts", type=click.IntRange(1, 64), default=1, show_default=True, help="Find so many parts that fail.")
@click.option(
    "--runs", type=click.IntRange(1), default=1000, show_default=True, help="Try at most so many sets for each part."
)
@click.option("--environment", metavar="LABEL", help="The label of this environment, for tolerances.")
@click.option(
    "--json", "file", type=click.Path(path_type=Path), metavar="FILE", help="Write it as JSON; - writes it to stdout."
)
@config_option
@click.pass_obj
def reduce_command(
    given: Path | None,
    /,
    pattern: str,
    seed: int,
    output: Path,
    parts: int,
    runs: int,
    environment: str | None,
    file: Path | None,
) -> None:
    """Find the fewest operations of a failing case that still fail, and write them as a suite.

    CASE is a case's id, or a pattern that matches one case. The exit code is 0 if the suite of fewer operations fails,
    1 if there is nothing to reduce, and 2 if the case cannot be reduced.
    """
    from msgspec.structs import replace

    from precreg.environment import detect_environment, limit_blas_threads

    limit_blas_threads()
    project = project_of_option(given)
    case = choose_case(project, pattern)
    from precreg.diagnose.reduction import ReduceSettings, reduce_case
    from precreg.report import reduction_json, render_reduction
    from precreg.storage import replace_file, report_write_errors

    # A project inside the folder of suites would be a tier that no run knows.
    if output.resolve().is_relative_to((project / "suites").resolve()):
        message = f"expected a folder outside of {project / 'suites'} but got {output=!s}"
        raise UserError("bad-value", message, hint="write another folder: --output reduced")
    settings = ReduceSettings(output.absolute(), detect_environment(environment).chain, seed, runs, parts)
    found = replace(reduce_case(case, project, settings), folder=str(output))
    if file == _STDOUT:
        click.echo(reduction_json(found), nl=False)
    elif file is not None:
        with report_write_errors(str(file)):
            replace_file(file, reduction_json(found))
    show_report(render_reduction(found) + "\n", err=file == _STDOUT)
    sys.exit(_EXIT_CODES.get(found.status, 2))
