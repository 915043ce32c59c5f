"""Devices by name: the shipped tables beside this module, and a project's own in suites/devices/."""

from __future__ import annotations

from pathlib import Path

from precreg.arithmetic.devices.device import Device
from precreg.arithmetic.devices.table import device_of
from precreg.errors import UserError, nearest
from precreg.storage.paths import inside
from precreg.storage.yaml_source import Source, read

DEVICES = "suites/devices"
"""The folder of a project's own devices: one file each, called as the device is."""


_SHIPPED = Path(__file__).parent / "tables"


def device_names(project: Path | None) -> list[str]:
    """Return the names of the shipped devices and of a project's own."""
    return sorted({*_tables(_SHIPPED), *(_tables(project / DEVICES) if project else ())})


def device_named(name: str, project: Path | None = None) -> Device:
    """Return the device of that name, a shipped one or one of the project's own.

    Raises UserError: unknown-device; bad-device for a table that has a shipped device's name, and for two of one name;
    outside-project; and what reading YAML and `device_of` raise.
    """
    if project is not None and (path := _tables(project / DEVICES).get(name)):
        return _own(_only_source(path, project, name), name)
    return _shipped(name, device_names(project))


def table_paths(name: str) -> tuple[str, ...]:
    """Return where in a project the table of a device may be, relative to it."""
    return tuple(f"{DEVICES}/{name}{suffix}" for suffix in (".yaml", ".yml"))


def _only_source(path: Path, project: Path, name: str) -> Source:
    """Read a project's own table, which lies inside the project and is the only one of its name."""
    shown = path.relative_to(project).as_posix()
    inside(project, shown, file=shown)
    other = path.with_suffix(".yml")
    if path != other and other.exists():
        message = f"expected one table of device={name} but got {path.name} and {other.name}"
        raise UserError("bad-device", message, file=shown)
    return read(path, shown)


def _own(source: Source, name: str) -> Device:
    if name in _tables(_SHIPPED):
        raise source.error("bad-device", f"expected a name that precreg does not ship but got device={name}")
    like = source.data.get("like") if isinstance(source.data, dict) else None
    if like is None:
        return device_of(source, name, Device(name))
    known = sorted(_tables(_SHIPPED))
    if like not in known:
        message = f"expected one of {', '.join(known)} but got like={like}{nearest(str(like), known)}"
        raise source.error("unknown-device", message, "like")
    return device_of(source, name, _shipped(like, known))


def _shipped(name: str, known: list[str]) -> Device:
    path = _tables(_SHIPPED).get(name)
    if path is None:
        message = f"expected one of {', '.join(known)} but got device={name}{nearest(name, known)}"
        raise UserError("unknown-device", message)
    return device_of(read(path, f"precreg/arithmetic/devices/tables/{path.name}"), name, Device(name))


def _tables(folder: Path) -> dict[str, Path]:
    return {path.stem: path for suffix in (".yml", ".yaml") for path in folder.glob(f"*{suffix}")}
