"""The way of values through the places of a device, each with a format of its own, so that every hop can be checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.arith_operations import carrier
from precreg.arithmetic.arith_rounding import round_to
from precreg.arithmetic.devices.arithmetic import Arithmetic
from precreg.arithmetic.devices.array import SimulatedArray, plain, simulated
from precreg.arithmetic.devices.computing import DeviceArithmetic
from precreg.arithmetic.devices.device import Device, Hop
from precreg.arithmetic.devices.read import device_named
from precreg.arithmetic.formats import FORMATS, numpy_dtype
from precreg.arithmetic.roundings import Rounding


def travel(x: NDArray[Any], device: Device | str | None = None) -> dict[str, NDArray[Any]]:
    """Return the values at each place of a device's chain, by the names of the places, each made from the one before.

    `device` is a device or the name of a shipped one; without it, the one that computes x. A place holds its values in
    the dtype of its format; where no dtype has that name, in float32, or in float64 if float32 lacks some of its
    numbers. Hops are casts of the arithmetic that computes x, so that a fault of casts shows at its hop.

    Raises UserError (unknown-device), and ValueError where no device computes x and none is named, or it has no hops.
    """
    arithmetic = x.arithmetic if isinstance(x, SimulatedArray) else None
    found = _device(device, arithmetic)
    if not found.hops:
        raise ValueError(f"expected a device with hops but got device={found.name}")
    computing = arithmetic or DeviceArithmetic(found)
    places: dict[str, NDArray[Any]] = {}
    values = plain(np.asarray(x))
    for hop in found.hops:
        values = _arrived(values, hop, computing)
        places[hop.place] = values if arithmetic is None else simulated(values, arithmetic)
    return places


def _device(device: Device | str | None, arithmetic: Arithmetic | None) -> Device:
    """Return the device that is named, or the one at the bottom of the layers of an arithmetic."""
    if isinstance(device, Device):
        return device
    if device is not None:
        return device_named(device)
    inner: Any = arithmetic
    while inner is not None and not isinstance(inner, DeviceArithmetic):
        inner = getattr(inner, "inner", None)
    if inner is None:
        raise ValueError("expected the name of a device, or an array that a device computes, but got neither")
    found: Device = inner.device
    return found


def _arrived(values: NDArray[Any], hop: Hop, arithmetic: Arithmetic) -> NDArray[Any]:
    """Return the values as the next place holds them."""
    if hop.format == FORMATS.get(hop.format.name) and hop.rounding is None:
        dtype = numpy_dtype(hop.format.name)
        return values if values.dtype == dtype else arithmetic.cast(values, dtype)
    wide = carrier(hop.format)
    held = numpy_dtype(hop.format.name) if hop.format.name in FORMATS else np.dtype(wide)
    read = values if values.dtype == np.float64 else values.astype(wide)
    return round_to(read, hop.format, hop.rounding or Rounding.NEAREST_EVEN).astype(held)
