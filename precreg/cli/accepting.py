"""Accepting proposals: what moved is run again first, and what would creep beyond its budget is said before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

import click

from precreg import vcs
from precreg.baseline import review
from precreg.baseline.change import Change
from precreg.baseline.creeping import Layers, crept_at, layers_of
from precreg.environment.environment import detect
from precreg.errors import UserError
from precreg.run.confirming import NOT_CONFIRMED, confirm
from precreg.suite.expand import load_cases
from precreg.types.records import Environment, RunFinding
from precreg.types.types import Case

MOST_NAMED = 5
"""Cases that an error names."""


class Terms(NamedTuple):
    """On what terms proposals of a project are accepted: `environment` overrides where they are stored.

    `cases` are the project's by id, and `layers` their tolerances' by the id of the baseline; `here` is where they are
    run again, `reruns` times.
    """

    project: Path
    cases: dict[str, Case]
    layers: Layers
    here: Environment
    environment: str | None
    reruns: int


def terms(project: Path, environment: str | None, reruns: int) -> Terms:
    """Read the cases of a project, and where this is. Raises UserError for what cannot be read."""
    here = detect()
    cases = load_cases(project)
    return Terms(project, {case.id: case for case in cases}, layers_of(cases), here, environment, reruns)


def accept(terms: Terms, patterns: Sequence[str], reason: str, shown: Sequence[Change] = ()) -> list[str]:
    """Accept the proposals that match, say so, and return their ids. `shown` are those that a person has seen.

    Raises:
        UserError: what `review.accept` raises, and unconfirmed-loss; then nothing was accepted.
    """

    def confirmed(changes: Sequence[Change]) -> Mapping[str, str]:
        if shown:
            review.require_unchanged(shown, {change.place.id: change.proposal for change in changes})
        for change in changes:
            found = creep_of(terms, change)
            if found is not None:
                click.echo(f"{change.place.id}: {warning(found)}", err=True)
        return _confirmed(terms, [change for change in changes if change.to_confirm])

    accepted = review.accept(
        terms.project,
        patterns,
        known=terms.cases,
        reason=reason,
        author=vcs.author(terms.project),
        date=date.today().isoformat(),
        environment=terms.environment,
        confirm=confirmed,
    )
    for place, entry in accepted.items():
        click.echo(f"accepted {place}" + (f" ({entry.confirmation})" if entry.confirmation else ""))
    return [place.id for place in accepted]


def creep_of(terms: Terms, change: Change) -> RunFinding | None:
    """Return what runs will be told of a change once it is accepted."""
    return crept_at(change.place, change.new, terms.layers, terms.here.chain)


def warning(found: RunFinding) -> str:
    """Say what will be found, and what to do about it."""
    return f"once accepted it creeps: {found.message}; runs then fail unless baselines/allow.yaml allows it"


def _confirmed(terms: Terms, changes: Sequence[Change]) -> dict[str, str]:
    """Run the cases again whose figures moved. Raises UserError (unconfirmed-loss) where they do not repeat."""
    if not changes or not terms.reruns:
        return {change.place.id: NOT_CONFIRMED for change in changes}
    times = "once" if terms.reruns == 1 else f"{terms.reruns} times"
    click.echo(f"running {len(changes)} {'case' if len(changes) == 1 else 'cases'} again, {times}: figures moved")
    found = confirm(terms.project, changes, terms.cases, terms.here, terms.reruns)
    problems = {id: confirmation.problem for id, confirmation in found.items() if confirmation.problem is not None}
    if problems:
        raise _unconfirmed(problems)
    return {id: confirmation.text for id, confirmation in found.items()}


def _unconfirmed(problems: Mapping[str, str]) -> UserError:
    """Name the cases that were not confirmed, and say why of the first."""
    first, *others = problems
    named = ", ".join(others[:MOST_NAMED]) + (f" and {len(others) - MOST_NAMED} more" if others[MOST_NAMED:] else "")
    message = f"expected reruns to give what is proposed of {first} but {problems[first]}"
    return UserError("unconfirmed-loss", message + (f"; not confirmed either: {named}" if others else ""))
