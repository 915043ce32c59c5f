"""Running a case again before its proposal is accepted: figures that do not repeat are none to be held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from precreg.baseline import ProposalChange
from precreg.environment import count_processors
from precreg.run.pipeline import Plan, judge_outcome, run_cases
from precreg.types import Baseline, BaselineEntry, Budget, Case, Environment, Outcome, Reason
from precreg.verdict import Policy

DEFAULT_RERUNS = 2
"""How often a case is run again unless told otherwise."""


NOT_RERUN = "not run again"
"""What is kept with an entry that was accepted without."""


class Confirmation(NamedTuple):
    """What the reruns of one case came to: what is kept with the entry, or what speaks against accepting it."""

    text: str
    problem: str | None = None


def rerun_changes(
    project: Path, changes: Sequence[ProposalChange], cases: Mapping[str, Case], environment: Environment, reruns: int
) -> dict[str, Confirmation]:
    """Run the case of each change again, `reruns` times in processes of its own, and hold it against the proposal.

    `cases` are those of the project by id. A case that is not among them is a hand-written test's, which pytest alone
    can run. Raises UserError (no-workers).
    """
    known = [cases[change.place.id] for change in changes if change.place.id in cases]
    gave: dict[str, list[Outcome]] = {change.place.id: [] for change in changes}
    for _ in range(reruns):
        for outcome in (
            run_cases(known, Plan(project, environment, min(len(known), count_processors()))) if known else ()
        ):
            gave[outcome.case].append(outcome)
    return {
        change.place.id: confirm_entry(
            cases.get(change.place.id), change.proposal.entry, gave[change.place.id], environment
        )
        for change in changes
    }


def confirm_entry(
    case: Case | None, entry: BaselineEntry, gave: Sequence[Outcome], environment: Environment
) -> Confirmation:
    """Say what the reruns of a case say of its proposed entry: all must agree with it."""
    if case is None:
        return Confirmation("", "a hand-written test defines the case, which pytest alone can run again")
    for number, outcome in enumerate(gave, 1):
        problem = describe_disagreement(case, entry, outcome, environment)
        if problem is not None:
            return Confirmation("", f"rerun {number} of {len(gave)} says {problem}")
    agreed = "the same bits" if all(_same_bits(entry, outcome) for outcome in gave) else "the same within noise"
    return Confirmation(f"{len(gave)} {'rerun' if len(gave) == 1 else 'reruns'}: {agreed}")


def describe_disagreement(case: Case, entry: BaselineEntry, outcome: Outcome, environment: Environment) -> str | None:
    """Say in what an outcome differs from a proposed entry, or return None where it agrees with it.

    The bits must be the same; where the case is declared nondeterministic, or the proposal was made in another
    environment, the figures must be the same within the case's own noise, neither worse nor better.
    """
    of_figures = replace(case, baseline_definition=case.definition, expect_failure=None, budget=Budget())
    proposed = Baseline(entry, environment.label, "the proposal")
    verdict = judge_outcome(of_figures, proposed, outcome, environment, Policy()).verdict
    if verdict.reason in (Reason.STALE, Reason.INPUTS_CHANGED):
        return f"{verdict.reason}: the case is not what it was when it was proposed"
    if verdict.reason is Reason.IDENTICAL:
        return None
    repeats = case.deterministic and entry.fingerprint == environment.fingerprint
    if verdict.reason is Reason.WITHIN_TOLERANCE:
        return "that the bits are others than those proposed" if repeats else None
    return f"{verdict.reason}, held against the proposal: {verdict.message}"


def _same_bits(entry: BaselineEntry, outcome: Outcome) -> bool:
    accepted = {name: tuple(output.digests) for name, output in entry.outputs.items()}
    return outcome.execution.outputs == accepted
