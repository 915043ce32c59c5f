"""The walk through what waits: a person sees each proposal, and says what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import click

from precreg.baseline import review
from precreg.baseline.change import Change
from precreg.cli.accepting import Terms, accept
from precreg.cli.changes import evidence, summary
from precreg.errors import UserError

Answer = Literal["accept", "reject", "skip", "details", "like", "quit"]

ANSWERS: dict[Answer, str] = {
    "accept": "store it as the baseline",
    "reject": "drop it",
    "skip": "let it wait",
    "details": "show every metric, finding and accepted value",
    "like": "accept it and all that come after it of its suite",
    "quit": "let this and all that come after it wait",
}
"""What can be said of a proposal; the first letter is enough."""


def walk(terms: Terms, changes: Sequence[Change]) -> None:
    """Show each change and do what a person says; each answer takes hold at once.

    An end of input and Ctrl-C say what was done, which stays done, and end as KeyboardInterrupt.
    """
    walked = _Walk(terms, changes)
    try:
        walked.through()
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"\n{walked}")
        raise KeyboardInterrupt from None
    click.echo(str(walked))


class _Walk:
    """Where a walk is: what was accepted and rejected so far, and the reason that was given last."""

    def __init__(self, terms: Terms, changes: Sequence[Change]) -> None:
        self._terms, self._changes = terms, changes
        self._accepted: list[str] = []
        self._rejected: list[str] = []
        self._reason: str | None = None

    def __str__(self) -> str:
        waiting = len(self._changes) - len(self._accepted) - len(self._rejected)
        return f"{len(self._accepted)} accepted, {len(self._rejected)} rejected, {waiting} left to wait"

    def through(self) -> None:
        for number, change in enumerate(self._changes):
            if change.place.id not in self._accepted:
                click.echo(f"\n{number + 1} of {len(self._changes)}")
                _show(self._terms, change, verbose=False)
                if not self._settled(number):
                    return

    def _settled(self, number: int) -> bool:
        """Ask until the answer settles one proposal; return False for the end of the walk."""
        change = self._changes[number]
        while True:
            answer = _asked()
            if answer in ("skip", "quit"):
                return answer == "skip"
            if answer == "details":
                _show(self._terms, change, verbose=True)
            elif answer == "reject":
                self._rejected += review.reject(self._terms.project, [change.place.id])
                return True
            elif self._accepts(self._alike(number) if answer == "like" else [change]):
                return True

    def _alike(self, number: int) -> list[Change]:
        """Return the change and those of its suite that come after it, if the person means them."""
        suite = self._changes[number].place.suite
        alike = [change for change in self._changes[number:] if change.place.suite == suite]
        unseen = len(alike) - 1
        told = f"accept {len(alike)} of {suite}, {unseen} of them not shown yet?"
        return alike if not unseen or click.confirm(told) else []

    def _accepts(self, changes: Sequence[Change]) -> bool:
        """Ask for the reason and accept; return False, with the cause told, where that was refused."""
        if not changes:
            return False
        self._reason = click.prompt("reason", default=self._reason)
        try:
            names = [change.place.id for change in changes]
            self._accepted += accept(self._terms, names, self._reason, shown=changes)
        except UserError as refused:
            click.echo(str(refused), err=True)
            return False
        return True


def _show(terms: Terms, change: Change, verbose: bool) -> None:
    click.echo("\n".join([*summary(change, verbose), *evidence(terms, change, verbose)]))


def _asked() -> Answer:
    found: Answer = click.prompt("[a]ccept, [r]eject, [s]kip, [d]etails, [l]ike, [q]uit", value_proc=_answer)
    return found


def _answer(text: str) -> Answer:
    word = text.strip().lower()
    for answer in ANSWERS:
        if word and answer.startswith(word):
            return answer
    meanings = "\n".join(f"  {answer:8} {meaning}" for answer, meaning in ANSWERS.items())
    raise click.UsageError(f"expected one of these, or its first letter:\n{meanings}")
