"""Which values enter the layers of a module on the calibration data?

Large activations are sampled: a part of their rows, and those with the largest and smallest values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil
from typing import Any

import numpy as np
import torch

from precreg.errors import UserError
from precreg.quantization.torch.layers import run_batches, to_array

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


def channel_rows(values: Any, axis: int) -> Any:
    """Return an array as rows of channels: (elements / channels, channels)."""
    if values.ndim < 2:
        return values.reshape(-1, 1)
    return np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])


def observe_inputs(
    module: Any, layers: Sequence[tuple[str, Any, int]], batches: Sequence[Any], inputs_of: Callable[[Any], int]
) -> dict[str, Observation]:
    """Return the inputs of layers by name, in the order in which they first run.

    `layers` are names, modules, and the axes of the channels of their inputs.

    Raises UserError: bad-value for a layer whose input has NaN or infinities.
    """
    found: dict[str, Observation] = {}
    share = max(1, KEPT_VALUES // max(len(batches), 1))
    handles = []
    for name, layer, axis in layers:
        handles.append(layer.register_forward_pre_hook(_noting(name, axis, share, found, inputs_of(layer))))
    try:
        run_batches(module, batches)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _noting(name: str, axis: int, share: int, found: dict[str, Observation], inputs: int) -> Callable[..., None]:
    def note(_module: Any, arguments: Any) -> None:
        observation = found.setdefault(name, Observation(axis, share))
        for values in _floating(arguments[:inputs]):
            array = to_array(values)
            bad = int(array.size - np.isfinite(array).sum())
            if bad:
                message = f"expected finite inputs of layer {name} but got {bad:,} of {array.size:,} NaN or infinities"
                raise UserError(
                    "bad-value",
                    message,
                    hint="remove NaN from the calibration data, or find the operation: precreg trace",
                )
            observation.add(array)

    return note


def _floating(values: Iterable[Any]) -> Iterable[Any]:
    return (each for each in values if isinstance(each, torch.Tensor) and each.is_floating_point() and each.numel())
