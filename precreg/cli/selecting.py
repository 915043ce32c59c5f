"""The options that select cases, and what they select, the same for every command."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Set
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from precreg.cli.options import Asked
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.types.types import Case


TIERS = ("unit", "integration", "model")
"""As in types.py, whose import a run with nothing to do must not wait for; a test holds the two together."""


_OPTIONS = (
    click.argument("patterns", nargs=-1, metavar="[PATTERN]..."),
    click.option("--tier", "--level", "tiers", multiple=True, type=click.Choice(TIERS), help="Only this tier."),
    click.option("--suite", "suites", multiple=True, metavar="NAME", help="Only this suite."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only cases with this tag."),
    click.option("--changed-since", metavar="REVISION", help="Only cases whose files differ from a git revision."),
)


def selection_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add PATTERN..., --tier, --suite, --tag and --changed-since, which the command is given together as `asked`."""

    @wraps(command)
    def with_asked(
        *given: Any,
        patterns: tuple[str, ...],
        tiers: tuple[str, ...],
        suites: tuple[str, ...],
        tags: tuple[str, ...],
        changed_since: str | None,
        **others: Any,
    ) -> None:
        command(*given, asked=Asked(patterns, tiers, suites, tags, changed_since), **others)

    for option in reversed(_OPTIONS):
        with_asked = option(with_asked)
    return with_asked


def find_project(given: Path | None) -> Path:
    """Return the folder given with --project, or the nearest from here upward that has suites/."""
    from precreg.storage.project import find_project

    return find_project(given or Path.cwd())


def reports_folder(project: Path) -> Path:
    """Return where reports go unless told otherwise, relative to the current folder."""
    return Path(os.path.relpath(project / "reports"))


def selected(project: Path, every: list[Case], asked: Asked, changed: Set[str] | None = None) -> list[Case]:
    """Return the cases that the options name, in their order. Raises UserError for a name that no case has.

    `changed` are the files that changed since the revision asked for; without them git is asked.
    """
    from precreg.suite.select import Selection, select
    from precreg.vcs.files import touched
    from precreg.vcs.repository import changed_files

    cases = select(every, Selection(asked.tiers, asked.suites, asked.patterns, asked.tags))
    if asked.changed_since is None:
        return cases
    return touched(cases, changed_files(project, asked.changed_since) if changed is None else changed, project)


def parse_shard(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """Return (i, n) of `i/n`, or of GitLab's variables where no text is given.

    Raises:
        UserError: bad-shard.
    """
    if text is None:
        return shard_of_job(os.environ)
    return _shard(text, f"shard={text}")


def shard_of_job(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return (i, n) of a job's CI_NODE_INDEX and CI_NODE_TOTAL; None where it is the only one: GitLab says 1 of it.

    Raises:
        UserError: bad-shard.
    """
    index, count = environ.get("CI_NODE_INDEX", ""), environ.get("CI_NODE_TOTAL", "")
    if not index and count in ("", "1"):
        return None
    shard = _shard(f"{index}/{count}", f"CI_NODE_INDEX={index} and CI_NODE_TOTAL={count}")
    return None if shard == (1, 1) else shard


def _shard(text: str, came: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UserError("bad-shard", f"expected i/n with 1 <= i <= n but got {came}")
    return int(found[1]), int(found[2])
