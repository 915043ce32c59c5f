"""What a command was asked for, as values with types. Imported before anything else, so it imports next to nothing.

The options that select cases, and what they select, the same for every command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Set
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.types import Case


class CaseOptions(NamedTuple):
    """Which cases: every kind that is named narrows the selection."""

    patterns: tuple[str, ...]
    tiers: tuple[str, ...]
    suites: tuple[str, ...]
    tags: tuple[str, ...]
    changed_since: str | None


class RunOptions(NamedTuple):
    """How they are run. `shard` is (i, n); None stands for "not said" and leaves the choice to the run.

    `pair` is the revision whose code runs side by side; then up to `max_seeds` are drawn, for up to `pair_seconds`.

    `changed` are the files that changed since `asked.changed_since`, relative to the project, where they are known.

    `base` is the commit by whose baselines, tolerances and definitions is judged; None stands for the project's own.
    """

    asked: CaseOptions
    shard: tuple[int, int] | None
    jobs: int | None
    resume: bool
    ci: bool
    require: bool
    environment: str | None
    output: Path | None
    junit_dialect: Literal["gitlab", "strict"]
    verbose: bool
    pair: str | None = None
    max_seeds: int | None = None
    pair_seconds: float | None = None
    changed: frozenset[str] | None = None
    base: str | None = None


class DriftOptions(NamedTuple):
    """How a history is held against itself. `place` is that of the history, None for the project's own."""

    patterns: tuple[str, ...]
    place: str | None
    anchor: str | None
    window: int
    materiality: float
    confirm: int
    environment: str | None
    output: Path | None


class CompareSides(NamedTuple):
    """What is held against what; `golden` says that the reference is in the actual's own dtype."""

    actual: Path
    reference: Path
    golden: bool


class RawOptions(NamedTuple):
    """What raw files hold, as far as it was said."""

    dtype: str | None
    reference_dtype: str | None
    shape: tuple[int, ...] | None
    byte_order: Literal["little", "big"]


class CompareOutputs(NamedTuple):
    """Where the record and the page go, if anywhere; `-` is stdout."""

    json: Path | None
    report: Path | None


TIER_CHOICES = ("unit", "integration", "model")
"""As in types.py, whose import a run with nothing to do must not wait for; a test holds the two together."""


_OPTIONS = (
    click.argument("patterns", nargs=-1, metavar="[PATTERN]..."),
    click.option("--tier", "--level", "tiers", multiple=True, type=click.Choice(TIER_CHOICES), help="Only this tier."),
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
        command(*given, asked=CaseOptions(patterns, tiers, suites, tags, changed_since), **others)

    for option in reversed(_OPTIONS):
        with_asked = option(with_asked)
    return with_asked


def project_of_option(given: Path | None) -> Path:
    """Return the folder given with --project, or the nearest from here upward that has suites/."""
    from precreg.storage import find_project

    return find_project(given or Path.cwd())


def reports_folder(project: Path) -> Path:
    """Return where reports go unless told otherwise, relative to the current folder."""
    return Path(os.path.relpath(project / "reports"))


def select_by_options(
    project: Path, every: list[Case], asked: CaseOptions, changed: Set[str] | None = None
) -> list[Case]:
    """Return the cases that the options name, in their order. Raises UserError for a name that no case has.

    `changed` are the files that changed since the revision asked for; without them git is asked.
    """
    from precreg.suite import Selection, select_cases
    from precreg.vcs import affected_cases, changed_files

    cases = select_cases(every, Selection(asked.tiers, asked.suites, asked.patterns, asked.tags))
    if asked.changed_since is None:
        return cases
    return affected_cases(cases, changed_files(project, asked.changed_since) if changed is None else changed, project)


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
