"""How do workers report which files their cases used?

The task of a run that reuses outcomes wraps the task of its cases: each answer has the outcome of a case, and the
observations of its process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct, msgpack

from precreg.run.reuse.observation import CaseUses, begin_observation, observe_project, present_observation
from precreg.run.workers import CaseTask
from precreg.types import Case, Failure, Outcome


class ObservedOutcome(Struct, frozen=True, array_like=True):
    """The outcome of a case; `observed` is None if its worker could not report."""

    outcome: Outcome
    observed: CaseUses | None = None


class ObservedTask(NamedTuple):
    """The cases of a run as the task of workers that observe themselves."""

    task: CaseTask

    def prepare(self) -> None:
        """Prepare the worker, and begin to observe it once all of precreg is imported."""
        # First, because the task forks the process of the oracles.
        observe_project(str(self.task.project))
        self.task.prepare()
        begin_observation()

    def run(self, case: Case, printed: Callable[[], str]) -> ObservedOutcome:
        """Return the outcome of a case with the observations since the case before."""
        outcome = self.task.run(case, printed)
        observation = present_observation()
        return ObservedOutcome(outcome, None if observation is None else observation.end_case())

    def decoder(self) -> msgpack.Decoder[ObservedOutcome]:
        """Return the decoder of answers."""
        return msgpack.Decoder(ObservedOutcome)

    def item_key(self, case: Case) -> str:
        """Return the id of a case."""
        return case.id

    def answer_key(self, answer: ObservedOutcome) -> str:
        """Return the id of an outcome's case."""
        return answer.outcome.case

    def timeout_s(self, case: Case) -> float:
        """Return the timeout of a case."""
        return self.task.timeout_s(case)

    def give_up(self, case: Case, failure: Failure) -> ObservedOutcome:
        """Return the outcome of a case that has only a failure."""
        return ObservedOutcome(self.task.give_up(case, failure))
