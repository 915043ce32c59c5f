"""Which options do several commands share, and which cases do they select?

Every command imports this module first, so it imports almost nothing at its top.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Set
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.run import ClusterRequest
    from precreg.types import Case


class CaseOptions(NamedTuple):
    """Hold the selection of cases. Each kind of option narrows it."""

    patterns: tuple[str, ...]
    tiers: tuple[str, ...]
    suites: tuple[str, ...]
    tags: tuple[str, ...]
    changed_since: str | None


class DriftOptions(NamedTuple):
    """Hold the options of `precreg drift`. `place` names the history; None means the project's own."""

    patterns: tuple[str, ...]
    place: str | None
    anchor: str | None
    window: int
    materiality: float
    confirm: int
    environment: str | None
    output: Path | None
    hindsight: bool


class CompareSides(NamedTuple):
    """Hold the paths of two sides; with `golden` the reference has the dtype of the actual."""

    actual: Path | str
    reference: Path | str
    golden: bool


class RawOptions(NamedTuple):
    """Hold the layout of raw files, which have no header; None without the option."""

    dtype: str | None
    reference_dtype: str | None
    shape: tuple[int, ...] | None
    byte_order: Literal["little", "big"]


class CompareOutputs(NamedTuple):
    """Hold the files of the record and the page, None without one; `-` is stdout."""

    json: Path | None
    report: Path | None


# The values of types.TIERS, whose import would delay a run with nothing to do. A test compares them.
TIER_CHOICES = ("unit", "integration", "model")


def _take_thresholds(context: click.Context, _option: click.Parameter, file: Path | None) -> None:
    """Give the file to the variable PRECISION_THRESHOLDS, which all reading of suites takes, until the command ends.

    Raises UserError: bad-thresholds, if the variable has thresholds already.
    """
    if file is None:
        return
    if os.environ.get(_THRESHOLDS, "").strip():
        message = f"expected --config or the variable {_THRESHOLDS} but got both"
        raise UserError("bad-thresholds", message)
    # The file alone, so that an error names it with its line. It is absolute, for a command that changes its folder.
    os.environ[_THRESHOLDS] = f"@{file.absolute()}"
    context.call_on_close(lambda: os.environ.pop(_THRESHOLDS, None))


# tolerance.THRESHOLDS_VARIABLE, whose import would delay a run with nothing to do. A test compares them.
_THRESHOLDS = "PRECISION_THRESHOLDS"
config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    expose_value=False,
    callback=_take_thresholds,
    help=f"Thresholds in YAML or JSON, as the variable {_THRESHOLDS} has them.",
)

_OPTIONS = (
    click.argument("patterns", nargs=-1, metavar="[PATTERN]..."),
    click.option("--tier", "--level", "tiers", multiple=True, type=click.Choice(TIER_CHOICES), help="Only this tier."),
    click.option("--suite", "--model", "suites", multiple=True, metavar="NAME", help="Only this suite, or model."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only cases with this tag."),
    click.option("--changed-since", metavar="REVISION", help="Only cases whose files differ from a git revision."),
    config_option,
)


def selection_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add PATTERN..., --tier, --suite, --tag, --changed-since and --config; the command gets `case_options`."""

    @wraps(command)
    def with_case_options(
        *given: Any,
        patterns: tuple[str, ...],
        tiers: tuple[str, ...],
        suites: tuple[str, ...],
        tags: tuple[str, ...],
        changed_since: str | None,
        **others: Any,
    ) -> None:
        command(*given, case_options=CaseOptions(patterns, tiers, suites, tags, changed_since), **others)

    # click applies decorators from the inside out: the last one comes first in --help.
    for option in reversed(_OPTIONS):
        with_case_options = option(with_case_options)
    return with_case_options


_DASK_OPTIONS = (
    click.option(
        "--dask", "address", metavar="ADDRESS", help="Run on this Dask scheduler, tcp://HOST:8786; local starts one."
    ),
    click.option(
        "--dask-project",
        "folder",
        metavar="FOLDER",
        default="upload",
        help="On workers: the project's checkout. Default: upload, which sends them its files.",
    ),
    click.option(
        "--dask-wait",
        "wait_s",
        metavar="SECONDS",
        type=click.FloatRange(0, 1e6),
        default=60.0,
        help="Wait so long for a worker, or for one with the device of a case. Default: 60.",
    ),
)


def dask_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --dask, --dask-project and --dask-wait; the command gets `cluster`, a ClusterRequest or None."""

    @wraps(command)
    def with_cluster(
        *given: Any, address: str | None, folder: str, wait_s: float, jobs: int | None, **others: Any
    ) -> None:
        cluster = None
        if address is not None:
            from precreg.run import ClusterRequest

            cluster = _checked(ClusterRequest(address, folder, wait_s, others.get("environment"), jobs))
        command(*given, cluster=cluster, jobs=jobs, **others)

    for option in reversed(_DASK_OPTIONS):
        with_cluster = option(with_cluster)
    return with_cluster


def _checked(request: ClusterRequest) -> ClusterRequest:
    """Return a request. Raises click.UsageError for options that exclude each other, and for an address of no kind."""
    if request.address != "local":
        if request.workers is not None:
            raise click.UsageError("--jobs and --dask ADDRESS exclude each other: the cluster has its workers.")
        if "://" not in request.address:
            raise click.UsageError(f"--dask {request.address} is no address: write tcp://HOST:PORT, or local.")
    elif request.workers == 0:
        raise click.UsageError("--jobs 0 and --dask exclude each other: write --jobs 2, or leave it out.")
    if request.project != "upload" and not Path(request.project).is_absolute():
        raise click.UsageError(f"--dask-project {request.project} is no absolute folder: write /shared/project.")
    return request


def project_of_option(given: Path | None) -> Path:
    """Return the folder of --project, or the nearest folder from here upward that has suites/."""
    from precreg.storage import find_project

    # A folder above counts as well, so that a command works in any folder of the project, as git does.
    return find_project(given or Path.cwd())


def select_by_options(
    project: Path, every: list[Case], case_options: CaseOptions, changed: Set[str] | None = None
) -> list[Case]:
    """Return the selected cases in their order. Raises UserError for a name that no case has.

    `changed` are the files that changed since the revision of --changed-since; by default git lists them.
    """
    from precreg.suite import Selection, select_cases
    from precreg.vcs import affected_cases, changed_files, unclaimed_files

    since = case_options.changed_since
    selection = Selection(case_options.tiers, case_options.suites, case_options.patterns, case_options.tags)
    # The selection first: a name that no case has is an error, even if nothing changed.
    cases = select_cases(every, selection)
    if since is None:
        return cases
    if changed is None:
        changed = changed_files(project, since)
        warn_of_unclaimed(unclaimed_files(every, changed, project))
    return affected_cases(cases, changed, project)


def find_by_options(project: Path, case_options: CaseOptions) -> list[Case]:
    """Return the selected cases in their order. Without --changed-since, only the suites of these cases are read.

    Raises UserError as `select_by_options`, and nothing-selected or empty-project for no case. After a change that
    affects no case, the list is empty.
    """
    from precreg.suite import Selection, load_cases, no_case_error, project_cases

    if case_options.changed_since is not None:
        return select_by_options(project, load_cases(project), case_options)
    known = project_cases(project)
    ids = known.selected_ids(
        Selection(case_options.tiers, case_options.suites, case_options.patterns, case_options.tags)
    )
    if not ids:
        raise no_case_error(known.listed)
    return known.cases(ids)


def warn_of_unclaimed(files: Iterable[str]) -> bool:
    """Print the changed files that belong to no case to stderr, and return whether there are any."""
    from precreg.report import describe_unclaimed_files
    from precreg.vcs import MAX_UNCLAIMED

    names = sorted(files)
    if names:
        shown = names[:MAX_UNCLAIMED]
        click.echo(f"precreg: warning: {describe_unclaimed_files(shown, len(names) - len(shown))}", err=True)
    return bool(names)


def parse_shard(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """Return (i, n) of `i/n`, or of GitLab's variables without a text. Raises UserError (bad-shard)."""
    if text is None:
        return shard_of_job(os.environ)
    return _read_shard(text, f"shard={text}")


def shard_of_job(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return (i, n) of a job's CI_NODE_INDEX and CI_NODE_TOTAL; None if the job is the only one.

    Raises UserError (bad-shard).
    """
    index, count = environ.get("CI_NODE_INDEX", ""), environ.get("CI_NODE_TOTAL", "")
    # GitLab sets CI_NODE_TOTAL=1, and no index, in jobs without `parallel`.
    if not index and count in ("", "1"):
        return None
    shard = _read_shard(f"{index}/{count}", f"CI_NODE_INDEX={index} and CI_NODE_TOTAL={count}")
    # A whole run reports unused baselines, which a shard cannot know. So 1/1 counts as a whole run.
    return None if shard == (1, 1) else shard


def _read_shard(text: str, received: str) -> tuple[int, int]:
    # Nine digits keep int() fast for any text; no run has more shards.
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UserError("bad-shard", f"expected i/n with 1 <= i <= n but got {received}")
    return int(found[1]), int(found[2])


def require_finite(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuse infinity and NaN: no change is larger, so the monitor would find nothing and pass."""
    if not isfinite(value):
        raise click.BadParameter(f"{value} is not finite.", context, parameter)
    return value
