"""Which values enter the layers of a module on the calibration data?

Large activations are sampled: a part of their rows, and those with the largest and smallest values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import torch

from precreg.errors import UserError
from precreg.quantization.arrays import channel_rows
from precreg.quantization.torch.layers import inputs_of, run_batches, to_array
from precreg.types import QuantizedRole

# Values of a layer that are kept, over all batches: 8 MiB of float32. Histograms need no more.
KEPT_VALUES = 2**21


class Observation:
    """The activations of one layer, as rows of channels."""

    def __init__(self, channel_axis: int, share: int) -> None:
        """Keep about `share` values of each call."""
        self._axis, self._share = channel_axis, share
        self._rows: list[Any] = []
        self.left_out = 0
        self.calls = 0

    def add(self, values: Any) -> None:
        """Keep the activations of one call."""
        rows = channel_rows(values, self._axis)
        self.calls += 1
        step = ceil(rows.size / self._share)
        if step <= 1:
            self._rows.append(rows)
            return
        # The extremes of each channel set scales, so that they are never left out.
        extremes = np.concatenate([rows.argmax(axis=0), rows.argmin(axis=0)])
        chosen = np.union1d(np.arange(0, len(rows), step), extremes)
        self._rows.append(rows[chosen])
        self.left_out += rows.size - len(chosen) * rows.shape[1]

    @property
    def values(self) -> Any:
        """Return the kept rows of all calls. Calls with other numbers of channels are kept as one column."""
        widths = {rows.shape[1] for rows in self._rows}
        return np.concatenate(self._rows if len(widths) == 1 else [rows.reshape(-1, 1) for rows in self._rows])


class ObservedLayer(NamedTuple):
    """Hold a layer to observe, with the axis of the channels of its inputs or results."""

    name: str
    module: Any
    axis: int
    role: QuantizedRole = "input"


def observe_layers(module: Any, layers: Sequence[ObservedLayer], batches: Sequence[Any]) -> dict[str, Observation]:
    """Return the inputs or results of layers by name, in the order in which they first run.

    Raises UserError: bad-value for a layer whose values have NaN or infinities.
    """
    found: dict[str, Observation] = {}
    share = max(1, KEPT_VALUES // max(len(batches), 1))
    handles = []
    for layer in layers:
        note = _noting(layer, share, found)
        if layer.role == "input":
            handles.append(layer.module.register_forward_pre_hook(note))
        else:
            handles.append(layer.module.register_forward_hook(note))
    try:
        run_batches(module, batches)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _noting(layer: ObservedLayer, share: int, found: dict[str, Observation]) -> Callable[..., None]:
    def note(module: Any, arguments: Any, result: Any = None) -> None:
        observation = found.setdefault(layer.name, Observation(layer.axis, share))
        values = arguments[: inputs_of(module)] if layer.role == "input" else (result,)
        for each in values:
            if isinstance(each, torch.Tensor) and each.is_floating_point() and each.numel():
                observation.add(_finite(to_array(each), layer))

    return note


def _finite(array: Any, layer: ObservedLayer) -> Any:
    bad = int(array.size - np.isfinite(array).sum())
    if not bad:
        return array
    of_layer = f"{'inputs' if layer.role == 'input' else 'results'} of layer {layer.name}"
    raise UserError(
        "bad-value",
        f"expected finite {of_layer} but got {bad:,} of {array.size:,} that are NaN or infinite",
        hint="remove NaN from the calibration data, or find the operation: precreg trace shows it",
    )
