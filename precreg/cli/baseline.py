"""`precreg baseline`: a person reviews what runs propose."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import click

from precreg import vcs
from precreg.baseline import review
from precreg.baseline.change import Change, MetricChange
from precreg.baseline.store import entries
from precreg.cli.selecting import find_project
from precreg.errors import UserError
from precreg.report.numbers import figure
from precreg.suite.expand import load_cases
from precreg.types import Reason


@click.group("baseline")
def command() -> None:
    """Review what runs propose. Runs write proposals alone; what is accepted here is what later runs are judged by."""


@command.command("diff")
@click.argument("patterns", nargs=-1)
@click.option("--verbose", "-v", is_flag=True, help="Show metrics that did not change, too.")
@click.pass_obj
def diff(given: Path | None, /, patterns: tuple[str, ...], verbose: bool) -> None:
    """Show what accepting the proposals that match would change."""
    changes = review.diff(find_project(given), patterns)
    for change in changes:
        click.echo("\n".join(_described(change, verbose)))
    click.echo(f"{len(changes)} {'proposal' if len(changes) == 1 else 'proposals'}")


def _described(change: Change, verbose: bool) -> Iterator[str]:
    yield f"{change.place.id}: {change.verdict}, to be stored in {change.place.file}"
    for metric in change.metrics:
        if verbose or metric.kind != "same":
            yield f"  {metric.kind:7} {metric.output}  {metric.metric:16} {_values(metric)}"


def _values(metric: MetricChange) -> str:
    before, after = ("undefined" if value is None else figure(value) for value in (metric.old, metric.new))
    if metric.kind == "new":
        return after
    ratio = "" if metric.ratio is None else f" ({figure(metric.ratio, 3)} times)"
    return f"{before} -> {after}{ratio}"


@command.command("accept")
@click.argument("patterns", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Accept every proposal.")
@click.option("--improved", is_flag=True, help="Accept every case that improved.")
@click.option("--reason", default="", help="Why the new figures are right; kept with them.")
@click.option("--environment", metavar="LABEL", help="Store them under this label, more or less specific.")
@click.pass_obj
def accept(
    given: Path | None,
    /,
    patterns: tuple[str, ...],
    everything: bool,
    improved: bool,
    reason: str,
    environment: str | None,
) -> None:
    """Make the proposals that match the baselines. Refused in CI."""
    project = find_project(given)
    chosen = [*patterns, *(["*"] if everything else []), *(_improved(project) if improved else [])]
    accepted = review.accept(
        project,
        chosen,
        known={case.id for case in load_cases(project)},
        reason=reason,
        author=vcs.author(project),
        date=date.today().isoformat(),
        environment=environment,
    )
    for place in accepted:
        click.echo(f"accepted {place}")


def _improved(project: Path) -> list[str]:
    better = [change.place.id for change in review.diff(project) if change.verdict is Reason.IMPROVED]
    if not better:
        raise UserError("no-proposal", "expected a case that improved, but none that waits did")
    return better


@command.command("reject")
@click.argument("patterns", nargs=-1)
@click.pass_obj
def reject(given: Path | None, /, patterns: tuple[str, ...]) -> None:
    """Drop the proposals that match; the next run proposes again what still differs."""
    for case_id in review.reject(find_project(given), patterns):
        click.echo(f"rejected {case_id}")


@command.command("prune")
@click.pass_obj
def prune(given: Path | None, /) -> None:
    """Remove the baselines that no case looks up any more; a case that was renamed keeps its own."""
    project = find_project(given)
    known = {case.baseline_id: case.baseline_definition for case in load_cases(project)}
    pruned = review.prune(project, known)
    for place in pruned.removed:
        click.echo(f"removed {place}")
    for former, place in pruned.renamed.items():
        click.echo(f"renamed {former.id} to {place.id} in {place.file}")
    click.echo(f"{len(pruned.removed)} removed, {len(pruned.renamed)} renamed")


@command.command("list")
@click.pass_obj
def list_(given: Path | None, /) -> None:
    """Show everything that was accepted: when, by whom, why."""
    for place, entry in entries(find_project(given)).items():
        click.echo(f"{place}: {entry.date} {entry.author}: {entry.reason}")
