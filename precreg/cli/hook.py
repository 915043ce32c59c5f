"""Which commits does a push bring, and do their cases still pass?

`precreg hook` installs and removes the check, and runs it: the affected cases of each pushed commit, as committed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.options import warn_of_unclaimed
from precreg.errors import UserError
from precreg.vcs import (
    ChangedFiles,
    Push,
    changes_of_push,
    checkout_commit,
    commit_has_path,
    hooks_folder,
    other_files,
    parse_git_pushes,
    parse_pre_commit_push,
    unset_hook_variables,
    worktree_root,
)

if TYPE_CHECKING:
    from precreg.run import RunRequest
    from precreg.vcs import Tip

# Names of files in a message, if many differ.
MAX_FILES = 3


@click.group("hook", context_settings={"help_option_names": ["-h", "--help"]})
def hook_command() -> None:
    """Check cases before a push, and stop a push that makes results less precise."""


@hook_command.command("install")
@click.option("--chain", is_flag=True, help="Keep an existing hook, and call it first.")
@click.pass_obj
def hook_install_command(given: Path | None, chain: bool) -> None:
    """Write a pre-push hook that checks this project with this Python.

    Several projects of one repository share the hook: install it in each.
    """
    from precreg.vcs import HOOK_NAME, HookCheck, install_hook

    root, folder = _place(given)
    hooks = hooks_folder(root)
    install_hook(hooks, HookCheck(sys.executable, folder), chain=chain)
    click.echo(f"installed in {_shown(hooks, root)}/{HOOK_NAME}: each git push checks {_project(folder)} first")
    if not hooks.is_relative_to(root):
        click.echo(f"note: other repositories and working trees may use the hooks in {hooks}, too")
    elif not hooks.is_relative_to(root / ".git"):
        click.echo("note: do not commit the hook: it names a Python of this machine")


@hook_command.command("uninstall")
@click.pass_obj
def hook_uninstall_command(given: Path | None) -> None:
    """Remove this project from the pre-push hook, and put a kept hook back."""
    from precreg.vcs import HOOK_NAME, uninstall_hook

    root, folder = _place(given)
    hooks = hooks_folder(root)
    place = f"{_shown(hooks, root)}/{HOOK_NAME}"
    if uninstall_hook(hooks, folder):
        click.echo(f"uninstalled: {place} no longer checks {_project(folder)}")
    else:
        click.echo(f"nothing to uninstall: {place} does not check {_project(folder)}")


@hook_command.command("run")
@click.option("--folder", metavar="FOLDER", help="The project's folder in the working tree, which is here.")
@click.argument("remote", required=False)
@click.argument("url", required=False)
@click.pass_obj
def hook_run_command(given: Path | None, folder: str | None, remote: str | None, url: str | None) -> None:
    """Check a push to REMOTE. git calls this with the refs on standard input, or pre-commit does."""
    # git sets GIT_DIR and others for hooks; they would point commands in a checkout to this repository.
    unset_hook_variables()
    pushes = _pushes(remote)
    # git runs hooks in the top of the working tree, and the installed hook names the folder.
    root, folder = _place(given) if folder is None else (Path(realpath(Path.cwd())), folder)
    try:
        sys.exit(check_pushes(root, folder, pushes, remote or os.environ.get("PRE_COMMIT_REMOTE_NAME", "")))
    except KeyboardInterrupt:
        click.echo("interrupted: nothing is pushed", err=True)
        sys.exit(130)


def _pushes(remote: str | None) -> list[Push]:
    """Return the pushes that git writes to standard input, or that pre-commit writes to variables."""
    if remote is None:
        return parse_pre_commit_push(os.environ)
    if sys.stdin.isatty():
        # Reading would wait for a person who does not know that git writes refs there.
        raise UserError("not-a-push", "expected the pushed refs on standard input but got a terminal")
    return parse_git_pushes(os.fsdecode(sys.stdin.buffer.read()))


def _place(given: Path | None) -> tuple[Path, str]:
    """Return the top of the working tree, and the project's folder relative to it."""
    from precreg.storage import find_project

    project = find_project(given or Path.cwd())
    root = Path(realpath(worktree_root(project)))
    return root, project.relative_to(root).as_posix()


def _project(folder: str) -> str:
    return "this repository" if folder == "." else f"{folder}/"


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def check_pushes(root: Path, folder: str, pushes: list[Push], remote: str) -> int:
    """Run the affected cases, commit by commit; return the exit code of the first commit that fails, or 0.

    `root` is the top of the working tree, `folder` the project's folder in it.
    """
    untouched = True
    for tip, changed in changes_of_push(root, folder, pushes, remote):
        untouched = False
        try:
            code = _check_tip(root, folder, tip, changed, remote)
        except UserError as mistake:
            click.echo(str(mistake), err=True)
            code = mistake.exit_code
        # The first failure ends the check, because one bad commit stops the whole push.
        if code != 0:
            click.echo(f"precreg: the push is stopped ({tip}); git push --no-verify skips this check", err=True)
            return code
    if untouched:
        click.echo("precreg: no case depends on the pushed files", err=True)
    return 0


def _check_tip(root: Path, folder: str, tip: Tip, changed: ChangedFiles, remote: str) -> int:
    """Run in place if the working tree has the commit's files, otherwise in a checkout of the commit."""
    from precreg.vcs import can_be_claimed, no_case_affected

    project = root / folder
    others = other_files(project, tip.commit)
    # The index answers without reading suites, if the working tree has the commit's files.
    if not others and changed is not None and no_case_affected(project, changed):
        warn_of_unclaimed(filter(can_be_claimed, changed))
        return _nothing_to_run(tip)
    if not commit_has_path(root, tip.commit, "suites" if folder == "." else f"{folder}/suites"):
        click.echo(f"precreg: no suites in {tip}: nothing to check", err=True)
        return 0
    if not others:
        return _run(project, changed, remote, tip)
    with checkout_commit(root, tip.commit) as tree, _imports_from(root, tree):
        other = Path(realpath(tree / folder))
        where = f", in a temporary checkout, because the working tree differs in {_some(others)}"
        try:
            return _run(other, changed, remote, tip, where=where, reports=project / "reports")
        finally:
            _bring_proposals(other, project)


@contextmanager
def _imports_from(root: Path, tree: Path) -> Iterator[None]:
    """Import packages that are installed from folders of the working tree, such as src/, from the checkout."""
    before = list(sys.path)
    # First on the path: an editable install would otherwise import the working tree, and judge code that is not pushed.
    sys.path[:0] = [str(tree / Path(place).relative_to(root)) for place in before if _is_source(Path(place), root)]
    try:
        yield
    finally:
        sys.path[:] = before


def _is_source(place: Path, root: Path) -> bool:
    """Return True for a folder that packages are installed from.

    A project's own folder does not count: a run adds it to the path itself.
    """
    return place.is_relative_to(root) and "site-packages" not in place.parts and not (place / "suites").is_dir()


def _some(files: list[str]) -> str:
    # File names may have any character, and terminals obey some.
    shown = [file if file.isprintable() else ascii(file) for file in files[:MAX_FILES]]
    return ", ".join(shown) + (f" and {len(files) - MAX_FILES} more" if len(files) > MAX_FILES else "")


def _run(
    project: Path, changed: ChangedFiles, remote: str, tip: Tip, *, where: str = "", reports: Path | None = None
) -> int:
    """Run the affected cases of one commit, and return the exit code."""
    from precreg.vcs import affected_cases, load_cases_and_index, unclaimed_files

    try:
        cases = load_cases_and_index(project)
        number = len(cases if changed is None else affected_cases(cases, changed, project))
    except UserError:
        click.echo(f"precreg: before the push of {tip}{where}", err=True)
        raise
    if number == 0:
        warn_of_unclaimed(unclaimed_files(cases, changed or set(), project))
        return _nothing_to_run(tip)
    click.echo(f"precreg: {number} of {len(cases)} cases before the push of {tip}{where}", err=True)
    from precreg.cli.run import run_and_report
    from precreg.environment import limit_blas_threads

    limit_blas_threads()  # before anything imports numpy, which reads the number of threads once
    return run_and_report(_request(project, changed, remote, reports, tip), cases)


def _nothing_to_run(tip: Tip) -> int:
    click.echo(f"precreg: no case depends on the pushed files ({tip})", err=True)
    return 0


def _request(project: Path, changed: ChangedFiles, remote: str, reports: Path | None, tip: Tip) -> RunRequest:
    """Return the request of a `precreg run` without options, wherever this runs: a person pushes, in CI or not."""
    from precreg.report import reports_folder
    from precreg.run import PAIR_AUTO, RunRequest

    return RunRequest(
        project=project,
        changed_since=None if changed is None else f"what {remote or 'the remote'} has",
        changed=None if changed is None else frozenset(changed),
        environment=os.environ.get("PRECREG_ENVIRONMENT") or None,
        output=reports_folder(project) if reports is None else Path(os.path.relpath(reports)),
        needs_journal=reports is None,
        pair=PAIR_AUTO,
        # The commit that the push replaces; a new branch replaces none.
        pair_base=next(filter(None, tip.before), None),
    )


def _bring_proposals(checked: Path, project: Path) -> None:
    """Copy the proposals of a checkout to the project; a waiting proposal of the project's own stays."""
    from precreg.baseline import lock_baselines, pending_proposals, replace_proposals

    # The checkout is removed, and a person accepts proposals in the project.
    found = pending_proposals(checked)
    if found and (project / "suites").is_dir():
        with lock_baselines(project):
            waiting = pending_proposals(project)
            replace_proposals(project, {id: proposal for id, proposal in found.items() if id not in waiting})
