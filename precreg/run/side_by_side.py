"""Two versions of the code on the same cases: batch by batch, first the other version, then the working tree's own.

Each version has worker processes of its own, so that neither sees a module of the other; and only one of the two
computes at a time, so that what slows the machine down slows both down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from precreg.run.run import Plan
from precreg.run.workers import Pool
from precreg.subject.other_tree import Trees
from precreg.types.types import Case, Outcome

CASES_PER_WORKER = 8
"""In one batch: enough to keep workers busy, few enough that both versions of a case run within seconds."""


class Pair(NamedTuple):
    """What the two versions gave for one case."""

    other: Outcome
    own: Outcome


class SideBySide:
    """The workers of both versions, as long as it is open."""

    def __init__(self, plan: Plan, project: Path, trees: Trees) -> None:
        """Plan for at most `plan.jobs` workers of either version; `project` is the project's folder in the checkout."""
        chain = plan.environment.chain
        self.batch = CASES_PER_WORKER * max(1, plan.jobs)
        self._own, self._other = Pool(plan.project, chain, plan.jobs), Pool(project, chain, plan.jobs, trees)

    def run(self, cases: Sequence[Case]) -> Iterator[Pair]:
        """Yield what both versions give for each case of one batch, the other version's first computed for all.

        Raises UserError (no-workers).
        """
        others = {outcome.case: outcome for outcome in self._other.run(cases)}
        for own in self._own.run(cases):
            yield Pair(others[own.case], own)

    def seconds(self, case: Case) -> float:
        """Return how long both versions took for a case when they last ran it: drawing, computing and measuring."""
        return self._own.seconds.get(case.id, 0.0) + self._other.seconds.get(case.id, 0.0)

    def close(self) -> None:
        """Kill all workers, busy or not."""
        self._own.close()
        self._other.close()
