"""Where is the history of a project, and how do you change it?

The place is the option, the variable PRECREG_HISTORY, or a file in the project, in this order for every command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from precreg.cli.console import show_report
from precreg.cli.options import project_of_option, require_finite
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.history import History, HistoryRun
    from precreg.report import Language


DEFAULT = "history.sqlite"
HISTORY_PAGE = "history.html"

history_option = click.option(
    "--history",
    "place",
    envvar="PRECREG_HISTORY",
    metavar="URL",
    help=f"A SQLite file, or postgresql://HOST/DATABASE; .precreg/{DEFAULT} in the project.",
)


def open_project_history(project: Path, place: str | None, *, create: bool = False) -> History:
    """Open the history of a project at `place`, or at its own by default. Raises UserError as `open_history` does."""
    from precreg.environment import project_name
    from precreg.history import open_history
    from precreg.storage import WORKING_FOLDER, make_scratch_folder, report_write_errors
    from precreg.subject import escape_surrogates

    # Relative to the current folder, because messages show it.
    folder = Path(os.path.relpath(project / WORKING_FOLDER))
    if create and place is None:
        with report_write_errors(str(folder)):
            make_scratch_folder(folder)
    # A folder name that is not UTF-8 has surrogates, which a database cannot store.
    name = escape_surrogates(project_name(project, os.environ))
    return open_history(place or folder / DEFAULT, project=name, create=create)


@click.group("history")
def history_command() -> None:
    """Store runs over time. Each run stores only the changes of its cases since the run before."""


@history_command.command("add")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--create", is_flag=True, help="Create a missing history.")
@history_option
@click.pass_obj
def history_add_command(given: Path | None, /, runs: tuple[Path, ...], create: bool, place: str | None) -> None:
    """Add a run. RUN is a record.json or a folder that has one; several are the shards of one run."""
    from precreg.report import read_merged_run

    project = project_of_option(given)
    # Shards become one run first: the history would otherwise see most cases missing in each of them.
    record = read_merged_run(runs)
    with open_project_history(project, place, create=create) as history:
        number = history.add(record)
    # No error: a retried job of CI adds the same run again.
    click.echo("nothing added: the history has this run already" if number is None else f"added as run {number}")


@history_command.command("list")
@click.option("--environment", metavar="LABEL", help="Show only runs of this environment.")
@history_option
@click.pass_obj
def history_list_command(given: Path | None, /, environment: str | None, place: str | None) -> None:
    """Show the runs in the order of their start, and the changes of their environments."""
    from precreg.report import strip_controls

    with open_project_history(project_of_option(given), place) as history:
        runs = history.runs(environment)
    # Branches and facts come from git and the machine: a terminal would obey control characters in them.
    for line in _describe_runs(runs):
        show_report(f"{strip_controls(line)}\n")
    click.echo(f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}")


def _describe_runs(runs: Iterable[HistoryRun]) -> Iterator[str]:
    """Yield a line for each run, and a line for each change of facts since the last run of its environment."""
    from precreg.history import changed_facts

    before: dict[str, HistoryRun] = {}
    for run in runs:
        commit = f"{run.commit[:8] or 'no commit'}{' and changes' if run.dirty else ''}"
        place = f"{commit} on {run.branch}" if run.branch else commit
        yield f"{run.number:>5}  {run.started}  {run.environment}  {place}, exit code {run.exit_code}"
        # Per environment, because runs of several machines alternate in one history.
        last = before.get(run.environment)
        if last is not None and last.fingerprint != run.fingerprint:
            changed = (f"{name} {was} -> {now}" for name, was, now in sorted(changed_facts(last, run)))
            yield f"{'':7}another environment than run {last.number}: {'; '.join(changed)}"
        before[run.environment] = run


@history_command.command("page")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@click.option("--environment", "environments", multiple=True, metavar="LABEL", help="Only these; default: all.")
@click.option("--since", metavar="DATE", help="Only runs that started at this day or time or later, in UTC.")
@click.option("--metric", metavar="NAME", help="Draw this metric; default: mean_abs_error and those that changed.")
@click.option(
    "--materiality",
    type=click.FloatRange(1, min_open=True),
    callback=require_finite,
    default=1.02,
    show_default=True,
    help="The smallest ratio that is relevant.",
)
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Default: reports/history.html.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="The language of the page.")
@history_option
@click.pass_obj
def history_page_command(
    given: Path | None, /, output: Path | None, lang: Language, since: str | None, place: str | None, **options: Any
) -> None:
    """Write the trends of the history as one HTML page: changes, suites, environments, and the course of each case.

    A PATTERN is a case's id, a part of it, or has the wildcards * ? [].
    """
    from precreg import __version__
    from precreg.history.drift import TrendOptions, read_trends
    from precreg.report import describe_history_page, make_reports_folder, reports_folder, write_history_page

    project = project_of_option(given)
    moment = None if since is None else _read_moment("since", since)
    if output is None:
        # First: a folder that cannot be made stops the command before the work.
        make_reports_folder(reports_folder(project))
    path = _page_path(output or reports_folder(project))
    made = datetime.now(UTC).isoformat(timespec="seconds")
    # One state: a run that is added meanwhile would be in some series and not in others.
    with open_project_history(project, place) as history, history.one_state():
        record = read_trends(history, TrendOptions(since=moment, **options), version=__version__, made=made)
    write_history_page(record, path, lang)
    show_report(f"{path.as_posix()}: {describe_history_page(record)}\n")


def _page_path(output: Path) -> Path:
    """Return the file of the page; a folder gets its usual name."""
    return output / HISTORY_PAGE if output.is_dir() else output


@history_command.command("export")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@history_option
@click.pass_obj
def history_export_command(given: Path | None, /, file: Path | None, place: str | None) -> None:
    """Write the whole history to FILE, or to standard output: JSON Lines, or a table if FILE ends in .parquet.

    A row of the table has one metric of a case over successive runs without a change. Only JSON Lines can be imported.
    """
    from precreg.storage import open_replacement, report_write_errors

    with open_project_history(project_of_option(given), place) as history:
        if file is not None and file.suffix == ".parquet":
            with report_write_errors(str(file)), open_replacement(file) as stream:
                rows = history.export_parquet(stream)
            click.echo(f"{file}: {rows} {'row' if rows == 1 else 'rows'}")
            return
        # Line by line: a history need not fit into memory.
        if file is None:
            sys.stdout.buffer.writelines(history.export())
            sys.stdout.buffer.flush()
        else:
            with report_write_errors(str(file)), open_replacement(file) as stream:
                stream.writelines(history.export())


@history_command.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--create", is_flag=True, help="Create a missing history.")
@history_option
@click.pass_obj
def history_import_command(given: Path | None, /, files: tuple[Path, ...], create: bool, place: str | None) -> None:
    """Add the runs of exports that the history does not have yet; - is standard input."""
    with open_project_history(project_of_option(given), place, create=create) as history:
        for file in files:
            with _open_lines(file) as lines:
                added = history.import_lines(lines, str(file))
            click.echo(f"{file}: {added} {'run' if added == 1 else 'runs'} added")


@contextmanager
def _open_lines(file: Path) -> Iterator[IO[bytes]]:
    """Open an export, or standard input for -. Raises UserError (missing-file)."""
    from precreg.storage import open_regular_file

    # Not closed here: standard input belongs to the caller.
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = open_regular_file(file)
    except OSError as problem:
        message = f"expected an export of a history, but: {problem.strerror or problem}"
        raise UserError("missing-file", message, file=str(file)) from problem
    with stream:
        yield stream


@history_command.command("prune")
@click.option("--before", metavar="DATE", help="Remove runs that started before this day or time, in UTC.")
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Keep the newest N runs of each environment.")
@click.option(
    "--weekly-before",
    metavar="DATE",
    help="Of runs that started before this day or time, in UTC, keep the last of each week and environment.",
)
@click.option("--keep-commit", "revisions", multiple=True, metavar="REVISION", help="Keep the runs of this commit.")
@history_option
@click.pass_obj
def history_prune_command(
    given: Path | None,
    /,
    before: str | None,
    keep: int | None,
    weekly_before: str | None,
    revisions: tuple[str, ...],
    place: str | None,
) -> None:
    """Remove old runs; the figures of the other runs do not change. The newest N of --keep stay with any option."""
    # Without a limit the command would remove every run.
    if before is None and keep is None and weekly_before is None:
        raise click.UsageError("expected --before DATE, --weekly-before DATE or --keep N")
    project = project_of_option(given)
    moment = None if before is None else _read_moment("before", before)
    weekly = None if weekly_before is None else _read_moment("weekly-before", weekly_before)
    with open_project_history(project, place) as history:
        # First, so that a mistake in a revision removes nothing.
        commits = _commits(project, revisions, {run.commit for run in history.runs()})
        removed = history.prune(before=moment, keep=keep, keep_commits=commits, weekly_before=weekly)
    for run in removed:
        click.echo(f"removed run {run.number} of {run.started}")
    click.echo(f"{len(removed)} removed")


def _read_moment(option: str, text: str) -> str:
    """Return a day or time as ISO 8601 in UTC, as histories store it. Raises UserError (bad-value)."""
    try:
        moment = datetime.fromisoformat(text)
        # Runs store UTC, so a time without a zone is UTC, too.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise UserError(
            "bad-value",
            f"expected a day such as 2026-11-21 but got {option}={text}",
            hint=f"write a day, or a time with its zone: --{option} 2026-11-21, or --{option} 2026-11-21T08:00+02:00",
        ) from None


def _commits(project: Path, revisions: Iterable[str], known: set[str]) -> set[str]:
    """Return the commits of revisions. Raises UserError (bad-value) for a commit without a run, which keeps nothing."""
    from precreg.vcs import commit_of

    commits = {revision: commit_of(project, revision) for revision in revisions}
    for revision, commit in commits.items():
        # A typing error would otherwise remove the runs that the user wanted to keep.
        if commit not in known:
            message = f"expected a revision that a run of the history is of but got keep-commit={revision}"
            raise UserError(
                "bad-value",
                f"{message} ({commit[:8]})",
                hint="name the commit of a run: precreg history list shows them",
            )
    return set(commits.values())
