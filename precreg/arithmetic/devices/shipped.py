"""Devices by name: the shipped tables beside this module, and a project's own in suites/devices/.

The way of values through the places of a device, each with a format of its own, so that every hop can be checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.devices.array import Arithmetic, SimulatedArray, plain_array, simulate_array
from precreg.arithmetic.devices.computation import DeviceArithmetic
from precreg.arithmetic.devices.device import Device, StorageCast, parse_device
from precreg.arithmetic.formats import FORMATS, Rounding, numpy_dtype
from precreg.arithmetic.operations import carrier_dtype
from precreg.arithmetic.rounding import round_to
from precreg.errors import UserError, nearest
from precreg.storage import DEVICES_FOLDER, Source, read_yaml, resolve_inside

_SHIPPED = Path(__file__).parent / "tables"


def device_names(project: Path | None) -> list[str]:
    """Return the names of the shipped devices and of a project's own."""
    return sorted({*_tables(_SHIPPED), *(_tables(project / DEVICES_FOLDER) if project else ())})


def device_named(name: str, project: Path | None = None) -> Device:
    """Return the device of that name, a shipped one or one of the project's own.

    Raises UserError: unknown-device; bad-device for a table that has a shipped device's name, and for two of one name;
    outside-project; and what reading YAML and `device_of` raise.
    """
    if project is not None and (path := _tables(project / DEVICES_FOLDER).get(name)):
        return _own(_only_source(path, project, name), name)
    return _shipped(name, device_names(project))


def device_table_paths(name: str) -> tuple[str, ...]:
    """Return where in a project the table of a device may be, relative to it."""
    return tuple(f"{DEVICES_FOLDER}/{name}{suffix}" for suffix in (".yaml", ".yml"))


def _only_source(path: Path, project: Path, name: str) -> Source:
    """Read a project's own table, which lies inside the project and is the only one of its name."""
    shown = path.relative_to(project).as_posix()
    resolve_inside(project, shown, file=shown)
    other = path.with_suffix(".yml")
    if path != other and other.exists():
        message = f"expected one table of device={name} but got {path.name} and {other.name}"
        raise UserError("bad-device", message, file=shown)
    return read_yaml(path, shown)


def _own(source: Source, name: str) -> Device:
    if name in _tables(_SHIPPED):
        raise source.error("bad-device", f"expected a name that precreg does not ship but got device={name}")
    like = source.data.get("like") if isinstance(source.data, dict) else None
    if like is None:
        return parse_device(source, name, Device(name))
    known = sorted(_tables(_SHIPPED))
    if like not in known:
        message = f"expected one of {', '.join(known)} but got like={like}{nearest(str(like), known)}"
        raise source.error("unknown-device", message, "like")
    return parse_device(source, name, _shipped(like, known))


def _shipped(name: str, known: list[str]) -> Device:
    path = _tables(_SHIPPED).get(name)
    if path is None:
        message = f"expected one of {', '.join(known)} but got device={name}{nearest(name, known)}"
        raise UserError("unknown-device", message)
    return parse_device(read_yaml(path, f"precreg/arithmetic/devices/tables/{path.name}"), name, Device(name))


def _tables(folder: Path) -> dict[str, Path]:
    return {path.stem: path for suffix in (".yml", ".yaml") for path in folder.glob(f"*{suffix}")}


def cast_through_device(x: NDArray[Any], device: Device | str | None = None) -> dict[str, NDArray[Any]]:
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
    values = plain_array(np.asarray(x))
    for hop in found.hops:
        values = _arrived(values, hop, computing)
        places[hop.place] = values if arithmetic is None else simulate_array(values, arithmetic)
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


def _arrived(values: NDArray[Any], hop: StorageCast, arithmetic: Arithmetic) -> NDArray[Any]:
    """Return the values as the next place holds them."""
    if hop.format == FORMATS.get(hop.format.name) and hop.rounding is None:
        dtype = numpy_dtype(hop.format.name)
        return values if values.dtype == dtype else arithmetic.cast(values, dtype)
    wide = carrier_dtype(hop.format)
    held = numpy_dtype(hop.format.name) if hop.format.name in FORMATS else np.dtype(wide)
    read = values if values.dtype == np.float64 else values.astype(wide)
    return round_to(read, hop.format, hop.rounding or Rounding.NEAREST_EVEN).astype(held)
