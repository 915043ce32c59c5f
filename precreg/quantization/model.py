"""How much does each quantized layer of a model cost, alone and accumulated?

Every kind of model gives the same few things: its layers, and its results with some of them quantized.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from math import inf, sqrt
from typing import Any, NamedTuple, Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from precreg.errors import UserError
from precreg.quantization.arrays import decibels, relative_norm
from precreg.types import ArrayQuantization, LayerQuantization, OutputError, QuantizationEvent, QuantizedRole

Array = NDArray[Any]
MetricFunction = Callable[[Sequence[Array]], float]


class LayerFacts(NamedTuple):
    """Hold the facts of a layer that need no run: its name, its kind, and the quantization of its arrays."""

    name: str
    kind: str
    parameters: int
    weight: ArrayQuantization | None
    activation: ArrayQuantization | None
    activation_role: QuantizedRole = "input"


class LayerSums(NamedTuple):
    """Hold sums over the results of a layer: squares of the float ones, and of the differences."""

    signal: float
    noise: float


class ModelResults(NamedTuple):
    """Hold the results of a model, one array for each batch, and the sums of its quantized layers.

    The sums compare a layer with the float layer on the same inputs.
    """

    outputs: tuple[Array, ...]
    layers: Mapping[str, LayerSums]


class QuantizableModel(Protocol):
    """Run a model with some of its layers quantized."""

    @property
    def layers(self) -> Sequence[LayerFacts]:
        """Return the layers in the order in which they run."""

    @property
    def events(self) -> Sequence[QuantizationEvent]:
        """Return the facts that weaken the figures."""

    def run(self, weights: Set[str], activations: Set[str]) -> ModelResults:
        """Return the results with the weights and the activations of the named layers quantized."""


class ModelCost(NamedTuple):
    """Hold the rows of all layers, the cost of all of them together, and the float model's own figure."""

    rows: tuple[LayerQuantization, ...]
    total: OutputError
    float_metric: float | None


def measure_model(model: QuantizableModel, metric: MetricFunction | None = None) -> ModelCost:
    """Return the cost of each layer: its weights, its activations and both alone, and all layers up to it.

    Raises UserError: bad-value for a float model with NaN or infinite results, or a metric that returns no number.
    """
    exact = model.run(frozenset(), frozenset()).outputs
    _require_finite(exact)
    float_metric = None if metric is None else call_metric(metric, exact)
    rows = []
    weights: set[str] = set()
    activations: set[str] = set()
    accumulated = compare_outputs(exact, exact, metric)
    for layer in model.layers:
        weight, activation = _named(layer.weight, layer), _named(layer.activation, layer)
        if not weight and not activation:
            rows.append(_row(layer, accumulated))
            continue
        weights |= weight
        activations |= activation
        both = model.run(weight, activation)
        alone = compare_outputs(exact, both.outputs, metric)
        is_first = weights == weight and activations == activation
        accumulated = alone if is_first else _cost(model, exact, (weights, activations), metric)
        sums = both.layers.get(layer.name)
        rows.append(
            replace(
                _row(layer, accumulated),
                layer_error=None if sums is None else relative_norm(sums.noise, sums.signal),
                sqnr_db=None if sums is None else decibels(*sums),
                # With one of the two, both alone is the same run.
                weight_alone=_part(model, exact, (weight, set()), alone if not activation else None, metric),
                activation_alone=_part(model, exact, (set(), activation), alone if not weight else None, metric),
                both_alone=alone,
            )
        )
    return ModelCost(tuple(rows), accumulated, float_metric)


def _row(layer: LayerFacts, accumulated: OutputError) -> LayerQuantization:
    return LayerQuantization(
        layer=layer.name,
        kind=layer.kind,
        parameters=layer.parameters,
        weight=layer.weight,
        activation=layer.activation,
        activation_role=layer.activation_role,
        accumulated=accumulated,
    )


def _named(array: ArrayQuantization | None, layer: LayerFacts) -> set[str]:
    # Without a known error nothing changes: zeros, or the weights of a model whose float weights are not known.
    return set() if array is None or array.figures.relative_error is None else {layer.name}


def _part(
    model: QuantizableModel,
    exact: tuple[Array, ...],
    parts: tuple[Set[str], Set[str]],
    known: OutputError | None,
    metric: MetricFunction | None,
) -> OutputError | None:
    if not any(parts):
        return None
    return _cost(model, exact, parts, metric) if known is None else known


def _cost(
    model: QuantizableModel,
    exact: tuple[Array, ...],
    parts: tuple[Set[str], Set[str]],
    metric: MetricFunction | None,
) -> OutputError:
    weights, activations = parts
    return compare_outputs(exact, model.run(frozenset(weights), frozenset(activations)).outputs, metric)


def compare_outputs(exact: Sequence[Array], quantized: Sequence[Array], metric: MetricFunction | None) -> OutputError:
    """Return the error of a model's results against those of the float model."""
    signal = noise = 0.0
    flips: int | None = 0
    for e, q in zip(exact, quantized, strict=True):
        wide, other = e.astype(np.float64), q.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            signal += float(np.square(wide).sum())
            noise += float(np.square(other - wide).sum())
        flips = None if flips is None or not has_classes(e) else flips + count_flips(e, q)
    relative = sqrt(noise / signal) if signal > 0.0 else (0.0 if noise == 0.0 else inf)
    found = None if metric is None else call_metric(metric, quantized)
    is_known = np.isfinite(noise)
    return OutputError(relative if is_known else inf, decibels(signal, noise) if is_known else None, flips, found)


def has_classes(output: Array) -> bool:
    """Return whether the last axis may hold the scores of classes: rows of at least two."""
    return output.ndim >= 2 and output.shape[-1] >= 2


def count_flips(exact: Array, quantized: Array) -> int:
    """Return in how many rows the largest score is another class's; a row with NaN has moved."""
    moved = exact.argmax(axis=-1) != quantized.argmax(axis=-1)
    return int((moved | np.isnan(quantized).any(axis=-1)).sum())


def call_metric(metric: MetricFunction, outputs: Sequence[Array]) -> float:
    """Return the figure of a user's function. Raises UserError: bad-outputs for other things than a number."""
    found = metric(outputs)
    try:
        return float(found)
    except (TypeError, ValueError):
        raise UserError(
            "bad-outputs",
            f"expected a number from the metric but got {type(found).__name__}",
            hint="return a float: def metric(outputs): return float((outputs[0].argmax(-1) == 3).mean())",
        ) from None


def _require_finite(outputs: Sequence[Array]) -> None:
    for number, output in enumerate(outputs):
        bad = int(output.size - np.isfinite(output).sum())
        if bad:
            raise UserError(
                "bad-value",
                f"expected finite results of the float model but got {bad:,} of {output.size:,} in batch {number}",
                hint="find where they come from: precreg trace shows the operation",
            )
