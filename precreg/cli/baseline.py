"""`precreg baseline`: a person reviews what runs propose."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from precreg.baseline import review
from precreg.baseline.accepted import value_of
from precreg.baseline.store import entries
from precreg.cli.accepting import Terms, terms
from precreg.cli.accepting import accept as accept_
from precreg.cli.changes import accepted, past, summary, values
from precreg.cli.reviewing import walk
from precreg.cli.selecting import find_project
from precreg.errors import UserError
from precreg.run.confirming import RERUNS
from precreg.suite.expand import load_cases
from precreg.types.types import Reason

REVIEW_SCHEMA = "precreg-review/1"


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
        click.echo("\n".join(summary(change, verbose)))
    click.echo(f"{len(changes)} {'proposal' if len(changes) == 1 else 'proposals'}")


_reruns = click.option(
    "--confirm",
    "reruns",
    metavar="N",
    type=click.IntRange(0),
    default=RERUNS,
    show_default=True,
    help="Run what moved N times again first; what does not repeat is not accepted. 0 accepts it, and keeps that.",
)

_environment = click.option(
    "--environment", metavar="LABEL", help="Store them under this label, more or less specific."
)

_reason = click.option("--reason", default="", help="Why the new figures are right; kept with them.")


@command.command("review")
@click.argument("patterns", nargs=-1)
@click.option("--accept", "accepts", multiple=True, metavar="PATTERN", help="Accept these, and ask nothing.")
@click.option("--reject", "rejects", multiple=True, metavar="PATTERN", help="Drop these, and ask nothing.")
@_reason
@_reruns
@_environment
@click.option(
    "--json", "as_json", is_flag=True, help="Print every proposal with its evidence as JSON, and ask nothing."
)
@click.pass_obj
def review_(
    given: Path | None,
    /,
    patterns: tuple[str, ...],
    accepts: tuple[str, ...],
    rejects: tuple[str, ...],
    reason: str,
    reruns: int,
    environment: str | None,
    as_json: bool,
) -> None:
    """Walk through the proposals that match: before, after, evidence, what was accepted before; accept or reject each.

    Without a terminal --accept and --reject decide, of what both name --reject.
    """
    project = find_project(given)
    if as_json:
        _print_all(terms(project, environment, reruns), patterns)
    elif accepts or rejects:
        _decide(terms(project, environment, reruns), accepts, rejects, reason)
    else:
        _require_terminal()
        review.refuse_in_ci(os.environ)
        walk(terms(project, environment, reruns), review.diff(project, patterns, environment))


def _print_all(terms: Terms, patterns: tuple[str, ...]) -> None:
    changes = review.diff(terms.project, patterns, terms.environment)
    document = {"schema": REVIEW_SCHEMA, "proposals": [values(terms, change) for change in changes]}
    click.echo(json.dumps(document, indent=2))


def _decide(terms: Terms, accepts: tuple[str, ...], rejects: tuple[str, ...], reason: str) -> None:
    waiting = [change.place.id for change in review.diff(terms.project)]
    dropped = review.select(waiting, rejects) if rejects else []
    chosen = [id for id in review.select(waiting, accepts) if id not in dropped] if accepts else []
    if chosen:
        accept_(terms, chosen, reason)
    for case_id in review.reject(terms.project, dropped) if dropped else ():
        click.echo(f"rejected {case_id}")


def _require_terminal() -> None:
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        if not stream.isatty():
            raise UserError("not-a-terminal", f"expected a terminal to ask in but {name} is none")


@command.command("accept")
@click.argument("patterns", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Accept every proposal.")
@click.option("--improved", is_flag=True, help="Accept every case that improved.")
@_reason
@_reruns
@_environment
@click.pass_obj
def accept(
    given: Path | None,
    /,
    patterns: tuple[str, ...],
    everything: bool,
    improved: bool,
    reason: str,
    reruns: int,
    environment: str | None,
) -> None:
    """Make the proposals that match the baselines. Refused in CI.

    What moved is run again first, and what does not repeat is not accepted: of several nothing is.
    """
    project = find_project(given)
    chosen = [*patterns, *(["*"] if everything else []), *(_improved(project) if improved else [])]
    accept_(terms(project, environment, reruns), chosen, reason)


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
@click.option("--creep", is_flag=True, help="Show how far each has crept, and everything that was accepted of it.")
@click.pass_obj
def list_(given: Path | None, /, creep: bool) -> None:
    """Show everything that was accepted: when, by whom, why."""
    project = find_project(given)
    read = terms(project, None, RERUNS) if creep else None
    for place, entry in entries(project).items():
        if read is None:
            click.echo(f"{place}: {accepted(value_of(entry))}")
        elif entry.accepted:
            click.echo("\n".join([str(place), *past(read, place, entry)]))
