"""`precreg hook`: put the check before a push into a repository, take it out, and the check itself."""

from __future__ import annotations

import os
import sys
from os.path import realpath
from pathlib import Path

import click

from precreg import vcs
from precreg.errors import UserError
from precreg.vcs.pushes import Push, from_git, from_pre_commit


@click.group("hook", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Stop a push that makes results less precise."""


@command.command("install")
@click.option("--chain", is_flag=True, help="Keep the hook that is there, and call it first.")
@click.pass_obj
def install(given: Path | None, chain: bool) -> None:
    """Write a pre-push hook that checks this project with this Python.

    Several projects of one repository share the hook: install it in each.
    """
    from precreg.vcs import hook
    from precreg.vcs.script import Check

    root, folder = _place(given)
    hooks = vcs.hooks_folder(root)
    hook.install(hooks, Check(sys.executable, folder), chain=chain)
    click.echo(f"installed in {_shown(hooks, root)}/{hook.NAME}: each git push checks {_project(folder)} first")
    if not hooks.is_relative_to(root):
        click.echo(f"note: other repositories and working trees may use the hooks in {hooks}, too")
    elif not hooks.is_relative_to(root / ".git"):
        click.echo("note: do not commit the hook: it names a Python of this machine")


@command.command("uninstall")
@click.pass_obj
def uninstall(given: Path | None) -> None:
    """Take this project out of the pre-push hook; a hook that was kept gets its place back."""
    from precreg.vcs import hook

    root, folder = _place(given)
    hooks = vcs.hooks_folder(root)
    place = f"{_shown(hooks, root)}/{hook.NAME}"
    if hook.uninstall(hooks, folder):
        click.echo(f"uninstalled: {place} checks {_project(folder)} no more")
    else:
        click.echo(f"nothing to uninstall: {place} does not check {_project(folder)}")


@command.command("run")
@click.option("--folder", metavar="FOLDER", help="The project's, from here, the top of the working tree; found upward.")
@click.argument("remote", required=False)
@click.argument("url", required=False)
@click.pass_obj
def run(given: Path | None, folder: str | None, remote: str | None, url: str | None) -> None:
    """Check what is pushed to REMOTE; called by git, which tells the refs on standard input, or by pre-commit."""
    from precreg.cli.pushing import check

    vcs.leave_the_hook()
    pushes = _pushes(remote)
    root, folder = _place(given) if folder is None else (Path(realpath(Path.cwd())), folder)
    try:
        sys.exit(check(root, folder, pushes, remote or os.environ.get("PRE_COMMIT_REMOTE_NAME", "")))
    except KeyboardInterrupt:
        click.echo("interrupted: nothing is pushed", err=True)
        sys.exit(130)


def _pushes(remote: str | None) -> list[Push]:
    if remote is None:
        return from_pre_commit(os.environ)
    if sys.stdin.isatty():
        raise UserError("not-a-push", "expected git to say on standard input what is pushed but got a terminal")
    return from_git(os.fsdecode(sys.stdin.buffer.read()))


def _place(given: Path | None) -> tuple[Path, str]:
    """Return the top of the working tree, and the project's folder relative to it."""
    from precreg.storage.project import find_project

    project = find_project(given or Path.cwd())
    root = Path(realpath(vcs.top(project)))
    return root, project.relative_to(root).as_posix()


def _project(folder: str) -> str:
    return "this repository" if folder == "." else f"{folder}/"


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
