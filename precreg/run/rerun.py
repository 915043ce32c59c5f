"""Do the figures of a proposal repeat?

A baseline of figures that do not repeat would fail or pass later runs at random, so cases run again before acceptance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec.structs import replace

from precreg.baseline import ProposalChange
from precreg.environment import count_processors
from precreg.run.pipeline import Plan, judge_outcome, run_cases
from precreg.types import Baseline, BaselineEntry, Budget, Case, Environment, Outcome, Reason, Verdict
from precreg.verdict import Policy

# Stored with an entry that was accepted without reruns.
NOT_RERUN = "not run again"


class Disagreement(NamedTuple):
    """The reason why a rerun does not confirm a proposal: other bits, or the verdict with the proposal as baseline.

    `rerun` counts from 1. `cause` is untested for a test-defined case, which only pytest can run again.
    """

    cause: Literal["untested", "changed", "bits", "verdict"]
    verdict: Verdict | None = None
    rerun: int = 0
    reruns: int = 0


class Confirmation(NamedTuple):
    """The result of a case's reruns: the text to store with the entry, or the problem that prevents acceptance."""

    text: str
    problem: Disagreement | None = None


def rerun_changes(
    project: Path, changes: Sequence[ProposalChange], cases: Mapping[str, Case], environment: Environment, reruns: int
) -> dict[str, Confirmation]:
    """Run the case of each change `reruns` times in new worker processes, and compare it with the proposal.

    `cases` are the project's cases by id. Test-defined cases are not among them: only pytest can run these. Raises
    UserError (no-workers).
    """
    known = [cases[change.place.id] for change in changes if change.place.id in cases]
    plan = Plan(project, environment, min(len(known), count_processors()))
    outcomes: dict[str, list[Outcome]] = {change.place.id: [] for change in changes}
    # All cases once, then all again: the repeats of a case are some time apart, under another load of the machine.
    for _ in range(reruns if known else 0):
        for outcome in run_cases(known, plan):
            outcomes[outcome.case].append(outcome)
    return {
        change.place.id: confirm_entry(
            cases.get(change.place.id), change.proposal.entry, outcomes[change.place.id], environment
        )
        for change in changes
    }


def confirm_entry(
    case: Case | None, entry: BaselineEntry, reruns: Sequence[Outcome], environment: Environment
) -> Confirmation:
    """Compare every rerun of a case with its proposed entry; all must agree with it."""
    if case is None:
        return Confirmation("", Disagreement("untested"))
    for number, outcome in enumerate(reruns, 1):
        problem = find_disagreement(case, entry, outcome, environment)
        if problem is not None:
            return Confirmation("", problem._replace(rerun=number, reruns=len(reruns)))
    agreed = "the same bits" if all(_same_bits(entry, outcome) for outcome in reruns) else "the same within noise"
    return Confirmation(f"{len(reruns)} {'rerun' if len(reruns) == 1 else 'reruns'}: {agreed}")


def find_disagreement(
    case: Case, entry: BaselineEntry, outcome: Outcome, environment: Environment
) -> Disagreement | None:
    """Return the difference between an outcome and a proposed entry; None if they agree.

    The bits must be the same. If the case is declared nondeterministic, or the proposal was made in another
    environment, the figures must be the same within the case's own noise, neither worse nor better.
    """
    # The rule of baselines judges, with the proposal as the baseline; expectations and time budgets do not apply.
    of_figures = replace(case, baseline_definition=case.definition, expect_failure=None, budget=Budget())
    proposed = Baseline(entry, environment.of_case(outcome.execution).label, "the proposal")
    verdict = judge_outcome(of_figures, proposed, outcome, environment, Policy()).verdict
    if verdict.reason in (Reason.STALE, Reason.INPUTS_CHANGED):
        return Disagreement("changed", verdict)
    if verdict.reason is Reason.IDENTICAL:
        return None
    repeats = case.deterministic and environment.of_case(outcome.execution).has_seen(entry)
    if verdict.reason in (Reason.WITHIN_TOLERANCE, Reason.KNOWN_BAD):
        return Disagreement("bits", verdict) if repeats else None
    return Disagreement("verdict", verdict)


def _same_bits(entry: BaselineEntry, outcome: Outcome) -> bool:
    accepted = {name: tuple(output.digests) for name, output in entry.outputs.items()}
    return outcome.execution.outputs == accepted
