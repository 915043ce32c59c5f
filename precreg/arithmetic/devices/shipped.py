"""Which device has a name: a shipped table, or a table of the project in suites/devices/?

`cast_through_device` shows the values at each place of a device, so that a case can check every conversion.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from precreg.arithmetic.devices.array import Arithmetic, SimulatedArray, plain_array, simulate_array
from precreg.arithmetic.devices.computation import DeviceArithmetic
from precreg.arithmetic.devices.device import Device, StorageCast, parse_device
from precreg.arithmetic.formats import FORMATS, Rounding, numpy_dtype
from precreg.arithmetic.operations import carrier_dtype
from precreg.arithmetic.rounding import round_to
from precreg.errors import UserError, nearest
from precreg.storage import Array, Source, read_yaml, resolve_inside

# The folder of a project's own devices, with one file NAME.yaml or NAME.yml for each.
DEVICES_FOLDER = "suites/devices"
_SHIPPED = Path(__file__).parent / "tables"


def device_names(project: Path | None) -> list[str]:
    """Return the names of the shipped devices and of a project's own."""
    return sorted({*_tables(_SHIPPED), *(_tables(project / DEVICES_FOLDER) if project else ())})


def device_named(name: str, project: Path | None = None) -> Device:
    """Return the device with this name, of the project or shipped.

    Raises UserError: unknown-device; bad-device for a project's table with the name of a shipped device, and for two
    tables of one name; outside-project; and the errors of reading YAML and of `parse_device`.
    """
    if project is not None and (path := _tables(project / DEVICES_FOLDER).get(name)):
        return _parse_own_device(_read_own_table(path, project, name), name)
    return _read_shipped_device(name, device_names(project))


def device_table_paths(name: str) -> tuple[str, ...]:
    """Return the paths, relative to a project, where the table of a device may be."""
    return tuple(f"{DEVICES_FOLDER}/{name}{suffix}" for suffix in (".yaml", ".yml"))


def _read_own_table(path: Path, project: Path, name: str) -> Source:
    """Read a project's table, which must lie inside the project and be the only one with its name."""
    shown = path.relative_to(project).as_posix()
    # A symbolic link could lead out of the project.
    resolve_inside(project, shown, file=shown)
    other = path.with_suffix(".yml")
    if path != other and other.exists():
        message = f"expected one table of device={name} but got {path.name} and {other.name}"
        raise UserError("bad-device", message, file=shown)
    return read_yaml(path, shown)


def _parse_own_device(source: Source, name: str) -> Device:
    # The name of a shipped device must mean the same in every project.
    if name in _tables(_SHIPPED):
        raise source.error("bad-device", f"expected a name that precreg does not ship but got device={name}")
    like = source.data.get("like") if isinstance(source.data, dict) else None
    if like is None:
        return parse_device(source, name, Device(name))
    # Only shipped devices can be a base, so that tables of a project cannot refer to each other in a circle.
    known = sorted(_tables(_SHIPPED))
    if like not in known:
        message = f"expected one of {', '.join(known)} but got like={like}{nearest(str(like), known)}"
        raise source.error("unknown-device", message, "like")
    return parse_device(source, name, _read_shipped_device(like, known))


def _read_shipped_device(name: str, known: list[str]) -> Device:
    path = _tables(_SHIPPED).get(name)
    if path is None:
        message = f"expected one of {', '.join(known)} but got device={name}{nearest(name, known)}"
        raise UserError("unknown-device", message)
    return parse_device(read_yaml(path, f"precreg/arithmetic/devices/tables/{path.name}"), name, Device(name))


def _tables(folder: Path) -> dict[str, Path]:
    # .yaml comes last and replaces .yml of the same name; _read_own_table then reports the two.
    return {path.stem: path for suffix in (".yml", ".yaml") for path in folder.glob(f"*{suffix}")}


def cast_through_device(x: Array, device: Device | str | None = None) -> dict[str, Array]:
    """Return the values at each place of a device, by the names of the places, each converted from the place before.

    `device` is a device, the name of a shipped device, or None for the device that computes x. A place holds values in
    the dtype of its format. If its format has no dtype, float32 holds them, or float64 if float32 lacks some numbers.

    Raises UserError (unknown-device). Raises ValueError if the device has no places, or if x and `device` name none.
    """
    # The arithmetic of x converts, and not only its device, so that a planted fault of casts shows at its place.
    arithmetic = x.arithmetic if isinstance(x, SimulatedArray) else None
    found = _find_device(device, arithmetic)
    if not found.storage_casts:
        raise ValueError(f"expected a device with hops but got device={found.name}")
    computing = arithmetic or DeviceArithmetic(found)
    places: dict[str, Array] = {}
    values = plain_array(np.asarray(x))
    for storage_cast in found.storage_casts:
        values = _convert_for_place(values, storage_cast, computing)
        places[storage_cast.place] = values if arithmetic is None else simulate_array(values, arithmetic)
    return places


def _find_device(device: Device | str | None, arithmetic: Arithmetic | None) -> Device:
    """Return the named device, or the device below the layers of an arithmetic."""
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


def _convert_for_place(values: Array, storage_cast: StorageCast, arithmetic: Arithmetic) -> Array:
    """Return the values as the next place holds them."""
    format = storage_cast.format
    if format == FORMATS.get(format.name) and storage_cast.rounding is None:
        dtype = numpy_dtype(format.name)
        return values if values.dtype == dtype else arithmetic.cast(values, dtype)
    # No cast of the device has this format or this rounding, so the values are rounded directly.
    wide = carrier_dtype(format)
    storage_dtype = numpy_dtype(format.name) if format.name in FORMATS else np.dtype(wide)
    read = values if values.dtype == np.float64 else values.astype(wide)
    return round_to(read, format, storage_cast.rounding or Rounding.NEAREST_EVEN).astype(storage_dtype)
