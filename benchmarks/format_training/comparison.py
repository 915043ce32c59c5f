"""How do the trainings in a format differ from those in float32? Paired differences over seeds, with intervals.

Each seed pairs a training with float32's from the same first weights on the same examples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from precreg.verdict.statistics import t_quantile, t_sf

# Claims are tested at 5 % for all formats and tasks together (Holm, 1979).
ALPHA = 0.05


class Difference(NamedTuple):
    """The mean paired difference with its 95 % confidence interval, and the p-value of "it is below 0"."""

    mean: float
    low: float
    high: float
    p_below: float


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Compare paired figures by Student's t. Figures that are not finite make an infinite difference.

    Raises ValueError below 2 pairs.
    """
    pairs = [a - b for a, b in zip(ours, theirs, strict=True)]
    if len(pairs) < 2:
        raise ValueError(f"expected at least 2 pairs but got {len(pairs)}")
    if not all(math.isfinite(each) for each in pairs):
        return Difference(math.inf, -math.inf, math.inf, 1.0)
    mean, df, error = fmean(pairs), len(pairs) - 1, stdev(pairs) / math.sqrt(len(pairs))
    if error == 0:
        return Difference(mean, mean, mean, 0.0 if mean < 0 else 1.0)
    half_width = t_quantile(ALPHA / 2, df) * error
    tail = t_sf(abs(mean) / error, df)
    return Difference(mean, mean - half_width, mean + half_width, tail if mean < 0 else 1 - tail)


def holm(p_values: Sequence[float]) -> list[bool]:
    """Return which hypotheses are rejected at ALPHA for all of them together, by Holm's step-down procedure."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    rejected = [False] * len(p_values)
    for place, index in enumerate(order):
        if p_values[index] > ALPHA / (len(p_values) - place):
            break
        rejected[index] = True
    return rejected


def held_loss_at(curve: Sequence[tuple[float, float]], training_loss: float) -> float:
    """Return the held-out loss of a training when its training loss first fell to a value, interpolated linearly.

    `curve` has (training loss, held-out loss) at checkpoints. A value below all of them gives the last held-out loss.
    """
    before = curve[0]
    if before[0] <= training_loss:
        return before[1]
    for after in curve[1:]:
        if after[0] <= training_loss:
            share = (before[0] - training_loss) / (before[0] - after[0])
            return before[1] + share * (after[1] - before[1])
        before = after
    return curve[-1][1]
