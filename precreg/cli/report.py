"""`precreg report`: the reports once more, from records alone; shards become one run."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from precreg.cli.selecting import find_project, reports_folder
from precreg.errors import UserError
from precreg.report import report_terminal as terminal
from precreg.report.record import read_run
from precreg.report.report_files import write_reports
from precreg.report.report_junit import Dialect


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--output", type=click.Path(path_type=Path), help="The folder of the reports; reports/ in the project.")
@click.option("--junit-dialect", type=click.Choice(["gitlab", "strict"]), default="gitlab", help="Of junit.xml.")
@click.option("--verbose", "-v", is_flag=True, help="Show the cases that passed, too.")
@click.pass_obj
def command(
    given: Path | None, /, runs: tuple[Path, ...], output: Path | None, junit_dialect: Dialect, verbose: bool
) -> None:
    """Make the reports again from run records. RUN is a record.json or a folder that has one.

    The exit code is that of the merged run.
    """
    record = read_run(runs)
    written = write_reports(record, output or _folder(given), junit_dialect)
    click.echo(terminal.render(record, colour=sys.stdout.isatty(), verbose=verbose, reports=written), nl=False)
    sys.exit(record.exit_code)


def _folder(given: Path | None) -> Path:
    """Choose the project's reports/; records may be merged where no project is, and then that of the current folder."""
    try:
        return reports_folder(find_project(given))
    except UserError:
        if given is not None:
            raise
        return Path("reports")
