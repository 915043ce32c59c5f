"""Devices from YAML: the shipped ones beside this module, and a project's own in suites/devices/."""

from __future__ import annotations

from pathlib import Path

from precreg.errors import UserError, nearest
from precreg.simulate.device import Device
from precreg.yaml_source import read

DEVICES = "suites/devices"
"""The folder of a project's own devices, one file each, named as the device is."""

_SHIPPED = Path(__file__).parent / "devices"


def device_names(project: Path | None) -> list[str]:
    """Return the names of the shipped devices and of a project's own."""
    return sorted(_files(project))


def device_named(name: str, project: Path | None) -> Device:
    """Return the device of that name. Raises UserError: unknown-device, and what reading a table does."""
    files = _files(project)
    if name not in files:
        message = f"expected one of {', '.join(sorted(files))} but got device={name}{nearest(name, files)}"
        raise UserError("unknown-device", message)
    path = files[name]
    shown = path.relative_to(project).as_posix() if project and path.is_relative_to(project) else path.name
    return Device(name, str(read(path, shown).data["about"]))


def _files(project: Path | None) -> dict[str, Path]:
    folders = [_SHIPPED] if project is None else [_SHIPPED, project / DEVICES]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.y*ml"))}
