"""`precreg baseline`: a person reviews what runs propose."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from precreg.baseline import (
    accepted_value,
    diff_proposals,
    prune_baselines,
    read_all_entries,
    refuse_in_ci,
    reject_proposals,
    select_proposals,
)
from precreg.cli.options import project_of_option
from precreg.cli.review import (
    AcceptTerms,
    change_values,
    describe_accepted_value,
    describe_accepted_values,
    describe_change,
    read_accept_terms,
    review_interactively,
)
from precreg.cli.review import accept_and_report as accept_
from precreg.errors import UserError
from precreg.run import DEFAULT_RERUNS
from precreg.suite import load_cases
from precreg.types import Reason

REVIEW_SCHEMA = "precreg-review/1"


@click.group("baseline")
def baseline_command() -> None:
    """Review what runs propose. Runs write proposals alone; what is accepted here is what later runs are judged by."""


@baseline_command.command("diff")
@click.argument("patterns", nargs=-1)
@click.option("--verbose", "-v", is_flag=True, help="Show metrics that did not change, too.")
@click.pass_obj
def baseline_diff_command(given: Path | None, /, patterns: tuple[str, ...], verbose: bool) -> None:
    """Show what accepting the proposals that match would change."""
    changes = diff_proposals(project_of_option(given), patterns)
    for change in changes:
        click.echo("\n".join(describe_change(change, verbose)))
    click.echo(f"{len(changes)} {'proposal' if len(changes) == 1 else 'proposals'}")


_reruns = click.option(
    "--confirm",
    "reruns",
    metavar="N",
    type=click.IntRange(0),
    default=DEFAULT_RERUNS,
    show_default=True,
    help="Run what moved N times again first; what does not repeat is not accepted. 0 accepts it, and keeps that.",
)

_environment = click.option(
    "--environment", metavar="LABEL", help="Store them under this label, more or less specific."
)

_reason = click.option("--reason", default="", help="Why the new figures are right; kept with them.")


@baseline_command.command("review")
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
def baseline_review_command(
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
    project = project_of_option(given)
    if as_json:
        _print_all(read_accept_terms(project, environment, reruns), patterns)
    elif accepts or rejects:
        _decide(read_accept_terms(project, environment, reruns), accepts, rejects, reason)
    else:
        _require_terminal()
        refuse_in_ci(os.environ)
        review_interactively(
            read_accept_terms(project, environment, reruns), diff_proposals(project, patterns, environment)
        )


def _print_all(terms: AcceptTerms, patterns: tuple[str, ...]) -> None:
    changes = diff_proposals(terms.project, patterns, terms.environment)
    document = {"schema": REVIEW_SCHEMA, "proposals": [change_values(terms, change) for change in changes]}
    click.echo(json.dumps(document, indent=2))


def _decide(terms: AcceptTerms, accepts: tuple[str, ...], rejects: tuple[str, ...], reason: str) -> None:
    waiting = [change.place.id for change in diff_proposals(terms.project)]
    dropped = select_proposals(waiting, rejects) if rejects else []
    chosen = [id for id in select_proposals(waiting, accepts) if id not in dropped] if accepts else []
    if chosen:
        accept_(terms, chosen, reason)
    for case_id in reject_proposals(terms.project, dropped) if dropped else ():
        click.echo(f"rejected {case_id}")


def _require_terminal() -> None:
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        if not stream.isatty():
            raise UserError("not-a-terminal", f"expected a terminal to ask in but {name} is none")


@baseline_command.command("accept")
@click.argument("patterns", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Accept every proposal.")
@click.option("--improved", is_flag=True, help="Accept every case that improved.")
@_reason
@_reruns
@_environment
@click.pass_obj
def baseline_accept_command(
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
    project = project_of_option(given)
    chosen = [*patterns, *(["*"] if everything else []), *(_improved(project) if improved else [])]
    accept_(read_accept_terms(project, environment, reruns), chosen, reason)


def _improved(project: Path) -> list[str]:
    better = [change.place.id for change in diff_proposals(project) if change.verdict is Reason.IMPROVED]
    if not better:
        raise UserError("no-proposal", "expected a case that improved, but none that waits did")
    return better


@baseline_command.command("reject")
@click.argument("patterns", nargs=-1)
@click.pass_obj
def baseline_reject_command(given: Path | None, /, patterns: tuple[str, ...]) -> None:
    """Drop the proposals that match; the next run proposes again what still differs."""
    for case_id in reject_proposals(project_of_option(given), patterns):
        click.echo(f"rejected {case_id}")


@baseline_command.command("prune")
@click.pass_obj
def baseline_prune_command(given: Path | None, /) -> None:
    """Remove the baselines that no case looks up any more; a case that was renamed keeps its own."""
    project = project_of_option(given)
    known = {case.baseline_id: case.baseline_definition for case in load_cases(project)}
    pruned = prune_baselines(project, known)
    for place in pruned.removed:
        click.echo(f"removed {place}")
    for former, place in pruned.renamed.items():
        click.echo(f"renamed {former.id} to {place.id} in {place.file}")
    click.echo(f"{len(pruned.removed)} removed, {len(pruned.renamed)} renamed")


@baseline_command.command("list")
@click.option("--creep", is_flag=True, help="Show how far each has crept, and everything that was accepted of it.")
@click.pass_obj
def baseline_list_command(given: Path | None, /, creep: bool) -> None:
    """Show everything that was accepted: when, by whom, why."""
    project = project_of_option(given)
    read = read_accept_terms(project, None, DEFAULT_RERUNS) if creep else None
    for place, entry in read_all_entries(project).items():
        if read is None:
            click.echo(f"{place}: {describe_accepted_value(accepted_value(entry))}")
        elif entry.accepted:
            click.echo("\n".join([str(place), *describe_accepted_values(read, place, entry)]))
