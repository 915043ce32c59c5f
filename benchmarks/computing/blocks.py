"""Ways to round float32 rows to formats of blocks with scales and have float32 again; and ourselves.

No package rounds such an array in one call. So the peers choose scales with numpy or torch, as their users write it,
and cast or round the scaled elements.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from computing.roundings import Peer
from precreg.arithmetic import (
    LEAST_SCALE,
    Rounding,
    block_operand_named,
    numpy_dtype,
    round_blocks,
)
from precreg.arithmetic import rounding as forms

BLOCK_NAMES = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp4", "mxint8", "nvfp4", "fp8_1x128")

BLOCK_NATIVE, BLOCK_NATIVE_INTO = "native core", "native core, into memory that is there"
BLOCK_NUMPY = "numpy form"

Array = Any
Call = Callable[[], Array]


def native(values: Array, name: str) -> Call | None:
    """Our core, through round_blocks: a new array."""
    if forms.native_backend() is None:
        return None
    return lambda: round_blocks(values, block_operand_named(name))


def native_into(values: Array, name: str) -> Call | None:
    """Our core alone, writing where something was written before: scales that are powers of two."""
    core, operand = forms.native_backend(), block_operand_named(name)
    if core is None:
        return None
    plan = core.block_plan(operand.element, Rounding.NEAREST_EVEN, operand.rule.value, (-127, 127), operand.length)
    if plan is None:
        return None
    results = core._aligned(values.shape)
    results[...] = 1

    def call() -> Array:
        core._core.round_blocks(values, results, values.shape[-1], plan)
        return results

    return call


def by_numpy_form(values: Array, name: str) -> Call:
    """Our form in numpy."""

    def call() -> Array:
        before = os.environ.get("PRECREG_FORM", "")
        os.environ["PRECREG_FORM"] = "numpy"
        try:
            return round_blocks(values, block_operand_named(name))
        finally:
            os.environ["PRECREG_FORM"] = before

    return call


def _powers(values: Array, name: str) -> tuple[Array, Array]:
    """Return blocks of an array and their scales, as a user of numpy writes the OCP rule."""
    operand = block_operand_named(name)
    blocks = values.reshape(-1, operand.length)
    largest = np.abs(blocks).max(1, keepdims=True)
    exponents = np.maximum(np.frexp(largest)[1] - 1 - operand.element.max_exponent, LEAST_SCALE)
    return blocks, np.ldexp(np.float32(1), exponents)


_CAST = {
    "mxfp8_e4m3": "float8_e4m3fn",
    "mxfp8_e5m2": "float8_e5m2",
    "mxfp6_e3m2": "float6_e3m2fn",
    "mxfp4": "float4_e2m1fn",
}


def by_cast(values: Array, name: str) -> Call | None:
    """Scale with numpy, clip, cast to the dtype of ml_dtypes and back."""
    if name not in _CAST:
        return None
    dtype, largest = numpy_dtype(_CAST[name]), np.float32(block_operand_named(name).element.largest)

    def call() -> Array:
        blocks, scales = _powers(values, name)
        elements = np.clip(blocks / scales, -largest, largest).astype(dtype).astype(np.float32)
        return (elements * scales).reshape(values.shape)

    return call


def by_torch(values: Array, name: str) -> Call | None:
    """Scale, clamp and cast with torch, with one thread."""
    if name not in ("mxfp8_e4m3", "mxfp8_e5m2"):
        return None
    import torch

    torch.set_num_threads(1)
    operand, dtype = block_operand_named(name), getattr(torch, _CAST[name])
    tensor = torch.from_numpy(values)

    def call() -> Array:
        blocks = tensor.reshape(-1, operand.length)
        exponents = torch.frexp(blocks.abs().amax(1, keepdim=True))[1] - 1 - operand.element.max_exponent
        scales = torch.exp2(exponents.clamp(min=LEAST_SCALE).to(torch.float32))
        largest = operand.element.largest
        return (
            ((blocks / scales).clamp(-largest, largest).to(dtype).to(torch.float32) * scales)
            .reshape(tensor.shape)
            .numpy()
        )

    return call


def by_gfloat(values: Array, name: str) -> Call | None:
    """Scale with numpy, and round the elements as the package gfloat does, saturating."""
    from gfloat import formats, round_ndarray

    known = {"mxfp8_e4m3": "ocp_e4m3", "mxfp8_e5m2": "ocp_e5m2", "mxfp6_e3m2": "ocp_e3m2", "mxfp4": "ocp_e2m1"}
    if name not in known:
        return None
    info = getattr(formats, f"format_info_{known[name]}")

    def call() -> Array:
        blocks, scales = _powers(values, name)
        return (round_ndarray(info, blocks / scales, sat=True) * scales).reshape(values.shape)

    return call


BLOCK_WAYS = {
    BLOCK_NATIVE: Peer(native),
    BLOCK_NATIVE_INTO: Peer(native_into),
    BLOCK_NUMPY: Peer(by_numpy_form),
    "numpy and ml_dtypes, astype and back": Peer(by_cast),
    "torch, to and back": Peer(by_torch, "torch"),
    "numpy and gfloat, round_ndarray": Peer(by_gfloat, "gfloat"),
}
