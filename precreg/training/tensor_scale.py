"""Which per-tensor scale loses least in a narrow format: none, a power of two, the largest element, or delayed scaling?

Elements beyond the largest number saturate, as in conversions to fp8.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import ldexp
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from precreg.arithmetic import FORMATS, Format, Rounding, format_named, round_to
from precreg.storage import Array
from precreg.training.gradients import StepGradients
from precreg.training.magnitudes import MAX_SQUARE, Floats, Limit, format_limits, magnitude_chunks
from precreg.types import (
    TENSOR_SCALINGS,
    ScalingLoss,
    TensorScales,
    TensorScaleSweep,
    TensorScaling,
)

# The default of Transformer Engine's DelayedScaling (amax_history_len, and margin 0).
HISTORY = 1024
# Gradients of 1e-9 times 2**40 are near the largest numbers of fp8, and activations of 1e5 times 2**-8.
_EXPONENTS = range(-8, 41)
# Each element is rounded some 50 times, so larger tensors are sampled.
SAMPLED_ELEMENTS = 2**16


class _Loss(NamedTuple):
    zero: int = 0
    beyond: int = 0
    error: float = 0.0

    def plus(self, other: _Loss) -> _Loss:
        return _Loss(self.zero + other.zero, self.beyond + other.beyond, self.error + other.error)

    def over(self, energy: float) -> ScalingLoss:
        return ScalingLoss(zero=self.zero, beyond=self.beyond, error_energy=self.error / energy if energy else 0.0)


class _Tally:
    """Keep the losses of one tensor, and the largest elements of its last steps."""

    def __init__(self, format: Format, history: int, margin: int) -> None:
        self.format, self.margin = format, margin
        self.beyond = format_limits(format).beyond
        self.history: deque[float] = deque(maxlen=history)
        self.delayed = 1.0
        self.by_scaling: dict[TensorScaling, _Loss] = dict.fromkeys(TENSOR_SCALINGS, _Loss())
        self.constant = dict.fromkeys(_EXPONENTS, _Loss())
        self.elements = self.measured = self.nonzero = self.nonfinite = 0
        self.largest = self.energy = 0.0

    def add(self, values: Array, kept: int) -> None:
        """Measure the tensor of one step, on at most `kept` elements; its largest element is of all elements."""
        largest = max(
            (float(chunk.magnitudes.values.max(initial=0.0)) for chunk in magnitude_chunks(values)), default=0
        )
        sample = take_sample(values, kept)
        finite = sample[np.isfinite(sample)]
        self.elements += int(np.size(values))
        self.measured += finite.size
        self.nonfinite += sample.size - finite.size
        self.nonzero += int(np.count_nonzero(finite))
        self.energy += float(np.minimum(finite * finite, MAX_SQUARE).sum())
        self.largest = max(self.largest, largest)
        for scaling, scale in self._scales(largest).items():
            self.by_scaling[scaling] = self.by_scaling[scaling].plus(self._lose(finite, scale))
        for exponent, known in self.constant.items():
            self.constant[exponent] = known.plus(self._lose(finite, ldexp(1.0, exponent)))
        self.history.append(largest)

    def _scales(self, largest: float) -> dict[TensorScaling, float]:
        """Return the scale of each scaling for this step. Delayed scaling knows earlier steps alone."""
        earlier = max(self.history, default=0.0)
        if earlier:
            self.delayed = self.format.largest / earlier / 2.0**self.margin
        return {
            "unscaled": 1.0,
            "power_of_two": ldexp(1.0, highest_exponent(largest, self.beyond)) if largest else 1.0,
            "amax": self.format.largest / largest if largest else 1.0,
            "delayed": self.delayed,
        }

    def _lose(self, values: Floats, scale: float) -> _Loss:
        with np.errstate(over="ignore"):
            rounded = round_to(values * scale, replace(self.format, overflow=np.inf), Rounding.NEAREST_EVEN)
            is_beyond = np.isinf(rounded)
            saturated = np.where(is_beyond, np.copysign(self.format.largest, values), rounded)
            errors = saturated / scale - values
            error = float(np.minimum(errors * errors, MAX_SQUARE).sum())
        zero = np.count_nonzero((rounded == 0) & (values != 0))
        return _Loss(int(zero), int(np.count_nonzero(is_beyond)), error)

    def scales(self, parameter: str) -> TensorScales:
        """Return the losses of each scaling and of each constant scale."""
        # Among equal errors the smaller scale, which leaves more room.
        best = min(self.constant, key=lambda exponent: (self.constant[exponent].error, exponent))
        return TensorScales(
            parameter=parameter,
            elements=self.elements,
            measured=self.measured,
            nonzero=self.nonzero,
            nonfinite=self.nonfinite,
            largest=self.largest,
            scalings={name: loss.over(self.energy) for name, loss in self.by_scaling.items()},
            exponents=tuple(_EXPONENTS),
            constant=tuple(loss.over(self.energy) for loss in self.constant.values()),
            best=best if self.nonzero else None,
        )


class TensorScaleGauge:
    """Measure, step after step, what each per-tensor scale of a narrow format loses. Only sums are kept."""

    def __init__(
        self,
        format: str | Format = "float8_e4m3fn",
        *,
        history: int = HISTORY,
        margin: int = 0,
        elements: int = SAMPLED_ELEMENTS,
    ) -> None:
        """Prepare the sums for a format; `history` and `margin` belong to delayed scaling.

        `elements` is the most elements of a tensor that one step measures.

        Raises:
            UserError: unknown-format or bad-format.
        """
        self.format = format if isinstance(format, Format) else format_named(format)
        self.history, self.margin, self._elements = history, margin, elements
        format_limits(self.format)
        self._tallies: dict[str, _Tally] = {}
        self._not_measured: dict[str, None] = {}
        self._steps = 0

    def add(self, gradients: StepGradients) -> None:
        """Measure the gradients of one step."""
        self._steps += 1
        for name, values in gradients.arrays.items():
            if np.asarray(values).dtype.name not in FORMATS:
                self._not_measured[name] = None
                continue
            tally = self._tallies.setdefault(name, _Tally(self.format, self.history, self.margin))
            tally.add(values, self._elements)

    def result(self) -> TensorScaleSweep:
        """Return the losses of the steps so far."""
        return TensorScaleSweep(
            format=self.format.name,
            steps=self._steps,
            history=self.history,
            margin=self.margin,
            tensors=tuple(tally.scales(name) for name, tally in self._tallies.items()),
            not_measured=tuple(self._not_measured),
        )


def sweep_tensor_scales(
    steps: Iterable[StepGradients],
    format: str | Format = "float8_e4m3fn",
    *,
    history: int = HISTORY,
    margin: int = 0,
    elements: int = SAMPLED_ELEMENTS,
) -> TensorScaleSweep:
    """Measure what each per-tensor scale of a narrow format loses, over steps that are read one at a time.

    Raises:
        UserError: unknown-format or bad-format.
    """
    gauge = TensorScaleGauge(format, history=history, margin=margin, elements=elements)
    for gradients in steps:
        gauge.add(gradients)
    return gauge.result()


def highest_exponent(largest: float, beyond: Limit) -> int:
    """Return the largest k for which largest * 2**k does not cross the limit of a format's largest number."""
    chunk = next(magnitude_chunks(np.array([largest])))
    return int(chunk.magnitudes.crossings(beyond)[0]) - 1


def take_sample(values: Array, kept: int) -> Floats:
    """Return at most `kept` elements as float64: all of them, or the same pseudo-random places for the same size."""
    flat = np.asarray(values).reshape(-1)
    if flat.size > kept:
        # Every n-th element could follow the rows of a matrix.
        flat = flat[np.random.default_rng(flat.size).integers(0, flat.size, kept)]
    return flat.astype(np.float64)
