"""Which operators of the reference evaluator compute in float32, and how are they computed in float64?

These functions replace them. Their first argument is the evaluator's.
"""

from __future__ import annotations

from functools import cache
from math import erf
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ERF = np.vectorize(erf, otypes=[np.float64])
_QUANTIZED_MAX = 255


@cache
def operators_in_double() -> list[type]:
    """Return the operators as classes that the reference evaluator takes."""
    # Late, because the package onnx is an extra.
    from onnx.reference.op_run import OpRun

    return [type(name, (OpRun,), {"op_domain": "", "_run": run}) for name, run in _RUN.items()]


def _erf(_: object, x: NDArray[Any]) -> tuple[NDArray[Any]]:
    """Return the error function by C's erf in double."""
    return (_ERF(x).astype(x.dtype) if x.size else x.copy(),)


def _gelu(_: object, x: NDArray[Any], approximate: str = "none") -> tuple[NDArray[Any]]:
    """Return x times the normal distribution's P(X <= x), or its approximation by tanh."""
    # The evaluator takes the body of the function, and its own Erf there.
    if approximate == "tanh":
        return (x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,)
    return (x * (1 + _erf(_, x / np.sqrt(2))[0]) / 2,)


def _dequantize(
    _: object,
    x: NDArray[Any],
    x_scale: NDArray[Any],
    x_zero_point: NDArray[Any] | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> tuple[NDArray[Any]]:
    """Return (x - zero point) * scale in float64, which holds each int32."""
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


def _quantize_dynamically(_: object, x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return x as uint8, its scale and its zero point, by the formula of the operator's page."""
    wide = x.astype(np.float64)
    low, high = np.minimum(0, wide.min(initial=0)), np.maximum(0, wide.max(initial=0))
    scale = (high - low) / _QUANTIZED_MAX if high > low else 1.0 / _QUANTIZED_MAX
    zero = np.rint(np.clip(-low / scale, 0, _QUANTIZED_MAX))
    codes = np.clip(np.rint(wide / scale) + zero, 0, _QUANTIZED_MAX)
    return codes.astype(np.uint8), np.array(scale), np.array(zero, np.uint8)


_RUN = {"Erf": _erf, "Gelu": _gelu, "DequantizeLinear": _dequantize, "DynamicQuantizeLinear": _quantize_dynamically}
