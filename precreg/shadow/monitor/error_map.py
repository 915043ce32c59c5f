"""How large is one metric of a monitored module, by layer and by step?"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.types import LayerFigures, MonitorRecord, TensorRole

MonitorMetric = Literal["own", "total", "mean", "std", "least", "greatest", "nan", "inf", "subnormal", "zeros"]


class ErrorMap(NamedTuple):
    """One metric of layers (rows) at sampled steps (columns); NaN where a layer has no such figure."""

    layers: tuple[str, ...]
    steps: tuple[int, ...]
    values: NDArray[np.float64]


def map_errors(record: MonitorRecord, metric: MonitorMetric, role: TensorRole) -> ErrorMap:
    """Return a metric of the layers of a record that have tensors of a role, at its steps."""
    steps = tuple(step.step for step in record.steps)
    found: dict[str, dict[int, float]] = {}
    for step in record.steps:
        for each in step.layers:
            value = metric_of(each, metric) if each.role == role else None
            if value is not None:
                row = found.setdefault(each.layer, {})
                row[step.step] = max(row.get(step.step, value), value, key=abs)
    layers = tuple(name for name in record.layers if name in found)
    values = [[found[name].get(step, np.nan) for step in steps] for name in layers]
    return ErrorMap(layers, steps, np.array(values, np.float64).reshape(len(layers), len(steps)))


def metric_of(figures: LayerFigures, metric: MonitorMetric) -> float | None:
    """Return a metric of a layer's tensors at one step; None where it is not known."""
    if metric in ("own", "total"):
        size = getattr(figures, metric)
        return None if size is None else float(size.relative)
    return float(getattr(figures.figures, metric))
