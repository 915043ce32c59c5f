"""What the check before a push does: find what is pushed, and run the cases that it touches as it was committed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg import vcs
from precreg.errors import UserError
from precreg.vcs.pushes import Push, Tip, tips
from precreg.vcs.relevant import can_matter
from precreg.vcs.remembered import nothing_touched

if TYPE_CHECKING:
    from precreg.cli.options import RunOptions


Changed = set[str] | None
"""Files of the project that a push changes; None stands for all: the remote has nothing of it."""


MOST_FILES = 3
"""Named where many differ."""


def check(root: Path, folder: str, pushes: list[Push], remote: str) -> int:
    """Run what the pushes touch, commit by commit; return the exit code of the first that must not be pushed, or 0.

    `root` is the top of the working tree, `folder` the project's folder in it.
    """
    for tip, changed in _bringing(root, folder, pushes, remote):
        try:
            code = _checked(root, folder, tip, changed, remote)
        except UserError as mistake:
            click.echo(str(mistake), err=True)
            code = mistake.exit_code
        if code != 0:
            click.echo(f"precreg: the push is stopped ({_named(tip)}); git push --no-verify goes around this", err=True)
            return code
    return 0


def _bringing(root: Path, folder: str, pushes: list[Push], remote: str) -> Iterator[tuple[Tip, Changed]]:
    """Yield the commits that bring a change to the project's files, with the changed files.

    The next commit is asked for when the one before may be pushed. So what the remote knows nothing of is compared
    with that one: the branches of a first push are not all run in full.
    """
    untouched, passed = True, ""
    for tip in _tips(root, pushes):
        changed = _changed(root, folder, tip, remote)
        if changed is None and passed:
            changed = vcs.brought(root, folder, tip.commit, passed, remote)
        if changed is None or any(map(can_matter, changed)):
            untouched = False
            yield tip, changed
        passed = tip.commit
    if untouched:
        click.echo("precreg: no case depends on what is pushed", err=True)


def _tips(root: Path, pushes: list[Push]) -> list[Tip]:
    """Return the commits to look at: a tag on the way to another commit that is pushed is part of that."""
    found = tips(pushes, vcs.commits(root, {push.revision for push in pushes} - {""}))
    if len(found) > 1 and any(tip.is_tag for tip in found):
        last = vcs.independent(root, [tip.commit for tip in found])
        return [tip for tip in found if not tip.is_tag or tip.commit in last]
    return found


def _changed(root: Path, folder: str, tip: Tip, remote: str) -> Changed:
    every: set[str] = set()
    for before in dict.fromkeys(tip.before):
        changed = vcs.brought(root, folder, tip.commit, before, remote)
        if changed is None:
            return None
        every |= changed
    return every


def _checked(root: Path, folder: str, tip: Tip, changed: Changed, remote: str) -> int:
    """Run in place where the working tree has the commit's files, otherwise in a checkout of the commit."""
    project = root / folder
    others = _other_files(project, tip.commit)
    if not others and changed is not None and nothing_touched(project, changed):
        return _nothing_to_run(tip)
    if not vcs.has(root, tip.commit, "suites" if folder == "." else f"{folder}/suites"):
        click.echo(f"precreg: no suites in {_named(tip)}: nothing to check", err=True)
        return 0
    if not others:
        return _run(project, changed, remote, tip)
    with vcs.checkout(root, tip.commit) as tree, _imports_from(root, tree):
        other = Path(realpath(tree / folder))
        where = f", in a temporary checkout, because the working tree differs in {_some(others)}"
        try:
            return _run(other, changed, remote, tip, where=where, reports=project / "reports")
        finally:
            _bring_proposals(other, project)


@contextmanager
def _imports_from(root: Path, tree: Path) -> Iterator[None]:
    """Let packages that are installed from folders of the working tree, such as src/, be those of the checkout."""
    before = list(sys.path)
    sys.path[:0] = [str(tree / Path(place).relative_to(root)) for place in before if _is_source(Path(place), root)]
    try:
        yield
    finally:
        sys.path[:] = before


def _is_source(place: Path, root: Path) -> bool:
    """Tell whether packages are installed from a folder; a project's own is on the path of its modules anyway."""
    return place.is_relative_to(root) and "site-packages" not in place.parts and not (place / "suites").is_dir()


def _other_files(project: Path, commit: str) -> list[str]:
    """Return the files that could matter to a case and are not in the working tree as they were committed."""
    if not (project / "suites").is_dir():
        return ["suites/"]
    return sorted(filter(can_matter, vcs.differing(project, commit)))


def _some(files: list[str]) -> str:
    shown = [file if file.isprintable() else ascii(file) for file in files[:MOST_FILES]]
    return ", ".join(shown) + (f" and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else "")


def _run(
    project: Path, changed: Changed, remote: str, tip: Tip, *, where: str = "", reports: Path | None = None
) -> int:
    from precreg.vcs.files import touched
    from precreg.vcs.remembering import load_and_remember

    try:
        cases = load_and_remember(project)
        number = len(cases if changed is None else touched(cases, changed, project))
    except UserError:
        click.echo(f"precreg: before the push of {_named(tip)}{where}", err=True)
        raise
    if number == 0:
        return _nothing_to_run(tip)
    click.echo(f"precreg: {number} of {len(cases)} cases before the push of {_named(tip)}{where}", err=True)
    from precreg.cli.running import run_and_report

    return run_and_report(project, _options(changed, remote, reports), cases)


def _nothing_to_run(tip: Tip) -> int:
    click.echo(f"precreg: no case depends on what is pushed ({_named(tip)})", err=True)
    return 0


def _options(changed: Changed, remote: str, reports: Path | None) -> RunOptions:
    """Run like `precreg run` of a person without options, wherever this is: a person pushes, CI or not."""
    from os import environ
    from os.path import relpath

    from precreg.cli.options import Asked, RunOptions

    since = None if changed is None else f"what {remote or 'the remote'} has"
    return RunOptions(
        Asked((), (), (), (), since),
        shard=None,
        jobs=None,
        resume=False,
        ci=False,
        require=False,
        environment=environ.get("PRECREG_ENVIRONMENT") or None,
        output=None if reports is None else Path(relpath(reports)),
        junit_dialect="gitlab",
        verbose=False,
        changed=None if changed is None else frozenset(changed),
    )


def _bring_proposals(checked: Path, project: Path) -> None:
    """Let what a checkout proposes be accepted in the project, except where a proposal of the project's own waits."""
    from precreg.baseline.proposal import pending, replace_proposals
    from precreg.baseline.write import locked

    found = pending(checked)
    if found and (project / "suites").is_dir():
        with locked(project):
            waiting = pending(project)
            replace_proposals(project, {id: proposal for id, proposal in found.items() if id not in waiting})


def _named(tip: Tip) -> str:
    return f"{tip.commit[:8]}, {', '.join(_short(tip.targets))}"


def _short(targets: Iterable[str]) -> list[str]:
    return [target.removeprefix("refs/heads/").removeprefix("refs/") for target in targets]
