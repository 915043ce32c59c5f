"""How do two runs of one training diverge: distances, noise of twins, growth, bias, and the verdict?

Steps are read one at a time, so that runs may be larger than the memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from math import fsum, isfinite
from typing import NamedTuple

from precreg.errors import UserError
from precreg.training.divergence.distance import StepDistance, measure_step
from precreg.training.divergence.evidence import (
    farther_twin_p,
    growth_rate,
    interval_of_mean,
    interval_of_pair,
    lasting_excess,
    noise_limits,
)
from precreg.training.divergence.trajectory import TrajectoryStep
from precreg.training.divergence.verdict import DIFFERENT_START, NOISE_FACTOR, DivergenceEvidence, judge_divergence
from precreg.types import (
    DirectionBias,
    DivergenceGrowth,
    DivergenceOmissions,
    DivergenceReason,
    DivergenceRecord,
    EpochLosses,
    ParameterCourse,
    TrainingParting,
    TrainingRun,
    TwinCourse,
)


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
    def parted(self) -> int | None:
        """Return the place of the first compared step with different bits; None if all are equal."""
        return next((place for place, each in enumerate(self.steps) if not each.has_same_bits), None)


class MeasuredTwin(NamedTuple):
    """A twin, measured against run A at the compared steps: its distances by parameter, and its losses."""

    name: str
    steps: tuple[StepDistance, ...]
    losses: tuple[float | None, ...]


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
    steps, losses = [], []
    for one, other in _aligned(a, twin):
        if one is not None and other is not None:
            steps.append(measure_step(one.step, one.weights, other.weights, with_ulps=False))
            losses.append(other.loss)
    return MeasuredTwin(name, tuple(steps), tuple(losses))


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


def conclude_divergence(
    pair: MeasuredPair, twins: Sequence[MeasuredTwin], *, version: str, epoch: int | None = None
) -> DivergenceRecord:
    """Return all facts of a pair and its twins, with the verdict.

    `version` is that of precreg, `epoch` the number of steps in an epoch, whose mean losses are compared.
    """
    able = [each for each in twins if not all(step.has_same_bits for step in each.steps)]
    parted = pair.parted
    found = _Concluded(pair, able, parted)
    evidence = found.evidence()
    verdict, reason = judge_divergence(evidence)
    return DivergenceRecord(
        precreg=version,
        a=pair.a,
        b=pair.b,
        steps=tuple(each.step for each in pair.steps),
        distances=tuple(each.relative for each in pair.steps),
        courses=_courses(pair),
        losses_a=pair.losses_a,
        losses_b=pair.losses_b,
        twins=tuple(found.twin_course(each) for each in able),
        noise=found.noise,
        parted=None if parted is None else _parting(pair.steps[parted], pair.steps[parted].parts),
        beyond=found.beyond(),
        start_ratio=evidence.start_ratio,
        level_ratio=evidence.level_ratio,
        loss_at_parting=found.loss_at_parting(),
        growth=evidence.growth,
        biases=evidence.biases,
        epochs=_epochs(pair, epoch),
        omissions=_with_idle(pair.omissions, len(twins) - len(able)),
        verdict=verdict,
        reason=reason,
    )


def are_comparable(pair: MeasuredPair) -> bool:
    """Return whether two runs begin with related weights and see the same batches, so that twins show their noise."""
    return _initial_distance(pair) <= DIFFERENT_START and _compare_batches(pair) is None


def _initial_distance(pair: MeasuredPair) -> float:
    """Return the largest relative distance of a parameter at the first compared step."""
    return max((each.relative or 0.0 for each in pair.steps[0].parts.values()), default=0.0)


def _is_finite(step: StepDistance, key: str) -> bool:
    return all(getattr(each, key) for each in step.parts.values())


def _with_idle(omissions: DivergenceOmissions, idle: int) -> DivergenceOmissions:
    from msgspec.structs import replace

    return replace(omissions, idle_twins=idle)


def _courses(pair: MeasuredPair) -> tuple[ParameterCourse, ...]:
    # The shape of a parameter may change between steps; then the later ones have no distance.
    names = list(pair.steps[0].parts)
    return tuple(
        ParameterCourse(
            name,
            tuple(step.parts[name].relative if name in step.parts else None for step in pair.steps),
            tuple(step.parts[name].ulps if name in step.parts else None for step in pair.steps),
        )
        for name in names
    )


def _parting(step: StepDistance, names: Iterable[str]) -> TrainingParting:
    """Return the first of the named parameters that differs at a step, and the number of others."""
    differing = [name for name in names if not step.parts[name].has_same_bits]
    first = step.parts[differing[0]]
    return TrainingParting(step.step, differing[0], first.relative, first.ulps, len(differing) - 1)


def _compare_batches(pair: MeasuredPair) -> DivergenceReason | None:
    """Return whether the runs saw the same batches in another order, or others; None for the same, or not known."""
    both = zip(pair.batches_a, pair.batches_b, strict=True)
    # Digests begin with the dtypes, and digests of other dtypes say nothing.
    known = [(a, b) for a, b in both if a and b and a.partition(":")[0] == b.partition(":")[0]]
    if all(a == b for a, b in known):
        return None
    first, second = (Counter(each) for each in zip(*known, strict=True))
    # Runs of unequal length, or stopped within an epoch, share most batches, not all.
    shared = sum((first & second).values())
    return "batch_order" if 2 * shared >= len(known) or set(first) & set(second) else "different_data"


def _epochs(pair: MeasuredPair, epoch: int | None) -> tuple[EpochLosses, ...]:
    if epoch is None:
        return ()
    grouped: dict[int, list[tuple[float, float]]] = {}
    for step, a, b in zip(pair.steps, pair.losses_a, pair.losses_b, strict=True):
        # Step 0 has no batch: step 1 is the first of epoch 0.
        if step.step > 0 and a is not None and b is not None:
            grouped.setdefault((step.step - 1) // epoch, []).append((a, b))
    return tuple(
        EpochLosses(number, len(both), fsum(a for a, _ in both) / len(both), fsum(b for _, b in both) / len(both))
        for number, both in grouped.items()
    )


class _Concluded:
    """Compute the statistics of a pair and its twins, over the steps from the parting to the last finite one."""

    def __init__(self, pair: MeasuredPair, twins: Sequence[MeasuredTwin], parted: int | None) -> None:
        self.pair, self.twins, self.parted = pair, twins, parted
        self.by_twin = [{step.step: step for step in each.steps} for each in twins]
        self.noise = noise_limits([self._distances(each) for each in self.by_twin]) if twins else ()
        start = len(pair.steps) if parted is None else parted
        ends = [place for place in range(start, len(pair.steps)) if pair.steps[place].relative is None]
        self.finite = range(start, min(ends, default=len(pair.steps)))

    def _distances(self, twin: dict[int, StepDistance]) -> list[float | None]:
        return [twin[step.step].relative if step.step in twin else None for step in self.pair.steps]

    def evidence(self) -> DivergenceEvidence:
        """Return the facts from which the verdict follows."""
        return DivergenceEvidence(
            has_same_bits=self.parted is None,
            has_updates=self.pair.has_updates,
            initial=_initial_distance(self.pair),
            batches=_compare_batches(self.pair),
            is_reference_finite=_is_finite(self.pair.steps[0], "is_reference_finite"),
            is_other_non_finite=self.is_other_non_finite(),
            twins=len(self.twins),
            steps=0 if self.parted is None else len(self.finite),
            start_ratio=self.start_ratio(),
            level_ratio=self.level_ratio(),
            growth=self.growth(),
            biases=self.biases(),
        )

    def is_other_non_finite(self) -> bool:
        """Return whether B has NaN or infinities at a step at which A and all twins have none."""
        for step in self.pair.steps:
            if not _is_finite(step, "is_other_finite"):
                twins = [twin[step.step] for twin in self.by_twin if step.step in twin]
                return _is_finite(step, "is_reference_finite") and all(
                    _is_finite(each, "is_other_finite") for each in twins
                )
        return False

    def start_ratio(self) -> float | None:
        """Return the pair's distance at its parting over the twins' limit at that step."""
        if not self.noise or not self.finite:
            return None
        distance, limit = self.pair.steps[self.finite[0]].relative, self.noise[self.finite[0]]
        return distance / limit if distance is not None and limit else None

    def level_ratio(self) -> float | None:
        """Return the pair's largest distance over the twins' largest limit.

        Both over the whole run, because a flip of one value moves a run away at one step or another.
        """
        limits = [self.noise[place] or 0.0 for place in self.finite] if self.noise else []
        distances = [self.pair.steps[place].relative or 0.0 for place in self.finite]
        return max(distances) / max(limits) if limits and max(limits) > 0.0 else None

    def growth(self) -> DivergenceGrowth:
        """Return the growth rates of the pair and the twins over the same steps."""
        steps = [self.pair.steps[place].step for place in self.finite]
        pair = growth_rate(steps, [self.pair.steps[place].relative for place in self.finite])
        rates = [rate for twin in self.by_twin if (rate := self._rate(twin)) is not None]
        if pair is None:
            return DivergenceGrowth(twins=interval_of_mean(rates))
        p_value = farther_twin_p(pair, rates, two_sided=False)
        return DivergenceGrowth(pair=interval_of_pair(pair, rates), twins=interval_of_mean(rates), p_value=p_value)

    def _rate(self, twin: dict[int, StepDistance]) -> float | None:
        steps = [self.pair.steps[place].step for place in self.finite]
        return growth_rate(steps, [twin[step].relative if step in twin else None for step in steps])

    def biases(self) -> tuple[DirectionBias, ...]:
        """Return the directions of the changes of the pair and of the twins, and the change of the loss."""
        steps = [self.pair.steps[place] for place in self.finite]
        if not steps:
            return ()
        found = [
            _bias(kind, _mean_share(steps, figure), [self._mean_share(twin, figure) for twin in self.by_twin])
            for kind, figure in (("toward", "shrunk"), ("direction", "shifted"))
        ]
        change = _mean_change(self.pair.losses_a, self.pair.losses_b, self.finite)
        if change is None:
            return tuple(found)
        changes = [each for twin in self.twins if (each := self._loss_change(twin)) is not None]
        return (*found, _bias("loss", change, changes))

    def _mean_share(self, twin: dict[int, StepDistance], figure: str) -> float:
        numbers = [self.pair.steps[place].step for place in self.finite]
        return _mean_share([twin[step] for step in numbers if step in twin], figure)

    def _loss_change(self, twin: MeasuredTwin) -> float | None:
        losses = {step.step: loss for step, loss in zip(twin.steps, twin.losses, strict=True)}
        return _mean_change(self.pair.losses_a, [losses.get(step.step) for step in self.pair.steps], self.finite)

    def twin_course(self, twin: MeasuredTwin) -> TwinCourse:
        """Return the facts of one twin at the compared steps."""
        steps = {step.step: step for step in twin.steps}
        return TwinCourse(
            twin.name,
            tuple(self._distances(steps)),
            self._rate(steps),
            self._mean_share(steps, "shrunk"),
            self._mean_share(steps, "shifted"),
            self._loss_change(twin),
        )

    def loss_at_parting(self) -> float | None:
        """Return the relative change of the loss that gave the first different step."""
        if not self.finite:
            return None
        a, b = self.pair.losses_a[self.finite[0]], self.pair.losses_b[self.finite[0]]
        return None if a is None or b is None or not a else (b - a) / abs(a)

    def beyond(self) -> TrainingParting | None:
        """Return the first step from which on the pair stays beyond noise, and its farthest parameter there."""
        if not self.noise or self.parted is None:
            return None
        place = lasting_excess([each.relative for each in self.pair.steps], self.noise, NOISE_FACTOR)
        if place is None:
            return None
        step = self.pair.steps[place]
        ratios = {
            name: self._parameter_ratio(name, step) for name, each in step.parts.items() if not each.has_same_bits
        }
        return _parting(step, sorted(ratios, key=lambda name: -ratios[name]))

    def _parameter_ratio(self, name: str, step: StepDistance) -> float:
        """Return the distance of one parameter over the largest one among the twins; infinite if they have none."""
        twins = [twin[step.step].parts[name].relative or 0.0 for twin in self.by_twin if step.step in twin]
        own, largest = step.parts[name].relative, max(twins, default=0.0)
        if own == 0.0:
            return 0.0  # equal values of another dtype, such as zeros
        return float("inf") if own is None or not largest else own / largest


def _bias(kind: str, pair: float, twins: Sequence[float]) -> DirectionBias:
    mean = fsum(twins) / len(twins) if twins else None
    return DirectionBias(kind, pair, mean, farther_twin_p(pair, twins))  # type: ignore[arg-type]


def _mean_share(steps: Sequence[StepDistance], figure: str) -> float:
    shares = [each.share(figure) for each in steps if not each.has_same_bits]
    return fsum(shares) / len(shares) if shares else 0.0


def _mean_change(a: Sequence[float | None], b: Sequence[float | None], places: range) -> float | None:
    """Return the mean relative change of the losses at some places; None without losses."""
    pairs = [(a[place], b[place]) for place in places]
    changes = [(other - one) / abs(one) for one, other in pairs if one and other is not None and isfinite(other - one)]
    return fsum(changes) / len(changes) if changes else None
