"""How do two runs of one training diverge: noise of twins, growth, bias, parameters, and the verdict?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import fsum, isfinite
from typing import NamedTuple

from msgspec.structs import replace

from precreg.training.divergence.alignment import MeasuredPair, MeasuredTwin
from precreg.training.divergence.distance import StepDistance
from precreg.training.divergence.evidence import (
    excess_over_twins,
    farther_twin_p,
    growth_rate,
    interval_of_mean,
    interval_of_pair,
    lasting_excess,
    noise_limits,
    significant_difference,
)
from precreg.training.divergence.verdict import (
    DIFFERENT_START,
    MIN_GROWTH_STEPS,
    NOISE_FACTOR,
    DivergenceEvidence,
    judge_divergence,
)
from precreg.types import (
    DirectionBias,
    DivergenceGrowth,
    DivergenceRecord,
    EpochLosses,
    ParameterCourse,
    TrainingParting,
    TwinCourse,
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
        courses=_courses(pair, found.parameter_ratios),
        losses_a=pair.losses_a,
        losses_b=pair.losses_b,
        twins=tuple(found.twin_course(each) for each in able),
        twins_with_other_batches=sum(each.batches is not None for each in able),
        noise=found.noise,
        parted=None if parted is None else _parting(pair.steps[parted], pair.steps[parted].parts),
        beyond=found.beyond(),
        start_ratio=evidence.start_ratio,
        level_ratio=evidence.level_ratio,
        loss_at_parting=found.loss_at_parting(),
        growth=evidence.growth,
        biases=evidence.biases,
        epochs=_epochs(pair, epoch),
        omissions=replace(
            pair.omissions,
            idle_twins=len(twins) - len(able),
            parameters_without_noise=found.parameters_without_noise(),
        ),
        verdict=verdict,
        reason=reason,
    )


def are_comparable(pair: MeasuredPair) -> bool:
    """Return whether two runs begin with related weights and see the same batches, so that twins show their noise."""
    return _initial_distance(pair) <= DIFFERENT_START and pair.batches is None


def _initial_distance(pair: MeasuredPair) -> float:
    """Return the largest relative distance of a parameter at the first compared step."""
    return max((each.relative or 0.0 for each in pair.steps[0].parts.values()), default=0.0)


def _is_finite(step: StepDistance, key: str) -> bool:
    return all(getattr(each, key) for each in step.parts.values())


def _courses(pair: MeasuredPair, ratios: Mapping[str, _Ratios]) -> tuple[ParameterCourse, ...]:
    # The shape of a parameter may change between steps; then the later ones have no distance.
    names = list(pair.steps[0].parts)
    return tuple(
        ParameterCourse(
            name,
            tuple(step.parts[name].relative if name in step.parts else None for step in pair.steps),
            tuple(step.parts[name].ulps if name in step.parts else None for step in pair.steps),
            *ratios.get(name, (None, None)),
        )
        for name in names
    )


def _parting(step: StepDistance, names: Iterable[str]) -> TrainingParting:
    """Return the first of the named parameters that differs at a step, and the number of others."""
    differing = [name for name in names if not step.parts[name].has_same_bits]
    first = step.parts[differing[0]]
    return TrainingParting(step.step, differing[0], first.relative, first.ulps, len(differing) - 1)


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


class _Ratios(NamedTuple):
    """The distance of a parameter over its limit among the twins; None where they show no noise of it."""

    start: float | None
    early: float | None


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
        ratios = self.parameter_ratios.values()
        return DivergenceEvidence(
            has_same_bits=self.parted is None,
            has_updates=self.pair.has_updates,
            initial=_initial_distance(self.pair),
            batches=self.pair.batches,
            twin_batches=tuple(each.batches for each in self.twins),
            is_reference_finite=_is_finite(self.pair.steps[0], "is_reference_finite"),
            is_other_non_finite=self.is_other_non_finite(),
            twins=len(self.twins),
            steps=0 if self.parted is None else len(self.finite),
            start_ratio=self.start_ratio(),
            level_ratio=self.level_ratio(),
            parameter_start=max((each.start for each in ratios if each.start is not None), default=None),
            parameter_early=max((each.early for each in ratios if each.early is not None), default=None),
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

    @cached_property
    def parameter_ratios(self) -> dict[str, _Ratios]:
        """Return how far each parameter parts, over its own limit: where the runs part, and over the first steps.

        Noise of one parameter, such as a bias whose exact gradient is zero, does not hide another one's change.
        """
        if self.parted is None or not self.finite or not self.twins:
            return {}
        start, early = self.finite[:1], self.finite[:MIN_GROWTH_STEPS]
        names = [name for name, part in self.pair.steps[start[0]].parts.items() if not part.has_same_bits]
        later = {name for place in early for name, part in self.pair.steps[place].parts.items() if part.squares}
        return {
            name: _Ratios(
                self._excess(name, start, len(names)) if name in names else None,
                self._excess(name, early, len(later)) if len(early) == MIN_GROWTH_STEPS else None,
            )
            for name in sorted(later)
        }

    def parameters_without_noise(self) -> tuple[str, ...]:
        """Return the parameters that differ where the runs part, and have no limit among the twins."""
        if self.parted is None or not self.finite or not self.twins:
            return ()
        ratios, parts = self.parameter_ratios, self.pair.steps[self.parted].parts
        return tuple(
            name
            for name, part in parts.items()
            if not part.has_same_bits and part.squares and (name not in ratios or ratios[name].start is None)
        )

    def _excess(self, name: str, places: range, tests: int) -> float | None:
        steps = [self.pair.steps[place] for place in places]
        own = [_distance_of(step, name) for step in steps]
        twins = [[_distance_of(twin.get(step.step), name) for step in steps] for twin in self.by_twin]
        ratio = excess_over_twins(own, twins, tests)
        ulps = [step.parts[name].ulps for step in steps if name in step.parts]
        if ratio is None or any(each is None for each in ulps):
            return None
        # Rounding a result moves each weight by up to one ULP. Stored twins may have changed only one weight.
        return min(ratio, NOISE_FACTOR * max(each for each in ulps if each is not None))

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


def _distance_of(step: StepDistance | None, name: str) -> float | None:
    return step.parts[name].relative if step is not None and name in step.parts else None


def _bias(kind: str, pair: float, twins: Sequence[float]) -> DirectionBias:
    mean = fsum(twins) / len(twins) if twins else None
    p_value, visible = farther_twin_p(pair, twins), significant_difference(twins)
    return DirectionBias(kind, pair, mean, p_value, visible)  # type: ignore[arg-type]


def _mean_share(steps: Sequence[StepDistance], figure: str) -> float:
    shares = [each.share(figure) for each in steps if not each.has_same_bits]
    return fsum(shares) / len(shares) if shares else 0.0


def _mean_change(a: Sequence[float | None], b: Sequence[float | None], places: range) -> float | None:
    """Return the mean relative change of the losses at some places; None without losses."""
    pairs = [(a[place], b[place]) for place in places]
    changes = [(other - one) / abs(one) for one, other in pairs if one and other is not None and isfinite(other - one)]
    return fsum(changes) / len(changes) if changes else None
