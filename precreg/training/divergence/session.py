"""Which runs does a comparison need, and in which order: both runs, and then twins of the first one?

Run A is stored in a temporary folder, so that precreg reads it again beside each twin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from precreg.storage import temporary_folder
from precreg.training.divergence.alignment import MeasuredPair, MeasuredTwin, measure_pair_of_runs, measure_twin
from precreg.training.divergence.comparison import are_comparable, conclude_divergence
from precreg.training.divergence.perturbation import Twin
from precreg.training.divergence.runs import run_training
from precreg.training.divergence.trajectory import (
    StoredTrajectory,
    TrainingSource,
    TrajectoryStep,
    read_trajectory,
    record_trajectory,
)
from precreg.types import DivergenceRecord

DEFAULT_TWINS = 8

Run = TrainingSource | StoredTrajectory
# Called with the name of each run before it begins.
Progress = Callable[[str], None]


class DivergenceRequest(NamedTuple):
    """The two runs to compare, the twins, and the steps to compare.

    `recorded_twins` are stored runs. Without them precreg runs `twins` twins of run A, if it can run A.
    """

    a: Run
    b: Run
    recorded_twins: Sequence[StoredTrajectory] = ()
    twins: int = DEFAULT_TWINS
    every: int = 1
    last: int | None = None
    epoch: int | None = None


def compare_trainings(request: DivergenceRequest, version: str, progress: Progress) -> DivergenceRecord:
    """Run or read both runs, measure them and their twins, and return the facts with the verdict.

    Raises UserError: not-comparable, and as reading and running do.
    """
    with _stored(request, progress) as a:
        progress(request.b.name)
        pair = measure_pair_of_runs(request.a.name, _steps(a, request), request.b.name, _steps(request.b, request))
        twins = [*_measure_twins(request, a, pair, progress)]
    return conclude_divergence(pair, twins, version=version, epoch=request.epoch)


@contextmanager
def _stored(request: DivergenceRequest, progress: Progress) -> Iterator[StoredTrajectory]:
    """Give run A as a stored one; run it first if it is a training."""
    if isinstance(request.a, StoredTrajectory):
        yield request.a
        return
    with temporary_folder() as folder:
        progress(request.a.name)
        yield record_run(request.a, folder / "a", every=request.every, last=request.last)


def record_run(source: TrainingSource, folder: Path, *, every: int = 1, last: int | None = None) -> StoredTrajectory:
    """Run a training and store its steps in an empty folder. Raises UserError as `run_training` does."""
    writer = record_trajectory(folder)
    for step in run_training(source, every=every, last=last):
        writer.add(step)
    return read_trajectory(folder, source.name)


def _steps(run: Run, request: DivergenceRequest, twin: Twin | None = None) -> Iterator[TrajectoryStep]:
    if isinstance(run, TrainingSource):
        yield from run_training(run, twin, every=request.every, last=request.last)
        return
    for number in run.numbers:
        if number % request.every == 0 and (request.last is None or number <= request.last):
            yield run.load(number)


def _measure_twins(
    request: DivergenceRequest, a: StoredTrajectory, pair: MeasuredPair, progress: Progress
) -> Iterator[MeasuredTwin]:
    if request.recorded_twins:
        for recorded in request.recorded_twins:
            progress(recorded.name)
            yield measure_twin(recorded.name, _steps(a, request), _steps(recorded, request))
        return
    if not isinstance(request.a, TrainingSource) or pair.parted is None or not are_comparable(pair):
        return
    # The last step without a difference: a twin's changes pass through the step at which the pair parts.
    first = pair.steps[max(pair.parted - 1, 0)].step
    for seed in range(request.twins):
        name = f"twin {seed + 1}"
        progress(name)
        yield measure_twin(name, _steps(a, request), _steps(request.a, request, Twin(seed, first)))
