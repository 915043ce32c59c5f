"""A network of 8-bit layers on a stream of inputs, with and without the errors of quantization carried, side by side.

    convolution over 3 places, relu -> linear -> LayerNorm in float32 -> linear

What each layer but LayerNorm gives is quantized; the step of a layer is 1.25 / 127 of the largest magnitude in the
first input. A strategy names alpha and beta for each kind of layer; what is learned is learned on the first ten
steps and frozen from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt
from networks.compensation import NOT_CARRIED, RESET, Coefficients, Quantizer, fitted, means
from networks.formats import product
from networks.layers import normalize

Strategy = Literal["per_layer", "device", "learned", "added"]
Weights = tuple[npt.NDArray, npt.NDArray, npt.NDArray, npt.NDArray]
KINDS = {"convolution": "convolution", "linear": "linear", "head": "linear"}
"""The layers that are quantized, and what kind they are of."""


def with_and_without(
    base: npt.NDArray[np.float32],
    noise: npt.NDArray[np.float32],
    kernel: npt.NDArray[np.float32],
    weight: npt.NDArray[np.float32],
    gain: npt.NDArray[np.float32],
    head: npt.NDArray[np.float32],
    *,
    strategies: dict[str, dict[str, dict[str, float]]],
    strategy: Strategy,
) -> dict[str, npt.NDArray]:
    """Run base (batch, places, channels) plus noise (times, batch, places, channels) through the network twice.

    Gives the scores of both, (times / 10, batch, classes), averaged over each stretch of ten.
    """
    weights = (kernel, weight, gain, head)
    inputs = [base + values for values in noise]
    calibration = [layers(values, weights) for values in inputs[:RESET]]
    steps = {layer: np.float32(1.25 / 127) * np.abs(values).max() for layer, values in calibration[0].items()}
    carried = {layer: shares(layer, strategy, strategies, calibration, steps[layer]) for layer in KINDS}
    return {
        "without": scores(inputs, weights, {layer: Quantizer(steps[layer], NOT_CARRIED) for layer in KINDS}),
        "compensated": scores(inputs, weights, {layer: Quantizer(steps[layer], carried[layer]) for layer in KINDS}),
    }


def shares(
    layer: str,
    strategy: Strategy,
    strategies: dict[str, dict[str, dict[str, float]]],
    calibration: list[dict[str, npt.NDArray]],
    step: npt.NDArray,
) -> Coefficients:
    """Give what a layer carries: what its kind does in the strategy, or what is best for the calibration's values."""
    if strategy == "learned":
        return fitted(np.stack([values[layer] for values in calibration]), step)
    if strategy == "added":
        return Coefficients(**strategies["per_layer"][KINDS[layer]], sign=1)
    return Coefficients(**strategies[strategy][KINDS[layer]])


def scores(inputs: list[npt.NDArray], weights: Weights, quantizers: dict[str, Quantizer]) -> npt.NDArray:
    """Average what the last layer gives."""
    return means(np.stack([layers(values, weights, quantizers)["head"] for values in inputs]))


def layers(
    x: npt.NDArray, weights: Weights, quantizers: dict[str, Callable[[npt.NDArray], npt.NDArray]] | None = None
) -> dict[str, npt.NDArray]:
    """Give what each layer gives on, quantized where there are quantizers."""
    kernel, weight, gain, head = weights
    given = {}

    def passed(layer: str, values: npt.NDArray) -> npt.NDArray:
        given[layer] = quantizers[layer](values) if quantizers else values
        return given[layer]

    places = np.concatenate([x[:, :-2], x[:, 1:-1], x[:, 2:]], axis=-1)
    hidden = passed("convolution", np.maximum(product(places, kernel), np.float32(0)))
    hidden = passed("linear", product(hidden.reshape(len(x), -1), weight))
    normalized, _ = normalize(hidden, gain, "layer_norm")
    passed("head", product(normalized, head))
    return given


def exactly(
    base: npt.NDArray[np.float64],
    noise: npt.NDArray[np.float64],
    kernel: npt.NDArray[np.float64],
    weight: npt.NDArray[np.float64],
    gain: npt.NDArray[np.float64],
    head: npt.NDArray[np.float64],
    **params: object,
) -> dict[str, npt.NDArray]:
    """Compute the scores in float64, all times at once, where nothing is quantized. `params` are the subject's."""
    x = base + noise
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, axis=2)
    hidden = np.maximum(np.einsum("tbpcw,wck->tbpk", windows, kernel.reshape(3, x.shape[-1], -1)), 0)
    hidden = hidden.reshape(*hidden.shape[:2], -1) @ weight
    centered = hidden - hidden.mean(-1, keepdims=True)
    given = centered / np.sqrt(np.square(centered).mean(-1, keepdims=True) + 1e-5) * gain @ head
    averaged = given.reshape(-1, 10, *given.shape[1:]).mean(1)
    return {"without": averaged, "compensated": averaged}
