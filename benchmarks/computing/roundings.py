"""Ways to round float32 arrays to a format and have float32 again, each as its users call it; and ourselves.

A way takes an array and the name of a format, and returns a call that gives the rounded array; None where the way does
not know the format.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from precreg.arithmetic import FORMATS, SHORT, Rounding, format_named, numpy_dtype, round_bits
from precreg.arithmetic import rounding as forms

FORMAT_NAMES = ("float32_m20", "bf16", "fp16", "fp8_e4m3fn", "fp8_e5m2")
"""The first as a device has it that truncates, the others to nearest."""

NATIVE, NATIVE_INTO, NUMPY = "native core", "native core, into memory that is there", "numpy form"
PYCHOP = "pychop, Chop"
COPY, COPY_INTO = "memcpy", "memcpy, into memory that is there"
Array = Any
Call = Callable[[], Array]
Way = Callable[[Array, str], Call | None]


def rounding_of(name: str) -> Rounding:
    """Return the rounding that a format is timed with."""
    return Rounding.TOWARD_ZERO if name == "float32_m20" else Rounding.NEAREST_EVEN


def native(values: Array, name: str) -> Call | None:
    """Our core, through what round_to calls: a new array."""
    core, format, rounding = forms.native_backend(), format_named(name), rounding_of(name)
    return None if core is None else lambda: core.round_native(values, format, rounding, 0, 0)


def native_into(values: Array, name: str) -> Call | None:
    """Our core alone, writing where something was written before."""
    core, results = forms.native_backend(), np.ones_like(values)
    if core is None:
        return None
    packed, rounding = core._packed(values.dtype, format_named(name)), core._NUMBERS[rounding_of(name)]

    def call() -> Array:
        core._core.round(values, results, 4, packed, rounding, 0, 0)
        return results

    return call


def by_numpy_form(values: Array, name: str) -> Call:
    """Our form in numpy."""
    return lambda: round_bits(values, format_named(name), rounding_of(name))


def by_cast(values: Array, name: str) -> Call | None:
    """Cast to the dtype, of numpy (float16) or ml_dtypes, and back."""
    name = SHORT.get(name, name)
    if name not in FORMATS:
        return None
    dtype = numpy_dtype(name)
    return lambda: values.astype(dtype).astype(np.float32)


def by_torch(values: Array, name: str) -> Call | None:
    """Cast a tensor that shares the array's memory and cast back, with one thread."""
    import torch

    torch.set_num_threads(1)
    dtype = {"bf16": "bfloat16", "fp16": "float16", "fp8_e4m3fn": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2"}.get(name)
    tensor = torch.from_numpy(values)
    return dtype and (lambda: tensor.to(getattr(torch, dtype)).to(torch.float32).numpy())


def by_gfloat(values: Array, name: str) -> Call | None:
    """Round as the package gfloat does."""
    from gfloat import formats, round_ndarray

    known = {"bf16": "bfloat16", "fp16": "binary16", "fp8_e4m3fn": "ocp_e4m3", "fp8_e5m2": "ocp_e5m2"}
    if name not in known:
        return None
    format = getattr(formats, f"format_info_{known[name]}")
    return lambda: round_ndarray(format, values)


def by_pychop(values: Array, name: str) -> Call | None:
    """Round as the package pychop does."""
    from pychop import Chop

    format, modes = format_named(name), {Rounding.NEAREST_EVEN: 1, Rounding.TOWARD_ZERO: 4}
    exponent_bits = (2 - format.min_exponent).bit_length()
    chop = Chop(exponent_bits, format.precision - 1, modes[rounding_of(name)], subnormal=format.subnormals)
    return lambda: chop(values)


class Peer(NamedTuple):
    """A way, and the package that it needs."""

    prepare: Way
    package: str = "numpy"


WAYS = {
    NATIVE: Peer(native),
    NATIVE_INTO: Peer(native_into),
    NUMPY: Peer(by_numpy_form),
    "numpy or ml_dtypes, astype and back": Peer(by_cast),
    "torch, to and back": Peer(by_torch, "torch"),
    "gfloat, round_ndarray": Peer(by_gfloat, "gfloat"),
    PYCHOP: Peer(by_pychop, "pychop"),
}


def is_missing(peer: Peer) -> bool:
    """Whether a peer's package is not installed."""
    return importlib.util.find_spec(peer.package) is None


def versions() -> str:
    """Return Python's version and that of every package that is there."""
    packages = sorted({"ml_dtypes", *(peer.package for peer in WAYS.values() if not is_missing(peer))})
    return ", ".join([f"Python {sys.version.split()[0]}", *(f"{name} {version(name)}" for name in packages)])
