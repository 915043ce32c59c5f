"""Which share of the gradients does each loss scale lose, and which scale loses least?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, isfinite, log2

import numpy as np

from precreg.arithmetic import FORMATS, Format, format_named
from precreg.storage import Array
from precreg.training.gradients import StepGradients
from precreg.training.magnitudes import FormatLimits, count_crossings, format_limits, magnitude_chunks
from precreg.training.scaler import run_scaler
from precreg.types import (
    SCALE_EXPONENTS,
    LossScaleSweep,
    ScaleLosses,
    ScaleRecommendation,
    ScaleWindow,
)

# GradScaler of torch starts here.
_TORCH_EXPONENT = 16
# GradScaler doubles its scale, so a gradient has to fit at twice the scale.
_DOUBLINGS = 1
# float32 and bfloat16 hold gradients down to 2**-133. A format whose smallest number is larger loses some.
_WIDE_FLOOR = 2.0**-126


class _Tally:
    """Count the gradients of one parameter at each scale."""

    def __init__(self, limits: FormatLimits, exponents: Sequence[int]) -> None:
        self.limits = limits
        self.first, self.count = exponents[0], len(exponents)
        # One row for each limit, one column for each exponent, and one more at each end.
        self.crossings = np.zeros((len(limits), self.count + 2), np.int64)
        self.energy = np.zeros(self.count + 2)
        self.elements = self.zeros = self.nonfinite = 0
        self.largest = self.floor = 0.0

    def add(self, values: Array) -> tuple[float, bool]:
        """Count an array. Return its largest finite magnitude, and whether it has NaN or infinities."""
        largest, nonfinite = 0.0, self.nonfinite
        for chunk in magnitude_chunks(values):
            self.zeros += chunk.zeros
            self.nonfinite += chunk.nonfinite
            found = chunk.magnitudes
            for row, limit in enumerate(self.limits):
                crossings = found.crossings(limit)
                self.crossings[row] += count_crossings(crossings, self.first, self.count)
                if row == 0:
                    self.energy += count_crossings(crossings, self.first, self.count, found.squares())
            largest = max(largest, float(found.values.max(initial=0.0)))
        self.elements += int(np.size(values))
        self.largest = max(self.largest, largest)
        return largest, self.nonfinite > nonfinite

    def join(self, other: _Tally) -> None:
        """Add the counts of another parameter."""
        self.crossings += other.crossings
        self.energy += other.energy
        self.elements += other.elements
        self.zeros += other.zeros
        self.nonfinite += other.nonfinite
        self.largest, self.floor = max(self.largest, other.largest), max(self.floor, other.floor)

    def losses(self, parameter: str) -> ScaleLosses:
        """Return the counts at each scale."""
        nonzero = self.elements - self.zeros - self.nonfinite
        surviving, normal, beyond = np.cumsum(self.crossings, axis=1)[:, 1:-1]
        # From the far end, because a difference of sums would cancel to noise where little is lost.
        lost = np.cumsum(self.energy[::-1])[::-1][2:]
        total = float(self.energy.sum())
        return ScaleLosses(
            parameter=parameter,
            elements=self.elements,
            nonzero=nonzero,
            nonfinite=self.nonfinite,
            largest=self.largest,
            zero=tuple(int(nonzero - each) for each in surviving),
            subnormal=tuple(int(each) for each in surviving - normal),
            beyond=tuple(int(each) for each in beyond),
            zero_energy=tuple(float(each) / total if total else 0.0 for each in lost),
            floor=self.floor,
            zeros=self.zeros,
        )


class LossScaleGauge:
    """Count, step after step, the gradients that a format loses at each loss scale.

    `add` takes the gradients of one step, unscaled. `result` returns the sweep so far. Only counts are kept.
    """

    def __init__(self, format: str | Format = "float16", exponents: Iterable[int] = SCALE_EXPONENTS) -> None:
        """Prepare the counts for a format and for the scales 2**k, k in `exponents`, without gaps.

        Raises:
            UserError: unknown-format or bad-format.
        """
        self.format = format if isinstance(format, Format) else format_named(format)
        self.exponents = tuple(range(min(exponents := tuple(exponents)), max(exponents) + 1))
        self._limits = format_limits(self.format)
        self._tallies: dict[str, _Tally] = {}
        self._largest: list[float] = []
        self._overflow = np.zeros(len(self.exponents), np.int64)
        self._nonfinite_steps = 0
        self._not_measured: dict[str, None] = {}

    def add(self, gradients: StepGradients) -> bool:
        """Count the gradients of one step. Return whether all are finite."""
        largest, is_nonfinite = 0.0, False
        for name, values in gradients.arrays.items():
            if np.asarray(values).dtype.name not in FORMATS:
                self._not_measured[name] = None
                continue
            tally = self._tallies.setdefault(name, _Tally(self._limits, self.exponents))
            tally.floor = max(tally.floor, _floor(gradients.formats.get(name, "float32"), gradients.scale))
            of_array, has_nonfinite = tally.add(values)
            largest, is_nonfinite = max(largest, of_array), is_nonfinite or has_nonfinite
        self._largest.append(largest)
        self._nonfinite_steps += is_nonfinite
        self._overflow += self._overflows(largest) | (is_nonfinite & self._is_at_least(gradients.scale))
        return not is_nonfinite

    def _overflows(self, largest: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        found = [chunk.magnitudes for chunk in magnitude_chunks(np.array([largest]))]
        crossings = found[0].crossings(self._limits.beyond)
        return np.array(self.exponents) >= (crossings[0] if crossings.size else np.inf)

    def _is_at_least(self, scale: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        # What overflowed at a scale overflows at every larger one. An infinity without scaling is there at all of them.
        return np.array(self.exponents) >= log2(scale) if scale > 1 else np.ones(len(self.exponents), np.bool_)

    def result(self) -> LossScaleSweep:
        """Return the counts of the steps so far, the window, and a recommendation."""
        total = _Tally(self._limits, self.exponents)
        for tally in self._tallies.values():
            total.join(tally)
        losses = total.losses("")
        overflow = tuple(int(each) for each in self._overflow)
        window = find_window(losses, overflow, self.exponents)
        return LossScaleSweep(
            format=self.format.name,
            exponents=self.exponents,
            steps=len(self._largest),
            layers=tuple(tally.losses(name) for name, tally in self._tallies.items()),
            total=losses,
            overflow_steps=overflow,
            nonfinite_steps=self._nonfinite_steps,
            largest=tuple(self._largest),
            window=window,
            recommendation=None if window is None else self._recommend(losses, window),
            not_measured=tuple(self._not_measured),
        )

    def _recommend(self, losses: ScaleLosses, window: ScaleWindow) -> ScaleRecommendation:
        growth = growth_of(self._largest)
        margin = _DOUBLINGS + (ceil(log2(growth)) if growth is not None and growth > 1 else 0)
        exponent = max(window.high - margin, self.exponents[0])
        place = self.exponents.index(exponent)
        starts = dict.fromkeys((exponent, _TORCH_EXPONENT))
        limit = self._limits.beyond
        return ScaleRecommendation(
            exponent=exponent,
            highest=window.high,
            margin=window.high - exponent,
            growth=growth,
            zero=losses.zero[place],
            zero_unscaled=losses.zero[0],
            nonzero=losses.nonzero,
            runs=tuple(run_scaler(self._largest, limit, start) for start in starts),
        )


def sweep_scales(
    steps: Iterable[StepGradients], format: str | Format = "float16", exponents: Iterable[int] = SCALE_EXPONENTS
) -> LossScaleSweep:
    """Count the gradients that a format loses at each loss scale, over steps that are read one at a time.

    Raises:
        UserError: unknown-format or bad-format.
    """
    gauge = LossScaleGauge(format, exponents)
    for gradients in steps:
        gauge.add(gradients)
    return gauge.result()


def find_window(losses: ScaleLosses, overflow_steps: Sequence[int], exponents: Sequence[int]) -> ScaleWindow | None:
    """Return the scales without overflow that lose fewest gradients; None if every scale overflows."""
    fitting = [place for place, steps in enumerate(overflow_steps) if steps == 0]
    if not fitting or not losses.nonzero:
        return None
    # A larger scale never loses more to zero, so the last one that fits loses least.
    least = losses.zero[fitting[-1]]
    equal = [place for place in fitting if losses.zero[place] == least]
    return ScaleWindow(exponents[equal[0]], exponents[equal[-1]], least)


def growth_of(largest: Sequence[float]) -> float | None:
    """Return the largest gradient of the second half of the steps over the first half's; None without either."""
    half = len(largest) // 2
    first, second = max(largest[:half], default=0.0), max(largest[half:], default=0.0)
    growth = second / first if first else None
    return growth if growth is not None and isfinite(growth) and growth > 0 else None


def _floor(format: str, scale: float) -> float:
    """Return the size at or below which a gradient computed in a format at a scale had become zero; 0.0 if none had."""
    known = format_named(format)
    smallest = known.smallest_subnormal if known.subnormals else known.smallest_normal
    return smallest / 2 / scale if smallest > _WIDE_FLOOR else 0.0
