"""How large is the noise of the gradients against the gradient itself?

McCandlish et al., An Empirical Model of Large-Batch Training (2018), appendix A.1: the squared norms of the gradients
of one micro-batch, and of all together, estimate the squared true gradient and the trace of the covariance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from precreg.types import GradientNoise, NoiseSource

MIN_STEPS = 2


def noise_scale(small: float, big: float, samples: int) -> float | None:
    """Return the trace of the covariance over the squared gradient, in units of one sample; None if not estimable.

    `small` is the mean squared norm of the samples' gradients, and `big` the squared norm of their mean.
    """
    if samples < MIN_STEPS:
        return None
    gradient = (samples * big - small) / (samples - 1)
    trace = (small - big) / (1 - 1 / samples)
    return trace / gradient if gradient > 0 else None


class NoiseOfBatches:
    """Add up the squared norms of micro-batches and of their sum, over the sampled steps."""

    def __init__(self) -> None:
        self._squares: dict[str, list[float]] = {}
        self._sums: dict[str, list[float]] = {}
        self._samples: dict[str, list[int]] = {}

    def add_batch(self, name: str, square: float) -> None:
        """Note the squared norm of the gradient that one backward pass adds to a parameter."""
        self._squares.setdefault(name, []).append(square)

    def end_step(self, squares: dict[str, float]) -> bool:
        """Take the squared norms of the accumulated gradients. Return whether there were micro-batches."""
        batches, self._squares = self._squares, {}
        was_split = False
        for name, found in batches.items():
            if len(found) < MIN_STEPS or name not in squares:
                continue
            was_split = True
            count = len(found)
            # The ratio is the same if the user's loss is divided by the number of micro-batches.
            small, big = sum(found) / count, squares[name] / count**2
            sums = self._sums.setdefault(name, [0.0, 0.0])
            sums[0] += (small - big) / (1 - 1 / count)
            sums[1] += (count * big - small) / (count - 1)
            self._samples.setdefault(name, []).append(count)
        return was_split

    def result(self) -> Iterator[GradientNoise]:
        """Yield the noise of each parameter, and of all together."""
        if not self._sums:
            return
        traces, gradients = zip(*self._sums.values(), strict=True)
        every = max(self._samples.values(), key=len)
        yield _noise("", "micro_batches", sum(every), sum(traces), sum(gradients))
        for name, (trace, gradient) in self._sums.items():
            yield _noise(name, "micro_batches", sum(self._samples[name]), trace, gradient)


def _noise(name: str, source: NoiseSource, samples: int, trace: float, gradient: float) -> GradientNoise:
    return GradientNoise(
        parameter=name, source=source, samples=samples, scale=trace / gradient if gradient > 0 else None
    )


class NoiseOfSteps:
    """Add up the measured elements of the gradients of the sampled steps, and their squared norms."""

    def __init__(self) -> None:
        self._sums: dict[str, Any] = {}
        self._squares: dict[str, float] = {}
        self._steps: dict[str, int] = {}

    def add(self, name: str, gradient: Any, scale: float, limit: int | None) -> None:
        """Note the gradient of a parameter in a sampled step. A gradient that is not finite is left out."""
        # The formula and the sums of batches do without torch.
        from precreg.training.observing.tensors import sample

        taken = sample(gradient, limit).double() / scale
        square = float(taken.dot(taken))
        if square != square or square == float("inf"):
            return
        if name in self._sums:
            self._sums[name] += taken
        else:
            self._sums[name] = taken
        self._squares[name] = self._squares.get(name, 0.0) + square
        self._steps[name] = self._steps.get(name, 0) + 1

    def result(self) -> Iterator[GradientNoise]:
        """Yield the noise of each parameter, and of all together, over at least MIN_STEPS steps."""
        counted = {name: steps for name, steps in self._steps.items() if steps >= MIN_STEPS}
        if not counted:
            return
        sizes = {
            name: (self._squares[name] / steps, float((self._sums[name] / steps).square().sum()))
            for name, steps in counted.items()
        }
        most = max(counted.values())
        whole = [sizes[name] for name, steps in counted.items() if steps == most]
        small, big = (sum(each) for each in zip(*whole, strict=True))
        yield GradientNoise(parameter="", source="steps", samples=most, scale=noise_scale(small, big, most))
        for name, steps in counted.items():
            found = noise_scale(*sizes[name], steps)
            yield GradientNoise(parameter=name, source="steps", samples=steps, scale=found)
