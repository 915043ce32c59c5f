"""Running the cases of a plan: what the journal has is not run again, and what comes is kept before it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from precreg.run.journal import Journal
from precreg.types.records import Environment
from precreg.types.types import Case, Outcome

IN_PROCESS = 0


class Plan(Struct, frozen=True):
    """Where and how cases run: `jobs` worker processes, or this process for 0.

    `project` is absolute. `done` holds the outcomes of an interrupted run by case id, and `journal` takes the new ones.
    """

    project: Path
    environment: Environment
    jobs: int = IN_PROCESS
    journal: Journal | None = None
    done: dict[str, Outcome] = field(default_factory=dict)


def outcomes(cases: Sequence[Case], plan: Plan) -> Iterator[Outcome]:
    """Yield one outcome per case: those that are done first, then the others as they come.

    Raises UserError (no-workers, not-writable).
    """
    remaining = []
    for case in cases:
        outcome = plan.done.get(case.id)
        if outcome is not None and outcome.definition == case.definition:
            yield outcome
        else:
            remaining.append(case)
    for outcome in _run(remaining, plan):
        if plan.journal is not None:
            plan.journal.append(outcome)
        yield outcome


def _run(cases: Sequence[Case], plan: Plan) -> Iterator[Outcome]:
    if plan.jobs == IN_PROCESS:
        from precreg.run.in_process import run_in_process

        return run_in_process(cases, plan.project, plan.environment.chain)
    from precreg.run.workers import run_in_workers

    return run_in_workers(cases, plan.project, plan.environment.chain, plan.jobs)
