"""Which inputs of a case have the largest errors? `precreg search`."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.console import show_report
from precreg.cli.options import config_option, project_of_option
from precreg.cli.trace import choose_case

if TYPE_CHECKING:
    from precreg.diagnose.worst_inputs import FoundInputs
    from precreg.types import Case, Search

_PATH = click.Path(path_type=Path)
_STDOUT = Path("-")
# Types.SEARCH_METRICS, whose import would delay every command. A test compares them.
_METRICS = ("max_ulp", "max_rel_error", "max_abs_error", "tolerance")
_DEFAULT_SECONDS = 30.0


@click.command("search")
@click.argument("pattern", metavar="CASE")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    help=f"Search so long; by default {_DEFAULT_SECONDS:g}, or without a limit beside --trials.",
)
@click.option("--trials", type=click.IntRange(1), help="Search with so many trials: the same result on every run.")
@click.option(
    "--metric", type=click.Choice(_METRICS), default="max_ulp", show_default=True, help="Search for its maximum."
)
@click.option(
    "--ranges",
    "--range",
    "ranges",
    multiple=True,
    metavar="NAME=[LOW,HIGH]",
    help="The range of an input, once for each input; inf admits infinities, and a third item nan admits NaN.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Start from the inputs of this seed."
)
@click.option(
    "--output", type=_PATH, metavar="FILE.yaml", help="Write the worst inputs as a suite beside the case's own."
)
@click.option("--force", is_flag=True, help="Replace the file of --output.")
@click.option("--json", type=_PATH, metavar="FILE", help="Write the search as JSON; - writes it to stdout.")
@click.option("--environment", metavar="LABEL", help="The label of this environment, for tolerances.")
@config_option
@click.pass_obj
def search_command(
    given: Path | None,
    /,
    pattern: str,
    seconds: float | None,
    trials: int | None,
    metric: str,
    ranges: tuple[str, ...],
    seed: int,
    output: Path | None,
    force: bool,
    json: Path | None,
    environment: str | None,
) -> None:
    """Search the inputs of a case with the largest errors, within the ranges of its inputs.

    CASE is a case's id, or a pattern that matches one case. Nothing is judged: the exit code is 0 after a search.
    """
    from precreg.environment import detect_environment, limit_blas_threads

    limit_blas_threads()
    project = project_of_option(given)
    case = choose_case(project, pattern)
    from precreg.diagnose.worst_inputs import SearchSettings, parse_ranges, require_suite_path, search_case

    declared = parse_ranges(ranges)
    path = None if output is None else require_suite_path(case, output, project, force=force)
    limit = seconds or (_DEFAULT_SECONDS if trials is None else inf)
    chain = detect_environment(environment).chain
    found = search_case(case, project, SearchSettings(metric, limit, trials or inf, seed, declared, chain))
    search = found.search if path is None else _with_suite(case, found, path, project)
    _show(search, json)


def _with_suite(case: Case, found: FoundInputs, path: Path, project: Path) -> Search:
    """Write the worst inputs as a suite, and return the search that names it."""
    from msgspec.structs import replace

    from precreg.diagnose.worst_inputs import write_worst_suite
    from precreg.report import search_story

    about = search_story(found.search)
    return replace(found.search, suite=write_worst_suite(case, found.inputs, about, path, project))


def _show(search: Search, json: Path | None) -> None:
    """Print a search, and write its JSON; the text goes to stderr if the JSON goes to stdout."""
    from precreg.report import render_search, search_json
    from precreg.storage import replace_file, report_write_errors

    if json == _STDOUT:
        click.echo(search_json(search), nl=False)
    elif json is not None:
        with report_write_errors(str(json)):
            replace_file(json, search_json(search))
    show_report(render_search(search) + "\n", err=json == _STDOUT)
    if search.suite:
        written = search.suite.removesuffix(".yaml").removesuffix(".yml").rpartition("/")[2]
        click.echo(f"written: {search.suite}; run it with: precreg run {written}/", err=json == _STDOUT)
