"""How does a scaler move: as recorded step by step, and as it would on measured gradients?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

import numpy as np

from precreg.training.magnitudes import Limit, magnitude_chunks
from precreg.types import ScalerHistory, ScalerPoint, ScalerRun

# The default of torch.amp.GradScaler. Its factors are 2 and 0.5.
_GROWTH_INTERVAL = 2000


def summarize_scaler(points: Iterable[ScalerPoint]) -> ScalerHistory | None:
    """Return how a scaler moved; None for a scaler without history."""
    found = sorted(points, key=lambda point: point.step)
    if not found:
        return None
    scales = [point.scale for point in found]
    moves = [
        (later.step, later.scale > earlier.scale) for earlier, later in pairwise(found) if later.scale != earlier.scale
    ]
    growths = [step for step, has_grown in moves if has_grown]
    return ScalerHistory(
        steps=len(found),
        skipped=sum(point.is_skipped for point in found),
        longest_skipped=max(
            (len(list(run)) for is_skipped, run in groupby(found, lambda point: point.is_skipped) if is_skipped),
            default=0,
        ),
        first=scales[0],
        last=scales[-1],
        least=min(scales),
        greatest=max(scales),
        growths=len(growths),
        backoffs=len(moves) - len(growths),
        growth_interval=min((later - earlier for earlier, later in pairwise(growths)), default=None),
        below_one=sum(scale < 1 for scale in scales),
    )


def run_scaler(
    largest: Sequence[float], limit: Limit, exponent: int, growth_interval: int = _GROWTH_INTERVAL
) -> ScalerRun:
    """Run a dynamic scaler over the largest gradients of the steps, as torch.amp.GradScaler moves.

    A step whose largest gradient crosses the limit is skipped and halves the scale. The scale doubles after
    `growth_interval` steps without one. The gradients are those measured, so the run does not know the gradients that
    other updates would have had.
    """
    initial, skipped, unskipped = exponent, 0, 0
    for size in largest:
        chunk = next(magnitude_chunks(np.array([size])))
        crossings = chunk.magnitudes.crossings(limit)
        if chunk.nonfinite or (crossings.size and crossings[0] <= exponent):
            exponent, skipped, unskipped = exponent - 1, skipped + 1, 0
        else:
            unskipped += 1
            if unskipped == growth_interval:
                exponent, unskipped = exponent + 1, 0
    return ScalerRun(initial, len(largest), skipped, exponent)
