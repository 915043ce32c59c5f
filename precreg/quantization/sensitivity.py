"""To which layers are the results of a model sensitive?

Three methods give the relative error of the results: an estimate from gradients, the layer alone quantized, and all
layers quantized apart from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np

from precreg.quantization.model import ModelCost, QuantizableModel, compare_outputs
from precreg.types import LayerSensitivity, Sensitivity


def measure_sensitivity(
    model: QuantizableModel,
    cost: ModelCost,
    first_order: Mapping[str, float],
    *,
    probes: int = 0,
    step: float | None = None,
) -> Sensitivity:
    """Return the sensitivity of a measured model. `first_order` has the estimates by layer, and may lack some.

    `probes` or `step` say how they were made.
    """
    exact = model.run(frozenset(), frozenset()).outputs
    measured = [(row.layer, row.both_alone.relative) for row in cost.rows if row.both_alone is not None]
    weights = frozenset(row.layer for row in cost.rows if row.weight_alone is not None)
    activations = frozenset(row.layer for row in cost.rows if row.activation_alone is not None)
    layers = []
    for name, alone in measured:
        # With a single layer, no other one is quantized.
        others = {name}
        found = model.run(weights - others, activations - others).outputs
        without = compare_outputs(exact, found, None).relative
        layers.append(LayerSensitivity(name, first_order.get(name), alone, without))
    estimated = [(each.first_order, each.alone) for each in layers if each.first_order is not None]
    return Sensitivity(
        layers=tuple(layers),
        total=cost.total.relative,
        root_sum=sqrt(sum(alone * alone for _, alone in measured)),
        probes=probes if estimated else 0,
        step=step if estimated else None,
        first_order_alone=spearman(*zip(*estimated, strict=True)) if estimated else None,
        # A sensitive layer alone has a large error; without it, the error is small.
        alone_without=spearman([each.alone for each in layers], [-(each.without or 0.0) for each in layers]),
    )


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, equal values with their mean rank.

    None for fewer than two values, or for equal values in one sequence.
    """
    if len(first) < 2:
        return None
    a, b = (_ranks(np.asarray(each, np.float64)) for each in (first, second))
    a, b = a - a.mean(), b - b.mean()
    scale = sqrt(float(np.square(a).sum()) * float(np.square(b).sum()))
    return float((a * b).sum()) / scale if scale > 0.0 else None


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]
