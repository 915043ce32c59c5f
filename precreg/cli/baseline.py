"""Which proposals become baselines? `precreg baseline` lets a person decide."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.console import show_lines, terminal_width
from precreg.cli.options import project_of_option
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.baseline import WaitingProposals
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
@click.option("--verbose", "-v", is_flag=True, help="Show every case and metric, and the cases behind counts, too.")
@click.option("--markdown", is_flag=True, help="Print a table for the description of the merge request.")
@click.option(
    "--against",
    metavar="REVISION",
    help="Compare with the baselines of a commit instead: auto is the merge base with the default branch.",
)
@click.pass_obj
def baseline_diff_command(
    given: Path | None, /, patterns: tuple[str, ...], verbose: bool, markdown: bool, against: str | None
) -> None:
    """Show the changes that accepting the matching proposals would make, or those since a commit; losses first.

    Many changes are counted by suite, and the largest are shown. Without a pattern, also show the environments in which
    runs saw the bits of baselines again.
    """
    from precreg.baseline import diff_environments, diff_proposals
    from precreg.cli.changes import (
        MAX_SINGLE_CASES,
        describe_many_proposals,
        print_changes_since,
        print_proposals_markdown,
    )
    from precreg.cli.review import describe_change, describe_seen_environment

    project = project_of_option(given)
    if against is not None:
        print_changes_since(project, against, patterns, markdown=markdown, verbose=verbose)
        return
    waiting, known = _sorted_proposals(project, err=markdown)
    changes = diff_proposals(project, patterns, waiting=waiting, known=known)
    if markdown:
        print_proposals_markdown(changes, patterns, verbose=verbose)
        return
    if len(changes) > MAX_SINGLE_CASES and not verbose:
        show_lines(describe_many_proposals(changes, terminal_width(sys.stdout)))
    else:
        show_lines(line for change in changes for line in describe_change(change, verbose))
    for seen in () if patterns else diff_environments(project):
        show_lines(describe_seen_environment(seen, verbose))
    click.echo(f"{len(changes)} {'proposal' if len(changes) == 1 else 'proposals'}")


def _sorted_proposals(project: Path, err: bool = False) -> tuple[WaitingProposals, Collection[str]]:
    """Return the proposals by origin and the ids of the suites' cases, and print which proposals are left out."""
    from precreg.baseline import WaitingProposals, pending_proposals, sort_proposals
    from precreg.suite import load_cases

    try:
        cases = {case.id: case for case in load_cases(project)}
    except UserError:
        # Proposals can be seen and rejected while a suite is broken; then an id may be a part of others that wait.
        return WaitingProposals(pending_proposals(project)), ()
    waiting = sort_proposals(project, cases)
    for line in _describe_left_out(waiting):
        click.echo(line, err=err)
    return waiting, cases


def _describe_left_out(waiting: WaitingProposals) -> Iterator[str]:
    """Yield a line for each branch whose proposals are ignored here, and one for cases that no suite has."""
    from precreg.cli.review import MAX_NAMED_CASES, format_run_commit

    numbers: dict[str, int] = {}
    for facts in map(waiting.elsewhere.facts, waiting.elsewhere):
        place = f"branch {facts.branch}" if facts.branch else f"commit {format_run_commit(facts.commit)}"
        numbers[place] = numbers.get(place, 0) + 1
    for place, number in numbers.items():
        those = "1 proposal" if number == 1 else f"{number} proposals"
        yield f"{those} of {place} {'is' if number == 1 else 'are'} ignored here (precreg baseline prune drops them)"
    if waiting.gone:
        named = ", ".join([*waiting.gone][:MAX_NAMED_CASES])
        more = f" and {len(waiting.gone) - MAX_NAMED_CASES} more" if len(waiting.gone) > MAX_NAMED_CASES else ""
        yield f"left out, because no suite has the case: {named}{more} (precreg baseline prune drops the proposals)"


def _terms(project: Path, environment: str | None, reruns: int) -> AcceptTerms:
    """Return the terms of accepting, and print which proposals are left out."""
    from precreg.cli.review import read_accept_terms

    terms = read_accept_terms(project, environment, reruns)
    for line in _describe_left_out(terms.waiting):
        click.echo(line)
    return terms


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
        _decide(_terms(project, environment, reruns), accepts, rejects, reason)
    else:
        _require_terminal()
        # Acceptance refuses in CI anyway; here it does before a person has answered anything.
        refuse_in_ci(os.environ)
        terms = _terms(project, environment, reruns)
        changes = diff_proposals(project, patterns, environment, terms.waiting, terms.cases)
        review_interactively(terms, changes)


def _print_all(terms: AcceptTerms, patterns: tuple[str, ...]) -> None:
    from precreg.baseline import diff_environments, diff_proposals
    from precreg.cli.review import change_values, seen_environment_values

    changes = diff_proposals(terms.project, patterns, terms.environment, terms.waiting, terms.cases)
    document = {
        "schema": REVIEW_SCHEMA,
        "proposals": [change_values(terms, change) for change in changes],
        "seen": [*map(seen_environment_values, () if patterns else diff_environments(terms.project))],
        "left_out": [*_describe_left_out(terms.waiting)],
    }
    click.echo(json.dumps(document, indent=2))


def _decide(terms: AcceptTerms, accepts: tuple[str, ...], rejects: tuple[str, ...], reason: str) -> None:
    """Accept and reject without questions."""
    from precreg.baseline import reject_proposals, select_proposals
    from precreg.cli.review import accept_and_report

    waiting = terms.waiting.here
    # Resolved against one list, so that both options see the same proposals.
    dropped = select_proposals(waiting, rejects, terms.cases) if rejects else []
    chosen = [id for id in select_proposals(waiting, accepts, terms.cases) if id not in dropped] if accepts else []
    # A pattern leaves wrong results waiting. If it matches nothing else, acceptance says why it refuses them.
    chosen = [id for id in chosen if not waiting.facts(id).is_wrong] or chosen
    # Accepting first: it may refuse, and then nothing is rejected either.
    if chosen:
        accept_and_report(terms, chosen, reason)
    for case_id in reject_proposals(terms.project, dropped, terms.waiting.here) if dropped else ():
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
@click.option(
    "--allow",
    "allowance",
    metavar="REASON",
    default="",
    help="Also permit the changes in baselines/allow.yaml, for this reason, which serves as --reason, too.",
)
@click.option(
    "--against",
    metavar="REVISION",
    default="auto",
    help="With --allow: the commit that the merge request compares with. Default: auto, the merge base with the"
    " default branch.",
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
    allowance: str,
    against: str,
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
    from precreg.cli.allow import allow_accepted
    from precreg.cli.review import accept_and_report, accept_seen_and_report

    project = project_of_option(given)
    if seen:
        _require_seen_alone(
            everything=everything,
            improved=improved,
            known=known_bad,
            allow=allowance,
            reason=reason,
            environment=environment,
        )
        accept_seen_and_report(project, patterns)
        return
    base = _allowance_base(project, against) if allowance else ""
    terms = _terms(project, environment, reruns)
    chosen = [*patterns, *(["*"] if everything else []), *(_improved(terms) if improved else [])]
    accepted = accept_and_report(terms, chosen, reason or allowance, known_bad=known_bad)
    if base:
        allow_accepted(project, accepted, allowance.strip(), base)
    if known_bad is None and (left := _left_waiting(terms.waiting, chosen, {*terms.cases, *accepted})):
        click.echo(f"not accepted, because wrong: {', '.join(left)} (--known REASON accepts them as they are)")


def _allowance_base(project: Path, against: str) -> str:
    """Return the commit that allowances are for. Raises UserError for files that cannot be read later, either."""
    from precreg.baseline.integrity import read_allowances
    from precreg.vcs import review_base

    # Before anything is accepted: a mistake must not leave accepted baselines without their allowances.
    read_allowances(project)
    return review_base(project, against)


def _left_waiting(waiting: WaitingProposals, patterns: list[str], known: Collection[str]) -> list[str]:
    """Return the first few proposals of wrong results among the matching ones."""
    from precreg.cli.review import MAX_NAMED_CASES
    from precreg.suite import match_names

    wrong = [id for id in waiting.here if waiting.here.facts(id).is_wrong]
    # An id that was just accepted is named alone, although it may be a part of an id that waits.
    matching = match_names(wrong, patterns, known)
    chosen = [id for id in wrong if id in matching]
    more = [f"{len(chosen) - MAX_NAMED_CASES} more"] if chosen[MAX_NAMED_CASES:] else []
    return chosen[:MAX_NAMED_CASES] + more


def _require_seen_alone(**others: object) -> None:
    for name, value in others.items():
        if value:
            option = {"everything": "--all"}.get(name, f"--{name}")
            raise UserError(
                "bad-value",
                f"expected --seen with patterns alone but got {option}: --seen has no figures",
                hint=f"leave out {option}: precreg baseline accept --seen unit/mean",
            )


def _improved(terms: AcceptTerms) -> list[str]:
    from precreg.types import Reason

    improved = [id for id in terms.waiting.here if terms.waiting.here.facts(id).verdict is Reason.IMPROVED]
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
    waiting, known = _sorted_proposals(project)
    for case_id in reject_proposals(project, patterns, waiting.here, known):
        click.echo(f"rejected {case_id}")


@baseline_command.command("prune")
@click.pass_obj
def baseline_prune_command(given: Path | None, /) -> None:
    """Remove the baselines that no case looks up any longer; a renamed case keeps its own.

    Also drop the proposals of other branches, and of cases that no suite has.
    """
    from precreg.baseline import drop_proposals, prune_baselines, sort_proposals
    from precreg.suite import load_cases

    project = project_of_option(given)
    cases = load_cases(project)
    # The definitions find the new place of a renamed case.
    pruned = prune_baselines(project, {case.baseline_id: case.baseline_definition for case in cases})
    dropped = drop_proposals(project, sort_proposals(project, {case.id: case for case in cases}))
    for place in pruned.removed:
        click.echo(f"removed {place}")
    for former, place in pruned.renamed.items():
        click.echo(f"renamed {former.id} to {place.id} in {place.file}")
    for id, proposal in dropped.items():
        click.echo(f"dropped the proposal of {id}" + (f" from branch {proposal.branch}" if proposal.branch else ""))
    proposals = f", {len(dropped)} {'proposal' if len(dropped) == 1 else 'proposals'} dropped" if dropped else ""
    click.echo(f"{len(pruned.removed)} removed, {len(pruned.renamed)} renamed{proposals}")


@baseline_command.command("checksum")
@click.pass_obj
def baseline_checksum_command(given: Path | None, /) -> None:
    """Add a checksum to the baselines that have none, which earlier versions wrote. No figure changes."""
    from precreg.baseline import add_checksums, lock_baselines, refuse_in_ci

    project = project_of_option(given)
    refuse_in_ci(os.environ)
    with lock_baselines(project):
        number = add_checksums(project)
    click.echo(f"added the checksums of {number} {'baseline' if number == 1 else 'baselines'}")


@baseline_command.command("migrate")
@click.pass_obj
def baseline_migrate_command(given: Path | None, /) -> None:
    """Rewrite the baselines of earlier versions in the present form: people review a file, a sibling has the sums.

    No figure, reason, author or date changes, and no case runs.
    """
    from precreg.baseline import lock_baselines, migrate_baselines, refuse_in_ci

    project = project_of_option(given)
    refuse_in_ci(os.environ)
    with lock_baselines(project):
        files = migrate_baselines(project)
    entries = sum(files.values())
    entries_text = "1 baseline" if entries == 1 else f"{entries} baselines"
    click.echo(f"migrated {entries_text} in {'1 file' if len(files) == 1 else f'{len(files)} files'}")


@baseline_command.command("list")
@click.argument("patterns", nargs=-1)
@click.option("--creep", is_flag=True, help="Show the cumulative loss of each, and its accepted values.")
@click.option("--all", "everything", is_flag=True, help="Show each of many, too.")
@click.pass_obj
def baseline_list_command(given: Path | None, /, patterns: tuple[str, ...], creep: bool, everything: bool) -> None:
    """Show the baselines, or the matching ones: when, by whom and why each was accepted.

    Many are counted by file.
    """
    from precreg.baseline import accepted_value, read_all_entries
    from precreg.cli.changes import describe_listed
    from precreg.cli.review import describe_accepted_value, describe_accepted_values, read_accept_terms
    from precreg.suite import select_names

    project = project_of_option(given)
    terms = read_accept_terms(project, None, DEFAULT_RERUNS) if creep else None
    entries = read_all_entries(project)
    if not entries and not patterns:
        click.echo("no baseline: precreg baseline accept makes the first ones of proposals", err=True)
    chosen = select_names(sorted({place.id for place in entries}), patterns, noun="baseline")
    entries = {place: entry for place, entry in entries.items() if place.id in chosen}
    if terms is not None:
        for place, entry in entries.items():
            if entry.accepted:
                show_lines([str(place), *describe_accepted_values(terms, place, entry)])
        return
    lines = []
    for place, entry in entries.items():
        known = "" if entry.known is None else f" (known bad: {entry.known.reason})"
        lines.append(f"{place}: {describe_accepted_value(accepted_value(entry))}{known}")
    show_lines(lines if everything else describe_listed(entries, lines))
