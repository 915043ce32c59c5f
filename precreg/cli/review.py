"""Accepting proposals: what moved is run again first, and what would creep beyond its budget is said before.

What is shown of a proposal: as lines for a person, or as plain values for a program.

The walk through what waits: a person sees each proposal, and says what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from precreg.baseline import accept_proposals, reject_proposals, require_unchanged
from precreg.errors import UserError
from precreg.vcs import git_author

if TYPE_CHECKING:
    from precreg.baseline import BaselineKey, LayersByCase, MetricChange, ProposalChange
    from precreg.types import AcceptedValue, BaselineEntry, Case, Environment, Finding, RunFinding
    from precreg.verdict import CumulativeLoss


MAX_NAMED_CASES = 5
"""Cases that an error names."""


class AcceptTerms(NamedTuple):
    """On what terms proposals of a project are accepted: `environment` overrides where they are stored.

    `cases` are the project's by id, and `layers` their tolerances' by the id of the baseline; `here` is where they are
    run again, `reruns` times.
    """

    project: Path
    cases: dict[str, Case]
    layers: LayersByCase
    here: Environment
    environment: str | None
    reruns: int


def read_accept_terms(project: Path, environment: str | None, reruns: int) -> AcceptTerms:
    """Read the cases of a project, and where this is. Raises UserError for what cannot be read."""
    from precreg.baseline import group_layers_by_case
    from precreg.environment import detect_environment
    from precreg.suite import load_cases

    here = detect_environment()
    cases = load_cases(project)
    return AcceptTerms(
        project, {case.id: case for case in cases}, group_layers_by_case(cases), here, environment, reruns
    )


def accept_and_report(
    terms: AcceptTerms, patterns: Sequence[str], reason: str, shown: Sequence[ProposalChange] = ()
) -> list[str]:
    """Accept the proposals that match, say so, and return their ids. `shown` are those that a person has seen.

    Raises:
        UserError: what `review.accept` raises, and unconfirmed-loss; then nothing was accepted.
    """

    def confirmed(changes: Sequence[ProposalChange]) -> Mapping[str, str]:
        if shown:
            require_unchanged(shown, {change.place.id: change.proposal for change in changes})
        for change in changes:
            found = cumulative_loss_of_change(terms, change)
            if found is not None:
                click.echo(f"{change.place.id}: {describe_cumulative_loss(found)}", err=True)
        return _confirmed(terms, [change for change in changes if change.needs_rerun])

    accepted = accept_proposals(
        terms.project,
        patterns,
        known=terms.cases,
        reason=reason,
        author=git_author(terms.project),
        date=date.today().isoformat(),
        environment=terms.environment,
        confirm=confirmed,
    )
    for place, entry in accepted.items():
        click.echo(f"accepted {place}" + (f" ({entry.confirmation})" if entry.confirmation else ""))
    return [place.id for place in accepted]


def cumulative_loss_of_change(terms: AcceptTerms, change: ProposalChange) -> RunFinding | None:
    """Return what runs will be told of a change once it is accepted."""
    from precreg.baseline import cumulative_loss_of_entry

    return cumulative_loss_of_entry(change.place, change.new, terms.layers, terms.here.chain)


def describe_cumulative_loss(found: RunFinding) -> str:
    """Say what will be found, and what to do about it."""
    return f"once accepted it creeps: {found.message}; runs then fail unless baselines/allow.yaml allows it"


def _confirmed(terms: AcceptTerms, changes: Sequence[ProposalChange]) -> dict[str, str]:
    """Run the cases again whose figures moved. Raises UserError (unconfirmed-loss) where they do not repeat."""
    from precreg.run import NOT_RERUN, rerun_changes

    if not changes or not terms.reruns:
        return {change.place.id: NOT_RERUN for change in changes}
    times = "once" if terms.reruns == 1 else f"{terms.reruns} times"
    click.echo(f"running {len(changes)} {'case' if len(changes) == 1 else 'cases'} again, {times}: figures moved")
    found = rerun_changes(terms.project, changes, terms.cases, terms.here, terms.reruns)
    problems = {id: confirmation.problem for id, confirmation in found.items() if confirmation.problem is not None}
    if problems:
        raise _unconfirmed(problems)
    return {id: confirmation.text for id, confirmation in found.items()}


def _unconfirmed(problems: Mapping[str, str]) -> UserError:
    """Name the cases that were not confirmed, and say why of the first."""
    first, *others = problems
    named = ", ".join(others[:MAX_NAMED_CASES]) + (
        f" and {len(others) - MAX_NAMED_CASES} more" if others[MAX_NAMED_CASES:] else ""
    )
    message = f"expected reruns to give what is proposed of {first} but {problems[first]}"
    return UserError("unconfirmed-loss", message + (f"; not confirmed either: {named}" if others else ""))


INSEPARABLE = "code and environment cannot be told apart: precreg run --pair REVISION runs both versions here"


MAX_SHOWN_FINDINGS, MAX_SHOWN_VALUES = 4, 3
"""Findings, and accepted values, that a person is shown unless all are asked for."""


def describe_change(change: ProposalChange, verbose: bool) -> Iterator[str]:
    """Yield the case with its verdict, how its environment changed, and each metric that moved, or every metric."""
    yield f"{change.place.id}: {change.verdict}, to be stored in {change.place.file}"
    if change.environment_change:
        yield f"  environment: {change.environment_change}"
        if change.proposal.paired is None:
            yield f"  {INSEPARABLE}"
    for metric in change.metrics:
        if verbose or metric.kind != "same":
            yield f"  {metric.kind:7} {metric.output}  {metric.metric:16} {_before_and_after(metric)}"
            if change.environment_change and metric.paired is not None and metric.old is not None:
                yield f"  {'':7} {_separated(metric)}"


def describe_change_evidence(terms: AcceptTerms, change: ProposalChange, verbose: bool) -> Iterator[str]:
    """Yield what the verdict was made of, what was accepted before, and what all losses since then come to."""
    from precreg.baseline import accepted_values

    findings = change.proposal.findings
    shown = findings if verbose else findings[:MAX_SHOWN_FINDINGS]
    yield from (f"  {'evidence':10}  {_finding(finding)}" for finding in shown)
    if findings[len(shown) :]:
        yield f"  {'':10}  and {len(findings) - len(shown)} more"
    past = () if change.old is None else accepted_values(change.old)
    recent = past if verbose else past[-MAX_SHOWN_VALUES:]
    if len(recent) < len(past):
        yield f"  {'accepted':10}  {describe_accepted_value(past[0])}; {len(past) - len(recent) - 1} between"
    yield from (f"  {'accepted':10}  {describe_accepted_value(value)}" for value in recent)
    found = cumulative_loss_of_change(terms, change)
    worst = largest_cumulative_loss(terms, change.place, change.new)
    if found is not None:
        yield f"  {'creep':10}  {describe_cumulative_loss(found)}"
    elif worst is not None:
        yield f"  {'creep':10}  {worst}"


def largest_cumulative_loss(terms: AcceptTerms, place: BaselineKey, entry: BaselineEntry) -> CumulativeLoss | None:
    """Return the metric that has crept most, if any has."""
    from precreg.baseline import cumulative_budgets
    from precreg.verdict import cumulative_losses

    allowed = cumulative_budgets(entry, terms.layers.get(place.id), terms.here.chain)
    return max(cumulative_losses(entry, allowed), key=lambda found: found.factor, default=None)


def describe_accepted_values(terms: AcceptTerms, place: BaselineKey, entry: BaselineEntry) -> Iterator[str]:
    """Yield how far an entry has crept, and everything that was accepted of it, oldest first."""
    from precreg.baseline import accepted_values

    found = largest_cumulative_loss(terms, place, entry)
    yield f"  {'creep':10}  {'none' if found is None else found}"
    yield from (f"  {'accepted':10}  {describe_accepted_value(value)}" for value in accepted_values(entry))


def change_values(terms: AcceptTerms, change: ProposalChange) -> dict[str, Any]:
    """Return everything about one proposal as values that JSON has."""
    from msgspec import to_builtins

    from precreg.baseline import accepted_values

    found, worst = cumulative_loss_of_change(terms, change), largest_cumulative_loss(terms, change.place, change.new)
    crept = None
    if worst is not None:
        crept = {"output": worst.output, "metric": worst.metric, "factor": worst.factor, "since": worst.since.date}
        crept |= {"beyond_budget": found is not None, "message": str(worst) if found is None else found.message}
    return {
        "case": change.place.id,
        "environment": change.place.environment,
        "file": change.place.file,
        "verdict": change.verdict,
        "message": change.proposal.message,
        "commit": change.new.commit,
        "to_confirm": change.needs_rerun,
        "environment_change": change.environment_change,
        "metrics": [
            {
                "output": metric.output,
                "metric": metric.metric,
                "before": metric.old,
                "paired": metric.paired,
                "after": metric.new,
                "ratio": metric.ratio,
                "kind": metric.kind,
            }
            for metric in change.metrics
        ],
        "evidence": to_builtins(change.proposal.findings),
        "accepted": to_builtins(() if change.old is None else accepted_values(change.old)),
        "creep": crept,
    }


def _before_and_after(metric: MetricChange) -> str:
    from precreg.types import format_distinct

    before, after = (figure or "undefined" for figure in format_distinct([metric.old, metric.new]))
    if metric.kind == "new":
        return after
    ratio = "" if metric.ratio is None else f" ({format_distinct([metric.ratio, 1.0], 3)[0]} times)"
    return f"{before} -> {after}{ratio}"


def _separated(metric: MetricChange) -> str:
    """Tell the environment's part, accepted to paired, from the code's, paired to proposed."""
    of_environment = _before_and_after(metric._replace(new=metric.paired))
    of_code = _before_and_after(metric._replace(old=metric.paired))
    return f"of it the environment's {of_environment}, the code's {of_code}"


def _finding(finding: Finding) -> str:
    return f"{finding.output}: {finding.message}" if finding.output else finding.message


def describe_accepted_value(value: AcceptedValue) -> str:
    """Say when, by whom and why a value was accepted, and how it was confirmed."""
    confirmed = f" ({value.confirmation})" if value.confirmation else ""
    return f"{' '.join(filter(None, (value.date, value.author)))}: {value.reason}{confirmed}"


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


def review_interactively(terms: AcceptTerms, changes: Sequence[ProposalChange]) -> None:
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

    def __init__(self, terms: AcceptTerms, changes: Sequence[ProposalChange]) -> None:
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
                self._rejected += reject_proposals(self._terms.project, [change.place.id])
                return True
            elif self._accepts(self._alike(number) if answer == "like" else [change]):
                return True

    def _alike(self, number: int) -> list[ProposalChange]:
        """Return the change and those of its suite that come after it, if the person means them."""
        suite = self._changes[number].place.suite
        alike = [change for change in self._changes[number:] if change.place.suite == suite]
        unseen = len(alike) - 1
        told = f"accept {len(alike)} of {suite}, {unseen} of them not shown yet?"
        return alike if not unseen or click.confirm(told) else []

    def _accepts(self, changes: Sequence[ProposalChange]) -> bool:
        """Ask for the reason and accept; return False, with the cause told, where that was refused."""
        if not changes:
            return False
        self._reason = click.prompt("reason", default=self._reason)
        try:
            names = [change.place.id for change in changes]
            self._accepted += accept_and_report(self._terms, names, self._reason, shown=changes)
        except UserError as refused:
            click.echo(str(refused), err=True)
            return False
        return True


def _show(terms: AcceptTerms, change: ProposalChange, verbose: bool) -> None:
    click.echo("\n".join([*describe_change(change, verbose), *describe_change_evidence(terms, change, verbose)]))


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
