"""Where does a person decide about proposals?

Acceptance first runs cases again whose figures moved, and reports cumulative losses that will fail later runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from precreg.cli.console import show_lines
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.baseline import (
        BaselineChange,
        BaselineKey,
        LayersByCase,
        MetricChange,
        Proposal,
        ProposalChange,
        SeenEnvironment,
        WaitingProposals,
    )
    from precreg.run import Disagreement
    from precreg.types import AcceptedValue, BaselineEntry, Case, CumulativeLoss, Environment, Finding, RunFinding

# Cases that an error names: enough to recognize the suite, and no screen full of ids.
MAX_NAMED_CASES = 5
# Findings and accepted values that a person sees unless all are requested: one proposal fits on one screen.
MAX_SHOWN_FINDINGS = 4
MAX_SHOWN_VALUES = 3

INSEPARABLE = "the parts of code and environment are unknown: precreg run --pair REVISION runs both versions here"

Answer = Literal["accept", "reject", "skip", "details", "like", "quit"]

# The answers to a proposal, with their meanings. Their first letters differ, and one letter is enough.
ANSWERS: dict[Answer, str] = {
    "accept": "store it as the baseline",
    "reject": "drop it",
    "skip": "let it wait",
    "details": "show every metric, finding and accepted value",
    "like": "accept it and all that come after it of its suite",
    "quit": "let this and all that come after it wait",
}


class AcceptTerms(NamedTuple):
    """Hold the terms of accepting proposals of one project."""

    project: Path
    # By id.
    cases: dict[str, Case]
    # Layers of tolerances by the id of the baseline.
    layers: LayersByCase
    # The environment of the reruns.
    here: Environment
    # The label to store baselines under; None means the proposal's own.
    environment: str | None
    # Reruns of a case whose figures moved; 0 accepts without.
    reruns: int
    # The proposals by origin: only proposals of this branch can be accepted.
    waiting: WaitingProposals


def read_accept_terms(project: Path, environment: str | None, reruns: int) -> AcceptTerms:
    """Read the cases of a project, and detect the environment. Raises UserError for unreadable files."""
    from precreg.baseline import group_layers_by_case, sort_proposals
    from precreg.environment import detect_environment
    from precreg.suite import load_cases

    here = detect_environment()
    cases = load_cases(project)
    by_id = {case.id: case for case in cases}
    waiting = sort_proposals(project, by_id)
    return AcceptTerms(project, by_id, group_layers_by_case(cases), here, environment, reruns, waiting)


def _describe_outdated(proposal: Proposal) -> str:
    branch = f" on branch {proposal.branch}" if proposal.branch else ""
    ran = f"it ran at commit {format_run_commit(proposal.entry.commit)}{branch}" if proposal.entry.commit else "it ran"
    return f"outdated: {ran}, and its code or definition changed since; accepting it runs it again first"


def format_run_commit(commit: str) -> str:
    """Return the first digits of the commit of a run, and whether files were not committed."""
    return commit[:8] + ("-dirty" if commit.endswith("-dirty") else "")


def accept_and_report(
    terms: AcceptTerms,
    patterns: Sequence[str],
    reason: str,
    shown: Sequence[ProposalChange] = (),
    known_bad: str | None = None,
) -> list[str]:
    """Accept the matching proposals, print them, and return their ids. `shown` are the proposals a person has seen.

    With the reason `known_bad`, only proposals of wrong results match, and without it only the others.

    Raises UserError: errors of `accept_proposals`, and unconfirmed-loss; then nothing was accepted.
    """
    from precreg.baseline import accept_proposals, require_unchanged
    from precreg.cli.changes import note_power, print_accepted, warn_of_powerless
    from precreg.vcs import git_author

    found: list[BaselineChange] = []
    powerless: dict[str, bool] = {}

    def confirm(changes: Sequence[ProposalChange]) -> Mapping[str, str]:
        # A run in another terminal may have replaced a proposal since a person has seen it.
        if shown:
            require_unchanged(shown, {change.place.id: change.proposal for change in changes})
        return _rerun(terms, _go_through(terms, changes, found))

    accepted = accept_proposals(
        terms.project,
        patterns,
        known=terms.cases,
        reason=reason,
        author=git_author(terms.project),
        date=date.today().isoformat(),
        environment=terms.environment,
        known_bad=known_bad,
        confirm=confirm,
        check=partial(note_power, terms.cases, terms.here.chain, powerless),
        waiting=terms.waiting,
    )
    ids = [place.id for place in accepted]
    print_accepted(terms.project, accepted, found)
    warn_of_powerless(terms.cases, [id for id in ids if powerless[id]], len(ids))
    return ids


def _go_through(
    terms: AcceptTerms, changes: Sequence[ProposalChange], found: list[BaselineChange]
) -> list[ProposalChange]:
    """Warn of changes, add their facts to a list, and return those to run again."""
    from precreg.baseline import change_of_acceptance

    again = []
    # Once, because each change is read from its proposal anew.
    for change in changes:
        _warn_before_reruns(terms, change)
        found.append(change_of_acceptance(change))
        if change.needs_rerun:
            again.append(change)
    return again


def _warn_before_reruns(terms: AcceptTerms, change: ProposalChange) -> None:
    """Print a loss beyond its budget and an outdated proposal. Reruns take long, and a person may stop here."""
    found = cumulative_loss_of_change(terms, change)
    if found is not None:
        click.echo(f"{change.place.id}: {describe_cumulative_loss(found)}", err=True)
    if change.outdated:
        click.echo(f"{change.place.id}: {_describe_outdated(change.proposal)}", err=True)


def accept_seen_and_report(project: Path, patterns: Sequence[str]) -> None:
    """Store the environments in which runs saw bits again, and print a count. Raises as `accept_environments`."""
    from collections import Counter

    from precreg.baseline import accept_environments

    accepted = accept_environments(project, patterns)
    # One line a file: hundreds of baselines may have the same bits, and git shows each of them.
    for file, cases in Counter(place.file for place in accepted.entries if place not in accepted.recorded).items():
        click.echo(f"{file}: {cases} {'baseline knows' if cases == 1 else 'baselines know'} another environment")
    for file, cases in Counter(place.file for place in accepted.recorded).items():
        click.echo(f"{file}: {cases} {'baseline has' if cases == 1 else 'baselines have'} the record of a reference")
    if accepted.outdated:
        count = len(accepted.outdated)
        were = "1 baseline was" if count == 1 else f"{count} baselines were"
        click.echo(f"{were} replaced since the run, and not changed: {', '.join(accepted.outdated[:MAX_NAMED_CASES])}")


def describe_seen_environment(seen: SeenEnvironment, verbose: bool) -> Iterator[str]:
    """Yield a count for an environment that gave the bits of baselines again, its differences, and maybe all cases."""
    from precreg.report import describe_environment_difference

    baselines = "1 baseline" if len(seen.ids) == 1 else f"{len(seen.ids)} baselines"
    yield f"environment {seen.fingerprint} gave the bits of {baselines}: precreg baseline accept --seen"
    yield from (f"  differs: {describe_environment_difference(each)}" for each in seen.differences)
    yield from (f"  {id}" for id in seen.ids if verbose)


def seen_environment_values(seen: SeenEnvironment) -> dict[str, Any]:
    """Return an environment that gave the bits of baselines again as JSON values."""
    from precreg.report import describe_environment_difference

    differences = [*map(describe_environment_difference, seen.differences)]
    return {"fingerprint": seen.fingerprint, "cases": list(seen.ids), "differences": differences}


def cumulative_loss_of_change(terms: AcceptTerms, change: ProposalChange) -> RunFinding | None:
    """Return the finding that later runs will have if the change is accepted, or None."""
    from precreg.baseline import cumulative_loss_of_entry

    # A first entry has no earlier value to lose against.
    if change.old is None:
        return None
    return cumulative_loss_of_entry(change.place, change.new, terms.layers, terms.here.chain)


def describe_cumulative_loss(found: RunFinding) -> str:
    """Describe the finding of later runs, and the way to allow it."""
    from precreg.report import describe_run_finding

    words = describe_run_finding(found)
    return f"accepting it exceeds the budget: {words}; runs then fail unless baselines/allow.yaml allows it"


def _rerun(terms: AcceptTerms, changes: Sequence[ProposalChange]) -> dict[str, str]:
    """Run the cases whose figures moved again. Raises UserError (unconfirmed-loss) for figures that do not repeat."""
    from precreg.run import NOT_RERUN, rerun_changes

    # The entry says that it was not rerun, so a later reader knows how far to trust it.
    if not changes or not terms.reruns:
        return {change.place.id: NOT_RERUN for change in changes}
    times = "once" if terms.reruns == 1 else f"{terms.reruns} times"
    cause = "figures moved" if any(change.moved for change in changes) else "their code changed"
    click.echo(f"running {len(changes)} {'case' if len(changes) == 1 else 'cases'} again, {times}: {cause}")
    found = rerun_changes(terms.project, changes, terms.cases, terms.here, terms.reruns)
    problems = {id: confirmation.problem for id, confirmation in found.items() if confirmation.problem is not None}
    # All or nothing: baselines of a half-accepted change would disagree with each other.
    if problems:
        raise _unconfirmed_error(problems)
    return {id: confirmation.text for id, confirmation in found.items()}


def _unconfirmed_error(problems: Mapping[str, Disagreement]) -> UserError:
    """Return an error with the problem of the first unconfirmed case, and the names of the others."""
    from precreg.report import describe_disagreement

    first, *others = problems
    more = f" and {len(others) - MAX_NAMED_CASES} more" if others[MAX_NAMED_CASES:] else ""
    named = ", ".join(others[:MAX_NAMED_CASES]) + more
    message = f"expected reruns to repeat the proposal of {first} but {describe_disagreement(problems[first])}"
    return UserError("unconfirmed-loss", message + (f"; not confirmed either: {named}" if others else ""))


def describe_change(change: ProposalChange, verbose: bool) -> Iterator[str]:
    """Yield the case with its verdict, the changes of its environment, and each metric that moved, or all metrics."""
    from precreg.report import describe_environment_difference

    known_bad = " as known bad, for a reason of its own" if change.known_bad else ""
    yield f"{change.place.id}: {change.verdict}, to be stored in {change.place.file}{known_bad}"
    if change.outdated:
        yield f"  {_describe_outdated(change.proposal)}"
    if change.environment_change is not None:
        yield f"  environment: {describe_environment_difference(change.environment_change)}"
        # Both changed at once, so the figures alone cannot separate code and environment.
        if change.proposal.paired is None:
            yield f"  {INSEPARABLE}"
    for metric in change.metrics:
        if verbose or metric.kind != "same":
            yield f"  {metric.kind:7} {metric.output}  {metric.metric:16} {_before_and_after(metric)}"
            if change.environment_change is not None and metric.paired is not None and metric.old is not None:
                yield f"  {'':7} {_separated(metric)}"


def describe_change_evidence(terms: AcceptTerms, change: ProposalChange, verbose: bool) -> Iterator[str]:
    """Yield the findings of the verdict, the values accepted before, and the cumulative loss since then."""
    from precreg.baseline import accepted_values
    from precreg.report import describe_loss

    findings = change.proposal.findings
    shown = findings if verbose else findings[:MAX_SHOWN_FINDINGS]
    yield from (f"  {'evidence':10}  {_finding(finding)}" for finding in shown)
    if findings[len(shown) :]:
        yield f"  {'':10}  and {len(findings) - len(shown)} more"
    # The first value and the last ones show where the figures came from.
    past = () if change.old is None else accepted_values(change.old)
    recent = past if verbose else past[-MAX_SHOWN_VALUES:]
    if len(recent) < len(past):
        yield f"  {'accepted':10}  {describe_accepted_value(past[0])}; {len(past) - len(recent) - 1} between"
    yield from (f"  {'accepted':10}  {describe_accepted_value(value)}" for value in recent)
    found = cumulative_loss_of_change(terms, change)
    worst = largest_cumulative_loss(terms, change.place, change.new)
    if found is not None:
        yield f"  {'cumulative':10}  {describe_cumulative_loss(found)}"
    elif worst is not None:
        yield f"  {'cumulative':10}  {describe_loss(worst)}"


def largest_cumulative_loss(terms: AcceptTerms, place: BaselineKey, entry: BaselineEntry) -> CumulativeLoss | None:
    """Return the largest cumulative loss of any metric; None without a loss."""
    from precreg.baseline import cumulative_budgets
    from precreg.verdict import cumulative_losses

    allowed = cumulative_budgets(entry, terms.layers.get(place.id), terms.here.chain)
    return max(cumulative_losses(entry, allowed), key=lambda found: found.factor, default=None)


def describe_accepted_values(terms: AcceptTerms, place: BaselineKey, entry: BaselineEntry) -> Iterator[str]:
    """Yield the cumulative loss of an entry, and its accepted values, oldest first."""
    from precreg.baseline import accepted_values
    from precreg.report import describe_loss

    found = largest_cumulative_loss(terms, place, entry)
    yield f"  {'cumulative':10}  {'none' if found is None else describe_loss(found)}"
    yield from (f"  {'accepted':10}  {describe_accepted_value(value)}" for value in accepted_values(entry))


def change_values(terms: AcceptTerms, change: ProposalChange) -> dict[str, Any]:
    """Return a proposal with its evidence as JSON values."""
    from msgspec import to_builtins

    from precreg.baseline import accepted_values
    from precreg.report import describe_environment_difference

    # `found` is beyond its budget; `worst` may be within it.
    found, worst = cumulative_loss_of_change(terms, change), largest_cumulative_loss(terms, change.place, change.new)
    difference = change.environment_change
    return {
        "case": change.place.id,
        "environment": change.place.environment,
        "file": change.place.file,
        "verdict": change.verdict,
        "message": change.proposal.message,
        "commit": change.new.commit,
        "branch": change.proposal.branch,
        "outdated": change.outdated,
        "to_confirm": change.needs_rerun,
        "known_bad": change.known_bad,
        "environment_change": "" if difference is None else describe_environment_difference(difference),
        "metrics": [*map(_metric_values, change.metrics)],
        "evidence": to_builtins(change.proposal.findings),
        "accepted": to_builtins(() if change.old is None else accepted_values(change.old)),
        "creep": None if worst is None else _loss_values(worst, found),
    }


def _metric_values(metric: MetricChange) -> dict[str, Any]:
    return {
        "output": metric.output,
        "metric": metric.metric,
        "before": metric.old,
        "paired": metric.paired,
        "after": metric.new,
        "ratio": metric.ratio,
        "kind": metric.kind,
    }


def _loss_values(worst: CumulativeLoss, found: RunFinding | None) -> dict[str, Any]:
    from precreg.report import describe_loss, describe_run_finding

    return {
        "output": worst.output,
        "metric": worst.metric,
        "factor": worst.factor,
        "since": worst.date,
        "beyond_budget": found is not None,
        "message": describe_loss(worst) if found is None else describe_run_finding(found),
    }


def _before_and_after(metric: MetricChange) -> str:
    from precreg.types import format_distinct

    before, after = (figure or "undefined" for figure in format_distinct([metric.old, metric.new]))
    if metric.kind == "new":
        return after
    ratio = "" if metric.ratio is None else f" ({format_distinct([metric.ratio, 1.0], 3)[0]} times)"
    return f"{before} -> {after}{ratio}"


def _separated(metric: MetricChange) -> str:
    """Separate a change into the environment's part, accepted to paired, and the code's, paired to proposed."""
    of_environment = _before_and_after(metric._replace(new=metric.paired))
    of_code = _before_and_after(metric._replace(old=metric.paired))
    return f"due to the environment {of_environment}, due to the code {of_code}"


def _finding(finding: Finding) -> str:
    return f"{finding.output}: {finding.message}" if finding.output else finding.message


def describe_accepted_value(value: AcceptedValue) -> str:
    """Return date, author, reason and confirmation of an accepted value on one line."""
    confirmed = f" ({value.confirmation})" if value.confirmation else ""
    return f"{' '.join(filter(None, (value.date, value.author)))}: {value.reason}{confirmed}"


def review_interactively(terms: AcceptTerms, changes: Sequence[ProposalChange]) -> None:
    """Show each change and apply each answer at once.

    At an end of input or Ctrl-C, print the decisions so far, which stay, and raise KeyboardInterrupt.
    """
    walk = _Walk(terms, changes)
    try:
        walk.through()
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"\n{walk}")
        raise KeyboardInterrupt from None
    click.echo(str(walk))


class _Walk:
    """Hold the decisions of a walk so far, and the last reason."""

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
            # `like` may have accepted later proposals already.
            if change.place.id not in self._accepted:
                click.echo(f"\n{number + 1} of {len(self._changes)}")
                _show(self._terms, change, verbose=False)
                if not self._decide(number):
                    return

    def _decide(self, number: int) -> bool:
        """Ask until an answer decides about one proposal; return False for the end of the walk."""
        from precreg.baseline import reject_proposals

        change = self._changes[number]
        while True:
            answer = _ask()
            if answer in ("skip", "quit"):
                return answer == "skip"
            if answer == "details":
                _show(self._terms, change, verbose=True)
            elif answer == "reject":
                self._rejected += reject_proposals(self._terms.project, [change.place.id])
                return True
            elif self._accept(self._rest_of_suite(number) if answer == "like" else [change]):
                return True

    def _rest_of_suite(self, number: int) -> list[ProposalChange]:
        """Return the change and the later ones of its suite, after a confirmation if there are any."""
        suite = self._changes[number].place.suite
        first = self._changes[number]
        # Wrong results have a reason of their own, so one answer never accepts them along with others.
        changes = [
            change
            for change in self._changes[number:]
            if (change.place.suite, change.known_bad) == (suite, first.known_bad)
        ]
        unseen = len(changes) - 1
        # Accepting unseen proposals is how regressions get into baselines, so it takes a second answer.
        question = f"accept {len(changes)} of {suite}, {unseen} of them not shown yet?"
        return changes if not unseen or click.confirm(question) else []

    def _accept(self, changes: Sequence[ProposalChange]) -> bool:
        """Ask for the reason and accept; print the cause and return False if that was refused."""
        if not changes:
            return False
        # The last reason is offered again, because many proposals share one.
        known_bad = changes[0].known_bad
        self._reason = click.prompt("known bad because" if known_bad else "reason", default=self._reason)
        try:
            # Exact ids and no patterns: a proposal that arrived meanwhile must not be accepted unseen.
            names = [change.place.id for change in changes]
            why = self._reason if known_bad else None
            self._accepted += accept_and_report(self._terms, names, self._reason, shown=changes, known_bad=why)
        except UserError as refused:
            click.echo(str(refused), err=True)
            return False
        return True


def _show(terms: AcceptTerms, change: ProposalChange, verbose: bool) -> None:
    show_lines([*describe_change(change, verbose), *describe_change_evidence(terms, change, verbose)])


def _ask() -> Answer:
    answer: Answer = click.prompt("[a]ccept, [r]eject, [s]kip, [d]etails, [l]ike, [q]uit", value_proc=_read_answer)
    return answer


def _read_answer(text: str) -> Answer:
    word = text.strip().lower()
    for answer in ANSWERS:
        if word and answer.startswith(word):
            return answer
    meanings = "\n".join(f"  {answer:8} {meaning}" for answer, meaning in ANSWERS.items())
    raise click.UsageError(f"expected one of these, or its first letter:\n{meanings}")
