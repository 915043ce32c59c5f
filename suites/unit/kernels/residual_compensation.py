"""A stream of values and a linear layer, quantized with the error carried to the next step, as published and corrected.

    corrected      the quantizer is given the value less what is carried; what comes out is quantized
    added          the same with the other sign
    not_carried    each step by itself
    float_output   what is carried is taken off after the quantizer, as published: nothing stays quantized
    input_error    the layer adds its input's error to its output, as published: the shapes may fit, the meaning never

Everything is elementwise, in a fixed order, so the outputs have the same bits on every CPU.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from networks.compensation import NOT_CARRIED, Coefficients, Quantizer, means, quantized
from networks.formats import product

Form = Literal["corrected", "added", "not_carried", "float_output", "input_error"]
Outputs = dict[str, npt.NDArray]


def stream(
    base: npt.NDArray[np.float32],
    noise: npt.NDArray[np.float32],
    *,
    step: float,
    strategies: dict[str, dict[str, float]],
    layer: str,
    form: Form,
) -> Outputs:
    """Quantize base (n,) plus noise (steps, n) as one layer's strategy says, and judge what comes out."""
    carried = carried_by(form, strategies[layer])
    if form == "float_output":
        return results(_taken_off_after(base + noise, np.float32(step), carried), step)
    quantizer = Quantizer(np.float32(step), carried)
    return results(np.stack([quantizer(base + values) for values in noise]), step)


def carried_by(form: Form, strategy: dict[str, float]) -> Coefficients:
    """Give the coefficients of a form."""
    return NOT_CARRIED if form == "not_carried" else Coefficients(**strategy, sign=1 if form == "added" else -1)


def results(given: npt.NDArray[np.float32], step: float) -> Outputs:
    """Give the means over each stretch of ten steps, and how far outputs are from whole numbers of steps."""
    steps = given / np.float32(step)
    return {"means": means(given), "off_grid": np.abs(steps - np.rint(steps)).max()}


def _taken_off_after(x: npt.NDArray[np.float32], step: np.float32, shares: Coefficients) -> npt.NDArray[np.float32]:
    carried, given = np.zeros_like(x[0]), []
    for values in x:
        error = quantized(values, step) - values
        carried = np.float32(shares.alpha) * carried + np.float32(shares.beta) * error
        given.append(quantized(values, step) - carried)
    return np.stack(given)


def linear(
    base: npt.NDArray[np.float32],
    noise: npt.NDArray[np.float32],
    weight: npt.NDArray[np.float32],
    *,
    steps: dict[str, float],
    strategies: dict[str, dict[str, float]],
    layer: str,
    form: Form,
) -> Outputs:
    """Multiply base (batch, inputs) plus noise (times, batch, inputs) by weight (inputs, outputs).

    What comes in and what goes out are both quantized, in `steps`, and each carries an error of its own shape.
    """
    carried = carried_by(form, strategies[layer])
    incoming, outgoing = (Quantizer(np.float32(steps[side]), carried) for side in ("input", "output"))
    given = []
    for values in noise:
        if form == "input_error":
            arrived = quantized(base + values, np.float32(steps["input"]))
            error = np.float32(carried.beta) * (arrived - (base + values))
            given.append(quantized(product(arrived, weight) + error, np.float32(steps["output"])))
        else:
            given.append(outgoing(product(incoming(base + values), weight)))
    return results(np.stack(given), steps["output"])


def stream_exactly(base: npt.NDArray[np.float64], noise: npt.NDArray[np.float64], **params: object) -> Outputs:
    """Give the means of the values themselves; outputs are whole numbers of steps. `params` are the subject's."""
    return {"means": base + noise.reshape(-1, 10, *noise.shape[1:]).mean(1), "off_grid": np.float64(0)}


def linear_exactly(
    base: npt.NDArray[np.float64], noise: npt.NDArray[np.float64], weight: npt.NDArray[np.float64], **params: object
) -> Outputs:
    """Multiply the means, which gives the means of the products. `params` are the subject's."""
    exact = stream_exactly(base, noise)
    return exact | {"means": exact["means"] @ weight}
