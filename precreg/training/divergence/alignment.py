"""How are the steps of two runs lined up and measured, one step at a time?

Runs may be larger than the memory, so a pair keeps distances and no weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from precreg.errors import UserError
from precreg.training.divergence.distance import StepDistance, measure_step
from precreg.training.divergence.trajectory import TrajectoryStep, compare_batches
from precreg.types import BatchDifference, DivergenceOmissions, TrainingRun


class MeasuredPair(NamedTuple):
    """Two runs, measured at the steps that both have."""

    a: TrainingRun
    b: TrainingRun
    steps: tuple[StepDistance, ...]
    losses_a: tuple[float | None, ...]
    losses_b: tuple[float | None, ...]
    batches_a: tuple[str | None, ...]
    batches_b: tuple[str | None, ...]
    omissions: DivergenceOmissions
    # Whether an update changed a weight of run A in the compared steps, or before the only one.
    has_updates: bool = True

    @property
    def batches(self) -> BatchDifference | None:
        """Return whether the runs saw the same batches in another order, or others; None for the same, or not known."""
        return compare_batches(self.batches_a, self.batches_b)

    @property
    def parted(self) -> int | None:
        """Return the place of the first compared step with different bits; None if all are equal."""
        return next((place for place, each in enumerate(self.steps) if not each.has_same_bits), None)


class MeasuredTwin(NamedTuple):
    """A twin, measured against run A at the compared steps: its distances by parameter, and its losses."""

    name: str
    steps: tuple[StepDistance, ...]
    losses: tuple[float | None, ...]
    # Whether it saw the batches of run A in another order, or others; None for the same, or not known.
    batches: BatchDifference | None = None


def measure_pair_of_runs(
    name_a: str, a: Iterable[TrajectoryStep], name_b: str, b: Iterable[TrajectoryStep]
) -> MeasuredPair:
    """Measure two runs at the steps that both have. Raises UserError: not-comparable without any, or no parameter."""
    runs = _Runs(name_a, name_b)
    for one, other in _aligned(a, b):
        runs.add(one, other)
    return runs.measured()


def measure_twin(name: str, a: Iterable[TrajectoryStep], twin: Iterable[TrajectoryStep]) -> MeasuredTwin:
    """Measure a twin of run A at the steps that both have."""
    steps, losses, batches = [], [], []
    for one, other in _aligned(a, twin):
        if one is not None and other is not None:
            steps.append(measure_step(one.step, one.weights, other.weights, with_ulps=False))
            losses.append(other.loss)
            batches.append((one.batch, other.batch))
    difference = compare_batches([one for one, _ in batches], [other for _, other in batches])
    return MeasuredTwin(name, tuple(steps), tuple(losses), difference)


def _aligned(
    a: Iterable[TrajectoryStep], b: Iterable[TrajectoryStep]
) -> Iterator[tuple[TrajectoryStep | None, TrajectoryStep | None]]:
    """Yield the steps of two runs in order; None for the run that lacks one."""
    first, second = iter(a), iter(b)
    one, other = next(first, None), next(second, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one.step < other.step):
            yield one, None
            one = next(first, None)
        elif one is None or other.step < one.step:
            yield None, other
            other = next(second, None)
        else:
            yield one, other
            one, other = next(first, None), next(second, None)


class _Runs:
    """Gather the distances of two runs while their steps pass."""

    def __init__(self, name_a: str, name_b: str) -> None:
        self._names = (name_a, name_b)
        self._steps: list[StepDistance] = []
        self._losses: tuple[list[float | None], list[float | None]] = ([], [])
        self._batches: tuple[list[str | None], list[str | None]] = ([], [])
        self._counts, self._alone = [0, 0], [0, 0]
        self._first: list[TrajectoryStep | None] = [None, None]
        self._initial: bytes | None = None
        self._has_updates = False

    def add(self, one: TrajectoryStep | None, other: TrajectoryStep | None) -> None:
        for place, step in enumerate((one, other)):
            if step is not None:
                self._counts[place] += 1
                self._first[place] = self._first[place] or step
        if one is None or other is None:
            self._alone[one is None] += 1
            return
        self._steps.append(measure_step(one.step, one.weights, other.weights))
        self._look_for_updates(one)
        for place, step in enumerate((one, other)):
            self._losses[place].append(step.loss)
            self._batches[place].append(step.batch)

    def _look_for_updates(self, one: TrajectoryStep) -> None:
        if self._has_updates:
            return
        # A digest, because a training may change its arrays in place.
        digest = _digest_of(one)
        if self._initial is None:
            self._initial = digest
        self._has_updates = digest != self._initial

    def measured(self) -> MeasuredPair:
        a, b = self._first
        if a is None or b is None or not self._steps:
            got = f"{self._counts[0]} and {self._counts[1]} steps, none of them in both"
            message = f"expected steps that both runs have but got {got}: {self._names[0]}, {self._names[1]}"
            raise UserError("not-comparable", message, hint="record both with the same steps: every=10")
        if not self._steps[0].parts:
            names = ", ".join([*a.weights][:3]), ", ".join([*b.weights][:3])
            message = f"expected weights of the same names and shapes but got {names[0]} and {names[1]}"
            raise UserError("not-comparable", message, hint="give both runs of one model")
        losses, batches = self._losses, self._batches
        return MeasuredPair(
            _describe_run(self._names[0], self._counts[0], a),
            _describe_run(self._names[1], self._counts[1], b),
            tuple(self._steps),
            tuple(losses[0]),
            tuple(losses[1]),
            tuple(batches[0]),
            tuple(batches[1]),
            self._omissions(a, b),
            # One checkpoint of a later step has updates behind it.
            self._has_updates or (len(self._steps) == 1 and self._steps[0].step > 0),
        )

    def _omissions(self, a: TrajectoryStep, b: TrajectoryStep) -> DivergenceOmissions:
        finite_a, finite_b = (
            [all(getattr(part, key) for part in step.parts.values()) for step in self._steps]
            for key in ("is_reference_finite", "is_other_finite")
        )
        broken = [
            step.step for step, one, other in zip(self._steps, finite_a, finite_b, strict=True) if not (one and other)
        ]
        return DivergenceOmissions(
            steps_a=self._alone[0],
            steps_b=self._alone[1],
            parameters_a=tuple(name for name in a.weights if name not in b.weights),
            parameters_b=tuple(name for name in b.weights if name not in a.weights),
            shapes=tuple(
                name for name, each in a.weights.items() if name in b.weights and each.shape != b.weights[name].shape
            ),
            non_finite_a=finite_a.count(False),
            non_finite_b=finite_b.count(False),
            first_non_finite=broken[0] if broken else None,
        )


def _digest_of(step: TrajectoryStep) -> bytes:
    digest = blake2b(digest_size=16)
    for name, weights in sorted(step.weights.items()):
        digest.update(f"{name}:{weights.dtype}:{weights.shape}:".encode() + weights.tobytes())
    return digest.digest()


def _describe_run(name: str, steps: int, first: TrajectoryStep) -> TrainingRun:
    return TrainingRun(
        name=name,
        steps=steps,
        parameters=len(first.weights),
        elements=sum(each.size for each in first.weights.values()),
        dtypes=tuple(sorted({each.dtype.name for each in first.weights.values()})),
    )
