"""Which operators of the reference evaluator compute in float32, and how are they computed in float64?

These classes replace them, also in the bodies of functions such as Gelu.
"""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.reference.op_run import OpRun

_ERF = np.vectorize(erf, otypes=[np.float64])
_QUANTIZED_MAX = 255


class Erf(OpRun):  # type: ignore[misc]
    """The error function by C's erf in double."""

    op_domain = ""

    def _run(self, x: NDArray[Any]) -> tuple[NDArray[Any]]:
        return (_ERF(x).astype(x.dtype) if x.size else x.copy(),)


class DequantizeLinear(OpRun):  # type: ignore[misc]
    """(x - zero point) * scale in float64, which holds each int32."""

    op_domain = ""

    def _run(
        self,
        x: NDArray[Any],
        x_scale: NDArray[Any],
        x_zero_point: NDArray[Any] | None = None,
        axis: int = 1,
        block_size: int = 0,
        output_dtype: int = 0,
    ) -> tuple[NDArray[Any]]:
        wide = x.astype(np.float64)
        if x_zero_point is not None:
            wide = wide - _along(x_zero_point.astype(np.float64), x.shape, axis, block_size)
        return (wide * _along(x_scale.astype(np.float64), x.shape, axis, block_size),)


def _along(scale: NDArray[Any], shape: tuple[int, ...], axis: int, block_size: int) -> NDArray[Any]:
    """Return scales that broadcast to a shape: one for all, one for each index of an axis, or one for each block."""
    if scale.size == 1:
        return scale.reshape(())
    if block_size:
        repeated = np.repeat(scale, block_size, axis)
        return np.take(repeated, np.arange(shape[axis]), axis)
    return scale.reshape([-1 if place == axis % len(shape) else 1 for place in range(len(shape))])


class DynamicQuantizeLinear(OpRun):  # type: ignore[misc]
    """The scale of the range of x with zero, and x as uint8, by the formula of the operator's page."""

    op_domain = ""

    def _run(self, x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        wide = x.astype(np.float64)
        low, high = np.minimum(0, wide.min(initial=0)), np.maximum(0, wide.max(initial=0))
        scale = (high - low) / _QUANTIZED_MAX if high > low else 1.0 / _QUANTIZED_MAX
        zero = np.rint(np.clip(-low / scale, 0, _QUANTIZED_MAX))
        codes = np.clip(np.rint(wide / scale) + zero, 0, _QUANTIZED_MAX)
        return codes.astype(np.uint8), np.array(scale), np.array(zero, np.uint8)


OPERATORS_IN_DOUBLE = (Erf, DequantizeLinear, DynamicQuantizeLinear)
