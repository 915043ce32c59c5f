"""Which proposals become baselines? `precreg baseline` lets a person decide."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.options import project_of_option
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.cli.review import AcceptTerms

# Reruns before a proposal whose figures moved is accepted. Two reruns and the run itself make three equal results;
# each rerun costs the time of the case once more.
DEFAULT_RERUNS = 2

REVIEW_SCHEMA = "precreg-review/1"


@click.group("baseline")
def baseline_command() -> None:
    """Review proposals. Runs only write proposals; you accept them here, and later runs are judged by them."""


@baseline_command.command("diff")
@click.argument("patterns", nargs=-1)
@click.option("--verbose", "-v", is_flag=True, help="Show unchanged metrics, and the cases behind counts, too.")
@click.pass_obj
def baseline_diff_command(given: Path | None, /, patterns: tuple[str, ...], verbose: bool) -> None:
    """Show the changes that accepting the matching proposals would make.

    Without a pattern, also show the environments in which runs saw the bits of baselines again.
    """
    from precreg.baseline import diff_environments, diff_proposals
    from precreg.cli.review import describe_change, describe_seen_environment

    project = project_of_option(given)
    changes = diff_proposals(project, patterns, known=_known_ids(project) if patterns else ())
    for change in changes:
        click.echo("\n".join(describe_change(change, verbose)))
    for seen in () if patterns else diff_environments(project):
        click.echo("\n".join(describe_seen_environment(seen, verbose)))
    click.echo(f"{len(changes)} {'proposal' if len(changes) == 1 else 'proposals'}")


def _known_ids(project: Path) -> Collection[str]:
    """Return the ids of the suites' cases: a case's id never matches the proposals of others."""
    from precreg.suite import load_cases

    try:
        return [case.id for case in load_cases(project)]
    except UserError:
        # Proposals can be seen and rejected while a suite is broken; then an id may be a part of others that wait.
        return ()


_reruns = click.option(
    "--confirm",
    "reruns",
    metavar="N",
    type=click.IntRange(0),
    default=DEFAULT_RERUNS,
    show_default=True,
    help="Rerun cases whose figures moved N times first, and refuse figures that do not repeat. 0 skips this,"
    " and the entry says so.",
)

_environment = click.option("--environment", metavar="LABEL", help="Store the baselines under this label.")

_seen = click.option(
    "--seen",
    is_flag=True,
    help="The environments in which runs saw the bits of baselines again, of all or of the matching cases.",
)

_reason = click.option("--reason", default="", help="The reason why the new figures are right; stored with them.")


@baseline_command.command("review")
@click.argument("patterns", nargs=-1)
@click.option("--accept", "accepts", multiple=True, metavar="PATTERN", help="Accept these without questions.")
@click.option("--reject", "rejects", multiple=True, metavar="PATTERN", help="Reject these without questions.")
@_reason
@_reruns
@_environment
@click.option(
    "--json", "as_json", is_flag=True, help="Print every proposal with its evidence as JSON, without questions."
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
    """Walk through the matching proposals, and accept or reject each: before, after, evidence, earlier values.

    Use --accept and --reject without a terminal; --reject wins for a case that both name.
    """
    from precreg.baseline import diff_proposals, refuse_in_ci
    from precreg.cli.review import read_accept_terms, review_interactively

    project = project_of_option(given)
    if as_json:
        # JSON only shows, so it works in CI and without a terminal.
        _print_all(read_accept_terms(project, environment, reruns), patterns)
    elif accepts or rejects:
        _decide(read_accept_terms(project, environment, reruns), accepts, rejects, reason)
    else:
        _require_terminal()
        # Acceptance refuses in CI anyway; here it does before a person has answered anything.
        refuse_in_ci(os.environ)
        terms = read_accept_terms(project, environment, reruns)
        review_interactively(terms, diff_proposals(project, patterns, environment, known=terms.cases))


def _print_all(terms: AcceptTerms, patterns: tuple[str, ...]) -> None:
    from precreg.baseline import diff_environments, diff_proposals
    from precreg.cli.review import change_values, seen_environment_values

    changes = diff_proposals(terms.project, patterns, terms.environment, known=terms.cases)
    document = {
        "schema": REVIEW_SCHEMA,
        "proposals": [change_values(terms, change) for change in changes],
        "seen": [*map(seen_environment_values, () if patterns else diff_environments(terms.project))],
    }
    click.echo(json.dumps(document, indent=2))


def _decide(terms: AcceptTerms, accepts: tuple[str, ...], rejects: tuple[str, ...], reason: str) -> None:
    """Accept and reject without questions."""
    from precreg.baseline import diff_proposals, reject_proposals, select_proposals
    from precreg.cli.review import accept_and_report

    waiting = {change.place.id: change for change in diff_proposals(terms.project)}
    # Resolved against one list, so that both options see the same proposals.
    dropped = select_proposals(waiting, rejects, terms.cases) if rejects else []
    chosen = [id for id in select_proposals(waiting, accepts, terms.cases) if id not in dropped] if accepts else []
    # A pattern leaves wrong results waiting. If it matches nothing else, acceptance says why it refuses them.
    chosen = [id for id in chosen if not waiting[id].known_bad] or chosen
    # Accepting first: it may refuse, and then nothing is rejected either.
    if chosen:
        accept_and_report(terms, chosen, reason)
    for case_id in reject_proposals(terms.project, dropped) if dropped else ():
        click.echo(f"rejected {case_id}")


def _require_terminal() -> None:
    # stdout too: a person cannot answer questions that go into a file.
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        if not stream.isatty():
            raise UserError("not-a-terminal", f"expected a terminal but {name} is not one")


@baseline_command.command("accept")
@click.argument("patterns", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Accept every proposal.")
@click.option("--improved", is_flag=True, help="Accept every case that improved.")
@click.option(
    "--known",
    "known_bad",
    metavar="REASON",
    help="Accept results that are out of tolerance, or have NaN, as they are: known to be bad, for this reason.",
)
@_seen
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
    known_bad: str | None,
    seen: bool,
    reason: str,
    reruns: int,
    environment: str | None,
) -> None:
    """Make the matching proposals the baselines. Refused in CI.

    Without --known, proposals of wrong results keep waiting. With it, only these are accepted.

    Cases whose figures moved run again first. If one of them does not repeat its figures, nothing is accepted. With
    --seen, accept no figures: runs in another environment saw the bits of the baselines again, and are judged as
    strictly there from now on.
    """
    from precreg.cli.review import accept_and_report, accept_seen_and_report, read_accept_terms

    project = project_of_option(given)
    if seen:
        _require_seen_alone(
            everything=everything, improved=improved, known=known_bad, reason=reason, environment=environment
        )
        accept_seen_and_report(project, patterns)
        return
    chosen = [*patterns, *(["*"] if everything else []), *(_improved(project) if improved else [])]
    terms = read_accept_terms(project, environment, reruns)
    accepted = accept_and_report(terms, chosen, reason, known_bad=known_bad)
    if known_bad is None and (left := _left_waiting(project, chosen, {*terms.cases, *accepted})):
        click.echo(f"not accepted, because wrong: {', '.join(left)} (--known REASON accepts them as they are)")


def _left_waiting(project: Path, patterns: list[str], known: Collection[str]) -> list[str]:
    """Return the first few proposals of wrong results among the matching ones."""
    from precreg.baseline import pending_proposals
    from precreg.cli.review import MAX_NAMED_CASES
    from precreg.suite import match_names

    wrong = [id for id, proposal in pending_proposals(project).items() if proposal.entry.known is not None]
    # An id that was just accepted is named alone, although it may be a part of an id that waits.
    matching = match_names(wrong, patterns, known)
    chosen = [id for id in wrong if id in matching]
    more = [f"{len(chosen) - MAX_NAMED_CASES} more"] if chosen[MAX_NAMED_CASES:] else []
    return chosen[:MAX_NAMED_CASES] + more


def _require_seen_alone(**others: object) -> None:
    for name, value in others.items():
        if value:
            option = {"everything": "--all"}.get(name, f"--{name}")
            raise UserError("bad-value", f"expected --seen with patterns alone but got {option}: --seen has no figures")


def _improved(project: Path) -> list[str]:
    from precreg.baseline import diff_proposals
    from precreg.types import Reason

    improved = [change.place.id for change in diff_proposals(project) if change.verdict is Reason.IMPROVED]
    if not improved:
        raise UserError("no-proposal", "expected a proposal of a case that improved but none did")
    return improved


@baseline_command.command("reject")
@click.argument("patterns", nargs=-1)
@_seen
@click.pass_obj
def baseline_reject_command(given: Path | None, /, patterns: tuple[str, ...], seen: bool) -> None:
    """Drop the matching proposals; the next run proposes again every case that still differs."""
    from precreg.baseline import reject_environments, reject_proposals

    project = project_of_option(given)
    if seen:
        click.echo(f"rejected the environments of {len(reject_environments(project, patterns))} baselines")
        return
    for case_id in reject_proposals(project, patterns, _known_ids(project)):
        click.echo(f"rejected {case_id}")


@baseline_command.command("prune")
@click.pass_obj
def baseline_prune_command(given: Path | None, /) -> None:
    """Remove the baselines that no case looks up any longer; a renamed case keeps its own."""
    from precreg.baseline import prune_baselines
    from precreg.suite import load_cases

    project = project_of_option(given)
    # The definitions find the new place of a renamed case.
    known = {case.baseline_id: case.baseline_definition for case in load_cases(project)}
    pruned = prune_baselines(project, known)
    for place in pruned.removed:
        click.echo(f"removed {place}")
    for former, place in pruned.renamed.items():
        click.echo(f"renamed {former.id} to {place.id} in {place.file}")
    click.echo(f"{len(pruned.removed)} removed, {len(pruned.renamed)} renamed")


@baseline_command.command("list")
@click.argument("patterns", nargs=-1)
@click.option("--creep", is_flag=True, help="Show the cumulative loss of each, and its accepted values.")
@click.pass_obj
def baseline_list_command(given: Path | None, /, patterns: tuple[str, ...], creep: bool) -> None:
    """Show every baseline, or the matching ones: when, by whom and why it was accepted."""
    from precreg.baseline import accepted_value, read_all_entries
    from precreg.cli.review import describe_accepted_value, describe_accepted_values, read_accept_terms
    from precreg.suite import select_names

    project = project_of_option(given)
    terms = read_accept_terms(project, None, DEFAULT_RERUNS) if creep else None
    entries = read_all_entries(project)
    if not entries and not patterns:
        click.echo("no baseline: precreg baseline accept makes the first ones of proposals", err=True)
    chosen = select_names(sorted({place.id for place in entries}), patterns, noun="baseline")
    for place, entry in entries.items():
        if place.id not in chosen:
            continue
        if terms is None:
            known = "" if entry.known is None else f" (known bad: {entry.known.reason})"
            click.echo(f"{place}: {describe_accepted_value(accepted_value(entry))}{known}")
        elif entry.accepted:
            click.echo("\n".join([str(place), *describe_accepted_values(terms, place, entry)]))
